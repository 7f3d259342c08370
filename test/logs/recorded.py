# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings for tests, written with `mcap` and `rosbags`, and large ones with NumPy."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zstandard
from mcap.writer import CompressionType, IndexType
from mcap.writer import Writer as McapWriter
from rosbags.rosbag1 import Writer as Bag1Writer
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin
from rosbags.rosbag2 import Writer as Bag2Writer
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

import dyn_ros

JOINT_STATE, ODOMETRY, STRING, DYNAMIC_JOINT_STATE, INTERFACE_VALUE = (
    "sensor_msgs/msg/JointState",
    "nav_msgs/msg/Odometry",
    "std_msgs/msg/String",
    "control_msgs/msg/DynamicJointState",
    "control_msgs/msg/InterfaceValue",
)
START = 1_700_000_000_000_000_000  # ns
ROS2 = get_typestore(Stores.ROS2_JAZZY)
ROS1 = get_typestore(Stores.ROS1_NOETIC)
for name in (INTERFACE_VALUE, DYNAMIC_JOINT_STATE):
    file = Path(__file__).parents[1] / f"{name}.msg"
    ROS2.register(get_types_from_msg(file.read_text(), name))


class JointState(NamedTuple):
    """Fields of a sensor_msgs/JointState."""

    names: Sequence[str]
    position: Sequence[float] = ()
    velocity: Sequence[float] = ()
    effort: Sequence[float] = ()
    stamp: int = 0  # ns
    frame: str = ""


class InterfaceState(NamedTuple):
    """Fields of a control_msgs/DynamicJointState: values by interface, by entry."""

    entries: Mapping[str, Mapping[str, float]]
    stamp: int = 0  # ns
    frame: str = ""


class Odometry(NamedTuple):
    """Fields of a nav_msgs/Odometry."""

    pose: Sequence[float]  # x y z qx qy qz qw
    twist: Sequence[float]  # linear, angular
    stamp: int = 0
    frame: str = "odom"
    child: str = "base_link"


Message = JointState | InterfaceState | Odometry | str


class Sent(NamedTuple):
    """A message of a recording; a text is a std_msgs/String."""

    topic: str
    log_time: int  # ns
    message: Message


def ros_type(message: Message) -> str:
    """Return the name of the type of a message in ROS 2."""
    return {
        JointState: JOINT_STATE,
        InterfaceState: DYNAMIC_JOINT_STATE,
        Odometry: ODOMETRY,
        str: STRING,
    }[type(message)]


def serialized(message: Message, *, ros1: bool = False, little: bool = True) -> bytes:
    """Serialize a message with rosbags, for ROS 2 (CDR) or ROS 1."""
    store, kind = (ROS1 if ros1 else ROS2), ros_type(message)
    fields = _make_message(message, store, ros1)
    if ros1:
        return bytes(store.serialize_ros1(fields, kind))
    return bytes(store.serialize_cdr(fields, kind, little_endian=little))


def _make_message(message: Message, store: Any, ros1: bool) -> Any:
    types = store.types
    if isinstance(message, str):
        return types[STRING](data=message)
    time = types["builtin_interfaces/msg/Time"](
        sec=message.stamp // 10**9, nanosec=message.stamp % 10**9
    )
    sequence_number = {"seq": 0} if ros1 else {}
    header = types["std_msgs/msg/Header"](stamp=time, frame_id=message.frame, **sequence_number)
    if isinstance(message, JointState):
        return types[JOINT_STATE](
            header=header,
            name=list(message.names),
            **{
                name: np.array(getattr(message, name), float)
                for name in ("position", "velocity", "effort")
            },
        )

    if isinstance(message, InterfaceState):
        return types[DYNAMIC_JOINT_STATE](
            header=header,
            joint_names=list(message.entries),
            interface_values=[
                types[INTERFACE_VALUE](
                    interface_names=list(entry), values=np.array(list(entry.values()), float)
                )
                for entry in message.entries.values()
            ],
        )

    def numbers(kind: str, values: Sequence[float]) -> Any:
        return types[f"geometry_msgs/msg/{kind}"](**dict(zip("xyzw", map(float, values))))

    pose = types["geometry_msgs/msg/Pose"](
        position=numbers("Point", message.pose[:3]),
        orientation=numbers("Quaternion", message.pose[3:]),
    )
    twist = types["geometry_msgs/msg/Twist"](
        linear=numbers("Vector3", message.twist[:3]), angular=numbers("Vector3", message.twist[3:])
    )
    covariance = np.arange(36.0)
    return types[ODOMETRY](
        header=header,
        child_frame_id=message.child,
        pose=types["geometry_msgs/msg/PoseWithCovariance"](pose=pose, covariance=covariance),
        twist=types["geometry_msgs/msg/TwistWithCovariance"](twist=twist, covariance=covariance),
    )


