# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrenches at known frames from external efforts: exact, weighted, damped, and what is unseen."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros import Contact, ReferenceFrame, external_wrench, external_wrenches

WRENCH = np.array([12.0, -7.0, 20.0, 0.8, -1.5, 0.6])
AXES = pytest.mark.parametrize("axes", list(ReferenceFrame), ids=lambda axes: axes.name)
STATES = 6  # random states for each test


def load(robot, root_joint=None):
    model = peer.pair(robot, root_joint).model
    return model, dyn_ros.Data(model)


def efforts(pair, q, frame, axes, wrench):
    """J' w with the Jacobian of Pinocchio."""
    index = pair.pin.getFrameId(pair.model.frame_names[frame])
    pinocchio.computeJointJacobians(pair.pin, pair.pin_data, pair.to_pin_q(q))
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    J = pinocchio.getFrameJacobian(pair.pin, pair.pin_data, index, pinocchio.ReferenceFrame(axes))
    return pair.G.T @ J.T @ wrench


@AXES
@pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("panda", None),
        ("ur5", None),
        ("xarm7", None),
        ("talos_reduced", None),
        ("baxter", None),
        ("solo12", "floating"),
        ("talos_reduced", "floating"),
        ("every_joint", "floating"),
    ],
)
def test_a_wrench_that_all_joints_see_is_exact(robot, root_joint, axes):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, dyn_ros.Data(pair.model)
    frame = max(
        range(model.nframes),
        key=lambda n: (
            len(model.supports[model.tree.frames[n].parent])
            if model.tree.frames[n].parent >= 0
            else 0
        ),
    )
    seen = 0
    for seed in range(STATES):
        q = pair.state(seed)[0]
        tau = efforts(pair, q, frame, axes, WRENCH)
        found = external_wrench(model, data, q, tau, frame, axes)
        if found.rank == 6:
            seen += 1
            peer.close(found.wrench, WRENCH, 1e-9)
            np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
            assert found.unobservable.shape == (6, 0)
    assert seen >= STATES // 2


@AXES
def test_at_a_point_of_a_frame(axes):
    model, data = load("panda")
    q, point = peer.pair("panda").state(3)[0], np.array([0.1, -0.2, 0.3])
    J = dyn_ros.frame_jacobian(model, data, q, "panda_link7", axes, point)
    found = external_wrench(model, data, q, J.T @ WRENCH, "panda_link7", axes, point)
    peer.close(found.wrench, WRENCH, 1e-9)


def singular(angle):
    """UR5 with this angle of the wrist, whose axes 4 and 6 are parallel at zero."""
    model, data = load("ur5")
    return model, data, np.array([0.3, -1.2, 1.5, 0.4, angle, 0.7])


