# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The drives file: writing, reading, and messages about errors."""

import numpy as np
import pytest
import yaml
from hostile_paths import KINDS, make_path

import dyn_ros

COUPLED = """
joints:
  wrist_pitch: {unit: A, gain: 0.04, gear_ratio: -45, armature: 0.2}
  wrist_roll: {side: link}
motors: {joints: [wrist_pitch, wrist_roll], matrix: [[1, 0], [1, 1]]}
"""

ALIASES = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]\n" for k in range(1, 9)
)


@pytest.fixture
def model():
    return dyn_ros.Model.from_urdf_file(dyn_ros.__path__[0] + "/robots/arm7.urdf")


def assert_equal_drives(drives, expected):
    for name, value in vars(drives).items():
        np.testing.assert_array_equal(getattr(expected, name), value, err_msg=name)


def test_what_is_written_is_read(model, tmp_path):
    rng, nv = np.random.default_rng(0), model.nv
    values = rng.normal(size=(5, nv)).round(6)
    model.armature, model.damping, model.friction = rng.uniform(size=(3, nv)).round(6)
    model.armature = np.where(values[3] > 0.0, 0.0, model.armature)  # not behind the gear
    model.drives = dyn_ros.Drives.of(
        nv,
        unit=("A",) * nv,
        gain=values[0],
        delay=values[1],
        is_compensated=values[2] > 0.0,
        is_link_side=values[3] > 0.0,
        offset=values[4],
        load_friction=0.1,
        root_friction=values[1],
        stribeck=values[2],
        stribeck_velocity=0.2,
        friction_velocity=0.01,
        has_smooth_friction=values[0] > 0.0,
        friction_distance=np.abs(values[0]),
        coupling=np.eye(nv) + 0.5 * np.eye(nv, k=1),
    )
    dyn_ros.save_drives(model, tmp_path / "drives.yaml")
    read = dyn_ros.Model.from_urdf_file(dyn_ros.__path__[0] + "/robots/arm7.urdf")
    dyn_ros.load_drives(read, tmp_path / "drives.yaml")
    assert_equal_drives(model.drives, read.drives)
    for name in ("armature", "damping", "friction"):
        np.testing.assert_array_equal(getattr(read, name), getattr(model, name))


def test_a_file_changes_what_it_mentions(model, tmp_path):
    model.damping, model.armature = np.full(7, 0.3), np.full(7, 0.1)
    (tmp_path / "drives.yaml").write_text(COUPLED)
    dyn_ros.load_drives(model, tmp_path / "drives.yaml")
    wrist, roll = (model.velocity_names.index(name) for name in ("wrist_pitch", "wrist_roll"))
    assert model.drives.gain[wrist] == pytest.approx(-1.8) and model.drives.unit[wrist] == "A"
    assert model.armature.tolist() == [0.2 if k == wrist else 0.1 for k in range(7)]
    assert (model.damping == 0.3).all() and model.drives.is_link_side[roll]
    assert model.drives.coupling[roll, wrist] == 1.0 and model.drives.coupling[wrist, roll] == 0.0


def test_a_file_of_motors_only(model, tmp_path):
    (tmp_path / "drives.yaml").write_text(COUPLED[COUPLED.index("motors") :])
    dyn_ros.load_drives(model, tmp_path / "drives.yaml")
    assert model.drives.coupling[6, 5] == 1.0 and (model.drives.gain == 1.0).all()


def test_a_file_that_is_no_text(model, tmp_path):
    (tmp_path / "drives.yaml").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(ValueError, match=r"drives\.yaml: expected YAML in UTF-8"):
        dyn_ros.load_drives(model, tmp_path / "drives.yaml")


def test_numbers_with_an_exponent(model, tmp_path):
    (tmp_path / "drives.yaml").write_text("joints: {wrist_roll: {delay: 2e-3, gain: -1.5e1}}")
    dyn_ros.load_drives(model, tmp_path / "drives.yaml")
    assert (model.drives.delay[6], model.drives.gain[6]) == (0.002, -15.0)


