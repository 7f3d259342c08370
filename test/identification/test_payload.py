# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A payload from a few poses, and from a motion."""

import copy
import dataclasses
from pathlib import Path

import numpy as np
import pytest
from identification.recordings import waves
from identification.robots import load

import dyn_ros
from dyn_ros import Samples, identify_payload

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
MASS, COM, INERTIA = 2.3, np.array([0.02, -0.03, 0.12]), np.diag([0.012, 0.011, 0.006])


def samples_of(q, v, a, noise=0.05, seed=0, frame="tool0"):
    model = load("ur10")
    loaded = copy.copy(model)
    loaded.set_payload("load", frame, MASS, COM, INERTIA)
    tau = dyn_ros.rnea(loaded, dyn_ros.Data(loaded), q, v, a)
    tau += noise * np.random.default_rng(seed).normal(size=tau.shape)
    time = np.arange(len(q)) * 0.002
    return model, Samples(
        time=time,
        q=q,
        v=v,
        a=a,
        tau=tau,
        weight=np.ones(len(q)),
        segment=np.zeros(len(q), np.int32),
    )


def poses(count=8, seed=3):
    q = np.random.default_rng(seed).uniform(-2.0, 2.0, (count, 6))
    return q, np.zeros_like(q), np.zeros_like(q)


def motion():
    return waves(np.zeros(6), 1.2, [0.1, 0.3, 0.8])(np.arange(2000) / 200.0)


def parameters():
    return dyn_ros.Inertia(MASS, COM, INERTIA).dynamic_parameters()


def test_a_few_poses():
    estimate = identify_payload(*samples_of(*poses()), "tool0")
    assert estimate.determined == ("m", "m cx", "m cy", "m cz")
    assert estimate.mass == pytest.approx(MASS, abs=5.0 * estimate.deviation[0])
    np.testing.assert_allclose(estimate.com, COM, atol=0.01)
    assert np.isinf(estimate.deviation[4:]).all()
    body = dyn_ros.Inertia(estimate.mass, estimate.com, estimate.inertia)
    assert dyn_ros.is_physical(body.dynamic_parameters())
    assert (estimate.after[1:4] < 0.05 * estimate.before[1:4]).all()


def test_a_motion_determines_the_inertia():
    estimate = identify_payload(*samples_of(*motion()), "tool0")
    assert len(estimate.determined) == 10
    np.testing.assert_allclose(estimate.inertia, INERTIA, atol=5e-4)
    np.testing.assert_allclose(estimate.com, COM, atol=5e-4)
    np.testing.assert_allclose(estimate.after, 0.05, rtol=0.1)


@pytest.mark.parametrize("make", [poses, motion])
def test_intervals_contain_the_truth(make):
    inside = []
    for seed in range(30):
        estimate = identify_payload(*samples_of(*make(), seed=seed), "tool0")
        is_determined = np.isfinite(estimate.deviation)
        inside.append(
            ((estimate.lower <= parameters()) & (parameters() <= estimate.upper))[is_determined]
        )
    assert 0.88 < np.mean(np.concatenate(inside)) <= 1.0


def test_an_offset_and_friction_are_subtracted():
    model, samples = samples_of(*motion())
    model.friction, model.damping = np.full(6, 3.0), np.full(6, 1.0)
    offset = np.linspace(-1.0, 1.0, 6)
    tau = samples.tau + dyn_ros.joint_friction(model, samples.v) + offset
    estimate = identify_payload(
        model, Samples(**{**vars(samples), "tau": tau}), "tool0", offset=offset
    )
    assert estimate.mass == pytest.approx(MASS, abs=0.01)


