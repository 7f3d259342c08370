# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros log``: results, what continues, what is broken, what stops it."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: run `make test`")
pytest.importorskip("mcap", reason="mcap is not installed: run `make test`")

import pyarrow.parquet
import zstandard
from logs import recorded

import dyn_ros
from dyn_ros import logs
from dyn_ros.command import main as cli
from dyn_ros.logs import parallel
from dyn_ros.logs.write import results
from dyn_ros.logs.write.quantity_table import QUANTITIES

ARM = "dyn_ros/robots/arm7.urdf"
MODEL = dyn_ros.Model.from_urdf_file(ARM)
COUNT = 200_000


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    """A recording of three parts."""
    path = tmp_path_factory.mktemp("bag") / "run.mcap"
    return recorded.synthetic_mcap(path, MODEL, COUNT)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A recording of one part, with the description of its robot."""
    path = tmp_path_factory.mktemp("small") / "small.mcap"
    with open(ARM) as file:
        return recorded.synthetic_mcap(path, MODEL, 5000, description=file.read())


@pytest.fixture(scope="module")
def process():
    """One process for all commands but those with `--workers 2`: it takes a second to start."""
    workers = parallel.open_workers(1, None)
    yield workers
    workers.close()


@pytest.fixture(autouse=True)
def shared(monkeypatch, process):
    start = parallel.open_workers
    monkeypatch.setattr(
        parallel,
        "open_workers",
        lambda count, *arguments, **options: (
            start(count, *arguments, **options) if count == 2 else process
        ),
    )
    with monkeypatch.context() as context:
        context.setattr(process, "close", lambda: None)
        yield


def run(*arguments):
    return cli.main(["log", *map(str, arguments)])


def parts(folder):
    return sorted(folder.glob("part-*"))


def numbers(folder):
    return [pyarrow.parquet.read_table(path) for path in parts(folder)]


def test_results_are_a_dataset(bag, small, tmp_path, capsys):
    out = tmp_path / "out"
    assert (
        run(
            bag,
            small,
            "--robot",
            ARM,
            "--compute",
            "gravity",
            "residual",
            "--out",
            out,
            "--workers",
            "2",
        )
        == 0
    )
    assert f"205,000 states of 2 recordings in {out}" in capsys.readouterr().out
    assert len(parts(out / "recording=run")) == 3
    table = pyarrow.parquet.read_table(out)  # as pandas reads it
    assert set(table["recording"].to_pylist()) == {"run", "small"}
    assert len(table) == COUNT + 5000
    stamps = np.concatenate([part["stamp"] for part in numbers(out / "recording=run")])
    recording = logs.read(bag, MODEL)
    np.testing.assert_array_equal(stamps, recording.stamp)
    gravity = np.concatenate(
        [part["gravity.elbow_pitch"] for part in numbers(out / "recording=run")]
    )
    expected = dyn_ros.generalized_gravity(MODEL, dyn_ros.Data(MODEL), recording.q)
    k = MODEL.velocity_names.index("elbow_pitch")
    np.testing.assert_allclose(gravity, expected[:, k], atol=1e-12)


def test_another_gravity(small, tmp_path, capsys):
    arguments = small, "--robot", ARM, "--compute", "gravity", "--out", tmp_path / "out"
    assert run(*arguments) == 0
    down = numbers(tmp_path / "out" / "recording=small")[0]["gravity.elbow_pitch"].to_numpy()
    assert run(*arguments, "--gravity", "0", "0", "9.81") == 2  # other results are there
    assert run(*arguments, "--gravity", "0", "0", "9.81", "--overwrite") == 0
    up = numbers(tmp_path / "out" / "recording=small")[0]["gravity.elbow_pitch"].to_numpy()
    np.testing.assert_allclose(up, -down, atol=1e-12)
    capsys.readouterr()
    assert (
        run(small, "--compute", "gravity", "--out", tmp_path / "b", "--gravity", "0", "0", "9") == 2
    )
    assert "--gravity: pass --robot too" in capsys.readouterr().err


def test_parts_have_no_seam(bag, tmp_path):
    """The residuals of a part are those of the whole recording."""
    assert (
        run(bag, "--robot", ARM, "--compute", "residual", "--out", tmp_path, "--workers", "1") == 0
    )
    from dyn_ros.logs.quantities import compute_quantities
    from dyn_ros.recordings.formats.sources import open_source
    from dyn_ros.recordings.options import ReadOptions
    from dyn_ros.recordings.part import read_part
    from dyn_ros.recordings.plan import divide_part
    from dyn_ros.recordings.selection import select_part

    recording = read_part(
        divide_part(select_part(open_source(bag), ReadOptions(MODEL)), float("inf"))[0]
    )
    expected = compute_quantities(MODEL, recording.states, 0, ("residual",)).columns
    for name in [f"residual.{name}" for name in MODEL.velocity_names]:
        residual = np.concatenate([part[name] for part in numbers(tmp_path / "recording=run")])
        np.testing.assert_allclose(residual, expected[name], rtol=0.0, atol=1e-12)


def test_finished_parts_are_kept(bag, tmp_path, capsys):
    arguments = [bag, "--robot", ARM, "--out", tmp_path, "--rate", "10", "--workers", "1"]
    assert run(*arguments) == 0
    first = capsys.readouterr().out
    folder = tmp_path / "recording=run"
    before = {path.name: path.stat().st_mtime_ns for path in parts(folder)}
    parts(folder)[1].unlink()
    assert run(*arguments) == 0
    assert capsys.readouterr().out == first
    after = {path.name: path.stat().st_mtime_ns for path in parts(folder)}
    assert set(after) == set(before)
    assert [name for name in after if after[name] != before[name]] == ["part-000001.parquet"]
    assert "2,000 states" in first


def test_other_options_are_an_error(small, tmp_path, capsys):
    arguments = [small, "--out", tmp_path, "--compute", "residual", "--workers", "1"]
    assert run(*arguments) == 0
    before = numbers(tmp_path / "recording=small")[0]
    assert run(*arguments, "--gain", "50") == 2
    error = capsys.readouterr().err
    assert "computed with other options: gain was 100.0, now 50.0; pass another" in error
    assert run(*arguments, "--gain", "50", "--overwrite") == 0
    assert not numbers(tmp_path / "recording=small")[0].equals(before)


def test_a_recording_that_changed_is_computed_again(small, tmp_path):
    path = shutil.copy(small, tmp_path / "run.mcap")
    out = tmp_path / "out"
    assert run(path, "--out", out, "--workers", "1") == 0
    assert len(numbers(out / "recording=run")[0]) == 5000
    recorded.synthetic_mcap(path, MODEL, 3000)
    assert run(path, "--robot", ARM, "--out", out, "--workers", "1") == 0
    assert len(numbers(out / "recording=run")[0]) == 3000


def test_recordings_of_one_name(small, tmp_path):
    paths = []
    for day in ("monday", "tuesday"):
        (tmp_path / day).mkdir()
        paths.append(shutil.copy(small, tmp_path / day / "run.mcap"))
    out = tmp_path / "out"
    assert run(paths[0], "--out", out, "--workers", "1") == 0
    assert run(*paths, "--out", out, "--workers", "1") == 0
    assert {path.name for path in out.glob("recording=*")} == {
        "recording=run",
        "recording=tuesday_run",
    }
    assert len(pyarrow.parquet.read_table(out)) == 10000


def test_a_broken_file_costs_that_file_alone(bag, small, tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(small, folder / "good.mcap")
    (folder / "broken.mcap").write_bytes(b"nothing of the kind" * 100)
    recorded.synthetic_mcap(folder / "other.mcap", ["left", "right"], 1000)
    cut = (folder / "cut.mcap").open("wb")
    with cut:
        cut.write(bag.read_bytes()[: bag.stat().st_size // 2])
    assert run(folder, "--robot", ARM, "--out", tmp_path / "out", "--workers", "2") == 1
    error = capsys.readouterr().err
    lines = {line.split(":")[0].rpartition("/")[2]: line for line in error.splitlines()}
    assert "no joint of the robot is in the recording" in lines["other.mcap"]
    assert "can be read" in lines["cut.mcap"]
    assert "broken.mcap" in lines and "good.mcap" not in lines
    assert len(numbers(tmp_path / "out" / "recording=good")[0]) == 5000
    rows = sum(map(len, numbers(tmp_path / "out" / "recording=cut")))
    assert 0.4 * COUNT < rows < 0.6 * COUNT


def test_the_description_is_missing(tmp_path, capsys):
    path = recorded.synthetic_mcap(tmp_path / "run.mcap", MODEL, 1000)
    assert run(path, "--compute", "gravity", "--workers", "1") == 1
    assert "contains no robot description; pass --robot" in capsys.readouterr().err


def start(*arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "dyn_ros", "log", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def limit_files():
    """No file of this process and of those that it starts can have more than 20 kB."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


