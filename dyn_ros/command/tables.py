# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Output of the ``dyn_ros`` command about a robot: tables, JSON, CSV.

In JSON and CSV, floats have all their digits. Missing values are null in JSON and empty in CSV.
Infinite numbers and NaN are null in JSON, which does not have them, and inf and nan in CSV.
Warnings then go to stderr.
"""

import argparse
import csv
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from ..check import Finding
from ..drives.units import degrees_hint
from ..engine.algorithms import generalized_gravity, nonlinear_effects, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.urdf import Joint
from .arguments import name_options, parse_numbers

Format: TypeAlias = Literal["table", "json", "csv"]
_MAX_LISTED_UNDETERMINED = 5  # parameters
_PROGRESS_PERIOD = 10.0  # s, between lines of progress without a terminal
_MIN_RAMP_RATIO = 0.02  # relative to the largest speed; narrower ramps of friction are not listed

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from ..identification import (
        GainEstimate,
        GravityEstimate,
        Identification,
        JointResult,
        PayloadEstimate,
        Samples,
    )
    from ..observer import CalibratedThresholds
    from ..observer.contact_intervals import ContactInterval


def show_info(model: Model, options: argparse.Namespace) -> None:
    """Print the joints with their masses and limits, totals, and warnings."""
    form: Format = options.format
    rows = [_joint_row(model, joint) for joint in model.tree.joints]
    if form == "json":
        _print_json(
            {
                "robot": model.name,
                "nq": model.nq,
                "nv": model.nv,
                "frames": len(model.frame_names),
                "moving_mass": model.total_mass,
                "fixed_mass": model.base_inertia.mass,
                "joints": rows,
            }
        )
    elif form == "csv":
        _print_csv(_JOINT_COLUMNS, rows)
    else:
        _print_joints(model, rows)
    _print_warnings([name_options(options, text) for text in model.warnings], form)


_JOINT_COLUMNS = (
    "name",
    "type",
    "parent",
    "lower",
    "upper",
    "velocity",
    "effort",
    "mass",
    "mimic",
    "multiplier",
    "offset",
)


def _joint_row(model: Model, joint: Joint) -> dict[str, Any]:
    """Return the values of ``_JOINT_COLUMNS``, with limits from the description."""
    mimic = joint.mimic
    mimic_values = (
        (None, None, None)
        if mimic is None
        else (model.joint_names[mimic.joint], mimic.multiplier, mimic.offset)
    )
    parent = model.joint_names[joint.parent] if joint.parent >= 0 else None
    return dict(
        zip(
            _JOINT_COLUMNS,
            (
                joint.name,
                joint.kind,
                parent,
                joint.lower,
                joint.upper,
                joint.velocity,
                joint.effort,
                joint.inertia.mass,
                *mimic_values,
            ),
        )
    )


def _print_joints(model: Model, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with a row for each joint."""
    mimics = any(row["mimic"] is not None for row in rows)
    columns = _JOINT_COLUMNS if mimics else _JOINT_COLUMNS[:-3]
    headings = {"name": "joint", "parent": "on", "mimic": "mimics"}
    table = _make_table(
        *(
            headings.get(name, name)
            if name in ("name", "type", "parent", "mimic")
            else _number_column(name)
            for name in columns
        )
    )
    for row in rows:
        row = {**row, "parent": row["parent"] or "(root)"}
        table.add_row(*(_format_cell(row[name]) for name in columns))
    console = make_console()
    console.print(table)
    if mimics:
        console.print(
            "A joint that mimics another has its position times the multiplier, plus the offset."
        )
    console.print(
        f"{model.name}: {model.njoints} joints, nq = {model.nq}, nv = {model.nv}, "
        f"{len(model.frame_names)} frames, {model.total_mass:.6g} kg moving, "
        f"{model.base_inertia.mass:.6g} kg fixed. Limits in rad or m, rad/s or m/s, "
        "N m or N; mass in kg.",
        markup=False,
    )


