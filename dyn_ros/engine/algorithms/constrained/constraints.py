# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The options of a constrained call: tips, policy, priority.

They are stored in an array of integers, which is created once for each combination and cached in
``Data``. Its address is an option of the call and holds the array in memory, also in a part of a
batch that runs on after Ctrl-C. Consecutive constraints on the same tip form a run.
"""

import contextlib
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...call.data import Data
from ...kernel.names import join_names, short_repr
from ...kernel.types import Array, ArrayLike, Scalar
from ...kernel.validation import as_array, finite_number, require_model
from ...kernel.vocabulary import *
from ...model.frames import frame_number
from ...model.model import Model
from ..kinematics.world_axes import ROTATION
from .semidefinite import ABSOLUTE, DAMPED, RELATIVE

POLICY, TOLERANCE, OPPOSED, NRUNS, RUNS = range(5)
"""Indices of the integers; RUNS is the first integer of the runs."""
TIP, AXES, STOP = range(3)
"""Indices of the integers of a run: two frames, end of the constraints."""
RUN = 3  # integers of a run
EXTERNAL, FEEDFORWARD = 1, 2  # bits of OPPOSED
ROOT_AXES = -1

POLICIES = {  # number, default tolerance
    "relative": (RELATIVE, 1e-12),
    "absolute": (ABSOLUTE, 1e-14),
    "damped": (DAMPED, 1e-6),
}
PRIORITIES = {  # bits of the forces that the constraints oppose
    "constraint": EXTERNAL | FEEDFORWARD,
    "external_force": FEEDFORWARD,
    "feedforward": EXTERNAL,
    "equal": 0,
}
MAX_PER_TIP = 6
Frames: TypeAlias = str | int | Sequence[str | int]
Singularity: TypeAlias = Literal["relative", "absolute", "damped"]
Priority: TypeAlias = Literal["constraint", "external_force", "feedforward", "equal"]
MAX_CACHED_OPTIONS = 64  # entries per Data


@kernel
def integer_setting(r, k):
    """Return integer k of the options, such as ``POLICY``."""
    return load(integers_at(option(r, CONSTRAINTS)), k)


@kernel
def rank_tolerance(r):
    """Return the tolerance of the call."""
    return load(floats_at(option(r, CONSTRAINTS)), TOLERANCE)


@kernel
def nruns(r):
    """Return the number of runs, constraints on the same tip."""
    return integer_setting(r, NRUNS)


@kernel
def run_start(r, n):
    """Return the first constraint of run n."""
    return integer_setting(r, RUNS + RUN * (n - 1) + STOP) if n > 0 else 0


@kernel
def run_stop(r, n):
    """Return the end of the constraints of run n."""
    return integer_setting(r, RUNS + RUN * n + STOP)


@kernel
def tip_joint(r, n):
    """Return the joint that moves the tip of run n."""
    return frame_parent(r, integer_setting(r, RUNS + RUN * n + TIP))


@kernel
def tip_translation(r, n):
    """Return the vector from the joint of tip n to the tip's origin, expressed in world axes.

        p = R t

    Reads ROTATION.
    """
    R = rotation(r, ROTATION, tip_joint(r, n))
    return rotate(R, frame_placement(r, integer_setting(r, RUNS + RUN * n + TIP)).translation)


@kernel
def run_axes(r, n):
    """Return the rotation from the axes of the directions of run n to world axes.

        R = R_joint R_frame

    Reads ROTATION.
    """
    f = integer_setting(r, RUNS + RUN * n + AXES)
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


def as_constrained_motion(results: Sequence) -> ConstrainedMotion:
    """Return the public result of a kernel's results."""
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


class ConstraintOptions(int):
    """Address of the integers that a kernel reads, which it keeps in memory while it exists."""

    numbers: NDArray[np.int64]


def _find_choice(name: str, value: object, choices: dict[str, Any]) -> Any:
    """Return the entry of a choice by name, or raise a ValueError."""
    try:
        return choices[value]  # type: ignore[index]
    except (KeyError, TypeError):
        raise ValueError(
            f"{name}: expected {join_names(choices, write=repr)}, got {short_repr(value)}"
        ) from None


