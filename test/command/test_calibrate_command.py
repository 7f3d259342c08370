# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands ``dyn_ros calibrate`` and ``dyn_ros log --compute contacts``."""

import json
import os
import shutil

import numpy as np
import pytest
import yaml
from identification.robots import UR10, load
from observer.simulated import Arm, Push, moves, waves, with_friction

pytest.importorskip("pyarrow", reason="pyarrow is not installed: run `make test`")

import dyn_ros
from dyn_ros.command import main as cli
from dyn_ros.engine.model.write import write_urdf
from dyn_ros.logs.calibration import load_settings
from dyn_ros.observer.contact_intervals import (
    ContactInterval,
    find_contact_intervals,
    merge_contact_intervals,
)
from dyn_ros.recordings.tables import columns

RATE = 100.0
PUSHES = (
    Push("tool0", [0.0, 40.0, -40.0], start=4.0, stop=5.0),
    Push("tool0", [60.0, 0.0, 0.0], start=9.0, stop=9.8),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder with an arm, what was recorded of it at 100 Hz, and thresholds."""
    folder = tmp_path_factory.mktemp("calibration")
    model = with_friction(load("ur10"))
    (folder / "arm.urdf").write_text(write_urdf(UR10.read_text(), model))
    dyn_ros.save_drives(model, folder / "arm.drives.yaml")
    arms = {
        kind.__name__: Arm(model, kind(model), RATE, velocity="exact") for kind in (waves, moves)
    }
    recordings = {
        "free_1": arms["moves"].record(60.0),
        "free_2": arms["waves"].record(40.0),
        "other": arms["moves"].record(120.0, start=300.0),
        "pushed": arms["moves"].record(12.0, PUSHES, start=0.0),
    }
    for name, recording in recordings.items():
        table = {"time": recording.time - recording.time[0]}
        for signal, values in (
            ("position", recording.q),
            ("velocity", recording.v),
            ("effort", recording.tau),
        ):
            table |= {
                f"{signal}.{joint}": values[:, k] for k, joint in enumerate(model.velocity_names)
            }
        columns.write_columns(folder / f"{name}.csv", table)
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            folder / "free_1.csv",
            folder / "free_2.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "-o",
            folder / "thresholds.yaml",
        )
        == 0
    )
    return folder


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def contacts(folder, recording, *options):
    return run(
        "log",
        folder / f"{recording}.csv",
        "--robot",
        folder / "arm.urdf",
        "--drives",
        folder / "arm.drives.yaml",
        "--compute",
        "contacts",
        "--thresholds",
        folder / "thresholds.yaml",
        *options,
    )


def parameters(path):
    return yaml.safe_load(path.read_text())["/**"]["ros__parameters"]


def test_the_file(folder):
    values = parameters(folder / "thresholds.yaml")
    assert values["gain"] == values["smoothing"] == 10.0  # a tenth of the rate
    assert values["friction_velocity"] == 0.05
    for name in ("thresholds.fixed", "thresholds.at_rest", "noise.external"):
        assert len(values[name]) == 6 and min(values[name]) > 0.0
    settings = load_settings(folder / "thresholds.yaml")
    assert settings["thresholds_fixed"] == tuple(values["thresholds.fixed"])
    assert settings["gain"] == 10.0


def test_names_that_are_not_utf8(folder, tmp_path):
    name = os.fsdecode(b"run\xff")
    paths = [tmp_path / f"{name}{suffix}" for suffix in (".urdf", ".csv", ".drives.yaml")]
    for source, path in zip(("arm.urdf", "free_1.csv", "arm.drives.yaml"), paths):
        shutil.copy(folder / source, path)
    output = tmp_path / f"{name}.thresholds.yaml"
    assert run("calibrate", *paths[:2], "--drives", paths[2], "-o", output) == 0
    assert len(load_settings(output)["thresholds_fixed"]) == 6


def test_the_node_has_these_parameters(folder):
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
    from dyn_ros.nodes.base import node_parameters as common
    from dyn_ros.nodes.observer_node import SPECS

    values = parameters(folder / "thresholds.yaml")
    assert values.keys() <= {spec.name for spec in (*common.SPECS, *SPECS)}
    assert values["joints"] == list(load("ur10").joint_names)  # all, in their order


def test_what_is_printed(folder, tmp_path, capsys):
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            folder / "free_1.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "--gain",
            20,
            "--smoothing",
            0,
            "--false-alarms",
            1,
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "False alarms in stretches that were held out in turn: 0 in 60 s; wanted: 1 per" in shown
    assert "Gain 20/s, smoothing 0/s" in shown and "shoulder_pan_joint" in shown
    values = parameters(tmp_path / "thresholds.yaml")
    assert (values["gain"], values["smoothing"]) == (20.0, 0.0)


def test_pushes_in_a_calibration_are_reported(folder, tmp_path, capsys):
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            folder / "free_1.csv",
            folder / "pushed.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    assert "held out: pushed.csv, 4." in shown and "held out: pushed.csv, 9." in shown


def test_contacts(folder, tmp_path, capsys):
    assert contacts(folder, "pushed", "--out", tmp_path) == 0
    shown = capsys.readouterr().out
    assert "pushed.csv: 2 contacts" in shown and "shoulder_lift_joint" in shown
    report = json.loads((tmp_path / "recording=pushed" / "_parts.jsonl").read_text())
    found_contacts = [ContactInterval(*contact) for contact in report["contacts"]]
    for contact, push in zip(found_contacts, PUSHES, strict=True):
        assert push.start < contact.start < push.start + 0.4
        assert push.stop - 0.1 < contact.stop < push.stop + 0.8
    assert contacts(folder, "pushed", "--out", tmp_path) == 0  # finished, and shown again
    assert "pushed.csv: 2 contacts" in capsys.readouterr().out


def test_a_free_motion_has_none(folder, capsys):
    assert contacts(folder, "other") == 0
    shown = capsys.readouterr().out
    assert "contact " not in shown and "contacts.wrist_3_joint" in shown and "no contacts" in shown


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "pass --thresholds with the file that `dyn_ros calibrate` writes"),
        ("gain: 3.0", "expected parameters of the observer node with thresholds.fixed"),
        ("a: [", "not valid YAML"),
        ("a: " + "[" * 3000 + "]" * 3000, "inside each other"),
        ("thresholds.fixed: [true, 1.0]", "thresholds.fixed: expected numbers, got (True, 1.0)"),
        ("thresholds.fixed: ['1']", "thresholds.fixed: expected numbers, got ('1',)"),
        ("{thresholds.fixed: [1.0], gain: true}", "gain: expected a number, got True"),
        ("{thresholds.fixed: [1.0], gain: '1'}", "gain: expected a number, got '1'"),
        ("{thresholds.fixed: [1.0], gain: .inf}", "gain: expected finite numbers, got inf"),
        (
            "{thresholds.fixed: [1.0, 2.0], joints: 3}",
            "wrong.yaml: joints: expected a list of names, got 3",
        ),
        ("{thresholds.fixed: [1.0, 2.0], joints: [1, b]}", "joints: expected a list of names"),
        (
            "/**: {ros__parameters: {thresholds.fixed: [1.0, 2.0]}}",
            "thresholds.fixed: expected one number, or 6",
        ),
        ("thresholds.fixed:", "expected parameters of the observer node with thresholds.fixed"),
        ("thresholds.fixed: 2020-01-01", "wrong.yaml: thresholds.fixed: expected numbers, got"),
        ("thresholds.fixed: [a]", "wrong.yaml: thresholds.fixed: expected numbers, got ('a',)"),
        (
            "thresholds.fixed: [[1], [2, 3]]",
            "thresholds.fixed: expected numbers, got ([1], [2, 3])",
        ),
        ("thresholds.fixed: [true]", "thresholds.fixed: expected numbers, got (True,)"),
        (
            "thresholds.fixed: [-1.0]",
            "wrong.yaml: thresholds.fixed: expected at least 0, got (-1.0,)",
        ),
        ("thresholds.fixed: [.nan]", "wrong.yaml: thresholds.fixed: expected finite numbers, got"),
        (
            "{thresholds.fixed: [1.0], gain: [3.0]}",
            "wrong.yaml: gain: expected a number, got [3.0]",
        ),
        (
            "{thresholds.fixed: [1.0], gain: high}",
            "wrong.yaml: gain: expected a number, got 'high'",
        ),
        ("{thresholds.fixed: [1.0], friction: 1}", "friction: expected True or False, got 1"),
        (
            "{thresholds.fixed: [1.0], effort_constant: [0.0]}",
            "effort_constant: expected numbers other than 0, got (0.0,)",
        ),
        ("a: &a {b: *a}", "wrong.yaml: expected parameters of the observer node"),
        (b"\xff\xfe\xfd", "wrong.yaml: expected parameters of the observer node"),
    ],
)
def test_thresholds_that_cannot_be_used(folder, tmp_path, capsys, content, message):
    options = []
    if content is not None:
        (tmp_path / "wrong.yaml").write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )
        options = ["--thresholds", tmp_path / "wrong.yaml"]
    code = run(
        "log",
        folder / "pushed.csv",
        "--robot",
        folder / "arm.urdf",
        "--compute",
        "contacts",
        *options,
    )
    assert code == 2 and message in " ".join(capsys.readouterr().err.split())


def test_recordings_without_velocities(folder, tmp_path, capsys):
    lines = (folder / "free_1.csv").read_text().splitlines()
    (tmp_path / "positions.csv").write_text(
        "\n".join(",".join(line.split(",")[:7]) for line in lines)
    )
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            tmp_path / "positions.csv",
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 2
    )
    assert "they require velocities and efforts of all joints" in capsys.readouterr().err


def test_contacts_of_parts_are_joined():
    time = np.arange(10) * 0.1
    external = np.zeros((10, 2))
    external[2:5, 0], external[4, 1] = -3.0, 2.0
    (contact,) = find_contact_intervals(time, external, np.ones((10, 2)), ("a", "b"))
    assert contact == (pytest.approx(0.2), pytest.approx(0.4), {"a": -3.0, "b": 2.0}, 3.0)
    next_contact = ContactInterval(0.6, 0.7, {"a": 5.0}, 5.0)
    assert merge_contact_intervals([next_contact, contact]) == [
        (contact.start, 0.7, {"a": 5.0, "b": 2.0}, 5.0)
    ]
    assert merge_contact_intervals([contact, next_contact._replace(start=2.0, stop=2.1)]) == [
        contact,
        next_contact._replace(start=2.0, stop=2.1),
    ]
    assert (
        find_contact_intervals(time, np.full((10, 2), np.nan), np.ones((10, 2)), ("a", "b")) == []
    )


def without_wrist(folder, path, name=""):
    """A recording without the columns of a joint, or with columns of another name."""
    header, *rows = (folder / "free_1.csv").read_text().splitlines()
    if name:
        header = header.replace("wrist_3_joint", name)
    column_numbers = [
        n for n, name in enumerate(header.split(",")) if not name.endswith("wrist_3_joint")
    ]
    path.write_text(
        "\n".join(",".join(np.array(line.split(","))[column_numbers]) for line in [header, *rows])
        + "\n"
    )
    return path


@pytest.mark.parametrize(
    "options, line",
    [
        ([], "locked: wrist_3_joint = 0 (no columns)"),
        (["--lock", "wrist_3_joint"], "locked: wrist_3_joint = 0 (no columns)"),
        (["--lock", "wrist_2_joint=0"], "locked: wrist_3_joint = 0 (no columns)"),
        (["--lock", "wrist_3_joint=0.5"], ""),
    ],
)
def test_a_joint_without_columns_is_locked(folder, tmp_path, capsys, options, line):
    table = without_wrist(folder, tmp_path / "partial.csv")
    (tmp_path / "empty.csv").touch()
    for command in (
        ["calibrate", folder / "arm.urdf", table, "-o", tmp_path / "x.yaml"],
        ["log", table, "--robot", folder / "arm.urdf", "--workers", 1],
    ):
        assert run(*command, *options) == 0
        error = capsys.readouterr().err
        assert error.count("locked: ") == bool(line) and line in error
    assert (
        run(
            "log",
            table,
            tmp_path / "empty.csv",
            "--robot",
            folder / "arm.urdf",
            "--workers",
            1,
            *options,
        )
        == 1
    )
    shown = capsys.readouterr()
    assert "empty.csv: is empty" in shown.err and "6,000 states" in shown.out


def test_a_joint_with_columns_in_another_table_is_not_locked(folder, tmp_path, capsys):
    """Nor one whose name is similar to that of columns, nor with recordings of other kinds."""
    table = without_wrist(folder, tmp_path / "partial.csv")
    other_table = without_wrist(folder, tmp_path / "other.csv", "wrist_3_jnt")
    for paths in ([table, folder / "free_1.csv"], [other_table]):
        assert run("calibrate", folder / "arm.urdf", *paths, "-o", tmp_path / "none.yaml") == 2
        assert "csv: no complete state: the position of wrist_3_joint is unknown" in " ".join(
            capsys.readouterr().err.split()
        )
    (tmp_path / "run.mcap").write_bytes(b"nothing of the kind")
    assert run("log", tmp_path, "--robot", folder / "arm.urdf", "--workers", 1) == 1
    assert "locked" not in capsys.readouterr().err
    assert run("log", tmp_path, "--robot", folder / "arm.urdf", "--lock", "wrist_3_joint") == 2
    assert "such as --lock wrist_3_joint=0" in capsys.readouterr().err


@pytest.mark.parametrize(
    "rows, time, values, message",
    [
        (-1, "", "", "is empty: 0 bytes"),
        (0, "{:.2f}", "{}", "has no rows"),
        (1, "{:.2f}", "{}", "expected states with stamps that advance, got 1 from 0.000000 s"),
        (50, "1.0", "{}", "expected stamps that increase, got 1 s in all 50 rows of the column"),
        (
            50,
            "1e30",
            "{}",
            "no row has a usable time, the first: 1e+30 in the column 'time'; convert",
        ),
        (50, "{:.2f}", "nan", "blank columns: 'position.shoulder_pan_joint', "),
        (50, "{:.2f}", "x", "there are no states: skipped 50 lines that do not contain numbers"),
    ],
)
def test_recordings_without_states(folder, tmp_path, capsys, rows, time, values, message):
    names, *lines = (folder / "free_1.csv").read_text().splitlines()
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(
        "\n".join(
            [
                names,
                *(
                    ",".join(
                        [time.format(0.01 * k), *(values.format(x) for x in line.split(",")[1:])]
                    )
                    for k, line in enumerate(lines[:rows])
                ),
            ]
        )
        + "\n"
        if rows >= 0
        else ""
    )
    assert run("calibrate", folder / "arm.urdf", wrong, "-o", tmp_path / "thresholds.yaml") == 2
    error = capsys.readouterr().err
    assert "wrong.csv" in error and message in error and "Warning" not in error
    code = run(
        "log",
        wrong,
        "--robot",
        folder / "arm.urdf",
        "--compute",
        "contacts",
        "--thresholds",
        folder / "thresholds.yaml",
        "--workers",
        1,
    )
    error = capsys.readouterr().err
    assert rows > 0 or (code == 1 and message in error)
    assert error and "Warning" not in error and "zero-size" not in error


def test_efforts_that_are_not_measured_are_reported(folder, tmp_path, capsys):
    names, *lines = (folder / "free_1.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    (tmp_path / "constant.csv").write_text(
        "\n".join([names, *(",".join([*row[:13], "1.5", *row[14:]]) for row in rows)]) + "\n"
    )
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            tmp_path / "constant.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    error = capsys.readouterr().err
    assert "shoulder_pan_joint: it moves, but its effort is 1.5 in all states" in error


def test_efforts_in_another_unit_are_reported(folder, tmp_path, capsys):
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            folder / "free_2.csv",
            "--effort-constant",
            0.05,
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    assert "free_2.csv: shoulder_lift_joint: its effort is 0.0" in capsys.readouterr().err


def renamed(folder, path, names, header=True):
    """A recording whose columns have other names, or none."""
    _, *lines = (folder / "pushed.csv").read_text().splitlines()
    path.write_text("\n".join([*([",".join(names)] if header else []), *lines]) + "\n")
    return path


@pytest.fixture(scope="module")
def numbered(folder, tmp_path_factory):
    """Tables with the names of columns that some drivers write, and without names."""
    table_folder = tmp_path_factory.mktemp("columns")
    names = ["t", *(f"{word}_{k}" for word in ("q", "dq", "tau_J") for k in range(1, 7))]
    renamed(folder, table_folder / "named.csv", names)
    renamed(folder, table_folder / "bare.csv", names, header=False)
    return table_folder


@pytest.mark.parametrize(
    "table, columns",
    [
        ("named.csv", ["time=t", "position=q_{}", "velocity=dq_{}", "effort=tau_J_{}"]),
        ("bare.csv", ["time=1", "position=2-7", "velocity=8-13", "effort=14-19"]),
    ],
)
def test_columns_with_other_names(folder, numbered, tmp_path, capsys, table, columns):
    robot = ["--drives", folder / "arm.drives.yaml", "--columns", *columns]
    assert (
        run(
            "log",
            numbered / table,
            "--robot",
            folder / "arm.urdf",
            *robot,
            "--compute",
            "contacts",
            "--thresholds",
            folder / "thresholds.yaml",
            "--workers",
            1,
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert f"{table}: 2 contacts" in shown and "1,200 states" in shown
    for path, more in ((folder / "pushed.csv", []), (numbered / table, robot[2:])):
        assert (
            run(
                "calibrate",
                folder / "arm.urdf",
                path,
                *robot[:2],
                *more,
                "-o",
                tmp_path / f"{path.name}.yaml",
            )
            == 0
        )
    assert parameters(tmp_path / "pushed.csv.yaml") == parameters(tmp_path / f"{table}.yaml")


def test_locked_joints(folder, tmp_path, capsys):
    """A joint that was not recorded, and one that was."""
    table = without_wrist(folder, tmp_path / "partial.csv")
    robot = [folder / "arm.urdf", "--drives", folder / "arm.drives.yaml"]
    lock = ["--lock", "wrist_3_joint=0.5", "--lock", "shoulder_pan_joint"]
    thresholds = tmp_path / "thresholds.yaml"
    assert run("calibrate", robot[0], table, *robot[1:], "-o", thresholds, *lock) == 0
    assert len(parameters(thresholds)["thresholds.fixed"]) == 4
    assert (
        run(
            "log",
            table,
            "--robot",
            *robot,
            "--compute",
            "contacts",
            "--thresholds",
            thresholds,
            "--workers",
            1,
            *lock,
        )
        == 0
    )
    shown = capsys.readouterr()
    assert "contacts.wrist_2_joint" in shown.out and "wrist_3" not in shown.out
    assert "does not have" not in shown.err  # the robot has them
    table = folder / "free_1.csv"  # where joints lie at their mean
    assert (
        run(
            "log",
            table,
            "--robot",
            *robot,
            "--compute",
            "gravity",
            "--workers",
            1,
            "--lock",
            "shoulder_lift_joint",
            "--out",
            tmp_path / "out",
            "--since",
            "+2",
            "--until",
            "+6",
        )
        == 0
    )
    assert "locked: shoulder_lift_joint = " in capsys.readouterr().err
    gravity = columns.Columns(next((tmp_path / "out").rglob("*.parquet"))).read(
        ["gravity.elbow_joint"]
    )[0]
    model = dyn_ros.Model.from_urdf_file(robot[0])
    read = columns.Columns(table)
    (q,), time, _ = read.read_with_time([f"position.{name}" for name in model.joint_names])
    q = q[(time >= time[0] + 2.0) & (time < time[0] + 6.0)]
    q[:, 1] = q[:, 1].mean()
    assert np.allclose(
        gravity[:, 0], dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)[:, 2], atol=1e-9
    )


@pytest.mark.parametrize("gain", [100.0, 1e9])
def test_a_gain_beyond_the_sampling_rate(folder, tmp_path, capsys, gain):
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            folder / "free_1.csv",
            "--gain",
            gain,
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 2
    )
    assert "gain: expected less than the sampling rate of the recordings, 100/s" in (
        capsys.readouterr().err
    )


def test_thresholds_require_motion(folder, tmp_path, capsys):
    """Without motion of any joint, and of one joint only."""
    table = columns.Columns(folder / "free_1.csv")
    values = dict(zip(table.names, np.transpose(table.read(table.names)[0])))
    names = load("ur10").joint_names
    for moving, status in ((names[:0], 2), (names[:1], 0)):
        columns.write_columns(
            tmp_path / "rest.csv",
            {
                name: values[name]
                if name == "time" or name.endswith(moving) or "effort" in name
                else values[name][:1].repeat(len(values[name])) * ("position" in name)
                for name in values
            },
        )
        assert (
            run(
                "calibrate",
                folder / "arm.urdf",
                tmp_path / "rest.csv",
                "-o",
                tmp_path / "rest.yaml",
            )
            == status
        )
    shown = " ".join(capsys.readouterr().err.split())
    assert "joints move faster than 0.05 rad/s or m/s for 0 s only; record motions" in shown
    assert f"{', '.join(names[1:])}: never faster than" in shown


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_noisy_velocities(folder, tmp_path, capsys, noise):
    """Thresholds without them would be smaller."""
    table, random = columns.Columns(folder / "free_2.csv"), np.random.default_rng(0)
    values = dict(zip(table.names, np.transpose(table.read(table.names)[0])))
    name = "velocity.shoulder_lift_joint"
    values[name] = values[name] + noise * random.normal(size=len(values[name]))
    columns.write_columns(tmp_path / "noisy.csv", values)
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            tmp_path / "noisy.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "-o",
            tmp_path / "noisy.yaml",
        )
        == 0
    )
    warned = "measured velocities are noisy or late" in (shown := capsys.readouterr().err)
    assert warned == bool(noise) and (not noise or "shoulder_lift_joint (" in shown)


@pytest.mark.parametrize("command", ["calibrate", "payload"])
def test_a_name_that_is_not_of_yaml(folder, tmp_path, capsys, command):
    with pytest.raises(SystemExit):
        run(command, folder / "arm.urdf", folder / "free_1.csv", "-o", tmp_path / "x.csv")
    assert "YAML is written; expected a file that ends with .yaml" in " ".join(
        capsys.readouterr().err.split()
    )


def test_corrupt_rows_at_the_ends(folder, tmp_path, capsys):
    """As of a recording that was started in the middle of a message: rows before it count, too."""
    names, *lines = (folder / "free_1.csv").read_text().splitlines()
    clean = lines[8:-3]
    wrong = [line.split(",") for line in lines]
    wrong[3][2] = wrong[5][4] = "253.0"  # among rows that are corrupt
    wrong[7][9], wrong[-3][0] = "1e300", "1e150"
    for name, rows in (("clean", clean), ("corrupt", map(",".join, wrong))):
        (tmp_path / f"{name}.csv").write_text("\n".join([names, *rows]) + "\n")
        assert (
            run(
                "calibrate",
                folder / "arm.urdf",
                tmp_path / f"{name}.csv",
                "--drives",
                folder / "arm.drives.yaml",
                "-o",
                tmp_path / f"{name}.yaml",
            )
            == 0
        )
    error = capsys.readouterr().err
    assert "of the motor" not in error
    assert "left out 8 rows at the beginning" in error and "left out 3 rows at the end" in error
    assert parameters(tmp_path / "corrupt.yaml") == parameters(tmp_path / "clean.yaml")
    assert (
        run(
            "log",
            tmp_path / "corrupt.csv",
            "--robot",
            folder / "arm.urdf",
            "--compute",
            "residual",
            "--workers",
            1,
        )
        == 1
    )
    shown = capsys.readouterr()
    assert "5,989 states" in shown.out and "of the motor" not in shown.err
    assert "left out 8 rows at the beginning" in shown.err


@pytest.mark.parametrize(
    "options, message",
    [
        (["--lock", "finger"], "lock: joint 'finger' is unknown"),
        (["--columns", "time=t"], "the table has no column 't'"),
        (["--columns", "time=time", "time=t"], "--columns: 'time' is given 2 times; give it once"),
    ],
)
def test_wrong_joints_and_columns(folder, tmp_path, capsys, options, message):
    table = folder / "free_1.csv"
    assert run("calibrate", folder / "arm.urdf", table, "-o", tmp_path / "t.yaml", *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert run("log", table, *options) == 2
    assert f"{options[0]}: pass --robot too" in capsys.readouterr().err


def without_velocities(text):
    return (
        "\n".join(
            ",".join(line.split(",")[:7] + line.split(",")[13:]) for line in text.splitlines()
        )
        + "\n"
    )


def with_late_velocities(text, delay):
    names, *rows = text.splitlines()
    table = np.array([row.split(",") for row in rows], float)
    for k in range(7, 13):
        table[:, k] = np.interp(table[:, 0] - delay, table[:, 0], table[:, k])
    return "\n".join([names, *(",".join(map(repr, row)) for row in table.tolist())]) + "\n"


def test_velocities_from_positions(folder, tmp_path, capsys):
    """Pushes are found, and nothing else, with the rates of the positions."""
    for name in ("free_1", "free_2", "pushed", "other"):
        (tmp_path / f"{name}.csv").write_text(
            without_velocities((folder / f"{name}.csv").read_text())
        )
    robot = [folder / "arm.urdf", "--drives", folder / "arm.drives.yaml"]
    assert (
        run(
            "calibrate",
            robot[0],
            tmp_path / "free_1.csv",
            tmp_path / "free_2.csv",
            *robot[1:],
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    error = capsys.readouterr().err
    assert "free_1.csv: the velocities of shoulder_pan_joint" in error
    assert "are computed from the positions, with a filter of 10 Hz" in error
    limits = [
        np.array(parameters(folder / "thresholds.yaml")["thresholds.fixed"])
        for folder in (folder, tmp_path)
    ]
    assert np.all(limits[1] < 1.5 * limits[0])
    for name, output in (("pushed", "pushed.csv: 2 contacts"), ("other", "no contacts")):
        assert (
            run(
                "log",
                tmp_path / f"{name}.csv",
                "--robot",
                *robot,
                "--compute",
                "contacts",
                "state",
                "--thresholds",
                tmp_path / "thresholds.yaml",
                "--workers",
                1,
                "--out",
                tmp_path / name,
            )
            == 0
        )
        shown = capsys.readouterr()
        assert output in shown.out and "computed from the positions" in shown.err
    table = columns.Columns(next((tmp_path / "other").rglob("*.parquet")))
    assert np.isnan(table.read(["velocity.elbow_joint"])[0]).all()  # as recorded
    path = tmp_path / "no_efforts.csv"
    path.write_text(
        "\n".join(
            ",".join(line.split(",")[:7])
            for line in (folder / "free_1.csv").read_text().splitlines()
        )
        + "\n"
    )
    assert run("log", path, "--robot", robot[0], "--compute", "residual", "--workers", 1) == 0
    error = capsys.readouterr().err
    assert "the efforts of shoulder_pan_joint" in error and "computed from the positions" in error
    assert "the velocities of shoulder_pan_joint" in error and error.count("are unknown") == 1
    assert (
        run(
            "calibrate",
            robot[0],
            tmp_path / "free_1.csv",
            "--velocity",
            "-o",
            tmp_path / "none.yaml",
        )
        == 2
    )
    assert "they require velocities and efforts of all joints" in capsys.readouterr().err


@pytest.mark.parametrize(
    "scale, rows, got",
    [
        (950.5, 500, "500 states with a sampling period of 9.505 s; convert other units"),
        (1.0, 15, "15 states with a sampling period of 0.01 s; convert other units, or record"),
    ],
)
def test_velocities_that_cannot_be_computed(folder, tmp_path, capsys, scale, rows, got):
    """Stamps in another unit, or a recording that is too short."""
    names, *lines = without_velocities((folder / "free_1.csv").read_text()).splitlines()[: rows + 1]
    (tmp_path / "run.csv").write_text(
        "\n".join(
            [
                names,
                *(
                    ",".join([repr(scale * float(line.split(",")[0])), *line.split(",")[1:]])
                    for line in lines
                ),
            ]
        )
        + "\n"
    )
    assert (
        run(
            "log",
            tmp_path / "run.csv",
            "--robot",
            folder / "arm.urdf",
            "--compute",
            "residual",
            "--workers",
            1,
        )
        == 0
    )
    error = capsys.readouterr().err
    assert "joint cannot be computed from the positions: expected stamps in s" in error
    assert got in error and "are computed" not in error and "are unknown" not in error


def test_velocities_that_are_late(folder, tmp_path, capsys):
    """A filter of the driver delays them: its delay is in the warning, and the remedy works."""
    for name in ("free_1", "free_2", "pushed", "other"):
        (tmp_path / f"{name}.csv").write_text(
            with_late_velocities((folder / f"{name}.csv").read_text(), 0.15)
        )
    robot = [folder / "arm.urdf", "--drives", folder / "arm.drives.yaml"]
    free = [tmp_path / "free_1.csv", tmp_path / "free_2.csv"]
    limits = {}
    for kind, options in (("late", []), ("rates", ["--no-velocity"])):
        assert (
            run("calibrate", robot[0], *free, *robot[1:], *options, "-o", tmp_path / f"{kind}.yaml")
            == 0
        )
        limits[kind] = np.array(parameters(tmp_path / f"{kind}.yaml")["thresholds.fixed"])
        error = capsys.readouterr().err
        assert (
            "lag behind the positions by 150 ms, as a filter delays them; compute them from "
            "the positions with --no-velocity" in error
        ) == (kind == "late")
    assert np.all(limits["rates"] < 0.9 * limits["late"])
    assert limits["rates"][0] < 0.2 * limits["late"][0]  # its link has the largest inertia
    assert "`dyn_ros log --no-velocity`, too" in (tmp_path / "rates.yaml").read_text()
    for name, output in (("pushed", "pushed.csv: 2 contacts"), ("other", "no contacts")):
        log = [
            "log",
            tmp_path / f"{name}.csv",
            "--robot",
            *robot,
            "--compute",
            "contacts",
            "--thresholds",
            tmp_path / "rates.yaml",
            "--workers",
            1,
        ]
        assert run(*log, "--no-velocity") == 0
        assert output in capsys.readouterr().out
        assert run(*log) == 0
        assert "lag behind the positions by 150 ms" in capsys.readouterr().err
    assert run("identify", *robot[:1], free[0], "--velocity", *robot[1:]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "lag behind the positions by 150 ms" in shown
    assert "use the positions alone, with --no-velocity" in shown


def test_velocities_of_usual_filters_are_not_late(folder, tmp_path, capsys):
    (tmp_path / "free.csv").write_text(
        with_late_velocities((folder / "free_1.csv").read_text(), 0.005)
    )
    assert (
        run(
            "calibrate",
            folder / "arm.urdf",
            tmp_path / "free.csv",
            "--drives",
            folder / "arm.drives.yaml",
            "-o",
            tmp_path / "thresholds.yaml",
        )
        == 0
    )
    assert "lag" not in capsys.readouterr().err


def test_thresholds_of_another_robot(folder, tmp_path, capsys):
    """It has as many joints, with other names."""
    renamed_urdf = (folder / "arm.urdf").read_text().replace("wrist_3_joint", "flange_joint")
    (tmp_path / "other.urdf").write_text(renamed_urdf)
    table = (folder / "pushed.csv").read_text().replace("wrist_3_joint", "flange_joint")
    (tmp_path / "pushed.csv").write_text(table)
    assert (
        run(
            "log",
            tmp_path / "pushed.csv",
            "--robot",
            tmp_path / "other.urdf",
            "--compute",
            "contacts",
            "--thresholds",
            folder / "thresholds.yaml",
        )
        == 2
    )
    error = " ".join(capsys.readouterr().err.split())
    assert "thresholds: of a robot with the joints shoulder_pan_joint" in error
    assert "flange_joint; calibrate them for this robot" in error
    values = parameters(folder / "thresholds.yaml")  # as of an older version
    assert values.pop("joints")[5] == "wrist_3_joint"
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(values))
    assert (
        run(
            "log",
            tmp_path / "pushed.csv",
            "--robot",
            tmp_path / "other.urdf",
            "--compute",
            "contacts",
            "--thresholds",
            tmp_path / "old.yaml",
            "--workers",
            1,
        )
        == 0
    )
