# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A single unknown contact: its link, force and line of action, against applied forces."""

import copy
import functools

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros import ReferenceFrame, isolate_contact

WORLD_AXES = ReferenceFrame.LOCAL_WORLD_ALIGNED
ROBOTS = pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("arm7", None),
        ("panda", None),
        ("ur5", None),
        ("xarm7", None),
        ("solo12", "floating"),
        ("talos_reduced", None),
        ("talos_reduced", "floating"),
        ("tiago", None),
        ("every_joint", "floating"),
        ("ball_joints", None),
    ],
)


@functools.cache
def load(robot, root_joint=None):
    if robot == "arm7":
        return dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf", root_joint)
    return peer.pair(robot, root_joint).model


class Pushes:
    """Random pushes against random links."""

    def __init__(self, robot, root_joint=None, seed=0, noise=0.1):
        self.model = load(robot, root_joint)
        self.data, self.rng = dyn_ros.Data(self.model), np.random.default_rng(seed)
        self.noise = noise
        self.links = [
            joint for joint, inertia in enumerate(self.model.inertias) if inertia.mass > 0.0
        ]

    def name(self, joint):
        """The first link that a joint moves."""
        return next(
            frame.name
            for frame in self.model.tree.frames
            if frame.parent == joint and frame.kind == "body"
        )

    def push(self, joint=None, least=10.0, most=80.0):
        """q, force, a point of its line in the world, joint, and measured external efforts."""
        model, rng = self.model, self.rng
        joint = int(rng.choice(self.links)) if joint is None else joint
        q = model.random_configuration(rng)
        force = rng.normal(size=3)
        force *= rng.uniform(least, most) / np.linalg.norm(force)
        center = model.inertias[joint].com
        offset = center + 0.05 * rng.normal(size=3)
        J = dyn_ros.joint_jacobian(model, self.data, q, joint, WORLD_AXES, offset)
        tau = J[:3].T @ force + self.noise * rng.normal(size=model.nv)
        dyn_ros.forward_kinematics(model, self.data, q)
        X = self.data.oMi[joint]
        return q, force, X[:3, :3] @ offset + X[:3, 3], joint, tau

    def isolate(self, q, tau, **settings):
        return isolate_contact(
            self.model, self.data, q, tau, settings.pop("threshold", 5.0 * self.noise), **settings
        )


def distance(line, point):
    """Of a point from a line, which is a point and a unit vector."""
    away = point - line[0]
    return np.linalg.norm(away - line[1] * (away @ line[1]))


@ROBOTS
def test_pushes_against_random_links(robot, root_joint):
    pushes = Pushes(robot, root_joint)
    felt = possible = 0
    scores, away = [], []
    for _ in range(150):
        q, force, point, joint, tau = pushes.push()
        found = pushes.isolate(q, tau)
        assert found.collision == bool((np.abs(tau) > 0.5).any())
        if not found.collision:
            continue
        felt += 1
        assert found.link == found.possible_links[0]
        assert sum(found.probabilities) == pytest.approx(1.0)
        possible += pushes.name(joint) in found.possible_links
        if found.determined:
            error = found.force - force
            scores.append(np.sqrt(error @ np.linalg.pinv(found.covariance, 1e-9) @ error))
            assert found.magnitude == pytest.approx(np.linalg.norm(found.force))
            np.testing.assert_allclose(found.direction * found.magnitude, found.force)
        if found.line_valid:
            away.append(distance((found.point, found.direction), point) / found.point_deviation)
    assert felt > 75
    assert possible >= 0.97 * felt
    # the noise is 0.8 of what the threshold implies
    assert np.quantile(scores or [0.0], 0.98) < 3.0
    assert np.quantile(away or [0.0], 0.96) < 2.5


@pytest.mark.parametrize(
    "robot, root_joint, joint, expected",
    [
        ("arm7", None, 6, 140),
        ("panda", None, 6, 140),
        ("ur5", None, 5, 90),
        ("xarm7", None, 6, 140),
        ("solo12", "floating", 8, 150),
        ("talos_reduced", "floating", 14, 150),
    ],
)
def test_a_known_covariance_states_the_errors(robot, root_joint, joint, expected):
    """Squared errors, in units of their covariance, of forces on the last link."""
    pushes = Pushes(robot, root_joint, seed=1)
    covariance = pushes.noise**2 * np.eye(pushes.model.nv)
    squares = []
    for _ in range(160):
        q, force, _, _, tau = pushes.push(joint)
        found = pushes.isolate(q, tau, covariance=covariance)
        if found.determined and len(found.possible_links) == 1:
            error = found.force - force
            squares.append(error @ np.linalg.solve(found.covariance, error))
    determined = [pushes.isolate(*pushes.push(joint)[::4]).determined for _ in range(160)]
    assert sum(determined) >= expected
    assert not squares or 1.5 < np.mean(squares) < 4.5  # three numbers


