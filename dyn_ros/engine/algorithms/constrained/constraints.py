# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The options of a constrained call: tips, policy, priority.

They are stored in a table of integers, which is created once for each combination and cached in
``Data``. The address of the table is an option of the call and holds the table in memory, also
in a part of a batch that runs on after Ctrl-C. Consecutive constraints on the same tip form a run.
"""

import contextlib
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...kernel.names import listed
from ...kernel.types import Array, Scalar
from ...kernel.validation import as_array, finite_number, require_model
from ...kernel.vocabulary import *
from ...model.frames import frame_number
from ..kinematics.root_axes import ROTATION
from .semidefinite import ABSOLUTE, DAMPED, RELATIVE

POLICY, TOLERANCE, OPPOSED, NRUNS, RUNS = range(5)
TIP, AXES, STOP = range(3)  # of a run: frames, index of the next constraint
RUN = 3
EXTERNAL, FEEDFORWARD = 1, 2  # bits of OPPOSED
ROOT_AXES = -1

POLICIES = {  # name -> number, default tolerance
    "relative": (RELATIVE, 1e-12),
    "absolute": (ABSOLUTE, 1e-14),
    "damped": (DAMPED, 1e-6),
}
PRIORITIES = {  # name -> what the constraints oppose
    "constraint": EXTERNAL | FEEDFORWARD,
    "external_force": FEEDFORWARD,
    "feedforward": EXTERNAL,
    "equal": 0,
}
MOST_PER_TIP = 6
Frames: TypeAlias = str | int | Sequence[str | int]
Singularity: TypeAlias = Literal["relative", "absolute", "damped"]
Priority: TypeAlias = Literal["constraint", "external_force", "feedforward", "equal"]
_KEPT = 64  # tables that a Data keeps


@kernel
def setting(r, k):
    """Return integer k of the table."""
    return load(integers_at(option(r, CONSTRAINTS)), k)


@kernel
def tolerance(r):
    """Return the tolerance of the call."""
    return load(floats_at(option(r, CONSTRAINTS)), TOLERANCE)


@kernel
def nruns(r):
    """Return the number of runs, constraints on the same tip."""
    return setting(r, NRUNS)


@kernel
def run_start(r, n):
    """Return the first constraint of run n."""
    return setting(r, RUNS + RUN * (n - 1) + STOP) if n > 0 else 0


@kernel
def run_stop(r, n):
    """Return the end of the constraints of run n."""
    return setting(r, RUNS + RUN * n + STOP)


@kernel
def tip_joint(r, n):
    """Return the joint that moves the tip of run n."""
    return frame_parent(r, setting(r, RUNS + RUN * n + TIP))


@kernel
def tip_translation(r, n):
    """Return the vector from that joint's origin to the tip's origin, expressed in the root frame.

    Reads ROTATION.
    """
    R = rotation(r, ROTATION, tip_joint(r, n))
    return rotate(R, frame_placement(r, setting(r, RUNS + RUN * n + TIP)).translation)


@kernel
def run_axes(r, n):
    """Return the rotation from the frame of the directions of run n to the root frame.

    Reads ROTATION.
    """
    f = setting(r, RUNS + RUN * n + AXES)
    if f == ROOT_AXES:
        return rotation(r, ROTATION, 0)
    R = rotation(r, ROTATION, frame_parent(r, f))
    return product(R, frame_placement(r, f).rotation)


class ConstrainedMotion(NamedTuple):
    """The result of ``vereshchagin`` and ``constrained_dynamics``; see there.

    For a single state, the arrays are views of ``Data``, which the next call overwrites; for a
    batch, new arrays with a leading batch axis.
    """

    ddq: Array
    nu: Array
    constraint_torques: Array
    total_torque: Array
    constraint_generalized_forces: Array
    link_accelerations: Array
    rank: Scalar


def as_motion(results: Sequence) -> ConstrainedMotion:
    """Convert the results of a kernel to the public result."""
    ddq, nu, constraint, total, forces, accelerations, rank = results
    return ConstrainedMotion(
        ddq,
        nu,
        constraint,
        total,
        forces,
        accelerations,
        rank.astype(int) if isinstance(rank, np.ndarray) else int(rank),
    )


class ConstraintTable(int):
    """The address of the integers that a kernel reads; it keeps them in memory while it exists."""

    numbers: NDArray[np.int64]


def _choice(name, value, known):
    try:
        return known[value]
    except (KeyError, TypeError):
        raise ValueError(
            f"{name}: expected {listed(known, write=repr)}, got {value!r:.80}"
        ) from None


def moving_frames(model):
    """The names of the frames that a joint moves, for an error."""
    return listed(known.name for known in model.tree.frames if known.parent >= 0)


def moving_index(model, name, frame):
    index = frame_number(model, frame, name)
    if model.tree.frames[index].parent < 0:
        raise ValueError(f"{name}: no joint moves {frame!r}; available: {moving_frames(model)}")
    return index


def _for_each(name, frames, m):
    """Return a frame for each of m constraints."""
    if not isinstance(frames, tuple):
        return [frames] * m
    if len(frames) != m:
        raise ValueError(
            f"{name}: expected one frame, or one for each of the {m} constraints, got {len(frames)}"
        )
    return frames


def table(model, name, tip, axes, m, singularity, tolerance, priority):
    """Build the table of options for a kernel, int64 (n,); its tolerance is stored as a float64.

    ``tip`` and ``axes`` are frames, one for all m constraints or one for each; None is the root
    frame. ``name`` is what errors call ``tip``.
    """
    policy, usual = _choice("singularity", singularity, POLICIES)
    opposed = _choice("priority", priority, PRIORITIES)
    if tolerance is not None and tolerance < 0.0:
        raise ValueError(f"tolerance: expected a number >= 0, got {tolerance}")
    tips = [moving_index(model, name, frame) for frame in _for_each(name, tip, m)]
    turns = [
        ROOT_AXES if frame is None else frame_number(model, frame, "axes")
        for frame in _for_each("axes", axes, m)
    ]
    runs: list[tuple[int, ...]] = []
    for k, run in enumerate(zip(tips, turns)):
        if tips.count(run[TIP]) > MOST_PER_TIP:
            raise ValueError(
                f"{name}: expected at most {MOST_PER_TIP} constraints on a tip, got "
                f"{tips.count(run[TIP])} on {model.frame_names[run[TIP]]!r}"
            )
        if runs and runs[-1][:STOP] == run:
            runs.pop()
        runs.append((*run, k + 1))
    numbers = np.array([policy, 0, opposed, len(runs), *np.ravel(runs)], np.int64)
    numbers[TOLERANCE : TOLERANCE + 1].view(np.float64)[0] = (
        usual if tolerance is None else tolerance
    )
    return numbers


def _hashable(frames):
    """Convert several frames to a tuple."""
    if isinstance(frames, str):
        return frames
    try:
        return tuple(frames)
    except TypeError:  # one index, or None
        return frames


def constraint_table(model, data, name, tip, axes, directions, singularity, tolerance, priority):
    """The table of a call, from ``Data`` or new, and its directions (name, value) as an array."""
    # The call reports a Data of another model.
    kept = data._packed_constraints if getattr(data, "model", None) is model else {}
    argument, array = directions
    if type(array) is np.ndarray:
        with contextlib.suppress(KeyError, TypeError, IndexError):
            return kept[tip, axes, array.shape[-1], singularity, tolerance, priority], array
    array, _ = as_array(require_model(model), argument, (6, "constraints"), array)
    if tolerance is not None:
        tolerance = finite_number("tolerance", tolerance)
    key = (_hashable(tip), _hashable(axes), array.shape[-1], singularity, tolerance, priority)
    with contextlib.suppress(KeyError, TypeError):
        return kept[key], array
    numbers = table(model, name, *key)
    if len(kept) >= _KEPT:
        kept.clear()
    new = kept[key] = ConstraintTable(numbers.ctypes.data)
    new.numbers = numbers
    return new, array
