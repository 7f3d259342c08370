# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A table of a robot for notebooks."""

from __future__ import annotations

import math
from html import escape

from .physical_constants import PhysicalConstants

_HEADINGS = ("joint", "kind", "lower", "upper", "mass [kg]")


def model_table(model: PhysicalConstants) -> str:
    """Return the name, the size and the joints of a robot in HTML."""
    rows = [_HEADINGS, *(_joint_cells(model, i) for i in range(model.njoints))]
    lines = "".join(
        f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
        for tag, cells in zip(("th", *["td"] * model.njoints), rows)
    )
    return (
        f"<table><caption>{escape(model.name)}: nq = {model.nq}, nv = {model.nv}, "
        f"{model.total_mass:.4g} kg moving; limits in rad or m</caption>{lines}</table>"
    )


def _joint_cells(model: PhysicalConstants, i: int) -> tuple[str, ...]:
    """Return the cells of joint i; limits of joints with one coordinate only."""
    joint, k = model.tree.joints[i], model.idx_q[i]
    limits = ["", ""]
    if joint.mimic is not None:
        limits = [_format_limit(joint.lower), _format_limit(joint.upper)]
    elif model.nqs[i] == 1:
        limits = [_format_limit(model.lower[k]), _format_limit(model.upper[k])]
    return joint.name, joint.kind, *limits, f"{model.inertias[i].mass:.4g}"


def _format_limit(x: float) -> str:
    """Return a limit; nothing for none."""
    return f"{x:.4g}" if math.isfinite(x) else ""
