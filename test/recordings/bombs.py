# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Small or sparse files of recordings that claim or contain far more than their size."""

from __future__ import annotations

import bz2
import itertools
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

import lz4.frame
import numpy as np
import pyarrow
import pyarrow.parquet
import zstandard
from logs.recorded import JOINT_STATE, START, JointState, serialized

MCAP_MAGIC, BAG_MAGIC = b"\x89MCAP0\r\n", b"#ROSBAG V2.0\n"
MEGABYTE = 1 << 20
_SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _ATTACHMENT, _DATA_END = 3, 4, 5, 6, 9, 15
SMALL = serialized(JointState(["a"], [0.1], [0.2], [0.3], START))


def _repeat_block(block: bytes, count: int) -> Iterator[bytes]:
    return itertools.repeat(block, count)


def _zstd(blocks: Iterable[bytes]) -> bytes:
    """Compress blocks, without the size of the content in the frame."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join([*map(compressor.compress, blocks), compressor.flush()])


# --- MCAP


def _text(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def mcap_record(opcode: int, content: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(content)) + content


def _schema(number: int = 1) -> bytes:
    content = struct.pack("<H", number) + _text(JOINT_STATE) + _text("ros2msg") + _text("")
    return mcap_record(_SCHEMA, content)


def _channel(number: int = 1, topic: str = "/joint_states") -> bytes:
    content = struct.pack("<HH", number, 1) + _text(topic) + _text("cdr") + struct.pack("<I", 0)
    return mcap_record(_CHANNEL, content)


def _message(k: int, content: bytes = SMALL, channel: int = 1) -> bytes:
    time = START + 1_000_000 * k
    return mcap_record(_MESSAGE, struct.pack("<HIQQ", channel, k, time, time) + content)


def _chunk(size: int, kind: str, content: bytes, start: int = 0, stop: int = 0) -> bytes:
    head = struct.pack("<QQQI", start, stop, size, 0) + _text(kind)
    return mcap_record(_CHUNK, head + struct.pack("<Q", len(content)) + content)


def _beginning() -> bytes:
    """Return the beginning of a file with ten messages outside chunks."""
    header = mcap_record(1, _text("ros2") + _text(""))
    return MCAP_MAGIC + header + _schema() + _channel() + b"".join(map(_message, range(10)))


_END = mcap_record(_DATA_END, bytes(4))


def _schemas_mcap(path: Path) -> None:
    """Write a chunk of 540 MB of schemas."""
    block = _schema() * 10_000
    compressed = _zstd(_repeat_block(block, 1000))
    path.write_bytes(_beginning() + _chunk(1000 * len(block), "zstd", compressed) + _END)


def _schema_chunks_mcap(path: Path) -> None:
    """Write 500 chunks of 54 MB of schemas each, which do not exceed the limit of a chunk."""
    block = _schema() * 10_000
    chunk = _chunk(100 * len(block), "zstd", _zstd(_repeat_block(block, 100)))
    path.write_bytes(_beginning() + 500 * chunk + _END)


def _empty_records_mcap(path: Path) -> None:
    """Write ten chunks of 60 MB of schemas without content."""
    block = mcap_record(_SCHEMA, b"") * 100_000
    chunk = _chunk(66 * len(block), "zstd", _zstd(_repeat_block(block, 66)))
    path.write_bytes(_beginning() + 10 * chunk + _END)


def _zero_chunks_mcap(path: Path) -> None:
    """Write 20 chunks of 1 GB of zeros each."""
    chunk = _chunk(1 << 30, "zstd", _zstd(_repeat_block(bytes(MEGABYTE), 1024)))
    path.write_bytes(_beginning() + 20 * chunk + _END)


def _lz4_mcap(path: Path) -> None:
    """Write ten chunks of 200 MB of zeros each, compressed with lz4."""
    content = lz4.frame.compress(bytes(200 * MEGABYTE))
    path.write_bytes(_beginning() + 10 * _chunk(200 * MEGABYTE, "lz4", content) + _END)


def _claims_mcap(path: Path) -> None:
    """Write chunks that claim to contain up to 2^62 bytes."""
    chunks = [_chunk(1 << k, "zstd", _zstd([bytes(MEGABYTE)])) for k in range(20, 63)]
    path.write_bytes(_beginning() + b"".join(chunks) + _END)


def _small_messages_mcap(path: Path) -> None:
    """Write 64 MB of the shortest joint states in one chunk."""
    count = 64_000_000 // len(_message(0))
    records = np.frombuffer(_message(0) * count, np.uint8).reshape(count, -1).copy()
    times = START + 1_000_000 * np.arange(count)
    for offset in (9 + 6, 9 + 14):
        records[:, offset : offset + 8] = times.view(np.uint8).reshape(-1, 8)
    content = records.tobytes()
    path.write_bytes(
        _beginning() + _chunk(len(content), "zstd", _zstd([content]), START, int(times[-1])) + _END
    )


def _compressed_messages_mcap(path: Path) -> None:
    """Write 20,000 messages that contain 1 MB of zeros each, compressed one by one."""
    content = zstandard.compress(bytes(MEGABYTE))
    messages = b"".join(_message(k, content) for k in range(20_000))
    path.write_bytes(_beginning() + messages + _END)


def _large_message_mcap(path: Path) -> None:
    """Write a message that contains 4 GB of zeros, without its size."""
    content = _zstd(_repeat_block(bytes(MEGABYTE), 4096))
    path.write_bytes(_beginning() + _message(11, content) + _END)


def _sparse_mcap(opcode: int, size: int = 3 << 30) -> Callable[[Path], None]:
    """Return a function that writes a record of zeros without using the disk."""

    def write(path: Path) -> None:
        path.write_bytes(_beginning() + struct.pack("<BQ", opcode, size))
        os.truncate(path, path.stat().st_size + size)

    return write


def _channels_mcap(path: Path) -> None:
    """Write 65,000 topics of joint states, with a message each."""
    channels = b"".join(_channel(k, f"/r{k}/joint_states") for k in range(2, 65_000))
    messages = b"".join(_message(k, SMALL, k) for k in range(2, 65_000))
    path.write_bytes(_beginning() + channels + messages + _END)


def _topics_in_chunks_mcap(path: Path) -> None:
    """Write 65,000 topics of joint states, with a message each in 20 chunks."""
    channels = b"".join(_channel(k, f"/r{k}/joint_states") for k in range(2, 65_000))
    messages = b"".join(_message(k, SMALL, k) for k in range(2, 65_000))
    chunk = _chunk(len(messages), "zstd", _zstd([messages]), START, START + 1_000_000 * 65_000)
    path.write_bytes(_beginning() + channels + 20 * chunk + _END)


def _index_mcap(path: Path) -> None:
    """Write an index that lists a chunk of 50 MB 100,000 times."""
    content = _schema() + _channel() + _message(0)
    content += mcap_record(_SCHEMA, bytes(50 * MEGABYTE))
    beginning = MCAP_MAGIC + mcap_record(1, _text("ros2") + _text(""))
    chunk = _chunk(len(content), "zstd", _zstd([content]), START, START)
    index_offset = len(beginning) + len(chunk)
    message_index = mcap_record(7, struct.pack("<HIQQ", 1, 16, START, 0))
    chunk_index = mcap_record(
        8,
        struct.pack("<QQQQ", START, START, len(beginning), len(chunk))
        + struct.pack("<IHQ", 10, 1, index_offset)
        + struct.pack("<Q", len(message_index))
        + _text("zstd")
        + struct.pack("<QQ", len(chunk), len(content)),
    )
    count = 100_000
    statistics = mcap_record(
        11, struct.pack("<QHIIIIQQ", count, 1, 1, 0, 0, count, START, START) + bytes(4)
    )
    data = beginning + chunk + message_index + _END
    summary = _schema() + _channel() + count * chunk_index + statistics
    footer = mcap_record(2, struct.pack("<QQI", len(data), 0, 0))
    path.write_bytes(data + summary + footer + MCAP_MAGIC)


def _unknown_records_mcap(path: Path) -> None:
    """Write 100 MB of records without content."""
    path.write_bytes(_beginning() + mcap_record(99, b"") * (100 * MEGABYTE // 9))


def _alternating_mcap(path: Path) -> None:
    """Write 400,000 messages outside chunks, each before an empty chunk."""
    chunk = _chunk(0, "", b"")
    path.write_bytes(_beginning() + b"".join(_message(k) + chunk for k in range(400_000)) + _END)


def _message_indexes_mcap(path: Path) -> None:
    """Write message indexes of 65,536 channels behind one chunk, 300,000 in total."""
    content = _message(11)
    indexes = b"".join(
        mcap_record(7, struct.pack("<HI", k % 65_536, 16) + bytes(10)) for k in range(300_000)
    )
    path.write_bytes(_beginning() + _chunk(len(content), "", content) + indexes + _END)


def _big_summary_mcap(path: Path) -> None:
    """Write a sparse record of 3 GB, and a summary that lists a chunk in 145 MB."""
    content, beginning = _message(0), _beginning()
    chunk = _chunk(len(content), "", content, START, START)
    index_offset = len(beginning) + len(chunk)
    message_index = mcap_record(7, struct.pack("<HIQQ", 1, 16, START, 0))
    chunk_index = mcap_record(
        8,
        struct.pack("<QQQQ", START, START, len(beginning), len(chunk))
        + struct.pack("<IHQQ", 10, 1, index_offset, len(message_index))
        + _text("")
        + struct.pack("<QQ", len(content), len(content)),
    )
    count = 145_000_000 // len(chunk_index)
    statistics = mcap_record(
        11, struct.pack("<QHIIIIQQ", count, 1, 1, 0, 0, count, START, START) + bytes(4)
    )
    with path.open("wb") as file:
        file.write(beginning + chunk + message_index + struct.pack("<BQ", 200, 3 << 30))
        file.seek(3 << 30, os.SEEK_CUR)
        file.write(_END)
        footer = mcap_record(2, struct.pack("<QQI", file.tell(), 0, 0))
        file.write(_schema() + _channel() + count * chunk_index + statistics + footer + MCAP_MAGIC)


# --- bags of ROS 1


def _fields(**fields: bytes) -> bytes:
    header = b"".join(
        struct.pack("<I", len(name) + 1 + len(value)) + name.encode() + b"=" + value
        for name, value in fields.items()
    )
    return struct.pack("<I", len(header)) + header


def bag_record(opcode: int, content: bytes, **fields: bytes) -> bytes:
    return _fields(op=bytes([opcode]), **fields) + struct.pack("<I", len(content)) + content


def _connection(number: int = 0, topic: str = "/joint_states") -> bytes:
    definition = _fields(type=b"sensor_msgs/JointState", md5sum=b"*", message_definition=b"")[4:]
    return bag_record(7, definition, conn=struct.pack("<I", number), topic=topic.encode())


def _bag_chunk(size: int, kind: bytes, content: bytes) -> bytes:
    return bag_record(5, content, compression=kind, size=struct.pack("<I", size))


def _bag_beginning() -> bytes:
    header = bag_record(
        3,
        b"",
        index_pos=bytes(8),
        conn_count=struct.pack("<I", 1),
        chunk_count=struct.pack("<I", 1),
    )
    message = serialized(JointState(["a"], [0.1], [0.2], [0.3], START), ros1=True)
    messages = [
        bag_record(2, message, conn=bytes(4), time=struct.pack("<II", 1_700_000_000, 1000 * k))
        for k in range(10)
    ]
    content = _connection() + b"".join(messages)
    return BAG_MAGIC + header + _bag_chunk(len(content), b"none", content)


def _zeros_after_bag(path: Path) -> None:
    """Write 200 MB of zeros after a bag."""
    path.write_bytes(_bag_beginning())
    os.truncate(path, path.stat().st_size + 200 * MEGABYTE)


def _unknown_records_bag(path: Path) -> None:
    """Write 100 MB of records without content after a bag."""
    record = bag_record(9, b"")
    path.write_bytes(_bag_beginning() + record * (100 * MEGABYTE // len(record)))


def _chunks_bag(kind: bytes, compress: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """Return a function that writes ten chunks of 66 MB of connections each."""

    def write(path: Path) -> None:
        block = bag_record(7, b"")
        count = 66 * MEGABYTE // len(block)
        chunk = _bag_chunk(count * len(block), kind, compress(block * count))
        path.write_bytes(_bag_beginning() + chunk * 10)

    return write


def _header_bag(path: Path) -> None:
    """Write a sparse header of 3 GB after a bag."""
    path.write_bytes(_bag_beginning() + struct.pack("<I", 3 << 30))
    os.truncate(path, path.stat().st_size + (3 << 30) + 4)


def _connections_bag(path: Path) -> None:
    """Write 300,000 topics of joint states."""
    path.write_bytes(
        _bag_beginning()
        + b"".join(_connection(k, f"/r{k}/joint_states") for k in range(1, 300_000))
    )


def _index_records_bag(path: Path) -> None:
    """Write index records of 300,000 connections behind an empty chunk."""
    one, entry = struct.pack("<I", 1), struct.pack("<III", 1, 1, 0)
    indexes = (
        bag_record(4, entry, ver=one, conn=struct.pack("<I", k), count=one) for k in range(300_000)
    )
    path.write_bytes(_bag_beginning() + _bag_chunk(0, b"none", b"") + b"".join(indexes))


# --- sqlite3

_TOPICS_TABLE = "CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT, type TEXT, "
_TOPICS_TABLE += "serialization_format TEXT, offered_qos_profiles TEXT)"
_MESSAGES_TABLE = "CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER, "
_MESSAGES_TABLE += "timestamp INTEGER, data BLOB)"


def _database(
    *statements: str, messages: Iterable[bytes] = (SMALL,), topic_count: int = 1
) -> Callable[[Path], None]:
    """Return a function that writes a database, and then runs statements."""

    def write(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(_TOPICS_TABLE)
            connection.execute(_MESSAGES_TABLE)
            connection.executemany(
                "INSERT INTO topics VALUES (?, ?, ?, 'cdr', '')",
                (
                    (k, "/joint_states" if k == 1 else f"/r{k}/joint_states", JOINT_STATE)
                    for k in range(1, topic_count + 1)
                ),
            )
            connection.executemany(
                "INSERT INTO messages VALUES (?, 1, ?, ?)",
                ((k + 1, START + 1_000_000 * k, data) for k, data in enumerate(messages)),
            )
            for statement in statements:
                connection.execute(statement)
            connection.commit()

    return write


_RECURSION = (
    "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n LIMIT 1000000000) SELECT k "
    f"AS id, 1 AS topic_id, {START} + k AS timestamp, zeroblob(60) AS data FROM n"
)


def _compressed_database(path: Path) -> None:
    """Write a compressed database, and 8 GB of zeros behind it."""
    plain = path.with_name("plain")
    _database()(plain)
    blocks = itertools.chain([plain.read_bytes()], _repeat_block(bytes(MEGABYTE), 8000))
    path.write_bytes(_zstd(blocks))
    plain.unlink()


def _sparse_ids(data: str) -> str:
    """Return a statement that inserts 100,000 messages, whose ids are 100,000 apart."""
    return (
        "WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n LIMIT 100000) "
        f"INSERT INTO messages SELECT 100000 * k, 1, {START} + 1000000 * k, {data} FROM n"
    )


def _partial_page_database(path: Path) -> None:
    """Write a database, and a sparse end of 20 GB that is no whole number of pages."""
    _database()(path)
    os.truncate(path, (20 << 30) + 1)


def _cut_database(path: Path) -> None:
    """Write the beginning of a database that counts 40 GB, with a sparse end of 20 GB."""
    _partial_page_database(path)
    with path.open("r+b") as file:
        file.seek(28)
        file.write((10 << 20).to_bytes(4, "big"))  # pages


# --- tables


def _zeros_csv(path: Path) -> None:
    """Write 3 GB of zeros without using the disk."""
    path.touch()
    os.truncate(path, 3 << 30)


def _zeros_after_csv(path: Path) -> None:
    """Write rows, and behind them 3 GB of zeros without using the disk."""
    path.write_text("time,position.a,velocity.a,effort.a\n0.0,0.1,0.2,0.3\n0.001,0.1,0.2,0.3\n")
    os.truncate(path, 3 << 30)


def _columns_csv(count: int) -> Callable[[Path], None]:
    """Return a function that writes a table of many columns."""

    def write(path: Path) -> None:
        names = ",".join(f"position.j{k}" for k in range(count))
        with path.open("w") as file:
            file.write(f"time,{names}\n")
            file.writelines(f"{0.001 * k:.3f}{',0' * count}\n" for k in range(10))

    return write


def _write_parquet(path: Path, groups: int, columns: dict[str, np.ndarray], **options) -> None:
    table = pyarrow.table(columns)
    with pyarrow.parquet.ParquetWriter(path, table.schema, **options) as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=len(table))


def _rows_parquet(path: Path) -> None:
    """Write 300 million rows whose stamps increase steadily."""
    count = 10_000_000
    columns = {"stamp": START + 1_000_000 * np.arange(count)}
    columns |= {f"{signal}.a": np.full(count, 0.1) for signal in ("position", "effort")}
    options = {
        "use_dictionary": ["position.a", "effort.a"],
        "column_encoding": {"stamp": "DELTA_BINARY_PACKED"},
    }
    _write_parquet(path, 30, columns, compression="zstd", **options)


def _page_parquet(path: Path) -> None:
    """Write four pages of 500 MB."""
    count = 1 << 27
    columns = {"time": np.zeros(count), "position.a": np.zeros(count)}
    options = {"use_dictionary": False, "data_page_size": 1 << 31, "write_batch_size": count}
    if int(pyarrow.__version__.partition(".")[0]) >= 26:
        options["max_rows_per_page"] = count
    _write_parquet(path, 1, columns, compression="zstd", **options)


def _false_pages_parquet(path: Path) -> None:
    """Write pages of 500 MB in columns that claim 1 kB."""
    _page_parquet(path)
    content = path.read_bytes()
    size = pyarrow.parquet.read_metadata(path).row_group(0).column(0).total_uncompressed_size
    claim = _thrift_integer(size)
    assert content.count(claim) == 4
    false_claim = bytes(byte | 128 for byte in _thrift_integer(1000).ljust(len(claim), b"\0"))
    path.write_bytes(content.replace(claim, false_claim[:-1] + bytes([false_claim[-1] & 127])))


def _thrift_integer(value: int) -> bytes:
    """Return a positive integer in the compact protocol of Thrift."""
    groups = [2 * value >> shift & 127 for shift in range(0, (2 * value).bit_length(), 7)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def _long_list_parquet(path: Path) -> None:
    """Write a row with a list of one number, and one with a list of 200 million numbers."""
    numbers = np.zeros(200_000_001, np.int8)
    positions = pyarrow.ListArray.from_arrays(pyarrow.array([0, 1, len(numbers)]), numbers)
    columns = {
        "time": np.zeros(2),
        "name": pyarrow.array([["a"], ["a"]]),
        "position": positions,
    }
    _write_parquet(path, 1, columns, compression="zstd")


def _columns_parquet(path: Path) -> None:
    """Write 100,000 columns of 1000 equal rows."""
    columns = {"time": 0.001 * np.arange(1000)}
    columns |= {f"position.j{k}": np.zeros(1000) for k in range(100_000)}
    _write_parquet(path, 1, columns, compression="zstd")


def _lists_parquet(path: Path) -> None:
    """Write 15,000 rows with lists of 10,000 equal numbers and names."""
    count, length = 100, 10_000
    offsets = pyarrow.array(np.arange(count + 1, dtype=np.int32) * length)
    names = pyarrow.array([f"joint_{k}" for k in range(length)] * count)
    columns = {
        "time": np.zeros(count),
        "name": pyarrow.ListArray.from_arrays(offsets, names),
        "position": pyarrow.ListArray.from_arrays(offsets, np.zeros(count * length)),
    }
    _write_parquet(path, 150, columns, compression="zstd")


ROBOT = """<robot name="robot">
<link name="base"/>
<link name="arm"><inertial><mass value="1"/>
  <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="a" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
  <limit lower="-3" upper="3" effort="10" velocity="10"/></joint>