def show_torques(
    model: Model, q: Sequence[str], v: Sequence[str], a: Sequence[str], form: Format = "table"
) -> None:
    """Print the torques for a state given as texts: all values in order, or NAME=NUMBER.

    Raise a ValueError that names the value if one cannot be used.
    """
    position = parse_numbers("q", q, model.position_names, model.neutral())
    velocity = parse_numbers("v", v, model.velocity_names, np.zeros(model.nv))
    acceleration = parse_numbers("a", a, model.velocity_names, np.zeros(model.nv))
    data = Data(model)
    torque = rnea(model, data, position, velocity, acceleration).copy()
    positions = dict(zip(model.position_names, position))
    columns = zip(
        model.velocity_names,
        map(positions.get, model.velocity_names),
        velocity,
        acceleration,
        generalized_gravity(model, data, position),
        nonlinear_effects(model, data, position, velocity),
        torque,
        model.effort_limit,
        map(_load_fraction, torque, model.effort_limit),
    )
    rows = [dict(zip(_TORQUE_COLUMNS, column)) for column in columns]
    if form == "json":
        _print_json({"robot": model.name, "gravity": model.gravity, "q": positions, "joints": rows})
    elif form == "csv":
        _print_csv(_TORQUE_COLUMNS, rows)
    else:
        _print_torques(
            rows, {name: x for name, x in positions.items() if name not in model.velocity_names}
        )
    _print_warnings(_limit_messages(model, position, velocity, torque), form)


_TORQUE_COLUMNS = ("name", "q", "v", "a", "gravity", "nle", "torque", "limit", "load")


def _load_fraction(torque: float, limit: float) -> float | None:
    """Return a torque relative to its limit; None without a limit."""
    return abs(torque) / limit if 0.0 < limit < math.inf else None


def _print_torques(rows: Sequence[Mapping[str, Any]], pose: Mapping[str, float]) -> None:
    """Print a table with a row for each joint, and the given positions ``pose``."""
    table = _make_table("joint", *map(_number_column, _TORQUE_COLUMNS[1:]))
    for row in rows:
        load = "" if row["load"] is None else f"{100.0 * row['load']:.1f} %"
        table.add_row(*(_format_cell(row[name]) for name in _TORQUE_COLUMNS[:-1]), load)
    console = make_console()
    console.print(table)
    if pose:
        console.print(
            "q: " + ", ".join(f"{name} = {_format_number(x)}" for name, x in pose.items()),
            markup=False,
            highlight=False,
        )
    console.print("torque: inverse dynamics, M a + nle. In N m, or N for a prismatic joint.")


def _limit_messages(model: Model, q: Array, v: Array, torque: Array) -> list[str]:
    """Return a message for each value outside its limits, mimic joints included."""
    names, velocity_names = list(model.position_names), list(model.velocity_names)
    positions = [*zip(names, q, model.lower, model.upper)]
    kinds = {joint.name: joint.kind for joint in model.tree.joints if joint.mimic is None}
    velocities = [*zip(velocity_names, v, model.velocity_limit)]
    for joint in model.tree.joints:
        rule = joint.mimic
        if rule is not None:
            master = model.joint_names[rule.joint]
            x, rate = q[names.index(master)], v[velocity_names.index(master)]
            positions.append(
                (joint.name, rule.multiplier * x + rule.offset, joint.lower, joint.upper)
            )
            velocities.append((joint.name, rule.multiplier * rate, joint.velocity))
    lines = [
        _position_message(name, kinds.get(name, ""), x, lower, upper)
        for name, x, lower, upper in positions
        if not lower <= x <= upper
    ]
    torques = zip(velocity_names, torque, model.effort_limit)
    for quantity, values in (("v", velocities), ("torque", torques)):
        for name, x, limit in values:
            if 0.0 < limit < abs(x):
                lines.append(f'{quantity} of "{name}" is {x:.6g}, above its limit {limit:.6g}')
    return lines


def _position_message(name: str, kind: str, x: float, lower: float, upper: float) -> str:
    """Return the message on a position outside its limits."""
    message = f'q of "{name}" is {x:.6g}, outside its limits {lower:.6g} to {upper:.6g}'
    hint = degrees_hint(kind, x, lower, upper)
    return f"{message}; {hint}" if hint else message


