# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Decides whether the inertia matrix of a robot is singular, and creates the error message.

Kernels eliminate the velocities one by one, from the tips. The pivot of velocity k is the inertia
that the joint moves while its descendants are free. Compiled code only detects pivots that may
have lost their significant digits. They are recomputed here as twice the kinetic energy of that
motion, which is a sum of squares without cancellation.
"""

from typing import Any, NamedTuple

import numpy as np

from ..kernel.lie import cross
from ..kernel.types import Array
from ..model.configuration import GROUPS, joint_motion, position
from ..model.coordinates import is_linear
from ..model.model import Model

_ROUNDING = 2e-15  # relative size of a pivot below which a kernel has no significant digits
_CHUNK = 256  # states at a time, which limits the memory for their Jacobians


class _Pivot(NamedTuple):
    """The first velocity from the tips whose pivot is not positive."""

    velocity: int
    inertia: float  # the pivot [kg m2] or [kg]
    locked: float  # inertia with the descendants locked
    rounding: float  # rounding error of kernels
    negative: float  # the part of the pivot that is from negative moments


def raise_if_singular(name: str, model: Model, q: Array) -> None:
    """Raise a LinAlgError if a pivot that a kernel reported is singular, for q (nq,) or (B, nq).

    It names the public function, and the first joint from the tips whose acceleration the torques
    do not determine.
    """
    q = np.atleast_2d(q)
    for start in range(0, len(q), _CHUNK):
        pivot = _first_singular(model, q[start : start + _CHUNK])
        if pivot:
            raise np.linalg.LinAlgError(f"{name}: {_error_message(model, pivot)}")


def _error_message(model: Model, pivot: _Pivot) -> str:
    """Return the error message, with a remedy."""
    joint, (_, inertia, locked, rounding, opposite) = (
        repr(model.velocity_names[pivot.velocity]),
        pivot,
    )
    unit = "kg" if is_linear(model)[pivot.velocity] else "kg m2"
    effect = "so its acceleration is not determined"
    physical = "correct the inertias of the links that it moves, which are not physical"
    negative = [
        f"{name!r}: {x:g}" for name, x in zip(model.velocity_names, model.armature) if x < 0.0
    ]
    if inertia < -rounding:
        why, remedy = f"moves a negative inertia, {inertia:.3g} {unit}", physical
    elif opposite < -rounding and not negative:
        why, remedy = f"moves no inertia: {opposite:.2g} {unit} in it are negative", physical
    else:
        why = "moves no inertia"
        if locked > 0.0:
            remaining = max(inertia, 0.0)
            why += (
                f": of the {locked:.2g} {unit} that it moves with locked descendants, "
                f"{remaining:.2g} {unit} remain if they are free, which is a rounding error"
            )
        remedy = "add a mass and an inertia to the link that it moves, or set model.armature for it"
    if negative:
        remedy = f"model.armature is negative ({', '.join(negative)}); set it to 0 or more"
    return f"{joint} {why}, {effect}; {remedy}"


def _first_singular(model: Model, q: Array) -> _Pivot | None:
    """Return the ``_Pivot`` of the first velocity that is singular, from the tips on, or None.

    Gram-Schmidt orthogonalization of the momenta of the velocities, each done twice. ``roots``
    contains square roots of the bodies' inertias; ``signs`` specifies which are imaginary.
    """
    with np.errstate(all="ignore"):
        roots, signs, sizes = _roots_of_inertia(model, q)
        flows, motions = np.zeros_like(roots), np.zeros((len(q), model.nv, model.nv))
        pivots = np.ones((len(q), model.nv, 1))
        for k in range(model.nv - 1, -1, -1):
            flow, motion = roots[..., k : k + 1], np.zeros((len(q), model.nv, 1))
            motion[:, k] = 1.0
            for _ in range(2):
                share = flows.swapaxes(-1, -2) @ (signs * flow) / pivots
                flow, motion = flow - flows @ share, motion - motions @ share
            terms = signs * flow * flow
            inertia, opposite = terms.sum(1), np.minimum(terms, 0.0).sum(1)
            rounding = _ROUNDING * np.sum((sizes * motion * motion)[:, k:], 1)
            finite = np.isfinite(inertia) & np.isfinite(rounding)  # others result in NaN
            bad = (finite & ~(inertia > rounding))[:, 0]
            if bad.any():
                n = int(np.argmax(bad))
                return _Pivot(
                    k, *(float(x[n, 0]) for x in (inertia, sizes[:, k], rounding, opposite))
                )
            flows[..., k : k + 1], motions[..., k : k + 1], pivots[:, k] = flow, motion, inertia
    return None


def _roots_of_inertia(model: Model, q: Array) -> tuple[Array, Array, Array]:
    """Return G and s with M = G' diag(s) G, and the size of M's diagonal without cancellation.

    The rows of G belong to the armature, the centers of mass of the bodies, and the rotations
    about their principal axes. The sizes, (B, nv, 1), are those of the terms that kernels sum:
    expressed in world axes, about each body's joint, and with all moments positive.
    """
    jacobians, rotations = _compute_body_jacobians(model, q)
    armature = np.broadcast_to(np.diag(np.sqrt(abs(model.armature))), (len(q), model.nv, model.nv))
    roots, signs, sizes = [armature], [np.sign(model.armature)], np.sum(armature**2, 1)
    for inertia, J, R in zip(model.inertias, jacobians, rotations, strict=True):
        linear, angular = J[:, :3], J[:, 3:]
        mass, com = inertia.mass, np.asarray(inertia.com)
        about_com = np.asarray(inertia.rotational)
        principal, axes = np.linalg.eigh(about_com)
        at_com = linear - cross(com, angular.swapaxes(-1, -2)).swapaxes(-1, -2)
        terms = axes * abs(principal) @ axes.T + mass * (com @ com * np.eye(3) - np.outer(com, com))
        roots += [np.sqrt(mass) * at_com, np.sqrt(abs(principal))[:, None] * (axes.T @ angular)]
        signs += [np.ones(3), np.sign(principal)]
        diagonal = np.einsum("bij,jk,bik->bi", R, terms, R)
        sizes = sizes + np.sum(
            mass * (R @ linear) ** 2 + diagonal[..., None] * (R @ angular) ** 2, 1
        )
    return np.concatenate(roots, 1), np.concatenate(signs)[:, None], sizes[..., None]


def _compute_body_jacobians(model: Model, q: Array) -> tuple[list[Array], list[Array]]:
    """Return each body's Jacobian, (B, 6, nv), in the joint frame, and rotation, (B, 3, 3)."""
    jacobians: list[Array] = []
    rotations: list[Array] = []
    for i, joint in enumerate(model.tree.joints):
        X = joint.placement @ joint_motion(joint, position(model, i, q))
        R, p = X[:, :3, :3], X[:, :3, 3]
        J = np.zeros((len(q), 6, model.nv))
        if joint.parent >= 0:
            parent, back = jacobians[joint.parent], R.swapaxes(-1, -2)
            arms = cross(parent[:, 3:].swapaxes(-1, -2), p[:, None]).swapaxes(-1, -2)
            J[:, :3], J[:, 3:] = back @ (parent[:, :3] + arms), back @ parent[:, 3:]
            R = rotations[joint.parent] @ R
        S = _motion_subspace(joint)
        J[..., model.idx_v[i] : model.idx_v[i] + S.shape[1]] += S
        jacobians.append(J)
        rotations.append(R)
    return jacobians, rotations


def _motion_subspace(joint: Any) -> Array:
    """Return the motion subspace, (6, n), expressed in the joint frame."""
    if joint.kind in GROUPS:
        return np.eye(6)[:, GROUPS[joint.kind].components]
    S = np.zeros((6, 1))
    S[: 3 if joint.kind == "prismatic" else 6, 0][-3:] = joint.axis
    return S * (joint.mimic.multiplier if joint.mimic else 1.0)