@pytest.mark.parametrize(
    "robot, root_joint, joint",
    [
        ("arm7", None, 6),
        ("panda", None, 6),
        ("xarm7", None, 6),
        ("solo12", "floating", 5),
        ("talos_reduced", "floating", 20),
    ],
)
def test_exact_without_noise(robot, root_joint, joint):
    pushes = Pushes(robot, root_joint, seed=2, noise=0.0)
    exact = 0
    for _ in range(40):
        q, force, point, _, tau = pushes.push(joint)
        found = pushes.isolate(q, tau, threshold=1e-3)
        if not found.line_valid:
            continue
        exact += 1
        np.testing.assert_allclose(found.force, force, atol=1e-2)
        assert found.explained
        assert found.is_pure_force
        assert distance((found.point, found.direction), point) < 1e-2
        origin = pushes.data.oMi[joint_of(pushes.model, found.link)][:3, 3]
        assert abs((found.point - origin) @ found.direction) < 1e-6
        assert found.torque == pytest.approx(0.0, abs=0.05) or np.isnan(found.torque)
    assert exact >= 30


def joint_of(model, link):
    """Index of the joint that moves a link."""
    return model.tree.frames[model.frame_index(link)].parent


def test_the_direction_of_a_weak_push_at_the_tool():
    """5 N, noise of 0.02 N m: within 5 degrees where the efforts determine it that well."""
    pushes = Pushes("arm7", seed=3, noise=0.02)
    angles, expected = [], []
    for _ in range(200):
        q, force, _, _, tau = pushes.push(6, 5.0, 5.0)
        found = pushes.isolate(q, tau, threshold=0.3, covariance=0.02**2 * np.eye(7))
        if found.determined and found.direction_deviation < np.radians(2.0):
            angles.append(np.degrees(np.arccos(min(found.direction @ force / 5.0, 1.0))))
            expected.append(np.degrees(found.direction_deviation))
    assert len(angles) > 80
    assert np.mean(np.array(angles) < 5.0) > 0.98
    assert 0.3 < np.mean(angles) / np.mean(expected) < 1.2


def test_no_collision():
    pushes = Pushes("panda")
    found = pushes.isolate(np.zeros(8), np.full(8, 0.4))
    assert not found.collision
    assert found.joints == found.possible_links == found.probabilities == ()
    assert found.link == ""
    assert np.isnan([found.magnitude, found.deviation, *found.direction, *found.point]).all()
    assert not found.determined
    assert not found.line_valid
    assert "no collision" in repr(found)


def test_joints_that_feel_it():
    pushes = Pushes("talos_reduced", "floating")
    tau = np.zeros(pushes.model.nv)
    tau[[1, 3, 10]] = 20.0
    found = pushes.isolate(pushes.model.neutral(), tau)
    assert found.joints == ("root_joint", pushes.model.velocity_names[10])
    assert repr(found).startswith("IsolatedContact(")


def test_a_threshold_for_each_joint():
    pushes = Pushes("ur5")
    tau = np.array([0.0, 3.0, 0.0, 0.0, 0.0, 0.0])
    limits = np.array([1.0, 4.0, 1.0, 1.0, 1.0, 1.0])
    assert not pushes.isolate(np.zeros(6), tau, threshold=limits).collision
    limits[1] = 2.0
    assert pushes.isolate(np.zeros(6), tau, threshold=limits).joints == ("shoulder_lift_joint",)


@ROBOTS
def test_the_other_branches_feel_nothing(robot, root_joint):
    """The links that are possible are before or beyond the joints that feel the push."""
    pushes = Pushes(robot, root_joint, seed=4, noise=0.01)
    model = pushes.model
    for _ in range(40):
        q, _, _, _, tau = pushes.push()
        found = pushes.isolate(q, tau, threshold=0.05)
        if not found.collision or not found.explained:
            continue
        felt = {model.joint_index(name) for name in found.joints}
        for link in found.possible_links:
            moving = {model.idx_v[joint] for joint in model.supports[joint_of(model, link)]}
            assert {model.idx_v[joint] for joint in felt} <= moving  # mimics move with masters


