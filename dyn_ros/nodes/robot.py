# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot description made ready for a node: model, results, output rows, state. No ROS here."""
import math

import numpy as np

import dyn_ros
from dyn_ros import Data, Model

from .state import Refused, StateCollector, some


class SettingError(ValueError):
    """A parameter that does not fit the robot."""

    def __init__(self, parameter, text):
        super().__init__(f"{parameter}: {text}")
        self.parameter = parameter


class Robot:
    """All that belongs to one robot description; a new description is a new Robot.

    Parameters
    ----------
    description : str
        URDF text.
    values : dict
        The node's parameters by name (see `base.SPECS`).
    notify : callable(str), optional
        Told when the state is collected anew.
    payloads : dict, optional
        Those to carry: of each name what `Model.set_payload` takes. Kept up to date by
        `set_payload` and `clear_payload`, and handed to the robot of the next description.

    Attributes
    ----------
    model, data : dyn_ros.Model, dyn_ros.Data
    state, told : StateCollector
        What messages tell, and what a request tells, which is not kept.
    root_link, frame_id : str
        The description's root link; what outputs carry as frame_id.
    moving_base : bool
        Whether the root link moves in the world.
    world_frame : str
        frame_id of what is told in the world; with a fixed base it is that of the root link.
    odometry_frame : str
        frame_id of the latest odometry, in which it tells the base's pose; empty before.
    names, rows : list of str, index
        Of the rows of v (and torques) to publish: `vector[rows]` picks them, in this order.
    position_names, position_rows : list of str, index
        The same for q.
    block : index
        The rows and columns of a matrix (nv, nv) to publish: `matrix[block]`.
    received : float
        When the latest complete state came, by time.perf_counter.
    left_out : list of str
        Why a payload is not on this robot; it waits for one that has its frame.

    Raises
    ------
    dyn_ros.UrdfError
        The description cannot be used.
    SettingError
        A parameter does not fit the robot.
    """

    def __init__(self, description, values, notify=None, payloads=None):
        root_joint = values["root_joint"]
        self.description = description
        self.model = Model.from_urdf(
            description,
            root_joint=None if root_joint == "fixed" else root_joint,
            gravity=values["gravity"],
            mimic=values["mimic"],
            strict=values["strict"])
        self._select(values["joints"])
        self._set_armature(values["armature"])
        self.data = Data(self.model)
        base = None
        if values["base_source"] == "parameter":
            base = (values["base_pose"], values["base_twist"])
        try:
            self.state = StateCollector(self.model, values["staleness"], base, notify)
        except Refused as error:
            raise SettingError("base_pose, base_twist", error) from None
        self.told = StateCollector(self.model, 0.0)
        frames = self.model.tree.frames
        self.root_link = next(frame.name for frame in frames if frame.kind == "body")
        self.frame_id = values["frame_id"] or self.root_link
        self.moving_base = root_joint != "fixed"
        self.odometry_frame = ""
        self._world_frame = values["world_frame"]
        self.received = -math.inf
        self._wanted, self._computed = (), False
        self.payloads = {} if payloads is None else payloads
        self.left_out = []
        for name, body in self.payloads.items():
            try:
                self.model.set_payload(name, *body)
            except ValueError as error:
                self.left_out.append(f"payload {name!r} is left out: {error}")

    def take(self, received, wanted):
        """A complete state came, and of it these of `dyn_ros.Terms` are wanted."""
        self.received, self._wanted, self._computed = received, tuple(wanted), False

    def terms(self):
        """Data that holds what is wanted of the state: computed once, from one kinematics pass.

        What velocities give is without meaning while `state.velocity_known` is False.
        """
        if not self._computed:
            state = self.state
            dyn_ros.all_terms(self.model, self.data, state.q,
                              state.v if state.velocity_known else None, only=self._wanted)
            self._computed = True
        return self.data

    def set_payload(self, name, *body):
        """As `Model.set_payload`, and for the robots to come."""
        self.model.set_payload(name, *body)
        self.payloads[name] = body

    def clear_payload(self, name=None):
        """As `Model.clear_payload`; a payload that was left out too."""
        if name is not None and name not in self.payloads:
            raise Refused(f"no payload named {name!r:.80}; there are: "
                          + (some(list(self.payloads)) or "none"))
        for each in list(self.payloads) if name is None else [name]:
            del self.payloads[each]
            if each in self.model.payloads:
                self.model.clear_payload(each)

    @property
    def world_frame(self):
        if not self.moving_base:
            return self.frame_id
        return self._world_frame or self.odometry_frame or "world"

    def _select(self, joints):
        model = self.model
        own = [name for name, nv in zip(model.joint_names, model.nvs) if nv]
        for name in joints:
            if name in own:
                continue
            if name in model.joint_names:
                raise SettingError("joints", f"'{name}' is a mimic joint, without a row of its own")
            raise SettingError(
                "joints", f"there is no joint '{name}'; there are: " + ", ".join(own))
        if len(set(joints)) != len(joints):
            raise SettingError("joints", "a name occurs twice: " + ", ".join(joints))
        position_rows, rows = [], []
        for name in joints or own:
            joint = model.joint_index(name)
            position_rows += range(model.idx_q[joint], model.idx_q[joint] + model.nqs[joint])
            rows += range(model.idx_v[joint], model.idx_v[joint] + model.nvs[joint])
        self.names = [model.velocity_names[row] for row in rows]
        self.position_names = [model.position_names[row] for row in position_rows]
        self.rows = np.array(rows, np.intp)
        self.position_rows = np.array(position_rows, np.intp)
        self.block = np.ix_(rows, rows)
        if rows == list(range(model.nv)):
            self.rows = self.position_rows = self.block = slice(None)

    def _set_armature(self, armature):
        if not armature:
            return
        if len(armature) != len(self.names):
            raise SettingError("armature", f"expected {len(self.names)} numbers, one for each of "
                               f"{', '.join(self.names)}, but got {len(armature)}")
        if min(armature) < 0.0:
            raise SettingError("armature", f"expected no negative number, but got {armature}")
        values = np.zeros(self.model.nv)
        values[self.rows] = armature
        self.model.armature = values