def show_findings(
    findings: Sequence[Finding], unexamined: Sequence[str], options: argparse.Namespace
) -> int:
    """Print the findings with advice, and notes on what was not examined; return their number."""
    form: Format = options.format
    findings = [
        finding._replace(
            what=name_options(options, finding.what), advice=name_options(options, finding.advice)
        )
        for finding in findings
    ]
    unexamined = [name_options(options, line) for line in unexamined]
    rows = [finding._asdict() for finding in findings]
    if form == "json":
        _print_json(rows)
    elif form == "csv":
        _print_csv(
            Finding._fields,
            [
                {
                    **row,
                    **{
                        name: json.dumps(_convert_to_json(row[name]))
                        for name in ("values", "limits")
                    },
                }
                for row in rows
            ],
        )
    else:
        _print_findings(findings, unexamined)
        return len(findings)
    for line in unexamined:
        print(f"note: {line}", file=sys.stderr)
    return len(findings)


def _print_findings(findings: Sequence[Finding], unexamined: Sequence[str]) -> None:
    console = make_console()
    if findings:
        table = Table(
            Column("where", overflow="fold"), "what", "advice", box=box.SIMPLE_HEAD, show_lines=True
        )
        for finding in findings:
            table.add_row(*map(escape, (finding.where, finding.what, finding.advice)))
        console.print(table)
    for line in unexamined:
        console.print(f"note: {line}", style="yellow", markup=False, soft_wrap=True)
    suffix = "; see the notes for what could not be checked" if unexamined else ""
    console.print(count_noun(len(findings), "finding") + suffix)


def show_identification(
    result: "Identification",
    options: argparse.Namespace,
    validation: "Samples | None" = None,
    validation_errors: "Sequence[JointResult]" = (),
) -> None:
    """Print torque errors and friction of each joint, and parameters that are not determined.

    Faults, which stand above, are not printed.
    ``validation_errors`` are the errors on other recordings, whose samples are ``validation``.
    """
    console = make_console()
    console.print(_error_table("held-out samples", result.joints))
    if validation_errors:
        console.print(_error_table("recordings of --validate", validation_errors))
    console.print(
        "RMS in N m or N: of the measured torque, and of its difference from the description "
        "(before), from plain least squares of the same samples (bodies, viscous and Coulomb "
        "friction and offsets, which need not be physical), and from the result (after)."
    )
    console.print(_friction_table(result))
    determined = sum(kind != "not" for kind in result.base.excitation)
    console.print(
        f"{determined} of {len(result.base.names)} combinations of parameters are determined; "
        f"{result.size} samples{_filter_text(result.samples)}; computed in {result.seconds:.1f} s."
    )
    if validation is not None:
        console.print(f"--validate: {len(validation)} samples{_filter_text(validation)}.")
    for text in _friction_texts(result):
        console.print(f"further friction: {text}", markup=False)
    show_warnings(result.warnings[len(result.faults) :], options)
    for text in result.undetermined[:_MAX_LISTED_UNDETERMINED]:
        console.print(f"not determined: {text}", markup=False)
    if len(result.undetermined) > _MAX_LISTED_UNDETERMINED:
        count = len(result.undetermined) - _MAX_LISTED_UNDETERMINED
        list_place = str(options.report) if options.report else "--report FILE.html lists them"
        console.print(f"not determined: {count} more; {list_place}", markup=False)


def _error_table(title: str, joints: "Sequence[JointResult]") -> Table:
    """Return a table of the torque errors of each joint."""
    columns = ("torque", "before", "least squares", "after", "noise")
    table = _make_table("joint", *map(_number_column, columns))
    table.title, table.title_justify = f"Torque errors, {title}", "left"
    for joint in joints:
        numbers = joint.torque, joint.before, joint.least_squares, joint.after, joint.noise
        table.add_row(joint.name, *map(_format_number, numbers))
    return table


def _friction_table(result: "Identification") -> Table:
    """Return a table of the rotor inertia and friction of each joint."""
    table = _make_table(
        "joint", *map(_number_column, ("armature", "damping", "friction", "offset"))
    )
    identified = result.identified
    rows = zip(identified.armature, identified.damping, identified.friction, result.offset)
    for joint, numbers in zip(result.joints, rows):
        table.add_row(joint.name, *map(_format_number, numbers))
    return table


def _filter_text(samples: "Samples") -> str:
    """Return the cutoff of the filter of the positions of samples, or nothing without a filter."""
    return f", filtered at {samples.cutoff:.3g} Hz" if math.isfinite(samples.cutoff) else ""


