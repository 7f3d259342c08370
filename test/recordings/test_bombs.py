# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Small or sparse files take little memory, time and disk, and messages say what is refused."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from logs.memory import largest_memory
from recordings.bombs import BOMBS, ROBOT

import dyn_ros

SCRIPT = Path(__file__).parent / "read_within_limits.py"
MAX_MEMORY = 1e9  # bytes
CHUNK = "byte [0-9,]+ that is skipped: it holds [0-9,]+ bytes, more than the limit of 64,000,000"
CONTENT = "its content is larger than the limit of [0-9,]+ bytes"
RECORDS = "is not read from byte [0-9,]+ on: it has more records than expected"
MESSAGE = "a message is left out, with which a span would hold more than 64,000,000 bytes"
TOPICS = "contains more topics than 65,536"
COMPUTED = "contains a table 'messages' that is not stored but computed"
COLUMNS = "expected at most 20,000 columns, got [0-9,]+"


class Reading(NamedTuple):
    """What a process has read."""

    states: int
    message: str
    memory: int  # bytes


Reader = Callable[..., Reading]


@pytest.fixture(scope="module")
def reader_process() -> Iterator[subprocess.Popen[str]]:
    """Yield a process that reads recordings in its children."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, str(SCRIPT)], text=True, bufsize=1, **pipes) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def read_within_limits(tmp_path, reader_process) -> Reader:
    """Return a function that reads a recording in a process of its own."""

    def read(path: Path, **options: float) -> Reading:
        robot = tmp_path / "robot.urdf"
        robot.write_text(ROBOT)
        request = json.dumps([str(path), str(robot), options, str(tmp_path)])
        reader_process.stdin.write(f"{request}\n")
        result = json.loads(reader_process.stdout.readline())
        assert isinstance(result, list), f"the process ended with status {result}"
        return Reading(*result)

    return read


EXPECTED = {
    "schemas.mcap": (10, CHUNK),
    "schema_chunks.mcap": (10, CONTENT),
    "empty_records.mcap": (10, CONTENT),
    "zero_chunks.mcap": (10, f"{CHUNK}.*so are 19 others"),
    "lz4.mcap": (10, CHUNK),
    "claims.mcap": (10, CHUNK),
    "small_messages.mcap": (598_140, ""),
    "compressed_messages.mcap": (10, MESSAGE),
    "large_message.mcap": (10, MESSAGE),
    "sparse_schema.mcap": (10, CHUNK),
    "sparse_message.mcap": (10, CHUNK),
    "sparse_chunk.mcap": (10, CHUNK),
    "sparse_attachment.mcap": (10, ""),
    "sparse_summary.mcap": (10, ""),
    "channels.mcap": (0, "both report the joint 'a'"),
    "index.mcap": (1, ""),
    "topics_in_chunks.mcap": (0, "both report the joint 'a'"),
    "alternating.mcap": (400_010, ""),
    "message_indexes.mcap": (11, ""),
    "big_summary.mcap": (11, ""),
    "unknown_records.mcap": (10, RECORDS),
    "zeros.bag": (10, "is damaged at byte 1,327"),
    "unknown_records.bag": (10, RECORDS),
    "lz4.bag": (10, CHUNK),
    "bz2.bag": (10, CHUNK),
    "header.bag": (10, CHUNK),
    "index_records.bag": (10, ""),
    "connections.bag": (0, TOPICS),
    "topics.db3": (1, TOPICS),
    "compressed_messages.db3": (0, MESSAGE),
    "large_rows.db3": (1, "number 2 that is skipped: it holds 90,000,000 bytes"),
    "view.db3": (0, COMPUTED),
    "recursion.db3": (0, COMPUTED),
    "generated.db3": (0, COMPUTED),
    "sparse_ids.db3": (100_001, "^$"),
    "no_key_sparse_ids.db3": (100_000, "^$"),
    "no_row_numbers.db3": (0, "a table 'messages' whose rows have no numbers"),
    "partial_page.db3": (1, "^$"),
    "cut.db3": (1, "^$"),
    "zeros.db3.zstd": (1, f"is read to its byte [0-9,]+: {CONTENT}"),
    "zeros.csv": (0, "expected the names of columns in the first line"),
    "zeros_after.csv": (2, "a line at byte [0-9,]+ that is skipped"),
    "columns.csv": (0, "expected the names of columns in the first line"),
    "fewer_columns.csv": (0, COLUMNS),
    "pages.parquet": (0, "it holds [0-9,]+ bytes, more than the limit"),
    "false_pages.parquet": (0, "it holds [0-9,]+ bytes, more than the limit"),
    "long_list.parquet": (0, f"it holds [0-9,]+ numbers: {CONTENT}"),
    "columns.parquet": (0, COLUMNS),
    "lists.parquet": (0, ""),
}
"""Numbers of states, and patterns of messages; an empty one: there is nothing to refuse."""


def test_every_bomb_has_a_test():
    assert BOMBS.keys() == EXPECTED.keys() | {"rows.parquet"}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_bomb_is_read_within_limits(tmp_path, read_within_limits, name):
    path = tmp_path / name
    BOMBS[name](path)
    reading = read_within_limits(path)
    path.unlink()
    states, message = EXPECTED[name]
    assert reading.states == states
    assert re.search(message, reading.message), reading.message
    assert "can be read" not in reading.message or not message
    assert reading.memory < MAX_MEMORY


def test_the_first_of_many_rows_are_read(tmp_path, read_within_limits):
    path = tmp_path / "rows.parquet"
    BOMBS[path.name](path)
    reading = read_within_limits(path)
    assert 1_000_000 < reading.states < 10_000_000
    assert re.search(f"is read to its row [0-9,]+: {CONTENT}", reading.message)
    assert reading.memory < MAX_MEMORY
    model = dyn_ros.Model.from_urdf(ROBOT)
    with pytest.raises(ValueError, match=f"300,000,000 rows.*{CONTENT}"):
        dyn_ros.Samples.from_table(model, path)


def test_a_chunk_of_a_larger_limit_is_read(tmp_path, read_within_limits):
    path = tmp_path / "small_messages.mcap"
    BOMBS[path.name](path)
    for limit, states in ((6e7, 10), (7e7, 598_140)):
        reading = read_within_limits(path, max_chunk_size=limit)
        assert reading.states == states
        assert ("pass max_chunk_size= to read it" in reading.message) == (limit == 6e7)


@pytest.mark.parametrize("name", ["schemas.mcap", "zeros.db3.zstd", "zero_chunks.mcap"])
def test_the_command_and_its_workers_need_little_memory(tmp_path, name):
    path, robot = tmp_path / name, tmp_path / "robot.urdf"
    BOMBS[name](path)
    robot.write_text(ROBOT)
    command = [sys.executable, "-m", "dyn_ros", "log", str(path), "--robot", str(robot)]
    assert largest_memory(command, code=1).total < MAX_MEMORY
