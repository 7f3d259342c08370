# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Force that every joint transmits, fixed joints included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...call.algorithm import algorithm, public
from ...call.caller import BatchOptions
from ...call.data import Data
from ...kernel.types import Array, ArrayLike, OutArrays
from ...kernel.validation import finite_array, require_model
from ...kernel.vocabulary import *
from ...model.frames import frame_number
from ...model.model import Model
from .rnea import TAU, external_force, newton_euler

FRAME_F = field(
    "frame_f",
    ("nframes", 6),
    "Force and moment that the joint of each frame transmits, expressed in the frame, "
    "at its origin [N, N m].",
)
WRENCHES = field("_wrenches", ("nframes", 6))  # wrench on each link, expressed in its frame


@kernel
def link_force(r, n):
    """Return the force that moves the link of frame n itself, expressed in the joint that moves it.

        f = Y a + v x* Y v - f_ext          Y of the link alone; v, a of the joint that moves it

    Reads F_EXT, JOINT_V, JOINT_A, WRENCHES.
    """
    i = frame_parent(r, n)
    v = motion(r, JOINT_V, i)
    a = motion(r, JOINT_A, i)
    Y = frame_inertia(r, n)
    f = body_force(Y, v, a)
    if has_input(r, WRENCHES):
        wrench = force(r, WRENCHES, n)
        return force_sub(f, force_to_parent(frame_placement(r, n), wrench))
    if has_input(r, F_EXT) and frame_joint(r, n) > 0:
        return force_sub(f, external_force(r, frame_joint(r, n)))
    return f


@kernel
def frame_forces_kernel(r):
    """Compute the force that each frame transmits, expressed in the frame.

        f = Y a + v x* Y v - f_ext + sum of the forces on the frames that it carries

    Reads Q, V, A, F_EXT, WRENCHES; writes LIMI, JOINT_V, JOINT_A, JOINT_F, TAU, FRAME_F.
    """
    newton_euler(r, True, TAU)
    clear_entries(r, FRAME_F, size(r, FRAME_F))
    for n in range(nframes(r) - 1, -1, -1):  # expressed in the moving joint's frame
        add_to_force(r, FRAME_F, connecting_frame(r, n), link_force(r, n))
        above = connecting_frame_above(r, n)
        if above >= 0:
            f = force(r, FRAME_F, n)
            if frame_joint(r, n) > 0:
                f = force_to_parent(placement(r, LIMI, frame_joint(r, n)), f)
            add_to_force(r, FRAME_F, above, f)
    for n in range(nframes(r) - 1, -1, -1):  # links first, which follow their joints
        f = force(r, FRAME_F, connecting_frame(r, n))
        set_force(r, FRAME_F, n, force_to_child(frame_placement(r, n), f))


@algorithm(
    frame_forces_kernel,
    inputs=(Q, V, A, F_EXT, WRENCHES),
    results=(FRAME_F,),
    optional=(F_EXT, WRENCHES),
    also_writes=(TAU, JOINT_V, JOINT_A, JOINT_F),
)
def frame_forces(
    model: Model,
    data: Data,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    f_ext: ArrayLike | Mapping[str, ArrayLike] | None = None,
    *,
    threads: int = 1,
    out: OutArrays | None = None,
) -> Array:
    """Compute the force that each joint, fixed joints included, transmits to its links.

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
        return frame_forces.call(
            model,
            data,
            threads if out is None else BatchOptions(threads, out),
            q,
            v,
            a,
            model.external_forces(f_ext),
            _forces_on_frames(model, f_ext),
        )
    return frame_forces.call(
        model, data, threads if out is None else BatchOptions(threads, out), q, v, a, f_ext, None
    )


@public
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
    """Compute the force that one joint or fixed joint transmits to its links.

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


def _forces_on_frames(model: Model, wrenches: Mapping[str, ArrayLike]) -> Array:
    """Return wrenches by name as one for each frame, (nframes, 6)."""
    forces = np.zeros((model.nframes, 6))
    for name, wrench in wrenches.items():
        forces[model.frame_index(name)] += finite_array(f"wrench on {name}", wrench, (6,))
    return forces
