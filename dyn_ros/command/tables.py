# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ``dyn_ros`` command prints about a robot: tables, JSON, CSV.

In JSON and CSV, floats have all their digits. What does not exist is null in JSON and empty in CSV;
infinite numbers and NaN, which JSON does not have, are null there, and inf and nan in CSV. Warnings
then go to stderr.
"""

import csv
import functools
import json
import math
import sys
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
from ..engine.algorithms import generalized_gravity, nonlinear_effects, rnea
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.urdf import Joint
from .arguments import numbers

Format: TypeAlias = Literal["table", "json", "csv"]
_MOST = 5  # parameters that are not determined, of those that are listed
_SLOW = 0.02  # of the largest speed: above, a ramp of friction was chosen

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from ..identification import GainEstimate, Identification, JointResult, PayloadEstimate
    from ..observer import CalibratedThresholds
    from ..observer.contacts import Contact


def show_info(model: Model, form: Format = "table") -> None:
    """Print the joints with their masses and limits, totals, and warnings."""
    rows = [_described(model, joint) for joint in model.tree.joints]
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
        _print_csv(_JOINT, rows)
    else:
        _print_joints(model, rows)
    _warn(model.warnings, form)


_JOINT = (
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


def _described(model: Model, joint: Joint) -> dict[str, Any]:
    """The values of ``_JOINT``; the limits are from the description."""
    rule = joint.mimic
    follows = (
        (None, None, None)
        if rule is None
        else (model.joint_names[rule.joint], rule.multiplier, rule.offset)
    )
    parent = model.joint_names[joint.parent] if joint.parent >= 0 else None
    return dict(
        zip(
            _JOINT,
            (
                joint.name,
                joint.kind,
                parent,
                joint.lower,
                joint.upper,
                joint.velocity,
                joint.effort,
                joint.inertia.mass,
                *follows,
            ),
        )
    )


def _print_joints(model: Model, rows: Sequence[Mapping[str, Any]]) -> None:
    mimics = any(row["mimic"] is not None for row in rows)
    columns = _JOINT if mimics else _JOINT[:-3]
    headings = {"name": "joint", "parent": "on", "mimic": "mimics"}
    table = _table(
        *(
            headings.get(name, name)
            if name in ("name", "type", "parent", "mimic")
            else _right(name)
            for name in columns
        )
    )
    for row in rows:
        row = {**row, "parent": row["parent"] or "(root)"}
        table.add_row(*(_cell(row[name]) for name in columns))
    console = terminal()
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

    A ValueError names the value that cannot be used.
    """
    position = numbers("q", q, model.position_names, model.neutral())
    velocity = numbers("v", v, model.velocity_names, np.zeros(model.nv))
    acceleration = numbers("a", a, model.velocity_names, np.zeros(model.nv))
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
        map(_load, torque, model.effort_limit),
    )
    rows = [dict(zip(_TORQUE, column)) for column in columns]
    if form == "json":
        _print_json({"robot": model.name, "gravity": model.gravity, "q": positions, "joints": rows})
    elif form == "csv":
        _print_csv(_TORQUE, rows)
    else:
        _print_torques(
            rows, {name: x for name, x in positions.items() if name not in model.velocity_names}
        )
    _warn(_excesses(model, position, velocity, torque), form)


_TORQUE = ("name", "q", "v", "a", "gravity", "nle", "torque", "limit", "load")


def _load(torque: float, limit: float) -> float | None:
    """The part of the limit; None without a limit."""
    return abs(torque) / limit if 0.0 < limit < math.inf else None


def _print_torques(rows: Sequence[Mapping[str, Any]], pose: Mapping[str, float]) -> None:
    table = _table("joint", *map(_right, _TORQUE[1:]))
    for row in rows:
        load = "" if row["load"] is None else f"{100.0 * row['load']:.1f} %"
        table.add_row(*(_cell(row[name]) for name in _TORQUE[:-1]), load)
    console = terminal()
    console.print(table)
    if pose:
        console.print(
            "q: " + ", ".join(f"{name} = {_number(x)}" for name, x in pose.items()),
            markup=False,
            highlight=False,
        )
    console.print("torque: inverse dynamics, M a + nle. In N m, or N for a prismatic joint.")


