# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Kinematic regressors: how errors in the placements of joints move a frame."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating"))
SOME = peer.robots(("every_joint", "panda", "solo12", "ball_joints"))
FRAMES = list(dyn_ros.ReferenceFrame)


def of_frame(pair, q, *selected, **options):
    return dyn_ros.frame_kinematic_regressor(pair.model, pair.data, q, *selected, **options)


def of_joint(pair, q, *selected, **options):
    return dyn_ros.joint_kinematic_regressor(pair.model, pair.data, q, *selected, **options)


@EVERY
@pytest.mark.parametrize("reference_frame", FRAMES)
def test_regressors_are_pinocchios(robot, root_joint, reference_frame):
    pair = peer.pair(robot, root_joint)
    q = pair.state(1)[0]
    pinocchio.framesForwardKinematics(pair.pin, pair.pin_data, pair.to_pin_q(q))
    axes = pinocchio.ReferenceFrame.values[int(reference_frame)]
    for number, theirs in peer.some_frames(pair):
        expected = pinocchio.computeFrameKinematicRegressor(pair.pin, pair.pin_data, theirs, axes)
        peer.close(of_frame(pair, q, number, reference_frame), expected, 1e-12)
    for n, name in enumerate(pair.model.joint_names):
        expected = pinocchio.computeJointKinematicRegressor(pair.pin, pair.pin_data, n + 1, axes)
        peer.close(of_joint(pair, q, name, reference_frame), expected, 1e-12)


@SOME
def test_the_placement_of_a_frame_changes_accordingly(robot, root_joint):
    """By differences, of Pinocchio with other placements of its joints."""
    pair, step = peer.pair(robot, root_joint), 1e-4
    q, frame = pair.state(2)[0], pair.model.frame_names[-1]
    found = of_frame(pair, q, frame, dyn_ros.ReferenceFrame.LOCAL).copy()
    before = peer_placement(pair.pin, pair.to_pin_q(q), frame)
    for column in range(found.shape[1]):
        joint, motion = column // 6 + 1, np.zeros(6)
        slopes = []
        for sign in (1.0, -1.0):
            other = pinocchio.Model(pair.pin)
            motion[column % 6] = sign * step
            other.jointPlacements[joint] = other.jointPlacements[joint] * pinocchio.exp6(
                pinocchio.Motion(motion)
            )
            after = peer_placement(other, pair.to_pin_q(q), frame)
            slopes.append(pinocchio.log6(before.actInv(after)).vector / (sign * step))
        peer.close(
            found[:, column],
            0.5 * (slopes[0] + slopes[1]),
            1e-6,
            scale=max(1.0, np.abs(found).max()),
        )


def peer_placement(pin, q, frame):
    data = pin.createData()
    pinocchio.framesForwardKinematics(pin, data, q)
    return data.oMf[pin.getFrameId(frame)].copy()


@SOME
@pytest.mark.parametrize("reference_frame", FRAMES)
def test_motions_along_a_joint_are_those_of_its_coordinate(robot, root_joint, reference_frame):
    pair = peer.pair(robot, root_joint)
    q, frame = pair.state(1)[0], pair.model.frame_names[-1]
    found = of_frame(pair, q, frame, reference_frame)
    J = np.zeros((6, pair.model.nv))
    single = []
    for i, joint in enumerate(pair.model.tree.joints):
        if joint.kind not in ("revolute", "continuous", "prismatic"):
            continue
        axis = np.zeros(6)
        axis[(0 if joint.kind == "prismatic" else 3) :][:3] = joint.axis
        ratio = joint.mimic.multiplier if joint.mimic else 1.0
        J[:, pair.model.idx_v[i]] += ratio * (found[:, 6 * i : 6 * i + 6] @ axis)
        single.append(pair.model.idx_v[i])
    expected = dyn_ros.frame_jacobian(pair.model, pair.data, q, frame, reference_frame)
    peer.close(J[:, single], expected[:, single], 1e-12)


@SOME
def test_a_batch_contains_the_results_of_its_states(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q = pair.states(33, seed=1)[0]
    frame, joint = pair.model.frame_names[-1], pair.model.joint_names[-1]
    for function, name in ((of_frame, frame), (of_joint, joint)):
        for axes in FRAMES:
            each = np.array([function(pair, state, name, axes).copy() for state in q])
            for size in (1, 7, 8, 9, 33):
                found = function(pair, q[:size], name, axes, threads=2)
                peer.close(found, each[:size], 1e-13)
        assert function(pair, q[0], name, axes) is pair.data.frame_kinematic_regressor


@pytest.mark.parametrize("states", [1, 9])
def test_bad_arguments_are_rejected(states):
    pair = peer.pair("panda")
    q, world = pair.states(states)[0], dyn_ros.ReferenceFrame.WORLD
    with pytest.raises(ValueError, match=r"no frame named 'none'; available: "):
        of_frame(pair, q, "none", world)
    with pytest.raises(ValueError, match=r"no joint named 'none'; available: "):
        of_joint(pair, q, "none", world)
    with pytest.raises(ValueError, match=r"reference_frame: expected"):
        of_frame(pair, q, 1, 5)
    q[-1, 2] = np.nan
    for each in (q, q[-1]):
        with pytest.raises(ValueError, match=r"q: .*nan"):
            of_frame(pair, each, 1, world)
