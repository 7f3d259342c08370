# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""excite: limits at dense instants, what the motion reveals, files."""

import dataclasses
import json

import numpy as np
import pytest
import yaml
from scipy.interpolate import BPoly
from scipy.linalg import qr

import dyn_ros
import peer
from dyn_ros.identification import Samples, excite

ARM7 = "dyn_ros/robots/arm7.urdf"


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf(peer.urdf("ur5"))


@pytest.fixture(scope="module")
def motion(arm):
    return excite(arm, starts=1, seed=1)


def loads(model, excitation, count=20001):
    """Largest use of each limit at dense instants: velocities, accelerations / 5, efforts."""
    time = np.linspace(0.0, excitation.time[-1], count)
    q, v, a = excitation.at(time)
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + dyn_ros.joint_friction(model, v)
    return (
        q,
        np.abs(v).max(0) / model.velocity_limit,
        np.abs(a).max(0) / 5.0,
        np.abs(tau).max(0) / model.effort_limit,
    )


def random_motions(model, excitation, count=20):
    """Random series of the same period, as large as the limits of the joints allow."""
    rng = np.random.default_rng(0)
    time = np.linspace(0.0, excitation.period, 60, endpoint=False)
    for _ in range(count):
        series = dataclasses.replace(
            excitation,
            center=np.zeros(model.nv),
            coefficients=rng.standard_normal(excitation.coefficients.shape),
        )
        q, v, a = series.at(time)
        size = 0.9 * np.min(
            [
                model.upper / np.abs(q).max(0),
                model.velocity_limit / np.abs(v).max(0),
                5.0 / np.abs(a).max(0),
            ],
            0,
        )
        yield size * q, size * v, size * a


def regressor(model, q, v, a):
    Y = dyn_ros.joint_torque_regressor(model, dyn_ros.Data(model), q, v, a, friction=True)
    return Y.reshape(-1, Y.shape[-1])


def condition(model, q, v, a):
    """Return the condition number of the base regressor, with columns of equal length."""
    rng = np.random.default_rng(0)
    W = regressor(model, *rng.uniform(-2.0, 2.0, (3, 300, model.nv)))
    lengths = np.linalg.norm(W, axis=0)
    nonzero = np.flatnonzero(lengths)
    triangle, order = qr(W[:, nonzero] / lengths[nonzero], mode="r", pivoting=True)
    diagonal = np.abs(np.diag(triangle))
    base = nonzero[order[diagonal > 1e-8 * diagonal[0]]]
    Y = regressor(model, q, v, a)[:, base]
    return np.linalg.cond(Y / np.linalg.norm(Y, axis=0))


def test_limits_are_kept_at_every_instant(arm, motion):
    q, velocity, acceleration, effort = loads(arm, motion)
    middle, half = 0.5 * (arm.lower + arm.upper), 0.45 * (arm.upper - arm.lower)
    assert (np.abs(q - middle) <= half).all()
    assert velocity.max() <= 0.9 and acceleration.max() <= 0.9 and effort.max() <= 0.9
    assert max(velocity.max(), acceleration.max()) > 0.85  # the limits are used


def test_it_starts_and_ends_at_rest(motion):
    for moved in (motion.v, motion.a):
        assert np.abs(moved[[0, -1]]).max() < 1e-12
    assert np.abs(motion.q[0] - motion.q[-1]).max() < 1e-12
    assert motion.time[0] == 0.0 and motion.time[-1] == 20.0 and len(motion.time) == 2001
    assert motion.period == 10.0
    half = len(motion.time) // 2
    peer.close(motion.q[half:], motion.q[: half + 1], 1e-12)


def test_derivatives_belong_to_the_positions(motion):
    h = 1e-4
    time = np.linspace(1.0, 9.0, 50)
    _, v, a = motion.at(time)
    before, after = motion.at(time - h), motion.at(time + h)
    peer.close((after[0] - before[0]) / (2 * h), v, 1e-6)
    peer.close((after[1] - before[1]) / (2 * h), a, 1e-6)


def test_it_reveals_more_than_random_motions(arm, motion):
    time = np.linspace(0.0, motion.period, 60, endpoint=False)
    excitation_condition = condition(arm, *motion.at(time))
    random_conditions = [
        condition(arm, *random_motion) for random_motion in random_motions(arm, motion)
    ]
    assert excitation_condition < np.min(random_conditions)
    assert excitation_condition < 0.2 * np.median(random_conditions)
    assert motion.condition < 15.0


