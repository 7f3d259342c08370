# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How a recording is divided into parts: the first job of each recording."""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ..engine.model import Model
from ..engine.model.model import RootJoint
from ..states.joint_states import STALENESS
from .files import open_source
from .part import tasks
from .plan import SIZE, Moment, Task
from .selection import Base, Robot, Selection, select


@dataclass(frozen=True)
class Request:
    """What to read of each recording; see ``read``.

    Attributes
    ----------
    robot : Model or None
        None: the description in the recording.
    topics : tuple of str or None
    odometry : str or None
    joints : tuple of str
    since, until : float, str, datetime or None
    staleness : float
    root_joint : None, "floating" or "planar"
        Of the description in the recording.
    base : tuple of two sequences, or None
    overlap : (float, float)
        Seconds before and after each part that are read as well.
    size : float
        Of a part [bytes].
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
    overlap: tuple[float, float] = (1.0, 0.0)
    size: float = SIZE


class Prepared(NamedTuple):
    """A recording that can be read in parts.

    Attributes
    ----------
    selection : Selection
    tasks : list of Task
    damage : str
        What is wrong with it; empty: nothing.
    interval : tuple of two int or None
        The first and the last log time of the recording [ns]; None if it is empty.
    """

    selection: Selection
    tasks: list[Task]
    damage: str
    interval: tuple[int, int] | None = None


def robot_of(robot: Robot, root_joint: RootJoint) -> Model | None:
    """The model of a file, or the model that it is.

    Raises
    ------
    ValueError, OSError
        The file cannot be used.
    """
    return robot if robot is None or isinstance(robot, Model) else Model.from_urdf_file(
        robot, root_joint)


def prepare(request: Request, path: Path) -> Prepared:
    """Find the topics and parts of a recording.

    Raises
    ------
    ValueError
        It cannot be read, or contains nothing of the robot.
    OSError
        It cannot be opened.
    """
    source = open_source(path)
    if source.damage and not source.spans:
        raise ValueError(source.damage)
    selection = select(source, request.robot, topics=request.topics, odometry=request.odometry,
                       joints=request.joints, staleness=request.staleness,
                       root_joint=None if request.robot else request.root_joint,
                       base=request.base)
    found = tasks(source, selection, request.since, request.until, request.size, request.overlap)
    interval = (min(span.start for span in source.spans),
                max(span.stop for span in source.spans)) if source.spans else None
    return Prepared(selection, found, source.damage, interval)
