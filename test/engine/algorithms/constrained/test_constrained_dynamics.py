# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Classical accelerations of frames: achieved, in any axes, by the torques to send."""

import numpy as np
import pinocchio
import pytest
from dense_constraints import copied

import dyn_ros
import peer

TASKS = [
    ("ur5", None, {"tool0": 6}),
    ("panda", None, {"panda_hand": 5, "panda_link4": 1}),  # with mimics
    ("solo12", "floating", {"FL_FOOT": 3, "FR_FOOT": 3, "HL_FOOT": 3, "HR_FOOT": 3}),
    ("every_joint", "floating", {"antenna_link": 2, "tip": 3, "slider": 1, "dish": 1}),
    ("every_joint", "planar", {"antenna_link": 2, "tip": 3, "dish": 1}),
    (
        "talos_reduced",
        "floating",
        {
            "left_sole_link": 6,
            "right_sole_link": 6,
            "gripper_left_motor_double_link": 3,
            "torso_2_link": 2,
        },
    ),
    ("ball_joints", None, {"hand/claw": 6, "leg/tip": 3}),
    ("every_joint_on_balls", "floating", {"hand/claw": 3, "leg/claw": 3, "slider": 1}),
]
tasks = pytest.mark.parametrize(
    "robot, root_joint, frames",
    TASKS,
    ids=[f"{robot}-{root_joint or 'fixed'}" for robot, root_joint, _ in TASKS],
)


def task(robot, root_joint, frames, seed=0):
    """A pair, and a random state with desired accelerations of some frames."""
    pair, rng = peer.pair(robot, root_joint), np.random.default_rng(seed)
    q, v, _, tau = pair.state(seed)
    directions = np.hstack(
        [np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :k] for k in frames.values()]
    )
    frame = [name for name, k in frames.items() for _ in range(k)]
    return pair, {
        "q": q,
        "v": v,
        "frame": frame,
        "directions": directions,
        "accelerations": rng.uniform(-3.0, 3.0, len(frame)),
        "tau": tau,
        "f_ext": pair.wrenches(seed),
    }


def solve(pair, given, **options):
    return dyn_ros.constrained_dynamics(pair.model, pair.data, **given, **options)


def classical(pair, q, v, ddq, frame):
    """A frame's classical acceleration by Pinocchio, in the world's axes, and its rotation."""
    number = pair.model.frame_index(frame) + 1
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ ddq)
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    a = pinocchio.getFrameClassicalAcceleration(
        pair.pin, pair.pin_data, number, pinocchio.LOCAL_WORLD_ALIGNED
    ).vector
    return a, pair.pin_data.oMf[number].rotation.copy()


def along(R, direction):
    """A direction (linear, angular) turned by R."""
    return np.concatenate([R @ direction[:3], R @ direction[3:]])


def assert_met(pair, given, found, turn):
    """turn(k, rotation of frame k) brings direction k to the world's axes."""
    wanted = given.get("accelerations")
    for k, frame in enumerate(given["frame"]):
        a, R = classical(pair, given["q"], given["v"], found.ddq, frame)
        peer.close(
            along(turn(k, R), given["directions"][:, k]) @ a,
            0.0 if wanted is None else wanted[k],
            1e-9,
            scale=max(np.abs(a).max(), 9.81),
        )


@tasks
@pytest.mark.parametrize("seed", range(3))
def test_frames_accelerate_as_desired(robot, root_joint, frames, seed):
    pair, given = task(robot, root_joint, frames, seed)
    assert_met(pair, given, copied(solve(pair, given)), lambda k, R: np.eye(3))


@tasks
def test_in_the_frames_own_axes(robot, root_joint, frames):
    pair, given = task(robot, root_joint, frames)
    found = copied(solve(pair, given, axes=given["frame"]))
    assert_met(pair, given, found, lambda k, R: R)


@tasks
def test_in_the_axes_of_another_frame(robot, root_joint, frames):
    pair, given = task(robot, root_joint, frames)
    other = pair.model.joint_names[-1]
    found = copied(solve(pair, given, axes=other))
    _, turned = classical(pair, given["q"], given["v"], found.ddq, other)
    assert_met(pair, given, found, lambda k, R: turned)


