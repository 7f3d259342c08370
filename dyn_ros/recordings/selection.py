# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which robot, topics and parts of a recording are read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from ..cdr.decode import JOINT_STATE, ODOMETRY, Decoder, Messages
from ..engine.model.coordinates import own_joints
from ..engine.model.model import Model, RootJoint
from ..engine.model.moments import Moment
from ..states.blocks import BlockCollector
from ..states.joint_states import STALENESS, abbreviated, base_kind, check_base, joint_rows
from . import plan as plans
from .formats.sources import Source, open_source
from .formats.spans import DECODABLE

Robot: TypeAlias = "Model | str | os.PathLike[str] | None"
Base: TypeAlias = tuple[Sequence[float], Sequence[float]]
_SAMPLED = 100  # spans that are searched for topics without messages


@dataclass(frozen=True)
class ReadOptions:
    """What to read of each recording, as the arguments of ``read``.

    ``overlap``: seconds before and after each part that are read as well; ``size``: of a part
    [bytes]; ``root_joint``: of the description in the recording; ``columns``: of tables, with other
    names, by path, as ``open_source`` takes them.
    """

    robot: Robot = None
    topics: str | Iterable[str] | None = None
    odometry: str | None = None
    joints: Sequence[str] = ()
    since: Moment | None = None
    until: Moment | None = None
    staleness: float = STALENESS
    root_joint: RootJoint = None
    base: Base | None = None
    overlap: tuple[float, float] = (0.0, 0.0)
    size: float = plans.SIZE
    columns: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Selection:
    """What is read of a recording; it can be sent to other processes.

    ``names`` are the joints that are read; without a model, the order of the columns. ``joints``
    are those that a `Recording` contains, empty: all. ``base`` is the constant pose and twist of a
    base that moves, ``odometry`` one topic or none. Unless ``exclusive``, two topics may report the
    same joint.
    """

    model: Model | None
    topics: tuple[str, ...]
    odometry: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    staleness: float = STALENESS
    base: Base | None = None
    exclusive: bool = True
    name: str = ""
    joints: tuple[str, ...] = ()

    def collector(self) -> BlockCollector:
        if self.model is None:
            return BlockCollector.of_names(self.names, self.staleness)
        return BlockCollector(self.model, self.staleness, self.base)

    @property
    def read_topics(self) -> tuple[str, ...]:
        return (*self.topics, *self.odometry)

    def columns(self) -> tuple[list[int], list[int]]:
        """Return the columns of q and of v that belong to ``joints``."""
        model = self.model
        if model is None or not self.joints:
            return list(range(len(self.position_names))), list(range(len(self.velocity_names)))
        return joint_rows(model, self.joints)

    @property
    def position_names(self) -> tuple[str, ...]:
        return self.names if self.model is None else self.model.position_names

    @property
    def velocity_names(self) -> tuple[str, ...]:
        return self.names if self.model is None else self.model.velocity_names


class Prepared(NamedTuple):
    """A recording that can be read in parts.

    ``damage`` is what is wrong with it, ``interval`` its first and last log time [ns], None if it
    is empty.
    """

    selection: Selection
    parts: list[plans.Part]
    damage: str
    interval: tuple[int, int] | None = None


def prepare(request: ReadOptions, path: Path) -> Prepared:
    """Find the topics and parts of a recording: the first call for each.

    A ValueError if it cannot be read, or contains nothing of the robot.
    """
    source = open_source(path, request.columns.get(path))
    if source.damage and not source.spans:
        raise ValueError(source.damage)
    return prepared(source, request)


def prepared(source: Source, request: ReadOptions) -> Prepared:
    """Find the topics and parts of an open recording; a ValueError as for `select`."""
    selection = select(source, request)
    parts = plans.plan(
        source, selection.staleness, request.since, request.until, request.size, request.overlap
    )
    interval = (
        (min(span.start for span in source.spans), max(span.stop for span in source.spans))
        if source.spans
        else None
    )
    return Prepared(selection, parts, source.damage, interval)


def select(source: Source, request: ReadOptions) -> Selection:
    """Choose the robot and the topics of a recording.

    A ValueError for a topic that is not there or not readable, topics that report the same joint,
    no joint of the robot, several odometries or none, or a description or base that cannot be used.
    """
    if not request.staleness > 0.0:
        raise ValueError(f"staleness: expected more than 0 s, got {request.staleness!r}")
    model = robot_of(request.robot, request.root_joint) or _described(source, request.root_joint)
    topics = _joint_topics(source, request.topics)
    base = None
    odometry: tuple[str, ...] = ()
    if model is not None and base_kind(model) is not None:
        base = request.base
        if base is None:
            odometry = _odometry(source, request.odometry)
        else:
            check_base(*base)
    selection = Selection(
        model,
        topics,
        odometry,
        (),
        float(request.staleness),
        base,
        request.topics is None,
        source.name,
    )
    return _with_joints(_with_names(source, selection), tuple(request.joints or ()))


# --- the robot


def robot_of(robot: Robot, root_joint: RootJoint) -> Model | None:
    """The model of a file, or the model that it is."""
    if robot is None or isinstance(robot, Model):
        return robot
    if not isinstance(robot, (str, os.PathLike)):  # an int would be an open file
        raise TypeError(f"robot: expected a dyn_ros.Model or a file, got {robot!r:.80}")
    return Model.from_urdf_file(robot, root_joint)