def _friction_texts(result: "Identification") -> Iterator[str]:
    """Yield each joint's friction terms other than damping, Coulomb friction and offset."""
    drives = result.identified.drives
    min_ramp = _MIN_RAMP_RATIO * np.quantile(
        np.abs(drives.motor_velocity(result.samples.v)), 0.99, axis=0
    )
    ramp = np.where(drives.friction_velocity > min_ramp, drives.friction_velocity, 0.0)
    for k, joint in enumerate(result.joints):
        values = [
            f"{name} {_format_number(number)}"
            for name, number in (
                *(
                    (name, getattr(drives, name)[k])
                    for name in (
                        "load_friction",
                        "root_friction",
                        "stribeck",
                        "stribeck_velocity",
                        "friction_distance",
                    )
                ),
                ("friction_velocity", ramp[k]),
            )
            if number and np.isfinite(number)
        ]
        if ramp[k] and drives.has_smooth_friction[k]:
            values.append("smooth_friction")
        if values:
            yield f"{joint.name}: {', '.join(values)}"


def show_gravity(estimate: "GravityEstimate") -> None:
    """Print the estimated gravity with its intervals."""
    intervals = ", ".join(
        f"{axis} {value:.3g} ({lower:.3g} to {upper:.3g})"
        for axis, value, lower, upper in zip(
            "xyz", estimate.gravity, estimate.lower, estimate.upper
        )
    )
    make_console().print(
        f"gravity, with 95 % intervals: {intervals} m/s2; pass --gravity "
        f"{' '.join(f'{round(x, 2) + 0.0:g}' for x in estimate.gravity)} to other commands"
    )


def show_gains(names: "Sequence[str]", gains: "GainEstimate") -> None:
    """Print the torque per unit of effort of each joint, with its interval."""
    table = _make_table("joint", *map(_number_column, ("gain", "from", "to", "error")))
    for k, name in enumerate(names):
        table.add_row(
            name,
            *map(_format_number, (gains.gain[k], gains.lower[k], gains.upper[k], gains.error[k])),
        )
    console = make_console()
    console.print(table)
    console.print(
        "Torque per unit of effort [N m or N per unit] with its 95 % interval; RMS error "
        "of the efforts, in their unit."
    )


def show_payload(
    names: "Sequence[str]",
    payload: "PayloadEstimate",
    warnings: "Iterable[str]",
    options: argparse.Namespace,
) -> None:
    """Print mass, center of mass and inertia with intervals, and errors of the joints."""
    table = _make_table("of the load", *map(_number_column, ("value", "from", "to")))
    rows = [("mass [kg]", payload.mass, payload.lower[0], payload.upper[0])]
    rows += [
        (f"center {axis} [m]", *values)
        for axis, *values in zip("xyz", payload.com, payload.com_lower, payload.com_upper)
    ]
    rows += [
        (
            f"I{'xyz'[i]}{'xyz'[j]} [kg m2]",
            payload.inertia[i, j],
            payload.inertia_lower[i, j],
            payload.inertia_upper[i, j],
        )
        for i in range(3)
        for j in range(i, 3)
    ]
    for name, value, lower, upper in rows:
        ends = (
            (_format_number(lower), _format_number(upper))
            if np.isfinite(lower)
            else ("not determined", "")
        )
        table.add_row(_format_cell(name), _format_number(value), *ends)
    errors = _make_table("joint", *map(_number_column, ("before", "after")))
    for name, *values in zip(names, payload.before, payload.after):
        errors.add_row(name, *map(_format_number, values))
    console = make_console()
    console.print(table)
    console.print(
        f"In {payload.frame}, the inertia about the center of mass, with 95 % intervals: of noise, "
        "errors that last, and friction, which at rest acts in any direction; not of gains. "
        "What is not determined is as in a sphere of water.",
        markup=False,
    )
    console.print(errors)
    console.print(
        "RMS in N m or N of the difference between measured torque and model, without "
        "the load, and with the load and the friction of these recordings."
    )
    show_warnings(warnings, options)


