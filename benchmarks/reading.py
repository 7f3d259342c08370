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
from pathlib import Path

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

NAMES = [f"panda_joint{k}" for k in range(1, 8)]
TOPIC = "/joint_states"


def with_mcap(path):
    """Only iterates over the serialized messages."""
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        return sum(1 for _ in make_reader(file).iter_messages(topics=[TOPIC]))


def with_mcap_ros2_support(path):
    """Decodes each message."""
    from mcap_ros2.decoder import DecoderFactory

    return _decoded(path, DecoderFactory())


def with_mcap_ros2_support_fast(path):
    """Decodes each message."""
    from mcap_ros2_support_fast import DecoderFactory

    return _decoded(path, DecoderFactory())


def _decoded(path, factory):
    from mcap.reader import make_reader

    with open(path, "rb") as file:
        reader = make_reader(file, decoder_factories=[factory])
        return sum(
            len(message.position) > 0
            for _, _, _, message in reader.iter_decoded_messages(topics=[TOPIC])
        )


def with_roboto_mcap_codec(path):
    """Columns of Arrow with all fields."""
    import mcap_codec

    with open(path, "rb") as file:

        def read(offset, length):
            file.seek(offset)
            return file.read(length)

        with mcap_codec.open_mcap_file(
            read,
            path.stat().st_size,
            channel=mcap_codec.TopicName(TOPIC),
            timestamp=mcap_codec.TimestampSource("message_log_time"),
        ) as cursor:
            return sum(batch.num_rows for batch in cursor)


def with_rosbags(path):
    """Decodes each message; of a rosbag2 or a ROS 1 bag as well."""
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_typestore

    with AnyReader([path], default_typestore=get_typestore(Stores.ROS2_JAZZY)) as reader:
        return sum(
            len(reader.deserialize(data, connection.msgtype).position) > 0
            for connection, _, data in reader.messages()
        )


def with_dyn_ros(path):
    """Finds the spans of the file and decodes them to arrays."""
    from dyn_ros.cdr import decode
    from dyn_ros.recordings.formats import sources as files

    source, decoder = files.open_source(path), decode.Decoder()
    return sum(len(source.messages(span, [TOPIC], decoder)) for span in source.spans)


def show(what, read, path, count):
    """Print the messages read in a second of processor time."""
    try:
        read(path)  # the file is in memory, and all is imported
        start = time.process_time()
        messages = read(path)
        seconds = time.process_time() - start
    except ImportError as error:
        print(f"{what:36} {error}")
        return
    remark = "" if messages == count else f"  ({messages} of {count} messages)"
    print(f"{what:36} {messages / seconds:12,.0f} messages/s{remark}", flush=True)


def main():
    """Print a line for each library, then one for each kind of file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200_000, help="messages (default: 200000)")
    parser.add_argument("--compression", choices=["zstd", "none"], default="zstd")
    options = parser.parse_args()
    from dyn_ros.logs import kernels

    kernels.prepare()
    with tempfile.TemporaryDirectory() as folder:
        path = synthetic_mcap(
            Path(folder) / "arm.mcap", NAMES, options.count, compression=options.compression
        )
        print(
            f"{options.count} messages, {path.stat().st_size / options.count:.0f} bytes each in "
            f"the file ({options.compression})"
        )
        for what, read in (
            ("mcap, not decoded", with_mcap),
            ("mcap-ros2-support", with_mcap_ros2_support),
            ("mcap-ros2-support-fast", with_mcap_ros2_support_fast),
            ("roboto-mcap-codec", with_roboto_mcap_codec),
            ("rosbags", with_rosbags),
            ("dyn_ros", with_dyn_ros),
        ):
            show(what, read, path, options.count)
        others(Path(folder), min(options.count, 50_000))


def others(folder, count):
    """Other kinds of files, read by dyn_ros and rosbags."""
    q, v = smooth_motion(0.001 * np.arange(count), len(NAMES))
    sent = [
        Sent(TOPIC, START + 10**6 * k, JointState(NAMES, q[k], v[k], q[k], START + 10**6 * k))
        for k in range(count)
    ]
    for what, path in (
        ("sqlite3", write_bag2(folder / "db3", sent)),
        (
            "sqlite3, compressed messages",
            write_bag2(folder / "message", sent, compression="message"),
        ),
        ("ROS 1 bag, lz4", write_bag1(folder / "lz4.bag", sent, compression="lz4")),
        ("ROS 1 bag, bz2", write_bag1(folder / "bz2.bag", sent, compression="bz2")),
    ):
        for library, read in (("rosbags", with_rosbags), ("dyn_ros", with_dyn_ros)):
            show(f"{what}: {library}", read, path, count)
    columns = {"time": 0.001 * np.arange(count)}
    for signal, values in (("position", q), ("velocity", v), ("effort", q)):
        columns |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(NAMES)}
    for suffix in ("csv", "parquet"):
        from dyn_ros.recordings.tables.columns import write

        path = folder / f"table.{suffix}"
        write(path, columns)
        show(f"{suffix}: dyn_ros", with_dyn_ros, path, count)


if __name__ == "__main__":
    main()