</robot>"""
"""Description of the robot in the recordings."""

BOMBS: dict[str, Callable[[Path], None]] = {
    "schemas.mcap": _schemas_mcap,
    "schema_chunks.mcap": _schema_chunks_mcap,
    "empty_records.mcap": _empty_records_mcap,
    "zero_chunks.mcap": _zero_chunks_mcap,
    "lz4.mcap": _lz4_mcap,
    "claims.mcap": _claims_mcap,
    "small_messages.mcap": _small_messages_mcap,
    "compressed_messages.mcap": _compressed_messages_mcap,
    "large_message.mcap": _large_message_mcap,
    "sparse_schema.mcap": _sparse_mcap(_SCHEMA),
    "sparse_message.mcap": _sparse_mcap(_MESSAGE),
    "sparse_chunk.mcap": _sparse_mcap(_CHUNK),
    "sparse_attachment.mcap": _sparse_mcap(_ATTACHMENT),
    "sparse_summary.mcap": _sparse_mcap(_DATA_END),
    "channels.mcap": _channels_mcap,
    "topics_in_chunks.mcap": _topics_in_chunks_mcap,
    "index.mcap": _index_mcap,
    "alternating.mcap": _alternating_mcap,
    "message_indexes.mcap": _message_indexes_mcap,
    "big_summary.mcap": _big_summary_mcap,
    "unknown_records.mcap": _unknown_records_mcap,
    "zeros.bag": _zeros_after_bag,
    "unknown_records.bag": _unknown_records_bag,
    "lz4.bag": _chunks_bag(b"lz4", lz4.frame.compress),
    "bz2.bag": _chunks_bag(b"bz2", bz2.compress),
    "header.bag": _header_bag,
    "index_records.bag": _index_records_bag,
    "connections.bag": _connections_bag,
    "topics.db3": _database(topic_count=300_000),
    "compressed_messages.db3": _database(
        messages=_repeat_block(zstandard.compress(bytes(MEGABYTE)), 20_000)
    ),
    "large_rows.db3": _database(
        "INSERT INTO messages SELECT id + 1, 1, timestamp, zeroblob(90000000) FROM messages",
        "INSERT INTO messages SELECT id + 2, 1, timestamp, zeroblob(90000000) FROM messages",
    ),
    "view.db3": _database(
        "ALTER TABLE messages RENAME TO m",
        "CREATE VIEW messages AS "
        "SELECT id, topic_id, timestamp, zeroblob(900000000) AS data FROM m",
    ),
    "recursion.db3": _database("DROP TABLE messages", f"CREATE VIEW messages AS {_RECURSION}"),
    "generated.db3": _database(
        "DROP TABLE messages",
        f"{_MESSAGES_TABLE[:-1].removesuffix('data BLOB')}"
        "data BLOB AS (zeroblob(900000000)) VIRTUAL)",
        f"INSERT INTO messages VALUES (1, 1, {START}), (2, 1, {START})",
    ),
    "sparse_ids.db3": _database(_sparse_ids(f"x'{SMALL.hex()}'")),
    "no_key_sparse_ids.db3": _database(
        "DROP TABLE messages",
        _MESSAGES_TABLE.replace(" PRIMARY KEY", ""),
        _sparse_ids(f"x'{SMALL.hex()}'"),
    ),
    "no_row_numbers.db3": _database(
        "DROP TABLE messages",
        f"{_MESSAGES_TABLE.replace(' PRIMARY KEY', '')[:-1]}, _rowid_ INTEGER)",
    ),
    "partial_page.db3": _partial_page_database,
    "cut.db3": _cut_database,
    "zeros.db3.zstd": _compressed_database,
    "zeros.csv": _zeros_csv,
    "zeros_after.csv": _zeros_after_csv,
    "columns.csv": _columns_csv(1_000_000),
    "fewer_columns.csv": _columns_csv(200_000),
    "rows.parquet": _rows_parquet,
    "pages.parquet": _page_parquet,
    "false_pages.parquet": _false_pages_parquet,
    "long_list.parquet": _long_list_parquet,
    "columns.parquet": _columns_parquet,
    "lists.parquet": _lists_parquet,
}
"""Functions that write a recording to a path, by the name of the file."""
