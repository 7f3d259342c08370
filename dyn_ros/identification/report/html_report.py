# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""HTML page of a report: the values of its template, and their formats."""

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
from ...engine.model.coordinates import has_single_coordinate
from ...files.writing import write_whole_text
from ..result import Identification, JointResult
from . import figures

_DASH, _MINUS = "\u2013", "\u2212"
_CURVE_COLORS = {
    "measured": figures.MEASURED_COLOR,
    "before": figures.BEFORE_COLOR,
    "after": figures.AFTER_COLOR,
}
_INTERVAL_COLORS = {"well": "#9cc5a9", "weakly": "#e8c69a", "not": "#e6b3af"}
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
    figures.import_plotly()
    from plotly.offline import get_plotlyjs

    base = result.base
    combinations = zip(
        base.names, base.units, base.excitation, base.lower, base.upper, base.before, base.after
    )
    page = load_template("page.html.j2").render(
        result=result,
        library=get_plotlyjs(),
        sections=_SECTIONS,
        summary=summary(result),
        unseen=unseen,
        median=SimpleNamespace(
            before=_median_error(result, "before"), after=_median_error(result, "after")
        ),
        worst=max(filter(math.isfinite, map(noise_ratio, result.joints)), default=math.nan),
        duration=sum(
            result.samples.time[stretch.stop - 1] - result.samples.time[stretch.start]
            for stretch in figures.gapless_stretches(result.samples)
        ),
        figures=SimpleNamespace(
            errors=figures.error_figure(result),
            torques=list(figures.torque_figures(result)),
            bodies=figures.body_figure(result),
            friction=list(figures.friction_figures(result)),
        ),
        bodies=list(_body_rows(result)),
        losses=_friction_table(result),
        combinations=list(combinations),
        undetermined=[sentence.partition(": ")[::2] for sentence in result.undetermined],
    )
    write_whole_text(path, page)


def require_packages() -> None:
    """Raise an ImportError with a remedy if a package for reports is not installed."""
    figures.import_plotly()
    load_template("page.html.j2")


def load_template(name: str) -> Any:
    """Return a template of this folder, in which text is escaped."""
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
        number=format_number,
        ratio=noise_ratio,
        unit=format_unit,
        terms=split_terms,
        interval_bar=interval_bar,
        json=lambda figure: markupsafe.Markup(figures.figure_json(figure)),
    )
    environment.globals.update(colors=_CURVE_COLORS, fills=_INTERVAL_COLORS)
    return environment.get_template(name)


def summary(result: Identification) -> tuple[str, str, str]:
    """Return sentences about errors of held-out torques, determined parameters, and warnings."""
    before, after = (
        format_number(_median_error(result, name), ".3g") for name in ("before", "after")
    )
    sample_count = sum(rows.stop - rows.start for rows in result.held_out)
    error = (
        f"On {sample_count} held-out samples, which the estimation did not use, the "
        f"error of the torques changes from {before} % to {after} % of their RMS value "
        "(median of the joints)."
    )
    well_count, weakly_count, not_count = map(
        result.base.excitation.count, ("well", "weakly", "not")
    )
    determined = (
        f"Torques depend on {len(result.base.names)} combinations of parameters, of "
        f"which the recording determines {well_count} well, "
        f"{weakly_count} weakly and {not_count} not."
    )
    warning_count = len(result.warnings)
    if warning_count == 0:
        warnings = "There are no warnings."
    elif warning_count == 1:
        warnings = "There is one warning, listed below."
    else:
        warnings = f"There are {warning_count} warnings, listed below."
    return error, determined, warnings


# --- numbers


def _median_error(result: Identification, name: str) -> float:
    """Return the RMS error of the median joint [% of its RMS torque], by a field of the joints."""
    values = [
        100.0 * getattr(joint, name) / joint.torque
        for joint in result.joints
        if joint.torque > 0.0 and np.isfinite(getattr(joint, name))
    ]
    return float(np.median(values)) if values else math.nan


def noise_ratio(joint: JointResult) -> float:
    """Return the error after identification, relative to the noise."""
    return joint.after / joint.noise if joint.noise > 0.0 else math.nan


