# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""One file per algorithm: its kernel, and the public function that calls it."""
from typing import TYPE_CHECKING

from .aba import aba as aba
from .aba_derivatives import aba_derivatives as aba_derivatives
from .aba_second_order import (
    aba_second_order_derivatives as aba_second_order_derivatives,
)
from .algorithm import ALGORITHMS as _ALGORITHMS
from .all_terms import all_terms as all_terms
from .articulated_inertias import articulated_inertias as articulated_inertias
from .bodies import body_momenta as body_momenta
from .bodies import joint_forces as joint_forces
from .centroidal import ccrba as ccrba
from .centroidal import (
    centroidal_momentum_time_derivative as centroidal_momentum_time_derivative,
)
from .centroidal import dccrba as dccrba
from .centroidal_derivatives import centroidal_derivatives as centroidal_derivatives
from .centroidal_derivatives import com_velocity_derivatives as com_velocity_derivatives
from .cholesky import cholesky as cholesky
from .cholesky import cholesky_M_times as cholesky_M_times
from .cholesky import cholesky_solve as cholesky_solve
from .cholesky import cholesky_U_solve as cholesky_U_solve
from .cholesky import cholesky_U_times as cholesky_U_times
from .cholesky import cholesky_Ut_solve as cholesky_Ut_solve
from .cholesky import cholesky_Ut_times as cholesky_Ut_times
from .com import center_of_mass as center_of_mass
from .com import com_jacobian as com_jacobian
from .com import subtree_centers_of_mass as subtree_centers_of_mass
from .com import subtree_com_jacobian as subtree_com_jacobian
from .composites import composite_inertias as composite_inertias
from .constrained_dynamics import constrained_dynamics as constrained_dynamics
from .contact_cholesky import ContactCholesky as ContactCholesky
from .contact_cholesky import contact_cholesky as contact_cholesky
from .contact_cholesky import contact_right_side as contact_right_side
from .contact_derivatives import ContactDerivatives as ContactDerivatives
from .contact_derivatives import (
    contact_dynamics_derivatives as contact_dynamics_derivatives,
)
from .contact_dynamics import contact_dynamics as contact_dynamics
from .contact_inverse import contact_forces as contact_forces
from .contact_inverse import contact_inverse_dynamics as contact_inverse_dynamics
from .contacts import Contact as Contact
from .contacts import ContactForces as ContactForces
from .coriolis import coriolis_matrix as coriolis_matrix
from .crba import crba as crba
from .delassus import contact_jacobian as contact_jacobian
from .delassus import delassus_cholesky as delassus_cholesky
from .delassus import delassus_inverse as delassus_inverse
from .delassus import delassus_matrix as delassus_matrix
from .energy import kinetic_energy as kinetic_energy
from .energy import mechanical_energy as mechanical_energy
from .energy import potential_energy as potential_energy
from .frame_derivatives import (
    frame_acceleration_derivatives as frame_acceleration_derivatives,
)
from .frame_derivatives import frame_velocity_derivatives as frame_velocity_derivatives
from .frame_forces import frame_force as frame_force
from .frame_forces import frame_forces as frame_forces
from .frames import frame_acceleration as frame_acceleration
from .frames import frame_classical_acceleration as frame_classical_acceleration
from .frames import frame_hessian as frame_hessian
from .frames import frame_jacobian as frame_jacobian
from .frames import frame_jacobian_time_variation as frame_jacobian_time_variation
from .frames import frame_velocity as frame_velocity
from .frames import joint_hessian as joint_hessian
from .frames import joint_jacobian as joint_jacobian
from .frames import joint_jacobian_time_variation as joint_jacobian_time_variation
from .friction import joint_friction as joint_friction
from .impulses import ImpulseDerivatives as ImpulseDerivatives
from .impulses import impulse_dynamics as impulse_dynamics
from .impulses import impulse_dynamics_derivatives as impulse_dynamics_derivatives
from .jacobians import joint_jacobians as joint_jacobians
from .jacobians import (
    joint_jacobians_second_time_variation as joint_jacobians_second_time_variation,
)
from .jacobians import joint_jacobians_time_variation as joint_jacobians_time_variation
from .kinematics import accelerations_less_gravity as accelerations_less_gravity
from .kinematics import bias_acceleration as bias_acceleration
from .kinematics import forward_kinematics as forward_kinematics
from .kinematics import frame_placements as frame_placements
from .minverse import minverse as minverse
from .momentum_observer import ObserverState as ObserverState
from .momentum_observer import momentum_observer_step as momentum_observer_step
from .momentum_terms import momentum_terms as momentum_terms
from .normal_equations import NormalEquations as NormalEquations
from .normal_equations import normal_equations as normal_equations
from .operational_space import (
    dynamically_consistent_inverse as dynamically_consistent_inverse,
)
from .operational_space import null_space_projector as null_space_projector
from .operational_space import operational_space_bias as operational_space_bias
from .operational_space import operational_space_inertia as operational_space_inertia
from .precompile import precompile as precompile
from .regressors import joint_torque_regressor as joint_torque_regressor
from .regressors import (
    joint_torque_regressor_product as joint_torque_regressor_product,
)
from .regressors_body import body_regressor as body_regressor
from .regressors_body import frame_body_regressor as frame_body_regressor
from .regressors_body import joint_body_regressor as joint_body_regressor
from .regressors_energy import kinetic_energy_regressor as kinetic_energy_regressor
from .regressors_energy import potential_energy_regressor as potential_energy_regressor
from .regressors_energy import static_regressor as static_regressor
from .regressors_kinematic import frame_kinematic_regressor as frame_kinematic_regressor
from .regressors_kinematic import joint_kinematic_regressor as joint_kinematic_regressor
from .regressors_momentum import (
    momentum_observer_regressor as momentum_observer_regressor,
)
from .regressors_momentum import momentum_regressor as momentum_regressor
from .rnea import generalized_gravity as generalized_gravity
from .rnea import nonlinear_effects as nonlinear_effects
from .rnea import rnea as rnea
from .rnea import static_torque as static_torque
from .rnea_derivatives import (
    generalized_gravity_derivatives as generalized_gravity_derivatives,
)
from .rnea_derivatives import rnea_derivatives as rnea_derivatives
from .rnea_derivatives import static_torque_derivatives as static_torque_derivatives
from .rnea_second_order import (
    rnea_second_order_derivatives as rnea_second_order_derivatives,
)
from .vereshchagin import vereshchagin as vereshchagin

if not TYPE_CHECKING:               # type checkers read the imports above
    __all__ = [*_ALGORITHMS, "Contact", "ContactCholesky", "ContactDerivatives", "ContactForces",
               "ImpulseDerivatives", "NormalEquations", "ObserverState", "body_regressor",
               "cholesky_M_times", "cholesky_U_solve", "cholesky_U_times", "cholesky_Ut_solve",
               "cholesky_Ut_times", "contact_cholesky", "frame_force", "joint_body_regressor",
               "joint_friction", "joint_hessian", "joint_jacobian",
               "joint_jacobian_time_variation", "joint_kinematic_regressor", "precompile"]
    _missing = [name for name in __all__ if name not in globals()]
    if _missing:
        raise ImportError(f"dyn_ros/algorithms/__init__.py does not import "
                          f"{', '.join(_missing)}; add an import for each public function")
