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


def places(names, owners):
    """What ``frame_where`` and ``joint_where`` look up: every (name or index, reference frame).

    Parameters
    ----------
    names : sequence of str
    owners : dict of str to int
        Which index a name stands for.
    """
    indices = {**{i: i for i in range(len(names))}, **owners}
    return {(key, reference): 4 * i + reference
            for key, i in indices.items() for reference in range(3)}


def frame_where(model, frame, reference_frame):
    """A frame, by name or index, and a reference frame as one integer for a kernel.

    Raises
    ------
    ValueError
        An unknown frame or reference frame; lists those there are.
    """
    return _where(model._frame_places, frame, reference_frame, "frame", model.frame_names)


def joint_where(model, joint, reference_frame):
    """A joint, by name or index, and a reference frame as one integer for a kernel.

    Raises
    ------
    ValueError
        An unknown joint or reference frame; lists those there are.
    """
    return _where(model._joint_places, joint, reference_frame, "joint", model.joint_names)


def _where(known, place, reference_frame, what, names):
    try:
        return known[place, reference_frame]
    except (KeyError, TypeError):                   # not there; not hashable
        pass
    if not isinstance(reference_frame, (int, np.integer)) or reference_frame not in range(3):
        raise ValueError(
            f"reference_frame: expected dyn_ros.ReferenceFrame or its number ("
            f"{', '.join(f'{r.name} = {r.value}' for r in ReferenceFrame)}), "
            f"got {reference_frame!r:.80}")
    if isinstance(place, str):
        raise ValueError(f"no {what} named {place!r}; there are: {', '.join(names)}")
    raise ValueError(f"{what}: expected one of {', '.join(names)}, or an index from 0 to "
                     f"{len(names) - 1}, got {place!r:.80}")
