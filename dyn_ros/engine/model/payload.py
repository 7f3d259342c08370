# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inertias of a model: payloads attached to its frames, and parameters that are assigned."""
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..kernel import layout
from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .frames import frame_number
from .inertia import AssignedInertia
from .inputs import finite_array
from .urdf import LARGEST, rotational_fault


class Payload(NamedTuple):
    """A body, the joint that moves it, and the link that it is attached to."""

    joint: int          # index in Tree.joints, -1 for the universe
    inertia: Inertia    # in that joint's frame
    frame: int          # the link's, in Tree.frames


def set_payload(model, name, frame, mass, com, inertia):
    """Attach a body to a frame, or replace the payload of that name.

    An invalid payload changes nothing.
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name: expected a non-empty string, got {name!r:.80}")
    payload = _payload(model, frame, mass, com, inertia)
    before = model._payloads.get(name, payload)
    model._payloads[name] = payload
    _compose_around(model, [before, payload])


def attach(model, payloads):
    """Add payloads, by name, to a model without any."""
    model._payloads.update(payloads)
    _compose_around(model, payloads.values())


def clear_payload(model, name):
    """Remove the payload of that name, or all if None."""
    if name is None:
        taken = list(model._payloads.values())
        model._payloads.clear()
    elif name in model._payloads:
        taken = [model._payloads.pop(name)]
    else:
        there = ", ".join(model._payloads) or "none"
        raise ValueError(f"no payload named {name!r:.80}; available: {there}")
    _compose_around(model, taken)


def body_inertia(model, joint):
    """Inertia of the body of a joint, -1 for the fixed base, including its payloads."""
    own = model.tree.joints[joint].inertia if joint >= 0 else model.tree.base_inertia
    total = sum(_on(model, joint), own)
    return total.plain() if isinstance(total, AssignedInertia) else total


# --- inertial parameters

def parameters(model):
    """Packed inertia of the body of each joint, with payloads, (njoints, 10); a view."""
    rows = model._floats[layout.ROWS:][:layout.FLOATS_ROW * (model.njoints + 1)]
    start = layout.INERTIA
    return rows.reshape(-1, layout.FLOATS_ROW)[1:, start:start + layout.INERTIA_ROW]


def assign_parameters(model, value):
    """Set the inertias of bodies, with payloads; those that do not change keep their exact values.

    The first link of a body that has mass gets the difference to the other links that are fixed
    to it; if none has mass, the link of the joint.
    """
    total = finite_array("inertial_parameters", value, (model.njoints, layout.INERTIA_ROW))
    if (np.abs(total) > LARGEST).any():
        i, k = (int(n) for n in np.argwhere(np.abs(total) > LARGEST)[0])
        raise ValueError(f"inertial_parameters: expected numbers of at most {LARGEST:g}, got "
                         f"{total[i, k]:g} in inertial_parameters[{i}, {k}] (joint "
                         f"{model.joint_names[i]!r})")
    joints, frames, links = list(model.tree.joints), list(model.tree.frames), []
    changed = np.flatnonzero((total != parameters(model)).any(-1)).tolist()
    for joint in changed:
        own = total[joint] - sum(load.dynamic_parameters() for load in _on(model, joint))
        joints[joint] = replace(joints[joint], inertia=AssignedInertia.from_array(own))
        first, *others = sorted((i for i, frame in enumerate(frames)
                                 if frame.kind == "body" and frame.parent == joint),
                                key=lambda i: frames[i].inertia.mass == 0.0)
        inertia = AssignedInertia.from_array(
            own - sum(_packed_link(frames[i]) for i in others))
        placement = SE3.from_homogeneous(frames[first].placement)
        frames[first] = replace(frames[first], inertia=placement.act_inverse(inertia))
        links.append(first)
    model.tree = replace(model.tree, joints=tuple(joints), frames=tuple(frames))
    _compose(model, changed, links)


def _payload(model, frame, mass, com, inertia):
    mass = float(finite_array("mass", mass, ()))
    com = finite_array("com", com, (3,))
    inertia = finite_array("inertia", inertia, (3, 3))
    if mass <= 0.0:
        raise ValueError(f"mass: expected more than 0 kg, got {mass:g}")
    largest = max(mass, np.abs(com).max(), np.abs(inertia).max())
    if largest > LARGEST:
        raise ValueError(f"mass, com, inertia: too large: {mass:g} kg at {com} m; "
                         f"expected numbers of at most {LARGEST:g}, got {largest:g}")
    if not np.array_equal(inertia, inertia.T):
        raise ValueError(f"inertia: expected a symmetric matrix, got {inertia.tolist()}")
    fault = rotational_fault(inertia)
    if not fault and np.linalg.eigvalsh(inertia)[0] <= 0.0:
        fault = ("is not positive definite; a small sphere of radius r, for example, has "
                 "0.4 m r^2 about each axis")
    if fault:
        raise ValueError(f"inertia: of the payload {fault}")
    index = frame_number(model, frame)
    place = model.tree.frames[index]
    body = SE3.from_homogeneous(place.placement).act(Inertia(mass, com, inertia))
    return Payload(place.parent, body, link_frame(model.tree, index))


def link_frame(tree, frame):
    """Index of the frame of a link: of this one, or of the one that a joint connects.

    For a frame that was added, it is the link that it is fixed to.
    """
    if tree.frames[frame].kind == "body":
        return frame
    if tree.frames[frame].kind == "frame":
        return tree.frames[frame].parent_frame
    return next(i for i, link in enumerate(tree.frames)
                if link.kind == "body" and link.parent_frame == frame)


def _on(model, joint):
    return [payload.inertia for payload in model._payloads.values() if payload.joint == joint]


def link_inertias(tree):
    """Packed inertia of the link of each frame, in the frame of the joint that moves it."""
    return [_packed_link(frame) for frame in tree.frames]


def _packed_link(frame):
    return SE3.from_homogeneous(frame.placement).act(frame.inertia).dynamic_parameters()


def _compose_around(model, changed):
    """Recompute the inertias to which these payloads belong or belonged."""
    _compose(model, {payload.joint for payload in changed if payload.joint >= 0},
             {payload.frame for payload in changed})


def _compose(model, joints, frames):
    """Recompute the inertias of these bodies and links.

    Packed inertias, about the joint's origin, are summed, always starting from the description,
    so that removed payloads leave no rounding errors.
    """
    start = (layout.ROWS + layout.FLOATS_ROW * (model.njoints + 1) + model.nv
             + layout.FRAME_ROW * model.nframes)
    for index in frames:
        on_link = [payload.inertia.dynamic_parameters() for payload in model._payloads.values()
                   if payload.frame == index]
        row = start + layout.INERTIA_ROW * index
        model._floats[row:row + layout.INERTIA_ROW] = sum(
            on_link, _packed_link(model.tree.frames[index]))
    for joint in joints:
        parameters(model)[joint] = sum(
            (inertia.dynamic_parameters() for inertia in _on(model, joint)),
            model.tree.joints[joint].inertia.dynamic_parameters())
    model.total_mass = float(sum(
        joint.inertia.mass for joint in model.tree.joints) + sum(
        payload.inertia.mass for payload in model._payloads.values() if payload.joint >= 0))
