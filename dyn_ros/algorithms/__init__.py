"""One file per algorithm: its kernel, and the public function that calls it."""
from .call import precompile
from .rnea import generalized_gravity, nonlinear_effects, rnea, static_torque

__all__ = ["generalized_gravity", "nonlinear_effects", "precompile", "rnea", "static_torque"]
