# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of observer_node, and the frames that they denote."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rclpy.parameter import Parameter

from ..states.joint_states import abbreviated
from .base.parameters import Spec
from .messages.frames import axes_link, coinciding_link
from .robot import RobotContext, SettingError, blamed_on
from .services import observer as observer_services

POSITIVE = (1e-12, 1e12)
SPECS = (
    Spec("method", "momentum",
         "momentum: first-order observer of the generalized momentum. direct: measured effort "
         "minus inverse dynamics, with accelerations from differences. kalman: disturbance Kalman "
         "filter with the noise in the parameters noise.*.",
         choices=("momentum", "direct", "kalman")),
    Spec("gain", 100.0, "Bandwidth of momentum and direct for all joints, and of ~/residual "
         "[1/s]; see also smoothing.", limits=(1e-3, 1e5)),
    Spec("smoothing", 100.0, "Bandwidth of a second low pass after that of the gain [1/s], which "
         "attenuates the noise of velocities; 0: none. Not used by kalman. A step is seen to 59 % "
         "after 1 / gain + 1 / smoothing.", limits=(0.0, 1e5)),
    Spec("joint_gains", Parameter.Type.DOUBLE_ARRAY,
         "Gain for each published row instead [1/s]; empty: gain.", limits=(1e-3, 1e5)),
    Spec("friction", True, "Whether the friction in the robot description and in drives is part "
         "of the model."),
    Spec("friction_velocity", 0.0,
         "Speed below which Coulomb friction is proportional to the velocity [rad/s, m/s]; about "
         "the noise of the velocities. A larger one in drives counts.", limits=(0.0, 1e3)),
    Spec("effort_constant", Parameter.Type.DOUBLE_ARRAY,
         "Factor from the effort in joint_states to the effort at the joint, for each published "
         "row or one for all, such as the torque constant times the gear ratio if it is a current, "
         "in addition to the gain in drives; empty: 1.", limits=(-1e9, 1e9)),
    Spec("effort_delay", 0.0, "By how much the efforts lag behind positions and velocities [s], "
         "in addition to the delay in drives; negative: they lead.", limits=(-1.0, 1.0)),
    Spec("max_gap", 0.2, "Largest time between two states; after a longer one, and after one "
         "longer than 10 ms and five usual periods, the observer restarts [s].",
         limits=(1e-4, 60.0)),
    Spec("noise.torque", Parameter.Type.DOUBLE_ARRAY,
         "For kalman: standard deviation of the efforts, for each published row or one for all "
         "[N m, N]; empty: 0.5.", limits=POSITIVE),
    Spec("noise.velocity", Parameter.Type.DOUBLE_ARRAY,
         "For kalman: standard deviation of the velocities [rad/s, m/s]; empty: 0.001.",
         limits=POSITIVE),
    Spec("noise.disturbance", Parameter.Type.DOUBLE_ARRAY,
         "For kalman: standard deviation of the change of external efforts in one second [N m, N]; "
         "empty: 1.", limits=POSITIVE),
    Spec("noise.external", Parameter.Type.DOUBLE_ARRAY,
         "Standard deviation of the external efforts of an untouched robot, for each published row "
         "or one for all [N m, N], by which efforts are weighted in wrenches and contacts; set by "
         "~/calibrate; empty: a third of the thresholds, or that of kalman.", limits=POSITIVE),
    Spec("thresholds.fixed", Parameter.Type.DOUBLE_ARRAY,
         "Threshold of the external effort at rest, for each published row or one for all joints "
         "[N m, N]; empty: those of thresholds.relative.", limits=(0.0, 1e12)),
    Spec("thresholds.per_speed", Parameter.Type.DOUBLE_ARRAY,
         "Added for each rad/s or m/s [N m s, N s/m]; empty: 0.", limits=(0.0, 1e12)),
    Spec("thresholds.at_rest", Parameter.Type.DOUBLE_ARRAY,
         "Added at rest, less at speeds up to 0.05 rad/s or m/s [N m, N]; empty: the friction at "
         "rest of the model.", limits=(0.0, 1e12)),
    Spec("thresholds.relative", 0.05,
         "Threshold relative to the effort limit in the robot description.", limits=(0.0, 1e3)),
    Spec("thresholds.unlimited", 5.0,
         "Threshold of joints without an effort limit [N m, N].", limits=(0.0, 1e12)),
    Spec("tip_frame", "", "Link, joint or fixed joint at whose origin ~/external_wrench acts; "
         "empty: the last link, if the robot has only one chain."),
    Spec("wrench_axes", "", "Link, joint, fixed joint or the world, in whose axes "
         "~/external_wrench is expressed; empty: tip_frame."),
    Spec("contact_averaging", 0.2,
         "Time over which force and line of action in ~/contacts are averaged once the external "
         "efforts of a contact have settled [s]; 0: each state by itself.", limits=(0.0, 60.0)),
    Spec("damping", 0.01, "Lever arm below which forces are damped in ~/external_wrench, because "
         "their torques are small [m].", limits=(1e-6, 100.0)),
    *observer_services.SPECS,
)
RESTARTING = frozenset({"method", "gain", "joint_gains", "smoothing", "friction",
                        "friction_velocity", "effort_constant", "effort_delay", "max_gap",
                        "noise.torque", "noise.velocity", "noise.disturbance"})


def tip(robot: RobotContext, name: str) -> str:
    """Return the frame in the parameter tip_frame, or the last link of a single chain."""
    model = robot.model
    if name:
        with blamed_on("tip_frame"):
            index = model.frame_index(name)
        if model.tree.frames[index].parent < 0:
            raise SettingError("tip_frame", f"no joint moves {name!r}; specify a frame that moves")
        return name
    parents = [joint.parent for joint in model.tree.joints]
    if len(set(parents)) < len(parents) or not parents:
        raise SettingError("tip_frame", "the robot has several branches: specify a frame, one of "
                           + abbreviated(model.frame_names))
    return next(frame.name for frame in reversed(model.tree.frames) if frame.kind == "body")


def place(robot: RobotContext, values: Mapping[str, Any]) -> tuple[int, int | None]:
    """Return the frames where the wrench acts and in whose axes it is; None: the world."""
    frame = tip(robot, values["tip_frame"])
    link = axes_link(robot, "wrench_axes", values["wrench_axes"]) if values["wrench_axes"] else (
        coinciding_link(robot.model, frame))
    return (robot.model.frame_index(frame),
            None if link is None else robot.model.frame_index(link))
