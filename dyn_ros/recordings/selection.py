# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Selection of the robot, the topics and the parts of a recording that are read."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..cdr.decode import DYNAMIC_JOINT_STATE, JOINT_STATE, ODOMETRY, Decoder, Messages
from ..engine.model.coordinates import independent_joint_indices
from ..engine.model.model import Model, RootJoint
from ..states.joint_states import abbreviate_names, base_kind
from ..states.rules import check_base
from .formats.sources import find_robot_description, open_source, read_span
from .formats.spans import DECODABLE, Source
from .options import ReadOptions, Robot
from .plan import Part, divide_part, whole_part

JOINT_STATE_TOPICS = {"joint_states": JOINT_STATE, "dynamic_joint_states": DYNAMIC_JOINT_STATE}
"""Types of the topics of joint states by the last part of their name, the preferred one first."""

_MAX_SEARCHED_SPANS = 100  # spans; topics without messages before are not found


def open_parts(options: ReadOptions, path: Path) -> tuple[Source, list[Part]]:
    """Open a recording and divide it into parts.

    Raise a ValueError if it cannot be read, or contains no joint of the robot.
    """
    source = open_source(path, options.columns.get(path), options.max_chunk_size)
    return source, divide_part(select_part(source, options), options.size, options.overlap)


def require_messages(source: Source) -> None:
    """Raise a ValueError with the reason if nothing in a recording can be read."""
    if source.damage and not source.spans:
        raise ValueError(f"{source.path}: {source.damage}")


def select_part(source: Source, options: ReadOptions) -> Part:
    """Choose the robot, the topics and the interval of a recording, as one part without overlap.

    Raise a ValueError for a topic that is missing or cannot be read, topics that report the same
    joint, no joint of the robot, several odometries or none, or an unusable description or base.
    """
    require_messages(source)
    if not options.staleness > 0.0:
        raise ValueError(f"staleness: expected more than 0 s, got {options.staleness!r}")
    model = load_robot(options.robot, options.root_joint) or _load_description(
        source, options.root_joint
    )
    topics = _select_joint_topics(source, options.topics)
    base = None
    odometry: tuple[str, ...] = ()
    if model is not None and base_kind(model) is not None:
        base = options.base
        if base is None:
            odometry = _select_odometry(source, options.odometry)
        else:
            check_base(*base)
    part = replace(
        whole_part(source),
        model=model,
        topics=topics,
        unread_topics=tuple(
            name for name in _readable_topics(source, DYNAMIC_JOINT_STATE) if name not in topics
        ),
        odometry=odometry,
        staleness=float(options.staleness),
        base=base,
        exclusive=options.topics is None,
    )
    part = _add_selected_joints(_add_joint_names(source, part), tuple(options.joints or ()))
    interval = whole_part(source, options.since, options.until)
    return replace(part, start=interval.start, stop=interval.stop)


# --- the robot


def load_robot(robot: Robot, root_joint: RootJoint) -> Model | None:
    """Return the model of a description file, or a model as it is."""
    if robot is None or isinstance(robot, Model):
        return robot
    if not isinstance(robot, (str, os.PathLike)):  # an int would be an open file
        raise TypeError(f"robot: expected a dyn_ros.Model or a file, got {robot!r:.80}")
    return Model.from_urdf_file(robot, root_joint)


def _load_description(source: Source, root_joint: RootJoint) -> Model | None:
    """Return the model of the description in a recording, or None if there is none."""
    text = find_robot_description(source)
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


def _select_joint_topics(source: Source, topics: str | Iterable[str] | None) -> tuple[str, ...]:
    """Return the requested topics of joint states, or all with the preferred name."""
    available = _readable_topics(source, *JOINT_STATE_TOPICS.values())
    if topics is not None:
        requested = [topics] if isinstance(topics, str) else list(topics)
        return _require_topics(source, "topics", requested, available)
    for usual_name, kind in JOINT_STATE_TOPICS.items():
        readable = _readable_topics(source, kind)
        names = [name for name in readable if name.rpartition("/")[2] == usual_name]
        if names:
            return tuple(names)
    alternatives = (
        f"it has {abbreviate_names(available)}; pass topics="
        if available
        else f"its topics are {_list_topics(source)}"
    )
    raise ValueError(
        f"{source.name}: no readable topic named joint_states of {JOINT_STATE}, or "
        f"dynamic_joint_states of {DYNAMIC_JOINT_STATE}; "
        f"{alternatives}{_unreadable_topics_text(source)}"
    )


def _select_odometry(source: Source, topic: str | None) -> tuple[str, ...]:
    """Return the requested topic of odometry, or the one in the recording."""
    available = _readable_topics(source, ODOMETRY)
    if topic is not None:
        return _require_topics(source, "odometry", [topic], available)
    names = [name for name in available if name.rpartition("/")[2] in ("odom", "odometry")]
    names = names or available
    if len(names) > 1:
        raise ValueError(f"{source.name}: several odometries, {', '.join(names)}; pass odometry=")
    if not names:
        raise ValueError(
            f"{source.name}: no odometry, which the moving base of the robot needs; "
            "pass base=, its constant pose and twist, or pass root_joint=None if it stands still"
        )
    return tuple(names)


def _readable_topics(source: Source, *kinds: str) -> list[str]:
    """Return the topics of some types that can be decoded."""
    return list(
        dict.fromkeys(
            topic.name
            for topic in source.topics
            if topic.type in kinds and topic.encoding in DECODABLE
        )
    )


