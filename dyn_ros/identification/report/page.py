# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of a report: the numbers of its template, and how they are written."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from ...engine.kernel.types import Array
from ...engine.model.coordinates import is_actuated
from ..result import Identification, JointResult
from . import figures

_DASH, _MINUS = "\u2013", "\u2212"
_COLORS = {"measured": figures.MEASURED, "before": figures.BEFORE, "after": figures.AFTER}
_FILLS = {"well": "#9cc5a9", "weakly": "#e8c69a", "not": "#e6b3af"}
_SECTIONS = {
    "errors": "Error of each joint",
    "torques": "Held-out torques",
    "bodies": "Bodies",
    "friction": "Friction and rotors",
    "combinations": "Combinations of parameters",
    "undetermined": "What the recording does not determine",
}


def write_report(
    result: Identification, path: str | PathLike[str], unseen: Sequence[JointResult] = ()
) -> None:
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
    unseen : sequence of JointResult, optional
        Errors on recordings that were not used, from ``Identification.errors``.

    Raises
    ------
    ImportError
        plotly or Jinja2 is not installed.
    OSError
        The file cannot be written.
    """
    figures.plotly()
    from plotly.offline import get_plotlyjs

    base = result.base
    combinations = zip(
        base.names, base.units, base.excitation, base.lower, base.upper, base.before, base.after
    )
    page = template("page.html.j2").render(
        result=result,
        library=get_plotlyjs(),
        sections=_SECTIONS,
        summary=summary(result),
        unseen=unseen,
        median=SimpleNamespace(before=_median(result, "before"), after=_median(result, "after")),
        worst=max(filter(math.isfinite, map(ratio, result.joints)), default=math.nan),
        duration=sum(
            result.samples.time[stretch.stop - 1] - result.samples.time[stretch.start]
            for stretch in figures.stretches_of(result.samples)
        ),
        figures=SimpleNamespace(
            errors=figures.errors(result),
            torques=list(figures.torques(result)),
            bodies=figures.bodies(result),
            friction=list(figures.friction(result)),
        ),
        bodies=list(_bodies(result)),
        losses=_losses(result),
        combinations=list(combinations),
        undetermined=[sentence.partition(": ")[::2] for sentence in result.undetermined],
    )
    Path(path).write_text(page, encoding="utf-8")


def template(name: str) -> Any:
    """A template of this folder, in which text is escaped."""
    try:
        import jinja2
        import markupsafe
    except ImportError:
        raise ImportError('a report requires Jinja2: pip install "dyn_ros[identify]"') from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html.j2"]),
    )
    environment.filters.update(
        number=number,
        ratio=ratio,
        unit=unit,
        terms=terms,
        scaled=scaled,
        json=lambda figure: markupsafe.Markup(figures.content(figure)),
    )
    environment.globals.update(colors=_COLORS, fills=_FILLS)
    return environment.get_template(name)


def summary(result: Identification) -> tuple[str, str, str]:
    """Three sentences: the error of held-out torques, what is determined, and warnings."""
    before, after = (number(_median(result, name), ".3g") for name in ("before", "after"))
    used = sum(rows.stop - rows.start for rows in result.held_out)
    error = (
        f"On {used} held-out samples, which the estimation did not use, the "
        f"error of the torques changes from {before} % to {after} % of their RMS value "
        "(median of the joints)."
    )
    well, weakly, not_ = map(result.base.excitation.count, ("well", "weakly", "not"))
    determined = (
        f"Torques depend on {len(result.base.names)} combinations of parameters, of "
        f"which the recording determines {well} well, {weakly} weakly and {not_} not."
    )
    few = len(result.warnings)
    warned = (
        "There are no warnings."
        if not few
        else f"There {'is one warning' if few == 1 else f'are {few} warnings'}, listed below."
    )
    return error, determined, warned


# --- numbers


def _median(result: Identification, name: str) -> float:
    """RMS error of the median joint [% of its RMS torque]."""
    values = [
        100.0 * getattr(joint, name) / joint.torque
        for joint in result.joints
        if joint.torque > 0.0 and np.isfinite(getattr(joint, name))
    ]
    return float(np.median(values)) if values else math.nan


def ratio(joint: JointResult) -> float:
    """Error after, relative to the noise."""
    return joint.after / joint.noise if joint.noise > 0.0 else math.nan


def _bodies(result: Identification) -> Iterator[tuple[Any, ...]]:
    """Link, joint, masses before and after; pairs of centers and radii of gyration [mm]."""
    model = result.model
    for link, joint, *both in zip(
        model.tree.body_links,
        model.joint_names,
        model.inertial_parameters,
        result.identified.inertial_parameters,
    ):
        (m0, c0, moments0, _), (m1, c1, moments1, _) = map(figures.central, both)
        lengths = [*zip(c0, c1), *zip(_gyration(moments0), _gyration(moments1))]
        yield link, joint, (m0, m1), [(1e3 * x0, 1e3 * x1) for x0, x1 in lengths]


def _gyration(moments: Array) -> Array:
    """Principal radii of gyration about the center of mass, ascending [m]."""
    return np.sort(np.sqrt(moments.sum() - moments))


def _losses(result: Identification) -> SimpleNamespace | None:
    """Columns, and for each joint with one coordinate pairs of before and after; None without."""
    old, new = result.model, result.identified
    shown, zero = np.flatnonzero(is_actuated(old)).tolist(), np.zeros(old.nv)
    pairs = {
        "damping": (old.damping, new.damping),
        "Coulomb friction": (old.friction, new.friction),
        "offset": (zero, result.offset),
    }
    for name, numbers in (
        ("load friction", new.drives.load_friction),
        ("root friction", new.drives.root_friction),
        ("full from velocity", new.drives.friction_velocity),
        ("turns over distance", new.drives.friction_distance),
    ):
        if numbers.any():
            pairs[name] = zero, numbers
    if result.stribeck.any():
        pairs |= {
            "Stribeck friction": (zero, result.stribeck),
            "Stribeck velocity": (zero + math.nan, result.stribeck_velocity),
        }
    pairs["rotor inertia"] = old.armature, new.armature
    rows = [
        (result.joints[k].name, [(before[k], after[k]) for before, after in pairs.values()])
        for k in shown
    ]
    return SimpleNamespace(columns=[(name, 1) for name in pairs], rows=rows) if shown else None


# --- filters of the template


def number(value: float, form: str = ".4g") -> str:
    """A number in this format, or a dash."""
    if not math.isfinite(value):
        return _DASH
    written = format(value, form)
    return (written.lstrip("-") if float(written) == 0.0 else written).replace("-", _MINUS)


def unit(name: str) -> str:
    return name.replace("m2", "m²").replace("s2", "s²")


def terms(name: str, most: int) -> tuple[str, int]:
    """The first terms of a sum of parameters, and the number of the others if they are many."""
    ends = [operator.start() for operator in re.finditer(r" [+-] ", name)]
    return (name, 0) if len(ends) < most + 2 else (name[: ends[most - 1]], len(ends) + 1 - most)


def scaled(lower: float, upper: float, before: float, after: float) -> dict[str, Any]:
    """Places of a bar and its marks on 180 px, of which it leaves a margin.

    The scale is that of these numbers; an interval that is not finite fills it.
    """
    width, margin = 180.0, 8.0
    finite = [x for x in (lower, upper, before, after) if math.isfinite(x)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)

    def place(x: float) -> float:
        return margin + (width - 2.0 * margin) * (x - low) / ((high - low) or 1.0)

    known = math.isfinite(lower) and math.isfinite(upper)
    start, end = (place(lower), place(upper)) if known else (0.0, width)
    return {
        "start": f"{start:.1f}",
        "width": f"{max(end - start, 1.5):.1f}",
        "known": known,
        "before": f"{place(before):.1f}",
        "after": f"{place(after):.1f}",
    }