def test_a_disk_that_is_full(bag, small, tmp_path):
    process = start(
        bag, small, "--robot", ARM, "--out", tmp_path, "--workers", "2", preexec_fn=limit_files
    )
    error = process.communicate()[1]
    assert process.returncode == 2, error
    assert "File too large; what is finished remains; free some space" in error
    assert "Traceback" not in error
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith((".", "part-"))]


def test_ctrl_c(tmp_path):
    path = recorded.synthetic_mcap(tmp_path / "run.mcap", MODEL, 1_000_000)
    out = tmp_path / "out"
    arguments = [path, "--robot", ARM, "--compute", "residual", "--out", out, "--workers", "1"]
    process = start(*arguments)
    deadline = time.monotonic() + 120.0
    while not (out / "recording=run" / "_parts.jsonl").exists():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=30.0)[1]
    assert process.returncode == 130
    assert error.splitlines()[-1] == "stopped; run the same command again to continue"
    assert "Traceback" not in error
    before = {file.name: file.stat().st_mtime_ns for file in parts(out / "recording=run")}
    finished = (out / "recording=run" / "_parts.jsonl").read_text().count("\n")
    assert 0 < len(before) < 10
    assert run(*arguments) == 0
    after = {file.name: file.stat().st_mtime_ns for file in parts(out / "recording=run")}
    assert sum(after[name] == before[name] for name in before) >= finished
    assert sum(map(len, numbers(out / "recording=run"))) == 1_000_000
    assert not list(out.rglob(".*.tmp"))


