# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of quantities as MCAP files with the messages of the nodes, and bags of such files.

A folder of files with a ``metadata.yaml`` is a recording of rosbag2. Messages that a node would not
publish, because a number is unknown, are left out.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NamedTuple

import numpy as np

from ... import __version__
from ...cdr.definition import parse
from ...cdr.template import Template
from ...engine.kernel.types import Array
from .atomic import whole_file
from .quantity_table import AXES, INERTIA, Table

JOINT_STATE, ODOMETRY, CENTROIDAL, NUMBER = (
    "sensor_msgs/msg/JointState",
    "nav_msgs/msg/Odometry",
    "dyn_ros/msg/CentroidalState",
    "std_msgs/msg/Float64",
)
CENTROIDAL_FIELDS = """std_msgs/Header header
float64 mass
geometry_msgs/Point com
geometry_msgs/Inertia locked_inertia
bool velocity_valid
geometry_msgs/Vector3 com_velocity
geometry_msgs/Vector3 linear_momentum
geometry_msgs/Vector3 angular_momentum
bool rates_valid
geometry_msgs/Vector3 com_acceleration
geometry_msgs/Vector3 linear_momentum_rate
geometry_msgs/Vector3 angular_momentum_rate"""

_ROWS = 1 << 13  # states whose messages are in memory at a time
_TOPICS = {
    "gravity": "/dynamics/gravity",
    "nle": "/dynamics/nle",
    "torque": "/dynamics/torque",
    "residual": "/observer/residual",
    "external": "/observer/external_efforts",
    "contacts": "/observer/threshold_ratios",
    "power": "/dynamics/power",
}
_NUMBERS = {
    "energy.kinetic": "/dynamics/energy/kinetic",
    "energy.potential": "/dynamics/energy/potential",
    "energy.total": "/dynamics/energy/total",
    "power.total": "/dynamics/power/total",
}
_MOMENTA = "com_velocity", "linear_momentum", "angular_momentum"
_PLANAR_TWIST = 0, 1, 5  # linear x, y, angular z


class _Sent(NamedTuple):
    """The messages of a topic: of which rows, and their bytes."""

    topic: str
    type: str
    rows: Any
    content: list[bytes]


def write(table: Table, path: str | Path) -> None:
    """Write an MCAP file, completely or not at all.

    With the quantity "state", it also contains the joint states, and the odometry of a base that
    moves.
    """
    with whole_file(Path(path)) as file:
        _write(table, file)


def _write(table: Table, file: IO[bytes]) -> None:
    try:
        import rosbags.typesys  # noqa: F401
        from mcap.writer import Writer
    except ImportError:
        raise ImportError(
            'MCAP files require mcap and rosbags: pip install "dyn_ros[logs]"'
        ) from None
    writer = Writer(file)
    writer.start(profile="ros2", library=f"dyn_ros {__version__}")
    channels: dict[str, int] = {}
    schemas: dict[str, int] = {}
    counts: dict[str, int] = {}
    for start in range(0, len(table), _ROWS):
        block = table.take(slice(start, start + _ROWS))
        sent = list(_messages(block))
        for group in sent:
            if group.topic in channels:
                continue
            if group.type not in schemas:
                schemas[group.type] = writer.register_schema(
                    group.type, "ros2msg", _definition(group.type).encode()
                )
            channels[group.topic] = writer.register_channel(
                group.topic, "cdr", schemas[group.type], {"offered_qos_profiles": ""}
            )
        for row, topic, content in _in_order(sent):
            time = int(block.log_time[row])
            counts[topic] = counts.get(topic, 0) + 1
            writer.add_message(channels[topic], time, content, time, counts[topic])
    writer.finish()


def _in_order(sent: Sequence[_Sent]) -> Iterator[tuple[int, str, bytes]]:
    """Yield row, topic and bytes of messages, row by row."""
    rows = np.concatenate([group.rows for group in sent]) if sent else np.zeros(0, int)
    topics = [group.topic for group in sent for _ in group.content]
    content = [message for group in sent for message in group.content]
    for k in np.argsort(rows, kind="stable").tolist():
        yield int(rows[k]), topics[k], content[k]