def test_a_force_through_the_last_axis():
    """The last joint feels nothing: the links before and beyond it are possible."""
    pushes = Pushes("ur5", noise=0.0)
    q = np.array([0.3, -1.2, 1.5, 0.4, 0.9, 0.7])
    model, data = pushes.model, pushes.data
    J = dyn_ros.joint_jacobian(model, data, q, 5, WORLD_AXES, [0.0, 0.0, 0.0]).copy()
    force = np.array([10.0, 20.0, -15.0])
    found = pushes.isolate(q, J[:3].T @ force, threshold=0.3)
    assert {"wrist_2_link", "wrist_3_link"} <= set(found.possible_links)
    assert "wrist_3_joint" not in found.joints
    assert "forearm_link" not in found.possible_links


def test_a_contact_with_a_torque():
    pushes = Pushes("xarm7", seed=5, noise=0.0)
    for _ in range(20):
        q, force, point, _, tau = pushes.push(6)
        twist = 12.0 * force / np.linalg.norm(force)
        J = dyn_ros.joint_jacobian(pushes.model, pushes.data, q, 6, WORLD_AXES)
        found = pushes.isolate(q, tau + J[3:].T @ twist, threshold=0.1)
        if np.isnan(found.torque):
            continue
        assert not found.is_pure_force
        assert found.explained
        assert found.torque == pytest.approx(12.0, abs=0.3)
        assert 0.0 < found.torque_deviation < 3.0
        np.testing.assert_allclose(found.force, force, atol=1.0)
        if found.line_valid:
            assert distance((found.point, found.direction), point) < 0.03


def test_two_contacts_are_not_explained():
    pushes = Pushes("talos_reduced", "floating", seed=6)
    model, data = pushes.model, pushes.data
    q = model.random_configuration(pushes.rng)
    left, right = (
        dyn_ros.frame_jacobian(model, data, q, f"arm_{side}_5_link", WORLD_AXES).copy()
        for side in ("left", "right")
    )
    tau = left[:3].T @ [30.0, 10.0, 0.0] + right[:3].T @ [0.0, -20.0, 40.0]
    found = pushes.isolate(q, tau)
    assert found.collision
    assert not found.explained
    assert (np.abs(found.residual) > 0.5).any()


# --- what few joints do not determine

AXIS = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}


def chain(*joints):
    """An arm of links of 0.4 m; each joint is its type and axis."""
    parts = ["<robot name='r'><link name='l0'/>"]
    for n, (kind, axis) in enumerate(joints, 1):
        parts.append(
            f"<link name='l{n}'><inertial><origin xyz='0.2 0 0'/><mass value='1'/><inertia "
            "ixx='0.01' iyy='0.01' izz='0.01' ixy='0' ixz='0' iyz='0'/></inertial></link>"
            f"<joint name='j{n}' type='{kind}'><origin xyz='{0.4 if n > 1 else 0} 0 0'/>"
            f"<parent link='l{n - 1}'/><child link='l{n}'/><axis xyz='{axis}'/>"
            "<limit effort='1' velocity='1' lower='-3' upper='3'/></joint>"
        )
    return dyn_ros.Model.from_urdf("".join(parts) + "</robot>")


def isolate_at_tip(model, q, force, offset=(0.3, 0.02, -0.05), **settings):
    data = dyn_ros.Data(model)
    J = dyn_ros.joint_jacobian(model, data, q, model.njoints - 1, WORLD_AXES, offset)
    return isolate_contact(model, data, q, J[:3].T @ force, **{"threshold": 0.3, **settings})


@pytest.mark.parametrize("axes", ["z", "zz", "zzz", "zyy", "zyyx"])
def test_a_few_joints_do_not_determine_the_force(axes):
    model = chain(*(("revolute", AXIS[axis]) for axis in axes))
    found = isolate_at_tip(model, np.full(model.nv, 0.4), np.array([20.0, 30.0, -25.0]))
    assert found.collision
    assert not found.determined
    assert not found.line_valid
    assert np.isnan(
        [found.magnitude, found.deviation, *found.direction, *found.point, found.torque]
    ).all()
    assert np.isfinite(found.force).all()
    assert "not determined" in repr(found)


def test_a_gantry_determines_the_force_but_not_its_line():
    model = chain(("prismatic", "1 0 0"), ("prismatic", "0 1 0"), ("prismatic", "0 0 1"))
    force = np.array([20.0, 30.0, -25.0])
    found = isolate_at_tip(model, np.zeros(3), force)
    assert found.determined
    np.testing.assert_allclose(found.force, force, atol=0.1)
    assert found.link == "l3"
    assert not found.line_valid
    assert np.isnan(found.torque)


