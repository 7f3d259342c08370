# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""MCAP files of quantities with the messages of the nodes, and rosbag2 bags of such files.

Messages that a node would not publish, because a number is unknown, are left out.
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
from ...cdr.definition import parse_definition
from ...cdr.template import Template
from ...engine.kernel.types import Array
from ...files.writing import write_whole_file
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

_BATCH_SIZE = 1 << 13  # rows whose messages are in memory at a time
_EFFORT_TOPICS = {
    "gravity": "/dynamics/gravity",
    "nle": "/dynamics/nle",
    "torque": "/dynamics/torque",
    "residual": "/observer/residual",
    "external": "/observer/external_efforts",
    "contacts": "/observer/threshold_ratios",
    "power": "/dynamics/power",
}
_NUMBER_TOPICS = {
    "energy.kinetic": "/dynamics/energy/kinetic",
    "energy.potential": "/dynamics/energy/potential",
    "energy.total": "/dynamics/energy/total",
    "power.total": "/dynamics/power/total",
}
_MOMENTUM_VECTORS = "com_velocity", "linear_momentum", "angular_momentum"
_PLANAR_TWIST_ROWS = 0, 1, 5  # linear x, y, angular z


class _MessageGroup(NamedTuple):
    """Serialized messages of a topic, each made from a row of a table."""

    topic: str
    type: str
    rows: Any  # (n,), ascending
    messages: list[bytes]  # n


def write_mcap(table: Table, path: str | Path) -> None:
    """Write an MCAP file, completely or not at all.

    With the quantity "state", it also contains the joint states, and the odometry of a base that
    moves.
    """
    with write_whole_file(Path(path), create_folder=True) as file:
        _write_messages(table, file)


def import_writer() -> Any:
    """Return the class that writes MCAP files; raise an ImportError that names its packages."""
    try:
        import rosbags.typesys  # noqa: F401
        from mcap.writer import Writer
    except ImportError:
        raise ImportError(
            'MCAP files require mcap and rosbags: pip install "dyn_ros[logs]"'
        ) from None
    return Writer


def _write_messages(table: Table, file: IO[bytes]) -> None:
    """Write the messages of a table to an MCAP file, row by row."""
    writer = import_writer()(file)
    writer.start(profile="ros2", library=f"dyn_ros {__version__}")
    channels: dict[str, int] = {}
    schemas: dict[str, int] = {}
    counts: dict[str, int] = {}
    for start in range(0, len(table), _BATCH_SIZE):
        batch = table.take(slice(start, start + _BATCH_SIZE))
        groups = list(_messages_by_topic(batch))
        for group in groups:
            if group.topic in channels:
                continue
            if group.type not in schemas:
                schemas[group.type] = writer.register_schema(
                    group.type, "ros2msg", _message_definition(group.type).encode()
                )
            channels[group.topic] = writer.register_channel(
                group.topic, "cdr", schemas[group.type], {"offered_qos_profiles": ""}
            )
        for row, topic, message in _sort_by_row(groups):
            time = int(batch.log_time[row])
            counts[topic] = counts.get(topic, 0) + 1
            writer.add_message(channels[topic], time, message, time, counts[topic])
    writer.finish()


def _sort_by_row(groups: Sequence[_MessageGroup]) -> Iterator[tuple[int, str, bytes]]:
    """Yield row, topic and message, row by row."""
    rows = np.concatenate([group.rows for group in groups]) if groups else np.zeros(0, int)
    topics = [group.topic for group in groups for _ in group.messages]
    messages = [message for group in groups for message in group.messages]
    for k in np.argsort(rows, kind="stable").tolist():
        yield int(rows[k]), topics[k], messages[k]


def _messages_by_topic(table: Table) -> Iterator[_MessageGroup]:
    """Yield the messages of each topic for which there are columns."""
    quantities = {name.partition(".")[0] for name in table.columns}
    if "position" in quantities:
        yield from _state_messages(table)
    for quantity, topic in _EFFORT_TOPICS.items():
        if quantity in quantities and table.names:
            effort = _stack_columns(table, quantity, table.names)
            yield _joint_state_messages(
                table, topic, table.names, ~np.isnan(effort).any(axis=1), {"effort": effort}
            )
    for column, topic in _NUMBER_TOPICS.items():
        if column in table.columns:
            data = table.columns[column]
            yield _fill_template(
                table, topic, NUMBER, _message_template(NUMBER), ~np.isnan(data), {"data": data}
            )
    if "mass" in table.columns:
        yield _centroidal_messages(table)


def _stack_columns(table: Table, quantity: str, names: Sequence[str]) -> Array:
    """Return the columns of a quantity, one for each name, as an array (rows, names)."""
    return np.stack([table.columns[f"{quantity}.{name}"] for name in names], axis=1)


@functools.cache
def _message_definition(kind: str) -> str:
    """Return the definition of a type and of all types in it, as a recording contains it."""
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    types.register(get_types_from_msg(CENTROIDAL_FIELDS, CENTROIDAL))
    return types.generate_msgdef(kind, ros_version=2)[0]


def _message_template(kind: str, frame: str = "", **fields: Any) -> Template:
    """Return the template of a message whose fields are zero or empty, except those given."""
    return Template(
        SimpleNamespace(header=SimpleNamespace(frame_id=frame), **fields),
        definition=parse_definition(kind, _message_definition(kind)),
    )


