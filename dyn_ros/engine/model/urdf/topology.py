# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Topology of links and joints, which form one tree; mimic joints and their drivers; the base."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...kernel.names import join_names
from .text import UrdfError, quoted
from .tree import MAX_LINKS, MAX_MIMIC_RATIO, ONE_DOF, Mimic, Tree

if TYPE_CHECKING:
    from urdf_parser_py import urdf


def check_link_count(count: int) -> None:
    """Raise a UrdfError if a description has more links than are supported."""
    if count > MAX_LINKS:
        raise UrdfError(
            f"the robot has {count:,} links; at most {MAX_LINKS:,} are supported, so describe "
            "separate robots separately"
        )


def check_one_tree(robot: urdf.Robot) -> str:
    """Check names and connections; return the name of the root link."""
    links = _records_by_name(robot.links, "links")
    joints = _records_by_name(robot.joints, "joints")
    if not links:
        raise UrdfError(
            f'robot "{robot.name}" has no links; expected at least one (if xacro wrote it, expand '
            "the file that calls the macros)"
        )
    check_link_count(len(links))
    for joint in joints.values():
        _check_ends(joint, links)
    parent_of = _joints_above(joints.values())
    roots = [name for name in links if name not in parent_of]
    if len(roots) > 1:
        raise UrdfError(
            f"{len(roots)} root links: {quoted(roots)}; "
            "join all but one to the tree with a joint (fixed, if they do not move)"
        )
    _check_no_cycle(links, parent_of)
    return roots[0]


def _records_by_name(records: Iterable[Any], element_kind: str) -> dict[str, Any]:
    """Return records by name; raise a UrdfError if two have the same."""
    records_by_name = {}
    for record in records:
        if record.name in records_by_name:
            raise UrdfError(f'two {element_kind} are named "{record.name}"; names must differ')
        records_by_name[record.name] = record
    return records_by_name


def _check_ends(joint: urdf.Joint, links: Collection[str]) -> None:
    """Raise a UrdfError if a joint connects a link that does not exist."""
    for end, link in (("parent", joint.parent), ("child", joint.child)):
        if link not in links:
            raise UrdfError(
                f'{end} of joint "{joint.name}" is the unknown link "{link}"; '
                f"available: {quoted(links)}"
            )


def _joints_above(joints: Iterable[urdf.Joint]) -> dict[str, urdf.Joint]:
    """Return the joint above each link that has one."""
    parent_of: dict[str, urdf.Joint] = {}
    for joint in joints:
        if joint.child in parent_of:
            raise UrdfError(
                f'link "{joint.child}" is the child of two joints, '
                f'"{parent_of[joint.child].name}" and "{joint.name}"; '
                "remove one of them, because a URDF must be a tree"
            )
        parent_of[joint.child] = joint
    return parent_of


def _check_no_cycle(links: Iterable[str], parent_of: Mapping[str, urdf.Joint]) -> None:
    """Raise a UrdfError unless every link is connected to the root."""
    connected_links: set[str] = set()
    for link in links:
        path: dict[str, None] = {}  # a dict is ordered and allows fast lookup
        while link not in connected_links and link in parent_of:
            if link in path:
                cycle = list(path)[list(path).index(link) :][::-1]
                raise UrdfError(
                    f"the links {quoted(cycle)} form a cycle; a URDF must be a tree, "
                    f'so remove one of its joints, such as "{parent_of[link].name}"'
                )
            path[link] = None
            link = parent_of[link].parent
        connected_links.update(path)


# --- mimic joints


def mimic_rules(robot: urdf.Robot, moving: Sequence[str]) -> list[Mimic | None]:
    """Return the rule of each moving joint, by their names; None for independent joints."""
    index = {name: number for number, name in enumerate(moving)}
    rules = _rules_by_name(robot)
    return [_mimic_rule(name, rules, index) for name in moving]


def drivers(robot: urdf.Robot) -> dict[str, tuple[str, float]]:
    """Return the name of the driver and the multiplier of each mimic joint, by its name."""
    return {
        name: (driver, multiplier)
        for name, (driver, multiplier, _) in _rules_by_name(robot).items()
        if driver != name
    }


def _rules_by_name(robot: urdf.Robot) -> dict[str, tuple[str, float, float]]:
    """Return the driver's name, multiplier and offset of each joint; chains are resolved."""
    joints = {joint.name: joint for joint in robot.joints}
    rules: dict[str, tuple[str, float, float]] = {}
    for joint in joints.values():
        _resolve_rule(joint, joints, rules)
    return rules


