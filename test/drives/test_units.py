# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Warnings of efforts that cannot be torques, in recordings with known faults."""

import re

import numpy as np
import pytest
from identification.recordings import perturbed, record, waves
from identification.robots import load

import dyn_ros
from dyn_ros.drives.gravity_fit import fit_gravity
from dyn_ros.drives.units import collapsed_masses, unit_warnings

ARM = """<robot name="arm"><link name="base"/>
{}
</robot>"""
LINK = """<joint name="j{n}" type="revolute"><parent link="{parent}"/><child link="l{n}"/>
<origin xyz="0 0 {length}"/><axis xyz="{axis}"/><limit lower="-3" upper="3" effort="99"
velocity="9"/></joint><link name="l{n}"><inertial><mass value="{mass}"/>
<origin xyz="0.02 0.05 0.2"/><inertia ixx="0.05" iyy="0.05" izz="0.02" ixy="0" ixz="0" iyz="0"/>
</inertial></link>"""
FRICTION = np.array([2.0, 4.0, 2.0])


def arm(masses):
    return dyn_ros.Model.from_urdf(
        ARM.format(
            "".join(
                LINK.format(
                    n=n,
                    parent=f"l{n - 1}" if n else "base",
                    length=0.4 if n else 0.0,
                    axis=axis,
                    mass=mass,
                )
                for n, (axis, mass) in enumerate(zip(["0 0 1", "0 1 0", "0 1 0"], masses))
            )
        )
    )