def definition(kind: str) -> bytes:
    """Return the full definition of a type, as ROS 2 stores it in an MCAP file."""
    return str(ROS2.generate_msgdef(kind, ros_version=2)[0]).encode()


# --- files


def write_mcap(
    path: Path,
    messages: Iterable[Sent],
    *,
    compression: str = "zstd",
    chunk_size: int = 1 << 16,
    chunked: bool = True,
    indexed: bool = True,
    ros1: bool = False,
    little: bool = True,
    **more: Any,
) -> Path:
    """Write an MCAP file with the library `mcap`; compression is "zstd", "lz4" or "none"."""
    with open(path, "wb") as file:
        writer = McapWriter(
            file,
            chunk_size,
            CompressionType[compression.upper()],
            IndexType.ALL if indexed else IndexType.NONE,
            use_chunking=chunked,
            repeat_channels=indexed,
            repeat_schemas=indexed,
            use_statistics=indexed,
            use_summary_offsets=indexed,
            **more,
        )
        writer.start("ros1" if ros1 else "ros2", "test")
        channels: dict[str, int] = {}
        for number, (topic, log_time, message) in enumerate(messages):
            if topic not in channels:
                kind = ros_type(message)
                schema = writer.register_schema(
                    kind.replace("/msg/", "/") if ros1 else kind,
                    "ros1msg" if ros1 else "ros2msg",
                    definition(kind),
                )
                channels[topic] = writer.register_channel(topic, "ros1" if ros1 else "cdr", schema)
            writer.add_message(
                channels[topic],
                log_time,
                serialized(message, ros1=ros1, little=little),
                log_time,
                number,
            )
        writer.finish()
    return path


def write_bag2(
    path: Path, messages: Iterable[Sent], *, storage: str = "sqlite3", compression: str = "none"
) -> Path:
    """Write a rosbag2 folder with the library `rosbags`.

    storage is "sqlite3" or "mcap", compression "none", "file", "message" or, for MCAP, "storage".
    """
    plugin = {"sqlite3": StoragePlugin.SQLITE3, "mcap": StoragePlugin.MCAP}[storage]
    writer = Bag2Writer(path, version=9, storage_plugin=plugin)
    if compression != "none":
        writer.set_compression(CompressionMode[compression.upper()], CompressionFormat.ZSTD)
    with writer:
        connections: dict[str, Any] = {}
        for topic, log_time, message in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, ros_type(message), typestore=ROS2)
            writer.write(connections[topic], log_time, serialized(message))
    return path


def write_db3(path: Path, messages: Iterable[Sent], *, compression: str = "none") -> Path:
    """Write a rosbag2 folder with a file of sqlite3; compression is "none", "file", "message"."""
    return write_bag2(path, messages, compression=compression)


def write_bag1(path: Path, messages: Iterable[Sent], *, compression: str = "none") -> Path:
    """Write a ROS 1 bag with the library `rosbags`; compression is "none", "bz2" or "lz4"."""
    writer = Bag1Writer(path)
    if compression != "none":
        writer.set_compression(Bag1Writer.CompressionFormat[compression.upper()])
    with writer:
        connections: dict[str, Any] = {}
        for topic, log_time, message in messages:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, ros_type(message), typestore=ROS1)
            writer.write(connections[topic], log_time, serialized(message, ros1=True))
    return path


