# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that commands write on a full disk: nothing new, the previous file, and one sentence."""

import contextlib
import resource
import shutil
import sys

import numpy as np
import pytest
from identification.recordings import record, waves
from identification.robots import UR10, load

pytest.importorskip("pyarrow", reason="pyarrow is not installed: run `make test`")
pytest.importorskip("plotly", reason="plotly is not installed: run `make test`")

import dyn_ros
from dyn_ros.command import main as cli
from dyn_ros.recordings.tables import columns

ARM = "dyn_ros/robots/arm7.urdf"
SIZE = 100  # bytes that fit on the disk


@pytest.fixture(autouse=True)
def without_bytecode(monkeypatch):
    """Let imports write no files: on a full disk, Python leaves modules whose end is missing."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@contextlib.contextmanager
def full_disk():
    """Let no file become larger than SIZE; Python ignores the signal, so that writing fails."""
    limit, hard_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE, hard_limit))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard_limit))


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    """A recording of an arm that holds a load, as a CSV file."""
    robot = load("ur10")
    robot.friction = np.full(6, 2.0)
    robot.set_payload("load", "tool0", 2.0, [0.0, 0.0, 0.1], 0.01 * np.eye(3))
    path = tmp_path_factory.mktemp("recording") / "recording.csv"
    table = record(robot, waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41]), rate=100.0, noise=0.01)
    columns.write_columns(path, table.table())
    return path


def contents(folder):
    """Return the files and folders below a folder, with what the files contain."""
    return {
        path.relative_to(folder): None if path.is_dir() else path.read_bytes()
        for path in folder.rglob("*")
    }


COMMANDS = [
    (["excite", ARM, "--duration", "10", "-o", "{}"], "motion.csv", "motion.csv"),
    (["excite", ARM, "--duration", "10", "-o", "{}"], "motion.yaml", "motion.yaml"),
    (["excite", ARM, "--duration", "10", "-o", "{}"], "motion.json", "motion.json"),
    (["check", ARM, "--picture", "{}"], "arm.html", "arm.html"),
    (["export", "--model", ARM, "--out", "{}"], "arm.dynros", "arm.dynros"),
    (["identify", UR10, "RECORDING", "--no-shapes", "-o", "{}"], "arm.urdf", "arm.urdf"),
    (["identify", UR10, "RECORDING", "--no-shapes", "--report", "{}"], "arm.html", "arm.html"),
    (["payload", UR10, "RECORDING", "--load-frame", "tool0", "-o", "{}"], "load.yaml", "load.yaml"),
    (["calibrate", UR10, "RECORDING", "-o", "{}"], "observer.yaml", "observer.yaml"),
    (
        ["log", "RECORDING", "--robot", UR10, "--workers", "1", "--out", "{}"],
        "results",
        "results/recording=recording/_manifest.json",
    ),
]


@pytest.mark.parametrize("has_previous_file", [False, True])
@pytest.mark.parametrize("command, name, named", COMMANDS)
def test_a_full_disk(command, name, named, has_previous_file, recording, tmp_path, capsys):
    output = tmp_path / name
    if has_previous_file and output.suffix:
        output.write_text("before")
        output.with_suffix(".drives.yaml").write_text("before")
    elif has_previous_file:
        output.mkdir()
    before = contents(tmp_path)
    words = [str(word).format(output).replace("RECORDING", str(recording)) for word in command]
    with full_disk():
        assert cli.main(words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith(f"dyn_ros {command[0]}: {tmp_path / named}: File too large")
    after = contents(tmp_path)
    if command[0] == "log":  # an unused lock
        after = {path: text for path, text in after.items() if path.name != "_lock"}
        after.pop(output.relative_to(tmp_path), None)
        before.pop(output.relative_to(tmp_path), None)
    assert after == before


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_library_on_a_full_disk(tmp_path, capsys, monkeypatch):
    """The library is linked elsewhere; a folder with another one keeps all files of it."""
    pytest.importorskip("numba", reason="numba is not installed: run `make test`")
    from dyn_ros.export import c_library

    words = ["export", "--robot", ARM, "--functions", "rnea", "--out", str(tmp_path / "arm")]
    install_files = c_library.install_files

    def install_on_full_disk(source, folder):
        with full_disk():
            install_files(source, folder)

    for has_previous_files in (False, True):
        before = contents(tmp_path)
        with monkeypatch.context() as patch:
            patch.setattr(c_library, "install_files", install_on_full_disk)
            assert cli.main(words) == 2
        error = capsys.readouterr().err.splitlines()[-1]
        assert error.startswith(f"dyn_ros export: {tmp_path / 'arm'}/")
        assert error.endswith(": File too large")
        assert contents(tmp_path) == before
        if not has_previous_files:
            assert cli.main(words) == 0
            assert (tmp_path / "arm" / "lib" / "libarm7.so").is_symlink()
            assert list((tmp_path / "arm" / "lib").glob("libarm7.so.*"))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_on_a_full_disk(suffix, tmp_path):
    with full_disk(), pytest.raises(OSError, match=rf"too large.*motion\.{suffix}"):
        columns.write_columns(tmp_path / f"motion.{suffix}", {"time": np.arange(1e4)})
    assert contents(tmp_path) == {}


def test_drives_on_a_full_disk(tmp_path):
    path = tmp_path / "drives.yaml"
    dyn_ros.save_drives(load("ur10"), path)
    before = contents(tmp_path)
    with full_disk(), pytest.raises(OSError, match=r"too large.*drives\.yaml"):
        dyn_ros.save_drives(load("ur10"), path)
    assert contents(tmp_path) == before