def has_copy(temporary):
    return bool(list(temporary.glob("**/*.mcap")))


def wait_for(condition, process=None):
    deadline = time.monotonic() + 120.0
    while not condition():
        assert time.monotonic() < deadline and (process is None or process.poll() is None)
        time.sleep(0.01)


@pytest.mark.parametrize(
    "number, code", [(None, 0), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_temporary_files_are_removed(bag, tmp_path, number, code):
    """Those of a compressed recording, and the results without --out."""
    path = tmp_path / "run.mcap.zstd"
    path.write_bytes(zstandard.compress(bag.read_bytes(), 1))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(
        path,
        "--robot",
        ARM,
        "--compute",
        "residual",
        "external",
        "--workers",
        "1",
        *(["--out", tmp_path / "out"] if number == signal.SIGKILL else []),
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    if number is not None:
        wait_for(lambda: has_copy(temporary), process)
        process.send_signal(number)
    error = process.communicate(timeout=120.0)[1]
    assert (process.returncode, "Traceback" in error) == (code, False), error
    wait_for(lambda: not list(temporary.iterdir()))


def test_a_line_that_was_cut(small, tmp_path):
    arguments = [small, "--out", tmp_path, "--workers", "1"]
    assert run(*arguments) == 0
    lines = tmp_path / "recording=small" / "_parts.jsonl"
    complete = lines.read_text()
    lines.write_text(complete + complete[:40])
    (tmp_path / "recording=small" / ".part-000001.parquet.0000.tmp").touch()
    assert run(*arguments) == 0
    assert lines.read_text() == complete
    assert not list(tmp_path.rglob(".*.tmp"))
    assert json.loads(complete)["states"] == 5000


@pytest.mark.parametrize("line", ["", "{", "5", '{"part": 0}', "\0\0", '{"part": 0, "file": \xff}'])
def test_a_damaged_line(line, small, tmp_path, capsys):
    """The part is computed again."""
    arguments = [small, "--out", tmp_path, "--workers", "1"]
    assert run(*arguments) == 0
    (tmp_path / "recording=small" / "_parts.jsonl").write_text(line + "\n", encoding="latin-1")
    for _ in range(2):
        assert run(*arguments) == 0
        assert "\n5,000 states of 1 recording" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content",
    [
        "",
        "5",
        '{"source": 1, "options": 2}',
        '{"source": {}, "options": {}}',
        '{"source": {"path": [], "size": 1, "modified": 1}, "options": {}}',
        "[" * 100_000,
        " " * 11_000_000,
    ],
    ids=range(7),
)
def test_a_damaged_manifest(content, small, tmp_path, capsys):
    arguments = [small, "--out", tmp_path, "--workers", "1"]
    assert run(*arguments) == 0
    (tmp_path / "recording=small" / "_manifest.json").write_text(content)
    assert run(*arguments) == 2
    assert "but no valid _manifest.json" in capsys.readouterr().err
    assert run(*arguments, "--overwrite") == 0


def test_a_part_that_was_deleted(small, tmp_path, capsys):
    """It is computed again, and counted once from then on."""
    arguments = [small, "--out", tmp_path, "--workers", "1"]
    assert run(*arguments) == 0
    (tmp_path / "recording=small" / "part-000000.parquet").unlink()
    for _ in range(2):
        assert run(*arguments) == 0
        assert "\n5,000 states of 1 recording" in capsys.readouterr().out


def test_joints_and_rate(small, tmp_path):
    assert (
        run(
            small,
            "--out",
            tmp_path,
            "--joints",
            "elbow_pitch",
            "--rate",
            "100",
            "--since",
            "+1",
            "--until",
            "+3",
            "--compute",
            "state",
            "nle",
            "--workers",
            "1",
        )
        == 0
    )
    table = numbers(tmp_path / "recording=small")[0]
    assert [name for name in table.column_names if name not in ("time", "stamp")] == [
        "position.elbow_pitch",
        "velocity.elbow_pitch",
        "effort.elbow_pitch",
        "nle.elbow_pitch",
    ]
    assert abs(len(table) - 200) <= 1


def test_messages(small, tmp_path):
    assert (
        run(small, "--out", tmp_path, "--format", "mcap", "--compute", "gravity", "--workers", "1")
        == 0
    )
    assert {path.name for path in (tmp_path / "small").iterdir()} >= {
        "part-000000.mcap",
        "metadata.yaml",
    }
    recording = logs.read(tmp_path / "small", MODEL, topics="/joint_states")
    assert len(recording) == 5000


def test_a_file_that_is_repaired_later(small, tmp_path):
    path, out = tmp_path / "run.mcap", tmp_path / "out"
    path.write_bytes(b"nothing of the kind")
    assert run(path, "--out", out, "--format", "mcap", "--workers", "1") == 1
    shutil.copy(small, path)
    assert run(path, "--out", out, "--format", "mcap", "--workers", "1") == 0
    assert len(parts(out / "run")) == 1


def test_the_command_offers_all_quantities(capsys):
    with pytest.raises(SystemExit):
        run("--help")
    assert f"any of {', '.join(QUANTITIES)}" in " ".join(capsys.readouterr().out.split())


def test_the_table_has_whole_names(small, capsys):
    assert run(small, "--compute", "external", "--workers", "1") == 0
    printed = capsys.readouterr().out
    assert "external.shoulder_pitch " in printed
    assert "5,000 states of 1 recording\n" in printed


@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_plot(small, tmp_path, capsys, suffix):
    path = tmp_path / f"plot{suffix}"
    assert run(small, "--compute", "residual", "--plot", path, "--workers", "1") == 0
    assert f"wrote {path}" in capsys.readouterr().out
    assert path.stat().st_size > 10000


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["missing.mcap"], "missing.mcap"),
        (
            ["small.mcap", "--topic", "/other"],
            "no readable topic '/other'; available: /joint_states",
        ),
        (["small.mcap", "--gain", "-1"], "gain: expected more than 0, got -1.0"),
        (["small.mcap", "--joints", "elbow"], "'elbow'"),
        (["small.mcap", "--scheduler", "tcp://127.0.0.1:1"], "--scheduler: pass --out too"),
        (["small.mcap", "--plot", "a.png", "--format", "mcap"], "use --format parquet"),
        (["small.mcap", "--plot", "a.png", "--compute", "contacts"], "add external to --compute"),
        (["small.mcap", "--robot", "missing.urdf"], "missing.urdf: No such file or directory"),
    ],
)
def test_errors_name_the_value(small, capsys, arguments, words):
    assert run(*(small if argument == "small.mcap" else argument for argument in arguments)) in (
        1,
        2,
    )
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--plot", "plot.pdf"],
        ["--compute", "speed"],
        ["--workers", "0"],
        ["--rate", "0"],
        ["--since", "yesterday"],
        ["--until", "+x"],
    ],
)
def test_invalid_options(small, arguments, capsys):
    with pytest.raises(SystemExit):
        run(small, *arguments)
    assert arguments[1] in capsys.readouterr().err


