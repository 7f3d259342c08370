# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot with compliant motors: it yields to pushes, sags under payloads, and returns.

Each motor applies what inverse dynamics requires for the desired motion, plus the torque of a
spring and a damper between the desired and the actual position. The robot obeys
``M dv + nle + friction = tau + tau_ext``. A time step is implicit in springs, dampers and
friction, which makes it stable for any robot description.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import dyn_ros

from ..engine.kernel.types import Array, ArrayLike
from ..engine.model.model import Model
from ..engine.model.urdf import Joint
from .motion import SineMotion, Steering, coordinate_indices

MAX_TIME_STEP = 0.002  # s, for accuracy
MAX_ADVANCE = 0.1  # s; after a longer interruption, the robot's time has stood still
TEST_LOAD = 0.2  # relative to the robot's weight; at full reach, it deflects joints as below
TEST_ANGLE, TEST_DISTANCE = 0.08, 0.02  # rad, m
MIN_FREQUENCY = 8.0  # rad/s; natural frequency of each joint by itself
MIN_STIFFNESS = 1.0  # N m/rad, N/m
MAX_SPEED = 20.0  # rad/s, m/s; a push does not make joints faster
FRICTION_VELOCITY = 0.05  # rad/s, m/s; Coulomb friction grows linearly up to this speed
RELATIVE_NOISE = 0.01  # deviation of a measured effort / RMS of the effort during the motion


