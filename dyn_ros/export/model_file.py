# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Model files: robots for the C library, which uses the bytes of a file in place.

A file is a header of integers and then sections, each an array of 8-byte numbers or of characters.
The header contains for each section its offset in bytes and its number of elements. All numbers
are little-endian. ``runtime/model.c`` reads it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..engine.kernel import packing
from ..engine.kernel.types import Array
from ..engine.model.inertia import Payload, link_frame, link_parameters
from ..engine.model.model import Model
from ..files.writing import write_whole_file

MAGIC = int.from_bytes(b"dyn_ros\x01", "little")
CHECKSUM_START, CHECKSUM_FACTOR = 0xCBF29CE484222325, 0x100000001B3
MAX_PAYLOADS = 8
ALIGNMENT = 64  # bytes
HEADER = ("MAGIC", "LAYOUT", "SIZE", "CHECKSUM", "NQ", "NV", "NJOINTS", "NFRAMES")
"""First integers of the header. The checksum covers all bytes, with zero in its own place."""
SECTIONS = (
    "INTS",
    "FLOATS",
    "BODIES",
    "LINKS",
    "ARMATURE",
    "LIMITS",
    "JOINTS",
    "FRAMES",
    "PAYLOADS",
    "NAMES",
    "TEXT",
)
"""Sections, in their order.

INTS, FLOATS: what kernels read, see ``engine/kernel/packing.py``.
BODIES, LINKS: parameters of the bodies of joints and of the links of frames without payloads,
(njoints, 10) and (nframes, 10). ARMATURE: as if no joint was locked, (nv,).
LIMITS: lower and upper (nq,), velocity and effort limits, damping and friction (nv,).
JOINTS: parent, frame, idx_q, idx_v, nq and nv of each joint. FRAMES: the joint that moves each
frame, or -1, the frame of its link, and whether it is a link.
PAYLOADS: for each slot the joint, the link, and ten parameters; a slot without mass is empty.
NAMES: for the robot, and each joint, frame, velocity and position, where its name begins in TEXT.
Each name ends with a zero.
"""
JOINT_SIZE, FRAME_SIZE, PAYLOAD_SIZE = 6, 3, 12
"""Numbers per joint, frame and payload in their sections."""


def format_digest() -> int:
    """Return a positive integer that changes with the formats of model files and calls."""
    numbers = [
        packing.TREE,
        packing.TREE_ROW,
        packing.ROWS,
        packing.FLOATS_ROW,
        packing.INERTIA,
        packing.FRAME_ROW,
        packing.INERTIA_ROW,
        packing.CALL_INTS,
        packing.OFFSET,
        MAX_PAYLOADS,
        len(HEADER),
        len(SECTIONS),
        JOINT_SIZE,
        FRAME_SIZE,
        PAYLOAD_SIZE,
    ]
    return checksum(np.array(numbers, np.int64)) >> 1


def checksum(words: NDArray[np.int64]) -> int:
    """Return the 64-bit FNV-1a hash of 8-byte words."""
    value = CHECKSUM_START
    for word in words.view(np.uint64).tolist():
        value = ((value ^ word) * CHECKSUM_FACTOR) & 0xFFFFFFFFFFFFFFFF
    return value


def write_model(model: Model, path: str | os.PathLike[str]) -> None:
    """Write a robot to a file that the C library reads.

    It contains all that ``model`` has: its gravity, armature, inertias and payloads, which C can
    change, the limits, damping and friction of its joints, and all names.

    Parameters
    ----------
    path : str or path
        File to write, usually ``NAME.dynros``.

    Raises
    ------
    ValueError
        More than 8 payloads.
    OSError
        The file cannot be written.
    """
    content = model_bytes(model)
    with write_whole_file(path) as file:  # programs that have mapped a former file keep it
        file.write(content)


def model_bytes(model: Model) -> bytes:
    """Return the content of a model file; raise a ValueError for more than 8 payloads."""
    if len(model.payloads) > MAX_PAYLOADS:
        raise ValueError(
            f"model: expected at most {MAX_PAYLOADS} payloads, got "
            f"{len(model.payloads)}; add some of them to the inertias of links"
        )
    header = np.zeros(_aligned_count(len(HEADER) + 2 * len(SECTIONS)), np.int64)
    header[:3] = MAGIC, format_digest(), 0
    header[4:8] = model.nq, model.nv, model.njoints, model.nframes
    blocks, end = [header.tobytes()], header.nbytes
    for n, section in enumerate(_section_arrays(model)):
        content = section.tobytes()
        header[len(HEADER) + 2 * n :][:2] = end, section.size
        blocks.append(content.ljust(8 * _aligned_count(-(-len(content) // 8)), b"\0"))
        end += len(blocks[-1])
    header[HEADER.index("SIZE")] = end
    blocks[0] = header.tobytes()
    words = np.frombuffer(b"".join(blocks), np.int64).copy()
    words.view(np.uint64)[HEADER.index("CHECKSUM")] = checksum(words)
    return words.tobytes()


def _aligned_count(words: int) -> int:
    """Return a number of 8-byte words, rounded up to the alignment of sections."""
    unit = ALIGNMENT // 8
    return -(-words // unit) * unit


def _section_arrays(model: Model) -> list[NDArray]:
    """Return the sections, in their order."""
    bodies = [joint.inertia.dynamic_parameters() for joint in model.tree.joints]
    links = [link_parameters(frame) for frame in model.tree.frames]
    limits = (
        model.lower,
        model.upper,
        model.velocity_limit,
        model.effort_limit,
        model.damping,
        model.friction,
    )
    joints = np.array(
        [model.parents, frames_of_joints(model), model.idx_q, model.idx_v, model.nqs, model.nvs],
        np.int64,
    )
    frames = [
        (frame.parent, link_frame(model.tree, n), frame.kind == "body")
        for n, frame in enumerate(model.tree.frames)
    ]
    texts = (
        model.name,
        *model.joint_names,
        *model.frame_names,
        *model.velocity_names,
        *model.position_names,
    )
    encoded = [text.encode() + b"\0" for text in texts]
    starts = np.cumsum([0, *map(len, encoded)])[:-1]
    return [
        model._ints,
        model._floats,
        np.array(bodies, float),
        np.array(links, float),
        model.armature,
        np.concatenate(limits),
        joints.T.ravel(),
        np.array(frames, np.int64),
        _payload_slots(list(model._payloads.values())),
        starts.astype(np.int64),
        np.frombuffer(b"".join(encoded), np.uint8),
    ]


def frames_of_joints(model: Model) -> list[int]:
    """Return the index of each joint's frame."""
    return [n for n, frame in enumerate(model.tree.frames) if frame.kind == "joint"]


def _payload_slots(payloads: Sequence[Payload]) -> Array:
    """Return the section PAYLOADS."""
    slots = np.zeros((MAX_PAYLOADS, PAYLOAD_SIZE))
    for n, payload in enumerate(payloads):
        slots[n] = payload.joint, payload.frame, *payload.inertia.dynamic_parameters()
    return slots
