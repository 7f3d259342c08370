# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Payloads: bodies attached to frames of a robot."""
from typing import NamedTuple

import numpy as np

from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from . import layout
from .frames import frame_number
from .inertia import LARGEST, rotational_fault
from .inputs import finite_array


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
    _compose(model, [before, payload])


def attach(model, payloads):
    """Add payloads, by name, to a model without any."""
    model._payloads.update(payloads)
    _compose(model, payloads.values())


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
    _compose(model, taken)


def body_inertia(model, joint):
    """Inertia of the body of a joint, -1 for the fixed base, including its payloads."""
    own = model.tree.joints[joint].inertia if joint >= 0 else model.tree.base_inertia
    return sum(_on(model, joint), own)


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
    return [SE3.from_homogeneous(frame.placement).act(frame.inertia).dynamic_parameters()
            for frame in tree.frames]


def _compose(model, changed):
    """Recompute the inertias to which these payloads belong or belonged.

    Packed inertias, about the joint's origin, are summed, always starting from the description,
    so that removed payloads leave no rounding errors.
    """
    start = (layout.ROWS + layout.FLOATS_ROW * (model.njoints + 1) + model.nv
             + layout.FRAME_ROW * model.nframes)
    for index in {payload.frame for payload in changed}:
        on_link = [payload.inertia.dynamic_parameters() for payload in model._payloads.values()
                   if payload.frame == index]
        frame = model.tree.frames[index]
        own = SE3.from_homogeneous(frame.placement).act(frame.inertia).dynamic_parameters()
        row = start + layout.INERTIA_ROW * index
        model._floats[row:row + layout.INERTIA_ROW] = sum(on_link, own)
    for joint in {payload.joint for payload in changed}:
        if joint >= 0:
            start = layout.ROWS + layout.FLOATS_ROW * (joint + 1) + layout.INERTIA
            model._floats[start:start + 10] = sum(
                (inertia.dynamic_parameters() for inertia in _on(model, joint)),
                model.tree.joints[joint].inertia.dynamic_parameters())
    model.total_mass = float(sum(
        joint.inertia.mass for joint in model.tree.joints) + sum(
        payload.inertia.mass for payload in model._payloads.values() if payload.joint >= 0))