def test_two_runs_do_not_write_to_one_folder(bag, tmp_path, capsys):
    with results.lock_folder(tmp_path):
        assert cli.main(["log", str(bag), "--robot", str(ARM), "--out", str(tmp_path)]) == 2
    assert "another process writes to this folder" in capsys.readouterr().err
    assert cli.main(["log", str(bag), "--robot", str(ARM), "--out", str(tmp_path)]) == 0


def test_states_that_are_not_complete_are_reported(tmp_path, capsys):
    names = list(MODEL.velocity_names)[:5]
    path = recorded.write_mcap(
        tmp_path / "five.mcap",
        [
            recorded.Sent(
                "/joint_states", recorded.START + k, recorded.JointState(names, [0.0] * 5)
            )
            for k in range(3000)
        ],
    )
    out = str(tmp_path / "out")
    assert cli.main(["log", str(path), "--robot", str(ARM), "--out", out]) == 1
    reported = capsys.readouterr().err
    assert "no complete state: the position of wrist_pitch, wrist_roll" in reported
    assert "lock joints that are not recorded with --lock" in reported.replace("\n", " ")
    locked = ["--lock", "wrist_pitch=0", "--lock", "wrist_roll=0"]
    assert cli.main(["log", str(path), "--robot", str(ARM), "--out", f"{out}_locked", *locked]) == 0


