# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros payload``."""

import copy
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import yaml
from identification.recordings import record, waves
from identification.robots import UR10, load

import dyn_ros
from dyn_ros.command import main as cli
from dyn_ros.recordings.tables import columns

MASS, COM = 2.3, [0.02, -0.03, 0.12]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Currents of an arm with and without a load, and the file of its drives."""
    folder, robot = tmp_path_factory.mktemp("payload"), load("ur10")
    robot.friction, robot.damping = np.full((2, 6), 2.0)
    robot.drives = dyn_ros.Drives.of(6, gain=-8.0, unit=("A",) * 6, load_friction=0.05)
    dyn_ros.save_drives(robot, folder / "drives.yaml")
    loaded = copy.copy(robot)
    loaded.friction = 1.2 * robot.friction  # on another day
    loaded.set_payload("load", "tool0", MASS, COM, 0.01 * np.eye(3))
    for name, true in (("loaded.csv", loaded), ("empty.csv", robot)):
        table = record(
            true, waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41]), rate=100.0, noise=0.01
        ).table()
        table |= {key: x / -8.0 for key, x in table.items() if key.startswith("effort.")}
        columns.write_columns(folder / name, table)
    return folder


def run(folder, *arguments):
    return cli.main(
        [
            "payload",
            str(UR10),
            *map(str, arguments),
            "--load-frame",
            "tool0",
            "--drives",
            str(folder / "drives.yaml"),
        ]
    )


def row_of(shown, name):
    return re.search(rf"^ {re.escape(name)} +(.*?) *$", shown, re.MULTILINE)[1].split()


def test_a_load_is_weighed_and_can_be_attached(folder, tmp_path, capsys):
    output = tmp_path / "payload.yaml"
    assert run(folder, folder / "loaded.csv", "-o", output, "--name", "box") == 0
    shown = capsys.readouterr().out
    value, lower, upper = map(float, row_of(shown, "mass [kg]"))
    assert lower < MASS < upper < 1.1 * lower and value == pytest.approx(MASS, rel=0.01)
    assert f"wrote {output}" in shown and "warning" not in shown
    for axis, truth in zip("xyz", COM):
        lower, upper = map(float, row_of(shown, f"center {axis} [m]")[1:])
        assert lower < truth < upper < lower + 0.02
    before, after = map(float, row_of(shown, "shoulder_lift_joint"))
    assert before > 5.0 * after > 0.0
    request = yaml.safe_load(output.read_text())
    assert request["name"] == "box" and request["inertia"]["header"]["frame_id"] == "tool0"
    body = request["inertia"]["inertia"]
    assert body["m"] == pytest.approx(value, rel=1e-4)
    assert body["com"]["z"] == pytest.approx(COM[2], abs=0.01)
    assert body["izz"] == pytest.approx(0.01, abs=2e-3)


def test_names_that_are_not_utf8(folder, tmp_path):
    name = os.fsdecode(b"run\xff")
    recording, output = tmp_path / f"{name}.csv", tmp_path / f"{name}.yaml"
    shutil.copy(folder / "loaded.csv", recording)
    options = ["--load-frame", "tool0", "--drives", folder / "drives.yaml", "-o", output]
    subprocess.run(
        [sys.executable, "-m", "dyn_ros", "payload", UR10, recording, *options], check=True
    )
    assert yaml.safe_load(output.read_text())["inertia"]["header"]["frame_id"] == "tool0"


def test_on_a_ceiling(folder, tmp_path, capsys):
    true = load("ur10")
    true.gravity, true.friction = [0.0, 0.0, 9.81], np.full(6, 2.0)
    true.set_payload("load", "tool0", MASS, COM, 0.01 * np.eye(3))
    table = record(true, waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41]), rate=100.0).table()
    columns.write_columns(tmp_path / "ceiling.csv", table)
    robot = [str(UR10), str(tmp_path / "ceiling.csv"), "--load-frame", "tool0"]
    assert cli.main(["payload", *robot, "--gravity", "0", "0", "9.81"]) == 0
    shown = capsys.readouterr()
    assert float(row_of(shown.out, "mass")[1]) == pytest.approx(MASS, rel=0.02)
    assert "mounted" not in shown.err + shown.out
    cli.main(["payload", *robot])
    shown = capsys.readouterr()
    assert "for --gravity" in " ".join((shown.err + shown.out).split())


def test_nothing_is_carried(folder, tmp_path, capsys):
    assert run(folder, folder / "empty.csv", "-o", tmp_path / "payload.yaml") == 2
    printed = capsys.readouterr()
    _, lower, upper = map(float, row_of(printed.out, "mass [kg]"))
    assert lower < 0.0 < upper < 0.05
    assert row_of(printed.out, "Ixx [kg m2]")[1:] == ["not", "determined"]
    assert "its mass may be zero" in printed.err
    assert not (tmp_path / "payload.yaml").exists()


def test_options_that_identify_has_too(folder, tmp_path, capsys):
    header, _, rows = (folder / "loaded.csv").read_text().partition("\n")
    for k, name in enumerate(load("ur10").velocity_names):
        header = header.replace(f"effort.{name}", f"i_{k + 1}")
    path = tmp_path / "other.csv"
    path.write_text(f"{header}\n{rows}")
    assert (
        run(
            folder,
            path,
            "--columns",
            "effort=i_{}",
            "--since",
            "+2",
            "--until",
            "+18",
            "--cutoff",
            "5",
        )
        == 0
    )
    assert float(row_of(capsys.readouterr().out, "mass [kg]")[0]) == pytest.approx(MASS, rel=0.01)


def bag(table, path):
    """The recording of a table as a bag."""
    pytest.importorskip("mcap", reason="no packages for recordings: run `make test`")
    from logs.recorded import START, JointState, Sent, write_mcap

    table = np.genfromtxt(table, delimiter=",", names=True, deletechars="")
    names = load("ur10").velocity_names
    sent = []
    for row in table:
        stamp = START + round(1e9 * row["time"])
        q, tau = ([row[f"{signal}.{name}"] for name in names] for signal in ("position", "effort"))
        sent.append(Sent("/joint_states", stamp, JointState(names, q, [], tau, stamp)))
    return write_mcap(path, sent)


def test_bags(folder, tmp_path, capsys):
    bag(folder / "loaded.csv", tmp_path / "loaded.mcap")
    assert run(folder, tmp_path) == 0
    assert float(row_of(capsys.readouterr().out, "mass [kg]")[0]) == pytest.approx(MASS, rel=0.01)
    assert run(folder, tmp_path, "--columns", "time=t") == 2
    assert "--columns: only for tables" in capsys.readouterr().err


def test_a_joint_that_rests_is_not_locked(folder, tmp_path, capsys):
    """Its effort shows the weight."""
    table = np.genfromtxt(folder / "loaded.csv", delimiter=",", names=True, deletechars="")
    table = {name: table[name] for name in table.dtype.names}
    table["position.wrist_3_joint"] = np.zeros(len(table["time"]))
    columns.write_columns(tmp_path / "rests.csv", table)
    run(folder, tmp_path / "rests.csv")
    shown = capsys.readouterr()
    assert "locked" not in shown.out + shown.err


def test_gains_from_the_load(folder, capsys):
    assert (
        cli.main(
            [
                "identify",
                str(UR10),
                str(folder / "empty.csv"),
                "--effort-constant",
                "estimate",
                "--loaded",
                str(folder / "loaded.csv"),
                "--load",
                str(MASS),
                "--load-frame",
                "tool0",
                "--friction-terms",
                "none",
                "--no-shapes",
            ]
        )
        == 0
    )
    shown = capsys.readouterr()
    gain, lower, upper = map(float, row_of(shown.out, "shoulder_lift_joint")[:3])
    assert lower < gain < upper and gain == pytest.approx(-8.0, rel=0.05)
    unknown = [name for name in load("ur10").velocity_names if len(row_of(shown.out, name)) == 2]
    assert shown.err.count("its gain is not determined") == len(unknown)
    assert all(f"warning: {name}: its gain" in shown.err for name in unknown)


def test_gains_from_bags(folder, tmp_path, capsys):
    arguments = [
        "identify",
        str(UR10),
        str(bag(folder / "empty.csv", tmp_path / "empty.mcap")),
        "--effort-constant",
        "estimate",
        "--load",
        str(MASS),
        "--load-frame",
        "tool0",
        "--friction-terms",
        "none",
        "--no-shapes",
    ]
    loaded = ["--loaded", str(bag(folder / "loaded.csv", tmp_path / "loaded.mcap"))]
    assert cli.main([*arguments, *loaded]) == 0
    gain = float(row_of(capsys.readouterr().out, "shoulder_lift_joint")[0])
    assert gain == pytest.approx(-8.0, rel=0.05)
    assert cli.main([*arguments, *loaded, "--workers", "1"]) == 2
    assert "--effort-constant estimate: only without --workers" in capsys.readouterr().err
    assert cli.main([*arguments, "--loaded", "missing"]) == 2
    assert "'missing' does not exist: expected a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["missing.csv"], "'missing.csv' does not exist: expected"),
        (["loaded.csv", "--lock", "wrist_4_joint"], "no joint 'wrist_4_joint'"),
        (["loaded.csv", "--since", "+99"], "no sample is in this interval"),
        (
            ["loaded.csv", "-o", "nowhere/payload.yaml"],
            "nowhere/payload.yaml: there is no folder 'nowhere'",
        ),
        (["loaded.csv", "--name", ""], "--name: expected a name, got ''; leave it out"),
        (
            ["loaded.csv", "--lock", "wrist_3_joint", "--lock", "wrist_3_joint=1"],
            "--lock: 'wrist_3_joint' is given 2 times; give it once",
        ),
    ],
)
def test_errors_name_the_value(folder, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(folder)
    assert run(folder, *arguments) == 2
    assert words in capsys.readouterr().err


def test_a_frame_that_does_not_exist(folder, capsys):
    assert cli.main(["payload", str(UR10), str(folder / "loaded.csv"), "--load-frame", "hand"]) == 2
    assert "no frame named 'hand'" in capsys.readouterr().err


def test_an_error_has_the_cause(folder, capsys):
    """Currents without a file of drives: the mass is impossible because of the unit."""
    assert (
        cli.main(["payload", str(UR10), str(folder / "loaded.csv"), "--load-frame", "tool0"]) == 2
    )
    error = " ".join(capsys.readouterr().err.split())
    assert "the mass of a payload on 'tool0' would be -" in error
    assert "shoulder_lift_joint: its effort is -0." in error and "declare unit, gain" in error


def test_faults_stand_above_the_table_and_end_with_3(folder, capsys, monkeypatch):
    monkeypatch.setattr(
        "dyn_ros.identification.solution.effort_unit_faults", lambda *_: ["wrong unit"]
    )
    assert run(folder, folder / "loaded.csv") == 3
    above, _, below = capsys.readouterr().out.partition("mass [kg]")
    assert "warning: wrong unit" in above and "wrong unit" not in below