@tasks
def test_nothing_desired_holds_still(robot, root_joint, frames):
    """A robot at rest, pulled by gravity and by forces: the constrained frames stay."""
    pair, given = task(robot, root_joint, frames)
    given |= {"v": 0.0 * given["v"], "accelerations": None, "tau": None}
    assert_met(pair, given, copied(solve(pair, given)), lambda k, R: np.eye(3))


@tasks
def test_sent_torques_move_the_free_robot_so(robot, root_joint, frames):
    pair, given = task(robot, root_joint, frames)
    found = copied(solve(pair, given))
    ddq = dyn_ros.aba(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        given["tau"] + found.constraint_generalized_forces,
        given["f_ext"],
    )
    peer.close(ddq, found.ddq, 1e-9)


@tasks
def test_the_wrench_on_the_frames(robot, root_joint, frames):
    """-directions nu, put on the frames of the free robot, gives the same motion."""
    pair, given = task(robot, root_joint, frames)
    found = copied(solve(pair, given, axes=given["frame"]))
    f_ext = given["f_ext"].copy()
    for frame in frames:
        own = [k for k, name in enumerate(given["frame"]) if name == frame]
        f_ext += pair.model.external_forces({frame: -given["directions"][:, own] @ found.nu[own]})
    ddq = dyn_ros.aba(pair.model, pair.data, given["q"], given["v"], given["tau"], f_ext)
    peer.close(ddq, found.ddq, 1e-9)


@tasks
def test_least_constraint(robot, root_joint, frames):
    """Gauss: of all motions that meet the constraints, this one is nearest to the free one."""
    pair, given = task(robot, root_joint, frames)
    found = copied(solve(pair, given))
    free = dyn_ros.aba(pair.model, pair.data, given["q"], given["v"], given["tau"], given["f_ext"])
    M = pair.crba(given["q"])
    J = []
    for k, frame in enumerate(given["frame"]):
        jacobian = dyn_ros.frame_jacobian(pair.model, pair.data, given["q"], frame, 2)
        J.append(given["directions"][:, k] @ jacobian)
    others = np.linalg.svd(np.array(J))[2][len(J) :]  # motions that the constraints allow
    gradient = M @ (found.ddq - free)
    assert len(others) == pair.model.nv - len(J)
    assert np.abs(others @ gradient).max(initial=0.0) < 1e-9 * np.abs(gradient).max()


@tasks
def test_as_vereshchagin_with_everything_converted(robot, root_joint, frames):
    pair, given = task(robot, root_joint, frames)
    found = copied(solve(pair, given))
    beta = given["accelerations"].copy()
    for k, frame in enumerate(given["frame"]):
        velocity = dyn_ros.frame_velocity(pair.model, pair.data, given["q"], given["v"], frame, 2)
        linear = -np.cross(velocity[3:], velocity[:3]) - pair.model.gravity
        beta[k] += given["directions"][:3, k] @ linear
    same = dyn_ros.vereshchagin(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        given["directions"],
        beta,
        given["frame"],
        None,
        given["f_ext"],
        given["tau"],
    )
    for x, y in zip(found, same):
        peer.close(x, y, 1e-10)


def test_wrenches_on_frames():
    pair, given = task(*TASKS[0])
    wrenches = {
        "forearm_link": [1.0, 2.0, -3.0, 0.1, 0.2, 0.3],
        "tool0": np.array([0.0, 5.0, 0.0, 1.0, 0.0, 0.0]),
    }
    by_frame = copied(solve(pair, {**given, "f_ext": wrenches}))
    by_joint = solve(pair, {**given, "f_ext": pair.model.external_forces(wrenches)})
    assert np.array_equal(by_frame.ddq, by_joint.ddq)
    assert not np.array_equal(by_frame.ddq, solve(pair, {**given, "f_ext": None}).ddq)


