# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Paths of recordings that are pipes or devices, names that are not UTF-8, and long lines."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from logs import recorded
from logs.recorded import START, JointState, Sent
from recordings.bombs import ROBOT

import dyn_ros
from dyn_ros.cdr.decode import Decoder
from dyn_ros.recordings.formats import SUFFIXES
from dyn_ros.recordings.formats.sources import find_recordings, open_source, read_span

TIME = 0.001 * np.arange(500)
POSITION = np.sin(3.0 * TIME)
COLUMNS = {"time": TIME, "position.a": POSITION, "effort.a": np.cos(3.0 * TIME)}
NAME = os.fsdecode(b"run\xff")


@pytest.fixture(scope="module")
def robot(tmp_path_factory):
    path = tmp_path_factory.mktemp("robot") / "robot.urdf"
    path.write_text(ROBOT)
    return path


def sent():
    for k, (position, effort) in enumerate(zip(POSITION, COLUMNS["effort.a"])):
        stamp = START + 1_000_000 * k
        yield Sent("/joint_states", stamp, JointState(["a"], [position], [0.0], [effort], stamp))


def write_csv(path):
    values = np.transpose(list(COLUMNS.values()))
    with path.open("w") as file:
        np.savetxt(file, values, delimiter=",", header=",".join(COLUMNS), comments="")


def write_parquet(path):
    with path.open("wb") as file:
        pyarrow.parquet.write_table(pyarrow.table(COLUMNS), file)


def write_db3(path):
    folder = recorded.write_db3(path.with_name("folder"), sent())
    next(folder.glob("*.db3")).rename(path)
    shutil.rmtree(folder)


WRITERS = {
    ".mcap": lambda path: recorded.write_mcap(path, sent()),
    ".bag": lambda path: recorded.write_bag1(path, sent()),
    ".db3": write_db3,
    ".csv": write_csv,
    ".parquet": write_parquet,
}


def run(*arguments):
    command = [sys.executable, "-m", "dyn_ros", *map(os.fspath, arguments)]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=180)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_only_regular_files_are_opened(tmp_path, suffix, kind):
    path = tmp_path / f"run{suffix}"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    for columns in (None, {"time": "t"}) if suffix in (".csv", ".parquet") else (None,):
        with pytest.raises(OSError, match=f"expected a regular file, but this is a {kind}"):
            open_source(path, columns)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_only_regular_tables_are_opened(tmp_path, robot, suffix):
    path = tmp_path / f"run{suffix}"
    os.mkfifo(path)
    model = dyn_ros.Model.from_urdf_file(robot)
    with pytest.raises(OSError, match="expected a regular file, but this is a pipe"):
        dyn_ros.Samples.from_table(model, path)


def test_pipes_in_folders_stop_nothing(tmp_path):
    bag = recorded.write_db3(tmp_path / "bag", sent())
    os.mkfifo(bag / "another.db3")
    os.mkfifo(tmp_path / "run.mcap")
    (tmp_path / "odd").mkdir()
    os.mkfifo(tmp_path / "odd" / "metadata.yaml")
    assert find_recordings(tmp_path) == [bag, tmp_path / "odd", tmp_path / "run.mcap"]
    with pytest.raises(ValueError, match="there is no file of a rosbag2"):
        open_source(tmp_path / "odd")
    assert open_source(bag).topics[0].count == 500


def test_metadata_that_is_too_large_or_made_of_blank_lines(tmp_path):
    bag = recorded.write_db3(tmp_path / "bag", sent())
    metadata = bag / "metadata.yaml"
    text = metadata.read_text()
    metadata.write_text("\n" * 1_000_000 + text)
    assert open_source(bag).topics[0].count == 500
    os.truncate(metadata, 1 << 33)
    source = open_source(bag)
    assert source.topics[0].count == 500
    assert "metadata.yaml is not read: the file has more than 16,000,000 bytes" in source.damage


