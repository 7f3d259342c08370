# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands ``dyn_ros identify`` and ``dyn_ros excite``."""

import re
import shutil
import subprocess
import sys
from unittest import mock

import numpy as np
import pytest
import yaml
from identification.recordings import perturbed, record, waves
from identification.robots import UR10, load

import dyn_ros
from dyn_ros import identification
from dyn_ros.command import main as cli
from dyn_ros.recordings.tables import columns

ARM = "dyn_ros/robots/arm7.urdf"


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A recording of an arm with other parameters, as a CSV file."""
    true = perturbed(load("ur10"), seed=1)
    recording = record(true, waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7]), noise=0.014, rate=250.0)
    path = tmp_path_factory.mktemp("recording") / "recording.csv"
    columns.write_columns(path, recording.table())
    return path


def run(*arguments):
    return cli.main([str(argument) for argument in arguments])


def test_identify(table, tmp_path, capsys):
    output, report = tmp_path / "new.urdf", tmp_path / "report.html"
    # in this description, wrists are outside of their meshes
    assert run("identify", UR10, table, "-o", output, "--report", report, "--no-shapes") == 0
    shown = capsys.readouterr().out
    assert "58 of 58 combinations of parameters are determined" in shown
    assert f"wrote {output}" in shown and f"wrote {report}" in shown
    assert "shoulder_pan_joint" in shown and "warning" not in shown
    model = dyn_ros.Model.from_urdf_file(output)
    assert dyn_ros.is_physical(model.inertial_parameters).all() and (model.friction > 0.0).all()
    assert report.read_text().startswith("<!DOCTYPE html>")


def test_several_recordings_without_friction(table, tmp_path, capsys):
    count = len(dyn_ros.Samples.from_table(load("ur10"), table))
    for name in ("one.csv", "other.csv"):
        shutil.copy(table, tmp_path / name)
    for recordings in (tmp_path, tmp_path / "o*.csv"):
        assert run("identify", UR10, recordings, "--no-friction", "--no-armature") == 0
        shown = capsys.readouterr().out
        assert f" of 36 combinations of parameters are determined; {2 * count} samples" in shown
    # a folder may contain more than fits in memory
    with mock.patch(
        "dyn_ros.logs.identify_recordings.identify_recordings", side_effect=ValueError("in parts")
    ):
        assert run("identify", UR10, tmp_path) == 2
    assert "in parts" in capsys.readouterr().err


def test_locked_joints(table, tmp_path, capsys):
    output = tmp_path / "new.urdf"
    assert run("identify", UR10, table, "--lock", "wrist_3_joint=0.1", "-o", output) == 0
    assert "locked: wrist_3_joint = 0.1 (as given)" in capsys.readouterr().out
    assert dyn_ros.Model.from_urdf_file(output).nv == 6
    assert run("identify", UR10, table, "--lock", "wrist_3_joint", "--workers", 1) == 0
    shown = capsys.readouterr()
    assert "locked: wrist_3_joint = " in shown.err and "wrist_3" not in shown.out


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
def test_a_locked_joint_needs_no_efforts(table, tmp_path, capsys, options):
    names, *rows = (line.split(",")[:-1] for line in table.read_text().splitlines())
    assert "effort.wrist_3_joint" not in names
    path = tmp_path / "without.csv"
    path.write_text("\n".join(map(",".join, [names, *rows])) + "\n")
    assert run("identify", UR10, path, *options) == 2
    assert "wrist_3_joint'" in capsys.readouterr().err
    assert run("identify", UR10, path, "--lock", "wrist_3_joint", *options) == 0
    shown = capsys.readouterr()
    assert "locked: wrist_3_joint = " in shown.out + shown.err
    assert len(re.findall("^ [a-z]+_.*joint", shown.out, re.MULTILINE)) == 2 * 5


def test_drives_of_locked_joints_are_kept(table, tmp_path):
    drives, output = tmp_path / "drives.yaml", tmp_path / "new.urdf"
    drives.write_text(
        "joints: {wrist_3_joint: {unit: A, gain: 2.5, gravity_compensated: true}, "
        "elbow_joint: {offset: 0.5}}"
    )
    assert (
        run("identify", UR10, table, "--lock", "wrist_3_joint", "--drives", drives, "-o", output)
        == 0
    )
    joints = yaml.safe_load((tmp_path / "new.drives.yaml").read_text())["joints"]
    properties = {"unit": "A", "gain": 2.5, "gravity_compensated": True}
    assert joints["wrist_3_joint"].items() >= properties.items()
    assert joints["elbow_joint"]["friction"] > 0.0 and joints["elbow_joint"]["offset"] != 0.5


@pytest.fixture(scope="module")
def arm_with_negated_efforts(tmp_path_factory):
    """Arguments for a recording of three joints whose efforts have the wrong sign."""
    locked = {f"wrist_{k}_joint": 0.0 for k in (1, 2, 3)}
    model = load("ur10").reduced(lock=locked)
    recording = record(
        perturbed(model, seed=1), waves(np.zeros(3), 1.2, [0.1, 0.4]), noise=0.014, rate=100.0
    )
    table = {
        name: -values if name.startswith("effort.") else values
        for name, values in recording.table().items()
    }
    path = tmp_path_factory.mktemp("negated") / "recording.csv"
    columns.write_columns(path, table)
    options = [word for name in locked for word in ("--lock", f"{name}=0")]
    return UR10, path, *options, "--no-shapes", "--friction-terms", "none"


def test_faults_of_efforts_are_shown_before_the_estimation(arm_with_negated_efforts, capsys):
    fit = "dyn_ros.identification.solution.choose_terms"
    with mock.patch(fit, side_effect=ValueError("starts to estimate")):
        assert run("identify", *arm_with_negated_efforts) == 2
    shown = capsys.readouterr()
    assert "its sign is wrong" in shown.out and "starts to estimate" in shown.err


def test_faults_stand_above_the_tables_and_end_with_3(arm_with_negated_efforts, capsys):
    collapsed = "dyn_ros.identification.solution.collapsed_masses"
    with mock.patch(collapsed, return_value=["masses collapsed"]):
        assert run("identify", *arm_with_negated_efforts) == 3
    above, _, below = capsys.readouterr().out.partition("Torque errors")
    text = "times the gravity torque of the description, so its sign is wrong"
    assert text in " ".join(above.split()) and text not in " ".join(below.split())
    assert "masses collapsed" in above and "masses collapsed" not in below


def test_progress_is_shown_without_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dyn_ros.command.tables._PROGRESS_PERIOD", 0.0)
    options = ["--duration", "4", "--period", "4"]
    assert run("excite", ARM, *options, "-o", tmp_path / "motion.csv") == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("searching")]
    assert len(lines) > 3 and lines[-1] == "searching: 100 %, 0 s left"


@pytest.mark.parametrize("options, are_known", [([], True), (["--no-shapes"], False)])
def test_shapes_are_those_of_the_description(table, options, are_known):
    with mock.patch.object(identification, "identify", wraps=identification.identify) as called:
        assert run("identify", UR10, table, *options) == 0
    shapes = called.call_args.kwargs["shapes"]
    assert (shapes is not None and "forearm_link" in shapes) == are_known


def test_unknown_shapes_are_reported(table, tmp_path, capsys):
    (tmp_path / "ur10.urdf").write_text(UR10.read_text())
    assert run("identify", tmp_path / "ur10.urdf", table, "--friction-terms", "none") == 0
    error = capsys.readouterr().err
    assert "the shapes of 7 of 11 links are unknown, such as base_link" in error


@pytest.mark.parametrize("options", [(), ("--workers", "1")])
def test_columns_with_other_names(table, tmp_path, capsys, options):
    path = tmp_path / "other.csv"
    path.write_text(
        "t,q_1,q_2,q_3,q_4,q_5,q_6,i_1,i_2,i_3,i_4,i_5,i_6\n" + table.read_text().partition("\n")[2]
    )
    assert (
        run("identify", UR10, path, *options, "--columns", "time=t", "position=q_{}", "effort=i_{}")
        == 0
    )
    assert "58 of 58 combinations of parameters are determined" in capsys.readouterr().out
    assert run("identify", UR10, path, *options) == 2
    assert "--columns" in capsys.readouterr().err


def test_options_of_python(table, tmp_path, capsys):
    recording = dict(
        zip(
            table.read_text().partition("\n")[0].split(","),
            np.loadtxt(table, delimiter=",", skiprows=1).T,
        )
    )
    constants = np.array([10.0, -5.0, 8.0, 1.0, 1.0, 2.0])
    names = load("ur10").velocity_names
    for name, constant in zip(names, constants):
        recording[f"effort.{name}"] /= constant
        recording[f"velocity.{name}"] = np.gradient(
            recording[f"position.{name}"], recording["time"]
        )
    columns.write_columns(tmp_path / "currents.csv", recording)
    with mock.patch.object(identification, "identify", wraps=identification.identify) as called:
        assert (
            run(
                "identify",
                UR10,
                tmp_path / "currents.csv",
                "--velocity",
                "--regularization",
                "3",
                "--effort-constant",
                *constants,
            )
            == 0
        )
    assert called.call_args.kwargs["regularization"] == 3.0
    assert np.array_equal(called.call_args.kwargs["motor_constants"], constants)
    assert "of velocities at" in called.call_args.args[1].filter
    assert run("identify", UR10, table, "--effort-constant", "1", "2") == 2
    assert "--effort-constant: expected 6 numbers, for shoulder_pan" in capsys.readouterr().err


def test_friction_beyond_a_urdf_is_shown(tmp_path, capsys):
    true = perturbed(load("ur10"), seed=1)
    true.drives = true.drives.with_values(load_friction=[0.0, 0.08, 0.0, 0.0, 0.0, 0.0])
    recording = record(true, waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41]), noise=0.01, rate=250.0)
    path, report = tmp_path / "recording.csv", tmp_path / "report.html"
    columns.write_columns(path, recording.table())
    assert run("identify", UR10, path, "--no-shapes", "--report", report) == 0
    chosen = re.findall(r"further friction: (\S+): load_friction 0\.0(\d)", capsys.readouterr().out)
    assert chosen == [("shoulder_lift_joint", "8")] or chosen == [("shoulder_lift_joint", "7")]
    assert "load friction" in report.read_text()
    assert run("identify", UR10, path, "--no-shapes", "--friction-terms", "none") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "further friction" not in shown
    assert re.search(r"shoulder_lift_joint .*; friction of 0\.08\d* times the load", shown)


def test_errors_on_recordings_that_are_not_used(table, tmp_path, capsys):
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    for name, part in (("a.csv", rows[:3000]), ("b.csv", rows[3000:])):
        columns.write_columns(
            tmp_path / name, dict(zip(table.read_text().partition("\n")[0].split(","), part.T))
        )
    report = tmp_path / "report.html"
    assert (
        run(
            "identify",
            UR10,
            tmp_path / "a.csv",
            "--validate",
            tmp_path / "b.csv",
            "--report",
            report,
        )
        == 0
    )
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert "--validate" not in printed.err
    title = next(n for n, line in enumerate(lines) if "recordings of --validate" in line)
    shown = next(line.split() for line in lines[title:] if "shoulder_lift_joint" in line)
    before, least_squares, after, noise = map(float, shown[2:6])
    assert before > 10.0 * after and 0.9 * noise < after < 1.2 * noise
    assert 0.9 * noise < least_squares < 2.0 * after
    cutoffs = re.findall(r"samples, filtered at (\S+) Hz", printed.out)
    assert len(cutoffs) == 2 and cutoffs[0] == cutoffs[1]
    row = report.read_text().partition("unseen after")[2].partition("shoulder_lift_joint")[2]
    numbers = [float(text) for text in re.findall(r">([\d.]+)<", row.partition("</tr>")[0])]
    np.testing.assert_allclose(numbers[6:], [before, least_squares, after], rtol=1e-3)


def test_validation_with_a_recording_that_is_used(table, tmp_path, capsys):
    (tmp_path / "link.csv").symlink_to(table)
    lines = table.read_text().splitlines(keepends=True)
    (tmp_path / "twice.csv").write_text("".join(lines[:1500] + lines[1499:]))
    assert (
        run(
            "identify",
            UR10,
            table,
            "--no-shapes",
            "--friction-terms",
            "none",
            "--validate",
            tmp_path / "link.csv",
            tmp_path / "twice.csv",
        )
        == 0
    )
    error = capsys.readouterr().err
    assert f"{tmp_path / 'link.csv'} is among the recordings that are used" in error
    assert f"{tmp_path / 'twice.csv'}: dropped 1 samples that repeat" in error


def test_validation_in_degrees(table, tmp_path, capsys):
    measured_columns = dict(
        zip(
            table.read_text().partition("\n")[0].split(","),
            np.loadtxt(table, delimiter=",", skiprows=1).T,
        )
    )
    columns.write_columns(
        tmp_path / "degrees.csv",
        {name: np.degrees(x) if "position" in name else x for name, x in measured_columns.items()},
    )
    assert (
        run(
            "identify",
            UR10,
            table,
            "--no-shapes",
            "--friction-terms",
            "none",
            "--validate",
            tmp_path / "degrees.csv",
        )
        == 0
    )
    assert "--validate: positions lie far beyond the limits" in capsys.readouterr().err


def test_an_interval_of_a_table(table, capsys):
    def shown(*arguments):
        assert run("identify", UR10, table, "--cutoff", "5", *arguments) == 0
        return re.search(r"(\d+) samples", capsys.readouterr().out)[1]

    assert shown("--since", "+5", "--until", "+15") == shown("--since", "5", "--until", "15")
    assert int(shown("--since", "+5", "--until", "+15")) == 2500 - 2 * 101
    assert run("identify", UR10, table, "--since", "+9999") == 2
    assert "no sample is in this interval" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["recording.csv", "--validate", "missing.csv"], "'missing.csv' does not exist: expected"),
        (
            ["recording.csv", "--workers", "1", "--columns", "time=t"],
            "recording.csv: columns: time: the table has no column 't'",
        ),
        (["empty.csv"], "empty.csv: the table is empty: 0 bytes"),
        (["empty.csv", "--workers", "1"], "empty.csv: the table is empty: 0 bytes"),
        (["head.csv"], "head.csv: the table has no rows"),
        (["head.csv", "--workers", "1"], "head.csv: has no rows"),
        (
            ["recording.csv", "--until", "+0.9", "--cutoff", "5"],
            "samples: expected at least 140 to "
            "identify 'ur10', got 25 that the filter leaves; record for at least 0.46 s longer",
        ),
        (["recording.csv", "--lock", "wrist_4_joint"], "no joint 'wrist_4_joint'"),
        (["recording.csv", "--stribeck", "1e-300"], "at least 1e-06, got 1e-300"),
        (["missing.csv"], "'missing.csv' does not exist: expected a file that ends with"),
        (
            ["recording.csv", "-o", "nowhere/new.urdf"],
            "there is no folder 'nowhere'; create it first",
        ),
        (
            ["recording.csv", "--contact-dimension", "6", "--root-joint", "floating"],
            "position.root_joint/x",
        ),
        (["recording.csv", "--cutoff", "400"], "cutoff: expected"),
        (
            ["recording.csv", "--columns", "time=time", "time=t"],
            "--columns: 'time' is given 2 times",
        ),
        (
            ["recording.csv", "--lock", "elbow_joint", "--lock", "elbow_joint=1"],
            "--lock: 'elbow_joint' is given 2 times; give it once",
        ),
        (
            ["recording.csv", "--effort-constant", "elbow_joint=0"],
            "numbers other than 0, below 1e+12, got 0 for elbow_joint; lock",
        ),
        (["recording.csv", "--effort-constant", "1e300"], "got 1e+300 for shoulder_pan_joint"),
        (["recording.csv", "--effort-constant", "nan"], "got nan for shoulder_pan_joint"),
    ],
)
def test_errors_name_the_value(table, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(table.parent)
    (table.parent / "empty.csv").touch()
    (table.parent / "head.csv").write_text(table.read_text().partition("\n")[0] + "\n")
    assert run("identify", UR10, *arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["--report", "report.pdf"],
        ["-o", "a.yaml"],
        ["--threads", "0"],
        ["--stribeck", "-1"],
        ["--lock", "elbow_joint=x"],
        ["--columns", "recording.csv"],
    ],
)
def test_invalid_options(table, arguments, capsys):
    with pytest.raises(SystemExit):
        run("identify", UR10, table, *arguments)
    assert arguments[1] in capsys.readouterr().err


def test_results_are_written_although_nobody_reads_the_table(table, tmp_path):
    output = tmp_path / "new.urdf"
    command = [
        sys.executable,
        "-m",
        "dyn_ros",
        "identify",
        str(UR10),
        str(table),
        "-o",
        str(output),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in errors
    dyn_ros.Model.from_urdf_file(output)


@pytest.mark.parametrize("suffix", [".yaml", ".json", ".csv"])
@pytest.mark.usefixtures("one_start")
def test_excite(tmp_path, capsys, suffix):
    path = tmp_path / f"motion{suffix}"
    assert run("excite", ARM, "-o", path, "--duration", "10") == 0
    assert f"wrote {path}: 10 s, condition number" in capsys.readouterr().out
    assert path.stat().st_size > 1000


@pytest.mark.usefixtures("one_start")
def test_excite_without_locked_joints(tmp_path, capsys):
    path = tmp_path / "motion.yaml"
    assert (
        run(
            "excite",
            ARM,
            "-o",
            path,
            "--duration",
            "10",
            "--lock",
            "wrist_roll=0.5",
            "--lock",
            "wrist_pitch=0",
            "--lock",
            "forearm_roll=0",
        )
        == 0
    )
    names = list(dyn_ros.Model.from_urdf_file(ARM).joint_names)
    assert yaml.safe_load(path.read_text())["joint_names"] == names[:4]
    assert run("excite", ARM, "-o", path, "--lock", "wrist_roll") == 2
    assert "--lock wrist_roll=0" in capsys.readouterr().err


@pytest.mark.usefixtures("one_start")
def test_excite_warns_of_a_motion_that_says_nothing(tmp_path, capsys):
    assert run("excite", ARM, "-o", tmp_path / "motion.yaml", "--period", "0.1") == 0
    assert "warning: a condition number above 1000" in capsys.readouterr().err


def test_excite_of_a_file_that_cannot_be(tmp_path, capsys):
    assert run("excite", ARM, "-o", tmp_path / "motion.txt") == 2
    assert "motion.txt" in capsys.readouterr().err


def test_gravity_is_estimated_on_request(tmp_path, capsys):
    """The robot hangs from a slope, and has the masses of the description."""
    hanging = perturbed(load("ur10"), size=0.0)
    hanging.gravity = [2.0, 1.0, 9.5]
    recording = record(hanging, waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4, 0.7]), rate=100.0)
    path = tmp_path / "recording.csv"
    columns.write_columns(path, recording.table())
    assert run("identify", UR10, path, "--gravity", "estimate", "--no-shapes") == 0
    shown = " ".join(capsys.readouterr().out.split())
    passed = shown.partition("pass --gravity ")[2].split()[:3]
    np.testing.assert_allclose([float(word) for word in passed], hanging.gravity, atol=0.2)
    intervals = re.findall(r"([\d.-]+) \(([\d.-]+) to ([\d.-]+)\)", shown)
    assert len(intervals) == 3
    for value, lower, upper in (map(float, words) for words in intervals):
        assert lower < value < upper
    assert "mounted" not in shown


@pytest.mark.parametrize("words", [["1", "2"], ["down"], ["estimate", "0", "9.81"]])
def test_gravity_is_three_numbers_or_the_word(table, capsys, words):
    with pytest.raises(SystemExit):
        run("identify", UR10, table, "--gravity", *words)
    assert "expected three numbers, X Y Z, or 'estimate'" in capsys.readouterr().err


def test_gravity_is_not_estimated_by_workers(table, capsys):
    assert run("identify", UR10, table, "--gravity", "estimate", "--workers", "1") == 2
    assert "--gravity estimate: only without --workers" in capsys.readouterr().err
