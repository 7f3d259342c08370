# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading of a robot description (URDF) into a `Tree` of moving joints and bodies.

1. `text` and `values` parse the text and reduce it to what dynamics requires, as records of
   urdf_parser_py, so that unusual meshes or plugins do no harm.
2. `topology` checks that the links and joints form one tree.
3. `moving_joints` and `lumping` traverse the tree in the order of Pinocchio, and lump fixed joints
   into the joints that move them.
4. `topology` resolves mimic joints to the joints that drive them.

Unusable descriptions raise a `UrdfError` that names the element and a remedy. Implausible but
usable values are reported in `Tree.warnings`, or rejected with ``strict=True``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...kernel.validation import require_choice
from .lumping import link_inertia, lump_inertias, rotational_fault, rotational_of, warn_massless
from .moving_joints import ROOT_JOINT_NAME, make_joint, traverse_tree
from .text import (
    MAX_CHARACTERS,
    IncompleteElement,
    UrdfError,
    child,
    children,
    parse_elements,
    place_of,
    read_description,
    read_description_file,
)
from .topology import (
    check_link_count,
    check_one_tree,
    find_unreported_joint,
    has_root_joint,
    mimic_rules,
)
from .tree import MAX_URDF_NUMBER, MOVING, ONE_DOF, SUPPORTED, Frame, Joint, Mimic, Tree
from .values import (
    parse_numbers,
    placement,
    placement_of,
    read_angles,
    read_values,
    record_types,
    to_element,
)

if TYPE_CHECKING:
    from urdf_parser_py.urdf import Robot

__all__ = [
    "MAX_CHARACTERS",
    "MAX_URDF_NUMBER",
    "MOVING",
    "ONE_DOF",
    "ROOT_JOINT_NAME",
    "SUPPORTED",
    "Frame",
    "Joint",
    "Mimic",
    "Tree",
    "UrdfError",
    "check_link_count",
    "child",
    "children",
    "find_unreported_joint",
    "has_root_joint",
    "parse_elements",
    "parse_numbers",
    "placement",
    "placement_of",
    "read_angles",
    "read_description",
    "read_description_file",
    "read_urdf",
    "read_values",
    "rotational_fault",
    "rotational_of",
]


def read_urdf(
    xml: str | bytes | Robot,
    root_joint: str | None = None,
    mimic: str = "project",
    strict: bool = False,
) -> Tree:
    """Read a robot description: the URDF text, with xacro expanded, or a robot of urdf_parser_py.

    Bytes are decoded according to their XML declaration. ``root_joint`` ("floating", "planar";
    None: fixed) is the joint between the universe and the root link, named "root_joint". ``mimic``
    is "project", or "ignore", which makes mimic joints independent and ignores their rules.
    ``strict`` raises an error instead of adding to ``Tree.warnings``. A description that cannot be
    used raises a UrdfError, an unknown ``root_joint`` or ``mimic`` a ValueError.

    Conventions are those of the URDF specification: rpy are fixed-axis angles, R = Rz(yaw)
    Ry(pitch) Rx(roll); the default axis is x; lower and upper limits default to 0. A planar joint
    moves in the x-y plane of its frame, as in Pinocchio and MoveIt; its axis is ignored.
    """
    require_choice("root_joint", root_joint, (None, "floating", "planar"))
    require_choice("mimic", mimic, ("project", "ignore"))
    warnings: list[str] = []
    is_robot = isinstance(xml, record_types()["robot"])
    root = to_element(xml) if is_robot else parse_elements(xml)
    try:
        robot = read_values(root, warnings)
    except IncompleteElement as error:
        place = place_of(error.element, root, xml)
        raise UrdfError(f"{error} ({place})" if place else str(error)) from None
    tree = _make_tree(robot, check_one_tree(robot), root_joint, mimic, warnings)
    if strict and warnings:
        raise UrdfError("rejected because of strict=True: " + "; ".join(warnings))
    return tree


def _make_tree(
    robot: Robot, root: str, root_joint: str | None, mimic: str, warnings: list[str]
) -> Tree:
    """Return the tree of a robot; append to the warnings."""
    links = {link.name: link_inertia(link, warnings) for link in robot.links}
    moving, carriers, frames = traverse_tree(robot, root, root_joint, links)
    *inertias, base_inertia = lump_inertias(robot.links, carriers, len(moving), links)
    names = [joint.name for joint, _, _ in moving]
    rules: list[Mimic | None] = [None] * len(moving)
    if mimic == "project":
        rules = mimic_rules(robot, names)
    joints = tuple(
        make_joint(joint, parent, placement, inertia, rule, warnings)
        for (joint, parent, placement), inertia, rule in zip(moving, inertias, rules, strict=True)
    )
    warn_massless(joints, warnings)
    return Tree(robot.name, joints, tuple(frames), base_inertia, tuple(warnings), robot)