def cut(path):
    os.truncate(path, path.stat().st_size // 2)


def replace_by_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize(
    "change",
    [
        cut,
        lambda path: os.truncate(path, 0),
        lambda path: path.unlink(),
        lambda path: path.write_bytes(bytes(path.stat().st_size)),
        lambda path: path.write_bytes(np.random.default_rng(0).bytes(path.stat().st_size)),
        replace_by_pipe,
    ],
)
def test_files_that_change_after_they_were_scanned(tmp_path, suffix, change):
    path, decoder, errors = tmp_path / f"run{suffix}", Decoder(), []
    WRITERS[suffix](path)
    source = open_source(path)
    change(path)
    for span in source.spans:
        try:
            messages = read_span(path, span, [topic.name for topic in source.topics], decoder)
            assert len(messages.stamp) < 500
        except (OSError, ValueError) as error:
            errors.append(str(error))
    rows_are_missing = suffix == ".csv" and change is cut  # any number of rows is a table
    assert rows_are_missing or errors or decoder.problems


def write_file_list(bag, names):
    lines = "".join(f"    - {name}\n" for name in names)
    (bag / "metadata.yaml").write_text(
        f"rosbag2_bagfile_information:\n  relative_file_paths:\n{lines}"
    )


def test_metadata_that_lists_a_file_many_times(tmp_path):
    bag = recorded.write_db3(tmp_path / "bag", sent())
    name = next(bag.glob("*.db3")).name
    write_file_list(bag, [name] * 20_000)
    source = open_source(bag)
    assert source.topics[0].count == 500 and not source.damage


def test_metadata_that_lists_many_missing_files(tmp_path):
    bag = recorded.write_db3(tmp_path / "bag", sent())
    name = next(bag.glob("*.db3")).name
    write_file_list(bag, [name, "b" * 300, "a\0.db3", *["c"] * 1_000_000])
    source = open_source(bag)
    assert source.topics[0].count == 500
    assert source.damage == (
        f"{'b' * 197}... is missing, which its metadata.yaml lists; so are 99998 others; its "
        "metadata.yaml lists more than 100,000 files; others are not read"
    )


def test_links_that_lead_to_a_folder_by_many_paths(tmp_path):
    for k in range(20):
        folder = tmp_path / f"d{k}"
        folder.mkdir()
        for n in range(8):
            (folder / f"link{n}").symlink_to(tmp_path / f"d{k + 1}")
    (tmp_path / "d20").mkdir()
    write_csv(tmp_path / "d20" / "run.csv")
    [path] = find_recordings(tmp_path / "d0")
    assert path == tmp_path / "d0" / "/".join(["link0"] * 20) / "run.csv"
    first_path = tmp_path / "d20" / "run.csv"
    assert find_recordings([tmp_path / "d20", tmp_path / "d0"]) == [first_path]


@pytest.mark.parametrize("path", ["", "~nobody_of_this_name/run.csv", "a\0.csv", "a" * 5000])
def test_paths_that_cannot_exist(path):
    with pytest.raises(ValueError, match="a path is empty|does not exist"):
        find_recordings(path)


@pytest.mark.parametrize("count", [5_000, 3_000_000])
def test_a_column_of_parquet_whose_name_begins_as_a_tuple(tmp_path, robot, count):
    path, name = tmp_path / "run.parquet", f"({'-' * count}1)"
    pyarrow.parquet.write_table(pyarrow.table({**COLUMNS, name: TIME}), path)
    assert len(dyn_ros.logs.read(path, dyn_ros.Model.from_urdf_file(robot))) == 500


@pytest.mark.parametrize("suffix", WRITERS)
def test_names_that_are_not_utf8(tmp_path, robot, suffix):
    path = tmp_path / f"{NAME}{suffix}"
    WRITERS[suffix](path)
    recording = dyn_ros.logs.read(path, dyn_ros.Model.from_urdf_file(robot))
    assert len(recording) == 500 and not recording.problems


@pytest.mark.parametrize("kind", ["parquet", "mcap"])
def test_a_folder_with_names_that_are_not_utf8(tmp_path, robot, kind):
    day, out = tmp_path / f"{NAME}day", tmp_path / f"{NAME}out"
    day.mkdir()
    for suffix, write in WRITERS.items():
        write(day / f"{suffix[1:]}{NAME}{suffix}")
    (day / f"damaged{NAME}.mcap").write_bytes(b"nonsense")
    for _ in range(2):  # finished results are found again
        process = run("log", day, "--robot", robot, "--out", out, "--format", kind)
        assert process.returncode == 1
        assert "2,500 states of 6 recordings" in process.stdout
        assert process.stderr.count("damaged") == 1
        assert "is no MCAP file" in process.stderr and "codec" not in process.stderr
    names = sorted(folder.name for folder in out.iterdir() if folder.is_dir())
    prefix = "recording=" if kind == "parquet" else ""
    assert names == sorted(f"{prefix}{suffix[1:]}run%FF" for suffix in WRITERS)


@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_plots_with_names_that_are_not_utf8(tmp_path, robot, suffix):
    path, plot = tmp_path / f"{NAME}.csv", tmp_path / f"{NAME}{suffix}"
    write_csv(path)
    out = tmp_path / f"{NAME}out"
    process = run("log", path, "--robot", robot, "--out", out, "--plot", plot)
    assert process.returncode == 0, process.stderr
    assert plot.stat().st_size > 10_000


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".mcap"])
def test_identify_with_names_that_are_not_utf8(tmp_path, robot, suffix):
    path, result = tmp_path / f"{NAME}{suffix}", tmp_path / f"{NAME}.urdf"
    WRITERS[suffix](path)
    process = run("identify", robot, path, "-o", result)
    assert process.returncode == 0, process.stderr
    assert "<robot" in result.read_text()


def test_lines_of_csv_that_are_too_long(tmp_path, robot):
    path, model = tmp_path / "run.csv", dyn_ros.Model.from_urdf_file(robot)
    write_csv(path)
    lines = path.read_text().splitlines(keepends=True)
    long_line = f"0.1,0.2,{'3' * 5_000_000}\n"
    path.write_text("".join([*lines[:200], long_line, *lines[200:]]))
    recording = dyn_ros.logs.read(path, model)
    assert len(recording) == 500
    place = sum(map(len, lines[:200]))
    assert recording.problems == (
        f"the recording contains a line at byte {place:,} that is skipped: it has 5,000,009 "
        "bytes, more than 4,194,304",
    )
    with pytest.raises(ValueError, match="line 201 has more than 4,194,304 characters"):
        dyn_ros.Samples.from_table(model, path)
    path.write_text(long_line)
    with pytest.raises(ValueError, match="expected the names of columns in the first line, got"):
        open_source(path)
