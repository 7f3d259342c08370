# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the links and joints form one tree; mimic joints and the joints that drive them."""

from typing import Any

from .text import UrdfError, quoted
from .tree import MAX_MIMIC_RATIO, ONE_DOF, Mimic


def check_one_tree(robot):
    """Check names and connectivity; return the name of the root link."""
    links = _by_name(robot.links, "links")
    joints = _by_name(robot.joints, "joints")
    if not links:
        raise UrdfError(f'robot "{robot.name}" has no links; expected at least one')
    for joint in joints.values():
        _check_ends(joint, links)
    parent_of = _parents(joints.values())
    roots = [name for name in links if name not in parent_of]
    if len(roots) > 1:
        raise UrdfError(
            f"{len(roots)} root links: {quoted(roots)}; "
            "join all but one to the tree with a joint (fixed, if they do not move)"
        )
    _check_no_cycle(links, parent_of)
    return roots[0]


def _by_name(elements, what):
    named = {}
    for element in elements:
        if element.name in named:
            raise UrdfError(f'two {what} are named "{element.name}"; names must differ')
        named[element.name] = element
    return named


def _check_ends(joint, links):
    for end, link in (("parent", joint.parent), ("child", joint.child)):
        if link not in links:
            raise UrdfError(
                f'{end} of joint "{joint.name}" is the unknown link "{link}"; '
                f"available: {quoted(links)}"
            )


def _parents(joints):
    """The joint above each link that has one."""
    parent_of: dict[str, Any] = {}
    for joint in joints:
        if joint.child in parent_of:
            raise UrdfError(
                f'link "{joint.child}" is the child of two joints, '
                f'"{parent_of[joint.child].name}" and "{joint.name}"; '
                "remove one of them, because a URDF must be a tree"
            )
        parent_of[joint.child] = joint
    return parent_of


def _check_no_cycle(links, parent_of):
    """Check that every link is connected to the root."""
    good: set[str] = set()
    for link in links:
        path: dict[str, None] = {}  # a dict is ordered and allows fast lookup
        while link not in good and link in parent_of:
            if link in path:
                cycle = list(path)[list(path).index(link) :][::-1]
                raise UrdfError(
                    f"the links {quoted(cycle)} form a cycle; a URDF must be a tree, "
                    f'so remove one of its joints, such as "{parent_of[link].name}"'
                )
            path[link] = None
            link = parent_of[link].parent
        good.update(path)


# --- mimic joints


def mimic_rules(robot, moving):
    """The rule of each moving joint, given by name; None for independent joints."""
    index = {name: number for number, name in enumerate(moving)}
    rules = _rules(robot)
    return [_rule(name, rules, index) for name in moving]


def drivers(robot):
    """The name of the driver and the multiplier of each mimic joint, by its name."""
    return {
        name: (driver, multiplier)
        for name, (driver, multiplier, _) in _rules(robot).items()
        if driver != name
    }


def _rules(robot):
    """For each joint the name of its driver, multiplier and offset; chains are resolved."""
    joints = {joint.name: joint for joint in robot.joints}
    rules: dict[str, tuple[str, float, float]] = {}
    for joint in joints.values():
        _resolve(joint, joints, rules)
    return rules


def _rule(name, rules, index):
    driver, multiplier, offset = rules.get(name, (name, 1.0, 0.0))
    return None if driver == name else Mimic(index[driver], multiplier, offset)


def _resolve(joint, joints, rules):
    """Resolve the chain of mimic joints up to the driver, and store the rule of each joint."""
    chain: dict[str, Any] = {}
    while joint.name not in rules and joint.mimic is not None:
        if joint.name in chain:
            raise UrdfError(f"the joints {quoted(chain)} mimic each other; one must be independent")
        chain[joint.name] = joint
        joint = _master(joint, joints)
    driver, multiplier, offset = rules.setdefault(joint.name, (joint.name, 1.0, 0.0))
    for follower in reversed(chain.values()):
        factor = follower.mimic.multiplier
        multiplier, offset = factor * multiplier, factor * offset + follower.mimic.offset
        for what, value in (("multiplier", multiplier), ("offset", offset)):
            if abs(value) > MAX_MIMIC_RATIO:
                raise UrdfError(
                    f'joint "{follower.name}" follows joint "{driver}" with the {what} '
                    f"{value:g}; at most {MAX_MIMIC_RATIO:g} is supported"
                )
        rules[follower.name] = (driver, multiplier, offset)


def _master(joint, joints):
    """The joint that `joint` mimics."""
    master = joints.get(joint.mimic.joint)
    if joint.type not in ONE_DOF:
        raise UrdfError(
            f'{joint.type} joint "{joint.name}" has a <mimic>; only {quoted(ONE_DOF)} joints can'
        )
    if master is None:
        candidates = [other.name for other in joints.values() if other.type in ONE_DOF]
        raise UrdfError(
            f'joint "{joint.name}" mimics the unknown joint "{joint.mimic.joint}"; '
            f'available: {quoted(candidates)} (mimic="ignore" makes mimic joints independent)'
        )
    if master is joint:
        raise UrdfError(f'joint "{joint.name}" mimics itself; name another joint')
    if master.type not in ONE_DOF:
        raise UrdfError(
            f'joint "{joint.name}" mimics the {master.type} joint "{master.name}"; '
            f"only {quoted(ONE_DOF)} joints can be mimicked"
        )
    return master