def test_what_a_singular_wrist_does_not_see():
    model, data, q = singular(0.0)
    J = dyn_ros.frame_jacobian(model, data, q, "wrist_3_link", ReferenceFrame.LOCAL).copy()
    found = external_wrench(model, data, q, J.T @ WRENCH, "wrist_3_link")
    assert found.rank == 5
    assert found.observable.shape == (6, 5)
    assert found.unobservable.shape == (6, 1)
    np.testing.assert_allclose(J.T @ found.unobservable, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
    rest = WRENCH - found.wrench
    part = np.linalg.lstsq(found.unobservable, rest, rcond=None)[0]
    np.testing.assert_allclose(found.unobservable @ part, rest, atol=1e-9)


def test_directions_are_wrenches_of_the_singular_values():
    model, data, q = singular(0.5)
    J = dyn_ros.frame_jacobian(model, data, q, "wrist_3_link", ReferenceFrame.LOCAL).copy()
    found = external_wrench(model, data, q, np.zeros(6), "wrist_3_link", length=0.25)
    assert (np.diff(found.singular_values) <= 0.0).all()
    scaled = found.directions / np.array([1.0, 1.0, 1.0, 0.25, 0.25, 0.25])[:, None]
    np.testing.assert_allclose(scaled.T @ scaled, np.eye(6), atol=1e-12)
    np.testing.assert_allclose(
        np.linalg.norm(J.T @ found.directions, axis=0), found.singular_values, rtol=1e-12
    )


def test_no_jump_where_a_direction_becomes_unobservable():
    angles = np.linspace(-0.4, 0.4, 2001)
    found = []
    for angle in angles:
        model, data, q = singular(angle)
        J = dyn_ros.frame_jacobian(model, data, q, "wrist_3_link", ReferenceFrame.LOCAL)
        found.append(external_wrench(model, data, q, J.T @ WRENCH, "wrist_3_link"))
    wrenches = np.array([each.wrench for each in found])
    assert np.abs(np.diff(wrenches, axis=0)).max() < 0.2
    assert {each.rank for each in found} == {5, 6}
    exact = np.array([each.rank == 6 for each in found])
    np.testing.assert_allclose(
        wrenches[exact], np.broadcast_to(WRENCH, wrenches[exact].shape), atol=1e-8
    )


def test_the_damping_bounds_the_effect_of_noise():
    model, data, q = singular(0.01)
    noise = np.random.default_rng(0).normal(size=6)
    for damping in (0.003, 0.01, 0.03):
        found = external_wrench(model, data, q, noise, "wrist_3_link", damping=damping, length=1.0)
        assert np.linalg.norm(found.wrench) <= np.linalg.norm(noise) / damping
        assert found.rank == (found.singular_values >= damping).sum()


def test_fewer_joints_than_numbers_of_a_wrench():
    model = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
    frame = model.tree.frames[model.frame_index(model.joint_names[2])].name
    data, q = dyn_ros.Data(model), model.random_configuration(np.random.default_rng(2))
    J = dyn_ros.frame_jacobian(model, data, q, frame, ReferenceFrame.LOCAL).copy()
    found = external_wrench(model, data, q, J.T @ WRENCH, frame)
    assert found.rank <= 3
    assert found.singular_values.shape == (6,)
    assert found.directions.shape == (6, 6)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
    np.testing.assert_allclose(found.singular_values[3:], 0.0, atol=1e-12)


def test_a_robot_with_one_joint():
    model = dyn_ros.Model.from_urdf(
        "<robot name='r'><link name='a'/><link name='b'><inertial><mass value='1'/>"
        "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial></link>"
        "<joint name='j' type='continuous'><parent link='a'/><child link='b'/>"
        "<axis xyz='0 0 1'/></joint></robot>"
    )
    model = model.with_frame("tip", "b", dyn_ros.SE3(np.eye(3), [1.0, 0.0, 0.0]))
    found = external_wrench(model, dyn_ros.Data(model), [0.0], [2.0], "tip", length=1e-3)
    np.testing.assert_allclose(found.wrench, [0.0, 2.0, 0.0, 0.0, 0.0, 0.0], atol=1e-5)
    assert found.rank == 1


def test_a_covariance_weighs_the_efforts():
    """Generalized least squares, with its covariance."""
    model, data = load("xarm7")
    rng = np.random.default_rng(4)
    q = peer.pair("xarm7").state(4)[0]
    half = rng.normal(size=(model.nv, model.nv)) * 0.2 + 0.3 * np.eye(model.nv)
    covariance = half @ half.T
    J = dyn_ros.frame_jacobian(model, data, q, "link7", ReferenceFrame.LOCAL).copy()
    tau = J.T @ WRENCH + half @ rng.normal(size=model.nv)
    found = external_wrench(model, data, q, tau, "link7", covariance=covariance, damping=1e-6)
    information = J @ np.linalg.inv(covariance) @ J.T
    np.testing.assert_allclose(found.covariance, np.linalg.inv(information), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        found.wrench, np.linalg.solve(information, J @ np.linalg.solve(covariance, tau)), rtol=1e-8
    )
    equal = external_wrench(model, data, q, tau, "link7")
    weighted = external_wrench(model, data, q, tau, "link7", covariance=4.0 * np.eye(model.nv))
    np.testing.assert_allclose(weighted.wrench, equal.wrench, rtol=1e-10)
    np.testing.assert_allclose(weighted.singular_values, 0.5 * equal.singular_values, rtol=1e-10)
    assert equal.covariance is None


@pytest.mark.parametrize("angle", [0.0, 0.02, 0.05, 1.0])
def test_the_covariance_is_that_of_the_errors(angle):
    """Near the singularity too, if the hidden part of the wrench is what the docstring states."""
    model, data, q = singular(angle)
    rng, deviation = np.random.default_rng(7), 0.2
    covariance, damping = deviation**2 * np.eye(6), 0.05
    J = dyn_ros.frame_jacobian(model, data, q, "wrist_3_link", ReferenceFrame.LOCAL).copy()
    first = external_wrench(
        model, data, q, np.zeros(6), "wrist_3_link", covariance=covariance, damping=damping
    )
    wrenches = rng.normal(size=(3000, 6)) / damping @ first.directions.T
    tau = wrenches @ J + deviation * rng.normal(size=(3000, 6))
    found = external_wrench(
        model,
        data,
        np.tile(q, (3000, 1)),
        tau,
        "wrist_3_link",
        covariance=covariance,
        damping=damping,
    )
    errors = found.wrench - wrenches
    half = np.linalg.inv(np.linalg.cholesky(first.covariance))
    ratio = np.linalg.eigvalsh(np.cov(half @ errors.T))
    assert ratio[-1] < 1.15
    if first.rank == 6:
        assert ratio[0] > 0.85


@AXES
def test_a_batch(axes):
    pair = peer.pair("solo12", "floating")
    model, data = pair.model, dyn_ros.Data(pair.model)
    q, _, _, tau = pair.states(11)
    covariance = np.diag(np.linspace(0.1, 1.0, model.nv))
    found = external_wrench(
        model, data, q, tau, "FL_LOWER_LEG", axes, [0.0, 0.0, -0.1], covariance=covariance
    )
    for n in range(11):
        one = external_wrench(
            model, data, q[n], tau[n], "FL_LOWER_LEG", axes, [0.0, 0.0, -0.1], covariance=covariance
        )
        for name in ("wrench", "covariance", "singular_values", "residual"):
            np.testing.assert_allclose(
                getattr(found, name)[n], getattr(one, name), rtol=1e-9, atol=1e-9
            )
        assert found.rank[n] == one.rank
    assert "11 states" in repr(found)
    with pytest.raises(ValueError, match="single state"):
        _ = found.observable
    fixed = external_wrench(model, data, q[0], tau, "FL_LOWER_LEG", axes)
    assert fixed.wrench.shape == (11, 6)
    assert fixed.directions.shape == (11, 6, 6)
    moving = external_wrench(model, data, q, tau[0], "FL_LOWER_LEG", axes)
    assert moving.residual.shape == (11, model.nv)


# --- several contacts

FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
WORLD_AXES = ReferenceFrame.LOCAL_WORLD_ALIGNED


def test_forces_of_four_feet():
    pair = peer.pair("solo12", "floating")
    model, data = pair.model, dyn_ros.Data(pair.model)
    q = pair.state(5)[0]
    contacts = [Contact(foot, 3, WORLD_AXES) for foot in FEET]
    forces = np.random.default_rng(1).normal(size=(4, 3)) * 10.0
    tau = sum(
        efforts(pair, q, model.frame_index(foot), WORLD_AXES, np.append(force, np.zeros(3)))
        for foot, force in zip(FEET, forces)
    )
    found = external_wrenches(model, data, q, tau, contacts)
    assert tuple(found.wrenches) == FEET
    peer.close(np.array(list(found.wrenches.values())), forces, 1e-8)
    assert found.rank == 12
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-9)
    assert "FL_FOOT" in repr(found)


