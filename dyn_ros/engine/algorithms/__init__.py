# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One file per algorithm: its kernel, and the public function that calls it."""

from typing import TYPE_CHECKING

from ..call.algorithm import PUBLIC as _PUBLIC
from .all_terms import all_terms as all_terms
from .centroidal.centroidal import ccrba as ccrba
from .centroidal.centroidal import (
    centroidal_momentum_time_derivative as centroidal_momentum_time_derivative,
)
from .centroidal.centroidal import dccrba as dccrba
from .centroidal.centroidal_derivatives import centroidal_derivatives as centroidal_derivatives
from .centroidal.centroidal_derivatives import com_velocity_derivatives as com_velocity_derivatives
from .centroidal.com import center_of_mass as center_of_mass
from .centroidal.com import com_jacobian as com_jacobian
from .centroidal.com import subtree_centers_of_mass as subtree_centers_of_mass
from .centroidal.com import subtree_com_jacobian as subtree_com_jacobian
from .constrained.constrained_dynamics import constrained_dynamics as constrained_dynamics
from .constrained.vereshchagin import vereshchagin as vereshchagin
from .contacts.contact_cholesky import ContactCholesky as ContactCholesky
from .contacts.contact_cholesky import contact_cholesky as contact_cholesky
from .contacts.contact_cholesky import contact_right_side as contact_right_side
from .contacts.contact_derivatives import ContactDerivatives as ContactDerivatives
from .contacts.contact_derivatives import (
    contact_dynamics_derivatives as contact_dynamics_derivatives,
)
from .contacts.contact_dynamics import contact_dynamics as contact_dynamics
from .contacts.contact_inverse_dynamics import contact_forces as contact_forces
from .contacts.contact_inverse_dynamics import contact_inverse_dynamics as contact_inverse_dynamics
from .contacts.contacts import Contact as Contact
from .contacts.contacts import ContactForces as ContactForces
from .contacts.delassus import contact_jacobian as contact_jacobian
from .contacts.delassus import delassus_cholesky as delassus_cholesky
from .contacts.delassus import delassus_inverse as delassus_inverse
from .contacts.delassus import delassus_matrix as delassus_matrix
from .contacts.impulses import ImpulseDerivatives as ImpulseDerivatives
from .contacts.impulses import impulse_dynamics as impulse_dynamics
from .contacts.impulses import impulse_dynamics_derivatives as impulse_dynamics_derivatives
from .contacts.operational_space import (
    dynamically_consistent_inverse as dynamically_consistent_inverse,
)
from .contacts.operational_space import null_space_projector as null_space_projector
from .contacts.operational_space import operational_space_bias as operational_space_bias
from .contacts.operational_space import operational_space_inertia as operational_space_inertia
from .derivatives.aba_derivatives import aba_derivatives as aba_derivatives
from .derivatives.aba_second_order import (
    aba_second_order_derivatives as aba_second_order_derivatives,
)
from .derivatives.coriolis import coriolis_matrix as coriolis_matrix
from .derivatives.rnea_derivatives import (
    generalized_gravity_derivatives as generalized_gravity_derivatives,
)
from .derivatives.rnea_derivatives import rnea_derivatives as rnea_derivatives
from .derivatives.rnea_derivatives import static_torque_derivatives as static_torque_derivatives
from .derivatives.rnea_second_order import (
    rnea_second_order_derivatives as rnea_second_order_derivatives,
)
from .dynamics.aba import aba as aba
from .dynamics.articulated_inertias import articulated_inertias as articulated_inertias
from .dynamics.cholesky import cholesky as cholesky
from .dynamics.cholesky import cholesky_M_times as cholesky_M_times
from .dynamics.cholesky import cholesky_solve as cholesky_solve
from .dynamics.cholesky import cholesky_U_solve as cholesky_U_solve
from .dynamics.cholesky import cholesky_U_times as cholesky_U_times
from .dynamics.cholesky import cholesky_Ut_solve as cholesky_Ut_solve
from .dynamics.cholesky import cholesky_Ut_times as cholesky_Ut_times
from .dynamics.crba import composite_inertias as composite_inertias
from .dynamics.crba import crba as crba
from .dynamics.frame_forces import frame_force as frame_force
from .dynamics.frame_forces import frame_forces as frame_forces
from .dynamics.friction import joint_friction as joint_friction
from .dynamics.friction import measured_torque as measured_torque
from .dynamics.friction import torque_without_friction as torque_without_friction
from .dynamics.minverse import minverse as minverse
from .dynamics.momenta_and_energy import body_momenta as body_momenta
from .dynamics.momenta_and_energy import joint_forces as joint_forces
from .dynamics.momenta_and_energy import kinetic_energy as kinetic_energy
from .dynamics.momenta_and_energy import mechanical_energy as mechanical_energy
from .dynamics.momenta_and_energy import potential_energy as potential_energy
from .dynamics.momentum_terms import momentum_terms as momentum_terms
from .dynamics.rnea import generalized_gravity as generalized_gravity
from .dynamics.rnea import nonlinear_effects as nonlinear_effects
from .dynamics.rnea import rnea as rnea
from .dynamics.rnea import static_torque as static_torque
from .filters.momentum_observer_step import ObserverState as ObserverState
from .filters.momentum_observer_step import momentum_observer_step as momentum_observer_step
from .kinematics.frame_derivatives import (
    frame_acceleration_derivatives as frame_acceleration_derivatives,
)
from .kinematics.frame_derivatives import frame_velocity_derivatives as frame_velocity_derivatives
from .kinematics.frame_jacobians import frame_hessian as frame_hessian
from .kinematics.frame_jacobians import frame_jacobian as frame_jacobian
from .kinematics.frame_jacobians import (
    frame_jacobian_time_variation as frame_jacobian_time_variation,
)
from .kinematics.frame_jacobians import joint_hessian as joint_hessian
from .kinematics.frame_jacobians import joint_jacobian as joint_jacobian
from .kinematics.frame_jacobians import (
    joint_jacobian_time_variation as joint_jacobian_time_variation,
)
from .kinematics.frame_motion import frame_acceleration as frame_acceleration
from .kinematics.frame_motion import frame_classical_acceleration as frame_classical_acceleration
from .kinematics.frame_motion import frame_velocity as frame_velocity
from .kinematics.jacobians import joint_jacobians as joint_jacobians
from .kinematics.jacobians import (
    joint_jacobians_second_time_variation as joint_jacobians_second_time_variation,
)
from .kinematics.jacobians import joint_jacobians_time_variation as joint_jacobians_time_variation
from .kinematics.kinematics import accelerations_less_gravity as accelerations_less_gravity
from .kinematics.kinematics import bias_acceleration as bias_acceleration
from .kinematics.kinematics import forward_kinematics as forward_kinematics
from .kinematics.kinematics import frame_placements as frame_placements
from .regressors.body import body_regressor as body_regressor
from .regressors.body import frame_body_regressor as frame_body_regressor
from .regressors.body import joint_body_regressor as joint_body_regressor
from .regressors.energy import kinetic_energy_regressor as kinetic_energy_regressor
from .regressors.energy import potential_energy_regressor as potential_energy_regressor
from .regressors.energy import static_regressor as static_regressor
from .regressors.kinematic import frame_kinematic_regressor as frame_kinematic_regressor
from .regressors.kinematic import joint_kinematic_regressor as joint_kinematic_regressor
from .regressors.momentum import momentum_observer_regressor as momentum_observer_regressor
from .regressors.momentum import momentum_regressor as momentum_regressor
from .regressors.normal_equations import NormalEquations as NormalEquations
from .regressors.normal_equations import normal_equations as normal_equations
from .regressors.torque import joint_torque_regressor as joint_torque_regressor
from .regressors.torque import joint_torque_regressor_product as joint_torque_regressor_product

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = _PUBLIC  # grows while modules define public functions

    def __getattr__(name: str) -> object:
        if name in _PUBLIC:
            raise ImportError(
                f"dyn_ros/engine/algorithms/__init__.py does not import {name}; "
                "add an import for each public function"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
