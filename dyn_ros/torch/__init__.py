# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The dynamics of robots as functions of torch tensors, which torch differentiates.

Functions have the names of the engine's, and no ``Data``. Arguments are tensors in the memory of
the CPU, of float64 or float32, with any leading axes, which broadcast; results are float64 if an
argument is, otherwise float32. All is computed in float64. NaN propagates to the results.

First and second derivatives are available in reverse and forward mode, also within ``torch.func``
and ``torch.compile``; third derivatives raise a NotImplementedError.

**Configurations.** Quaternions in q need not be normalized. The gradient with respect to q, (...,
nq), is that of the function of the configuration with normalized quaternions. With
``tangent=True``, its first nv numbers are the gradient in the tangent space, as the engine's
derivatives have it, and the others are zero.

**Parameters.** Arguments such as ``inertial_parameters`` take the place of the model's constants,
and can be differentiated. They are keywords, so that a dict of them can be passed with ``**``:

    inertial_parameters : (..., njoints, 10), as ``model.inertial_parameters``
    armature : (..., nv), as ``model.armature``
    gravity : (..., 3), as ``model.gravity``
    joint_placements : (..., njoints, 4, 4), as ``joint_placements(model)``; rotations are projected
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

from ..differentiable import functions as _functions
from ..differentiable.binding import bind as _bind
from .operators import TENSORS as _TENSORS

aba = _bind(_functions.aba, _TENSORS, __name__)
center_of_mass = _bind(_functions.center_of_mass, _TENSORS, __name__)
centroidal_momentum = _bind(_functions.centroidal_momentum, _TENSORS, __name__)
contact_dynamics = _bind(_functions.contact_dynamics, _TENSORS, __name__)
crba = _bind(_functions.crba, _TENSORS, __name__)
forward_kinematics = _bind(_functions.forward_kinematics, _TENSORS, __name__)
frame_jacobian = _bind(_functions.frame_jacobian, _TENSORS, __name__)
frame_placement = _bind(_functions.frame_placement, _TENSORS, __name__)
frame_placements = _bind(_functions.frame_placements, _TENSORS, __name__)
frame_velocity = _bind(_functions.frame_velocity, _TENSORS, __name__)
generalized_gravity = _bind(_functions.generalized_gravity, _TENSORS, __name__)
integrate = _bind(_functions.integrate, _TENSORS, __name__)
joint_friction = _bind(_functions.joint_friction, _TENSORS, __name__)
kinetic_energy = _bind(_functions.kinetic_energy, _TENSORS, __name__)
mechanical_energy = _bind(_functions.mechanical_energy, _TENSORS, __name__)
minverse = _bind(_functions.minverse, _TENSORS, __name__)
nonlinear_effects = _bind(_functions.nonlinear_effects, _TENSORS, __name__)
potential_energy = _bind(_functions.potential_energy, _TENSORS, __name__)
rnea = _bind(_functions.rnea, _TENSORS, __name__)