def test_what_a_recording_does_not_contain_is_named(tmp_path, capsys):
    names = list(MODEL.velocity_names)
    path = recorded.write_mcap(
        tmp_path / "run.mcap",
        [
            recorded.Sent(
                "/joint_states", recorded.START + k, recorded.JointState(names, [0.0] * 7)
            )
            for k in range(100)
        ],
    )
    common = ["log", str(path), "--robot", str(ARM), "--compute", "residual"]
    assert cli.main([*common, "--out", str(tmp_path / "one")]) == 0
    assert "residual is unknown in all states; it requires velocities and efforts" in (
        capsys.readouterr().err
    )
    assert cli.main([*common, "--out", str(tmp_path / "two"), "--since", "2025-01-01"]) == 0
    assert "no states; the recordings are from 2023-11-14T22:13:20" in capsys.readouterr().err


def test_a_link_to_nowhere_costs_itself_alone(bag, tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "gone.mcap").symlink_to(tmp_path / "nowhere")
    (folder / "empty.mcap").touch()
    (folder / "good.mcap").symlink_to(bag)
    out = tmp_path / "out"
    assert cli.main(["log", str(folder), "--robot", str(ARM), "--out", str(out)]) == 1
    error = capsys.readouterr().err
    assert "gone.mcap: " in error and "empty.mcap: " in error and "is empty" in error
    assert [folder.name for folder in out.glob("recording=*")] == ["recording=good"]


