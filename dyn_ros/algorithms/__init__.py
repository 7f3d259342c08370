"""One file per algorithm: its kernel, and the public function that calls it."""
from .aba import aba
from .call import precompile
from .crba import crba
from .minverse import minverse
from .rnea import generalized_gravity, nonlinear_effects, rnea, static_torque

__all__ = ["aba", "crba", "generalized_gravity", "minverse", "nonlinear_effects", "precompile",
           "rnea", "static_torque"]
