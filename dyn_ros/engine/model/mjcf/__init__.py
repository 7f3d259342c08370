# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading of a MuJoCo model into a `Tree` of moving joints and bodies.

1. `source` compiles MJCF; the modules below read the arrays of the mjModel.
2. `bodies` places the joints and frames, in the order of MuJoCo, and adds up inertias.
3. `equalities` makes mimic joints of linear equalities, and `joint_limits` adds up the limits,
   armature and damping of joints and actuators.
4. `ignored` names what a `Tree` cannot express.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...kernel.validation import require_choice
from ..urdf import ONE_DOF, Joint, Mimic, Tree, UrdfError, check_link_count
from .bodies import BodyTree
from .equalities import mimic_rules
from .ignored import ignored_elements
from .joint_limits import dof_armature, dof_damping, dof_friction, effort_limits, position_limits
from .names import ElementNames
from .source import KINDS, MjModel, check_numbers, gravity_of, load_model

__all__ = [
    "MjModel",
    "dof_armature",
    "dof_damping",
    "dof_friction",
    "gravity_of",
    "load_model",
    "read_tree",
]


def read_tree(source: MjModel, mimic: str = "project", strict: bool = False) -> Tree:
    """Return the tree of an mjModel; ``mimic`` and ``strict`` are as for ``read_urdf``.

    Each joint of the mjModel is a joint of the tree, with the same number and the same positions.
    Raises a ValueError for a number that is not finite.
    """
    require_choice("mimic", mimic, ("project", "ignore"))
    check_link_count(source.nbody - 1)  # without the world
    check_numbers(source)
    names = ElementNames.of(source)
    warnings = list(ignored_elements(source, names))
    bodies = BodyTree(source, names, warnings)
    rules = mimic_rules(source, names, warnings)
    joints = _make_joints(source, names, bodies, rules if mimic == "project" else {}, warnings)
    if strict and warnings:
        raise UrdfError("rejected because of strict=True: " + "; ".join(warnings))
    return Tree(names.model, joints, tuple(bodies.frames), bodies.base_inertia, tuple(warnings))


def _make_joints(
    source: MjModel,
    names: ElementNames,
    bodies: BodyTree,
    rules: Mapping[int, Mimic],
    warnings: list[str],
) -> tuple[Joint, ...]:
    """Return the joints of an mjModel, in its order."""
    efforts = effort_limits(source, names, warnings)
    damping, friction = dof_damping(source), dof_friction(source)
    joints = []
    for joint, name in enumerate(names.joints):
        kind = KINDS[source.jnt_type[joint]]
        has_one_dof, dof = kind in ONE_DOF, source.jnt_dofadr[joint]
        lower, upper = position_limits(source, joint) if has_one_dof else (-np.inf, np.inf)
        joints.append(
            Joint(
                name,
                "continuous" if kind == "revolute" and np.isinf([lower, upper]).all() else kind,
                bodies.parents[joint],
                bodies.placements[joint],
                np.array(source.jnt_axis[joint] if has_one_dof else [1.0, 0.0, 0.0]),
                bodies.inertias[joint],
                rules.get(joint),
                lower,
                upper,
                np.inf,
                float(efforts[joint]) if has_one_dof else np.inf,
                float(damping[dof]) if has_one_dof else 0.0,
                float(friction[dof]) if has_one_dof else 0.0,
            )
        )
    return tuple(joints)
