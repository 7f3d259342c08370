# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading recordings of every kind: whole, cut at any byte, and with damaged contents."""

from __future__ import annotations

import pickle
import re
import shutil
import sqlite3
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from logs.recorded import (
    JOINT_STATE,
    START,
    JointState,
    Odometry,
    Sent,
    definition,
    serialized,
    synthetic_mcap,
    write_bag1,
    write_bag2,
    write_mcap,
)
from mcap.writer import Writer as McapWriter

from dyn_ros.cdr import decode, decode_kernel
from dyn_ros.cdr.decode import Raw
from dyn_ros.recordings import formats
from dyn_ros.recordings.formats import compression, mcap_file
from dyn_ros.recordings.formats import sources as files
from dyn_ros.recordings.formats.spans import Source
from dyn_ros.recordings.tables import files as tables
from dyn_ros.recordings.tables.columns import write_columns as write_table

ARM, HAND = ("shoulder", "elbow", "wrist"), ("finger", "daumen_ä")
TOPICS = ("/joint_states", "/hand/joint_states", "/odom")


def sent_messages(count: int = 400) -> list[Sent]:
    """Return messages of two publishers and odometry, with all kinds of contents."""
    random = np.random.default_rng(1)
    sent = [Sent("/robot_description", START, "<robot name='arm'/>")]
    for k in range(count):
        time = START + k * 1_000_000
        q, v, tau = random.normal(size=(3, 3))
        names = ARM if k % 7 else ARM[::-1]
        sent.append(
            Sent(
                "/joint_states",
                time,
                JointState(
                    names,
                    q,
                    v if k % 5 else (),
                    tau if k % 3 else (),
                    time - 1000,
                    frame="" if k % 2 else "base_link",
                ),
            )
        )
        if k % 4 == 0:
            sent.append(
                Sent(
                    "/hand/joint_states",
                    time + 10,
                    JointState(HAND, q[:2], stamp=0 if k % 8 else time),
                )
            )
        if k % 5 == 0:
            sent.append(
                Sent(
                    "/odom",
                    time + 20,
                    Odometry([*q, 0.0, 0.0, 0.6, 0.8], [*v, *tau], time, child="base"),
                )
            )
    return sent


def decode_all(
    source: Source, topics: Sequence[str] = TOPICS
) -> tuple[list[tuple], decode.Decoder]:
    """Return all messages of a recording as tuples, in order of log time, and the decoder."""
    decoder, rows = decode.Decoder(), []
    for span in source.spans:
        rows += message_tuples(files.read_span(source.path, span, topics, decoder), decoder)
        assert all(
            span.start <= row[1] <= span.stop
            for row in message_tuples(files.read_span(source.path, span, topics, decoder), decoder)
        )
    return sorted(rows, key=lambda row: row[1]), decoder


def message_tuples(messages: decode.Messages, decoder: decode.Decoder) -> list[tuple]:
    """Return messages as tuples: topic, log time, stamp, names or child frame, positions, ..."""
    assert (np.diff(messages.log_time) >= 0).all()
    rows = []
    for k in range(len(messages)):
        start = int(messages.start[k])
        parts = np.split(
            messages.numbers[start : start + int(messages.counts[k].sum())],
            np.cumsum(messages.counts[k])[:-1],
        )
        name_list = int(messages.name_list[k])
        rows.append(
            (
                decoder.topics[messages.topic[k]],
                int(messages.log_time[k]),
                int(messages.stamp[k]),
                decoder.name_lists[name_list]
                if name_list >= 0
                else decoder.child_frames[-1 - name_list],
                *(tuple(part.tolist()) for part in parts),
            )
        )
    return rows


def expected_tuples(sent: Sequence[Sent]) -> list[tuple]:
    """Return the tuples of messages that were sent."""
    rows = []
    for topic, time, message in sent:
        if isinstance(message, JointState):
            rows.append(
                (
                    topic,
                    time,
                    message.stamp or time,
                    tuple(message.names),
                    *(tuple(map(float, part)) for part in message[1:4]),
                )
            )
        elif isinstance(message, Odometry):
            rows.append(
                (
                    topic,
                    time,
                    message.stamp or time,
                    message.child,
                    tuple(map(float, message.pose)),
                    tuple(map(float, message.twist)),
                    (),
                )
            )
    return sorted(rows, key=lambda row: row[1])


def mcap(**options: object) -> Callable[[Path, list[Sent]], Path]:
    """Return a function that writes MCAP."""
    return lambda folder, sent: write_mcap(folder / "bag.mcap", sent, **options)


def bag2(**options: str) -> Callable[[Path, list[Sent]], Path]:
    """Return a function that writes a folder of rosbag2."""
    return lambda folder, sent: write_bag2(folder / "bag", sent, **options)


def bag1(**options: str) -> Callable[[Path, list[Sent]], Path]:
    """Return a function that writes a bag of ROS 1."""
    return lambda folder, sent: write_bag1(folder / "bag.bag", sent, **options)