def _excesses(model: Model, q: Array, v: Array, torque: Array) -> list[str]:
    """One line for each value outside its limits, including joints that mimic others."""
    names, rates = list(model.position_names), list(model.velocity_names)
    positions = [*zip(names, q, model.lower, model.upper)]
    velocities = [*zip(rates, v, model.velocity_limit)]
    for joint in model.tree.joints:
        rule = joint.mimic
        if rule is not None:
            master = model.joint_names[rule.joint]
            x, rate = q[names.index(master)], v[rates.index(master)]
            positions.append(
                (joint.name, rule.multiplier * x + rule.offset, joint.lower, joint.upper)
            )
            velocities.append((joint.name, rule.multiplier * rate, joint.velocity))
    lines = [
        f'q of "{name}" is {x:.6g}, outside its limits {lower:.6g} to {upper:.6g}'
        for name, x, lower, upper in positions
        if not lower <= x <= upper
    ]
    torques = zip(rates, torque, model.effort_limit)
    for what, limited in (("v", velocities), ("torque", torques)):
        for name, x, limit in limited:
            if 0.0 < limit < abs(x):
                lines.append(f'{what} of "{name}" is {x:.6g}, above its limit {limit:.6g}')
    return lines


def show_findings(
    findings: Sequence[Finding], unseen: Sequence[str] = (), form: Format = "table"
) -> int:
    """Print the findings with advice, and what was not examined; return their number."""
    rows = [finding._asdict() for finding in findings]
    if form == "json":
        _print_json(rows)
    elif form == "csv":
        _print_csv(
            Finding._fields,
            [
                {**row, **{name: json.dumps(_plain(row[name])) for name in ("values", "limits")}}
                for row in rows
            ],
        )
    else:
        _print_findings(findings, unseen)
        return len(findings)
    for line in unseen:
        print(f"note: {line}", file=sys.stderr)
    return len(findings)


def _print_findings(findings: Sequence[Finding], unseen: Sequence[str]) -> None:
    console = terminal()
    if findings:
        table = Table(
            Column("where", overflow="fold"), "what", "advice", box=box.SIMPLE_HEAD, show_lines=True
        )
        for finding in findings:
            table.add_row(*map(escape, (finding.where, finding.what, finding.advice)))
        console.print(table)
    for line in unseen:
        console.print(f"note: {line}", style="yellow", markup=False, soft_wrap=True)
    console.print(counted(len(findings), "finding"))


def show_identification(
    result: "Identification", report: Path | None = None, unseen: "Sequence[JointResult]" = ()
) -> None:
    """Print the error of each joint's torque before and after, friction, and what is missing.

    ``unseen`` are the errors on other recordings.
    """
    others = ("unseen before", "unseen after") if unseen else ()
    table = _table(
        "joint",
        *map(
            _right,
            (
                "torque",
                "before",
                "after",
                "noise",
                *others,
                "armature",
                "damping",
                "friction",
                "offset",
            ),
        ),
    )
    after = result.identified
    for k, joint in enumerate(result.joints):
        table.add_row(
            joint.name,
            *map(
                _number,
                (
                    joint.torque,
                    joint.before,
                    joint.after,
                    joint.noise,
                    *((unseen[k].before, unseen[k].after) if unseen else ()),
                    after.armature[k],
                    after.damping[k],
                    after.friction[k],
                    result.offset[k],
                ),
            ),
        )
    console = terminal()
    console.print(table)
    where = "; unseen is the error on the recordings of --validate" if unseen else ""
    console.print(
        "RMS in N m or N on held-out samples, of the measured torque, and of its "
        f"difference from the model before and after{where}."
    )
    known = sum(kind != "not" for kind in result.base.excitation)
    cutoff = (
        f", filtered at {result.samples.cutoff:.3g} Hz"
        if math.isfinite(result.samples.cutoff)
        else ""
    )
    console.print(
        f"{known} of {len(result.base.names)} combinations of parameters are determined; "
        f"{result.size} samples{cutoff}; computed in {result.seconds:.1f} s."
    )
    for text in _further_friction(result):
        console.print(f"further friction: {text}", markup=False)
    for text in result.warnings:
        console.print(f"warning: {text}", style="yellow", markup=False)
    for text in result.undetermined[:_MOST]:
        console.print(f"not determined: {text}", markup=False)
    if len(result.undetermined) > _MOST:
        where = str(report) if report else "--report FILE.html lists them"
        console.print(
            f"not determined: {len(result.undetermined) - _MOST} more; {where}", markup=False
        )