# --- a large recording


def smooth_motion(time: np.ndarray, joints: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities of a smooth motion, (n, joints) each, different for each joint."""
    random = np.random.default_rng(seed)
    amplitude = random.uniform(0.2, 0.6, joints)
    frequency = 2.0 * np.pi * random.uniform(0.1, 0.5, joints)
    phase = np.multiply.outer(time, frequency) + random.uniform(0.0, 6.0, joints)
    return amplitude * np.sin(phase), amplitude * frequency * np.cos(phase)


def synthetic_mcap(
    path: Path,
    robot: dyn_ros.Model | Sequence[str],
    count: int,
    rate: float = 1000.0,
    *,
    topic: str = "/joint_states",
    start: int = START,
    compression: str = "zstd",
    rows: int = 2000,
    seed: int = 0,
    description: str | None = None,
    jitter: float = 0.0,
) -> Path:
    """Write a large MCAP file of joint states quickly; its chunks are built by NumPy.

    Parameters
    ----------
    robot : Model or sequence of str
        With a fixed base and joints of one coordinate. The efforts of a model are its inverse
        dynamics; those of a list of names are sines.
    count : int
        Number of messages.
    rate : float
        Messages a second. Log times are 0.2 ms after the stamps.
    compression : str
        "zstd" or "none".
    rows : int
        Messages in a chunk.
    description : str, optional
        Of the robot, published on /robot_description at the start.
    jitter : float
        Standard deviation of the stamps [s].
    """
    model = robot if isinstance(robot, dyn_ros.Model) else None
    names = list(model.position_names if model else robot)
    body, places = _template(names)
    random = np.random.default_rng(seed)
    channel = _record(4, struct.pack("<HH", 1, 1) + _text(topic) + _text("cdr") + _I(0))
    schema = _record(
        3,
        struct.pack("<H", 1)
        + _text(JOINT_STATE)
        + _text("ros2msg")
        + _bytes(definition(JOINT_STATE)),
    )
    data = dyn_ros.Data(model) if model else None
    with open(path, "wb") as file:
        file.write(_MAGIC + _record(1, _text("ros2") + _text("test")))
        chunks: list[bytes] = []
        first, extra = schema + channel, []
        if description is not None:
            before = _description(description, start, message=False)
            extra = [(start, len(before))]
            first = _description(description, start) + first
        for begin in range(0, count, rows):
            ticks = np.arange(begin, min(begin + rows, count))
            stamps = start + np.round(ticks * (1e9 / rate)).astype(np.int64)
            if jitter:
                stamps += np.round(random.normal(0.0, jitter * 1e9, len(ticks))).astype(np.int64)
            time = ticks / rate
            q, v = smooth_motion(time, len(names), seed)
            tau = (
                dyn_ros.rnea(model, data, q, v, -0.5 * q)
                if model
                else 10.0 * np.sin(time[:, None] + np.arange(len(names)))
            )
            records = np.tile(body, (len(ticks), 1))
            log = stamps + 200_000
            for place, kind, values in (
                (places["sequence"], "<u4", ticks),
                (places["log"], "<u8", log),
                (places["publish"], "<u8", stamps),
                (places["sec"], "<i4", stamps // 10**9),
                (places["nanosec"], "<u4", stamps % 10**9),
                (places["position"], "<f8", q),
                (places["velocity"], "<f8", v),
                (places["effort"], "<f8", tau),
            ):
                block = np.ascontiguousarray(values.astype(kind)).view(np.uint8)
                block = block.reshape(len(ticks), -1)
                records[:, place : place + block.shape[1]] = block
            chunks.append(
                _write_chunk(
                    file,
                    first + records.tobytes(),
                    compression,
                    log,
                    len(first),
                    records.shape[1],
                    extra,
                )
            )
            first, extra = b"", []
        file.write(_record(15, _I(0)))
        summary_start = file.tell()
        channels, counts = schema + channel, [(1, count)]
        if description is not None:
            channels += _description(description, start, message=False)
            counts.append((2, 1))
        kinds = len(counts)
        summary = (
            channels
            + _record(
                11,
                struct.pack(
                    "<QHIIIIQQ",
                    sum(n for _, n in counts),
                    kinds,
                    kinds,
                    0,
                    0,
                    len(chunks),
                    start,
                    int(log.max()),
                )
                + _bytes(b"".join(struct.pack("<HQ", *each) for each in counts)),
            )
            + b"".join(chunks)
        )
        footer = struct.pack("<QQ", summary_start, 0)
        crc = zlib.crc32(struct.pack("<BQ", 2, 20) + footer, zlib.crc32(summary))
        file.write(summary + _record(2, footer + _I(crc)) + _MAGIC)
    return path


_MAGIC = b"\x89MCAP0\r\n"


def _I(number: int) -> bytes:
    return struct.pack("<I", number)


def _bytes(content: bytes) -> bytes:
    return _I(len(content)) + content


def _text(text: str) -> bytes:
    return _bytes(text.encode())


def _record(opcode: int, content: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(content)) + content


def _template(names: Sequence[str]) -> tuple[np.ndarray, dict[str, int]]:
    """A message record with zeros in place of its numbers, and where they start."""
    zeros = np.zeros(len(names))
    content = serialized(JointState(names, zeros, zeros, zeros))
    record = _record(5, struct.pack("<HIQQ", 1, 0, 0, 0) + content)
    head, n = len(record) - len(content), len(names)
    effort = len(record) - 8 * n
    velocity = effort - 8 * (n + 1)  # a count and its padding precede the numbers
    position = velocity - 8 * (n + 1)
    places = {
        "sequence": 11,
        "log": 15,
        "publish": 23,
        "sec": head + 4,
        "nanosec": head + 8,
        "position": position,
        "velocity": velocity,
        "effort": effort,
    }
    return np.frombuffer(record, np.uint8), places


def _description(text: str, log_time: int, message: bool = True) -> bytes:
    records = _record(
        3, struct.pack("<H", 2) + _text(STRING) + _text("ros2msg") + _text("string data")
    )
    records += _record(
        4, struct.pack("<HH", 2, 2) + _text("/robot_description") + _text("cdr") + _I(0)
    )
    if message:
        records += _record(5, struct.pack("<HIQQ", 2, 0, log_time, log_time) + serialized(text))
    return records


def _write_chunk(
    file: Any,
    content: bytes,
    compression: str,
    log: np.ndarray,
    first: int,
    length: int,
    extra: Sequence[tuple[int, int]] = (),
) -> bytes:
    """Write a chunk and the indexes of its messages; return its entry in the summary.

    extra: log times and offsets of the messages of channel 2.
    """
    packed = zstandard.compress(content, 1) if compression == "zstd" else content
    kind = _text("zstd" if compression == "zstd" else "")
    start = min([int(log.min()), *(time for time, _ in extra)])
    times = struct.pack("<QQ", start, int(log.max()))
    place = file.tell()
    chunk = _record(
        6,
        times
        + struct.pack("<QI", len(content), zlib.crc32(content))
        + kind
        + struct.pack("<Q", len(packed))
        + packed,
    )
    entries = np.empty((len(log), 2), "<u8")
    entries[:, 0], entries[:, 1] = log, first + length * np.arange(len(log))
    indexes, offsets = b"", b""
    for number, content_of_index in (
        (1, entries.tobytes()),
        (2, b"".join(struct.pack("<QQ", *each) for each in extra)),
    ):
        if content_of_index:
            offsets += struct.pack("<HQ", number, place + len(chunk) + len(indexes))
            indexes += _record(7, struct.pack("<H", number) + _bytes(content_of_index))
    file.write(chunk + indexes)
    return _record(
        8,
        times
        + struct.pack("<QQ", place, len(chunk))
        + _bytes(offsets)
        + struct.pack("<Q", len(indexes))
        + kind
        + struct.pack("<QQ", len(packed), len(content)),
    )