@pytest.mark.parametrize("scale", [0.0, 0.7, 1.0])
def test_friction_that_differs_from_the_model_s_does_not_matter_in_motion(scale):
    model, samples = samples_of(*motion())
    friction, damping = np.linspace(20.0, 1.0, 6), np.linspace(10.0, 0.5, 6)
    tau = samples.tau + np.sign(samples.v) * friction + samples.v * damping
    model.friction, model.damping = scale * friction, scale * damping
    estimate = identify_payload(
        model, Samples(**{**vars(samples), "tau": tau}), "tool0", friction=True
    )
    assert estimate.mass == pytest.approx(MASS, abs=0.005)
    np.testing.assert_allclose(estimate.com, COM, atol=1e-3)
    np.testing.assert_allclose(estimate.after, 0.05, rtol=0.1)


def test_a_joint_that_rests_while_others_move_may_withstand_anything():
    q, v, a = motion()
    q[:, :2], v[:, :2], a[:, :2] = [0.3, -1.0], 0.0, 0.0
    model, samples = samples_of(q, v, a)
    model.friction = np.full(6, 10.0)
    tau = samples.tau + dyn_ros.joint_friction(model, samples.v)
    tau[:, 1] += 8.0
    estimate = identify_payload(
        model, Samples(**{**vars(samples), "tau": tau}), "tool0", friction=True
    )
    assert estimate.mass == pytest.approx(MASS, abs=0.02)


def test_the_result_is_a_payload():
    model, samples = samples_of(*motion(), noise=1e-9)
    estimate = identify_payload(model, samples, "tool0")
    model.set_payload("load", estimate.frame, estimate.mass, estimate.com, estimate.inertia)
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), samples.q, samples.v, samples.a)
    np.testing.assert_allclose(tau, samples.tau, atol=1e-5)


@pytest.mark.parametrize(
    "frame, words",
    [
        ("hand", "no frame named 'hand'"),
        ("base_link", "'base_link' is fixed; name one that moves"),
    ],
)
def test_frames_that_cannot_be(frame, words):
    with pytest.raises(ValueError, match=words):
        identify_payload(*samples_of(*poses()), frame)


def test_one_pose_with_no_torque():
    """A load on a vertical axis changes no torque."""
    model, samples = samples_of(*(np.zeros((3, 6)),) * 3, noise=0.5)
    with pytest.raises(ValueError, match=r"do not determine the mass.*record poses"):
        identify_payload(model, samples, "shoulder_link")


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"offset": [1.0] * 5}, "offset: expected 6 finite numbers"),
        ({"offset": np.nan}, "offset: expected 6 finite numbers"),
        ({"noise": 0.0}, "noise: expected positive numbers, got 0"),
        ({"frame": 999}, "frame: expected a name, or an index from 0 to"),
        ({"frame": -1}, "frame: expected a name, or an index"),
    ],
)
def test_invalid_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        identify_payload(*samples_of(*poses()), **{"frame": "tool0"} | arguments)


def test_contacts_are_not_ignored():
    model, samples = samples_of(*poses())
    with pytest.raises(ValueError, match="without contacts, got tool0"):
        identify_payload(model, Samples(**{**vars(samples), "contacts": ("tool0",)}), "tool0")


def test_a_payload_is_found_behind_friction_that_depends_on_it():
    model = load("ur10")
    carrying = copy.copy(model)
    carrying.set_payload("load", "tool0", 3.0, [0.0, 0.02, 0.08], 0.01 * np.eye(3))
    for robot in (model, carrying):
        robot.damping, robot.friction = np.full(6, 2.0), np.full(6, 3.0)
        robot.drives = dyn_ros.Drives.of(6, load_friction=0.1, offset=0.5, gain=-12.0)
    q, v, a = waves(np.zeros(6), 1.2, [0.1, 0.2, 0.4])(np.arange(0.0, 10.0, 0.01))
    net = dyn_ros.rnea(carrying, dyn_ros.Data(carrying), q, v, a)
    effort = (net + dyn_ros.joint_friction(carrying, v, net)) / -12.0
    samples = dyn_ros.Samples.from_arrays(model, np.arange(0.0, 10.0, 0.01), q, effort, v, a)
    estimate = dyn_ros.identify_payload(model, samples, "tool0")
    assert abs(estimate.mass - 3.0) < 1e-6


