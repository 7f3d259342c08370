# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures how fast joint states are read from an MCAP file, and compares with other libraries.

    python benchmarks/reading.py [--count 200000] [--compression zstd]

Joint states of 7 joints with positions, velocities and efforts, on one core; processor time. What
is read differs: `mcap` only the serialized messages, the others all fields.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from logs.recorded import (
    START,
    JointState,
    Sent,
    smooth_motion,
    synthetic_mcap,
    write_bag1,
    write_bag2,
)

JOINT_NAMES = [f"panda_joint{k}" for k in range(1, 8)]
TOPIC = "/joint_states"


def read_with_mcap(path: Path) -> int:
    """Iterate over the serialized messages, without decoding them; return their number."""
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        return sum(1 for _ in make_reader(file).iter_messages(topics=[TOPIC]))


def read_with_mcap_ros2_support(path: Path) -> int:
    """Decode each message; return their number."""
    from mcap_ros2.decoder import DecoderFactory

    return _read_decoded(path, DecoderFactory())


def read_with_mcap_ros2_support_fast(path: Path) -> int:
    """Decode each message; return their number."""
    from mcap_ros2_support_fast import DecoderFactory

    return _read_decoded(path, DecoderFactory())


def _read_decoded(path: Path, factory: Any) -> int:
    """Decode each message with a decoder of the package mcap; return their number."""
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[factory])
        return sum(
            len(message.position) > 0
            for _, _, _, message in reader.iter_decoded_messages(topics=[TOPIC])
        )


def read_with_roboto_mcap_codec(path: Path) -> int:
    """Read all fields as columns of Arrow; return the number of messages."""
    import mcap_codec

    with open(path, "rb") as file:

        def read_bytes(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        with mcap_codec.open_mcap_file(
            read_bytes,
            path.stat().st_size,
            channel=mcap_codec.TopicName(TOPIC),
            timestamp=mcap_codec.TimestampSource("message_log_time"),
        ) as cursor:
            return sum(batch.num_rows for batch in cursor)


def read_with_rosbags(path: Path) -> int:
    """Decode each message of an MCAP file, a rosbag2 or a ROS 1 bag; return their number."""
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    with AnyReader([path], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
        return sum(
            len(reader.deserialize(data, connection.msgtype).position) > 0
            for connection, _, data in reader.messages()
        )


def read_with_dyn_ros(path: Path) -> int:
    """Find the spans of the file, and decode them to arrays; return the number of messages."""
    from dyn_ros.cdr.decode import Decoder
    from dyn_ros.recordings.formats.sources import open_source, read_span

    source, decoder = open_source(path), Decoder()
    return sum(len(read_span(path, span, [TOPIC], decoder)) for span in source.spans)


def print_rate(label: str, read: Callable[[Path], int], path: Path, count: int) -> None:
    """Print the number of messages that a function reads in a second of processor time."""
    try:
        read(path)  # loads the file into memory, and imports the library
        start = time.process_time()
        messages = read(path)
        seconds = time.process_time() - start
    except ImportError as error:
        print(f"{label:36} {error}")
        return
    remark = "" if messages == count else f"  ({messages} of {count} messages)"
    print(f"{label:36} {messages / seconds:12,.0f} messages/s{remark}", flush=True)


def main() -> None:
    """Print a line for each library, then for each kind of file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="messages (default: 200000)")
    parser.add_argument("--compression", choices=["zstd", "none"], default="zstd")
    options = parser.parse_args()
    from dyn_ros.logs import kernels

    kernels.compile_kernels()
    with tempfile.TemporaryDirectory() as folder:
        path = synthetic_mcap(
            Path(folder) / "arm.mcap", JOINT_NAMES, options.count, compression=options.compression
        )
        print(
            f"{options.count} messages, {path.stat().st_size / options.count:.0f} bytes each in "
            f"the file ({options.compression})"
        )
        for label, read in (
            ("mcap, not decoded", read_with_mcap),
            ("mcap-ros2-support", read_with_mcap_ros2_support),
            ("mcap-ros2-support-fast", read_with_mcap_ros2_support_fast),
            ("roboto-mcap-codec", read_with_roboto_mcap_codec),
            ("rosbags", read_with_rosbags),
            ("dyn_ros", read_with_dyn_ros),
        ):
            print_rate(label, read, path, options.count)
        compare_formats(Path(folder), min(options.count, 50_000))


def compare_formats(folder: Path, count: int) -> None:
    """Print a line for each other kind of file, read by dyn_ros and by rosbags."""
    q, v = smooth_motion(0.001 * np.arange(count), len(JOINT_NAMES))
    stamps = [START + 10**6 * k for k in range(count)]
    messages = [
        Sent(TOPIC, stamp, JointState(JOINT_NAMES, q[k], v[k], q[k], stamp))
        for k, stamp in enumerate(stamps)
    ]
    bags = (
        ("sqlite3", write_bag2(folder / "db3", messages)),
        (
            "sqlite3, compressed messages",
            write_bag2(folder / "message", messages, compression="message"),
        ),
        ("ROS 1 bag, lz4", write_bag1(folder / "lz4.bag", messages, compression="lz4")),
        ("ROS 1 bag, bz2", write_bag1(folder / "bz2.bag", messages, compression="bz2")),
    )
    for label, path in bags:
        for library, read in (("rosbags", read_with_rosbags), ("dyn_ros", read_with_dyn_ros)):
            print_rate(f"{label}: {library}", read, path, count)
    columns = {"time": 0.001 * np.arange(count)}
    for signal, values in (("position", q), ("velocity", v), ("effort", q)):
        columns |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(JOINT_NAMES)}
    for suffix in ("csv", "parquet"):
        from dyn_ros.recordings.tables.columns import write_columns

        path = folder / f"table.{suffix}"
        write_columns(path, columns)
        print_rate(f"{suffix}: dyn_ros", read_with_dyn_ros, path, count)


if __name__ == "__main__":
    main()
