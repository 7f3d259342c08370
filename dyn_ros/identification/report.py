# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A report of an identification: one HTML page that opens without a network."""
from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.kernel.types import Array
from . import report_figures as figures
from .report_page import (
    combination,
    fixed,
    folded,
    interval,
    key,
    listing,
    number,
    page,
    pair,
    plot,
    plots,
    table,
    text,
    unit,
)
from .result import Identification, JointResult

_MANY_ROWS = 80                 # of a table: folded at first
_EXCITATION = ("well", "weakly", "not")
_KEY = key(("measured", figures.MEASURED), ("before", figures.BEFORE), ("after", figures.AFTER))
_SECTIONS = {"errors": "Error of each joint", "torques": "Held-out torques", "bodies": "Bodies",
             "friction": "Friction and rotors", "combinations": "Combinations of parameters",
             "undetermined": "What the recording does not determine"}


def write_report(result: Identification, path: str | PathLike[str]) -> None:
    """Write a report of an identification, an HTML page for any browser.

    It contains what is needed to judge the result: the torques that were held out, with the
    predictions of both models; errors of all joints and their noise; bodies before and after;
    friction; the combinations of parameters that the torques determine, with their intervals; and
    what the recording does not determine. All is in one file of about 5 MB, which requires no
    network.

    Parameters
    ----------
    result : Identification
    path : str or PathLike
        File to write, such as ``report.html``; it is replaced.

    Raises
    ------
    ImportError
        plotly is not installed.
    OSError
        The file cannot be written.
    """
    figures.plotly()
    from plotly.offline import get_plotlyjs
    content = page(f"{result.model.name}: identification", get_plotlyjs(), _content(result))
    Path(path).write_text(content, encoding="utf-8")


def _content(result: Identification) -> Iterator[str]:
    yield from _head(result)
    yield from _errors(result)
    yield from _torques(result)
    yield from _bodies(result)
    yield from _friction(result)
    yield from _base(result)
    yield from _undetermined(result)
    yield ('<p class="quiet" style="margin-top:48px">' + text(result.samples.filter)
           + f" The estimation took {number(result.seconds, 3)} s.</p>")


def _figure(figure: Any, name: str, caption: str) -> str:
    """A figure with its caption; an empty one is left out."""
    if figure is None:
        return ""
    return (f'<figure>{plot(figure, name=name + "-figure")}<figcaption>{text(caption)}</figcaption>'
            "</figure>")


# --- summary

def _head(result: Identification) -> Iterator[str]:
    yield f"<h1>{text(result.model.name)}</h1>"
    yield '<p class="quiet">Identification of inertias and friction from measured torques</p>'
    yield '<div class="summary">' + "".join(
        f"<p>{text(each)}</p>" for each in summary(result)) + "</div>"
    samples = result.samples
    duration = sum(samples.time[each.stop - 1] - samples.time[each.start]
                   for each in figures.stretches_of(samples))
    count = {kind: result.base.excitation.count(kind) for kind in _EXCITATION}
    before, after = (_median(result, name) for name in ("before", "after"))
    ratios = [_ratio(joint) for joint in result.joints]
    worst = max((x for x in ratios if np.isfinite(x)), default=np.nan)
    change = f"{number(before, 3)} → {number(after, 3)} <small>%</small>"
    facts = (
        ("Torque error, median joint", change),
        ("Combinations determined well", f"{count['well']} <small>of "
                                         f"{len(result.base.names)}</small>"),
        ("Error after, worst joint", f"{number(worst, 3)} <small>times its noise</small>"),
        ("Recording", f"{number(duration, 3)} <small>s, {len(samples)} samples</small>"))
    yield '<dl class="facts">' + "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts) + "</dl>"
    yield "<nav>" + "".join(f'<a href="#{name}">{title}</a>'
                            for name, title in _SECTIONS.items()) + "</nav>"
    if result.warnings:
        warnings = listing([text(each) for each in result.warnings])
        yield f'<div class="warnings"><b>Warnings</b>{warnings}</div>'


def summary(result: Identification) -> tuple[str, str, str]:
    """Three sentences: the error of held-out torques, what is determined, and warnings."""
    before, after = (_median(result, name) for name in ("before", "after"))
    used = sum(each.stop - each.start for each in result.held_out)
    error = (f"On {used} held-out samples, which the estimation did not use, the "
             f"error of the torques changes from {number(before, 3)} % to {number(after, 3)} % of "
             "their RMS value (median of the joints).")
    count = {kind: result.base.excitation.count(kind) for kind in _EXCITATION}
    determined = (f"Torques depend on {len(result.base.names)} combinations of parameters, of "
                  f"which the recording determines {count['well']} well, {count['weakly']} weakly "
                  f"and {count['not']} not.")
    few = len(result.warnings)
    warned = ("There are no warnings." if not few else
              f"There {'is one warning' if few == 1 else f'are {few} warnings'}, listed below.")
    return error, determined, warned


def _median(result: Identification, name: str) -> float:
    """RMS error of the median joint [% of its RMS torque]."""
    values = [100.0 * getattr(joint, name) / joint.torque for joint in result.joints
              if joint.torque > 0.0 and np.isfinite(getattr(joint, name))]
    return float(np.median(values)) if values else float("nan")


def _title(section: str) -> str:
    return f'<h2 id="{section}">{_SECTIONS[section]}</h2>'


def _ratio(joint: JointResult) -> float:
    """Error after, relative to the noise."""
    return joint.after / joint.noise if joint.noise > 0.0 else float("nan")


# --- sections

