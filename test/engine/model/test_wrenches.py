# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Wrenches on frames in any axes, by virtual work: tau = -J' f."""

import numpy as np
import pytest

import dyn_ros
import peer

WORLD, LOCAL, ALIGNED = dyn_ros.ReferenceFrame
ROBOTS = "every_joint", "panda", "talos_reduced", "kinova", "ball_joints"


def torque(pair, q, f_ext):
    """The joint torques that hold external wrenches."""
    data = dyn_ros.Data(pair.model)
    return dyn_ros.static_torque(pair.model, data, q, f_ext) - dyn_ros.generalized_gravity(
        pair.model, data, q
    )


def frames_of(model):
    """Frames on different bodies, by name, those that are not unique left out."""
    unique = [f for f in model.tree.frames if model.frame_names.count(f.name) == 1]
    return {frame.parent: frame.name for frame in unique}


def turned(R, wrench):
    return np.concatenate([R @ wrench[:3], R @ wrench[3:]])


@peer.robots(ROBOTS, root_joints=(None, "floating", "planar"))
def test_axes_of_the_world(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, rng = pair.state(1)[0], np.random.default_rng(1)
    for name in frames_of(pair.model).values():
        wrench = rng.normal(size=6)
        for axes in (WORLD, LOCAL, ALIGNED):
            J = dyn_ros.frame_jacobian(pair.model, pair.data, q, name, axes)
            f_ext = pair.model.external_forces({name: wrench}, q, axes)
            peer.close(torque(pair, q, f_ext), -J.T @ wrench, 1e-10, scale=100.0)
        J = dyn_ros.frame_jacobian(pair.model, pair.data, q, name, ALIGNED)
        f_ext = pair.model.external_forces({name: wrench}, q, "world")
        peer.close(torque(pair, q, f_ext), -J.T @ wrench, 1e-10, scale=100.0)


@peer.robots(ROBOTS)
def test_axes_of_another_frame(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, rng = pair.state(2)[0], np.random.default_rng(2)
    oMf = dyn_ros.frame_placements(pair.model, pair.data, q).copy()
    names = list(frames_of(pair.model).values())
    for name, axes in zip(names, rng.permutation(names)):
        wrench = rng.normal(size=6)
        R = oMf[pair.model.frame_index(axes)][:3, :3]
        expected = pair.model.external_forces({name: turned(R, wrench)}, q, "world")
        peer.close(
            pair.model.external_forces({name: wrench}, q, str(axes)),
            expected,
            1e-12,
            scale=max(1.0, np.abs(expected).max()),
        )


def test_several_wrenches_add_up():
    pair = peer.pair("panda")
    q, rng = pair.state(3)[0], np.random.default_rng(3)
    wrenches = {name: rng.normal(size=6) for name in ("panda_hand", "panda_joint8", "panda_link3")}
    total = sum(
        pair.model.external_forces({name: wrench}, q, "world") for name, wrench in wrenches.items()
    )
    peer.close(pair.model.external_forces(wrenches, q, "world"), total, 1e-14)
    on_base = pair.model.external_forces({"panda_link0": np.ones(6)}, q, "world")
    assert on_base.shape == (pair.model.njoints, 6) and not on_base.any()


def test_frames_of_one_body_need_no_configuration():
    model = peer.pair("panda").model
    wrench = np.arange(6.0)
    expected = model.external_forces({"panda_hand": wrench}, model.neutral(), "panda_link8")
    found = model.external_forces({"panda_hand": wrench}, axes="panda_link8")
    peer.close(found, expected, 1e-15)
    assert not np.array_equal(found, model.external_forces({"panda_hand": wrench}))
    np.testing.assert_array_equal(
        model.external_forces({"panda_hand": wrench}, axes="panda_hand"),
        model.external_forces({"panda_hand": wrench}),
    )


def test_on_the_fixed_base_the_world_has_the_axes_of_its_frames():
    model = peer.pair("panda").model
    wrench = np.arange(6.0)
    q = peer.pair("panda").state(1)[0]
    peer.close(
        model.external_forces({"panda_link4": wrench}, q, "panda_link0"),
        model.external_forces({"panda_link4": wrench}, q, "world"),
        1e-15,
    )


@peer.robots(("every_joint", "panda"))
def test_a_batch(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q = pair.states(4)[0]
    name = pair.model.frame_names[-1]
    wrenches = np.random.default_rng(0).normal(size=(4, 6))
    for axes in ("world", WORLD, LOCAL, pair.model.frame_names[5]):
        one = pair.model.external_forces({name: wrenches[0]}, q, axes)
        each = pair.model.external_forces({name: wrenches}, q, axes)
        assert one.shape == each.shape == (4, pair.model.njoints, 6)
        for n in range(4):
            peer.close(one[n], pair.model.external_forces({name: wrenches[0]}, q[n], axes), 1e-13)
            peer.close(each[n], pair.model.external_forces({name: wrenches[n]}, q[n], axes), 1e-13)


def test_a_frame_with_the_name_of_the_world():
    xml = peer.urdf("panda").replace("panda_link4", "world")
    model = dyn_ros.Model.from_urdf(xml)
    q = peer.pair("panda").state(1)[0]
    wrench = np.arange(6.0)
    np.testing.assert_array_equal(
        model.external_forces({"panda_hand": wrench}, q, "world"),
        peer.pair("panda").model.external_forces({"panda_hand": wrench}, q, "panda_link4"),
    )


@pytest.mark.parametrize(
    "arguments, why",
    [
        (
            {"axes": "world"},
            "q: expected the configuration, since it determines the orientation of "
            "axes='world' in frame 'panda_hand'; got None",
        ),
        (
            {"axes": "panda_link3"},
            "orientation of axes='panda_link3' in frame 'panda_hand'; got None",
        ),
        ({"axes": ALIGNED}, "q: expected the configuration"),
        ({"axes": "nowhere"}, "no frame named 'nowhere'; available: "),
        (
            {"axes": 3},
            'axes: expected the name of a frame, "world" or a dyn_ros.ReferenceFrame, got 3',
        ),
        ({"axes": [1]}, r"axes: expected the name of a frame, .* got \[1\]"),
        ({"q": [0.0], "axes": "world"}, r"q: expected shape \(8,\), or \(B, 8\) for a batch, got"),
        ({"q": [np.nan] * 8}, "q: expected finite numbers, got nan"),
        (
            {"wrenches": {"panda_hand": [0.0] * 5}},
            "wrench on panda_hand: expected 6 finite numbers",
        ),
        (
            {"wrenches": {"panda_hand": np.zeros((2, 6))}},
            r"expected 6 finite numbers, got shape \(2, ",
        ),
        (
            {"wrenches": {"panda_hand": np.zeros((2, 6))}, "q": np.zeros((3, 8))},
            r"wrench on panda_hand: expected 3 x 6 finite numbers, got shape \(2, 6\)",
        ),
        ({"wrenches": {"panda_hand": "push"}, "q": np.zeros((3, 8))}, "expected 6 finite numbers"),
    ],
)
def test_invalid_arguments(arguments, why):
    model = peer.pair("panda").model
    with pytest.raises(ValueError, match=why):
        model.external_forces(**{"wrenches": {"panda_hand": np.zeros(6)}, **arguments})
