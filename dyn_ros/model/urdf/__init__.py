# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a robot description (URDF) into a `Tree`: the moving joints and what each carries.

The text goes through four steps. It is parsed and stripped to what dynamics needs, so that a
strange mesh or plugin never hurts (`text`, `values`); the links and joints are checked to be one
tree (`structure`); the tree is walked in Pinocchio's order while fixed joints are lumped into the
moving joint they hang on (`walk`, `joints`, `bodies`); and mimic joints are followed to the joint
that drives them (`mimics`).

Whatever is wrong ends as a `UrdfError` that names the element and says what would do. What is
odd but can be computed with is listed in `Tree.warnings`, or rejected with ``strict=True``.
"""
from .bodies import lumped, warn_massless
from .error import UrdfError
from .joints import make_joint
from .mimics import mimic_rules
from .origin import placement
from .structure import check_one_tree
from .text import MAX_CHARACTERS, children, parse_elements, read_description
from .tree import MOVING, ONE_DOF, SUPPORTED, Frame, Joint, Mimic, Tree
from .values import parse_numbers, parse_values
from .walk import ROOT_JOINT_NAME, walk

__all__ = ["MAX_CHARACTERS", "MOVING", "ONE_DOF", "ROOT_JOINT_NAME", "SUPPORTED", "Frame", "Joint",
           "Mimic", "Tree", "UrdfError", "children", "parse_elements", "parse_numbers", "placement",
           "read_description", "read_urdf"]


def read_urdf(xml: str | bytes, root_joint: str | None = None, mimic: str = "project",
              strict: bool = False) -> Tree:
    """Read a robot description.

    Parameters
    ----------
    xml : str or bytes
        The URDF text, xacro already expanded. Bytes are decoded as their XML declaration says.
    root_joint : {None, "floating", "planar"}
        The joint between the universe and the root link; named "root_joint". None fixes it.
    mimic : {"project", "ignore"}
        "ignore" makes mimic joints plain free joints and does not look at their mimic elements.
    strict : bool
        Reject what would otherwise be listed in `Tree.warnings`.

    Returns
    -------
    Tree

    Raises
    ------
    UrdfError
        For anything that is wrong in the text.
    ValueError
        For an unknown `root_joint` or `mimic`.

    Notes
    -----
    Conventions are those of the URDF specification: rpy are fixed-axis angles, R = Rz(yaw)
    Ry(pitch) Rx(roll); the default axis is x; lower and upper limits default to 0. A planar joint
    moves in the x-y plane of its own frame as in Pinocchio and MoveIt, whatever its axis says.
    """
    _check_choice("root_joint", root_joint, (None, "floating", "planar"))
    _check_choice("mimic", mimic, ("project", "ignore"))
    warnings: list[str] = []
    robot = parse_values(parse_elements(xml), warnings)
    root = check_one_tree(robot)
    tree = _assemble(robot, root, root_joint, mimic, warnings)
    if strict and warnings:
        raise UrdfError("refused, as strict=True: " + "; ".join(warnings))
    return tree


def _check_choice(argument, value, choices):
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{argument} is {value!r}; expected one of {allowed}")


def _assemble(robot, root, root_joint, mimic, warnings):
    moving, seats, frames = walk(robot, root, root_joint)
    *inertias, base = lumped(robot.links, seats, len(moving), warnings)
    rules = mimic_rules(robot, moving) if mimic == "project" else [None] * len(moving)
    joints = tuple(
        make_joint(joint, inertia, rule, warnings)
        for joint, inertia, rule in zip(moving, inertias, rules, strict=True)
    )
    warn_massless(joints, warnings)
    return Tree(robot.name, joints, tuple(frames), base, tuple(warnings))
