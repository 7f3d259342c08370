# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The option ``--drives`` of the commands that read recordings."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: run `make test`")

import pyarrow.parquet
from logs.states import ARM7, START, moving

import dyn_ros
from dyn_ros.command import main as cli
from dyn_ros.recordings.tables import columns

GAIN = np.where(np.arange(7) % 2, -9.0, 12.0)


def table(model, states, effort):
    rows = {"time": 1e-9 * (states.stamp - START)}
    for signal, values in (("position", states.q), ("velocity", states.v), ("effort", effort)):
        rows |= {f"{signal}.{name}": values[:, k] for k, name in enumerate(model.velocity_names)}
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A recording of torques, the same of currents with friction, and the file of the drives."""
    folder, clean = tmp_path_factory.mktemp("drives"), dyn_ros.Model.from_urdf_file(ARM7)
    states = moving(clean, seconds=8.0, rate=200.0)
    torque = states.tau + dyn_ros.joint_friction(clean, states.v)
    columns.write_columns(folder / "clean.csv", table(clean, states, torque))
    real = dyn_ros.Model.from_urdf_file(ARM7)
    real.damping, real.friction = np.full((2, 7), 0.5)
    real.drives = dyn_ros.Drives.of(7, unit=("A",) * 7, gain=GAIN, load_friction=0.1, offset=1.0)
    effort = (states.tau + dyn_ros.joint_friction(real, states.v, states.tau)) / GAIN
    columns.write_columns(folder / "currents.csv", table(real, states, effort))
    dyn_ros.save_drives(real, folder / "drives.yaml")
    columns.write_columns(folder / "unknown.csv", table(clean, states, torque / GAIN))
    clean.drives = dyn_ros.Drives.of(7, gain=GAIN)
    dyn_ros.save_drives(clean, folder / "gains.yaml")
    return folder


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def logged(folder, name, out, *arguments):
    assert (
        run(
            "log",
            folder / name,
            "--robot",
            ARM7,
            "--compute",
            "residual",
            "external",
            "--out",
            out,
            "--workers",
            "1",
            *arguments,
        )
        == 0
    )
    return pyarrow.parquet.read_table(out)


def test_log(folder, tmp_path, capsys):
    expected = logged(folder, "clean.csv", tmp_path / "clean")
    drives = "--drives", folder / "drives.yaml"
    columns = logged(folder, "currents.csv", tmp_path / "real", *drives)
    for name in dyn_ros.Model.from_urdf_file(ARM7).velocity_names:
        for quantity in ("residual", "external"):
            values, expected_values = (
                part[f"{quantity}.{name}"].to_numpy() for part in (columns, expected)
            )
            assert np.isfinite(expected_values).sum() > 1000
            np.testing.assert_allclose(values, expected_values, atol=1e-6)
    other_drives = tmp_path / "other.yaml"
    other_drives.write_text((folder / "drives.yaml").read_text().replace("-9.0", "-8.0"))
    assert (
        run(
            "log",
            folder / "currents.csv",
            "--robot",
            ARM7,
            "--compute",
            "residual",
            "external",
            "--out",
            tmp_path / "real",
            "--drives",
            other_drives,
            "--workers",
            "1",
        )
        == 2
    )
    assert "computed with other options: robot" in capsys.readouterr().err


def test_log_warns_of_efforts_that_cannot_be_torques(folder, tmp_path, capsys):
    logged(folder, "clean.csv", tmp_path / "clean")
    assert "drives file" not in capsys.readouterr().err
    logged(folder, "unknown.csv", tmp_path / "unknown")
    shown = capsys.readouterr().err
    assert re.search(
        r"unknown.csv: shoulder_pitch: its effort is -0.1\d* times the gravity torque "
        r".* so its sign is wrong; declare unit, gain and sign in the drives",
        shown,
    )
    logged(folder, "unknown.csv", tmp_path / "declared", "--drives", folder / "gains.yaml")
    assert "drives file" not in capsys.readouterr().err


def test_identify(folder, tmp_path, capsys):
    """Currents of known gains show the same as torques."""
    parameters = []
    for recording, *more in (["clean.csv"], ["unknown.csv", "--drives", folder / "gains.yaml"]):
        output = tmp_path / f"{recording}.urdf"
        assert run("identify", ARM7, folder / recording, "-o", output, *more) == 0
        model = dyn_ros.Model.from_urdf_file(output)
        parameters.append([*model.inertial_parameters[:, 0], *model.damping, *model.friction])
    np.testing.assert_allclose(parameters[1], parameters[0], rtol=1e-3)


@pytest.mark.parametrize("command", [("identify", ARM7), ("log", "--robot", ARM7)])
@pytest.mark.parametrize(
    "content, reason",
    [(None, "No such file or directory"), ("joints: {elbow: {gain: 2}}", "no joint 'elbow'")],
)
def test_a_file_that_cannot_be_used(folder, tmp_path, capsys, command, content, reason):
    path = tmp_path / "wrong.yaml"
    if content is not None:
        path.write_text(content)
    name, *more = command
    recording = [folder / "clean.csv"]
    before, after = (more, recording) if name == "identify" else (recording, more)
    assert run(name, *before, *after, "--drives", path) == 2
    error = capsys.readouterr().err
    assert f"{path}: " in error and reason in error and "Traceback" not in error


def test_drives_beside_the_robot_that_are_not_used(folder, tmp_path, capsys):
    robot, drives = tmp_path / "arm.urdf", tmp_path / "arm.drives.yaml"
    robot.write_bytes(Path(ARM7).read_bytes())
    drives.write_bytes((folder / "drives.yaml").read_bytes())
    command = ["log", folder / "clean.csv", "--robot", robot, "--workers", 1, "--out"]
    warning = f"warning: {drives} lies beside the description, but is not used; pass --drives"
    assert run(*command, tmp_path / "without") == 0
    assert capsys.readouterr().err.count(warning) == 1
    assert run(*command, tmp_path / "with", "--drives", drives) == 0
    assert "lies beside" not in capsys.readouterr().err
    assert run("view", tmp_path / "no.csv", "--robot", robot) == 2
    assert "viser" in (shown := capsys.readouterr().err) or warning in shown


def test_drives_are_those_of_a_robot(folder, capsys):
    assert run("log", folder / "clean.csv", "--drives", folder / "drives.yaml") == 2
    assert "--drives: pass --robot too" in capsys.readouterr().err


def test_a_unit_without_a_gain(folder, tmp_path, capsys):
    """Efforts in amperes are not taken for torques, but remain what they are where they are."""
    names = dyn_ros.Model.from_urdf_file(ARM7).velocity_names
    drives = tmp_path / "units.yaml"
    drives.write_text(
        f"joints: {{{names[1]}: {{unit: A, gear_ratio: 100}}, "
        f"{names[2]}: {{unit: Nm}}, {names[3]}: {{unit: A, gain: 1}}}}"
    )
    table, robot = folder / "currents.csv", ["--robot", ARM7, "--drives", drives]
    expected = f"joint {names[1]!r}: its efforts have the unit A, and no gain makes them torques"
    estimate = "estimate it from a known load (dyn_ros identify --effort-constant estimate)"
    for command, remedy in (
        (["payload", ARM7, table, "--drives", drives, "--load-frame", names[-1]], estimate),
        (["calibrate", ARM7, table, "--drives", drives, "-o", tmp_path / "t.yaml"], estimate),
        (["log", table, *robot, "--compute", "residual"], estimate),
        (
            ["identify", ARM7, table, "--drives", drives, "--effort-constant", f"{names[0]}=2"],
            "pass --effort-constant estimate, with recordings of a known load",
        ),
        (
            ["identify", ARM7, table, "--drives", drives, "--workers", 1],
            "pass --effort-constant estimate",
        ),
    ):
        assert run(*command) == 2
        error = " ".join(capsys.readouterr().err.split())
        assert expected in error and remedy in error and "in N m or N for 1 A" in error
    assert run("log", table, *robot, "--compute", "gravity", "state", "--workers", 1) == 0
    for constant in (f"{names[1]}=12", "12"):
        # the efforts contradict the description
        assert run("identify", ARM7, table, "--drives", drives, "--effort-constant", constant) == 3
    assert (
        run(
            "calibrate",
            ARM7,
            table,
            "--drives",
            drives,
            "-o",
            tmp_path / "t.yaml",
            "--lock",
            f"{names[1]}=0",
        )
        == 2
    )
    assert "unit A" not in capsys.readouterr().err  # but the recording is too short