def _fill_template(
    table: Table, topic: str, kind: str, template: Template, row_mask: Any, values: dict[str, Array]
) -> _MessageGroup:
    """Make a message of each row in the mask; ``values`` has a row of each field for each state."""
    rows = np.flatnonzero(row_mask)
    return _MessageGroup(
        topic,
        kind,
        rows,
        template.fill(
            table.columns["stamp"][rows], {name: array[rows] for name, array in values.items()}
        ),
    )


def _joint_state_messages(
    table: Table, topic: str, names: Sequence[str], row_mask: Any, values: dict[str, Array]
) -> _MessageGroup:
    """Make JointStates whose fields are empty unless there are values of them."""
    template = _message_template(
        JOINT_STATE, table.frame, name=names, **{field: np.zeros(len(names)) for field in values}
    )
    return _fill_template(table, topic, JOINT_STATE, template, row_mask, values)


def _state_messages(table: Table) -> Iterator[_MessageGroup]:
    """Yield the states from which quantities are computed, as joint states and odometry."""
    base_nv = {"floating": 6, "planar": 3}.get(table.base, 0)
    names = table.names[base_nv:]
    if names:
        values = {
            "position": _stack_columns(table, "position", names),
            "velocity": _stack_columns(table, "velocity", names),
            "effort": _stack_columns(table, "effort", names),
        }
        is_known = {name: ~np.isnan(array).any(axis=1) for name, array in values.items()}
        for has_velocity in (True, False):
            for has_effort in (True, False):
                row_mask = (
                    is_known["position"]
                    & (is_known["velocity"] == has_velocity)
                    & (is_known["effort"] == has_effort)
                )
                fields = ["position", *["velocity"] * has_velocity, *["effort"] * has_effort]
                if row_mask.any():
                    yield _joint_state_messages(
                        table,
                        "/joint_states",
                        names,
                        row_mask,
                        {name: values[name] for name in fields},
                    )
    if table.base:
        yield _odometry_messages(table, base_nv)


def _odometry_messages(table: Table, base_nv: int) -> _MessageGroup:
    """Make the odometry of a base with ``base_nv`` velocities."""
    base_nq = len(table.position_names) - len(table.names) + base_nv
    pose = _stack_columns(table, "position", table.position_names[:base_nq])
    twist = _stack_columns(table, "velocity", table.names[:base_nv])
    if table.base == "planar":
        planar_pose, planar_twist = pose, twist
        pose, twist = np.zeros((len(pose), 7)), np.zeros((len(pose), 6))
        pose[:, :2] = planar_pose[:, :2]
        pose[:, 5], pose[:, 6] = np.sin(0.5 * planar_pose[:, 2]), np.cos(0.5 * planar_pose[:, 2])
        twist[:, _PLANAR_TWIST_ROWS] = planar_twist
    return _fill_template(
        table,
        "/odom",
        ODOMETRY,
        _message_template(ODOMETRY, table.world, child_frame_id=table.frame),
        ~(np.isnan(pose).any(axis=1) | np.isnan(twist).any(axis=1)),
        {"pose.pose": pose, "twist.twist": twist},
    )


def _centroidal_messages(table: Table) -> _MessageGroup:
    """Make the centroidal states; accelerations and rates are NaN."""
    columns = table.columns
    vectors = {
        name: np.stack([columns[f"{name}.{axis}"] for axis in AXES], axis=1)
        for name in ("com", *_MOMENTUM_VECTORS)
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
    template = _message_template(CENTROIDAL, table.world)
    for name in ("com_acceleration", "linear_momentum_rate", "angular_momentum_rate"):
        template.array(name)[:] = math.nan
    return _fill_template(
        table, "/centroidal/state", CENTROIDAL, template, ~np.isnan(inertia).any(axis=1), values
    )


# --- bags of several files


class _BagFile(NamedTuple):
    """Contents of an MCAP file, as the metadata of a bag state them."""

    name: str
    start: int  # ns
    stop: int  # ns
    topics: dict[str, tuple[str, int]]  # type and number of messages


def write_metadata(folder: str | Path) -> None:
    """Write the metadata.yaml that makes the MCAP files of a folder one bag of rosbag2."""
    files = [_read_bag_file(path) for path in sorted(Path(folder).glob("*.mcap"))]
    with write_whole_file(Path(folder) / "metadata.yaml") as metadata:
        metadata.write(_format_metadata([file for file in files if file.topics]).encode())


def _read_bag_file(path: Path) -> _BagFile:
    """Read the summary of an MCAP file that ``write`` has written."""
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
    return _BagFile(path.name, statistics.message_start_time, statistics.message_end_time, topics)


def _format_metadata(files: Sequence[_BagFile]) -> str:
    """Return the text of a metadata.yaml of rosbag2."""
    start = min((file.start for file in files), default=0)
    stop = max((file.stop for file in files), default=0)
    topics: dict[str, tuple[str, int]] = {}
    for file in files:
        for topic, (kind, count) in file.topics.items():
            topics[topic] = kind, topics.get(topic, (kind, 0))[1] + count
    lines = [
        "rosbag2_bagfile_information:",
        "  version: 5",
        "  storage_identifier: mcap",
        "  duration:",
        f"    nanoseconds: {stop - start}",
        "  starting_time:",
        f"    nanoseconds_since_epoch: {start}",
        f"  message_count: {sum(count for _, count in topics.values())}",
        "  topics_with_message_count:" + (" []" if not topics else ""),
    ]
    for topic, (kind, count) in topics.items():
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
