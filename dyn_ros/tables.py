# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the ``dyn_ros`` command tells of a robot, as tables."""
import math

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Column, Table

from .algorithms import generalized_gravity, nonlinear_effects, rnea
from .model import Data


def show_info(model):
    """Joints with what they carry and their limits, totals, warnings."""
    table = _table("joint", "type", "on", _right("lower"), _right("upper"), _right("velocity"),
                   _right("effort"), _right("mass"))
    for joint in model.tree.joints:
        parent = model.joint_names[joint.parent] if joint.parent >= 0 else "(root)"
        table.add_row(joint.name, _kind(model, joint), parent,
                      *map(_number, (joint.lower, joint.upper, joint.velocity, joint.effort,
                                     joint.inertia.mass)))
    console = _console()
    console.print(table)
    console.print(f"{model.name}: {model.njoints} joints, nq = {model.nq}, nv = {model.nv}, "
                  f"{len(model.frame_names)} frames, {model.total_mass:.6g} kg moving, "
                  f"{model.base_inertia.mass:.6g} kg held still. Limits in rad or m, rad/s or "
                  "m/s, N m or N; mass in kg.", markup=False)
    for warning in model.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)


def show_torques(model, q, v, a):
    """Torques of a state whose numbers are texts: all in order, or NAME=NUMBER.

    Raises
    ------
    ValueError
        Names what cannot be used.
    """
    q = _numbers("q", q, model.position_names, model.neutral())
    v = _numbers("v", v, model.velocity_names, np.zeros(model.nv))
    a = _numbers("a", a, model.velocity_names, np.zeros(model.nv))
    data = Data(model)
    table = _table("joint", _right("v"), _right("a"), _right("gravity"), _right("nle"),
                   _right("torque"), _right("limit"), _right("load"))
    columns = zip(model.velocity_names, v, a, generalized_gravity(model, data, q),
                  nonlinear_effects(model, data, q, v), rnea(model, data, q, v, a),
                  model.effort_limit)
    for name, *numbers, torque, limit in columns:
        load = f"{100.0 * abs(torque) / limit:.1f} %" if 0.0 < limit < math.inf else ""
        table.add_row(name, *map(_number, (*numbers, torque, limit)), load)
    console = _console()
    console.print(table)
    console.print("torque: that of the motion, M a + nle. In N m, or N of a sliding joint.")


def show_findings(found):
    """What is doubtful, with advice; gives how much there is."""
    console = _console()
    if found:
        table = Table(Column("where", overflow="fold"), "what", "advice", box=box.SIMPLE_HEAD,
                      show_lines=True)
        for finding in found:
            table.add_row(*finding)
        console.print(table)
    console.print(f"{len(found)} doubtful" if found else "nothing doubtful found")
    return len(found)


def _console():
    """The terminal; wide enough for every column where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _table(*columns):
    return Table(*columns, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _right(name):
    return Column(name, justify="right", no_wrap=True)


def _kind(model, joint):
    if joint.mimic is None:
        return joint.kind
    rule = joint.mimic
    return (f"{joint.kind}, {rule.multiplier:g} {model.joint_names[rule.joint]} "
            f"{rule.offset:+g}")


def _number(x):
    return f"{round(x, 9) + 0.0:.5g}" if math.isfinite(x) else ""


def _numbers(what, words, names, values):
    """Numbers out of words: one for each name in order, or NAME=NUMBER for some."""
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
            raise ValueError(f"--{what}: {word!r} stands among NAME=NUMBER; give all by name, or "
                             "all numbers in order")
        if name not in names:
            raise ValueError(f"--{what}: there is no {name!r}; there are: {', '.join(names)}")
        values[names.index(name)] = _parsed(what, number)
    return values


def _parsed(what, word):
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"--{what}: {word!r} is not a number") from None