def show_thresholds(names: "Sequence[str]", limits: "CalibratedThresholds") -> None:
    """Print the thresholds of each joint."""
    table = _make_table("joint", *map(_number_column, ("fixed", "per speed", "at rest", "largest")))
    rows = np.transpose(
        [limits.fixed, limits.per_speed, limits.fixed + limits.at_rest, limits.largest]
    )
    for name, row in zip(names, rows):
        table.add_row(name, *map(_format_number, row))
    make_console().print(table)
    make_console().print(
        "Thresholds in N m or N; per speed is added for each rad/s or m/s; at rest "
        "includes fixed, but not in the file. Largest is the largest undisturbed "
        "effort relative to its threshold."
    )


def show_contacts(path: Path, contacts: "Sequence[ContactInterval]") -> None:
    """Print when and how strongly a robot was touched."""
    table = _make_table(
        _number_column("start"),
        _number_column("stop"),
        "largest external efforts",
        _number_column("ratio"),
    )
    for contact in contacts:
        efforts = ", ".join(
            f"{name} {_format_number(effort)}" for name, effort in contact.efforts.items()
        )
        table.add_row(
            f"{contact.start:.2f}", f"{contact.stop:.2f}", escape(efforts), f"{contact.ratio:.2f}"
        )
    make_console().print(f"{path}: {count_noun(len(contacts), 'contact')}", markup=False)
    make_console().print(table)
    make_console().print("Stamps in s; efforts in N m or N; ratio to the threshold.")


def show_warnings(warnings: Iterable[str], options: argparse.Namespace) -> None:
    """Print warnings above or below the tables of a command without other formats."""
    _print_warnings([name_options(options, text) for text in warnings], "table")


def _print_warnings(warnings: Iterable[str], form: Format) -> None:
    """Print warnings below a table; beside other formats, to stderr."""
    for warning in warnings:
        if form == "table":
            make_console().print(f"warning: {warning}", style="yellow", markup=False)
        else:
            print(f"warning: {warning}", file=sys.stderr)


def _print_json(value: Any) -> None:
    print(json.dumps(_convert_to_json(value), indent=2, allow_nan=False))


def _print_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: value.item() if isinstance(value, np.generic) else value
                for name, value in row.items()
            }
        )


def _convert_to_json(value: Any) -> Any:
    """Convert a value to types of JSON; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {key: _convert_to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_convert_to_json(item) for item in value]
    if isinstance(value, float):  # also NumPy's
        return float(value) if math.isfinite(value) else None
    return value


def count_noun(count: int, noun: str) -> str:
    """Return a number of things, such as "2 findings"."""
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"


@contextmanager
def progress_bar(
    description: str, *columns: "ProgressColumn", total: float | None = None, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Show a bar until the block ends, or without a terminal a line every ten seconds.

    Yields the function that updates it, which has the arguments of ``rich.progress``.
    """
    from rich.progress import BarColumn, Progress, TextColumn

    if not sys.stderr.isatty():
        yield _ProgressLines(description, total).update
        return
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        yield functools.partial(bar.update, bar.add_task(description, total=total, **fields))


class _ProgressLines:
    """Progress as lines on standard error."""

    def __init__(self, description: str, total: float | None) -> None:
        self._description, self._total = description, total
        self._start_time = self._print_time = time.monotonic()

    def update(
        self,
        *,
        completed: float,
        total: float | None = None,
        description: str | None = None,
        rate: str = "",
    ) -> None:
        """Print the description, the fraction, the rate and the remaining time if a line is due."""
        self._description = description or self._description
        self._total = total or self._total
        now = time.monotonic()
        if not self._total or now < self._print_time + _PROGRESS_PERIOD:
            return
        self._print_time, fraction = now, completed / self._total
        words = [f"{self._description}: {100.0 * fraction:.0f} %", rate]
        if fraction > 0.0:
            words.append(f"{(now - self._start_time) * (1.0 / fraction - 1.0):.0f} s left")
        print(", ".join(filter(None, words)), file=sys.stderr)


def make_console() -> Console:
    """Return a console of the terminal; without a terminal, one wide enough for all columns."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _make_table(*columns: Column | str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _number_column(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)


def _format_cell(value: Any) -> str:
    """Return a text escaped, a number rounded, and None as an empty text."""
    if value is None:
        return ""
    return escape(value) if isinstance(value, str) else _format_number(value)


def _format_number(x: float) -> str:
    return f"{round(x, 9) + 0.0:.5g}" if math.isfinite(x) else ""
