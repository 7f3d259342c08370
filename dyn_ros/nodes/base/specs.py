# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The parameters that all nodes with a robot have."""
from rclpy.parameter import Parameter

from dyn_ros.states.joint_states import STALENESS

from . import lifecycle
from .parameters import Spec

SPECS = (
    *lifecycle.SPECS,
    Spec("max_rate", 0.0, "Publish at most this often [Hz], except for ~/markers; 0: every "
         "state.", limits=(0.0, 1e5)),
    Spec("root_joint", "fixed", "How the root link moves in the world.",
         choices=("fixed", "floating", "planar"), robot=True),
    Spec("gravity", [0.0, 0.0, -9.81], "Gravity in the world frame [m/s2].", size=3,
         limits=(-1e6, 1e6), robot=True),
    Spec("mimic", "project", "Mimic joints follow their master, or are free joints.",
         choices=("project", "ignore"), robot=True),
    Spec("strict", False, "Reject a robot description that causes warnings.", robot=True),
    Spec("joints", Parameter.Type.STRING_ARRAY,
         "Joints to publish, in this order; empty: all, in the order of the model.", robot=True),
    Spec("armature", Parameter.Type.DOUBLE_ARRAY,
         "Rotor inertia for each published row [kg m2, kg]; empty: none.", robot=True),
    Spec("locked_joints", Parameter.Type.STRING_ARRAY,
         "Joints to treat as fixed, each as name=position [rad, m], or the name alone: where "
         "joint_states has it when it is locked.", robot=True),
    Spec("include_friction", False,
         "Include damping and Coulomb friction of the joints, as specified in the robot "
         "description, in nle of ~/state and in the efforts of ~/get_inverse_dynamics and "
         "~/get_trajectory_efforts.", robot=True),
    Spec("frame_id", "", "frame_id of published messages; empty: the root link.", robot=True),
    Spec("world_frame", "",
         "frame_id of quantities expressed in the world, for a floating or planar base; empty: the "
         "frame_id of odom, or world.", robot=True),
    Spec("staleness", STALENESS,
         "Largest difference between stamps within one state, and largest age of the state used "
         "by a service [s].", limits=(1e-3, 3600.0), robot=True),
    Spec("base_source", "odometry",
         "Source of the pose and twist of a floating or planar base: the topic odom, or the "
         "parameters base_pose and base_twist.",
         choices=("odometry", "parameter"), robot=True),
    Spec("base_pose", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
         "Pose of the base in the world: x y z [m], qx qy qz qw.", size=7, robot=True),
    Spec("base_twist", [0.0] * 6,
         "Twist of the base, expressed in the base frame: linear [m/s], angular [rad/s].", size=6,
         robot=True),
)
