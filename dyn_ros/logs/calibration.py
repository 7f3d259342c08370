# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Thresholds of external efforts, from recordings in which nothing touches the robot."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array
from ..engine.model.model import Model
from ..files.writing import write_whole_text
from ..files.yaml_text import flatten_ros_parameters, read_yaml
from ..observer.contact_intervals import ContactInterval, find_contact_intervals
from ..observer.thresholds import (
    MIN_DURATION,
    MIN_NOISE,
    REST_SPEED,
    CalibratedThresholds,
    calibrate_thresholds,
    calibrated_parameters,
    friction_at_rest,
)
from ..recordings.formats.sources import open_source
from ..recordings.options import ReadOptions
from ..recordings.part import read_part
from ..recordings.plan import divide_part
from ..recordings.recording import Recording
from ..recordings.selection import select_part
from ..recordings.tables.columns import name_file_in_errors
from ..states.joint_states import States
from .effort_checks import check_constant_efforts, check_effort_units
from .quantities import compute_observer_results, independent_joints
from .quantity_settings import CalibrationOptions, QuantitySettings
from .state_jumps import leave_out_jumps
from .velocities import compute_missing_velocities, velocity_notes

_MAX_GAIN = 100.0  # 1/s
# If efforts and velocities are one sample apart, this part of the change of momentum in a sampling
# period appears as external effort.
_GAIN_PERIOD_PRODUCT = 0.1
_STRETCH_COUNT = 8  # stretches of the recordings, each held out in turn
_MIN_MOTION_TIME = 1.0  # s
_MAX_THRESHOLD_RATIO = 1.5  # above it, measured velocities are noisy
_HEADER = """\
# Parameters of observer_node for {name}, also for `dyn_ros log --thresholds`.
# Arrays have a number for each of {joints}.
# thresholds.at_rest is added to thresholds.fixed.
"""
_NO_VELOCITY_NOTE = """\
# Velocities that were measured were not used: run `dyn_ros log --no-velocity`, too. The node
# has other velocities.
"""


class Undisturbed(NamedTuple):
    """The states of a recording, or of a stretch of it, with valid external efforts."""

    path: Path
    time: Array  # (n,), s, since the first state of the recording
    external: Array  # (n, nv), N m or N
    speed: Array  # (n, nv), rad/s or m/s, filtered so that it lags like the external efforts


@dataclasses.dataclass(frozen=True)
class Calibration:
    """Calibrated thresholds of an observer, and false alarms in the recordings."""

    velocity_names: tuple[str, ...]
    thresholds: CalibratedThresholds
    settings: QuantitySettings
    contained: list[tuple[Path, ContactInterval]]  # alarms in all recordings, with their paths
    held_out: list[tuple[Path, ContactInterval]]  # alarms with thresholds of other stretches
    seconds: float  # total duration of the held-out stretches [s]
    warnings: list[str]


