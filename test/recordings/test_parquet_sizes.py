# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sizes of columns and pages of Parquet files, compared with those that pyarrow reads."""

import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from recordings.bombs import ROBOT

from dyn_ros.recordings.tables.parquet_sizes import read_pages_size, read_row_groups

COUNT = 5000
COLUMNS = {
    "time": 0.001 * np.arange(COUNT),
    "position.a": np.sin(0.01 * np.arange(COUNT)),
    "flag": np.arange(COUNT) % 3 == 0,
    "text": [f"row {k}" if k % 2 else None for k in range(COUNT)],
    "lists": [[0.5] * (k % 4) for k in range(COUNT)],
    "structs": [{"x": k, "y": {"z": "text"}} for k in range(COUNT)],
}
OPTIONS = {
    "default": {},
    "pages": {"data_page_size": 1000, "data_page_version": "2.0", "write_page_checksum": True},
    "groups": {"row_group_size": 300, "compression": "none", "write_page_index": True},
    "plain": {"use_dictionary": False, "write_statistics": False, "compression": "zstd"},
    "sorted": {"sorting_columns": [pyarrow.parquet.SortingColumn(0)], "compression": "gzip"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_sizes_are_those_of_pyarrow(tmp_path, name):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path, **OPTIONS[name])
    metadata = pyarrow.parquet.read_metadata(path)
    row_groups = read_row_groups(path)
    assert len(row_groups) == metadata.num_row_groups
    for k, group in enumerate(row_groups):
        expected_group = metadata.row_group(k)
        assert group.row_count == expected_group.num_rows
        for column, expected in zip(group.columns, map(expected_group.column, range(100))):
            statistics = expected.statistics
            assert column.path == expected.path_in_schema
            assert column.value_count == expected.num_values
            assert column.compressed_size == expected.total_compressed_size
            assert column.size == expected.total_uncompressed_size
            assert column.has_range == (statistics is not None and statistics.has_min_max)
            pages = read_pages_size(path, column)
            assert pages.value_count == column.value_count
            assert 0 < pages.size <= column.size
        assert len(group.columns) == metadata.num_columns


def test_a_damaged_type_of_a_column_does_not_end_the_process(tmp_path):
    path, robot = tmp_path / "table.parquet", tmp_path / "robot.urdf"
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)
    robot.write_text(ROBOT)
    content = path.read_bytes()
    double, boolean = b"\x15\x0a\x19", b"\x15\x00\x19"  # type of a column, start of a list
    assert double in content
    path.write_bytes(content.replace(double, boolean))
    command = [sys.executable, "-m", "dyn_ros", "log", str(path), "--robot", str(robot)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 1
    assert "type does not match" in process.stdout + process.stderr


@pytest.mark.parametrize("fraction", [0.05, 0.2, 0.5])
def test_a_damaged_footer_is_an_error(tmp_path, fraction):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[-8:-4], "little")
    start = len(content) - 8 - size + int(fraction * size)
    content[start : start + 40] = b"\xff" * 40
    path.write_bytes(content)
    with pytest.raises(ValueError, match="its footer is damaged"):
        read_row_groups(path)


def test_an_empty_list_of_a_claimed_length_is_damage(tmp_path):
    path = tmp_path / "table.parquet"
    footer = b"\x49\xfc\xff\xff\xff\x7f" + 20 * b"\xff"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="its footer is damaged"):
        read_row_groups(path)


def test_a_damaged_page_is_named(tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)
    column = read_row_groups(path)[0].columns[0]
    content = bytearray(path.read_bytes())
    content[column.offset : column.offset + 20] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"page at byte {column.offset:,} is damaged"):
        read_pages_size(path, column)


def test_a_page_whose_values_are_a_list_is_damaged(tmp_path):
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), path)
    column = read_row_groups(path)[0].columns[0]
    content = bytearray(path.read_bytes())
    header = b"\x15\x00\x15\x02\x15\x02\x29\x15\x00\x00"  # fields 1 to 3, and 5: a list of one
    content[column.offset : column.offset + len(header)] = header
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"page at byte {column.offset:,} is damaged"):
        read_pages_size(path, column)