def test_the_same_seed_returns_the_same_motion(arm):
    def coefficients(seed):
        return excite(arm, starts=1, harmonics=3, period=5.0, seed=seed).coefficients

    assert np.array_equal(coefficients(3), coefficients(3))
    assert not np.array_equal(coefficients(3), coefficients(4))


def test_limits_of_efforts(arm):
    """Half of the shoulder's usual load: the motion avoids what exceeds it."""
    weak = dyn_ros.Model.from_urdf(peer.urdf("ur5").replace('effort="150.0"', 'effort="45.0"'))
    assert (weak.effort_limit[1], arm.effort_limit[1]) == (45.0, 150.0)
    excitation = excite(weak, starts=1, harmonics=3)
    assert loads(weak, excitation)[3].max() <= 0.9 + 1e-6
    hopeless = dyn_ros.Model.from_urdf(peer.urdf("ur5").replace('effort="150.0"', 'effort="1.0"'))
    with pytest.raises(
        ValueError,
        match=r"keeps the limits: joint 'shoulder_lift_joint' needs an "
        r"effort of .*; its limit with the margin is 0.9",
    ):
        excite(hopeless, starts=1, harmonics=3, lower=[-1.0] * 6, upper=[1.0] * 6)


def test_workspace(arm):
    low, high = np.array([-1.0, -1.0, 0.15]), np.array([1.0, 1.0, 1.2])
    excitation = excite(arm, starts=1, harmonics=3, workspace={"tool0": (low, high)})
    q = excitation.at(np.linspace(0.0, 10.0, 5001))[0]
    p = dyn_ros.frame_placements(arm, dyn_ros.Data(arm), q)[
        :, arm.frame_names.index("tool0"), :3, 3
    ]
    assert (p > low - 1e-4).all() and (p < high + 1e-4).all()
    with pytest.raises(ValueError, match="the frames of workspace leave their boxes"):
        excite(arm, starts=1, harmonics=3, workspace={"tool0": (high + 1.0, high + 2.0)})
    with pytest.raises(ValueError, match="no frame named 'tip'; available"):
        excite(arm, workspace={"tip": (low, high)})


def test_some_joints(arm):
    rest = np.linspace(-0.5, 0.5, 6)
    excitation = excite(
        arm, starts=1, harmonics=3, joints=["elbow_joint", "wrist_1_joint"], rest=rest
    )
    moves = np.ptp(excitation.q, axis=0) > 0.0
    assert [name for name, moved in zip(arm.joint_names, moves) if moved] == [
        "elbow_joint",
        "wrist_1_joint",
    ]
    assert np.array_equal(excitation.q[0][~moves], rest[~moves])
    with pytest.raises(ValueError, match="joints: no joint named 'elbow' that moves by itself"):
        excite(arm, joints=["elbow"])


def test_mimic_joints_keep_their_limits():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    excitation = excite(model, starts=1, harmonics=3, joints=model.velocity_names[-1:])
    (limit,) = (joint for joint in model.tree.joints if joint.mimic)
    followed = excitation.q[:, -1] * limit.mimic.multiplier + limit.mimic.offset
    assert limit.lower <= followed.min() and followed.max() <= limit.upper
    assert excitation.q.shape[1] == model.nv == len(model.joint_names) - 1


def test_joints_without_limits():
    text = peer.urdf("double_pendulum")
    model = dyn_ros.Model.from_urdf(text)
    assert np.isinf(model.lower).all()
    excitation = excite(model, starts=1, harmonics=3)
    assert np.abs(excitation.q).max() <= 2.7 + 1e-9
    limited = excite(
        model, starts=1, harmonics=3, velocity_limit=0.5, acceleration_limit=[1.0, 2.0]
    )
    assert np.abs(limited.v).max() <= 0.45
    assert (np.abs(limited.a).max(0) <= [0.9, 1.8]).all()