def calibrate_recordings(
    model: Model, paths: Sequence[Path], options: CalibrationOptions, **read_arguments: Any
) -> Calibration:
    """Calibrate thresholds, and check them on stretches that are held out in turn.

    Below ``REST_SPEED``, where thresholds allow for friction in any direction, friction is
    proportional to the velocity: its error is then at most the friction. ``read_arguments`` are
    arguments of ``ReadOptions``.
    """
    recordings = [(path, _read_recording(model, path, read_arguments)) for path in paths]
    recorded_states = [(path, recording.states_in_interval) for path, recording in recordings]
    dt = float(
        np.median(np.concatenate([1e-9 * np.diff(states.stamp) for _, states in recorded_states]))
    )
    default_gain = min(_MAX_GAIN, _GAIN_PERIOD_PRODUCT / dt)
    gain = default_gain if options.gain is None else options.gain
    if gain * dt >= 1.0:
        raise ValueError(
            f"gain: expected less than the sampling rate of the recordings, "
            f"{1.0 / dt:.4g}/s, got {gain:g}; the default is {default_gain:.3g}"
        )
    settings = dataclasses.replace(
        options.settings,
        gain=gain,
        smoothing=gain if options.smoothing is None else options.smoothing,
        friction_velocity=REST_SPEED,
        calibrated=independent_joints(model),
    )
    undisturbed = [
        _observe_undisturbed(model, path, states, settings) for path, states in recorded_states
    ]
    friction = friction_at_rest(model)
    speed = np.concatenate([recording.speed for recording in undisturbed])
    moves = speed > REST_SPEED
    motion_time = dt * np.count_nonzero(moves.any(axis=1))
    if motion_time < _MIN_MOTION_TIME:
        raise ValueError(
            f"in these recordings joints move faster than {REST_SPEED:g} rad/s or m/s for "
            f"{motion_time:.3g} s only; record motions such as those in which contacts will be "
            "detected"
        )
    warnings = [f"{path}: {text}" for path, recording in recordings for text in recording.problems]
    warnings += [
        f"{path}: {text}"
        for path, states in recorded_states
        for text in (
            *check_constant_efforts(model, states),
            *velocity_notes(model, states, settings),
            *check_effort_units(model, states, settings),
        )
    ]
    slow_joints = [model.velocity_names[k] for k in np.flatnonzero(~moves.any(axis=0))]
    if slow_joints:
        warnings.append(
            f"{', '.join(slow_joints)}: never faster than {REST_SPEED:g} rad/s or m/s, so these "
            "thresholds are for rest only; record motions of all joints"
        )

    def calibrate_with(stretches: Sequence[Undisturbed]) -> CalibratedThresholds:
        """Return the thresholds that stretches without contact determine."""
        return calibrate_thresholds(
            np.concatenate([stretch.external for stretch in stretches]),
            np.concatenate([stretch.speed for stretch in stretches]),
            dt,
            options.false_alarms,
            friction=friction,
        )

    def find_alarms(
        stretch: Undisturbed, thresholds: CalibratedThresholds
    ) -> list[tuple[Path, ContactInterval]]:
        """Return the contacts that thresholds find in a stretch, with the path of its recording."""
        limits = thresholds.of(stretch.speed)
        contacts = find_contact_intervals(
            stretch.time, stretch.external, limits, model.velocity_names
        )
        return [(stretch.path, contact) for contact in contacts]

    thresholds = calibrate_with(undisturbed)
    if settings.velocity is None and any(
        np.isfinite(states.v).any() for _, states in recorded_states
    ):
        with contextlib.suppress(ValueError):  # the filter leaves too little
            no_velocity = dataclasses.replace(settings, velocity=False)
            without_velocity = calibrate_with(
                [
                    _observe_undisturbed(model, path, states, no_velocity)
                    for path, states in recorded_states
                ]
            )
            warnings += _noisy_velocity_warnings(model, thresholds, without_velocity, speed)
    stretches, held_out, seconds = _split_stretches(undisturbed), [], 0.0
    for k, stretch in enumerate(stretches):
        training = stretches[:k] + stretches[k + 1 :]
        if dt * sum(len(used.time) for used in training) >= MIN_DURATION:
            held_out += find_alarms(stretch, calibrate_with(training))
            seconds += dt * len(stretch.time)
    return Calibration(
        tuple(model.velocity_names),
        thresholds,
        settings,
        [alarm for recording in undisturbed for alarm in find_alarms(recording, thresholds)],
        held_out,
        seconds,
        warnings,
    )


def _noisy_velocity_warnings(
    model: Model,
    with_velocity: CalibratedThresholds,
    without_velocity: CalibratedThresholds,
    speed: Array,
) -> list[str]:
    """Return a warning if thresholds without measured velocities are much smaller."""
    medians = [
        np.median(thresholds.of(speed), axis=0) for thresholds in (with_velocity, without_velocity)
    ]
    ratio = medians[0] / np.maximum(medians[1], MIN_NOISE)
    names = [
        f"{model.velocity_names[k]} ({ratio[k]:.2g})"
        for k in np.flatnonzero(ratio > _MAX_THRESHOLD_RATIO)
    ]
    return (
        [
            "measured velocities are noisy or late; the thresholds of these joints are so many "
            "times those with velocities that are computed from the positions: "
            f"{', '.join(names)}; compute them with velocity=False, also of `dyn_ros log`"
        ]
        if names
        else []
    )


