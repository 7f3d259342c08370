# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Likely causes of errors, in recordings with a known cause that a model does not explain."""

import dataclasses
import re

import numpy as np
import pytest
from identification.recordings import measure, offsets, perturbed, record, waves
from identification.robots import load

import dyn_ros
from dyn_ros.drives import causes

ARM7 = dyn_ros.__path__[0] + "/robots/arm7.urdf"


def record_with_drives(seed=0, **drives):
    true = perturbed(load("ur10"), seed=seed)
    true.drives = true.drives.with_values(**drives)
    motion = waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41], seed)
    return record(true, motion, noise=0.01, rate=250.0, seed=seed)


def warnings(recording, tau=None, **options):
    """Return the warnings of joints whose errors are more than noise."""
    if tau is not None:
        recording = dataclasses.replace(recording, tau=tau)
    model = load("ur10")
    result = dyn_ros.identify(model, recording.samples(model), **options)
    return [text for text in result.warnings if "more than the noise" in text]


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_explains_the_torques_has_no_cause(seed):
    assert warnings(record_with_drives(seed)) == []


@pytest.mark.parametrize("late, word", [(12, "late"), (-12, "early")])
def test_efforts_of_other_times(late, word):
    recording = record_with_drives()
    tau = np.roll(recording.tau, late // 4, axis=0)  # at 250 samples per second
    texts = [text for text in warnings(recording, tau) if word in text]
    assert len(texts) >= 2
    for text in texts:
        assert abs(float(re.search(r"delay: (\S+)", text)[1]) - 1e-3 * late) < 2e-3


def test_efforts_that_were_filtered():
    from scipy.signal import butter, lfilter

    recording = record_with_drives()
    tau = lfilter(*butter(1, 5.0, fs=250.0), recording.tau, axis=0)  # 32 ms late
    texts = warnings(recording, tau)
    delays = [float(x) for x in re.findall(r"delay: (\S+)", "; ".join(texts))]
    np.testing.assert_allclose(delays, 0.032, atol=0.003)
    assert all(name in "; ".join(texts) for name in load("ur10").joint_names)


def test_what_remains_unclear_if_other_efforts_are_late():
    recording = record_with_drives()
    tau = np.roll(recording.tau, 5, axis=0)
    tau[:, 2] += 30.0 * np.sin(40.0 * recording.exact_q[:, 2])
    texts = warnings(recording, tau)
    assert any(
        "elbow_joint" in text and "declare the delay of the other joints first" in text
        for text in texts
    ), texts


def test_friction_that_depends_on_the_load():
    recording = record_with_drives(load_friction=[0.0, 0.1, 0.1, 0.0, 0.0, 0.0])
    texts = warnings(recording, friction_terms=[])
    assert sorted(
        re.findall(r": (\S+)_joint .*friction of 0.1 times the load", "\n".join(texts))
    ) == ["elbow", "shoulder_lift"]
    assert all("; allow load_friction with friction_terms=" in text for text in texts)
    assert all(re.search(r"_joint \([\d.e-]+, [\d.e-]+ N m\)", text) for text in texts)
    assert warnings(recording) == []


def test_a_term_of_friction_that_was_tried_is_not_advised():
    names = ["root_friction", "stribeck"]
    assert causes._term_text(names, ["stribeck"]).startswith("allow root_friction and stribeck")
    assert causes._term_text(names, [*names, "load_friction"]).startswith(
        "root_friction and stribeck did not lower the error"
    )


def test_a_gain_that_does_not_fit_the_other_joints():
    recording = record_with_drives()
    tau = recording.tau * np.where(np.arange(6) == 2, 0.1, 1.0)
    texts = [text for text in warnings(recording, tau) if "elbow_joint" in text]
    assert len(texts) == 1 and "unit" in texts[0] and "sign" in texts[0]


def test_a_gain_that_nearly_fits_the_other_joints():
    recording = record_with_drives()
    [text] = warnings(recording, recording.tau * np.where(np.arange(6) == 2, 1.3, 1.0))
    assert "contradicts the other joints; check the sign, unit, gain and order" in text


def test_drives_that_subtract_the_gravity_of_the_description():
    """The recorded robot has other inertias than the description."""
    recording, model = record_with_drives(), load("ur10")
    subtracted = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), recording.exact_q)
    recording = dataclasses.replace(recording, tau=recording.tau - subtracted)
    model.drives = model.drives.with_values(is_compensated=True)
    texts = "\n".join(dyn_ros.identify(model, recording.samples(model)).warnings)
    assert "set the tool and the load in the controller" in texts
    assert "do not declare" not in texts


def test_swapped_efforts_of_two_joints_that_move_alone():
    """Its estimate is at the limit of what numbers can express."""
    true, moves = perturbed(load("ur10")), np.isin(np.arange(6), [1, 2])

    def motion(time):
        q, v, a = waves(np.zeros(6), 1.0, [0.1, 0.23, 0.41])(time)
        return np.where(moves, q, 0.3), v * moves, a * moves

    recording = record(true, motion, noise=0.01, rate=200.0, offset=offsets(true))
    tau = recording.tau[:, [0, 2, 1, 3, 4, 5]]
    model = load("ur10")
    assert any(
        "check the order of the columns" in text
        for text in dyn_ros.identify(
            model, dataclasses.replace(recording, tau=tau).samples(model)
        ).warnings
    )


def test_efforts_in_another_order():
    recording = record_with_drives()
    texts = warnings(recording, recording.tau[:, [1, 0, 2, 3, 4, 5]])
    assert texts and not any("declare" in text for text in texts)
    assert any("shoulder_pan_joint (" in text and "order of efforts" in text for text in texts)