def test_five_joints_are_never_sure_of_a_wrong_force():
    """Two lines can explain the efforts."""
    rng = np.random.default_rng(8)
    model = chain(
        ("revolute", "0 0 1"),
        ("revolute", "0 1 0"),
        ("revolute", "0 1 0"),
        ("revolute", "1 0 0"),
        ("revolute", "0 1 0"),
    )
    determined = 0
    for _ in range(300):
        force = 30.0 * rng.normal(size=3)
        found = isolate_at_tip(
            model, rng.uniform(-2.0, 2.0, 5), force, offset=rng.uniform(-0.1, 0.3, 3)
        )
        if found.determined:
            determined += 1
            error = found.force - force
            assert error @ np.linalg.pinv(found.covariance, 1e-9) @ error < 16.0
    assert determined > 20


def test_joints_whose_efforts_are_not_measured():
    pushes = Pushes("xarm7", seed=9, noise=0.0)
    q, force, _, _, tau = pushes.push(6)
    limits = np.full(7, 0.1)
    whole = pushes.isolate(q, tau, threshold=limits)
    limits[2], tau[2] = np.inf, 1e3
    found = pushes.isolate(q, tau, threshold=limits)
    assert "joint3" not in found.joints
    assert whole.determined
    assert found.determined
    np.testing.assert_allclose(found.force, force, atol=0.5)


# --- invariance


@pytest.mark.parametrize("far", [0.0, 1e3])
def test_a_robot_that_is_moved(far):
    """The force and the line turn and move with a floating robot."""
    pushes = Pushes("talos_reduced", "floating", seed=10)
    moved = 0
    for _ in range(20):
        q, _, _, _, tau = pushes.push()
        turn = pushes.rng.normal(size=4)
        X = dyn_ros.SE3.from_quaternion(turn / np.linalg.norm(turn), far * np.ones(3))
        base = X * dyn_ros.SE3.from_quaternion(q[3:7], q[:3])
        X = X.as_homogeneous()
        other = np.concatenate([base.translation, base.as_quaternion(), q[7:]])
        first = pushes.isolate(q, tau)
        second = pushes.isolate(other, tau)
        assert second.possible_links == first.possible_links
        np.testing.assert_allclose(second.force, X[:3, :3] @ first.force, atol=1e-6)
        if first.line_valid:
            moved += 1
            np.testing.assert_allclose(second.point, X[:3, :3] @ first.point + X[:3, 3], atol=1e-6)
    assert moved > 3


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_units_of_force(scale):
    pushes = Pushes("panda", seed=11)
    for _ in range(20):
        q, _, _, _, tau = pushes.push()
        one = pushes.isolate(q, tau)
        other = pushes.isolate(q, scale * tau, threshold=0.5 * scale, force=100.0 * scale)
        assert other.possible_links == one.possible_links
        np.testing.assert_allclose(other.force, scale * one.force, rtol=1e-6, atol=1e-6 * scale)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e12, 1e90, 1e200, 1e300])
def test_huge_efforts_do_no_harm(size):
    pushes = Pushes("panda", seed=12, noise=0.0)
    q, _, _, _, tau = pushes.push(6)
    found = pushes.isolate(q, size * tau / np.abs(tau).max(), threshold=0.1)
    assert found.collision
    assert found.joints
    if size <= 1e12:
        assert found.determined
    assert np.isfinite(found.probabilities).all()


@pytest.mark.parametrize("robot, root_joint", [("arm7", None), ("every_joint", "floating")])
@pytest.mark.filterwarnings("error")
def test_any_efforts_and_thresholds(robot, root_joint):
    """Of all orders of magnitude, also in singular configurations."""
    pushes = Pushes(robot, root_joint, seed=13)
    rng, nv = pushes.rng, pushes.model.nv
    for n in range(300):
        q = pushes.model.random_configuration(rng) if n % 3 else pushes.model.neutral()
        tau = rng.normal(size=nv) * 10.0 ** rng.uniform(-20.0, 20.0, nv) * (rng.random(nv) < 0.5)
        limits = 10.0 ** rng.uniform(-12.0, 6.0, nv)
        limits[rng.integers(nv)] = np.inf
        half = rng.normal(size=(nv, nv)) * 10.0 ** rng.uniform(-4.0, 2.0)
        covariance = half @ half.T + 1e-6 * np.trace(half @ half.T) * np.eye(nv)
        found = pushes.isolate(q, tau, threshold=limits, covariance=covariance if n % 2 else None)
        assert np.isfinite(found.force).all()
        assert np.isfinite(found.covariance).all()
        assert bool(found.link) == found.collision


