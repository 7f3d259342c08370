# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Elements of an mjModel that a model of the robot cannot express."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..urdf.text import quoted
from .joint_limits import joint_actuators
from .names import ElementNames, names_of
from .source import JOINT_EQUALITY, KINDS, MjModel, active_equalities

_TORQUE_REMEDY = "subtract mjData.{} from the torques of rnea, and add it to the torques of aba"
_DAMPER_REMEDY = f"set model.damping to 0, {_TORQUE_REMEDY.format('qfrc_damper')}"


def ignored_elements(source: MjModel, names: ElementNames) -> Iterator[str]:
    """Yield a warning about each kind of element that is ignored, with names and a remedy."""
    yield from _passive_forces(source, names)
    yield from _joint_properties(source, names)
    yield from _actuator_properties(source)
    yield from _constraints(source)
    yield from _mechanisms(source, names)


def _passive_forces(source: MjModel, names: ElementNames) -> Iterator[str]:
    """Yield warnings about forces that depend on positions and velocities."""
    if springs := {*_nonzero(source, "jnt_stiffness"), *_nonzero(source, "jnt_stiffnesspoly")}:
        joints = quoted(names.joints[joint] for joint in sorted(springs))
        yield f"springs of joints {joints} are ignored: {_TORQUE_REMEDY.format('qfrc_spring')}"
    if dofs := _nonzero(source, "dof_dampingpoly"):
        joints = quoted(names.joints[j] for j in np.unique(source.dof_jntid[dofs]).tolist())
        yield (f"the nonlinear part of the damping of joints {joints} is ignored: {_DAMPER_REMEDY}")
    if bodies := _nonzero(source, "body_gravcomp"):
        yield (
            f"gravity compensation of bodies {quoted(names.bodies[i] for i in bodies)} is "
            "ignored: " + _TORQUE_REMEDY.format("qfrc_gravcomp")
        )
    if source.opt.density or source.opt.viscosity:
        yield (
            f"the fluid (density {source.opt.density:g} kg/m3, viscosity "
            f"{source.opt.viscosity:g} Pa s) is ignored: " + _TORQUE_REMEDY.format("qfrc_fluid")
        )


def _nonzero(source: MjModel, attribute: str) -> list[int]:
    """Return the rows of an array that are not zero; none if this version of MuJoCo lacks it."""
    array = getattr(source, attribute, np.zeros(0))
    rows: list[int] = np.flatnonzero(array.any(tuple(range(1, array.ndim)))).tolist()
    return rows


def _joint_properties(source: MjModel, names: ElementNames) -> Iterator[str]:
    """Yield warnings about properties of ball and free joints."""
    limited = np.flatnonzero(
        (source.jnt_type == KINDS.index("spherical")) & source.jnt_limited.astype(bool)
    ).tolist()
    if limited:
        yield (
            f"the limits of ball joints {quoted(names.joints[joint] for joint in limited)} are "
            "ignored: a model has limits of joints with one coordinate"
        )
    for joint in np.flatnonzero(source.jnt_type == KINDS.index("floating")).tolist():
        rows = slice(source.jnt_dofadr[joint], source.jnt_dofadr[joint] + 3)
        for attribute, value in (
            ("armature", source.dof_armature[rows]),
            ("frictionloss", source.dof_frictionloss[rows]),
        ):
            if value.any():
                yield (
                    f'the {attribute} of free joint "{names.joints[joint]}" acts along the axes of '
                    "the body, in MuJoCo along the axes of the world; remove it from the free joint"
                )


def _actuator_properties(source: MjModel) -> Iterator[str]:
    """Yield warnings about the inertia and damping of actuators that are not read."""
    on_joints = joint_actuators(source).tolist()
    for attribute in ("armature", "damping"):
        if elsewhere := [
            i for i in _nonzero(source, f"actuator_{attribute}") if i not in on_joints
        ]:
            yield (
                f"the {attribute} of actuators "
                f"{quoted(names_of(source, 'actuator', elsewhere))} is ignored, because "
                f"they move no hinge or slide joint; set model.{attribute} instead"
            )
    if nonlinear := _nonzero(source, "actuator_dampingpoly"):
        yield (
            "the nonlinear part of the damping of actuators "
            f"{quoted(names_of(source, 'actuator', nonlinear))} is ignored: " + _DAMPER_REMEDY
        )


def _constraints(source: MjModel) -> Iterator[str]:
    """Yield a warning about the equality constraints that are not between joints."""
    indices = [i for i in active_equalities(source) if source.eq_type[i] != JOINT_EQUALITY]
    if indices:
        yield (
            f"equality constraints {quoted(names_of(source, 'equality', indices))} are "
            "ignored, because they connect bodies or tendons; pass their forces as f_ext"
        )


def _mechanisms(source: MjModel, names: ElementNames) -> Iterator[str]:
    """Yield warnings about tendons, deformable bodies, plugins and mocap bodies."""
    if source.ntendon:
        yield (
            f"tendons {quoted(names_of(source, 'tendon', range(source.ntendon)))} are "
            "ignored, with their inertia, springs, damping, friction, limits and actuators; the "
            "model has the torques of the joints"
        )
    for kind, plural, count in (
        ("flex", "flexes", source.nflex),
        ("plugin", "plugins", source.nplugin),
    ):
        if count:
            yield (
                f"{plural} {quoted(names_of(source, kind, range(count)))} are "
                "ignored; remove them, or expect motions that differ from MuJoCo"
            )
    if (mocap := np.flatnonzero(source.body_mocapid >= 0)).size:
        yield (
            f"mocap bodies {quoted(names.bodies[i] for i in mocap.tolist())} are fixed where the "
            "description places them; give them a free joint if they should move"
        )