def at_rest(mass, seed=0):
    """Poses of an arm with a payload; a negative one has been taken from the model."""
    model, still = load("ur10"), np.zeros((40, 6))
    q = np.random.default_rng(4).uniform(-2.0, 2.0, (40, 6))
    robots = [copy.copy(model), copy.copy(model)]
    if mass:
        robots[mass > 0.0].set_payload("load", "tool0", abs(mass), COM, INERTIA)
    tau = dyn_ros.generalized_gravity(robots[1], dyn_ros.Data(robots[1]), q).copy()
    tau += 0.2 * np.random.default_rng(seed).normal(size=tau.shape)
    return robots[0], Samples(
        time=np.arange(40.0),
        q=q,
        v=still,
        a=still,
        tau=tau,
        weight=np.ones(40),
        segment=np.zeros(40, np.int32),
    )


def test_an_empty_gripper_weighs_nothing():
    estimates = [identify_payload(*at_rest(0.0, seed), "tool0") for seed in range(8)]
    assert max(estimate.mass for estimate in estimates) < 0.05
    assert sum(estimate.lower[0] < 0.0 < estimate.upper[0] for estimate in estimates) >= 6
    assert min(estimate.mass for estimate in estimates) == 0.0
    assert all(
        np.isfinite(estimate.com).all() and "m" in estimate.determined for estimate in estimates
    )
    for estimate in estimates:  # a center of no mass may be anywhere
        assert (estimate.lower[0] > 0.0) == np.isfinite(estimate.com_lower).all()


def test_a_mass_that_is_certainly_negative_is_an_error():
    with pytest.raises(ValueError, match=r"would be -1\.\d+ kg.*signs and units of the efforts"):
        identify_payload(*at_rest(-1.5), "tool0")


def test_a_negative_mass_that_is_uncertain_is_not_an_empty_gripper():
    """With large errors, efforts of nothing look like -1.5 kg: they do not show that it is 0."""
    with pytest.raises(ValueError, match=r"would be -1\.\d+ kg \+- \d+(\.\d+)? kg, since"):
        identify_payload(*at_rest(-1.5), "tool0", noise=np.full(6, 50.0))


def test_intervals_contain_the_truth_although_errors_last():
    """Friction that the model lacks is no noise: it has the same sign for seconds."""
    inside = []
    for seed in range(8):
        model, samples = samples_of(*motion(), seed=seed)
        rng = np.random.default_rng(seed)
        lasting = np.cumsum(rng.normal(size=samples.tau.shape), axis=0)
        lasting -= np.linspace(0.0, 1.0, len(lasting))[:, None] * lasting[-1]
        lasting *= 2.0 / lasting.std(axis=0)
        estimate = identify_payload(
            model, dataclasses.replace(samples, tau=samples.tau + lasting), "tool0"
        )
        inside.append((estimate.lower <= parameters()) & (parameters() <= estimate.upper))
    assert np.mean(inside) > 0.85


def test_the_cause_is_said_if_errors_are_too_large():
    """Poses are as different as they can be: other directions of gravity would not help."""
    model, samples = samples_of(*motion())
    rng = np.random.default_rng(0)
    lasting = np.repeat(rng.normal(size=(20, 6)), 100, axis=0) * [200.0, 200.0, 90.0, 9.0, 9.0, 9.0]
    with pytest.raises(
        ValueError,
        match=r"would be .* kg \+- .* kg, since the model explains the "
        r"torque of \w+_joint with an error of",
    ) as raised:
        identify_payload(model, dataclasses.replace(samples, tau=samples.tau + lasting), "tool0")
    assert "gravity" not in str(raised.value)


def carried(robot, noise=0.0, seed=0, true_drives=None):
    """Efforts of a robot with the load, in a motion; ``true_drives`` differ from the model."""
    q, v, a = waves(np.array([0.0, -1.0, 0.8, 0.0, 0.0, 0.0]), 1.2, [0.05, 0.13, 0.31], seed)(
        np.arange(0.0, 25.0, 0.02)
    )
    loaded = copy.copy(robot)
    loaded.drives = true_drives or robot.drives
    loaded.set_payload("load", "tool0", MASS, COM, INERTIA)
    net = dyn_ros.rnea(loaded, dyn_ros.Data(loaded), q, v, a) + loaded.drives.rotor_torque(a)
    tau = net + dyn_ros.joint_friction(loaded, v, net)
    tau += noise * np.random.default_rng(seed).normal(size=tau.shape)
    return q, v, a, tau


