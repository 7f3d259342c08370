"""One file per algorithm: its kernel, and the public function that calls it."""
from .aba import aba as aba
from .call import ALGORITHMS, precompile
from .crba import crba as crba
from .kinematics import accelerations_less_gravity as accelerations_less_gravity
from .kinematics import bias_acceleration as bias_acceleration
from .kinematics import forward_kinematics as forward_kinematics
from .kinematics import frame_placements as frame_placements
from .minverse import minverse as minverse
from .rnea import generalized_gravity as generalized_gravity
from .rnea import nonlinear_effects as nonlinear_effects
from .rnea import rnea as rnea
from .rnea import static_torque as static_torque

__all__ = [*ALGORITHMS, "precompile"]
