# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot that reports its joints as the driver of a real one does, with known truth.

    true = dyn_ros.Model.from_urdf(xml)                 # the robot; what its driver reports:
    true.drives = dyn_ros.Drives.of(6, gain=GAINS, is_compensated=True)
    driver = SimulatedDriver(true, ORDER, rate=500.0, jitter=1e-4)
    node = launched(start, "ros2 launch dyn_ros observer.launch.py drives:=ur5e.drives.yaml")
    driver.connect(client, node, xml)                   # xml: on the topic robot_description
    expected = driver.run(1.0, {"tool0": [0, 0, -20]})  # pushed; external efforts by name

`record` writes the same messages to a bag. The drives on a page are not used here: `true.drives`
says independently what the real driver reports.
"""

import shlex
import time
from pathlib import Path

import numpy as np
from geometry_msgs.msg import Point, Pose, Quaternion
from nav_msgs.msg import Odometry
from sensor_msgs.msg import JointState
from std_msgs.msg import String

import dyn_ros
from dyn_ros.nodes.base.lifecycle import DESCRIPTION_QOS

from .launching import nodes_of


def launched(start, command):
    """Start the node of a launch file as a command does, with the fixture `start`.

    Each test has a namespace of its own; `node.subspace` is the namespace in the command.
    """
    file, *arguments = shlex.split(command.removeprefix("ros2 launch dyn_ros "))
    [node] = nodes_of(file, dict(argument.split(":=", 1) for argument in arguments))
    path, values = node["parameters"]
    rules = [word for rule in node["remappings"] for word in ("-r", ":=".join(rule))]
    started = start(
        "--params-file",
        path,
        *rules,
        module=f"dyn_ros.nodes.{node['executable']}",
        **{"robot_description_file": None, **values},
    )
    started.subspace = node["namespace"]
    return started


class SimulatedDriver:
    """Publishes the states of a robot that swings about a posture.

    `names` are the joints in the driver's order; those that `true` lacks are reported as zeros.
    Stamps are late by up to `jitter` [s], as on a host. Efforts have `noise` in their own
    unit, are multiples of `step`, and are held for `held` messages. What drives compensate is the
    gravity of `known`, by default of `true`. `feet` carry a floating base, which is at rest.
    """

    def __init__(
        self,
        true,
        names=None,
        *,
        topic="joint_states",
        rate=500.0,
        jitter=0.0,
        noise=0.0,
        step=0.0,
        held=1,
        posture=None,
        swing=0.2,
        known=None,
        feet=(),
    ):
        self.true, self.known, self.feet = true, known or true, feet
        self._data, self._known_data = dyn_ros.Data(true), dyn_ros.Data(self.known)
        self._base = 6 * (true.nvs[0] == 6)
        self.names = list(names or true.velocity_names[self._base :])
        self.topic, self.rate, self.jitter = topic, rate, jitter
        self.noise, self.step, self.held = noise, step, held
        self.posture = true.neutral() if posture is None else np.asarray(posture, float)
        self.swing = swing * (np.arange(true.nv) >= self._base)
        self.time = self.began = time.time()
        self._count, self._random = 0, np.random.default_rng(0)

    def motion(self, when):
        """Return position, velocity and acceleration at a time [s]."""
        rate = 0.9 * np.arange(1, self.true.nv + 1) ** 0.5
        phase = rate * (when - self.began)
        return (
            self.true.integrate(self.posture, self.swing * np.sin(phase)),
            self.swing * rate * np.cos(phase),
            -self.swing * rate**2 * np.sin(phase),
        )

    def efforts(self, when, forces=None):
        """Return the efforts that the driver reports, (nv,), and the external efforts, (nv,).

        `forces` act on frames, in world axes [N], or [N, N m].
        """
        q, v, a = self.motion(when)
        free, drives = dyn_ros.rnea(self.true, self._data, q, v, a).copy(), self.true.drives
        external = np.zeros(self.true.nv)
        for frame, force in (forces or {}).items():
            external += self._jacobian(q, frame)[: len(force)].T @ np.asarray(force, float)
        if self.feet:  # the least forces that carry the base
            J = np.vstack([self._jacobian(q, foot)[:3] for foot in self.feet])
            external += J.T @ np.linalg.lstsq(J[:, :6].T, (free - external)[:6], rcond=None)[0]
        tau = free - external
        tau += dyn_ros.joint_friction(self.true, v, tau) + drives.offset
        tau -= drives.is_compensated * dyn_ros.generalized_gravity(self.known, self._known_data, q)
        return drives.to_motors(tau) / drives.gain, external

    def _jacobian(self, q, frame):
        axes = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return dyn_ros.frame_jacobian(self.true, self._data, q, frame, axes).copy()

    def states(self, seconds, forces=None):
        """Yield the stamp [ns], positions, velocities and efforts of each message."""
        rows = {name: row for row, name in enumerate(self.true.velocity_names)}
        for _ in range(round(seconds * self.rate)):
            self.time += 1.0 / self.rate
            q, v, _ = self.motion(self.time)
            if self._count % self.held == 0:
                late = self.true.drives.delay.max(initial=0.0)
                effort, self.external = self.efforts(self.time - late, forces)
                effort = effort + self.noise * self._random.standard_normal(len(effort))
                self._effort = np.round(effort / self.step) * self.step if self.step else effort
            self._count += 1
            yield (
                round((self.time + self.jitter * self._random.random()) * 1e9),
                *(
                    [float(values[rows[name]]) if name in rows else 0.0 for name in self.names]
                    for values in (q[self._base > 0 :], v, self._effort)
                ),
            )

    def connect(self, client, node, xml=None):
        """Publish to a node from now on; `xml` is the description, if the driver publishes it."""
        space = f"{node.subspace}/" if node.subspace else ""
        assert self.topic == f"{space}joint_states", "the node does not subscribe to this topic"
        self._client = client
        self._states = client.publisher(JointState, node.topic("joint_states"))
        if xml is not None:
            client.publisher(
                String,
                node.topic("robot_description"),
                reliability=DESCRIPTION_QOS.reliability,
                durability=DESCRIPTION_QOS.durability,
            ).publish(String(data=xml))
        if self._base:
            self._odometry = client.publisher(Odometry, node.topic("odom"))
        if xml is not None:  # joints may be locked where they stand
            client.wait(
                lambda: node.node.robot is not None,
                node.output,
                again=lambda: self.run(1.0 / self.rate),
            )

    def run(self, seconds, forces=None):
        """Publish for some time of the robot; return the external efforts at its end, by name."""
        for stamp, q, v, effort in self.states(seconds, forces):
            message, base = JointState(name=self.names, position=q, velocity=v, effort=effort), None
            if self._base:
                x, y, z, *turn = self.posture[:7].tolist()
                base = Odometry(child_frame_id=self.true.tree.frames[1].name)
                base.pose.pose = Pose(
                    position=Point(x=x, y=y, z=z), orientation=Quaternion(**dict(zip("xyzw", turn)))
                )
            for each, publisher in ((base, "_odometry"), (message, "_states")):
                if each:
                    each.header.stamp.sec, each.header.stamp.nanosec = divmod(stamp, 10**9)
                    getattr(self, publisher).publish(each)
            self._client.settle()
        return dict(zip(self.true.velocity_names, self.external.tolist()))

    def errors(self, client, nodes):
        """The RMS external efforts that each of the nodes publishes in 4 s, (nodes, joints)."""
        errors = []
        for node in nodes:
            self.connect(client, node)
            efforts = client.listen(JointState, node.name + "/external_efforts")
            self.run(4.0)
            errors.append(
                np.sqrt(np.mean([np.square(message.effort) for message in efforts], axis=0))
            )
            client.stop_listening()
        return np.array(errors)

    def record(self, folder, seconds, forces=None):
        """Write a bag as `ros2 bag record -s mcap -o FOLDER` does."""
        from logs.recorded import JointState as Fields
        from logs.recorded import Sent, write_mcap

        Path(folder).mkdir()
        write_mcap(
            Path(folder) / f"{Path(folder).name}_0.mcap",
            (
                Sent(f"/{self.topic}", stamp, Fields(self.names, *values, stamp))
                for stamp, *values in self.states(seconds, forces)
            ),
        )
