# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds of external efforts from recordings in which nothing touches the robot."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..observer.contacts import Contact, contacts_in
from ..observer.thresholds import (
    LEAST_NOISE,
    SHORTEST,
    SLOW,
    CalibratedThresholds,
    calibrate_thresholds,
    calibrated_parameters,
    friction_at_rest,
)
from ..recordings.formats.sources import open_source
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import plan
from ..recordings.recording import Recording
from ..recordings.selection import select
from ..states.joint_states import States
from .effort_checks import constant_effort_warnings, effort_unit_warnings
from .quantities import independent_joints, observe
from .quantity_settings import CalibrationOptions, QuantitySettings
from .velocities import velocity_notes, with_computed_velocities

_FASTEST = 100.0  # gain [1/s]
_PER_SAMPLE = 0.1  # of the change of momentum in a sampling period is seen as external if
# efforts and velocities are apart by one: gain times period
_STRETCHES = 8  # that are held out in turn
_LEAST_MOTION = 1.0  # s
_NOISY = 1.5  # times the threshold without measured velocities
_HEADER = """\
# Parameters of observer_node for {name}, also for `dyn_ros log --thresholds`.
# Arrays have a number for each of {joints}.
# thresholds.at_rest is added to thresholds.fixed.
"""
_OF_RATES = """\
# Velocities that were measured were not used: pass --no-velocity to `dyn_ros log`, too. The node
# has other velocities.
"""