def test_policies_and_priorities_go_through():
    pair, given = task(*TASKS[0])
    plain = copied(solve(pair, given))
    damped = copied(solve(pair, given, singularity="damped", tolerance=0.1))
    equal = copied(solve(pair, given, priority="equal"))
    assert not np.allclose(damped.ddq, plain.ddq) and not np.allclose(equal.ddq, plain.ddq)
    free = copied(solve(pair, {**given, "f_ext": None, "tau": None}))
    M = pair.crba(given["q"])
    push = (
        given["tau"]
        + pair.rnea(given["q"], given["v"], plain.ddq)
        - pair.rnea(given["q"], given["v"], plain.ddq, given["f_ext"])
    )
    peer.close(equal.ddq - free.ddq, np.linalg.solve(M, push), 1e-9)


@tasks
@pytest.mark.parametrize("count, threads", [(7, 1), (40, 2)])
def test_batch_is_state_after_state(robot, root_joint, frames, count, threads):
    pair, _ = task(robot, root_joint, frames)
    each = [task(robot, root_joint, frames, seed)[1] for seed in range(count)]
    together = {
        key: each[0]["frame"] if key == "frame" else np.array([x[key] for x in each])
        for key in each[0]
    }
    axes = each[0]["frame"]
    for optional in ({}, {"accelerations": None, "tau": None, "f_ext": None}):
        found = solve(pair, {**together, **optional}, axes=axes, threads=threads)
        for row, given in enumerate(each):
            alone = solve(pair, {**given, **optional}, axes=axes)
            for x, y in zip(found, alone):
                peer.close(x[row], y, 1e-8)


def test_without_constraints_it_is_aba():
    pair, given = task(*TASKS[3])
    given |= {"directions": np.zeros((6, 0)), "frame": "tip", "accelerations": None}
    found = copied(solve(pair, given))
    ddq = dyn_ros.aba(pair.model, pair.data, given["q"], given["v"], given["tau"], given["f_ext"])
    peer.close(found.ddq, ddq, 1e-12)
    assert found.rank == 0


BAD = {
    "directions of three rows": ({"directions": np.eye(3)}, r"directions: expected shape \(6, m\)"),
    "directions not finite": (
        {"directions": np.full((6, 6), np.inf)},
        r"directions: expected finite numbers, got inf",
    ),
    "accelerations too short": (
        {"accelerations": np.zeros(5)},
        r"same number of constraints.*directions: 6, accelerations: 5",
    ),
    "accelerations not finite": (
        {"accelerations": [0, 0, 0, 0, 0, np.nan]},
        r"accelerations: expected finite numbers, got nan",
    ),
    "tau too long": ({"tau": np.zeros(7)}, r"tau: expected shape \(6,\)"),
    "unknown frame": ({"frame": "hand"}, r"no frame named 'hand'; available: .*tool0"),
    "frame on the base": ({"frame": "base_link"}, r"frame: no joint moves 'base_link'"),
    "frames too few": (
        {"frame": ["tool0"]},
        r"frame: expected one frame, or one for each of the 6",
    ),
    "unknown axes": ({"axes": "table"}, r"no frame named 'table'; available: .*tool0"),
    "axes too few": ({"axes": ["tool0"]}, r"axes: expected one frame, or one for each of the 6"),
    "wrench on an unknown frame": (
        {"f_ext": {"hand": np.zeros(6)}},
        r"no frame named 'hand'; available: .*tool0",
    ),
    "seven on one frame": (
        {"directions": np.ones((6, 7)), "accelerations": None, "frame": "tool0"},
        r"frame: expected at most 6 constraints on a tip, got 7 on 'tool0'",
    ),
    "unknown policy": ({"singularity": "none"}, r"singularity: expected 'relative'"),
}


@pytest.mark.parametrize("how", BAD)
def test_bad_input(how):
    pair, given = task(*TASKS[0])
    expected = copied(solve(pair, given))
    changes, message = BAD[how]
    with pytest.raises(ValueError, match=message):
        solve(pair, {**given, **changes})
    assert np.array_equal(solve(pair, given).ddq, expected.ddq)  # and the next call is right