@AXES
def test_wrenches_on_two_hands_and_one_frame_by_name(axes):
    pair = peer.pair("talos_reduced", "floating")
    model, data = pair.model, dyn_ros.Data(pair.model)
    q, hands = pair.state(1)[0], ("arm_left_7_link", "arm_right_7_link")
    place = dyn_ros.SE3(np.eye(3), [0.1, 0.0, -0.2])
    contacts = [Contact(hands[0], 6, axes, placement=place), hands[1]]
    J = np.vstack(
        [
            dyn_ros.frame_jacobian(model, data, q, hands[0], axes, place.translation).copy(),
            dyn_ros.frame_jacobian(model, data, q, hands[1], ReferenceFrame.LOCAL),
        ]
    )
    tau = J.T @ np.concatenate([WRENCH, WRENCH[::-1]])
    found = external_wrenches(model, data, q, tau, contacts, covariance=0.01 * np.eye(model.nv))
    assert found.rank == 12
    peer.close(found.wrenches[hands[0]], WRENCH, 1e-8)
    peer.close(found.wrenches[hands[1]], WRENCH[::-1], 1e-8)
    assert found.covariance.shape == (12, 12)
    expected = np.linalg.inv(J @ J.T / 0.01)
    np.testing.assert_allclose(
        found.covariance, expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max()
    )