def _mimic_rule(
    name: str, rules: Mapping[str, tuple[str, float, float]], index: Mapping[str, int]
) -> Mimic | None:
    """Return the rule by which a joint follows another one; None if it follows none."""
    driver, multiplier, offset = rules.get(name, (name, 1.0, 0.0))
    return None if driver == name else Mimic(index[driver], multiplier, offset)


def _resolve_rule(
    joint: urdf.Joint,
    joints: Mapping[str, urdf.Joint],
    rules: dict[str, tuple[str, float, float]],
) -> None:
    """Resolve the chain of mimic joints up to the driver, and store the rule of each joint."""
    chain: dict[str, urdf.Joint] = {}
    while joint.name not in rules and joint.mimic is not None:
        if joint.name in chain:
            raise UrdfError(f"the joints {quoted(chain)} mimic each other; one must be independent")
        chain[joint.name] = joint
        joint = _find_master(joint, joints)
    driver, multiplier, offset = rules.setdefault(joint.name, (joint.name, 1.0, 0.0))
    for follower in reversed(chain.values()):
        factor = follower.mimic.multiplier
        multiplier, offset = factor * multiplier, factor * offset + follower.mimic.offset
        check_mimic_ratio(follower.name, driver, multiplier, offset)
        rules[follower.name] = (driver, multiplier, offset)


def check_mimic_ratio(follower: str, driver: str, multiplier: float, offset: float) -> None:
    """Raise a UrdfError if a rule of a mimic joint has a number that is too large."""
    for attribute, value in (("multiplier", multiplier), ("offset", offset)):
        if abs(value) > MAX_MIMIC_RATIO:
            raise UrdfError(
                f'joint "{follower}" follows joint "{driver}" with the {attribute} '
                f"{value:g}; at most {MAX_MIMIC_RATIO:g} is supported"
            )


def _find_master(joint: urdf.Joint, joints: Mapping[str, urdf.Joint]) -> urdf.Joint:
    """Return the joint that `joint` mimics; raise a UrdfError if it cannot be mimicked."""
    master = joints.get(joint.mimic.joint)
    if joint.type not in ONE_DOF:
        raise UrdfError(
            f'{joint.type} joint "{joint.name}" has a <mimic>; only {quoted(ONE_DOF)} joints can'
        )
    if master is None:
        candidates = [joint.name for joint in joints.values() if joint.type in ONE_DOF]
        raise UrdfError(
            f'joint "{joint.name}" mimics the unknown joint "{joint.mimic.joint}"; '
            f"available: {quoted(candidates)}; correct or remove its <mimic>, "
            'or make mimic joints independent with mimic="ignore"'
        )
    if master is joint:
        raise UrdfError(f'joint "{joint.name}" mimics itself; name another joint')
    if master.type not in ONE_DOF:
        raise UrdfError(
            f'joint "{joint.name}" mimics the {master.type} joint "{master.name}"; '
            f"only {quoted(ONE_DOF)} joints can be mimicked"
        )
    return master


# --- the base


class UnreportedJoint(NamedTuple):
    """A joint whose position no message reports, for what reason, and the remedy."""

    joint: str
    reason: str
    remedy: str


def has_root_joint(tree: Tree) -> bool:
    """Return True if a moving joint connects the root link to the world."""
    return tree.frames[0].kind == "joint"


def find_unreported_joint(tree: Tree) -> UnreportedJoint | None:
    """Return the first joint with several coordinates that is no root joint, or None.

    If a floating or planar joint alone joins the robot to its root link, it is the base, which must
    be the root link: its odometry is what messages report.
    """
    first = 1 if has_root_joint(tree) else 0
    for joint in tree.joints[first:]:
        if joint.kind in ONE_DOF:
            continue
        is_connection = (
            joint.kind != "spherical"
            and joint.parent == first - 1
            and [other.parent for other in tree.joints].count(joint.parent) == 1
        )
        if not is_connection:
            return UnreportedJoint(
                joint.name,
                f"is {joint.kind} and not the base, and no message reports its state",
                "make it fixed, or remove it",
            )
        links = join_names((link.name for link in tree.links if link.parent == joint.parent), 20)
        return UnreportedJoint(
            joint.name,
            f"is {joint.kind}, and no joint state reports its position",
            f'remove it and what is above it ({links}), and set root_joint="{joint.kind}"',
        )
    return None