def _described(source: Source, root_joint: RootJoint) -> Model | None:
    text = source.description()
    if text is None:
        if root_joint is not None:
            raise ValueError(
                f"{source.name}: root_joint requires a robot, and the recording "
                "contains no description; pass robot="
            )
        return None
    try:
        return Model.from_urdf(text, root_joint)
    except ValueError as error:
        raise ValueError(
            f"{source.name}: the description in the recording cannot be used: {error}; pass robot="
        ) from None


# --- topics


def _joint_topics(source: Source, given: str | Iterable[str] | None) -> tuple[str, ...]:
    available = _readable(source, JOINT_STATE)
    if given is not None:
        return _require(
            source, "topics", [given] if isinstance(given, str) else list(given), available
        )
    names = [name for name in available if name.rpartition("/")[2] == "joint_states"]
    if not names:
        others = f"; it has {abbreviated(available)}: pass topics=" if available else ""
        raise ValueError(
            f"{source.name}: no readable topic named joint_states of "
            f"{JOINT_STATE}{others}{_unreadable(source)}"
        )
    return tuple(names)


def _odometry(source: Source, given: str | None) -> tuple[str, ...]:
    available = _readable(source, ODOMETRY)
    if given is not None:
        return _require(source, "odometry", [given], available)
    names = [name for name in available if name.rpartition("/")[2] in ("odom", "odometry")]
    names = names or available
    if len(names) > 1:
        raise ValueError(f"{source.name}: several odometries, {', '.join(names)}; pass odometry=")
    if not names:
        raise ValueError(
            f"{source.name}: no odometry, which the moving base of the robot needs; "
            "pass base=, its constant pose and twist"
        )
    return tuple(names)


def _readable(source: Source, kind: str) -> list[str]:
    return list(
        dict.fromkeys(
            topic.name
            for topic in source.topics
            if topic.type == kind and topic.encoding in DECODABLE
        )
    )


def _unreadable(source: Source) -> str:
    names = [
        f"{topic.name} ({topic.encoding})"
        for topic in source.topics
        if topic.type == JOINT_STATE and topic.encoding not in DECODABLE
    ]
    return f"; encodings that cannot be read: {abbreviated(names)}" if names else ""


def _require(source: Source, what: str, names: list[str], available: list[str]) -> tuple[str, ...]:
    for name in names:
        if name not in available:
            raise ValueError(
                f"{source.name}: {what}: no readable topic {name!r}; available: "
                f"{abbreviated(available) or 'none'}{_unreadable(source)}"
            )
    if not names:
        raise ValueError(
            f"{what}: expected at least one topic; available: {abbreviated(available) or 'none'}"
        )
    return tuple(dict.fromkeys(names))


# --- names


class Owners:
    """Which topic of a recording reports which joints of a robot."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._known = None if selection.model is None else set(selection.collector().names)
        self.topics: set[str] = set()
        self.joints: dict[str, str] = {}  # name: topic
        self.others: dict[str, None] = {}

    def take(self, messages: Messages, decoder: Decoder) -> None:
        """Record who reports what; raise a ValueError if two topics report the same joint."""
        chosen = messages.layout >= 0
        if not chosen.any():
            return
        pairs = np.unique(np.stack([messages.topic[chosen], messages.layout[chosen]]), axis=1)
        for topic, layout in pairs.T.tolist():
            self._add(decoder.topics[topic], decoder.layouts[layout])

    def _add(self, topic: str, names: tuple[str, ...]) -> None:
        self.topics.add(topic)
        for name in names:
            if self._known is not None and name not in self._known:
                self.others[name] = None
                continue
            owner = self.joints.setdefault(name, topic)
            if owner != topic and self._selection.exclusive:
                raise ValueError(
                    f"{self._selection.name}: the topics {owner} and {topic} both report the joint "
                    f"{name!r}; pass topics= with the topics of the robot"
                )


def reported_joints(source: Source, model: Model, topics: Iterable[str] | None) -> set[str]:
    """The joints that messages at the start of a recording report, also of other robots."""
    selection = Selection(model, _joint_topics(source, topics), exclusive=False, name=source.name)
    owners = _owners(source, selection)
    return {*owners.joints, *owners.others}


def _with_names(source: Source, selection: Selection) -> Selection:
    """Add the names of the joints; without a model, all those in the recording."""
    owners = _owners(source, selection)
    if selection.model is None:
        return replace(selection, names=tuple(owners.joints))
    names = selection.collector().names
    if names and owners.others and not owners.joints:
        raise ValueError(
            f"{source.name}: no joint of the robot is in the recording; the robot has "
            f"{abbreviated(sorted(names))}; the recording has "
            f"{abbreviated(list(owners.others))}"
        )
    return replace(selection, names=names)


def _owners(source: Source, selection: Selection) -> Owners:
    """Who reports which joints; with a model, until each topic has reported some."""
    owners, decoder = Owners(selection), Decoder()
    for number, span in enumerate(source.spans):
        owners.take(source.messages(span, selection.topics, decoder), decoder)
        if (
            selection.model is not None
            and owners.joints
            and (number >= _SAMPLED or owners.topics >= set(selection.topics))
        ):
            break
    return owners


def _with_joints(selection: Selection, joints: tuple[str, ...]) -> Selection:
    """Restrict the columns to some joints."""
    model = selection.model
    available = list(selection.names) if model is None else list(own_joints(model))
    for name in joints:
        if name not in available:
            raise ValueError(
                f"joints: {selection.name} has no joint {name!r}; available: "
                f"{abbreviated(available) or 'none'}"
            )
    if len(set(joints)) < len(joints):
        raise ValueError(f"joints: expected each once, got {', '.join(joints)}")
    if model is None and joints:
        return replace(selection, names=joints)
    return replace(selection, joints=joints)