def _errors(result: Identification) -> Iterator[str]:
    yield _title("errors")
    yield ("<p>RMS difference of measured and modeled torque, held-out samples. An error close to "
           "the noise cannot become smaller; one far above it means that the model lacks "
           "something, such as flexibility, friction of another kind, or a cable.</p>")
    yield _figure(figures.errors(result), "errors", "Vertical marks: noise of the measured torque.")
    yield table(
        ("joint", "RMS torque", "error before", "error after", "noise", "after / noise", "unit"),
        [(text(joint.name), number(joint.torque), f'<span class="b">{number(joint.before)}</span>',
          f'<span class="a">{number(joint.after)}</span>', number(joint.noise),
          fixed(_ratio(joint), 2), text(joint.unit))
         for joint in result.joints])


def _torques(result: Identification) -> Iterator[str]:
    yield _title("torques")
    note = ""
    if result.samples.contacts:
        note = (" Predictions include the forces at contacts, which are estimated from each sample "
                "for both models.")
    yield ('<p class="quiet">Over time [s]; the stretches that were held out follow each other. '
           "Right: distribution of the difference. Zooming applies to all joints, a double click "
           f"shows everything again.{note}</p>")
    yield _KEY
    yield plots(figures.torques(result), "wide")


def _bodies(result: Identification) -> Iterator[str]:
    yield _title("bodies")
    yield ("<p>Each body as a solid ellipsoid of uniform density with the same inertia, in the "
           "neutral configuration. A body consists of all links that are fixed to a joint.</p>")
    yield _figure(figures.bodies(result), "bodies", "Drag to turn, scroll to zoom. Lengths in m.")
    rows = []
    parameters = (result.model.inertial_parameters, result.identified.inertial_parameters)
    for link, joint, *both in zip(figures.body_links(result.model), result.model.joint_names,
                                  *parameters):
        (m, c, moments, _), (m1, c1, moments1, _) = map(figures.central, both)
        rows.append((f"{text(link)}<small>{text(joint)}</small>", pair(number(m), number(m1)),
                     *map(_millimeters, c, c1),
                     *map(_millimeters, _gyration(moments), _gyration(moments1))))
    yield table(("body", "mass [kg]", ("center of mass x, y, z [mm]", 3),
                 ("principal radii of gyration [mm]", 3)), rows, "pair")
    yield ('<p class="quiet"><span class="b">Above: before.</span> <span class="a">Below: after.'
           "</span> Centers of mass are in the joint's frame; radii of gyration are about the "
           "principal axes through the center of mass.</p>")


def _millimeters(before: float, after: float) -> str:
    return pair(fixed(1e3 * before, 1), fixed(1e3 * after, 1))


def _gyration(moments: Array) -> Array:
    """Principal radii of gyration about the center of mass, ascending [m]."""
    return np.sort(np.sqrt(moments.sum() - moments))


def _friction(result: Identification) -> Iterator[str]:
    shown = figures.single(result.model)
    if not shown:
        return
    yield _title("friction")
    yield ('<p class="quiet">Over velocity. Measured: torque less inverse dynamics of the '
           "identified model. Before and after: friction and offset.</p>")
    yield _KEY
    yield plots(figures.friction(result))
    has_stribeck = bool(result.stribeck.any())
    header = ["joint", "damping", "Coulomb friction", "offset", "rotor inertia"]
    if has_stribeck:
        header[4:4] = ["Stribeck friction", "Stribeck velocity"]
    rows = [(text(result.joints[k].name), *_losses(result, k, has_stribeck)) for k in shown]
    yield table(header, rows, "pair")
    yield ('<p class="quiet"><span class="b">Above: before.</span> <span class="a">Below: after.'
           "</span> In SI units: N m s/rad, N m and kg m² for revolute joints, N s/m, N and kg for "
           "prismatic ones. Offsets and rotor inertia are not part of a URDF.</p>")


def _losses(result: Identification, k: int, has_stribeck: bool) -> list[str]:
    """The cells of a joint: damping, friction, offset, rotor inertia before and after."""
    old, new = result.model, result.identified
    values = [(old.damping[k], new.damping[k]), (old.friction[k], new.friction[k]),
              (0.0, result.offset[k]), (old.armature[k], new.armature[k])]
    if has_stribeck:
        values[3:3] = [(0.0, result.stribeck[k]), (np.nan, result.stribeck_velocity[k])]
    return [pair(number(before), number(after)) for before, after in values]


def _base(result: Identification) -> Iterator[str]:
    base = result.base
    yield _title("combinations")
    yield ("<p>Torques do not depend on each parameter separately, but on these combinations only. "
           "A bar is the 95 % interval of the estimate from the torques alone; "
           '<span class="b">the line</span> is the value before, <span class="a">the dot</span> '
           "the value after, which also takes the description and the constraints of physical "
           "bodies into account. Each row has a scale of its own.</p>")
    rows = []
    for n, name in enumerate(base.names):
        kind, lower, upper = base.excitation[n], base.lower[n], base.upper[n]
        before, after = base.before[n], base.after[n]
        rows.append((combination(name), unit(base.units[n]), number(before), number(after),
                     "± " + number(0.5 * (upper - lower), 2),
                     interval(lower, upper, before, after, kind),
                     f'<span class="{kind}">{kind}</span>'))
    content = table(("combination", "unit", "before", "after", "95 %", "", "determined"), rows)
    yield folded(f"{len(rows)} combinations", content, len(rows) <= _MANY_ROWS)


def _undetermined(result: Identification) -> Iterator[str]:
    yield _title("undetermined")
    if not result.undetermined:
        yield "<p>Nothing: the recording determines all combinations.</p>"
        return
    yield ("<p>These keep the values of the description as far as the other results allow. The "
           "motion that is named would determine them.</p>")
    found = [sentence.partition(": ") for sentence in result.undetermined]
    yield listing([combination(name) + separator + text(advice)
                   for name, separator, advice in found])
