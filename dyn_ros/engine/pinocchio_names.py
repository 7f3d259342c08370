# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions of Pinocchio, and what replaces them; see docs/migration/pinocchio.md."""

from __future__ import annotations

import re
from collections.abc import Collection

_OTHER_NAMES = {
    "buildModelFromUrdf": "Model.from_urdf_file",
    "buildModelFromXML": "Model.from_urdf",
    "buildReducedModel": "Model.reduced",
    "appendModel": "Model.append",
    "JointModelSpherical": "Model.append",
    "computeTotalMass": "Model.total_mass",
    "nonLinearEffects": "nonlinear_effects",
    "framesForwardKinematics": "frame_placements",
    "updateFramePlacements": "frame_placements",
    "getVelocity": "forward_kinematics",
    "getAcceleration": "forward_kinematics",
    "jacobianCenterOfMass": "com_jacobian",
    "jacobianSubtreeCenterOfMass": "subtree_com_jacobian",
    "computeCentroidalMap": "ccrba",
    "computeCentroidalMomentum": "ccrba",
    "computeCentroidalMomentumTimeVariation": "centroidal_momentum_time_derivative",
    "computeSupportedForceByFrame": "frame_force",
    "getPointVelocityDerivatives": "frame_velocity_derivatives",
    "getPointClassicAccelerationDerivatives": "frame_acceleration_derivatives",
    "getCenterOfMassVelocityDerivatives": "com_velocity_derivatives",
    "computeCentroidalDynamicsDerivatives": "centroidal_derivatives",
    "getJointKinematicHessian": "joint_hessian",
    "getFrameKinematicHessian": "frame_hessian",
    "XYZQUATToSE3": "SE3.from_quaternion",
    "SE3ToXYZQUAT": "SE3.as_quaternion",
    "exp6": "SE3.exp",
    "log6": "SE3.log",
    "Jexp6": "SE3.jexp",
    "Jlog6": "SE3.jlog",
    "LogCholeskyParameters": "from_log_cholesky",
    "constraintDynamics": "contact_dynamics",
    "ProximalSettings": "contact_dynamics",
    "computeConstraintDynamicsDerivatives": "contact_dynamics_derivatives",
    "computeDelassusMatrix": "delassus_matrix",
    "getConstraintsJacobian": "contact_jacobian",
}
"""Functions of the module pinocchio whose names differ by more than `snake_case`."""


def snake_case(name: str) -> str:
    """Return a name of Pinocchio in snake_case, without a leading compute or get."""
    name = re.sub(r"^(compute|get)(?=[A-Z])", "", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def find_equivalent(name: str, functions: Collection[str], methods: Collection[str]) -> str:
    """Return the function or the method of a model for a name of Pinocchio, or ""."""
    if name in _OTHER_NAMES:
        return f"dyn_ros.{_OTHER_NAMES[name]}"
    if (own_name := snake_case(name)) in functions:
        return f"dyn_ros.{own_name}"
    return f"dyn_ros.Model.{own_name}" if own_name in methods else ""
