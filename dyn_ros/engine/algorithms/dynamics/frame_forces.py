# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Force that every joint transmits, fixed joints included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...call.algorithm import Algorithm
from ...call.data import Data
from ...kernel import algebra as al
from ...kernel import packing as ly
from ...kernel.fields import F_EXT, JOINT_A, JOINT_F, JOINT_V, LIMI, A, Q, V, field
from ...kernel.types import Array, ArrayLike
from ...kernel.validation import finite_array, require_model
from ...machine_code.declare import kernel
from ...model.frames import frame_number
from ...model.model import Model
from .rnea import TAU, add_force, external_force, newton_euler

FRAME_F = field(
    "frame_f",
    ("nframes", 6),
    "Force and moment that the joint of each frame transmits, expressed in the frame, "
    "at its origin [N, N m].",
)
WRENCHES = field("_wrenches", ("nframes", 6))  # on the link of each frame, expressed in it


@kernel
def force_to_child(X, f):
    """Transform a force from the parent frame to the child frame placed at X."""
    moment = al.sub(f.angular, al.cross(X.translation, f.linear))
    return al.Force(al.rotate_inverse(X.rotation, f.linear), al.rotate_inverse(X.rotation, moment))


@kernel
def link_force(r, n):
    """Force that moves the link of frame n itself, expressed in the joint that moves it."""
    i = ly.frame_parent(r, n)
    v = al.load_motion(r.work, ly.offset(r, JOINT_V) + 6 * i)
    a = al.load_motion(r.work, ly.offset(r, JOINT_A) + 6 * i)
    Y = ly.frame_inertia(r, n)
    f = al.body_force(Y, v, a)
    if ly.has_input(r, WRENCHES):
        wrench = al.load_force(r.work, ly.offset(r, WRENCHES) + 6 * n)
        return al.force_sub(f, al.to_parent(ly.frame_placement(r, n), wrench))
    if ly.has_input(r, F_EXT) and ly.frame_joint(r, n) > 0:
        return al.force_sub(f, external_force(r, ly.frame_joint(r, n)))
    return f


@kernel
def frame_forces_kernel(r):
    newton_euler(r, True, ly.offset(r, TAU))
    f_ = ly.offset(r, FRAME_F)
    ly.clear(r.work, f_, 6 * ly.nframes(r))
    for n in range(ly.nframes(r) - 1, -1, -1):  # in the frames of the joints that move them
        add_force(r, f_ + 6 * ly.connecting_frame(r, n), link_force(r, n))
        above = ly.connecting_frame_above(r, n)
        if above >= 0:
            f = al.load_force(r.work, f_ + 6 * n)
            if ly.frame_joint(r, n) > 0:
                f = al.to_parent(
                    al.load_se3(r.work, ly.offset(r, LIMI) + 16 * ly.frame_joint(r, n)), f
                )
            add_force(r, f_ + 6 * above, f)
    for n in range(ly.nframes(r) - 1, -1, -1):  # links first, which follow their joints
        f = al.load_force(r.work, f_ + 6 * ly.connecting_frame(r, n))
        al.store_spatial(r.work, f_ + 6 * n, force_to_child(ly.frame_placement(r, n), f))


_forces = Algorithm(
    "frame_forces",
    frame_forces_kernel,
    (Q, V, A, F_EXT, WRENCHES),
    (FRAME_F,),
    optional=(F_EXT, WRENCHES),
    also_writes=(TAU, JOINT_V, JOINT_A, JOINT_F),
).caller()


def frame_forces(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    threads: int = 1,
) -> Array:
    """Force that every joint transmits to what it carries, fixed joints included.

    For a joint or a fixed joint, this is the force that moves and supports all links beyond it,
    with their payloads; what a force sensor in this place would measure. For a link, and for frames
    that were added to it, it is the force of the joint that connects the link; for the root link
    without a joint, the force of the ground on the whole robot. As in ``joint_forces``, it includes
    the reaction to gravity, minus external forces. Recursive Newton-Euler algorithm, Featherstone
    (2008), table 5.1, and a sum over links; O(n).

    Parameters
    ----------
    f_ext : dict of str to (6,) array_like, or (njoints, 6) or (B, njoints, 6), optional
        External wrenches (force, moment) [N, N m]: by the name of a frame, on the link of this
        frame, at its origin and expressed in it; or for each joint, on the link that the joint
        connects, before all fixed joints, at the origin of the joint frame and expressed in it.

    Examples
    --------
    What a force sensor at the flange would measure while the arm rests:

    >>> forces = dyn_ros.frame_forces(model, data, q, 0.0 * v, 0.0 * a)
    >>> forces.shape == (model.nframes, 6)
    True
    """
    if isinstance(f_ext, Mapping):
        require_model(model)
        return _forces(
            model, data, threads, q, v, a, model.external_forces(f_ext), _on_frames(model, f_ext)
        )
    return _forces(model, data, threads, q, v, a, f_ext, None)


def frame_force(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    frame: str | int,
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    threads: int = 1,
) -> Array:
    """Force that a joint or a fixed joint transmits to what it carries: ``frame_forces`` of one.

    Also computes ``data.frame_f``, ``data.tau``, ``data.v``, ``data.a_gf`` and ``data.f``.

    Parameters
    ----------
    frame : str or int
        Name or index of the frame of a joint, a fixed joint, or a link.
    f_ext : dict of str to (6,) array_like, or (njoints, 6) or (B, njoints, 6), optional
        External wrenches [N, N m], as for ``frame_forces``.

    Returns
    -------
    (6,) ndarray
        Force and moment, expressed in the frame at its origin [N, N m]. For a single state, part
        of ``data.frame_f``; for a batch, with a leading batch axis.

    Examples
    --------
    >>> force = dyn_ros.frame_force(model, data, q, v, a, "tool").copy()
    >>> np.allclose(force, dyn_ros.frame_forces(model, data, q, v, a)[model.frame_index("tool")])
    True
    """
    n = frame_number(require_model(model), frame)
    return frame_forces(model, data, q, v, a, f_ext, threads=threads)[..., n, :]


def _on_frames(model, wrenches):
    """Wrenches by name as one for each frame, (nframes, 6)."""
    forces = np.zeros((model.nframes, 6))
    for name, wrench in wrenches.items():
        forces[model.frame_index(name)] += finite_array(f"wrench on {name}", wrench, (6,))
    return forces
