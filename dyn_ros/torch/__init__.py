# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The dynamics of robots as functions of torch tensors, which torch differentiates.

Functions have the names of the engine's, and no ``Data``. Arguments are tensors in the memory of
the CPU, of float64 or float32, with any leading axes, which broadcast; results are float64 if an
argument is, otherwise float32. All is computed in float64. NaN propagates to the results.

First and second derivatives are available in reverse and forward mode, also within ``torch.func``
and ``torch.compile``; third derivatives raise a NotImplementedError.

**Configurations.** Quaternions in q need not be normalized. The gradient with respect to q, (...,
nq), belongs to the function of the normalized configuration. With
``tangent=True``, its first nv numbers are the gradient in the tangent space, as the engine's
derivatives have it, and the others are zero.

**Parameters.** Arguments such as ``inertial_parameters`` take the place of the model's constants,
and can be differentiated. They are keywords, so that a dict of them can be passed with ``**``:

    inertial_parameters : (..., njoints, 10), as ``model.inertial_parameters``
    armature : (..., nv), as ``model.armature``
    gravity : (..., 3), as ``model.gravity``
    joint_placements : (..., njoints, 4, 4), as ``model.joint_placements``; rotations are projected
        onto the nearest ones

Examples
--------
>>> import torch, dyn_ros.torch
>>> q = torch.zeros(7, requires_grad=True)
>>> dyn_ros.torch.generalized_gravity(model, q).square().sum().backward()
>>> q.grad.shape
torch.Size([7])
"""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    raise ImportError('dyn_ros.torch needs torch; run `pip install "dyn_ros[torch]"`')

from collections.abc import Callable as _Callable
from typing import Concatenate as _Concatenate
from typing import ParamSpec as _ParamSpec
from typing import TypeVar as _TypeVar

from ..differentiable import functions as _functions
from ..differentiable.binding import bind as _bind
from ..differentiable.library import Library as _Library
from .compilation import compilable as _compilable
from .operators import TENSORS as _TENSORS

_P = _ParamSpec("_P")
_R = _TypeVar("_R")


def _public(function: _Callable[_Concatenate[_Library, _P], _R]) -> _Callable[_P, _R]:
    """Return a function of the module."""
    return _compilable(_bind(function, _TENSORS, __name__))


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
