# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot description prepared for a node: model, data, output rows, state. Independent of ROS."""
import math

import numpy as np

import dyn_ros
from dyn_ros import Data, Model

from .state import Rejected, StateCollector, abbreviated


class SettingError(ValueError):
    """A parameter that does not fit the robot."""

    def __init__(self, parameter, text):
        super().__init__(f"{parameter}: {text}")
        self.parameter = parameter


class RobotContext:
    """Everything derived from one robot description; each description has its own context.

    Parameters
    ----------
    description : str
        URDF text.
    values : dict
        The node's parameters by name (see `base.SPECS`).
    notify : callable(str), optional
        Called when the collected state is discarded.
    payloads : dict, optional
        By name, the arguments of `Model.set_payload`. Updated by `set_payload` and
        `clear_payload`, and passed to the context of the next description.

    Attributes
    ----------
    model, data : dyn_ros.Model, dyn_ros.Data
    state : StateCollector
        The state from messages.
    root_link, frame_id : str
        The description's root link; the frame_id of outputs.
    moving_base : bool
        Whether the root link moves in the world.
    world_frame : str
        frame_id of quantities expressed in the world; for a fixed base, `frame_id`.
    odometry_frame : str
        frame_id of the latest odometry, in which the base's pose is expressed; initially empty.
    names, rows : list of str, index
        The rows of v (and of torques) to publish: `vector[rows]` selects them, in this order.
    position_names, position_rows : list of str, index
        The same for q.
    block : index
        The rows and columns of a matrix (nv, nv) to publish: `matrix[block]`.
    received : float
        When the latest complete state was received, by time.perf_counter.
    left_out : list of str
        For each payload that is not applied to this robot, the reason. The payload is kept for a
        robot that has its frame.

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
        except Rejected as error:
            raise SettingError("base_pose, base_twist", error) from None
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
                self.left_out.append(f"payload {name!r} is not applied: {error}")

    def begin_state(self, received, wanted):
        """Begin to process a complete state, for which these `dyn_ros.Terms` are required."""
        self.received, self._wanted, self._computed = received, tuple(wanted), False

    def terms(self):
        """Return Data with the terms needed for the state, computed once in one pass.

        Terms that depend on the velocity are meaningless if `state.velocity_known` is False.
        """
        if not self._computed:
            state = self.state
            dyn_ros.all_terms(self.model, self.data, state.q,
                              state.v if state.velocity_known else None, only=self._wanted)
            self._computed = True
        return self.data

    def set_payload(self, name, *body):
        """Call `Model.set_payload`, and keep the payload for later descriptions."""
        self.model.set_payload(name, *body)
        self.payloads[name] = body

    def clear_payload(self, name=None):
        """Call `Model.clear_payload`; also removes a payload that was not applied."""
        if name is not None and name not in self.payloads:
            raise Rejected(f"no payload named {name!r:.80}; available: "
                           + (abbreviated(list(self.payloads)) or "none"))
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
                raise SettingError("joints", f"'{name}' is a mimic joint, without its own row")
            raise SettingError(
                "joints", f"there is no joint '{name}'; available: " + ", ".join(own))
        if len(set(joints)) != len(joints):
            raise SettingError("joints", "duplicate names in " + ", ".join(joints))
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
            raise SettingError("armature", f"expected numbers >= 0, but got {armature}")
        values = np.zeros(self.model.nv)
        values[self.rows] = armature
        self.model.armature = values