def test_progress(arm):
    calls = []
    excite(
        arm,
        starts=2,
        harmonics=3,
        joints=["elbow_joint"],
        progress=lambda done, total: calls.append((done, total)),
    )
    done, totals = zip(*calls)
    assert set(totals) == {2} and list(done) == sorted(done)
    assert {1, 2} < set(done) and done[-1] == 2  # also within a start


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(duration=0.0), "duration: expected more than 0, got 0.0"),
        (dict(margin=1.5), "margin: expected at most 1, got 1.5"),
        (dict(harmonics=2), "at least 3 harmonics"),
        (dict(seed=-1), "seed: expected an integer >= 0, got -1"),
        (dict(lower=[0.0, 1.0]), "lower: expected a number, or 6 numbers"),
        (dict(lower=[0.0] * 6, upper=[0.0] * 6), "joint 'shoulder_pan_joint' cannot move"),
        (dict(velocity_limit=0.0), "velocity_limit: expected finite numbers above 0"),
        (dict(acceleration_limit=np.inf), "acceleration_limit: expected finite numbers above 0"),
        (dict(joints="elbow_joint"), "joints: expected a sequence of names"),
        (dict(joints=[]), "joints: expected at least one name"),
    ],
)
def test_invalid_arguments(arm, arguments, words):
    with pytest.raises(ValueError, match=words):
        excite(arm, **arguments)


def test_a_box_with_its_corners_swapped(arm):
    with pytest.raises(ValueError, match=r"workspace\['tool0'\]: expected the lowest coordinates"):
        excite(arm, workspace={"tool0": ([1, 1, 1], [0, 0, 0])})


def test_too_many_samples(arm, motion, tmp_path):
    with pytest.raises(ValueError, match="duration: expected at most 1e"):
        excite(arm, period=1e9)
    with pytest.raises(ValueError, match="rate: expected at most 1e"):
        motion.write(tmp_path / "motion.yaml", rate=1e9)


def test_large_numbers_are_no_limits(arm):
    excitation = excite(arm, lower=-1e6, upper=1e6, starts=1)
    assert np.abs(excitation.q).max() <= 3.0


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
def test_a_free_base_must_be_locked(root_joint):
    model = dyn_ros.Model.from_urdf(peer.urdf("solo12"), root_joint=root_joint)
    with pytest.raises(ValueError, match=rf"got 'root_joint' \({root_joint}\); lock them with"):
        excite(model)
    rest = {"floating": [0, 0, 0, 0, 0, 0, 1], "planar": [0, 0, 0]}[root_joint]
    assert not hasattr(model.reduced({"root_joint": rest}), "missing")


# --- files


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_files_of_trajectories(arm, motion, tmp_path, suffix):
    path = tmp_path / f"motion{suffix}"
    motion.write(path)
    assert len(path.read_bytes()) < 128_000  # limit of a command line
    read = yaml.safe_load(path.read_text())
    if suffix == ".json":
        assert read == json.loads(path.read_text())
    assert read["joint_names"] == list(arm.velocity_names)
    points = read["points"]
    time = np.array(
        [
            point["time_from_start"]["sec"] + 1e-9 * point["time_from_start"]["nanosec"]
            for point in points
        ]
    )
    peer.close(time, np.linspace(0.0, 20.0, 201), 1e-12)
    values = np.array(
        [[point[key] for key in ("positions", "velocities", "accelerations")] for point in points]
    )
    assert values.shape == (201, 3, 6)
    assert all(isinstance(number, float) for number in points[0]["velocities"])
    spline = BPoly.from_derivatives(time, values)  # the interpolation of controllers
    between = np.linspace(0.0, 20.0, 3000)
    assert np.abs(spline(between) - motion.at(between)[0]).max() < 1e-4


def test_table_and_samples(arm, motion, tmp_path):
    motion.write(tmp_path / "motion.csv")
    read = Samples.from_table(arm, tmp_path / "motion.csv")
    rows = np.searchsorted(motion.time, read.time - 1e-6)
    assert np.abs(read.a - motion.a[rows]).max() < 1e-2
    samples = motion.samples()
    assert np.array_equal(samples.a, motion.a) and np.array_equal(samples.tau, motion.tau)


def test_files_with_other_names(motion, tmp_path):
    with pytest.raises(ValueError, match=r"motion.txt'.* ends with .yaml, .json or .csv"):
        motion.write(tmp_path / "motion.txt")
    with pytest.raises(ValueError, match="rate: expected points per second, more than 0, got -1"):
        motion.write(tmp_path / "motion.yaml", rate=-1.0)