def moving_frames(model: Model) -> str:
    """Return the names of the frames that a joint moves, for an error."""
    return join_names(frame.name for frame in model.tree.frames if frame.parent >= 0)


def moving_index(model: Model, name: str, frame: str | int) -> int:
    """Return the index of a frame that a joint moves, or raise a ValueError."""
    index = frame_number(model, frame, name)
    if model.tree.frames[index].parent < 0:
        raise ValueError(f"{name}: no joint moves {frame!r}; available: {moving_frames(model)}")
    return index


def _frame_of_each_constraint(name: str, frames: Any, m: int) -> Sequence[Any]:
    """Return a frame for each of m constraints."""
    if not isinstance(frames, tuple):
        return [frames] * m
    if len(frames) != m:
        raise ValueError(
            f"{name}: expected one frame, or one for each of the {m} constraints, got {len(frames)}"
        )
    return frames


def pack_options(
    model: Model,
    name: str,
    tip: Frames | None,
    axes: Frames | None,
    m: int,
    singularity: Singularity,
    tolerance: float | None,
    priority: Priority,
) -> NDArray[np.int64]:
    """Return the options for a kernel, int64 (n,); the tolerance is stored as a float64.

    ``tip`` and ``axes`` are frames, one for all m constraints or one for each; None is the
    world. ``name`` is the name of ``tip`` in errors.
    """
    policy, default_tolerance = _find_choice("singularity", singularity, POLICIES)
    opposed = _find_choice("priority", priority, PRIORITIES)
    if tolerance is not None and tolerance < 0.0:
        raise ValueError(f"tolerance: expected a number >= 0, got {tolerance}")
    tips = [moving_index(model, name, frame) for frame in _frame_of_each_constraint(name, tip, m)]
    axes_frames = [
        ROOT_AXES if frame is None else frame_number(model, frame, "axes")
        for frame in _frame_of_each_constraint("axes", axes, m)
    ]
    runs: list[tuple[int, ...]] = []
    for k, run in enumerate(zip(tips, axes_frames)):
        if tips.count(run[TIP]) > MAX_PER_TIP:
            raise ValueError(
                f"{name}: expected at most {MAX_PER_TIP} constraints on a tip, got "
                f"{tips.count(run[TIP])} on {model.frame_names[run[TIP]]!r}"
            )
        if runs and runs[-1][:STOP] == run:
            runs.pop()
        runs.append((*run, k + 1))
    numbers = np.array([policy, 0, opposed, len(runs), *np.ravel(runs)], np.int64)
    numbers[TOLERANCE : TOLERANCE + 1].view(np.float64)[0] = (
        default_tolerance if tolerance is None else tolerance
    )
    return numbers


def _as_hashable(frames: Any) -> Any:
    """Return several frames as a tuple, others unchanged."""
    if isinstance(frames, str):
        return frames
    try:
        return tuple(frames)
    except TypeError:  # one index, or None
        return frames


def constraint_options(
    model: Model,
    data: Data,
    name: str,
    tip: Frames,
    axes: Frames | None,
    directions: tuple[str, ArrayLike],
    singularity: Singularity,
    tolerance: float | None,
    priority: Priority,
) -> tuple[ConstraintOptions, Array]:
    """Return the options of a call, from ``Data`` or new, and its directions as an array.

    ``directions`` are the name of the argument and its value, ``name`` is the name of ``tip``.
    """
    # The call reports a Data of another model.
    cache = data._packed_constraints if getattr(data, "model", None) is model else {}
    argument, array = directions
    if type(array) is np.ndarray:
        with contextlib.suppress(KeyError, TypeError, IndexError):
            return cache[tip, axes, array.shape[-1], singularity, tolerance, priority], array
    array, _ = as_array(require_model(model), argument, (6, "constraints"), array)
    if tolerance is not None:
        tolerance = finite_number("tolerance", tolerance)
    key = (_as_hashable(tip), _as_hashable(axes), array.shape[-1], singularity, tolerance, priority)
    with contextlib.suppress(KeyError, TypeError):
        return cache[key], array
    numbers = pack_options(model, name, *key)
    if len(cache) >= MAX_CACHED_OPTIONS:
        cache.clear()
    options = cache[key] = ConstraintOptions(numbers.ctypes.data)
    options.numbers = numbers
    return options, array