def with_friction(**drives):
    robot = load("ur10")
    robot.friction = np.array([20.0, 15.0, 8.0, 3.0, 3.0, 2.5])
    robot.damping = np.array([14.0, 20.0, 10.0, 3.3, 2.2, 2.8])
    robot.drives = dyn_ros.Drives.of(6, **drives)
    return robot


def test_drives_that_subtract_the_gravity_of_the_robot():
    robot = with_friction(gain=-9.0, is_compensated=[False, True, True, False, False, True])
    q, v, a, tau = carried(robot)
    gravity = dyn_ros.generalized_gravity(robot, dyn_ros.Data(robot), q)
    effort = (tau - robot.drives.is_compensated * gravity) / -9.0
    samples = Samples.from_arrays(robot, np.arange(0.0, 25.0, 0.02), q, effort, v, a)
    estimate = identify_payload(robot, samples, "tool0")
    assert estimate.mass == pytest.approx(MASS, abs=1e-6)


def test_efforts_behind_the_gear():
    robot = with_friction(is_link_side=True)
    robot.friction, robot.damping = np.zeros((2, 6))
    q, v, a, tau = carried(robot)
    samples = Samples.from_arrays(robot, np.arange(0.0, 25.0, 0.02), q, tau, v, a)
    assert identify_payload(robot, samples, "tool0").mass == pytest.approx(MASS, abs=1e-6)


def test_friction_of_coupled_motors():
    """A motor of joints 5 and 6 moves although joint 6 rests: friction belongs to motors."""
    coupling = np.eye(6)
    coupling[5, 4] = 1.0
    robot = with_friction(coupling=coupling, rotor_inertia=np.full(6, 0.1), load_friction=0.05)
    robot.armature = (coupling**2).T @ np.full(6, 0.1)
    true = copy.copy(robot)
    true.friction, true.damping = 1.3 * robot.friction, 0.7 * robot.damping
    q, v, a, tau = carried(true)
    samples = Samples.from_arrays(
        robot, np.arange(0.0, 25.0, 0.02), q, robot.drives.to_motors(tau), v, a
    )
    estimate = identify_payload(robot, samples, "tool0")
    assert estimate.mass == pytest.approx(MASS, abs=1e-4)
    np.testing.assert_allclose(estimate.com, COM, atol=1e-4)
    assert (estimate.after < 0.2).all()
    unchanged = identify_payload(robot, samples, "tool0", friction=False)
    assert unchanged.after[4] > 0.3 and unchanged.after[5] > 0.3


def test_a_joint_that_moves_in_one_direction_keeps_the_friction_of_the_model():
    robot = with_friction()
    q, v, a, tau = carried(robot, noise=0.5)
    rows = np.flatnonzero(v[:, 1] > 0.0)
    samples = Samples.from_arrays(robot, np.arange(0.0, 25.0, 0.02), q, tau, v, a).take(rows)
    estimate = identify_payload(robot, samples, "tool0")
    assert estimate.lower[0] < MASS < estimate.upper[0] < 1.1 * estimate.lower[0]