def test_a_configuration_too_large_to_compute_with():
    pushes = Pushes("ur5")
    found = pushes.isolate(np.full(6, 1e300), np.full(6, 9.0))
    assert found.collision
    assert found.link == ""
    assert not found.explained


@pytest.mark.parametrize("position", [1e45, 1e90, 1e150, 1.7e308])
@pytest.mark.filterwarnings("error")
def test_a_position_whose_lever_arms_overflow(position):
    model = load("limb")
    found = dyn_ros.isolate_contact(
        model, dyn_ros.Data(model), [-0.3, position], [9e15, -0.2], threshold=[2.0, 1e9]
    )
    assert found.collision and np.isfinite(found.probabilities).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_magnitude_of_the_force_is_enough(seed):
    pushes = Pushes("xarm7", seed=seed)
    for _ in range(20):
        q, _, _, _, tau = pushes.push(6)
        found = [pushes.isolate(q, tau, force=force) for force in (50.0, 200.0)]
        if found[0].determined and found[0].link == found[1].link:
            change = found[1].force - found[0].force
            assert change @ np.linalg.pinv(found[0].covariance, 1e-9) @ change < 1.0


def test_a_model_can_be_copied_and_its_inertias_can_change():
    model = copy.copy(load("arm7"))
    data, tau = dyn_ros.Data(model), np.full(7, 5.0)
    first = isolate_contact(model, data, model.neutral(), tau, 1.0)
    model.set_payload(
        "cup",
        "tool" if "tool" in model.frame_names else model.nframes - 1,
        0.5,
        (0, 0, 0.1),
        1e-3 * np.eye(3),
    )
    np.testing.assert_array_equal(
        isolate_contact(model, data, model.neutral(), tau, 1.0).force, first.force
    )


def test_the_result_owns_its_arrays():
    pushes = Pushes("ur5")
    q, _, _, _, tau = pushes.push(5)
    first = pushes.isolate(q, tau)
    kept = first.force.copy(), first.residual.copy()
    pushes.isolate(*pushes.push(5)[::4])
    np.testing.assert_array_equal(first.force, kept[0])
    np.testing.assert_array_equal(first.residual, kept[1])


# --- invalid arguments


@pytest.mark.parametrize(
    "changed, words",
    [
        (dict(tau_ext=np.zeros(5)), "tau_ext: expected shape"),
        (dict(threshold=np.inf), "got inf for all, so that nothing is a collision"),
        (dict(tau_ext=np.full(6, np.inf)), "tau_ext: expected finite"),
        (dict(tau_ext=np.zeros((2, 6))), "tau_ext: expected a single state"),
        (dict(q=np.zeros((2, 6))), "q: expected a single state"),
        (dict(q=np.full(6, np.nan)), "q: expected finite"),
        (dict(threshold=0.0), r"threshold: .* got 0 in threshold\[0\] \('shoulder_pan_joint'\)"),
        (dict(threshold=[1, 1, 1, -1, 1, 1]), r"got -1 in threshold\[3\]"),
        (dict(threshold=np.nan), "threshold: .* got nan"),
        (dict(threshold=np.ones(5)), "threshold: expected 6 positive numbers"),
        (dict(threshold="high"), "threshold: .* got 'high'"),
        (dict(threshold=[1, [2]]), "threshold: expected 6 positive numbers"),
        (dict(covariance=np.eye(3)), "covariance: expected shape"),
        (dict(force=0.0), "force: expected a positive number"),
    ],
)
def test_invalid_arguments_are_named(changed, words):
    model = load("ur5")
    given = dict(q=np.zeros(6), tau_ext=np.zeros(6), threshold=1.0) | changed
    with pytest.raises(ValueError, match=words):
        isolate_contact(model, dyn_ros.Data(model), **given)


def test_another_object_as_model_or_data():
    model = load("ur5")
    with pytest.raises(TypeError, match="model: expected"):
        isolate_contact(None, dyn_ros.Data(model), np.zeros(6), np.zeros(6), 1.0)
    with pytest.raises(TypeError, match="data: expected"):
        isolate_contact(model, None, np.zeros(6), np.zeros(6), 1.0)