def test_the_joint_without_efforts_is_named(tmp_path, capsys):
    efforts = [0.0] * 7
    efforts[3] = float("nan")
    path = recorded.write_mcap(
        tmp_path / "run.mcap",
        [
            recorded.Sent(
                "/joint_states",
                recorded.START + k,
                recorded.JointState(list(MODEL.velocity_names), [0.0] * 7, [0.0] * 7, efforts),
            )
            for k in range(100)
        ],
    )
    assert (
        cli.main(
            [
                "log",
                str(path),
                "--robot",
                str(ARM),
                "--compute",
                "residual",
                "--out",
                str(tmp_path / "one"),
            ]
        )
        == 0
    )
    error = capsys.readouterr().err
    assert f"the efforts of {MODEL.velocity_names[3]} are unknown\n" in error  # no other topic


def test_the_name_of_a_file_instead_of_a_folder(bag, tmp_path, capsys):
    (tmp_path / "out").touch()
    assert cli.main(["log", str(bag), "--robot", str(ARM), "--out", str(tmp_path / "out")]) == 2
    assert "out is a file; choose the name of a folder" in capsys.readouterr().err
    (tmp_path / "link").symlink_to(tmp_path / "missing")
    assert cli.main(["log", str(bag), "--robot", str(ARM), "--out", str(tmp_path / "link")]) == 2
    assert "link is a link to a folder that is missing; choose" in capsys.readouterr().err


# --- states that jump, or lack something


def write_motion(path, change):
    """Write a table with 10 s of a motion, and return its number of rows."""
    time = np.arange(2000) / 200.0
    q = 0.5 * np.sin(time[:, None] * np.arange(1, MODEL.nv + 1) ** 0.5)
    v, tau = np.gradient(q, time, axis=0), np.ones_like(q)
    change(q, v, tau)
    columns = {"time": time}
    for kind, values in (("position", q), ("velocity", v), ("effort", tau)):
        columns |= {f"{kind}.{name}": values[:, k] for k, name in enumerate(MODEL.joint_names)}
    rows = np.transpose(list(columns.values()))
    np.savetxt(path, rows, "%.12g", ",", header=",".join(columns), comments="")
    return len(time)


def known_residuals(folder):
    table = pyarrow.parquet.read_table(folder)
    return len(table), np.isfinite(table["residual.elbow_pitch"].to_numpy())


def test_states_without_efforts_do_not_interrupt_residuals(tmp_path, capfd):
    def change(q, v, tau):
        tau[::5, 3] = np.nan
        tau[1:500:5, 1] = np.nan

    count = write_motion(tmp_path / "run.csv", change)
    out = tmp_path / "out"
    assert not run(tmp_path / "run.csv", "--robot", ARM, "--compute", "residual", "--out", out)
    rows, is_known = known_residuals(out)
    assert rows == count and is_known.sum() > count - 500 - 20
    warning = "500 states lack the efforts of 'elbow_pitch' or 1 more joints, and have no residual"
    assert warning in " ".join(capfd.readouterr().err.split())


def test_jumps_of_positions_are_reported(tmp_path, capfd):
    def change(q, v, tau):
        q[400:420, 3] += 0.9
        q[1000:, 2] += 0.9
        q[1500:, 6] += 2.0 * np.pi

    count = write_motion(tmp_path / "run.csv", change)
    out = tmp_path / "out"
    assert not run(tmp_path / "run.csv", "--robot", ARM, "--compute", "residual", "--out", out)
    rows, is_known = known_residuals(out)
    assert rows == count - 20
    begins = np.flatnonzero(is_known[1:] & ~is_known[:-1])
    assert len(begins) == 3  # also after the glitch, which is longer than five periods
    text = " ".join(capfd.readouterr().err.split())
    assert "jumps and jumps back at 2.000000 s: 'elbow_pitch' by 0.9 rad" in text
    assert "jumps at 5.000000 s: 'upper_arm_roll' by 0.9 rad" in text
    assert "jumps by whole turns at 7.500000 s: 'wrist_roll' by 6.28 rad" in text


def test_the_last_line_of_progress_counts_all_messages(small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dyn_ros.command.tables._PROGRESS_PERIOD", 0.0)
    assert run(small, "--out", tmp_path / "out") == 0
    last = [line for line in capsys.readouterr().err.splitlines() if "messages/s" in line][-1]
    assert "small.mcap: 100 %, " in last and ", 0 messages/s" not in last