@pytest.mark.parametrize("condition", ["noise", "friction", "drift", "ripple"])
def test_intervals_contain_the_truth_of_other_days(condition):
    """Friction, load friction and offsets differ from the model's; ripple lasts."""
    names = ("lower", "upper"), ("com_lower", "com_upper"), ("inertia_lower", "inertia_upper")
    truths = parameters(), COM, INERTIA
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model = with_friction(load_friction=[0.0, 0.06, 0.06, 0.0, 0.0, 0.0])
        robot, drives = copy.copy(model), model.drives
        if condition != "noise":
            robot.friction = model.friction * rng.uniform(0.7, 1.3, 6)
            robot.damping = model.damping * rng.uniform(0.7, 1.3, 6)
            drives = drives.with_values(
                load_friction=drives.load_friction * rng.uniform(0.85, 1.15, 6)
            )
        if condition in ("drift", "ripple"):
            drives = drives.with_values(offset=0.03 * model.friction * rng.normal(size=6))
        q, v, a, tau = carried(robot, 1.0, seed, drives)
        if condition == "ripple":
            tau += (
                0.1
                * model.friction
                * np.sin(q * rng.uniform(2.0, 9.0, 6) + rng.uniform(0.0, 6.0, 6))
            )
        samples = Samples.from_arrays(model, np.arange(0.0, 25.0, 0.02), q, tau, v, a)
        estimate = identify_payload(model, samples, "tool0")
        for (lower, upper), truth in zip(names, truths):
            inside.append(
                ((getattr(estimate, lower) <= truth) & (truth <= getattr(estimate, upper))).ravel()
            )
    assert 0.9 < np.mean(np.concatenate(inside)) <= 1.0


STICTION = np.array([3.0, 3.0, 2.0, 0.6, 0.6, 0.6])  # N m


def held(seed, count, known_friction=None):
    """Poses of an arm, in each of which friction is stuck at any torque up to STICTION."""
    rng = np.random.default_rng(seed)
    model, q = load("ur10"), rng.uniform(-1.0, 1.0, (count, 6)).repeat(100, axis=0)
    model.friction = np.zeros(6) if known_friction is None else known_friction
    loaded = copy.copy(model)
    loaded.set_payload("load", "tool0", MASS, COM, INERTIA)
    tau = dyn_ros.generalized_gravity(loaded, dyn_ros.Data(loaded), q).copy()
    tau += (STICTION * rng.uniform(-1.0, 1.0, (count, 6))).repeat(100, axis=0)
    tau += 0.1 * rng.normal(size=tau.shape)
    still = np.zeros_like(q)
    weight, segment = np.full(len(q), 0.1), np.arange(count, dtype=np.int32).repeat(100)
    return model, Samples(np.arange(len(q)) * 0.01, q, still, still, tau, weight, segment)


@pytest.mark.parametrize(
    "count, known_friction",
    [(1, STICTION), (2, STICTION), (2, None), (6, STICTION), (6, None), (6, 0.7 * STICTION)],
)
def test_intervals_contain_the_truth_although_friction_is_stuck_at_rest(count, known_friction):
    inside, widths = [], []
    for seed in range(60):
        estimate = identify_payload(*held(seed, count, known_friction), "tool0")
        for lower, upper, truth in (
            (estimate.lower, estimate.upper, parameters()),
            (estimate.com_lower, estimate.com_upper, COM),
        ):
            is_determined = np.isfinite(lower)
            inside.append(((lower <= truth) & (truth <= upper))[is_determined])
        widths.append(estimate.upper[0] - estimate.lower[0])
    assert np.mean(np.concatenate(inside)) > 0.9
    assert np.median(widths) < (2.0 if count == 1 else 1.2 if count == 2 else 0.6)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_known_friction_of_joints_that_all_rest_causes_no_overflow():
    model = dyn_ros.Model.from_urdf_file(ARM7)
    still = 1e-3 * np.random.default_rng(2).normal(size=(200, 7))
    model.friction = np.linspace(0.6, 0.1, 7)
    loaded = copy.copy(model)
    loaded.set_payload("load", "tool", MASS, COM, INERTIA)
    q = np.repeat(np.random.default_rng(0).uniform(-1.0, 1.0, (2, 7)), 100, axis=0)
    tau = dyn_ros.generalized_gravity(loaded, dyn_ros.Data(loaded), q)
    tau = tau + 0.05 * np.random.default_rng(1).normal(size=tau.shape)
    weight, segment = np.full(200, 0.1), np.arange(2, dtype=np.int32).repeat(100)
    samples = Samples(np.arange(200) * 0.01, q, still, still, tau, weight, segment)
    assert "m" in identify_payload(model, samples, "tool").determined


