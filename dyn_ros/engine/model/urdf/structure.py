# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Checks that the links and joints form one tree."""
from typing import Any

from .error import UrdfError, listed


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
            f"{len(roots)} root links: {listed(roots)}; "
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
                f"available: {listed(links)}"
            )


def _parents(joints):
    """The joint above each link that has one."""
    parent_of: dict[str, Any] = {}
    for joint in joints:
        if joint.child in parent_of:
            raise UrdfError(
                f'link "{joint.child}" is the child of two joints, '
                f'"{parent_of[joint.child].name}" and "{joint.name}"; '
                "a URDF must be a tree: remove one of them"
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
                cycle = list(path)[list(path).index(link):][::-1]
                raise UrdfError(
                    f"the links {listed(cycle)} form a cycle; a URDF must be a tree: "
                    f'remove one of its joints, such as "{parent_of[link].name}"'
                )
            path[link] = None
            link = parent_of[link].parent
        good.update(path)