@pytest.mark.parametrize(
    "text, reason",
    [
        (
            "joints: {wrist_roll: {side: link, armature: 0.2}}",
            "joint 'wrist_roll': armature: expected none with side: link, where rotors do not act",
        ),
        (
            "joints: {wrist_roll: {gain: .nan}}",
            "yaml: joint 'wrist_roll': gain: expected finite numbers, got nan",
        ),
        (
            "joints: {wrist_pitch: {rotor_inertia: -1}}",
            "yaml: joint 'wrist_pitch': rotor_inertia: expected 0 or more, got -1",
        ),
        (
            "joints: {wrist_pitch: {armature: -1}}",
            "yaml: joint 'wrist_pitch': armature: expected 0 or more, got -1",
        ),
        (
            "joints: {wrist_pitch: {rotor_inertia: 0.1}}",
            "joint 'wrist_pitch': rotor_inertia: expected only with motors that move several "
            "joints",
        ),
        (
            "joints: {wrist_roll: {gear_ratio: 0}}",
            "joint 'wrist_roll': gear_ratio: expected a finite number other than 0, got 0",
        ),
        (
            "joints: {wrist_roll: {gear_ratio: .inf}}",
            "gear_ratio: expected a finite number other than",
        ),
        (
            "joints: {wrist_roll: {gain: 0}}",
            "yaml: joint 'wrist_roll': gain: expected numbers other than 0, got 0",
        ),
        (
            "joints: {wrist_roll: {gain: high}}",
            "joint 'wrist_roll': gain: expected a number, without quotes, got 'high'",
        ),
        (
            "joints: {wrist_roll: {gain: true}}",
            "joint 'wrist_roll': gain: expected a number, without quotes, got True",
        ),
        ("joints: {wrist_roll: {gains: 2}}", "no property 'gains'; did you mean 'gain'?"),
        ("joints: {wrist_rolls: {}}", "no joint 'wrist_rolls'; did you mean 'wrist_roll'?"),
        ("joints: {wrist_roll: 3}", "joint 'wrist_roll': expected a mapping of properties, got 3"),
        ("joints: {wrist_roll: {side: left}}", "side: expected motor or link, got 'left'"),
        ("joints: {wrist_roll: {gravity_compensated: 1}}", "expected true or false, got 1"),
        ("joints: {wrist_roll: {damping: -1}}", "damping: expected numbers of 0 or more, got -1"),
        ("joints: {wrist_roll: {load_friction: -1}}", "load_friction: expected 0 or more, got -1"),
        ("joints: [wrist_roll]", "expected 'joints:', a mapping"),
        ("joints: {}\nmotor: {}", "no key 'motor'; did you mean 'motors'?"),
        ("jonts: {}", "no key 'jonts'; did you mean 'joints'?"),
        (
            "motors: {joints: [wrist_roll], matrix: [[1]], gear: 3}",
            "motors: no key 'gear'; available",
        ),
        (
            "motors: {joints: [wrist_roll]}",
            "motors: expected 'joints', a list of names, and 'matrix'",
        ),
        ("joints: {}\nmotors: {joints: [wrist_roll], matrix: [[0]]}", "a matrix of full rank"),
        (
            "joints: {}\nmotors: {joints: [wrist_roll], matrix: [[1, 2]]}",
            "expected 1 rows of 1 numbers",
        ),
        (
            "joints: {}\nmotors: {joints: [wrist_roll, wrist_roll], matrix: [[1, 2]]}",
            "of different names",
        ),
        ("joints: {wrist_roll: [}", "not valid YAML"),
        ("- 1", "expected 'joints:'"),
        ("", "expected 'joints:'"),
        (
            "joints: {wrist_roll: {gain: 2}, wrist_roll: {delay: 0.1}}",
            "'wrist_roll' is there 2 times, in line 1; remove all but one",
        ),
        ("joints:\n  wrist_roll: {gain: 2, gain: 3}", "'gain' is there 2 times, in line 2"),
        ("joints: &a {wrist_roll: *a}", "contains an alias of itself"),
        (
            "joints: {wrist_roll: {unit: }}",
            "joint 'wrist_roll': unit: expected a text, such as A, got",
        ),
        (
            "joints: {wrist_roll: {gain: [2]}}",
            "gain: expected a number, without quotes, got [2]; the largest is 1e+12",
        ),
        (
            "joints: {wrist_roll: {armature: 1.0e+300}}",
            "armature: expected a number, without quotes, got 1e+300",
        ),
        ("joints: {wrist_roll: {gain: 1" + 90 * "0" + "}}", "gain: expected a number, without"),
        (
            "joints: {}\nmotors: {joints: [], matrix: []}",
            "joints: expected a list of different names",
        ),
        (
            "joints: {}\nmotors: {joints: [wrist_roll], matrix: [[.nan]]}",
            "matrix: expected 1 rows of 1 numbers that are finite",
        ),
        ("motors: {joints: [wrist_roll], matrix: [[true]]}", "numbers that are finite, without"),
        ("motors: {joints: [wrist_roll], matrix: [['1']]}", "numbers that are finite, without"),
        ("motors: {joints: [wrist_roll], matrix: [[1" + 400 * "0" + "]]}", "in line 1 has 401"),
        ("motors: {joints: [wrist_roll], matrix: 1}", "expected 1 rows of 1 numbers"),
        ("joints: {wrist_roll: {friction: '1'}}", "friction: expected a number, without quotes"),
        ("joints: {wrist_roll: {damping: true}}", "damping: expected a number, without quotes"),
        ("joints: {wrist_roll: {gear_ratio: '2e3'}}", "gear_ratio: expected a number, without"),
        (
            "joints: {wrist_roll: {armature: .nan}}",
            "joint 'wrist_roll': armature: expected a finite number, got nan",
        ),
        ("joints: {wrist_roll: {delay: 2001-01-01}}", "delay: expected a number, without quotes"),
        ("joints: {? [1] : 2}", "not valid YAML"),
        ("joints: {1: {}}", "no joint '1'"),
        (
            "joints:\n" + "".join(f"  joint{k}: {{}}\n" for k in range(30_000)),
            "at most 20,000 keys and values",
        ),
        ("joints:\n  ? " + "a" * 900_000 + "\n  : {}", "no joint 'aaaaaaa"),
        ("joints: {wrist_roll: " + "[" * 3000 + "]" * 3000 + "}", "inside each other"),
        (ALIASES, "at most 20,000 keys and values"),
        ("x: " + "x" * 2_000_000, "more than 1,000,000 bytes"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_changes(model, tmp_path, text, reason):
    place, before, damping = tmp_path / "drives.yaml", model.drives, model.damping.copy()
    place.write_text(text)
    with pytest.raises(ValueError) as error:
        dyn_ros.load_drives(model, place)
    assert len(str(error.value)) < 1000
    assert reason in str(error.value) and str(error.value).startswith(str(place))
    assert model.drives is before and (model.damping == damping).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_no_drives_file(model, tmp_path, kind):
    path = make_path(kind, tmp_path)
    with pytest.raises((OSError, ValueError)) as error:
        dyn_ros.load_drives(model, path)
    assert path[:200] in str(error.value) or repr(path) in str(error.value)
    assert len(str(error.value)) < 1000


def test_parts_of_a_robot_keep_their_drives(model):
    model.drives = model.drives.with_values(
        gain=np.arange(1.0, 8.0), coupling=np.eye(7) + 0.5 * np.eye(7, k=-1)
    )
    part = model.reduced({model.joint_names[1]: 0.4})
    assert part.drives.gain.tolist() == [1.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert part.drives.coupling[0, 0] == 1.0 and part.drives.coupling[2, 1] == 0.5


def test_rotors_of_coupled_motors_are_written_once(model, tmp_path):
    """The file contains only joints that are coupled, and no armature, which follows."""
    G = np.eye(7)
    G[6, 5] = 0.5
    model.drives = model.drives.with_values(coupling=G, rotor_inertia=np.full(7, 0.3))
    model.armature = (G**2).T @ model.drives.rotor_inertia
    place = tmp_path / "drives.yaml"
    dyn_ros.save_drives(model, place)
    content = yaml.safe_load(place.read_text())
    for joint in content["joints"].values():
        assert joint["rotor_inertia"] == 0.3 and "armature" not in joint
    assert content["motors"] == {
        "joints": ["wrist_pitch", "wrist_roll"],
        "matrix": [[1.0, 0.0], [0.5, 1.0]],
    }
    read = dyn_ros.Model.from_urdf_file(dyn_ros.__path__[0] + "/robots/arm7.urdf")
    dyn_ros.load_drives(read, place)
    assert_equal_drives(model.drives, read.drives)
    np.testing.assert_allclose(read.armature, [0.3] * 5 + [0.375, 0.3], rtol=1e-12)
    content["joints"]["wrist_pitch"]["armature"] = 0.4  # as older files have it
    place.write_text(yaml.safe_dump(content))
    dyn_ros.load_drives(read, place)
    assert read.armature[5] == 0.4


def test_a_coupling_that_couples_nothing_remains(model, tmp_path):
    model.drives = model.drives.with_values(coupling=np.eye(7))
    dyn_ros.save_drives(model, tmp_path / "drives.yaml")
    dyn_ros.load_drives(model, tmp_path / "drives.yaml")
    assert (model.drives.coupling == np.eye(7)).all()