def test_one_contact_is_one_wrench():
    model, data = load("panda")
    q, tau = peer.pair("panda").state(2)[0], np.arange(8.0)
    one = external_wrench(model, data, q, tau, "panda_link7")
    several = external_wrenches(model, data, q, tau, "panda_link7")
    np.testing.assert_allclose(several.wrenches["panda_link7"], one.wrench, rtol=1e-9)
    np.testing.assert_allclose(several.residual, one.residual, atol=1e-9)
    batch = external_wrenches(
        model, data, np.tile(q, (3, 1)), np.tile(tau, (3, 1)), [Contact("panda_link7", 3)]
    )
    assert batch.wrenches["panda_link7"].shape == (3, 3)


def test_a_contact_between_two_links():
    model, data = load("baxter")
    q = peer.pair("baxter").state(6)[0]
    contact = Contact("left_wrist", 3, other="right_wrist", name="hands")
    J = dyn_ros.contact_jacobian(model, data, q, [contact])
    found = external_wrenches(model, data, q, J.T @ [1.0, 2.0, 3.0], [contact])
    peer.close(found.wrenches["hands"], np.array([1.0, 2.0, 3.0]), 1e-8)


# --- invalid arguments

NV = 6


@pytest.mark.parametrize(
    "changed, words",
    [
        (dict(tau_ext=np.zeros(5)), "tau_ext: expected shape"),
        (dict(tau_ext=np.full(NV, np.nan)), "tau_ext: expected finite"),
        (dict(q=np.zeros(5)), "q: expected shape"),
        (dict(frame="hand"), "no frame named 'hand'"),
        (dict(frame="base_link"), "no joint moves 'base_link'"),
        (dict(reference_frame=7), "reference_frame: expected"),
        (dict(length=0.0), "length: expected a positive number, got 0"),
        (dict(damping=-1.0), "damping: expected a positive number, got -1"),
        (dict(damping=np.nan), "damping: expected a finite number"),
        (dict(offset=np.zeros(2)), "offset|point"),
        (dict(covariance=np.eye(5)), "covariance: expected shape"),
        (dict(covariance=np.zeros((NV, NV))), "covariance: expected positive variances, got 0"),
        (dict(covariance=np.eye(NV) - 1.0), "covariance: expected"),
        (dict(covariance=np.ones((NV, NV))), "positive definite"),
        (dict(covariance=np.eye(NV) + np.eye(NV, k=1)), "symmetric"),
        (dict(covariance=np.zeros((2, NV, NV))), "covariance: expected shape"),
        (dict(q=np.zeros((3, NV)), tau_ext=np.zeros((2, NV))), "batch: .* q: 3, tau_ext: 2"),
    ],
)
def test_invalid_arguments_are_named(changed, words):
    model, data = load("ur5")
    given = dict(q=np.zeros(NV), tau_ext=np.zeros(NV), frame="wrist_3_link") | changed
    with pytest.raises(ValueError, match=words):
        external_wrench(model, data, **given)


def test_invalid_contacts_are_named():
    model, data = load("ur5")
    with pytest.raises(ValueError, match="contacts: expected at least one"):
        external_wrenches(model, data, np.zeros(6), np.zeros(6), [])
    with pytest.raises(ValueError, match="two are named 'wrist_3_link'"):
        external_wrenches(model, data, np.zeros(6), np.zeros(6), ["wrist_3_link"] * 2)
    with pytest.raises(TypeError, match="model: expected"):
        external_wrench("ur5", data, np.zeros(6), np.zeros(6), "wrist_3_link")


def test_numbers_too_large_to_compute_with_are_nan():
    model, data = load("ur5")
    q = np.zeros((2, 6))
    q[1] = 1e300
    found = external_wrench(model, data, q, np.ones((2, 6)), "wrist_3_link")
    assert np.isfinite(found.wrench[0]).all()
    assert np.isnan(found.wrench[1]).all()