def test_one_pose_does_not_show_unknown_friction():
    with pytest.raises(
        ValueError, match="friction of shoulder_lift_joint, .* at rest may hold it; record a slow"
    ):
        identify_payload(*held(0, 1), "tool0")


def test_a_pose_that_is_held_again_shows_no_more_than_once():
    model, samples = held(0, 1, STICTION)
    again = Samples.concatenate([samples] * 4)
    estimates = [identify_payload(model, recorded, "tool0") for recorded in (samples, again)]
    np.testing.assert_allclose(estimates[1].lower[0], estimates[0].lower[0], rtol=0.01)
    with pytest.raises(ValueError, match="at rest may hold it"):
        identify_payload(*(load("ur10"), again), "tool0")


@pytest.mark.parametrize("how", ["behind the gear", "no friction", "noise"])
def test_one_pose_of_joints_without_friction_or_with_errors_that_are_known(how):
    options = {"behind the gear": {}, "no friction": {"friction": False}, "noise": {"noise": 0.02}}
    inside = []
    for seed in range(40):
        model, samples = held(seed, 1)
        loaded = copy.copy(model)
        loaded.set_payload("load", "tool0", MASS, COM, INERTIA)
        tau = dyn_ros.generalized_gravity(loaded, dyn_ros.Data(loaded), samples.q).copy()
        tau += 0.1 * np.random.default_rng(seed).normal(size=tau.shape)
        if how == "behind the gear":
            model.drives = dyn_ros.Drives.of(6, is_link_side=True)
        samples = dataclasses.replace(samples, tau=tau)
        estimate = identify_payload(model, samples, "tool0", **options[how])
        inside.append(estimate.lower[0] < MASS < estimate.upper[0] < estimate.lower[0] + 0.1)
    assert np.mean(inside) >= 0.9


def test_friction_that_the_model_lacks_is_estimated_in_one_direction():
    robot = with_friction()
    q, v, a, tau = carried(robot, noise=0.5)
    rows = np.flatnonzero(v[:, 1] > 0.0)
    robot.friction, robot.damping = np.zeros((2, 6))
    samples = Samples.from_arrays(robot, np.arange(0.0, 25.0, 0.02), q, tau, v, a).take(rows)
    estimate = identify_payload(robot, samples, "tool0")
    assert estimate.lower[0] < MASS < estimate.upper[0]


def test_torques_that_repeat_are_not_used():
    """The wrist is published less often than the arm; what is repeated is no measurement."""
    model, samples = samples_of(*motion())
    repeats = np.zeros(samples.tau.shape, bool)
    repeats[:, 3:] = np.arange(len(samples))[:, None] % 10 > 0
    estimates = [
        identify_payload(
            model,
            dataclasses.replace(
                samples, tau=np.where(repeats, repeated, samples.tau), repeats=repeats
            ),
            "tool0",
        )
        for repeated in (samples.tau, 0.0)
    ]
    np.testing.assert_allclose(*(estimate.lower for estimate in estimates), rtol=1e-9)
    assert estimates[0].mass == pytest.approx(MASS, abs=0.05)
    complete = identify_payload(model, samples, "tool0")
    assert (estimates[0].deviation > complete.deviation).mean() > 0.5


def test_friction_that_grows_with_the_load_hides_a_payload_at_rest():
    """The shoulder withstands more than the payload weighs."""
    results = []
    for load_friction in (0.0, 0.08):
        model, samples = samples_of(*(np.repeat(values, 50, axis=0) for values in poses(4)))
        model.friction = np.full(6, 0.4)
        model.drives = dyn_ros.Drives.of(6, load_friction=load_friction)
        estimate = identify_payload(model, samples, "tool0")
        assert estimate.lower[0] < MASS < estimate.upper[0]
        results.append(estimate)
    assert results[1].deviation[0] > 3.0 * results[0].deviation[0]