def _list_topics(source: Source) -> str:
    """Return the topics of a recording and their types, for messages; "none" without any."""
    return abbreviate_names([f"{topic.name} ({topic.type})" for topic in source.topics]) or "none"


def _unreadable_topics_text(source: Source) -> str:
    """Return the part of a message about joint states that cannot be decoded."""
    names = [
        f"{topic.name} ({topic.encoding})"
        for topic in source.topics
        if topic.type in JOINT_STATE_TOPICS.values() and topic.encoding not in DECODABLE
    ]
    return f"; encodings that cannot be read: {abbreviate_names(names)}" if names else ""


def _require_topics(
    source: Source, option: str, names: list[str], available: list[str]
) -> tuple[str, ...]:
    """Return requested topics, each once; raise a ValueError if one is not available."""
    for name in names:
        if name not in available:
            raise ValueError(
                f"{source.name}: {option}: no readable topic {name!r}; available: "
                f"{abbreviate_names(available) or 'none'}{_unreadable_topics_text(source)}"
            )
    if not names:
        raise ValueError(
            f"{option}: expected at least one topic; available: "
            f"{abbreviate_names(available) or 'none'}"
        )
    return tuple(dict.fromkeys(names))


# --- names


class JointTopics:
    """Topics of a recording, and the joints of a robot that each reports."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._joint_names = None if part.model is None else set(part.make_collector().names)
        self.topics: set[str] = set()
        self.joints: dict[str, str] = {}  # topic by joint
        self.unknown_names: dict[str, None] = {}  # an ordered set

    def add(self, messages: Messages, decoder: Decoder) -> None:
        """Add the joints of messages.

        Raise a ValueError if two topics report the same joint and the part is exclusive.
        """
        chosen = messages.name_list >= 0
        if not chosen.any():
            return
        pairs = np.unique(np.stack([messages.topic[chosen], messages.name_list[chosen]]), axis=1)
        for topic, name_list in pairs.T.tolist():
            self._add_names(decoder.topics[topic], decoder.name_lists[name_list])

    def _add_names(self, topic: str, names: tuple[str, ...]) -> None:
        """Add the joints of one message of a topic."""
        self.topics.add(topic)
        for name in names:
            if self._joint_names is not None and name not in self._joint_names:
                self.unknown_names[name] = None
                continue
            first_topic = self.joints.setdefault(name, topic)
            if first_topic != topic and self._part.exclusive:
                raise ValueError(
                    f"{self._part.name}: the topics {first_topic} and {topic} both report the "
                    f"joint {name!r}; pass topics= with the topics of the robot"
                )


def find_reported_joints(source: Source, model: Model, topics: Iterable[str] | None) -> set[str]:
    """Return the joints in messages at the start of a recording, also of other robots."""
    require_messages(source)
    part = replace(
        whole_part(source),
        model=model,
        topics=_select_joint_topics(source, topics),
        exclusive=False,
    )
    joint_topics = _find_joint_topics(source, part)
    return {*joint_topics.joints, *joint_topics.unknown_names}


def _add_joint_names(source: Source, part: Part) -> Part:
    """Return a part with the names of the joints; without a model, all in the recording.

    Reads messages of the topics from the file, see `_find_joint_topics`. Raise a ValueError if no
    joint of the robot is in them, or if two topics report the same joint and the part is exclusive.
    """
    joint_topics = _find_joint_topics(source, part)
    if part.model is None:
        return replace(part, joint_names=tuple(joint_topics.joints))
    names = part.make_collector().names
    if names and joint_topics.unknown_names and not joint_topics.joints:
        raise ValueError(
            f"{source.name}: no joint of the robot is in the recording; the robot has "
            f"{abbreviate_names(sorted(names))}; the recording has "
            f"{abbreviate_names(list(joint_topics.unknown_names))}"
        )
    return replace(part, joint_names=names)


def _find_joint_topics(source: Source, part: Part) -> JointTopics:
    """Return the joints that each topic reports, from the messages in the spans of the file.

    Without a model, all spans are read; with a model, spans until each topic has reported joints,
    or `_MAX_SEARCHED_SPANS` of them. Raise errors as `JointTopics.add`.
    """
    joint_topics, decoder = JointTopics(part), Decoder()
    for number, span in enumerate(source.spans):
        joint_topics.add(read_span(source.path, span, part.topics, decoder), decoder)
        if (
            part.model is not None
            and joint_topics.joints
            and (number >= _MAX_SEARCHED_SPANS or joint_topics.topics >= set(part.topics))
        ):
            break
    return joint_topics


def _add_selected_joints(part: Part, joints: tuple[str, ...]) -> Part:
    """Return a part with the columns of selected joints, of all if there are none.

    Raise a ValueError if a joint is not available, or named twice.
    """
    model = part.model
    available = list(part.joint_names) if model is None else list(independent_joint_indices(model))
    for name in joints:
        if name not in available:
            raise ValueError(
                f"joints: {part.name} has no joint {name!r}; available: "
                f"{abbreviate_names(available) or 'none'}"
            )
    if len(set(joints)) < len(joints):
        raise ValueError(f"joints: expected each once, got {', '.join(joints)}")
    if model is None and joints:
        return replace(part, joint_names=joints)
    return replace(part, selected_joints=joints)