class Undisturbed(NamedTuple):
    """The states of a recording with valid external efforts."""

    path: Path
    time: Array  # [s], from its first state on
    external: Array  # (n, nv)
    speed: Array  # (n, nv), as it lags behind the velocity like the external efforts


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Thresholds, the settings of the observer that they belong to, and alarms.

    ``contained`` are alarms in the recordings themselves, ``held_out`` those in stretches of which
    the thresholds knew nothing, of ``seconds`` in total; by the path of the recording. ``warnings``
    are what contradicts efforts that are torques.
    """

    names: tuple[str, ...]
    thresholds: CalibratedThresholds
    settings: QuantitySettings
    contained: list[tuple[Path, Contact]]
    held_out: list[tuple[Path, Contact]]
    seconds: float
    warnings: list[str]


def calibrate(
    model: Model, paths: Sequence[Path], options: CalibrationOptions, **request: Any
) -> Calibration:
    """Calibrate thresholds, and check them on stretches that are held out in turn.

    Below ``SLOW``, where thresholds allow for friction in any direction, friction is proportional
    to the velocity: its error is then at most the friction.
    """
    read = [(path, _read(model, path, request)) for path in paths]
    parts = [(path, part.own) for path, part in read]
    dt = float(np.median(np.concatenate([1e-9 * np.diff(states.stamp) for _, states in parts])))
    usual = min(_FASTEST, _PER_SAMPLE / dt)
    gain = usual if options.gain is None else options.gain
    if gain * dt >= 1.0:
        raise ValueError(
            f"gain: expected less than the sampling rate of the recordings, "
            f"{1.0 / dt:.4g}/s, got {gain:g}; the default is {usual:.3g}"
        )
    settings = dataclasses.replace(
        options.settings,
        gain=gain,
        smoothing=gain if options.smoothing is None else options.smoothing,
        friction_velocity=SLOW,
        calibrated=independent_joints(model),
    )
    free = [_observed(model, path, states, settings) for path, states in parts]
    friction = friction_at_rest(model)
    speed = np.concatenate([one.speed for one in free])
    moves = speed > SLOW
    moving = dt * np.count_nonzero(moves.any(axis=1))
    if moving < _LEAST_MOTION:
        raise ValueError(
            f"in these recordings joints move faster than {SLOW:g} rad/s or m/s for {moving:.3g} s "
            "only; record motions such as those in which contacts will be detected"
        )
    warnings = [f"{path}: {text}" for path, part in read for text in part.problems]
    warnings += [
        f"{path}: {text}"
        for path, states in parts
        for text in (
            *constant_effort_warnings(model, states),
            *velocity_notes(model, states, settings),
            *effort_unit_warnings(model, states, settings),
        )
    ]
    still = [model.velocity_names[k] for k in np.flatnonzero(~moves.any(axis=0))]
    if still:
        warnings.append(
            f"{', '.join(still)}: never faster than {SLOW:g} rad/s or m/s, so these "
            "thresholds are for rest only; record motions of all joints"
        )

    def thresholds(stretches: Sequence[Undisturbed]) -> CalibratedThresholds:
        return calibrate_thresholds(
            np.concatenate([one.external for one in stretches]),
            np.concatenate([one.speed for one in stretches]),
            dt,
            options.false_alarms,
            friction=friction,
        )

    def alarms(limits: CalibratedThresholds, one: Undisturbed) -> list[tuple[Path, Contact]]:
        return [
            (one.path, alarm)
            for alarm in contacts_in(
                one.time, one.external, limits.of(one.speed), model.velocity_names
            )
        ]

    limits = thresholds(free)
    if settings.velocity is None and any(np.isfinite(states.v).any() for _, states in parts):
        with contextlib.suppress(ValueError):  # the filter leaves too little
            rates = dataclasses.replace(settings, velocity=False)
            warnings += _of_velocities(
                model,
                limits,
                thresholds([_observed(model, path, states, rates) for path, states in parts]),
                speed,
            )
    stretches, held_out, seconds = _stretches(free), [], 0.0
    for k, one in enumerate(stretches):
        others = stretches[:k] + stretches[k + 1 :]
        if dt * sum(len(other.time) for other in others) >= SHORTEST:
            held_out += alarms(thresholds(others), one)
            seconds += dt * len(one.time)
    return Calibration(
        tuple(model.velocity_names),
        limits,
        settings,
        [alarm for one in free for alarm in alarms(limits, one)],
        held_out,
        seconds,
        warnings,
    )


def _of_velocities(
    model: Model, limits: CalibratedThresholds, others: CalibratedThresholds, speed: Array
) -> list[str]:
    """A warning if thresholds without measured velocities, the others, are much smaller."""
    with_measured, without = (np.median(found.of(speed), axis=0) for found in (limits, others))
    ratio = with_measured / np.maximum(without, LEAST_NOISE)
    names = [f"{model.velocity_names[k]} ({ratio[k]:.2g})" for k in np.flatnonzero(ratio > _NOISY)]
    return (
        [
            "measured velocities are noisy or late; the thresholds of these joints are so many "
            "times those with velocities that are computed from the positions (--no-velocity, "
            f"also of dyn_ros log): {', '.join(names)}"
        ]
        if names
        else []
    )


def _read(model: Model, path: Path, request: Mapping[str, Any]) -> Recording:
    wanted = ReadOptions(model, **request)
    source = open_source(path, wanted.columns.get(path))
    if source.damage:
        raise ValueError(f"{path}: {source.damage}")
    parts = plan(select(source, wanted), float("inf"))
    if not parts:
        raise ValueError(
            f"{path}: there are no states"
            + ("; check --since and --until" if source.spans else ", nor messages; record it again")
        )
    part = read_part(parts[0])
    if incomplete := part.incomplete:
        raise ValueError(f"{path}: {incomplete}; lock its joint if it was never recorded (--lock)")
    if not len(part.own.stamp):
        reasons = "; ".join(part.warnings) or "all positions are unknown"
        raise ValueError(f"{path}: there are no states: {reasons}; record it again")
    if not (len(part.own.stamp) > 1 and np.median(np.diff(part.own.stamp)) > 0):
        raise ValueError(
            f"{path}: expected states with stamps that advance, got "
            f"{len(part.own.stamp)} from {1e-9 * part.own.stamp[0]:.6f} s to "
            f"{1e-9 * part.own.stamp[-1]:.6f} s; record it again, in order of time"
        )
    return part


def _observed(model: Model, path: Path, states: States, settings: QuantitySettings) -> Undisturbed:
    found = observe(
        model, with_computed_velocities(model, states, settings), settings, ["external", "speed"]
    )
    valid = np.isfinite(found["external"]).all(axis=1)
    if not valid.any():
        raise ValueError(
            f"{path}: external efforts are unknown in all states; they require "
            "velocities and efforts of all joints, without gaps, for longer than the "
            "observer takes to settle"
        )
    time = 1e-9 * (states.stamp - states.stamp[0])
    return Undisturbed(path, time[valid], found["external"][valid], found["speed"][valid])


def _stretches(free: Sequence[Undisturbed]) -> list[Undisturbed]:
    """Whole stretches of about the same length, each of one recording."""
    total = sum(len(one.time) for one in free)
    found = []
    for one in free:
        count = max(1, round(_STRETCHES * len(one.time) / total))
        bounds = np.linspace(0, len(one.time), count + 1).astype(int)
        found += [
            Undisturbed(one.path, *(values[start:stop] for values in one[1:]))
            for start, stop in itertools.pairwise(bounds)
        ]
    return found


# --- files


def save(calibration: Calibration, name: str, path: str | PathLike[str]) -> None:
    """Write parameters of the observer node."""
    import yaml

    settings = calibration.settings
    parameters = settings.parameters() | calibrated_parameters(calibration.thresholds)
    values: dict[str, Any] = {"joints": list(settings.calibrated)}
    values |= {name: _rounded(value) for name, value in parameters.items()}
    more = _OF_RATES if settings.velocity is False else ""
    Path(path).write_text(
        _HEADER.format(name=name, joints=", ".join(calibration.names))
        + more
        + yaml.safe_dump(
            {"/**": {"ros__parameters": values}}, sort_keys=False, default_flow_style=None
        ),
        encoding="utf-8",
    )


def _rounded(values: Any) -> Any:
    if isinstance(values, (bool, str)):
        return values
    if np.ndim(values):
        return [_rounded(value) for value in values]
    return float(f"{values:.6g}")


def load(path: str | PathLike[str]) -> dict[str, Any]:
    """The settings in a file of parameters of the observer node, for ``QuantitySettings``."""
    import yaml

    expected = (
        f"{path}: expected parameters of the observer node with thresholds.fixed, as "
        "`dyn_ros calibrate` writes them"
    )
    try:
        values = _flat(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{expected}; not valid YAML: {error!s:.200}") from None
    found = QuantitySettings.arguments_in(values)
    if not found.get("thresholds_fixed"):
        raise ValueError(expected)
    if any(len(found[name]) > 1 for name in found if name.startswith("thresholds_")):
        joints = values.get("joints") or ()
        found["calibrated"] = (joints,) if isinstance(joints, str) else tuple(map(str, joints))
    try:
        QuantitySettings(**found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return found


def _flat(content: Any) -> dict[str, Any]:
    """The parameters of all nodes in a file by their names with dots."""
    found: dict[str, Any] = {}

    def visit(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                visit("" if key == "ros__parameters" else f"{prefix}{key}.", inner)
        else:
            found[prefix[:-1]] = value

    visit("", content)
    return found