def _messages(table: Table) -> Iterator[_Sent]:
    """Yield the messages of each topic for which there are columns."""
    quantities = {name.partition(".")[0] for name in table.columns}
    if "position" in quantities:
        yield from _states(table)
    for quantity, topic in _TOPICS.items():
        if quantity in quantities and table.names:
            effort = _matrix(table, quantity, table.names)
            yield _joint_states(
                table, topic, table.names, ~np.isnan(effort).any(axis=1), {"effort": effort}
            )
    for column, topic in _NUMBERS.items():
        if column in table.columns:
            data = table.columns[column]
            yield _filled(table, topic, NUMBER, _template(NUMBER), ~np.isnan(data), {"data": data})
    if "mass" in table.columns:
        yield _centroidal(table)


def _matrix(table: Table, quantity: str, names: Sequence[str]) -> Array:
    return np.stack([table.columns[f"{quantity}.{name}"] for name in names], axis=1)


@functools.cache
def _definition(kind: str) -> str:
    """The definition of a type and of all types in it, as a recording contains it."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    types.register(get_types_from_msg(CENTROIDAL_FIELDS, CENTROIDAL))
    return types.generate_msgdef(kind, ros_version=2)[0]


def _template(kind: str, frame: str = "", **fields: Any) -> Template:
    """A message in which these fields are not zero or empty."""
    return Template(
        SimpleNamespace(header=SimpleNamespace(frame_id=frame), **fields),
        definition=parse(kind, _definition(kind)),
    )


def _filled(
    table: Table, topic: str, kind: str, template: Template, which: Any, values: dict[str, Array]
) -> _Sent:
    rows = np.flatnonzero(which)
    return _Sent(
        topic,
        kind,
        rows,
        template.fill(
            table.columns["stamp"][rows], {name: array[rows] for name, array in values.items()}
        ),
    )


def _joint_states(
    table: Table, topic: str, names: Sequence[str], which: Any, values: dict[str, Array]
) -> _Sent:
    """JointStates in which the fields are empty that have no values."""
    template = _template(
        JOINT_STATE, table.frame, name=names, **{field: np.zeros(len(names)) for field in values}
    )
    return _filled(table, topic, JOINT_STATE, template, which, values)


def _states(table: Table) -> Iterator[_Sent]:
    """The states that quantities are computed from."""
    first = {"floating": 6, "planar": 3}.get(table.base, 0)
    names = table.names[first:]
    if names:
        values = {
            "position": _matrix(table, "position", names),
            "velocity": _matrix(table, "velocity", names),
            "effort": _matrix(table, "effort", names),
        }
        known = {name: ~np.isnan(array).any(axis=1) for name, array in values.items()}
        for moving in (True, False):
            for loaded in (True, False):
                which = (
                    known["position"] & (known["velocity"] == moving) & (known["effort"] == loaded)
                )
                fields = ["position", *["velocity"] * moving, *["effort"] * loaded]
                if which.any():
                    yield _joint_states(
                        table,
                        "/joint_states",
                        names,
                        which,
                        {name: values[name] for name in fields},
                    )
    if table.base:
        yield _odometry(table, first)


def _odometry(table: Table, first: int) -> _Sent:
    count = len(table.position_names) - len(table.names) + first
    pose = _matrix(table, "position", table.position_names[:count])
    twist = _matrix(table, "velocity", table.names[:first])
    if table.base == "planar":
        planar_pose, planar_twist = pose, twist
        pose, twist = np.zeros((len(pose), 7)), np.zeros((len(pose), 6))
        pose[:, :2] = planar_pose[:, :2]
        pose[:, 5], pose[:, 6] = np.sin(0.5 * planar_pose[:, 2]), np.cos(0.5 * planar_pose[:, 2])
        twist[:, _PLANAR_TWIST] = planar_twist
    return _filled(
        table,
        "/odom",
        ODOMETRY,
        _template(ODOMETRY, table.world, child_frame_id=table.frame),
        ~(np.isnan(pose).any(axis=1) | np.isnan(twist).any(axis=1)),
        {"pose.pose": pose, "twist.twist": twist},
    )


def _centroidal(table: Table) -> _Sent:
    columns = table.columns
    vectors = {
        name: np.stack([columns[f"{name}.{axis}"] for axis in AXES], axis=1)
        for name in ("com", *_MOMENTA)
    }
    inertia = np.column_stack(
        [columns["mass"], vectors["com"], *(columns[f"locked_inertia.{name}"] for name in INERTIA)]
    )
    values = {
        "mass": columns["mass"],
        "locked_inertia": inertia,
        **vectors,
        "velocity_valid": ~np.isnan(columns["linear_momentum.x"]),
    }
    template = _template(CENTROIDAL, table.world)
    for name in ("com_acceleration", "linear_momentum_rate", "angular_momentum_rate"):
        template.array(name)[:] = math.nan
    return _filled(
        table, "/centroidal/state", CENTROIDAL, template, ~np.isnan(inertia).any(axis=1), values
    )


# --- bags of several files


class _File(NamedTuple):
    name: str
    start: int
    stop: int
    topics: dict[str, tuple[str, int]]  # type and number of messages


def write_metadata(folder: str | Path) -> None:
    """Write the metadata.yaml that makes the MCAP files of a folder one bag of rosbag2."""
    place = Path(folder)
    files = [_read(path) for path in sorted(place.glob("*.mcap"))]
    with whole_file(place / "metadata.yaml") as file:
        file.write(_metadata([one for one in files if one.topics]).encode())


def _read(path: Path) -> _File:
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    if summary is None or summary.statistics is None:
        raise ValueError(
            f"{path}: expected a file with a summary, which files written by dyn_ros "
            "have; remove it, and compute its quantities again"
        )
    statistics = summary.statistics
    topics = {
        channel.topic: (
            summary.schemas[channel.schema_id].name,
            statistics.channel_message_counts.get(number, 0),
        )
        for number, channel in summary.channels.items()
    }
    return _File(path.name, statistics.message_start_time, statistics.message_end_time, topics)


def _metadata(files: Sequence[_File]) -> str:
    start = min((file.start for file in files), default=0)
    stop = max((file.stop for file in files), default=0)
    total: dict[str, tuple[str, int]] = {}
    for file in files:
        for topic, (kind, count) in file.topics.items():
            total[topic] = kind, total.get(topic, (kind, 0))[1] + count
    lines = [
        "rosbag2_bagfile_information:",
        "  version: 5",
        "  storage_identifier: mcap",
        "  duration:",
        f"    nanoseconds: {stop - start}",
        "  starting_time:",
        f"    nanoseconds_since_epoch: {start}",
        f"  message_count: {sum(count for _, count in total.values())}",
        "  topics_with_message_count:" + (" []" if not total else ""),
    ]
    for topic, (kind, count) in total.items():
        lines += [
            "    - topic_metadata:",
            f"        name: {topic}",
            f"        type: {kind}",
            "        serialization_format: cdr",
            '        offered_qos_profiles: ""',
            f"      message_count: {count}",
        ]
    lines += [
        '  compression_format: ""',
        '  compression_mode: ""',
        "  relative_file_paths:" + (" []" if not files else ""),
    ]
    lines += [f"    - {json.dumps(file.name)}" for file in files]
    lines.append("  files:" + (" []" if not files else ""))
    for file in files:
        lines += [
            f"    - path: {json.dumps(file.name)}",
            "      starting_time:",
            f"        nanoseconds_since_epoch: {file.start}",
            "      duration:",
            f"        nanoseconds: {file.stop - file.start}",
            f"      message_count: {sum(count for _, count in file.topics.values())}",
        ]
    return "\n".join(lines) + "\n"
