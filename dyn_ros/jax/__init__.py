# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The dynamics of robots as functions of arrays of JAX, which JAX differentiates.

Functions have the names of the engine's, and no ``Data``. Arguments are arrays of float64 or
float32, with any leading axes, which broadcast; results are float64 if an argument is, otherwise
float32. All is computed in float64, on the CPU. NaN propagates to the results. A model is static:
``jax.jit`` keeps the one that a function was first called with, whose parameters are read in each
call.

First and second derivatives are available in reverse and forward mode, with ``jax.jit`` and
``jax.vmap``; third derivatives raise a NotImplementedError. ``dyn_ros.torch`` explains
configurations, ``tangent`` and the parameters of robots.

Examples
--------
>>> import jax, jax.numpy as jnp, dyn_ros.jax
>>> norm = lambda q: jnp.sum(dyn_ros.jax.generalized_gravity(model, q) ** 2)
>>> jax.grad(norm)(jnp.zeros(7)).shape
(7,)
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("jax") is None:
    raise ImportError('dyn_ros.jax needs jax; run `pip install "dyn_ros[jax]"`')

from collections.abc import Callable as _Callable
from typing import Concatenate as _Concatenate
from typing import ParamSpec as _ParamSpec
from typing import TypeVar as _TypeVar

from ..differentiable import functions as _functions
from ..differentiable.binding import bind as _bind
from ..differentiable.library import Library as _Library
from .operators import ARRAYS as _ARRAYS

_P = _ParamSpec("_P")
_R = _TypeVar("_R")


def _public(function: _Callable[_Concatenate[_Library, _P], _R]) -> _Callable[_P, _R]:
    """Return a function of the module."""
    return _bind(function, _ARRAYS, __name__)


aba = _public(_functions.aba)
center_of_mass = _public(_functions.center_of_mass)
centroidal_momentum = _public(_functions.centroidal_momentum)
contact_dynamics = _public(_functions.contact_dynamics)
crba = _public(_functions.crba)
forward_kinematics = _public(_functions.forward_kinematics)
frame_jacobian = _public(_functions.frame_jacobian)
frame_placement = _public(_functions.frame_placement)
frame_placements = _public(_functions.frame_placements)
frame_velocity = _public(_functions.frame_velocity)
generalized_gravity = _public(_functions.generalized_gravity)
integrate = _public(_functions.integrate)
joint_friction = _public(_functions.joint_friction)
kinetic_energy = _public(_functions.kinetic_energy)
mechanical_energy = _public(_functions.mechanical_energy)
minverse = _public(_functions.minverse)
nonlinear_effects = _public(_functions.nonlinear_effects)
potential_energy = _public(_functions.potential_energy)
rnea = _public(_functions.rnea)
