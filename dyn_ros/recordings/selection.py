# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which robot, topics and parts of a recording are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..cdr.decode import JOINT_STATE, ODOMETRY, Decoder, Messages
from ..engine.model.coordinates import own_joints
from ..engine.model.model import Model, RootJoint
from ..states.joint_states import abbreviated, base_kind
from ..states.rules import check_base
from .formats.sources import open_source, read_span, robot_description
from .formats.spans import DECODABLE, Source
from .options import ReadOptions, Robot
from .plan import Part, plan, whole

_SAMPLED = 100  # spans that are searched for topics without messages


def prepare(options: ReadOptions, path: Path) -> tuple[Source, list[Part]]:
    """Open a recording and find its parts: the first call for each.

    A ValueError if it cannot be read, or contains nothing of the robot.
    """
    source = open_source(path, options.columns.get(path))
    if source.damage and not source.spans:
        raise ValueError(source.damage)
    return source, plan(select(source, options), options.size, options.overlap)


def select(source: Source, options: ReadOptions) -> Part:
    """Choose the robot, the topics and the interval of a recording, as one part.

    A ValueError for a topic that is not there or not readable, topics that report the same joint,
    no joint of the robot, several odometries or none, or a description or base that cannot be used.
    """
    if not options.staleness > 0.0:
        raise ValueError(f"staleness: expected more than 0 s, got {options.staleness!r}")
    model = robot_of(options.robot, options.root_joint) or _described(source, options.root_joint)
    topics = _joint_topics(source, options.topics)
    base = None
    odometry: tuple[str, ...] = ()
    if model is not None and base_kind(model) is not None:
        base = options.base
        if base is None:
            odometry = _odometry(source, options.odometry)
        else:
            check_base(*base)
    part = replace(
        whole(source),
        model=model,
        topics=topics,
        odometry=odometry,
        staleness=float(options.staleness),
        base=base,
        exclusive=options.topics is None,
    )
    part = _with_joints(_with_names(source, part), tuple(options.joints or ()))
    inside = whole(source, options.since, options.until)
    return replace(part, start=inside.start, stop=inside.stop)


# --- the robot


def robot_of(robot: Robot, root_joint: RootJoint) -> Model | None:
    """The model of a file, or the model that it is."""
    if robot is None or isinstance(robot, Model):
        return robot
    if not isinstance(robot, (str, os.PathLike)):  # an int would be an open file
        raise TypeError(f"robot: expected a dyn_ros.Model or a file, got {robot!r:.80}")
    return Model.from_urdf_file(robot, root_joint)


def _described(source: Source, root_joint: RootJoint) -> Model | None:
    text = robot_description(source)
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

    def __init__(self, part: Part) -> None:
        self._part = part
        self._known = None if part.model is None else set(part.collector().names)
        self.topics: set[str] = set()
        self.joints: dict[str, str] = {}  # name: topic
        self.others: dict[str, None] = {}

    def take(self, messages: Messages, decoder: Decoder) -> None:
        """Record who reports what; raise a ValueError if two topics report the same joint."""
        chosen = messages.name_list >= 0
        if not chosen.any():
            return
        pairs = np.unique(np.stack([messages.topic[chosen], messages.name_list[chosen]]), axis=1)
        for topic, name_list in pairs.T.tolist():
            self._add(decoder.topics[topic], decoder.name_lists[name_list])

    def _add(self, topic: str, names: tuple[str, ...]) -> None:
        self.topics.add(topic)
        for name in names:
            if self._known is not None and name not in self._known:
                self.others[name] = None
                continue
            owner = self.joints.setdefault(name, topic)
            if owner != topic and self._part.exclusive:
                raise ValueError(
                    f"{self._part.name}: the topics {owner} and {topic} both report the joint "
                    f"{name!r}; pass topics= with the topics of the robot"
                )


def reported_joints(source: Source, model: Model, topics: Iterable[str] | None) -> set[str]:
    """The joints that messages at the start of a recording report, also of other robots."""
    part = replace(
        whole(source), model=model, topics=_joint_topics(source, topics), exclusive=False
    )
    owners = _owners(source, part)
    return {*owners.joints, *owners.others}


def _with_names(source: Source, part: Part) -> Part:
    """Add the names of the joints; without a model, all those in the recording."""
    owners = _owners(source, part)
    if part.model is None:
        return replace(part, names=tuple(owners.joints))
    names = part.collector().names
    if names and owners.others and not owners.joints:
        raise ValueError(
            f"{source.name}: no joint of the robot is in the recording; the robot has "
            f"{abbreviated(sorted(names))}; the recording has "
            f"{abbreviated(list(owners.others))}"
        )
    return replace(part, names=names)


def _owners(source: Source, part: Part) -> Owners:
    """Who reports which joints; with a model, until each topic has reported some."""
    owners, decoder = Owners(part), Decoder()
    for number, span in enumerate(source.spans):
        owners.take(read_span(source.path, span, part.topics, decoder), decoder)
        if (
            part.model is not None
            and owners.joints
            and (number >= _SAMPLED or owners.topics >= set(part.topics))
        ):
            break
    return owners


def _with_joints(part: Part, joints: tuple[str, ...]) -> Part:
    """Restrict the columns to some joints."""
    model = part.model
    available = list(part.names) if model is None else list(own_joints(model))
    for name in joints:
        if name not in available:
            raise ValueError(
                f"joints: {part.name} has no joint {name!r}; available: "
                f"{abbreviated(available) or 'none'}"
            )
    if len(set(joints)) < len(joints):
        raise ValueError(f"joints: expected each once, got {', '.join(joints)}")
    if model is None and joints:
        return replace(part, names=joints)
    return replace(part, joints=joints)