WRITERS = {
    "mcap zstd": mcap(),
    "mcap lz4": mcap(compression="lz4"),
    "mcap": mcap(compression="none"),
    "mcap small chunks": mcap(chunk_size=1000),
    "mcap without chunks": mcap(chunked=False),
    "mcap without index": mcap(indexed=False),
    "mcap of ROS 1": mcap(ros1=True),
    "mcap big endian": mcap(little=False),
    "mcap without chunks and index": mcap(chunked=False, indexed=False),
    "db3": bag2(),
    "db3 file": bag2(compression="file"),
    "db3 message": bag2(compression="message"),
    "rosbag2 mcap": bag2(storage="mcap"),
    "rosbag2 mcap file": bag2(storage="mcap", compression="file"),
    "rosbag2 mcap message": bag2(storage="mcap", compression="message"),
    "rosbag2 mcap storage": bag2(storage="mcap", compression="storage"),
    "ros1": bag1(),
    "ros1 bz2": bag1(compression="bz2"),
    "ros1 lz4": bag1(compression="lz4"),
}


@pytest.fixture(scope="module")
def recordings_by_kind(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A recording of each kind."""
    sent, paths = sent_messages(), {}
    for number, (kind, write) in enumerate(WRITERS.items()):
        folder = tmp_path_factory.mktemp(f"kind{number}")
        paths[kind] = write(folder, sent)
    return paths


def test_every_module_of_a_format_has_suffixes():
    folder = Path(formats.__file__).parent
    modules = {path.stem for path in folder.glob("*.py") if "\nFORMAT = " in path.read_text()}
    assert modules == set(formats.SUFFIXES_BY_MODULE)


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_messages_that_were_sent(recordings_by_kind, kind):
    source = files.open_source(recordings_by_kind[kind])
    rows, decoder = decode_all(pickle.loads(pickle.dumps(source)))
    assert rows == expected_tuples(sent_messages())
    assert (source.name, source.damage, decoder.problems) == ("bag", "", {})
    assert files.find_robot_description(source) == "<robot name='arm'/>"
    assert [span.start for span in source.spans] == sorted(span.start for span in source.spans)
    types = {topic.name: topic for topic in source.topics}
    assert types["/joint_states"].type == JOINT_STATE
    if kind != "mcap without index":
        assert types["/joint_states"].count == 400


def test_only_the_requested_topics_are_read(recordings_by_kind):
    source = files.open_source(recordings_by_kind["mcap zstd"])
    rows, decoder = decode_all(source, ["/odom"])
    assert rows == [row for row in expected_tuples(sent_messages()) if row[0] == "/odom"]
    assert decoder.topics == ["/odom"] and not decoder.name_lists


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if "file" not in kind])
def test_a_file_cut_at_any_byte_gives_its_whole_messages(recordings_by_kind, kind, tmp_path):
    path = next(
        each
        for each in (recordings_by_kind[kind], *recordings_by_kind[kind].parent.rglob("*"))
        if each.is_file() and each.suffix != ".yaml"
    )
    content, all_rows = path.read_bytes(), expected_tuples(sent_messages())
    random = np.random.default_rng(2)
    most = 0
    for size in [0, 1, 7, *map(int, random.integers(8, len(content), 25)), len(content) - 1]:
        part = tmp_path / f"{size}{path.suffix}"
        part.write_bytes(content[:size])
        try:
            source = files.open_source(part)
        except ValueError as error:
            assert kind.startswith("db3") and str(part) in str(error)
            continue
        rows, decoder = decode_all(source)
        assert rows == all_rows[: len(rows)]
        assert source.damage or decoder.problems, size
        most = max(most, len(rows))
        if kind in ("mcap", "mcap without chunks"):  # no compression: nothing whole is lost
            whole = content[:size].count(b"shoulder") - 1
            assert sum(
                sorted(row[3]) == sorted(ARM) for row in rows if row[0] == TOPICS[0]
            ) >= whole - content[:size].count(b"string[] name")
    assert most > 0.7 * len(all_rows)


@pytest.mark.parametrize("kind", ["db3 file", "rosbag2 mcap file"])
def test_a_compressed_file_that_is_cut(recordings_by_kind, kind, tmp_path):
    folder = shutil.copytree(recordings_by_kind[kind], tmp_path / "bag")
    (path,) = folder.glob("*.zstd")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    try:
        source = files.open_source(folder)
    except ValueError as error:
        assert "cannot be read" in str(error)
        return
    rows, _ = decode_all(source)
    assert source.damage and rows == expected_tuples(sent_messages())[: len(rows)]


@pytest.mark.parametrize(
    "kind",
    [
        "mcap",
        "mcap lz4",
        "mcap without chunks",
        "ros1",
        "ros1 lz4",
        "mcap of ROS 1",
        "mcap big endian",
        "db3",
    ],
)
def test_changed_bytes_do_no_harm(recordings_by_kind, kind, tmp_path):
    path = next(
        each
        for each in (recordings_by_kind[kind], *recordings_by_kind[kind].parent.rglob("*"))
        if each.is_file() and each.suffix != ".yaml"
    )
    content, random = path.read_bytes(), np.random.default_rng(3)
    for k in range(30):
        changed = bytearray(content)
        for _ in range(20):
            changed[int(random.integers(16, len(content)))] = int(random.choice([0, 255, 127, 3]))
        part = tmp_path / f"{k}{path.suffix}"
        part.write_bytes(changed)
        try:
            source = files.open_source(part)
        except ValueError:
            continue
        decoder = decode.Decoder()
        for span in source.spans:
            messages = files.read_span(source.path, span, TOPICS, decoder)
            ends = messages.start + messages.counts.sum(axis=1)
            assert (messages.start >= 0).all() and (ends <= len(messages.numbers)).all()
            assert (messages.counts >= 0).all()


@pytest.mark.parametrize("ros1", [False, True])
def test_no_byte_outside_a_message_is_read(ros1):
    """Every prefix of a message, and random contents, at the end of their memory."""
    random = np.random.default_rng(4)
    encoding = "ros1" if ros1 else "cdr"
    messages = [
        serialized(JointState(ARM, [1, 2, 3], [4, 5, 6], [7, 8, 9], 5, "f"), ros1=ros1),
        serialized(Odometry(np.arange(7), np.arange(6), 5), ros1=ros1),
    ]
    for message, kind in zip(messages, (JOINT_STATE, "nav_msgs/msg/Odometry")):
        cases = [message[:size] for size in range(len(message))]
        for _ in range(300):
            changed = bytearray(message)
            for _ in range(3):
                changed[int(random.integers(4, 60))] = int(random.integers(256))
            cases.append(bytes(changed))
        for case in cases:
            decoder = decode.Decoder()
            code = decoder.channel_code("/t", kind, encoding)
            content = np.frombuffer(case, np.uint8)
            rows = decoder.decode(Raw(content, np.array([[code, 1, 0, len(case)]])))
            assert len(rows) + rows.failures == 1
            assert len(rows.numbers) * 8 <= len(case)
        whole = decoder.decode(
            Raw(np.frombuffer(message, np.uint8), np.array([[code, 1, 0, len(message)]]))
        )
        assert len(whole) == 1
        short = decoder.decode(
            Raw(np.frombuffer(message[:-1], np.uint8), np.array([[code, 1, 0, len(message) - 1]]))
        )
        assert short.failures == 1
        assert decoder.problems["/t: the message is shorter than its contents"] >= 1


def decode_joint_state(message: bytes, decoder: decode.Decoder) -> decode.Messages:
    """Decode one message of joint states."""
    code = decoder.channel_code("/joint_states", JOINT_STATE, "cdr")
    return decoder.decode(
        Raw(np.frombuffer(message, np.uint8), np.array([[code, 7, 0, len(message)]]))
    )


def test_bytes_between_the_strings_do_not_matter():
    decoder = decode.Decoder()
    message = serialized(JointState(("ab", "cde"), [1, 2], stamp=5))
    for filler in range(256):
        changed = bytearray(message)
        place = message.index(b"ab\0") + 3  # one byte of padding
        assert message[place + 1 : place + 5] == struct.pack("<I", 4)
        changed[place] = filler
        assert len(decode_joint_state(bytes(changed), decoder)) == 1
    assert decoder.name_lists == [("ab", "cde")]


def test_numbers_are_as_received():
    decoder = decode.Decoder()
    special = [np.nan, np.inf, -0.0]
    message = decode_joint_state(
        serialized(JointState(ARM, special, [1.0], [2.0, 3.0], 5)), decoder
    )
    assert message.counts.tolist() == [[3, 1, 2]]
    assert message.numbers.tobytes() == np.array([*special, 1.0, 2.0, 3.0]).tobytes()
    assert len(decode_joint_state(serialized(JointState((), stamp=5)), decoder)) == 1
    assert len(decode_joint_state(serialized(JointState(("", "")), little=False), decoder)) == 1
    assert decoder.name_lists == [ARM, (), ("", "")]


def test_other_encapsulations_and_too_many_names_are_reported():
    decoder = decode.Decoder()
    message = bytearray(serialized(JointState(ARM, [1, 2, 3])))
    message[1] = 7
    assert decode_joint_state(bytes(message), decoder).failures == 1
    assert decoder.problems == {"/joint_states: the message is not CDR": 1}
    count = decode_kernel.MAX_LISTS + 5
    for k in range(count):
        decode_joint_state(serialized(JointState((f"joint{k}",), [1.0])), decoder)
    assert len(decoder.name_lists) == decode_kernel.MAX_LISTS
    assert sum(decoder.problems.values()) == 6
    assert len(decode_joint_state(serialized(JointState(("joint3",), [1.0])), decoder)) == 1


# --- MCAP


def test_messages_of_a_chunk_that_are_not_in_order(tmp_path):
    sent = sent_messages(50)
    random = np.random.default_rng(5)
    shuffled = [sent[0], *(sent[k + 1] for k in random.permutation(len(sent) - 1))]
    source = files.open_source(write_mcap(tmp_path / "a.mcap", shuffled))
    assert decode_all(source)[0] == expected_tuples(sent)


def test_several_channels_of_one_topic_and_other_encodings(tmp_path):
    path = tmp_path / "a.mcap"
    with open(path, "wb") as file:
        writer = McapWriter(file)
        writer.start("ros2", "test")
        schema = writer.register_schema(JOINT_STATE, "ros2msg", definition(JOINT_STATE))
        channels = [
            writer.register_channel("/joint_states", kind, schema)
            for kind in ("cdr", "cdr", "json")
        ]
        for k in range(9):
            message = serialized(JointState(ARM, [k, 2, 3], stamp=k + 1))
            writer.add_message(channels[k % 3], k, b"{}" if k % 3 == 2 else message, k)
        writer.finish()
    source = files.open_source(path)
    assert [row[1] for row in decode_all(source)[0]] == [0, 1, 3, 4, 6, 7]
    assert {(topic.encoding, topic.count) for topic in source.topics} == {("cdr", 6), ("json", 3)}
    assert "the encoding 'json' of /joint_states cannot be decoded" in source.damage


def test_damaged_chunks_are_skipped_and_reported(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", sent_messages(), compression="none", chunk_size=5000)
    content = bytearray(path.read_bytes())
    place = content.index(b"wrist", len(content) // 2)
    content[place] ^= 1
    path.write_bytes(content)
    source = files.open_source(path)
    rows, decoder = decode_all(source)
    assert (
        0.9 * len(expected_tuples(sent_messages()))
        < len(rows)
        < len(expected_tuples(sent_messages()))
    )
    (problem,) = decoder.problems
    assert "its checksum does not match its content" in problem


def test_topics_that_begin_late_in_a_file_without_an_index(tmp_path):
    sent = [
        Sent("/joint_states", START + k, JointState(ARM, [k, 2, 3], stamp=k + 1))
        for k in range(100)
    ]
    sent += [
        Sent("/odom", START + 100 + k, Odometry([*range(7)], [*range(6)], k + 1)) for k in range(3)
    ]
    source = files.open_source(
        write_mcap(tmp_path / "a.mcap", sent, indexed=False, chunk_size=1000)
    )
    assert decode_all(source)[0] == expected_tuples(sent)


@pytest.mark.parametrize("kind", ["mcap", "ros1"])
def test_a_file_that_is_cut_in_the_index_of_its_last_chunk(kind, tmp_path):
    sent = sent_messages(40)
    path = WRITERS[kind](tmp_path, sent)
    content = path.read_bytes()
    behind = content.rindex(b"wrist") + 200
    for size in range(behind, len(content) - 1, 61):
        part = tmp_path / f"{size}{path.suffix}"
        part.write_bytes(content[:size])
        source = files.open_source(part)
        rows, decoder = decode_all(source)
        assert (
            rows[:90] == expected_tuples(sent)[:90]
            if kind == "ros1"
            else rows == expected_tuples(sent)
        )
        assert source.damage or decoder.problems


def test_a_damaged_index_of_topics_is_not_used(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", sent_messages(50))
    content = bytearray(path.read_bytes())
    content[content.rindex(b"sensor_msgs/msg/JointState") + 3] ^= 1
    path.write_bytes(content)
    source = files.open_source(path)
    assert decode_all(source)[0] == expected_tuples(sent_messages(50))
    assert "whose checksum does not match" in source.damage


@pytest.mark.parametrize("kind", ["bz2", "lz4", "zstd"])
def test_compressed_data_of_more_than_the_stated_size_is_damaged(kind):
    import bz2

    import lz4.frame
    import zstandard

    content = np.random.default_rng(7).integers(0, 4, 20_000, np.uint8).tobytes()
    pack = {
        "bz2": bz2.compress,
        "lz4": lz4.frame.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }[kind]
    packed = pack(content)
    assert compression.decompress_chunk(kind, packed, len(content)) == content
    for size in (0, 100, len(content) - 1):
        with pytest.raises(compression.Damaged):
            compression.decompress_chunk(kind, packed, size)


@pytest.mark.parametrize("kind", ["ros1", "mcap"])
@pytest.mark.parametrize("fill", [0, 255])
def test_records_that_cannot_be_read_are_reported(kind, fill, tmp_path):
    path = (
        bag1()(tmp_path, sent_messages())
        if kind == "ros1"
        else mcap(compression="none", enable_crcs=False)(tmp_path, sent_messages())
    )
    content = bytearray(path.read_bytes())
    place = content.index(b"wrist", len(content) // 3) + 9
    content[place : place + 2000] = bytes([fill]) * 2000
    path.write_bytes(content)
    source = files.open_source(path)
    rows, decoder = decode_all(source)
    assert rows and any("bytes are not read" in problem for problem in decoder.problems)


def test_a_damaged_message_does_not_cost_other_compressed_messages(tmp_path):
    sent = [each for each in sent_messages(50) if each.topic == "/joint_states"]
    folder = write_bag2(tmp_path / "bag", sent, compression="message")
    (path,) = folder.glob("*.db3*")
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE messages SET data = CAST(x'99999999' || substr(data, 5) "
            "AS BLOB) WHERE id = (SELECT min(id) FROM messages)"
        )
    connection.close()
    rows, decoder = decode_all(files.open_source(folder))
    assert rows == expected_tuples(sent)[1:] and len(decoder.problems) == 1


def test_unknown_and_damaged_compression(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", sent_messages(), compression="lz4")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"lz4", b"xyz"))
    rows, decoder = decode_all(files.open_source(path))
    assert not rows and "the compression 'xyz' is unknown" in next(iter(decoder.problems))
    for kind in ("zstd", "lz4", "bz2"):
        with pytest.raises(compression.Damaged, match="cannot be decompressed|instead of"):
            compression.decompress_chunk(kind, b"nonsense", 100)


def test_a_chunk_that_claims_more_than_when_it_was_opened(tmp_path):
    path = write_mcap(tmp_path / "a.mcap", sent_messages(), compression="zstd")
    source, content = files.open_source(path), bytearray(path.read_bytes())
    offset = source.spans[0].place[1][2][0]
    content[offset + 25 : offset + 33] = (1 << 60).to_bytes(8, "little")
    path.write_bytes(content)
    rows, decoder = decode_all(source)
    assert len(rows) < len(sent_messages())
    assert "more than" in next(iter(decoder.problems))


def test_no_chunk_is_read_to_find_the_spans_of_a_whole_file(tmp_path, monkeypatch):
    path = synthetic_mcap(tmp_path / "a.mcap", ARM, 10_000, description="<robot/>")
    monkeypatch.setattr(mcap_file, "_read_records", None)
    source = files.open_source(path)
    assert len(source.spans) == 3 and source.topics[0].count == 10_000
    assert source.spans[0].start == START and source.spans[0].size > 500_000


def test_a_large_recording(tmp_path):
    path = synthetic_mcap(tmp_path / "a.mcap", ARM, 20_000, rate=500.0)
    source, decoder = files.open_source(path), decode.Decoder()
    parts = [files.read_span(source.path, span, TOPICS, decoder) for span in source.spans]
    stamps = np.concatenate([part.stamp for part in parts])
    assert (stamps == START + 2_000_000 * np.arange(20_000)).all()
    assert decoder.name_lists == [ARM] and all((part.counts == 3).all() for part in parts)


# --- rosbag2 and sqlite3


def test_a_rosbag2_of_several_files(tmp_path):
    sent, folder = sent_messages(), tmp_path / "split"
    folder.mkdir()
    half = len(sent) // 2
    write_mcap(folder / "split_0.mcap", sent[:half])
    write_mcap(folder / "split_1.mcap", sent[half:])
    metadata = folder / "metadata.yaml"
    metadata.write_text(
        "rosbag2_bagfile_information:\n  relative_file_paths:\n"
        "    - split_0.mcap\n    - 'split_1.mcap'\n    - split_2.mcap\n"
        "  duration: 1\n"
    )
    source = files.open_source(folder)
    assert source.damage == "split_2.mcap is missing, which its metadata.yaml lists"
    assert decode_all(source)[0] == expected_tuples(sent)
    assert next(topic.count for topic in source.topics if topic.name == "/joint_states") == 400
    (folder / "split_1.mcap").write_bytes(b"something else")
    source = files.open_source(folder)
    assert "is no MCAP file" in source.damage
    assert decode_all(source)[0] == expected_tuples(sent[:half])
    metadata.write_text("")
    assert len(files.open_source(folder).spans) == 1


def test_a_cut_database_names_its_end(tmp_path):
    """sqlite3 only says that the image is malformed."""
    path = tmp_path / "cut.db3"
    content = (write_bag2(tmp_path / "bag", sent_messages(4000)) / "bag.db3").read_bytes()
    size = int(0.6 * len(content))
    path.write_bytes(content[:size])
    source = files.open_source(path)
    count = sum(topic.count or 0 for topic in source.topics)
    assert source.damage == (
        f"ends after {size:,} of {len(content):,} bytes; {count:,} messages can be read"
    )
    assert 1000 < len(decode_all(source)[0]) <= count


def test_a_database_that_was_not_closed(tmp_path):
    """A recorder that was killed leaves what it wrote last in the write-ahead log."""
    folder = write_bag2(tmp_path / "bag", sent_messages())
    path = folder / "bag.db3"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    time = START + 10**12
    (topic,) = connection.execute("SELECT id FROM topics WHERE name='/joint_states'").fetchone()
    data = serialized(JointState(ARM, [1, 2, 3], stamp=time))
    connection.execute(
        "INSERT INTO messages (topic_id, timestamp, data) VALUES (?, ?, ?)", (topic, time, data)
    )
    connection.commit()
    copy = tmp_path / "copy"
    copy.mkdir()
    for each in folder.glob("bag.db3*"):
        shutil.copy(each, copy)
    connection.close()
    rows, _ = decode_all(files.open_source(copy / "bag.db3"))
    assert len(rows) == len(expected_tuples(sent_messages())) + 1 and rows[-1][2] == time

    database = copy / "bag.db3"
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size - 100)
    assert (
        "ends within a page, so that bag.db3-wal is not read" in files.open_source(database).damage
    )


def test_what_is_no_recording(tmp_path):
    for suffix in (".mcap", ".db3", ".bag", ".csv", ".parquet"):
        path = tmp_path / f"a{suffix}"
        path.write_bytes(b"This is a text without any meaning.\n")
        with pytest.raises(ValueError, match=r"a\."):
            files.open_source(path)
        path.write_bytes(b"")
        if suffix != ".parquet":
            assert files.open_source(path).damage.startswith("is empty")
    with pytest.raises(OSError, match=r"none\.mcap"):
        files.open_source(tmp_path / "none.mcap")
    with pytest.raises(ValueError, match="expected a file that ends with"):
        files.open_source(tmp_path / "a.txt")
    with pytest.raises(ValueError, match="no file of a rosbag2 in this folder; expected one rec"):
        files.open_source(recordings_of_other_kinds(tmp_path / "folder"))


def recordings_of_other_kinds(folder):
    """A folder with recordings that are not the files of a rosbag2."""
    folder.mkdir()
    for name in ("a.bag", "b.csv", "c.parquet"):
        (folder / name).write_bytes(b"")
    return folder


def test_a_chunk_that_is_cut_is_said_to_be_read(recordings_by_kind, tmp_path):
    (path,) = (
        recordings_by_kind["mcap"].parent.glob("*.mcap")
        if recordings_by_kind["mcap"].is_dir()
        else [recordings_by_kind["mcap"]]
    )
    part = tmp_path / "part.mcap"
    part.write_bytes(path.read_bytes()[: path.stat().st_size // 3])
    assert "and what precedes the cut in the chunk" in files.open_source(part).damage


def test_discovery(tmp_path):
    (tmp_path / "day" / "bag").mkdir(parents=True)
    (tmp_path / "results" / "recording=a").mkdir(parents=True)
    for name in (
        "day/a.mcap",
        "day/b.BAG",
        "day/c.mcap.zstd",
        "day/d.bag.active",
        "day/notes.txt",
        "day/bag/bag_0.db3",
        "day/bag/bag_1.db3",
        "day/bag/metadata.yaml",
        "results/recording=a/part.parquet",
        "results/recording=a/_manifest.json",
    ):
        (tmp_path / name).touch()
    day = [
        tmp_path / "day" / name
        for name in ("a.mcap", "b.BAG", "bag", "c.mcap.zstd", "d.bag.active")
    ]
    assert files.find_recordings([tmp_path]) == day
    assert files.find_recordings(str(tmp_path)) == day
    assert files.find_recordings([tmp_path / "day", str(tmp_path / "day" / "a*")]) == day
    assert (
        files.find_recordings([tmp_path / "day/bag/metadata.yaml", tmp_path / "*/bag"]) == day[2:3]
    )
    for link, target in (
        ("day/again", tmp_path),
        ("day/bag2", "bag"),
        ("day/z.mcap", "a.mcap"),
        ("day/self", "self"),
    ):
        (tmp_path / link).symlink_to(target)
    assert [path.resolve() for path in files.find_recordings(tmp_path)] == day
    (tmp_path / "day" / "loop.csv").symlink_to("loop.csv")  # cannot be read, which is said then
    assert tmp_path / "day" / "loop.csv" in files.find_recordings(tmp_path)
    for path, message in (
        ("none.mcap", "does not exist"),
        ("day/notes.txt", "is no recording"),
        ("results", "is no recording"),
        ("*/x*.mcap", "no recording matches"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            files.find_recordings([tmp_path / "day", tmp_path / path])
        assert path in str(error.value)


# --- tables


def table(count: int) -> dict[str, np.ndarray]:
    """Columns of two joints and a base."""
    random = np.random.default_rng(6)
    names = [
        "position.a",
        "position.b",
        "velocity.a",
        "velocity.b",
        "effort.a",
        "effort.b",
        *(f"position.root_joint/{axis}" for axis in ("x", "y", "z", "qx", "qy", "qz", "qw")),
        *(f"velocity.root_joint/{kind}_{axis}" for kind in ("linear", "angular") for axis in "xyz"),
    ]
    columns = {"time": 100.0 + 1e-3 * np.arange(count)}
    columns |= dict(zip(names, random.normal(size=(len(names), count))))
    return columns


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path, suffix, monkeypatch):
    monkeypatch.setattr(tables, "_MAX_BLOCK_SIZE", 20_000)
    monkeypatch.setattr(tables, "_MAX_ROWS", 70)
    columns = table(1000)
    columns["velocity.a"][3] = np.nan  # one of two: as received
    columns["velocity.a"][4] = columns["velocity.b"][4] = np.nan
    columns["effort.a"][5] = columns["effort.b"][5] = np.nan
    columns["position.a"][6] = columns["position.b"][6] = np.nan
    columns["position.root_joint/x"][7] = np.nan
    path = tmp_path / f"table{suffix}"
    write_table(path, columns)
    source = files.open_source(path)
    assert len(source.spans) > 5 and not source.damage
    assert [topic[:3] for topic in source.topics] == [
        ("/joint_states", JOINT_STATE, "table"),
        ("/odom", "nav_msgs/msg/Odometry", "table"),
    ]
    rows, decoder = decode_all(source, ["/joint_states", "/odom"])
    assert not decoder.problems
    states = {row[2] // 1_000_000 - 100_000: row for row in rows if row[0] == "/joint_states"}
    bases = {row[2] // 1_000_000 - 100_000: row for row in rows if row[0] == "/odom"}
    assert states.keys() == set(range(1000)) - {6} and bases.keys() == set(range(1000)) - {7}
    for k, row in states.items():
        wanted = [
            [columns[f"{signal}.{name}"][k] for name in "ab"]
            for signal in ("position", "velocity", "effort")
        ]
        assert row[1] == row[2] and row[3] == ("a", "b")
        np.testing.assert_array_equal(row[4], wanted[0])
        np.testing.assert_array_equal(row[5], wanted[1] if k != 4 else [])
        np.testing.assert_array_equal(row[6], wanted[2] if k != 5 else [])
    assert bases[9][3] == "" and bases[9][4] == tuple(
        columns[name][9] for name in columns if name.startswith("position.root")
    )
    assert bases[9][5] == tuple(
        columns[name][9] for name in columns if name.startswith("velocity.root")
    )
    only, _ = decode_all(source, ["/odom"])
    assert {row[0] for row in only} == {"/odom"}


def test_tables_of_plotjuggler(tmp_path):
    """Two topics with samples at different times; without velocities, and efforts of one joint."""
    path = tmp_path / "a.csv"
    path.write_text(
        "__time,/left/joint_states/a/position,/left/joint_states/a/velocity,"
        "/left/joint_states/b/position,/right/joint_states/a/position,"
        "/left/joint_states/b/effort\n"
        "1.5,1,2,3,,8\n1.6,,,,4,\n\n1.7,5,6,nan,7,\n"
    )
    rows, decoder = decode_all(
        files.open_source(path), ["/left/joint_states", "/right/joint_states"]
    )
    s = 10**8
    assert str(rows) == str(
        [
            ("/left/joint_states", 15 * s, 15 * s, ("a", "b"), (1.0, 3.0), (), (np.nan, 8.0)),
            ("/right/joint_states", 16 * s, 16 * s, ("a",), (4.0,), (), ()),
            ("/left/joint_states", 17 * s, 17 * s, ("a", "b"), (5.0, np.nan), (), ()),
            ("/right/joint_states", 17 * s, 17 * s, ("a",), (7.0,), (), ()),
        ]
    )
    assert not decoder.problems


@pytest.mark.parametrize("block", [60, 1 << 20])
def test_times_of_tables_that_go_back(tmp_path, monkeypatch, block):
    """Log times keep the order of the rows; stamps are as they are."""
    monkeypatch.setattr(tables, "_MAX_BLOCK_SIZE", block)
    path = tmp_path / "a.csv"
    times = [0.5, 0.6, 0.6, 0.55, 0.7, 0.1, 0.2, 0.3]
    path.write_text("time,position.a\n" + "".join(f"{time},{k}\n" for k, time in enumerate(times)))
    rows, _ = decode_all(files.open_source(path))
    assert [row[4][0] for row in rows] == list(range(8))
    assert [row[2] for row in rows] == [round(time * 1e9) for time in times]
    assert [row[1] // 10**6 for row in rows] == [500, 600, 600, 600, 750, 750, 850, 950]


def test_damaged_tables(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.a\n1,2\n2,3,4\n3,4\n4,")
    source = files.open_source(path)
    assert "ends without a line break" in source.damage
    assert "skipped 1 lines that have 3 instead of 2 columns" in source.damage
    assert [row[4] for row in decode_all(source)[0]] == [(2.0,), (4.0,)]
    path.write_text("time,position.a\n1,2\n2,none\nNULL,3\n4,\n5,6\n")
    rows, decoder = decode_all(files.open_source(path))
    assert [row[4] for row in rows] == [(2.0,), (6.0,)]
    assert set(decoder.problems) == {
        "skipped 1 lines that do not contain numbers only, the first: 'none' in the column "
        "'position.a'",
    }
    no_time = "left out {} rows that are blank in the column 'time'"
    assert no_time in decoder.notes
    path.write_text("time,position.a\n1,2\n,3\n")
    rows, decoder = decode_all(files.open_source(path))
    assert len(rows) == 1 and list(decoder.notes) == [no_time] and not decoder.problems
    path.write_text(f"time,position.a\n1,2\n,3\n{'9' * 155},4\n1e15,5\n6,7\n")
    rows, decoder = decode_all(files.open_source(path))
    assert [row[4] for row in rows] == [(2.0,), (7.0,)]
    assert set(decoder.problems) == {
        "a row whose time in the column 'time' cannot be used, about "
        "1e+155; convert other units to s, below 4.6e+09",
    }
    stamps = [START, 10**30, START + 10**9]
    path.write_text("time,position.a\n" + "".join(f"{stamp},2\n" for stamp in stamps))
    rows, decoder = decode_all(files.open_source(path))
    assert [row[2] for row in rows] == [stamps[0], stamps[2]]
    assert list(decoder.problems) == [
        "skipped 1 lines that do not contain numbers only, the first: '10000000000000000000' in "
        "the column 'time'"
    ]
    for text in ("\n", "\n,position.a\n1,2\n", "\r\n1,2\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match="in the first line, which is blank"):
            files.open_source(path)
    path.write_text("time,position.a,position.a\n")
    with pytest.raises(ValueError, match=r"several columns of the name 'position\.a'"):
        files.open_source(path)
    path.write_text(
        "stamp,position.a,position.root/x,position.root/y,position.root/theta\n"
        "1700000000123456789,1,2,3,1.0\n"
    )
    rows, _ = decode_all(files.open_source(path), ["/joint_states", "/odom"])
    assert rows[0][2] == 1700000000123456789
    np.testing.assert_allclose(rows[1][4], [2, 3, 0, 0, 0, np.sin(0.5), np.cos(0.5)])
    parquet = tmp_path / "a.parquet"
    write_table(parquet, table(100))
    parquet.write_bytes(parquet.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is cut, or no Parquet file"):
        files.open_source(parquet)


@pytest.mark.parametrize(
    "end, whole",
    [
        ("2,3,0.5", True),
        ("2,3,-1e-7", True),
        ("2,3,nan", True),
        ("2,3,4.", True),
        ("2,3,4\r", True),
        ('2,3,"4"', True),
        ("2,3,idle", True),
        ("2,3,", False),
        ("2,3,-", False),
        ("2,3,1.5e", False),
        ("2,3,1.5e-", False),
        ("2,3", False),
        ("2", False),
        ('2,3,"4', False),
    ],
)
def test_a_last_line_without_a_line_break(end, whole, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.a,last\n1,2,3\n" + end, newline="")
    source = files.open_source(path)
    rows, _ = decode_all(source)
    assert [row[4] for row in rows] == [(2.0,), (3.0,)][: 1 + whole]
    assert ("its last line may be cut" in source.damage) != whole


def test_a_table_that_a_full_disk_cut(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.abc\n" + "".join(f"1.{k % 10},2.5\n" for k in range(100)))
    path.write_bytes(path.read_bytes()[:512])
    assert path.read_bytes().endswith(b"\n1.1,2.")
    source = files.open_source(path)
    assert len(decode_all(source)[0]) == 61 and "its last line may be cut" in source.damage


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_stamps_are_exact_where_some_are_unknown(suffix, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    pyarrow_csv = pytest.importorskip("pyarrow.csv")
    path = tmp_path / f"a{suffix}"
    content = pyarrow.table(
        {"stamp": [1700000000123456789, None, 1700000000123456791], "position.a": [1.0, 2.0, 3.0]}
    )
    write = pyarrow_csv.write_csv if suffix == ".csv" else pyarrow.parquet.write_table
    write(content, path)
    rows, decoder = decode_all(files.open_source(path))
    assert [row[2] for row in rows] == [1700000000123456789, 1700000000123456791]
    assert list(decoder.notes) == ["left out {} rows that are blank in the column 'stamp'"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_other_separators_are_named(separator, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.a\n1,2\n".replace(",", separator))
    with pytest.raises(ValueError, match="expected columns separated by commas"):
        files.open_source(path)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_other_encodings_are_named(encoding, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.b\N{LATIN SMALL LETTER A WITH DIAERESIS}\n1,2\n", encoding)
    with pytest.raises(ValueError, match="expected text in UTF-8.*; save the table as CSV in UTF"):
        files.open_source(path)


def test_columns_of_other_types(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"time": [1.0, 2.0], "position.a": ["1", "2"]}), path)
    _, decoder = decode_all(files.open_source(path))
    assert list(decoder.problems) == [
        "the rows of a part cannot be read: the column 'position.a' "
        "has the type string, expected numbers"
    ]


@pytest.mark.filterwarnings("error")
def test_a_time_that_is_no_time(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("time,position.a\n1,2\n1e300,3\n")
    assert len(decode_all(files.open_source(path))[0]) == 1


def test_a_chunk_that_is_no_longer_one(tmp_path):
    """A changed byte makes it a record that readers skip; the statistics count it."""
    path = write_mcap(tmp_path / "a.mcap", sent_messages(), compression="none", chunk_size=4096)
    content = bytearray(path.read_bytes())
    first = mcap_file.MAGIC + bytes([1])
    start = len(first) + 8 + int.from_bytes(content[len(first) : len(first) + 8], "little")
    assert content[start] == 6
    content[start] = 0x86
    path.write_bytes(content)
    source = files.open_source(path)
    assert re.fullmatch(r"is damaged: (\d+) of its (\d+) chunks are found", source.damage)
    assert len(decode_all(source)[0]) < len(expected_tuples(sent_messages()))


def test_rows_without_content(tmp_path):
    path = write_bag2(tmp_path / "bag", sent_messages()) / "bag.db3"
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM messages").fetchone()
        connection.execute("UPDATE messages SET data = 0 WHERE id IN (3, 5)")
    connection.close()
    assert files.open_source(path).damage == (
        f"is damaged in 2 messages; {count - 2} messages can be read"
    )


def test_numbers_of_rows_far_apart(tmp_path):
    path = write_bag2(tmp_path / "bag", sent_messages()) / "bag.db3"
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE messages SET id = 9000000000000000000 + id WHERE id > 100")
    connection.close()
    assert decode_all(files.open_source(path))[0] == expected_tuples(sent_messages())