@pytest.mark.parametrize(
    "joint, factor",
    [("shoulder_pan_joint", -1.0), ("elbow_joint", -1.0), ("shoulder_pan_joint", -0.1)],
)
def test_a_sign_that_is_wrong(joint, factor):
    """Gravity loads the joint or not, and the unit may be wrong, too."""
    recording = record_with_drives()
    tau = recording.tau * np.where(np.array(load("ur10").velocity_names) == joint, factor, 1.0)
    texts = warnings(recording, tau)
    [text] = [text for text in texts if "its sign is wrong" in text]
    assert f"{joint} (" in text
    assert 0.8 < float(re.search(r"its effort is (\S+) times", text)[1]) / factor < 1.2
    assert 0.8 < float(re.search(r"gain: (\S+) in the drives", text)[1]) * factor < 1.2
    for warning in texts:
        assert warning == text or f"correct the sign of {joint} first" in warning


@pytest.mark.parametrize("seed, of_motors", [(1, True), (1, False), (2, False), (5, False)])
def test_a_motor_that_moves_two_joints(seed, of_motors):
    """Its coupling is not declared; efforts are torques of the motors, or at the joints."""
    true, G, rotors = perturbed(load("ur10"), seed=seed), np.eye(6), np.array([0.0] * 5 + [0.02])
    G[5, 4] = 1.0
    true.armature = np.full(6, 0.05)
    true.drives = true.drives.with_values(coupling=G)
    time = np.arange(6000) / 250.0
    q, v, a = waves(np.zeros(6), 1.2, [0.1, 0.23, 0.61])(time)
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a) + (a @ G.T * rotors) @ G
    recording = measure(true, time, q, v, a, tau, counts=2**19, noise=0.01, offset=None, seed=0)
    model, tau = load("ur10"), recording.tau
    if of_motors:
        tau = np.linalg.solve(G.T, tau.T).T
    texts = [
        text
        for text in dyn_ros.identify(
            model, dyn_ros.Samples.from_arrays(model, time, recording.q, tau)
        ).warnings
        if "declare motors" in text
    ]
    [text] = [text for text in texts if "wrist_3_joint (" in text]
    assert "rotor and friction of wrist_2_joint explain" in text
    assert "as if one motor moved both" in text
    for text in texts:
        assert text.endswith("wrist_2_joint and wrist_3_joint first, which may be the cause") == (
            "wrist_3_joint (" not in text
        )


@pytest.mark.parametrize("robot", ["ur10", "panda", "arm7"])
def test_no_motor_and_no_sign_is_suspected_without_reason(robot):
    """Torques are clean, or their errors have other causes."""

    def described():
        return load(robot) if robot != "arm7" else dyn_ros.Model.from_urdf_file(ARM7)

    true, model = perturbed(described(), seed=0), described()
    middle = np.clip(0.0, 0.8 * true.lower, 0.8 * true.upper)
    recording = record(true, waves(middle, 0.8, [0.1, 0.23, 0.41]), noise=0.01, rate=250.0)
    size = np.sqrt(np.mean(recording.tau**2, axis=0))
    for tau in (
        recording.tau,
        recording.tau + 0.1 * size * np.sin(7.0 * recording.q),
        np.roll(recording.tau, 5, axis=0),
        recording.tau * (1.0 + 0.1 * np.sin(np.arange(len(size)) + 1.0)),
    ):
        samples = dataclasses.replace(recording, tau=tau).samples(model)
        texts = dyn_ros.identify(model, samples, friction_terms=[]).warnings
        assert not [text for text in texts if "motor moved" in text or "sign is wrong" in text]


def test_a_spring_is_not_a_motor_that_moves_two_joints():
    """Joints that move at the same frequencies have accelerations like the position of another."""
    true = perturbed(load("ur10"), seed=3)
    middle = np.clip((true.lower + true.upper) / 2.0, -3.0, 3.0)
    recording = record(
        true, waves(middle, 1.2, [0.1, 0.23, 0.41], 3), noise=0.01, rate=200.0, seed=3
    )
    spring = 0.3 * recording.tau.std(axis=0) * (recording.q - recording.q.mean(axis=0))
    texts = warnings(recording, recording.tau + spring)
    assert any("shoulder_pan_joint (" in text for text in texts)
    assert not any("motor" in text for text in texts)


def test_a_cable_is_not_a_motor_that_moves_two_joints():
    """With one frequency for each joint, its acceleration is proportional to its position."""
    waves_of = [waves([0.0], 0.8, [0.1 + 0.07 * k], k) for k in range(6)]
    recording = record(
        perturbed(load("ur10"), seed=1),
        noise=0.01,
        rate=100.0,
        seed=1,
        motion=lambda t: tuple(map(np.hstack, zip(*(motion(t) for motion in waves_of)))),
    )
    tau, angle = recording.tau.copy(), recording.exact_q[:, 4]
    tau[:, 5] += 0.15 * tau[:, 5].std() * angle / angle.std()
    [text] = warnings(recording, tau)
    assert "wrist_3_joint (" in text and "joints or cables may be flexible" in text


def test_drives_that_subtract_the_gravity_of_another_robot():
    model, recording = load("ur10"), record_with_drives(2)
    compensated = np.arange(6) < 3
    model.drives = model.drives.with_values(is_compensated=compensated)
    for heavier, words in ((1.0, []), (1.2, ["shoulder_lift", "elbow"])):
        effort = recording.tau - heavier * compensated * dyn_ros.generalized_gravity(
            recording.true, dyn_ros.Data(recording.true), recording.q
        )
        texts = dyn_ros.identify(
            model, dyn_ros.Samples.from_arrays(model, recording.time, recording.q, effort)
        ).warnings
        texts = "".join(text for text in texts if "subtracts another gravity torque" in text)
        assert re.findall(r"(\w+)_joint \(", texts) == words
