# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The tables that the ``dyn_ros`` command prints about a robot."""
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from .algorithms import generalized_gravity, nonlinear_effects, rnea
from .model import Data, Model
from .model.check import Finding
from .model.urdf import Joint
from .spatial.types import Array

_MOST = 5           # parameters that are not determined, of those that are listed

if TYPE_CHECKING:
    from .identification import Identification


def show_info(model: Model) -> None:
    """Print the joints with their masses and limits, totals, and warnings."""
    table = _table("joint", "type", "on", _right("lower"), _right("upper"), _right("velocity"),
                   _right("effort"), _right("mass"))
    for joint in model.tree.joints:
        parent = model.joint_names[joint.parent] if joint.parent >= 0 else "(root)"
        table.add_row(joint.name, _kind(model, joint), parent,
                      *map(_number, (joint.lower, joint.upper, joint.velocity, joint.effort,
                                     joint.inertia.mass)))
    console = terminal()
    console.print(table)
    console.print(f"{model.name}: {model.njoints} joints, nq = {model.nq}, nv = {model.nv}, "
                  f"{len(model.frame_names)} frames, {model.total_mass:.6g} kg moving, "
                  f"{model.base_inertia.mass:.6g} kg fixed. Limits in rad or m, rad/s or m/s, "
                  "N m or N; mass in kg.", markup=False)
    for warning in model.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)


def show_torques(model: Model, q: Sequence[str], v: Sequence[str], a: Sequence[str]) -> None:
    """Print the torques for a state given as texts: all values in order, or NAME=NUMBER.

    Raises
    ------
    ValueError
        Names the value that cannot be used.
    """
    position = _numbers("q", q, model.position_names, model.neutral())
    velocity = _numbers("v", v, model.velocity_names, np.zeros(model.nv))
    acceleration = _numbers("a", a, model.velocity_names, np.zeros(model.nv))
    data = Data(model)
    table = _table("joint", _right("v"), _right("a"), _right("gravity"), _right("nle"),
                   _right("torque"), _right("limit"), _right("load"))
    columns = zip(model.velocity_names, velocity, acceleration,
                  generalized_gravity(model, data, position),
                  nonlinear_effects(model, data, position, velocity),
                  rnea(model, data, position, velocity, acceleration), model.effort_limit)
    for name, *numbers, torque, limit in columns:
        load = f"{100.0 * abs(torque) / limit:.1f} %" if 0.0 < limit < math.inf else ""
        table.add_row(name, *map(_number, (*numbers, torque, limit)), load)
    console = terminal()
    console.print(table)
    console.print("torque: inverse dynamics, M a + nle. In N m, or N for a prismatic joint.")


def show_findings(found: Sequence[Finding], unseen: Sequence[str] = ()) -> int:
    """Print the findings with advice, and what was not examined; return their number."""
    console = terminal()
    if found:
        table = Table(Column("where", overflow="fold"), "what", "advice", box=box.SIMPLE_HEAD,
                      show_lines=True)
        for finding in found:
            table.add_row(*map(escape, (finding.where, finding.what, finding.advice)))
        console.print(table)
    for line in unseen:
        console.print(f"note: {line}", style="yellow", markup=False, soft_wrap=True)
    console.print(counted(len(found), "finding"))
    return len(found)


def show_identification(result: "Identification", report: Path | None = None) -> None:
    """Print the error of each joint's torque before and after, friction, and what is missing."""
    table = _table("joint", _right("torque"), _right("before"), _right("after"), _right("noise"),
                   _right("armature"), _right("damping"), _right("friction"), _right("offset"))
    after = result.identified
    for k, joint in enumerate(result.joints):
        table.add_row(joint.name, *map(_number, (
            joint.torque, joint.before, joint.after, joint.noise, after.armature[k],
            after.damping[k], after.friction[k], result.offset[k])))
    console = terminal()
    console.print(table)
    console.print("RMS in N m or N, on held-out samples: of the measured torque, and of its "
                  "difference from the model before and after.")
    known = sum(each != "not" for each in result.base.excitation)
    console.print(f"{known} of {len(result.base.names)} combinations of parameters are determined; "
                  f"{result.size} samples, {result.seconds:.1f} s.")
    for text in result.warnings:
        console.print(f"warning: {text}", style="yellow", markup=False)
    for text in result.undetermined[:_MOST]:
        console.print(f"not determined: {text}", markup=False)
    if len(result.undetermined) > _MOST:
        where = str(report) if report else "--report FILE.html lists them"
        console.print(f"not determined: {len(result.undetermined) - _MOST} more; {where}",
                      markup=False)


def print_findings(found: Sequence[Finding], unseen: Sequence[str] = ()) -> int:
    """Print the findings as JSON, and to stderr what was not examined; return their number."""
    print(json.dumps([_plain(finding._asdict()) for finding in found], indent=2, allow_nan=False))
    for line in unseen:
        print(f"note: {line}", file=sys.stderr)
    return len(found)


def _plain(value: Any) -> Any:
    """Replace infinite numbers, which JSON does not have, with None."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def counted(count: int, what: str) -> str:
    """Return a number of things, such as "2 findings"."""
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def terminal() -> Console:
    """Return the terminal; without one, a console wide enough for all columns."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _table(*columns: Column | str) -> Table:
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _right(name: str) -> Column:
    return Column(name, justify="right", no_wrap=True)


def _kind(model: Model, joint: Joint) -> str:
    if joint.mimic is None:
        return joint.kind
    rule = joint.mimic
    return (f"{joint.kind}, {rule.multiplier:g} {model.joint_names[rule.joint]} "
            f"{rule.offset:+g}")


def _number(x: float) -> str:
    return f"{round(x, 9) + 0.0:.5g}" if math.isfinite(x) else ""


def _numbers(what: str, words: Sequence[str], names: Sequence[str], values: Array) -> Array:
    """Parse numbers: one for each name in order, or NAME=NUMBER for some."""
    if not words:
        return values
    if not any("=" in word for word in words):
        if len(words) != len(names):
            raise ValueError(f"--{what}: expected {len(names)} numbers, for {', '.join(names)}, "
                             f"got {len(words)}")
        return np.array([_parsed(what, word) for word in words])
    values = values.copy()
    for word in words:
        name, equals, number = word.rpartition("=")
        if not equals:
            raise ValueError(f"--{what}: {word!r} is not NAME=NUMBER; specify all values by name, "
                             "or all in order")
        if name not in names:
            raise ValueError(f"--{what}: there is no {name!r}; available: {', '.join(names)}")
        values[names.index(name)] = _parsed(what, number)
    return values


def _parsed(what: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--{what}: {word!r} is not a number") from None