def _body_rows(result: Identification) -> Iterator[tuple[Any, ...]]:
    """Yield link, joint, masses [kg] and centers and radii of gyration [mm], before and after."""
    model = result.model
    for link, joint, before, after in zip(
        model.tree.body_links,
        model.joint_names,
        model.inertial_parameters,
        result.identified.inertial_parameters,
    ):
        (m0, c0, moments0, _), (m1, c1, moments1, _) = map(figures.central_inertia, (before, after))
        lengths = [*zip(c0, c1), *zip(_gyration_radii(moments0), _gyration_radii(moments1))]
        yield link, joint, (m0, m1), [(1e3 * x0, 1e3 * x1) for x0, x1 in lengths]


def _gyration_radii(moments: Array) -> Array:
    """Return the principal radii of gyration about the center of mass, ascending [m]."""
    return np.sort(np.sqrt(moments.sum() - moments))


def _friction_table(result: Identification) -> SimpleNamespace | None:
    """Return columns, and rows of values before and after of actuated joints; None without any."""
    model, identified = result.model, result.identified
    indices, zero = np.flatnonzero(has_single_coordinate(model)).tolist(), np.zeros(model.nv)
    pairs = {
        "damping": (model.damping, identified.damping),
        "Coulomb friction": (model.friction, identified.friction),
        "offset": (zero, result.offset),
    }
    for name, numbers in (
        ("load friction", identified.drives.load_friction),
        ("root friction", identified.drives.root_friction),
        ("full from velocity", identified.drives.friction_velocity),
        ("turns over distance", identified.drives.friction_distance),
    ):
        if numbers.any():
            pairs[name] = zero, numbers
    if result.stribeck.any():
        pairs |= {
            "Stribeck friction": (zero, result.stribeck),
            "Stribeck velocity": (zero + math.nan, result.stribeck_velocity),
        }
    pairs["rotor inertia"] = model.armature, identified.armature
    rows = [
        (result.joints[k].name, [(before[k], after[k]) for before, after in pairs.values()])
        for k in indices
    ]
    return SimpleNamespace(columns=[(name, 1) for name in pairs], rows=rows) if indices else None


# --- filters of the template


def format_number(value: float, format_spec: str = ".4g") -> str:
    """Return a number in a format; a dash if it is not finite."""
    if not math.isfinite(value):
        return _DASH
    text = format(value, format_spec)
    return (text.lstrip("-") if float(text) == 0.0 else text).replace("-", _MINUS)


def format_unit(name: str) -> str:
    """Return a unit with superscripts."""
    return name.replace("m2", "m²").replace("s2", "s²")


def split_terms(name: str, max_terms: int) -> tuple[str, int]:
    """Return the first terms of a sum of parameters, and the number of omitted terms, not 1."""
    ends = [operator.start() for operator in re.finditer(r" [+-] ", name)]
    return (
        (name, 0)
        if len(ends) < max_terms + 2
        else (name[: ends[max_terms - 1]], len(ends) + 1 - max_terms)
    )


def interval_bar(lower: float, upper: float, before: float, after: float) -> dict[str, Any]:
    """Return positions [px] of an interval and its marks on a picture 180 px wide with margins.

    The scale fits the numbers; an interval that is not finite fills the picture.
    """
    width, margin = 180.0, 8.0
    finite_values = [x for x in (lower, upper, before, after) if math.isfinite(x)]
    low, high = min(finite_values, default=0.0), max(finite_values, default=0.0)

    def position(x: float) -> float:
        """Return the position of a number on the picture [px]."""
        return margin + (width - 2.0 * margin) * (x - low) / ((high - low) or 1.0)

    is_known = math.isfinite(lower) and math.isfinite(upper)
    start, end = (position(lower), position(upper)) if is_known else (0.0, width)
    return {
        "start": f"{start:.1f}",
        "width": f"{max(end - start, 1.5):.1f}",
        "known": is_known,
        "before": f"{position(before):.1f}",
        "after": f"{position(after):.1f}",
    }