class CompliantRobot:
    """A robot in simulation with a fixed root link; it starts as ``motion.state_at(0.0)``, at rest.

    The motors compensate the dynamics of the model that is passed; the simulated robot, `model`,
    may have payloads that are unknown to them. Arrays are (n,), in the order of `motion.names`, in
    SI units: `effort`, `stiffness` and `damping` are the motors', `noise` is the standard
    deviation of a measured effort.
    """

    def __init__(self, model: Model, motion: SineMotion) -> None:
        self.model = dyn_ros.Model(model.tree)
        self._data = dyn_ros.Data(self.model)
        self._motor_model, self._motor_data = model, dyn_ros.Data(model)
        self._desired_state = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        joints = [model.tree.joints[model.joint_index(name)] for name in motion.names]
        self._idx_q, self._idx_v = coordinate_indices(model, motion.names)
        self._inertia_block = np.ix_(self._idx_v, self._idx_v)
        self._q, self._zero = model.neutral(), np.zeros(model.nv)
        self._v = np.zeros(model.nv)
        self._viscous_friction = model.damping[self._idx_v]
        self._coulomb_friction = model.friction[self._idx_v]
        self._lower = np.array([joint.lower for joint in joints])
        self._upper = np.array([joint.upper for joint in joints])
        self._wrenches: Array | None = None
        self.position, _, _ = motion.state_at(0.0)
        self.velocity = np.zeros(len(joints))
        self.stiffness, self.damping = self._gains(joints)
        self.effort = self._feedforward(*motion.state_at(0.0))
        efforts = [self._feedforward(*motion.state_at(time)) for time in np.arange(0.0, 60.0, 0.5)]
        self.noise = RELATIVE_NOISE * np.sqrt(np.mean([effort**2 for effort in efforts], axis=0))
        self._random = np.random.default_rng(0)

    def push(self, frame: str = "", wrench: ArrayLike | None = None) -> None:
        """Push a link, or another frame, from now on; without a wrench, nothing pushes the robot.

        The wrench acts at the frame's origin, and is expressed in it [N, N m]. Raise a ValueError
        for an unknown frame, or numbers that are not finite; then, the previous push continues.
        """
        self._wrenches = None if wrench is None else self.model.external_forces({frame: wrench})

    def measured_effort(self) -> Array:
        """Return the effort (n,) with measurement noise."""
        return self.effort + self.noise * self._random.standard_normal(len(self.noise))

    def follow(self, steering: Steering, seconds: float) -> None:
        """Advance by a time [s], at most `MAX_ADVANCE`, together with the desired motion."""
        seconds = min(seconds, MAX_ADVANCE)
        steps = math.ceil(seconds / MAX_TIME_STEP)
        for _ in range(steps):
            self.step(seconds / steps, *steering.advance(seconds / steps))

    def step(self, seconds: float, position: Array, velocity: Array, acceleration: Array) -> None:
        """Advance by a short time [s] towards the desired motion (n,) at its end."""
        h, K, D = seconds, self.stiffness, self.damping
        M, bias = self._dynamics()
        friction = self._friction(self.velocity)
        feedforward = self._feedforward(position, velocity, acceleration)
        effort = (
            feedforward
            + K * (position - self.position - h * self.velocity)
            + D * (velocity - self.velocity)
        )
        A = M + np.diag(h * (D + friction) + h * h * K)
        dv = np.linalg.solve(A, h * (effort - friction * self.velocity - bias))
        self._move(h, self.velocity + dv)
        if not np.isfinite(self.position).all():
            self.position, self.velocity = position.copy(), velocity.copy()
        self.effort = feedforward + K * (position - self.position) + D * (velocity - self.velocity)

    def _move(self, seconds: float, velocity: Array) -> None:
        """Set the velocity and advance the position; the joints stop at their limits."""
        velocity = np.clip(velocity, -MAX_SPEED, MAX_SPEED)
        position = self.position + seconds * velocity
        self.position = np.clip(position, self._lower, self._upper)
        self.velocity = np.where(self.position == position, velocity, 0.0)

    def _friction(self, velocity: Array) -> Array:
        """Return the coefficients (n,) of friction, effort divided by velocity."""
        speed = np.maximum(abs(velocity), FRICTION_VELOCITY)
        return self._viscous_friction + self._coulomb_friction / speed

    def _dynamics(self) -> tuple[Array, Array]:
        """Return M (n, n), and nle minus the torques of the push (n,)."""
        self._q[self._idx_q] = self.position
        self._v[self._idx_v] = self.velocity
        M = dyn_ros.crba(self.model, self._data, self._q)[self._inertia_block]
        bias = dyn_ros.rnea(self.model, self._data, self._q, self._v, self._zero, self._wrenches)
        return M, bias[self._idx_v]

    def _feedforward(self, position: Array, velocity: Array, acceleration: Array) -> Array:
        """Return the effort (n,) that the desired motion requires without push and payload."""
        q, v, a = self._desired_state
        q[self._idx_q], v[self._idx_v], a[self._idx_v] = position, velocity, acceleration
        effort = dyn_ros.rnea(self._motor_model, self._motor_data, q, v, a)[self._idx_v]
        return effort + self._friction(velocity) * velocity

    def _gains(self, joints: Sequence[Joint]) -> tuple[Array, Array]:
        """Return stiffness, according to the weight and the reach of the robot, and damping."""
        inertia = np.diag(self._dynamics()[0])
        force = TEST_LOAD * 9.81 * self.model.total_mass
        reach = _joint_reach(self.model)
        is_prismatic = np.array([joint.kind == "prismatic" for joint in joints])
        load = force * np.where(is_prismatic, 1.0, [reach[joint.name] for joint in joints])
        deflection = np.where(is_prismatic, TEST_DISTANCE, TEST_ANGLE)
        stiffness = np.max(
            [
                np.maximum(load, self._coulomb_friction) / deflection,
                inertia * MIN_FREQUENCY**2,
                np.full(len(joints), MIN_STIFFNESS),
            ],
            axis=0,
        )
        return stiffness, 2.0 * np.sqrt(stiffness * inertia)


def _joint_reach(model: Model) -> dict[str, float]:
    """Return an upper bound on the distance from each joint to any frame that it moves [m]."""
    tree = model.tree
    reach = [0.0] * (len(tree.joints) + 1)  # last: the root link
    for frame in tree.frames:
        reach[frame.parent] = max(reach[frame.parent], math.hypot(*frame.placement[:3, 3]))
    for i, joint in reversed(list(enumerate(tree.joints))):
        length = math.hypot(*joint.placement[:3, 3]) + reach[i]
        reach[joint.parent] = max(reach[joint.parent], length)
    return {joint.name: length for joint, length in zip(tree.joints, reach)}