def motion(seed=0, size=2000):
    """Return positions, velocities and accelerations of 20 s of sums of harmonics."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0.0, 20.0, size)[:, None, None]
    w = 2.0 * np.pi * 0.05 * np.arange(1, 7)[:, None]
    A, p = rng.normal(0.0, 0.35, (6, 3)), rng.uniform(0.0, 6.0, (6, 3))
    return tuple((w**n * A * np.sin(w * t + p + n * np.pi / 2.0)).sum(axis=1) for n in range(3))


def recording(masses=(8.0, 6.0, 4.0), seed=0):
    q, v, a = motion(seed)
    model = arm(masses)
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
    noise = np.random.default_rng(seed + 1).normal(0.0, 0.3, v.shape)
    return q, v, a, tau + FRICTION * np.sign(v) + v + 1.0 + noise


def gravity(masses=(8.0, 6.0, 4.0)):
    model = arm(masses)
    return dyn_ros.generalized_gravity(model, dyn_ros.Data(model), recording()[0])


@pytest.mark.parametrize("seed", range(8))
def test_torques_of_a_description_that_is_wrong_by_30_percent_are_not_reported(seed):
    factors = np.random.default_rng(seed).choice([0.7, 1.3], 3)
    q, v, a, effort = recording(factors * (8.0, 6.0, 4.0), seed)
    assert unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, effort) == []


@pytest.mark.parametrize(
    "fault, joints, words",
    [
        (lambda tau: tau / 12.0, ["j1", "j2"], "not in N m"),
        (lambda tau: -tau, ["j1", "j2"], "sign"),
        (lambda tau: tau[:, [0, 2, 1]], ["j1"], "order"),
        (lambda tau: tau[:, [1, 0, 2]], ["j0"], "order"),
        (lambda tau: tau - gravity(), ["j1", "j2"], "already subtracted"),
    ],
)
def test_efforts_that_are_no_torques_are_reported_with_their_kind(fault, joints, words):
    q, v, a, tau = recording()
    messages = unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, fault(tau))
    for joint in joints:
        assert any(text.startswith(f"{joint}:") and words in text for text in messages), messages


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_an_unmeasured_joint_is_left_out(value):
    q, v, a, tau = recording()
    tau[:, 2] = value
    messages = unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, tau / 12.0)
    assert [text.split(":")[0] for text in messages] == ["j1"]


def test_positions_of_motors_and_in_degrees_are_reported():
    q, v, a, tau = np.degrees(recording())
    [text] = unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, tau)
    assert "j0 (up to" in text and "j2 (up to" in text
    assert "degrees" in text and "of the motor" in text


@pytest.mark.parametrize("robot", ["ur10", "panda"])
@pytest.mark.parametrize("moving", [[1, 2], [1, 3], [2, 4], [3, 4]])
def test_the_order_is_not_suspected_if_joints_rest(robot, moving):
    """Their efforts depend on the motion of others."""
    model, true = load(robot), perturbed(load(robot), seed=1)
    center = np.clip(0.3, 0.8 * model.lower, 0.8 * model.upper)
    size = np.where(np.isin(np.arange(model.nv), moving), 0.5, 0.0)
    samples = record(true, waves(center, size, [0.1, 0.23, 0.41]), rate=50.0, noise=0.01).samples(
        model
    )
    assert not [
        text
        for text in unit_warnings(model, samples.q, samples.v, samples.a, samples.tau)
        if "order" in text
    ]


def test_a_lift_without_its_weight_is_reported_if_another_joint_is_wrong_as_well():
    """Its gravity torque is constant."""
    lift = LINK.format(n=0, parent="base", length=0.0, axis="0 0 1", mass=8.0).replace(
        "revolute", "prismatic"
    )
    model = dyn_ros.Model.from_urdf(
        ARM.format(
            lift
            + "".join(
                LINK.format(n=n, parent=f"l{n - 1}", length=0.4, axis="0 1 0", mass=6.0)
                for n in (1, 2)
            )
        )
    )
    q, v, a = motion()
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + np.sign(v)
    tau[:, 0] -= 20.0 * 9.81
    tau[:, 2] /= 12.0
    messages = unit_warnings(model, q, v, a, tau)
    assert [text.split(":")[0] for text in messages] == ["j0", "j2"]
    assert "declare gravity_compensated" in messages[0] and "not in N m" in messages[1]


@pytest.mark.parametrize("is_subtracted", [False, True])
def test_gravity_that_is_declared_as_subtracted_but_is_not(is_subtracted):
    q, v, a, tau = recording()
    model = arm((8.0, 6.0, 4.0))
    model.drives = model.drives.with_values(is_compensated=True)
    samples = dyn_ros.Samples.from_arrays(
        model, np.linspace(0.0, 20.0, len(q)), q, tau - gravity() if is_subtracted else tau, v, a
    )
    messages = unit_warnings(model, samples.q, v, a, samples.tau)
    assert [text.split(":")[0] for text in messages] == ([] if is_subtracted else ["j1", "j2"])
    assert all("do not declare gravity_compensated" in text for text in messages)


@pytest.mark.parametrize("k, offset", [(0, 6.0), (1, -25.0), (2, 12.0)])
def test_a_wrong_zero_is_reported(k, offset):
    q, v, a, tau = recording()
    tau[:, k] += offset
    [text] = unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, tau)
    assert text.startswith(f"j{k}: at rest, its effort is {abs(offset + 1.0):.2g}"[:30])
    assert ("more" if offset > 0.0 else "less") in text


@pytest.mark.parametrize("seed", range(4))
def test_friction_that_is_stuck_in_poses_is_no_wrong_zero(seed):
    """Six poses joined by smooth moves; velocities are noisy at rest."""
    rng = np.random.default_rng(seed)
    ends, s = rng.uniform(-1.0, 1.0, (6, 3)), np.linspace(0.0, 1.0, 200)[:, None]
    rest, pieces = np.zeros((500, 3)), []
    stuck = rng.uniform(-1.0, 1.0, (6, 3))
    for k, start in enumerate(ends):
        pieces.append((start + rest, rest, rest, stuck[k] + rest))
        step = ends[min(k + 1, 5)] - start
        q = start + (10.0 * s**3 - 15.0 * s**4 + 6.0 * s**5) * step
        v = (30.0 * s**2 - 60.0 * s**3 + 30.0 * s**4) * step / 2.0
        a = (60.0 * s - 180.0 * s**2 + 120.0 * s**3) * step / 4.0
        pieces.append((q, v, a, np.sign(v)))
    q, v, a, direction = map(np.concatenate, zip(*pieces[:-1]))
    model = arm((8.0, 6.0, 4.0))
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + FRICTION * direction
    v = v + rng.normal(0.0, 1e-4, v.shape)
    assert unit_warnings(model, q, v, a, tau + rng.normal(0.0, 0.05, v.shape)) == []


@pytest.mark.parametrize(
    "fault, is_reported",
    [
        (lambda tau: tau, False),
        (lambda tau: tau + 0.3 * np.abs(tau), False),
        (lambda tau: tau / 12.0, True),
        (lambda tau: -tau, True),
        (lambda tau: 0.01 * tau, True),
    ],
)
def test_a_pose_at_rest_shows_the_largest_gravity_torque(fault, is_reported):
    model, q = arm((8.0, 6.0, 4.0)), np.tile([0.3, 0.5, 0.4], (500, 1))
    tau = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    noise = 0.1 * np.random.default_rng(0).normal(size=q.shape)
    still = np.zeros_like(q)
    messages = unit_warnings(model, q, still, still, fault(tau) + noise)
    assert bool(messages) == is_reported
    assert all(text.startswith("j1: at rest, its effort is") for text in messages)


def lift():
    """A column that moves up, below the arm."""
    text = ARM.format(
        LINK.format(n=9, parent="base", length=0.0, axis="0 0 1", mass=20.0).replace(
            "revolute", "prismatic"
        )
        + "".join(
            LINK.format(n=n, parent=parent, length=0.4, axis="0 1 0", mass=4.0)
            for n, parent in ((1, "l9"), (2, "l1"))
        )
    )
    return dyn_ros.Model.from_urdf(text)


def test_gravity_that_is_constant_and_subtracted_is_reported():
    model, (q, v, a) = lift(), motion()
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + FRICTION * np.sign(v)
    assert unit_warnings(model, q, v, a, tau) == []
    gravity = dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)
    tau[:, 0] -= gravity[:, 0]
    [text] = unit_warnings(model, q, v, a, tau)
    assert text.startswith("j9: at rest") and "declare gravity_compensated" in text


def test_gravity_that_an_offset_replaces_loads_no_gear():
    """If its gravity is subtracted, a lift has no friction proportional to its unknown load."""
    model, (q, v, a) = lift(), motion()
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
    tau[:, 0] -= dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)[:, 0]
    tau[:, 0] += 0.1 * np.abs(tau[:, 0]) * np.sign(v[:, 0])
    tau += FRICTION * np.sign(v) + np.random.default_rng(0).normal(0.0, 0.05, v.shape)
    samples = dyn_ros.Samples.from_arrays(model, np.linspace(0.0, 20.0, len(q)), q, tau, v, a)
    result = dyn_ros.identify(model, samples)
    assert not result.identified.drives.load_friction.any()
    assert max(joint.after for joint in result.joints) < 0.1 * result.joints[0].torque


def test_masses_that_collapse_are_no_success():
    model, (q, v, a, tau) = arm((8.0, 6.0, 4.0)), recording()
    samples = dyn_ros.Samples.from_arrays(model, np.linspace(0.0, 20.0, len(q)), q, tau, v, a)
    assert not [text for text in dyn_ros.identify(model, samples).warnings if "collapsed" in text]
    currents = dyn_ros.Samples.from_arrays(model, samples.time, q, tau / 12.0, v, a)
    [text] = [text for text in dyn_ros.identify(model, currents).warnings if "collapsed" in text]
    assert "instead of 4 kg for the body of j2" in text and "0.08" in text and "gain" in text
    assert collapsed_masses(model, model.inertial_parameters, q, v, a, tau) == []


def test_one_mass_that_collapses_is_reported_if_its_joint_lacks_the_torque():
    model, (q, v, a, tau) = arm((8.0, 6.0, 4.0)), recording()
    bodies = model.inertial_parameters.copy()
    bodies[1] *= 0.01
    assert collapsed_masses(model, bodies, q, v, a, tau) == []
    tau[:, 1] *= 0.1
    [text] = collapsed_masses(model, bodies, q, v, a, tau)
    assert "instead of 6 kg for the body of j1" in text and "(of j1)" in text


def test_a_mass_that_collapses_where_gravity_is_declared():
    """The lift of a TIAGo: gravity is subtracted, and the unit of the rest is unknown."""
    model, (q, v, a) = lift(), motion()
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
    tau[:, 0] -= dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q)[:, 0]
    tau += np.random.default_rng(0).normal(0.0, 0.05, v.shape)
    tau[:, 0] *= 0.03
    compensated = [True] + [False] * (model.nv - 1)
    for gain, remedy in ((1.0, "declare unit, gain and sign"), (1.1, "check gain and sign")):
        model.drives = model.drives.with_values(is_compensated=compensated, gain=gain)
        samples = dyn_ros.Samples.from_arrays(
            model, np.linspace(0.0, 20.0, len(q)), q, tau / gain, v, a
        )
        [text] = [
            text
            for text in dyn_ros.identify(model, samples, armature=False).warnings
            if "collapsed" in text
        ]
        assert "the unit or gain of the efforts (gravity is declared as subtracted" in text
        assert "already subtracted" not in text and remedy in text
    samples.tau[:, 0] = 0.0  # as the text recommends
    result = dyn_ros.identify(model, samples, armature=False)
    assert not [text for text in result.warnings if "collapsed" in text]
    assert all(joint.after < 1.1 * 0.05 for joint in result.joints[1:])


def test_masses_of_a_robot_with_fingers_that_mimic():
    model, rng = load("panda"), np.random.default_rng(0)
    assert 0 in model.nvs[-2:]
    q = np.array([model.random_configuration(rng) for _ in range(200)])
    v = rng.normal(size=(200, model.nv))
    tau = 0.05 * dyn_ros.rnea(model, dyn_ros.Data(model), q, v, v)
    assert collapsed_masses(model, 0.05 * model.inertial_parameters, q, v, v, tau)
    tau[:, :6] *= 20.0
    [text] = collapsed_masses(model, 0.05 * model.inertial_parameters, q, v, v, tau)
    assert "(of panda_joint7)" in text


def test_offsets_belong_to_the_gravity_of_the_identified_robot(tmp_path):
    """A lift whose drive subtracts the gravity of a robot that is 3 kg heavier than described."""
    model, true, (q, v, a) = lift(), lift(), motion()
    true.set_payload("unknown", "l9", 3.0, np.zeros(3), 0.01 * np.eye(3))
    compensated = [True] + [False] * (model.nv - 1)
    model.drives = model.drives.with_values(is_compensated=compensated)
    effort = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a) + FRICTION[: model.nv] * np.sign(v)
    effort += np.random.default_rng(0).normal(0.0, 0.05, v.shape)
    effort[:, 0] -= dyn_ros.generalized_gravity(true, dyn_ros.Data(true), q)[:, 0]
    samples = dyn_ros.Samples.from_arrays(model, np.linspace(0.0, 20.0, len(q)), q, effort, v, a)
    result = dyn_ros.identify(model, samples, armature=False)
    result.write_drives(tmp_path / "lift.yaml")
    robot = result.identified
    weight = [
        dyn_ros.generalized_gravity(robot, dyn_ros.Data(robot), q[0])[0] for robot in (robot, model)
    ]
    assert abs(weight[0] - weight[1]) > 10.0
    dyn_ros.load_drives(robot, tmp_path / "lift.yaml")
    assert abs(robot.drives.offset[0]) < 0.5
    torque = dyn_ros.rnea(robot, dyn_ros.Data(robot), q, v, a)
    torque += dyn_ros.joint_friction(robot, v, torque)
    measured = dyn_ros.measured_torque(robot, dyn_ros.Data(robot), q, effort)
    assert np.abs((measured - torque).mean(axis=0)).max() < 0.2


TURNED = {"ceiling": [0.0, 0.0, 9.81], "wall": [9.81, 0.0, 0.0], "slope": [0.0, -3.3, -9.2]}


def mounted(gravity, masses=(8.0, 6.0, 4.0), friction=FRICTION):
    """Return a recording of the arm with another gravity."""
    q, v, a = motion()
    true = arm(masses)
    true.gravity = gravity
    noise = np.random.default_rng(1).normal(0.0, 0.3, v.shape)
    return q, v, a, dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a) + friction * np.sign(v) + noise


@pytest.mark.parametrize("gravity", TURNED.values(), ids=TURNED)
@pytest.mark.parametrize("masses", [(8.0, 6.0, 4.0), (7.0, 6.6, 3.7)])
def test_another_mounting_is_named(gravity, masses):
    """A sign is not, although each effort is about -1 times the gravity torque."""
    description = arm((8.0, 6.0, 4.0))
    [text] = unit_warnings(description, *mounted(gravity, masses))
    numbers = [float(x) for x in re.search(r"use (.*) for model.gravity", text)[1].split()]
    tolerance = 0.05 if masses == (8.0, 6.0, 4.0) else 0.8
    np.testing.assert_allclose(numbers, gravity, atol=tolerance)
    description.gravity = gravity
    assert unit_warnings(description, *mounted(gravity, masses)) == []


def test_the_intervals_of_gravity_hold():
    inside = []
    for seed in range(40):
        q, v, a, effort = mounted(TURNED["slope"])
        effort = effort + np.random.default_rng(seed).normal(0.0, 2.0, v.shape)
        model = arm((8.0, 6.0, 4.0))
        fit = fit_gravity(model, q, v, rnea_without_gravity(model, q, v, a), effort)
        assert fit is not None
        inside += (abs(fit.gravity - TURNED["slope"]) < fit.half_widths).tolist()
    assert np.mean(inside) >= 0.9


def rnea_without_gravity(model, q, v, a):
    data = dyn_ros.Data(model)
    torque = np.array(dyn_ros.rnea(model, data, q, v, a))
    return torque - dyn_ros.generalized_gravity(model, data, q)


def test_efforts_of_the_wrong_sign_are_not_a_mounting():
    q, v, a, effort = recording()
    texts = unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, -effort)
    assert texts and all("sign is wrong" in text for text in texts)


def test_a_mounting_is_not_seen_in_one_pose():
    """Gravity along an axis that loads no joint is unknown."""
    q, v, a = motion()
    q[:, 0] = v[:, 0] = a[:, 0] = 0.0
    true = arm((8.0, 6.0, 4.0))
    true.gravity = TURNED["ceiling"]
    effort = np.array(dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a)) + FRICTION * np.sign(v)
    effort[:, 0] = np.nan
    assert not any(
        "mounted" in text for text in unit_warnings(arm((8.0, 6.0, 4.0)), q, v, a, effort)
    )