def _further_friction(result: "Identification") -> Iterator[str]:
    """What was chosen for each joint beyond damping, Coulomb friction and offset."""
    drives = result.identified.drives
    slow = _SLOW * np.quantile(np.abs(drives.motor_velocity(result.samples.v)), 0.99, axis=0)
    ramp = np.where(drives.friction_velocity > slow, drives.friction_velocity, 0.0)
    for k, joint in enumerate(result.joints):
        values = [
            f"{name} {_number(number)}"
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


def show_gains(names: "Sequence[str]", gains: "GainEstimate") -> None:
    """Print the torque per unit of effort of each joint, with its interval."""
    table = _table("joint", *map(_right, ("gain", "from", "to", "error")))
    for k, name in enumerate(names):
        table.add_row(
            name, *map(_number, (gains.gain[k], gains.lower[k], gains.upper[k], gains.error[k]))
        )
    console = terminal()
    console.print(table)
    console.print(
        "Torque per unit of effort [N m or N per unit] with its 95 % interval; RMS error "
        "of the efforts, in their unit."
    )


def show_payload(
    names: "Sequence[str]", found: "PayloadEstimate", warnings: "Iterable[str]"
) -> None:
    """Print mass, center of mass and inertia with intervals, and errors of the joints."""
    table = _table("of the load", *map(_right, ("value", "from", "to")))
    rows = [("mass [kg]", found.mass, found.lower[0], found.upper[0])]
    rows += [
        (f"center {axis} [m]", *values)
        for axis, *values in zip("xyz", found.com, found.com_lower, found.com_upper)
    ]
    rows += [
        (
            f"I{'xyz'[i]}{'xyz'[j]} [kg m2]",
            found.inertia[i, j],
            found.inertia_lower[i, j],
            found.inertia_upper[i, j],
        )
        for i in range(3)
        for j in range(i, 3)
    ]
    for name, value, lower, upper in rows:
        ends = (_number(lower), _number(upper)) if np.isfinite(lower) else ("not determined", "")
        table.add_row(_cell(name), _number(value), *ends)
    errors = _table("joint", *map(_right, ("before", "after")))
    for name, *values in zip(names, found.before, found.after):
        errors.add_row(name, *map(_number, values))
    console = terminal()
    console.print(table)
    console.print(
        f"In {found.frame}, the inertia about the center of mass, with 95 % intervals. "
        "What is not determined is as in a sphere of water.",
        markup=False,
    )
    console.print(errors)
    console.print(
        "RMS in N m or N of the difference between measured torque and model, without "
        "the load, and with the load and the friction of these recordings."
    )
    _warn(warnings, "table")


def show_thresholds(names: "Sequence[str]", limits: "CalibratedThresholds") -> None:
    """Print the thresholds of each joint."""
    table = _table("joint", *map(_right, ("fixed", "per speed", "at rest", "largest")))
    rows = np.transpose(
        [limits.fixed, limits.per_speed, limits.fixed + limits.at_rest, limits.largest]
    )
    for name, row in zip(names, rows):
        table.add_row(name, *map(_number, row))
    terminal().print(table)
    terminal().print(
        "Thresholds in N m or N; per speed is added for each rad/s or m/s; at rest "
        "includes fixed, but not in the file. Largest is the largest undisturbed "
        "effort relative to its threshold."
    )


def show_contacts(path: Path, contacts: "Sequence[Contact]") -> None:
    """Print when and how strongly a robot was touched."""
    table = _table(_right("start"), _right("stop"), "largest external efforts", _right("ratio"))
    for one in contacts:
        efforts = ", ".join(f"{name} {_number(effort)}" for name, effort in one.efforts.items())
        table.add_row(f"{one.start:.2f}", f"{one.stop:.2f}", escape(efforts), f"{one.ratio:.2f}")
    terminal().print(f"{path}: {counted(len(contacts), 'contact')}", markup=False)
    terminal().print(table)
    terminal().print("Stamps in s; efforts in N m or N; ratio to the threshold.")


def _warn(warnings: Iterable[str], form: Format) -> None:
    """Print warnings below a table; beside other formats, to stderr."""
    for warning in warnings:
        if form == "table":
            terminal().print(f"warning: {warning}", style="yellow", markup=False)
        else:
            print(f"warning: {warning}", file=sys.stderr)


def _print_json(value: Any) -> None:
    print(json.dumps(_plain(value), indent=2, allow_nan=False))


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


def _plain(value: Any) -> Any:
    """Convert to what JSON has; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, float):  # also NumPy's
        return float(value) if math.isfinite(value) else None
    return value


def counted(count: int, what: str) -> str:
    """Return a number of things, such as "2 findings"."""
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


@contextmanager
def progress(
    what: str, *columns: "ProgressColumn", total: float | None = None, **fields: Any
) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal until the block ends; yield what updates it."""
    from rich.progress import BarColumn, Progress, TextColumn

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        *columns,
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
    ) as bar:
        yield functools.partial(bar.update, bar.add_task(what, total=total, **fields))


def terminal() -> Console:
    """Return the terminal; without one, a console wide enough for all columns."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _table(*columns: Column | str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _right(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)


def _cell(value: Any) -> str:
    """A text as it is, a number rounded; empty if there is none."""
    if value is None:
        return ""
    return escape(value) if isinstance(value, str) else _number(value)


def _number(x: float) -> str:
    return f"{round(x, 9) + 0.0:.5g}" if math.isfinite(x) else ""
