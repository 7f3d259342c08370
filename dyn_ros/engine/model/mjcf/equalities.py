# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Equality constraints of joints as mimic joints."""

from __future__ import annotations

from collections.abc import Mapping

from ..urdf import Mimic
from ..urdf.topology import check_mimic_ratio
from .names import ElementNames
from .source import JOINT_EQUALITY, MjModel, active_equalities


def mimic_rules(source: MjModel, names: ElementNames, warnings: list[str]) -> dict[int, Mimic]:
    """Return the rules of dependent joints, by joint; append to the warnings about other ones.

    An equality of joints is q1 - ref1 = c0 + c1 (q2 - ref2) + c2 (q2 - ref2)^2 + ...
    """
    rules: dict[int, Mimic] = {}
    for equality in active_equalities(source):
        if source.eq_type[equality] != JOINT_EQUALITY:
            continue
        follower, driver = int(source.eq_obj1id[equality]), int(source.eq_obj2id[equality])
        c0, c1, *higher = source.eq_data[equality, :5].tolist()
        q0 = float(source.qpos0[source.jnt_qposadr[follower]]) + c0
        name = names.joints[follower]
        if driver < 0:
            warnings.append(
                f'joint "{name}" is held at {q0:g} by an equality, which is ignored: '
                f"model.reduced({{{name!r}: {q0:g}}}) locks it"
            )
        elif any(higher):
            warnings.append(
                f'joint "{name}" follows joint "{names.joints[driver]}" by a polynomial of degree '
                f"{max(k for k, c in enumerate(higher, 2) if c)}, which is ignored: both are "
                "independent; write a linear equality if they should move together"
            )
        elif follower in rules or _driver_of(driver, rules) == follower:
            warnings.append(
                f'the equality of joints "{name}" and "{names.joints[driver]}" is ignored, because '
                "others determine these joints already; remove one of them"
            )
        else:
            offset = q0 - c1 * float(source.qpos0[source.jnt_qposadr[driver]])
            rules[follower] = Mimic(driver, c1, offset)
    return {follower: _resolved_rule(follower, rules, names) for follower in rules}


def _driver_of(joint: int, rules: Mapping[int, Mimic]) -> int:
    """Return the joint that moves a joint, at the end of the chain of rules."""
    while joint in rules:
        joint = rules[joint].joint
    return joint


def _resolved_rule(follower: int, rules: Mapping[int, Mimic], names: ElementNames) -> Mimic:
    """Return the rule by which a joint follows the end of its chain."""
    rule = rules[follower]
    while rule.joint in rules:
        above = rules[rule.joint]
        offset = rule.multiplier * above.offset + rule.offset
        rule = Mimic(above.joint, rule.multiplier * above.multiplier, offset)
    driver = names.joints[rule.joint]
    check_mimic_ratio(names.joints[follower], driver, rule.multiplier, rule.offset)
    return rule