def _read_recording(model: Model, path: Path, read_arguments: Mapping[str, Any]) -> Recording:
    """Read a recording as one part; raise a ValueError if it has no usable states."""
    read_options = ReadOptions(model, **read_arguments)
    source = open_source(path, read_options.columns.get(path), read_options.max_chunk_size)
    if source.damage:
        raise ValueError(f"{path}: {source.damage}")
    parts = divide_part(select_part(source, read_options), float("inf"))
    if not parts:
        raise ValueError(
            f"{path}: there are no states"
            + ("; check since= and until=" if source.spans else ", nor messages; record it again")
        )
    part, jump_warnings = leave_out_jumps(model, read_part(parts[0]))
    with name_file_in_errors(path):
        part.require_effort_units(model)
    if incomplete := part.incomplete:
        raise ValueError(f"{path}: {incomplete}")
    stamp = part.states_in_interval.stamp
    if not len(stamp):
        reasons = "; ".join(part.warnings) or "all positions are unknown"
        raise ValueError(f"{path}: there are no states: {reasons}; record it again")
    if not (len(stamp) > 1 and np.median(np.diff(stamp)) > 0):
        raise ValueError(
            f"{path}: expected states with stamps that advance, got "
            f"{len(stamp)} from {1e-9 * stamp[0]:.6f} s to "
            f"{1e-9 * stamp[-1]:.6f} s; record it again, in order of time"
        )
    return dataclasses.replace(part, problems=(*part.problems, *jump_warnings))


def _observe_undisturbed(
    model: Model, path: Path, states: States, settings: QuantitySettings
) -> Undisturbed:
    """Compute the external efforts of states; raise a ValueError if all are unknown."""
    states_with_velocity = compute_missing_velocities(model, states, settings)
    results = compute_observer_results(model, states_with_velocity, settings, ["external", "speed"])
    external, speed = results["external"], results["speed"]
    is_valid = np.isfinite(external).all(axis=1)
    if not is_valid.any():
        raise ValueError(
            f"{path}: external efforts are unknown in all states; they require "
            "velocities and efforts of all joints, without gaps, for longer than the "
            "observer takes to settle"
        )
    time = 1e-9 * (states.stamp - states.stamp[0])
    return Undisturbed(path, time[is_valid], external[is_valid], speed[is_valid])


def _split_stretches(undisturbed: Sequence[Undisturbed]) -> list[Undisturbed]:
    """Divide recordings into stretches of about the same length."""
    total = sum(len(recording.time) for recording in undisturbed)
    stretches = []
    for recording in undisturbed:
        count = max(1, round(_STRETCH_COUNT * len(recording.time) / total))
        bounds = np.linspace(0, len(recording.time), count + 1).astype(int)
        stretches += [
            Undisturbed(recording.path, *(values[start:stop] for values in recording[1:]))
            for start, stop in itertools.pairwise(bounds)
        ]
    return stretches


# --- files


def save_calibration(calibration: Calibration, name: str, path: str | PathLike[str]) -> None:
    """Write parameters of the observer node."""
    import yaml

    settings = calibration.settings
    parameters = settings.parameters() | calibrated_parameters(calibration.thresholds)
    values: dict[str, Any] = {"joints": list(settings.calibrated)}
    values |= {name: _round_values(value) for name, value in parameters.items()}
    note = _NO_VELOCITY_NOTE if settings.velocity is False else ""
    write_whole_text(
        path,
        _HEADER.format(name=name, joints=", ".join(calibration.velocity_names))
        + note
        + yaml.safe_dump(
            {"/**": {"ros__parameters": values}}, sort_keys=False, default_flow_style=None
        ),
    )


def _round_values(values: Any) -> Any:
    """Round numbers to six digits."""
    if isinstance(values, (bool, str)):
        return values
    if np.ndim(values):
        return [_round_values(value) for value in values]
    return float(f"{values:.6g}")


def load_settings(path: str | PathLike[str]) -> dict[str, Any]:
    """Return arguments of ``QuantitySettings`` from a file of parameters of the observer node."""
    expected = (
        f"{path}: expected parameters of the observer node with thresholds.fixed, as "
        "`dyn_ros calibrate` writes them"
    )
    try:
        values = flatten_ros_parameters(read_yaml(path))
    except ValueError as error:
        raise ValueError(f"{expected}; {error}") from None
    arguments = QuantitySettings.arguments_in(values)
    if not arguments.get("thresholds_fixed"):
        raise ValueError(expected)
    if any(len(arguments[name]) > 1 for name in arguments if name.startswith("thresholds_")):
        arguments["calibrated"] = _joint_names(path, values.get("joints"))
    try:
        QuantitySettings(**arguments)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return arguments


def _joint_names(path: str | PathLike[str], joints: Any) -> tuple[str, ...]:
    """Return the parameter ``joints``, a name or a list of names; raise a ValueError otherwise."""
    names = [joints] if isinstance(joints, str) else [] if joints is None else joints
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{path}: joints: expected a list of names, got {short_repr(joints)}")
    return tuple(names)
