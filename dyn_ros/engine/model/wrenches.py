# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Conversion of wrenches on frames to wrenches on joints."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..kernel.names import short_repr
from ..kernel.types import Array, ArrayLike
from ..kernel.validation import finite_array, valid_array
from .configuration import joint_motion, position
from .frames import ReferenceFrame
from .structure import Structure
from .urdf import Frame

_WORLD_AXES = "world"


def external_forces(
    model: Structure,
    wrenches: Mapping[str, ArrayLike],
    q: ArrayLike | None,
    axes: str | ReferenceFrame | None,
) -> Array:
    """Convert wrenches on frames to wrenches on joints; see ``Model.external_forces``."""
    if not isinstance(wrenches, Mapping):
        raise TypeError(
            f"wrenches: expected a dict of wrenches by frame, got "
            f"{type(wrenches).__name__}: {short_repr(wrenches)}"
        )
    placements, batch = None, ()
    if q is not None:
        q = valid_array(model, "q", ("nq",), q)
        placements, batch = JointPlacements(model, q), q.shape[:-1]
    reference = _reference_frame(model, axes)
    f_ext = np.zeros((*batch, model.njoints, 6))
    for name, wrench in wrenches.items():
        frame = model.tree.frames[model.frame_index(name)]
        wrench = _checked_wrench(f"wrench on {name}", wrench, batch)
        R, p = _axes_and_point(frame, reference, placements, axes)
        if frame.parent >= 0:
            force = _rotated_vector(R, wrench[..., :3])
            f_ext[..., frame.parent, :3] += force
            f_ext[..., frame.parent, 3:] += _rotated_vector(R, wrench[..., 3:]) + np.cross(p, force)
    return f_ext


class JointPlacements:
    """Placements of joints in the world, computed on first access."""

    def __init__(self, model: Structure, q: Array) -> None:
        self._model, self._q = model, q  # q has been validated
        self._computed = {-1: np.eye(4)}

    def __getitem__(self, joint: int) -> Array:
        """Return the placement of a joint, (4, 4) or (B, 4, 4); -1 is the universe."""
        path, joints = [], self._model.tree.joints
        while joint not in self._computed:
            path.append(joint)
            joint = joints[joint].parent
        X = self._computed[joint]
        for joint in reversed(path):
            X = (
                X
                @ joints[joint].placement
                @ joint_motion(joints[joint], position(self._model, joint, self._q))
            )
            self._computed[joint] = X
        return X


def _checked_wrench(label: str, wrench: ArrayLike, batch: tuple[int, ...]) -> Array:
    """Return a wrench, (6,), or one for each state of a batch."""
    is_batch = (
        batch
        and isinstance(wrench, (np.ndarray, list, tuple))
        and len(wrench)
        and (np.ndim(wrench[0]) == 1)
    )
    return finite_array(label, wrench, (*batch, 6) if is_batch else (6,))


def _reference_frame(model: Structure, axes: str | ReferenceFrame | None) -> ReferenceFrame | Frame:
    """Return the argument ``axes`` as a ReferenceFrame, or as a frame of the tree."""
    if axes is None:
        return ReferenceFrame.LOCAL
    if isinstance(axes, str):
        if axes == _WORLD_AXES and _WORLD_AXES not in model.frame_names:
            return ReferenceFrame.LOCAL_WORLD_ALIGNED
        return model.tree.frames[model.frame_index(axes)]
    try:
        return ReferenceFrame(axes)
    except ValueError:
        raise ValueError(
            'axes: expected the name of a frame, "world" or a '
            f"dyn_ros.ReferenceFrame, got {short_repr(axes)}"
        ) from None


def _axes_and_point(
    frame: Frame,
    reference: ReferenceFrame | Frame,
    placements: JointPlacements | None,
    axes: str | ReferenceFrame | None,
) -> tuple[Array, Array]:
    """Return the rotation of the axes and the wrench's point, in the frame of the joint."""
    R, p = frame.placement[:3, :3], frame.placement[:3, 3]
    if reference is ReferenceFrame.LOCAL:
        return R, p
    if isinstance(reference, Frame) and reference.parent == frame.parent:
        return reference.placement[:3, :3], p
    if placements is None:
        raise ValueError(
            f"q: expected the configuration, since it determines the orientation of "
            f"axes={short_repr(axes)} in frame {frame.name!r}; got None"
        )
    X = placements[frame.parent]
    to_joint = np.swapaxes(X[..., :3, :3], -1, -2)
    if isinstance(reference, Frame):
        return to_joint @ placements[reference.parent][..., :3, :3] @ reference.placement[:3, :3], p
    if reference is ReferenceFrame.WORLD:
        p = -_rotated_vector(to_joint, X[..., :3, 3])
    return to_joint, p


def _rotated_vector(R: Array, x: Array) -> Array:
    """Return R x for batches of matrices (..., 3, 3) and vectors (..., 3)."""
    return (R @ x[..., None])[..., 0]
