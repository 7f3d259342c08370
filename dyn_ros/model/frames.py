# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which place on the robot a call is about, and in whose axes it is told."""
import enum

import numpy as np


class ReferenceFrame(enum.IntEnum):
    """Where spatial vectors of a frame are expressed, with Pinocchio's meanings.

    Attributes
    ----------
    WORLD
        Axes of the world, about the world's origin.
    LOCAL
        Axes of the frame, about its origin.
    LOCAL_WORLD_ALIGNED
        Axes of the world, about the frame's origin.
    """

    WORLD = 0
    LOCAL = 1
    LOCAL_WORLD_ALIGNED = 2


def places(indices):
    """What ``frame_where`` and ``joint_where`` look up.

    Parameters
    ----------
    indices : dict of (str or int) to int
        The index in the table of frames of what a caller may name.

    Returns
    -------
    dict of (str or int, int) to int
        With each reference frame.
    """
    return {(key, reference): 4 * i + reference
            for key, i in indices.items() for reference in range(3)}


def frame_where(model, frame, reference_frame):
    """A frame, by name or index, and a reference frame as one integer for a kernel.

    Raises
    ------
    ValueError
        An unknown frame or reference frame; lists those there are.
    """
    try:
        return model._frame_places[frame, reference_frame]
    except (KeyError, TypeError):                   # not there; not hashable
        raise _unknown("frame", frame, model.frame_names, reference_frame) from None


def joint_where(model, joint, reference_frame):
    """The same for a joint, which has a frame of its own.

    Raises
    ------
    ValueError
        An unknown joint or reference frame; lists those there are.
    """
    try:
        return model._joint_places[joint, reference_frame]
    except (KeyError, TypeError):
        raise _unknown("joint", joint, model.joint_names, reference_frame) from None


def _unknown(what, name, names, reference_frame):
    if not isinstance(reference_frame, (int, np.integer)) or reference_frame not in range(3):
        return ValueError(
            f"reference_frame: expected dyn_ros.ReferenceFrame or its number ("
            f"{', '.join(f'{known.name} {known.value}' for known in ReferenceFrame)}), "
            f"got {reference_frame!r:.80}")
    if isinstance(name, str):
        return ValueError(f"no {what} named {name!r:.80}; there are: {', '.join(names)}")
    return ValueError(f"{what}: expected a name or an index from 0 to {len(names) - 1}, "
                      f"got {name!r:.80}; there are: {', '.join(names)}")
