# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Selection of a frame or joint, and of the frame in which vectors are expressed."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..kernel.fields import REFERENCE_FRAME
from ..kernel.names import join_names, short_repr, unknown_name
from ..kernel.validation import require_model


class ReferenceFrame(enum.IntEnum):
    """The frame and reference point of spatial vectors, as in Pinocchio.

    Attributes
    ----------
    WORLD
        Expressed in the world, at the world's origin.
    LOCAL
        Expressed in the frame, at its origin.
    LOCAL_WORLD_ALIGNED
        Expressed in the world, at the frame's origin.

    Examples
    --------
    The angular velocity of the tool, in its own axes and in the world:

    >>> local = dyn_ros.frame_velocity(model, data, q, v, "tool", ReferenceFrame.LOCAL).copy()
    >>> world = dyn_ros.frame_velocity(
    ...     model, data, q, v, "tool", ReferenceFrame.LOCAL_WORLD_ALIGNED).copy()
    >>> rotation = dyn_ros.frame_placements(model, data, q)[model.frame_index("tool"), :3, :3]
    >>> np.allclose(rotation @ local[3:], world[3:])
    True
    """

    WORLD = 0
    LOCAL = 1
    LOCAL_WORLD_ALIGNED = 2


def frame_selectors(indices: Mapping[str | int, int]) -> dict[tuple[str | int, int], int]:
    """Return the lookup table of ``frame_selector`` and ``joint_selector``.

    It has the options FRAME and REFERENCE_FRAME, packed into one integer, for each name or index
    that callers can pass and each reference frame.
    """
    return {
        (key, reference): i << REFERENCE_FRAME.bits | reference
        for key, i in indices.items()
        for reference in range(3)
    }


def frame_selector(
    model: Any, frame: str | int, reference_frame: int, argument: str = "frame"
) -> int:
    """Return the options FRAME and REFERENCE_FRAME of a frame, by name or index.

    Raises a ValueError for an unknown frame or reference frame, which lists the valid ones.
    ``argument`` is the argument's name in the message.
    """
    try:
        return model._frame_selectors[frame, reference_frame]
    except (AttributeError, KeyError, TypeError):  # an invalid model or key
        raise _selection_error(
            "frame", argument, frame, require_model(model).frame_names, reference_frame
        ) from None


def joint_selector(model: Any, joint: str | int, reference_frame: int) -> int:
    """Return the options FRAME and REFERENCE_FRAME of a joint; see ``frame_selector``."""
    try:
        return model._joint_selectors[joint, reference_frame]
    except (AttributeError, KeyError, TypeError):
        raise _selection_error(
            "joint", "joint", joint, require_model(model).joint_names, reference_frame
        ) from None


def frame_number(model: Any, frame: str | int, argument: str = "frame") -> int:
    """Return the index of a frame in ``frame_names``; raise errors as ``frame_selector``."""
    return frame_selector(model, frame, ReferenceFrame.WORLD, argument) >> REFERENCE_FRAME.bits


def _selection_error(
    element_kind: str, argument: str, name: Any, names: Sequence[str], reference_frame: Any
) -> ValueError:
    """Return the error for an unknown frame or joint, or an invalid reference frame."""
    if not isinstance(reference_frame, (int, np.integer)) or reference_frame not in range(3):
        return ValueError(
            f"reference_frame: expected dyn_ros.ReferenceFrame or its number ("
            f"{', '.join(f'{member.name} {member.value}' for member in ReferenceFrame)}), "
            f"got {short_repr(reference_frame)}"
        )
    if not names:
        return ValueError(f"{element_kind}: the robot has none, got {short_repr(name)}")
    if isinstance(name, str):
        return ValueError(unknown_name(element_kind, name, names))
    return ValueError(
        f"{argument}: expected a name or an index from 0 to {len(names) - 1}, "
        f"got {short_repr(name)}; available: {join_names(names)}"
    )
