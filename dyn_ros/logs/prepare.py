# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is read of recordings, and how one is divided into parts: the first call for each."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..states.joint_states import STALENESS
from .formats.sources import open_source
from .run import plan as plans
from .run.plan import Moment
from .selection import Base, Robot, Selection, select


@dataclass(frozen=True)
class Request:
    """What to read of each recording, as the arguments of ``read``.

    ``overlap``: seconds before and after each part that are read as well; ``size``: of a part
    [bytes]; ``root_joint``: of the description in the recording.
    """

    robot: Model | None = None
    topics: tuple[str, ...] | None = None
    odometry: str | None = None
    joints: tuple[str, ...] = ()
    since: Moment | None = None
    until: Moment | None = None
    staleness: float = STALENESS
    root_joint: RootJoint = None
    base: Base | None = None
    overlap: tuple[float, float] = (0.0, 0.0)
    size: float = plans.SIZE


class Prepared(NamedTuple):
    """A recording that can be read in parts.

    ``damage`` is what is wrong with it, ``interval`` its first and last log time [ns], None if it
    is empty.
    """

    selection: Selection
    parts: list[plans.Part]
    damage: str
    interval: tuple[int, int] | None = None


def robot_of(robot: Robot, root_joint: RootJoint) -> Model | None:
    """The model of a file, or the model that it is."""
    return robot if robot is None or isinstance(robot, Model) else Model.from_urdf_file(
        robot, root_joint)


def prepare(request: Request, path: Path) -> Prepared:
    """Find the topics and parts of a recording.

    A ValueError if it cannot be read, or contains nothing of the robot.
    """
    source = open_source(path)
    if source.damage and not source.spans:
        raise ValueError(source.damage)
    selection = select(source, request.robot, topics=request.topics, odometry=request.odometry,
                       joints=request.joints, staleness=request.staleness,
                       root_joint=None if request.robot else request.root_joint,
                       base=request.base)
    parts = plans.plan(source, selection.staleness, request.since, request.until, request.size,
                       request.overlap)
    interval = (min(span.start for span in source.spans),
                max(span.stop for span in source.spans)) if source.spans else None
    return Prepared(selection, parts, source.damage, interval)
