# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Constrained dynamics: KDL's results, a dense solution, policies, priorities, invalid input."""

import copy
import pickle
from pathlib import Path

import dense_constraints as dense
import numpy as np
import pytest
from dense_constraints import copied

import dyn_ros
import peer

KDL = Path(__file__).parent / "kdl"
CHAINS = ("planar2r", "lwr7", "prismatic3", "rand6")
COUNTS = {"planar2r": 11, "lwr7": 30, "prismatic3": 6, "rand6": 26}
cases = pytest.mark.parametrize(
    "chain, case", [(chain, case) for chain in CHAINS for case in range(COUNTS[chain])]
)

# robot, root joint, how many constraints on which frames; independent of each other
TASKS = [
    ("ur5", None, {"tool0": 6}),
    ("kinova", None, {"j2s6s200_end_effector": 4}),
    ("panda", None, {"panda_hand": 5, "panda_link4": 1}),  # with mimics
    ("baxter", None, {"l_gripper_l_finger_tip": 6, "r_gripper_l_finger_tip": 5, "head": 1}),
    (
        "allegro_hand",
        None,
        {"link_3.0_tip": 3, "link_7.0_tip": 3, "link_11.0_tip": 3, "link_15.0_tip": 3},
    ),
    ("solo12", "floating", {"FL_FOOT": 3, "FR_FOOT": 3, "HL_FOOT": 3, "HR_FOOT": 3}),
    ("simple_humanoid", "floating", {"l_ankle": 6, "r_ankle": 6, "l_wrist": 6, "r_wrist": 6}),
    (
        "talos_reduced",
        "floating",
        {
            "left_sole_link": 6,
            "right_sole_link": 6,
            "gripper_left_motor_double_link": 6,
            "gripper_right_motor_double_link": 6,
            "head_2_link": 2,
            "torso_2_link": 2,
        },
    ),
    ("every_joint", "floating", {"antenna_link": 2, "tip": 3, "slider": 1, "dish": 1}),
    ("every_joint", "planar", {"antenna_link": 2, "tip": 3, "dish": 1}),
    ("tiago", "planar", {"hand_index_link": 6, "head_2_link": 2}),
    (
        "g1",
        "floating",
        {
            "left_ankle_roll_link": 6,
            "right_ankle_roll_link": 6,
            "left_hand_index_1_link": 6,
            "right_hand_index_1_link": 6,
            "torso_link": 2,
            "left_hand_thumb_2_link": 3,
            "right_hand_thumb_2_link": 3,
            "left_hand_middle_1_link": 2,
            "right_hand_middle_1_link": 2,
        },
    ),  # 36 in all
    ("ball_joints", None, {"hand/claw": 6, "leg/tip": 3}),
    ("every_joint_on_balls", "floating", {"hand/claw": 3, "leg/claw": 3, "slider": 1}),
]
tasks = pytest.mark.parametrize(
    "robot, root_joint, tips",
    TASKS,
    ids=[f"{robot}-{root_joint or 'fixed'}" for robot, root_joint, _ in TASKS],
)
QUADRUPED = ("solo12", "floating", {"FL_FOOT": 6, "FR_FOOT": 6, "HL_FOOT": 6, "HR_FOOT": 6})
FEW = [TASKS[0], TASKS[2], TASKS[5], TASKS[8]]
few = pytest.mark.parametrize("robot, root_joint, tips", FEW, ids=[task[0] for task in FEW])


def task(robot, root_joint, tips, seed=0):
    """A pair, and a random state with constraints on some tips as arguments of ``solve``."""
    pair, rng = peer.pair(robot, root_joint), np.random.default_rng(seed)
    q, v, _, tau = pair.state(seed)
    alpha = np.hstack([np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :k] for k in tips.values()])
    tip = [frame for frame, k in tips.items() for _ in range(k)]
    return pair, {
        "q": q,
        "v": v,
        "alpha": alpha,
        "beta": rng.uniform(-3.0, 3.0, len(tip)),
        "tip": tip,
        "f_ext": pair.wrenches(seed),
        "ff_torques": tau,
    }


def solve(pair, given, **options):
    return dyn_ros.vereshchagin(pair.model, pair.data, **given, **options)


def kdl_case(chain, case):
    """(model, arguments in dyn_ros's terms, the case's arrays)."""
    stored = np.load(KDL / f"{chain}.npz")
    model = dyn_ros.Model.from_urdf_file(KDL / f"{chain}.urdf")
    model.armature = stored["armature"]
    known = {
        name: stored[name] if name in ("armature", "tip_frames") else stored[name][case]
        for name in stored.files
    }
    nc = int(known["nc"])
    given = {name: known[name] for name in ("q", "v", "root_acc", "ff_torques")}
    given |= {
        "alpha": known["alpha"][:, :nc],
        "beta": known["beta"][:nc],
        "tip": str(known["tip_frames"][-1]),
        "f_ext": in_joint_frames(model, known),
    }
    return model, given, {**known, "nu": known["nu"][:nc]}


def in_joint_frames(model, known):
    """KDL's f_ext, in base axes at the tip frames, as dyn_ros's."""
    oMf = dyn_ros.frame_placements(model, dyn_ros.Data(model), known["q"])
    wrenches = {}
    for frame, wrench in zip(known["tip_frames"], known["f_ext"]):
        R = oMf[model.frame_index(str(frame))][:3, :3]
        wrenches[str(frame)] = [*(R.T @ wrench[:3]), *(R.T @ wrench[3:])]
    return model.external_forces(wrenches)


def at_tips(model, known, accelerations):
    """link_accelerations at KDL's tip frames."""
    data = dyn_ros.Data(model)
    oMf = dyn_ros.frame_placements(model, data, known["q"]).copy()
    oMi = dyn_ros.forward_kinematics(model, data, known["q"])[0]
    moved = accelerations.copy()
    for i, frame in enumerate(known["tip_frames"]):
        index = model.frame_index(str(frame))
        assert model.tree.frames[index].parent == i
        moved[i, :3] += np.cross(accelerations[i, 3:], oMf[index][:3, 3] - oMi[i][:3, 3])
    return moved


def assert_as_kdl(model, found, known, rtol):
    for name in (
        "ddq",
        "nu",
        "constraint_torques",
        "total_torque",
        "constraint_generalized_forces",
    ):
        peer.close(getattr(found, name), known[name], rtol)
    peer.close(at_tips(model, known, found.link_accelerations), known["link_acc"][1:], rtol)


# ---------------------------------------------------------------------------- KDL


def test_all_cases_are_seen():
    for chain in CHAINS:
        assert len(np.load(KDL / f"{chain}.npz")["q"]) == COUNTS[chain]


@cases
def test_agrees_with_kdl(chain, case):
    """Every regular case under every way to cut, every other one under KDL's."""
    model, given, known = kdl_case(chain, case)
    data = dyn_ros.Data(model)
    for policy in ("absolute", "relative") if known["regular"] else ("absolute",):
        if known["fragile"]:  # see the README: rounding decides
            policy = "relative"
        found = dyn_ros.vereshchagin(model, data, **given, singularity=policy)
        assert_as_kdl(model, found, known, 1e-9)
        assert found.rank == known["rank"]


def test_kdl_to_the_last_digits():
    """Where the coupling matrix is well conditioned, 12 digits agree."""
    good = 0
    for chain in CHAINS:
        for case in range(COUNTS[chain]):
            model, given, known = kdl_case(chain, case)
            found = dyn_ros.vereshchagin(model, dyn_ros.Data(model), **given)
            good += np.abs(found.ddq - known["ddq"]).max() <= 1e-12 * np.abs(known["ddq"]).max()
    assert good > 0.8 * sum(COUNTS.values())


@cases
def test_every_case_is_finite_by_default(chain, case):
    model, given, known = kdl_case(chain, case)
    found = dyn_ros.vereshchagin(model, dyn_ros.Data(model), **given)
    assert found.rank == known["rank"]
    for x in found[:-1]:
        assert np.isfinite(x).all()
        assert np.abs(x).max(initial=0.0) < 1e6


@cases
def test_the_torque_to_send(chain, case):
    """Without constraints, ff_torques and -J' alpha nu give the planned motion."""
    model, given, _ = kdl_case(chain, case)
    data = dyn_ros.Data(model)
    model.gravity = -given["root_acc"][:3]
    given["root_acc"] = None
    found = copied(dyn_ros.vereshchagin(model, data, **given))
    torque = given["ff_torques"] + found.constraint_generalized_forces
    ddq = dyn_ros.aba(model, data, given["q"], given["v"], torque, given["f_ext"])
    peer.close(ddq, found.ddq, 1e-9)


def test_constraint_torques_are_not_the_torque_to_send():
    model, given, known = kdl_case("lwr7", 12)
    assert known["regular"] and not known["root_acc"][3:].any()
    model.gravity = -given["root_acc"][:3]
    torque = given["ff_torques"] + known["constraint_torques"]
    ddq = dyn_ros.aba(model, dyn_ros.Data(model), given["q"], given["v"], torque, given["f_ext"])
    assert np.abs(ddq - known["ddq"]).max() > 1.0


# ---------------------------------------------------------------------------- dense solution


@tasks
@pytest.mark.parametrize("seed", range(3))
def test_agrees_with_the_saddle_point_system(robot, root_joint, tips, seed):
    pair, given = task(robot, root_joint, tips, seed)
    found = solve(pair, given)
    t = dense.terms(pair, **given)
    ddq, nu = dense.saddle_point(t)
    U, D = dense.upper_factor(t.M)
    assert found.rank == len(nu)
    peer.close(found.ddq, ddq, 1e-9)
    peer.close(found.nu, nu, 1e-9)
    peer.close(found.constraint_generalized_forces, -t.A @ nu, 1e-9)
    peer.close(found.constraint_torques, np.linalg.solve(U, -t.A @ nu), 1e-9)
    peer.close(found.total_torque, D * ddq, 1e-9)


@tasks
def test_the_tips_obey(robot, root_joint, tips):
    """alpha' a = beta, a by forward kinematics; and the bodies' accelerations are those."""
    pair, given = task(robot, root_joint, tips)
    found = copied(solve(pair, given))
    model, data = pair.model, pair.data
    for k, frame in enumerate(given["tip"]):
        a = dyn_ros.frame_acceleration(model, data, given["q"], given["v"], found.ddq, frame, 2)
        a = a - [*model.gravity, 0.0, 0.0, 0.0]
        peer.close(given["alpha"][:, k] @ a, given["beta"][k], 1e-9, scale=np.abs(a).max())
    kinematics = dyn_ros.forward_kinematics(model, data, given["q"], given["v"], found.ddq)
    oMi, a = kinematics[0], kinematics[3]
    for i in range(model.njoints):
        R = oMi[i][:3, :3]
        expected = np.concatenate([R @ a[i, :3] - model.gravity, R @ a[i, 3:]])
        peer.close(
            found.link_accelerations[i],
            expected,
            1e-9,
            scale=np.abs(found.link_accelerations).max(),
        )


@tasks
def test_sent_torques_move_the_free_robot_so(robot, root_joint, tips):
    pair, given = task(robot, root_joint, tips)
    found = copied(solve(pair, given))
    ddq = dyn_ros.aba(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        given["ff_torques"] + found.constraint_generalized_forces,
        given["f_ext"],
    )
    peer.close(ddq, found.ddq, 1e-9)


@few
def test_armature_and_another_gravity(robot, root_joint, tips):
    _, given = task(robot, root_joint, tips)
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.5, -2.5, 9.0))
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    ddq, nu = dense.saddle_point(dense.terms(pair, **given))
    found = solve(pair, given)
    peer.close(found.ddq, ddq, 1e-9)
    peer.close(found.nu, nu, 1e-9)


@few
def test_acceleration_of_the_root(robot, root_joint, tips):
    """Linear and angular, in place of gravity."""
    pair, given = task(robot, root_joint, tips)
    given["root_acc"] = np.array([0.3, -2.0, 7.0, 1.5, -0.7, 2.2])
    ddq, nu = dense.saddle_point(dense.terms(pair, **given))
    found = solve(pair, given)
    peer.close(found.ddq, ddq, 1e-9)
    peer.close(found.nu, nu, 1e-9)


@few
def test_optional_arguments_are_none(robot, root_joint, tips):
    pair, given = task(robot, root_joint, tips)
    given = {**given, "f_ext": None, "ff_torques": None}
    ddq, _ = dense.saddle_point(dense.terms(pair, **given))
    peer.close(solve(pair, given).ddq, ddq, 1e-9)
    gravity = [*-pair.model.gravity, 0.0, 0.0, 0.0]
    assert (copied(solve(pair, given)).ddq == solve(pair, given, root_acc=gravity).ddq).all()


# ---------------------------------------------------------------------------- no constraint


@few
@pytest.mark.parametrize(
    "alpha",
    [np.zeros((6, 0)), np.zeros((6, 1)), np.zeros((6, 6))],
    ids=["none", "one of zeros", "six of zeros"],
)
@pytest.mark.parametrize("policy", ["relative", "absolute", "damped"])
def test_without_constraints_it_is_aba(robot, root_joint, tips, alpha, policy):
    pair, given = task(robot, root_joint, tips)
    given |= {"alpha": alpha, "beta": np.ones(alpha.shape[1]), "tip": given["tip"][0]}
    found = copied(solve(pair, given, singularity=policy))
    ddq = dyn_ros.aba(
        pair.model, pair.data, given["q"], given["v"], given["ff_torques"], given["f_ext"]
    )
    peer.close(found.ddq, ddq, 1e-12)
    assert found.rank == 0 and found.nu.shape == (alpha.shape[1],)
    for x in (found.nu, found.constraint_torques, found.constraint_generalized_forces):
        assert not x.any()


@few
def test_a_column_of_zeros_is_inactive(robot, root_joint, tips):
    pair, given = task(robot, root_joint, tips)
    given |= {"alpha": given["alpha"][:, :-1], "beta": given["beta"][:-1], "tip": given["tip"][:-1]}
    expected = copied(solve(pair, given))
    k, tip = 2, given["tip"]
    wide = {
        **given,
        "alpha": np.insert(given["alpha"], k, 0.0, 1),
        "beta": np.insert(given["beta"], k, 7.0),
        "tip": [*tip[:k], tip[-1], *tip[k:]],
    }
    found = solve(pair, wide)
    assert found.nu[k] == 0.0 and found.rank == expected.rank
    peer.close(np.delete(found.nu, k), expected.nu, 1e-9)
    peer.close(found.ddq, expected.ddq, 1e-9)


def test_order_of_the_constraints_is_free():
    pair, given = task(*TASKS[7])
    expected = copied(solve(pair, given))
    order = np.random.default_rng(0).permutation(len(given["tip"]))
    mixed = {
        **given,
        "alpha": given["alpha"][:, order],
        "beta": given["beta"][order],
        "tip": [given["tip"][k] for k in order],
    }
    found = solve(pair, mixed)
    peer.close(found.ddq, expected.ddq, 1e-10)
    peer.close(found.nu, expected.nu[order], 1e-10)


# ---------------------------------------------------------------------------- singularities


def inverse(C, gain):
    """Function of the eigenvalues of a symmetric matrix."""
    e, V = np.linalg.eigh(C)
    return V @ np.diag(gain(e)) @ V.T


def cut_at(bound):
    return lambda e: np.where(e > bound, 1.0 / np.where(e > bound, e, 1.0), 0.0)


def dependent(seed=0):
    """Four feet of a quadruped held in all directions: 24 constraints, 18 of them independent."""
    return task(*QUADRUPED, seed)


@pytest.mark.parametrize("policy", ["relative", "absolute"])
@pytest.mark.parametrize("seed", range(3))
def test_dependent_constraints_are_met_in_the_least_squares(seed, policy):
    pair, given = dependent(seed)
    t = dense.terms(pair, **given)
    C = dense.coupling(t)
    nu = inverse(C, cut_at(1e-10 * np.linalg.norm(C, 2))) @ dense.excess(t)
    tolerance = None if policy == "relative" else 1e-10
    found = solve(pair, given, singularity=policy, tolerance=tolerance)
    assert found.rank == 18
    peer.close(found.nu, nu, 1e-9)
    peer.close(found.ddq, dense.motion(t, nu), 1e-9)


@pytest.mark.parametrize("copies", [2, 6])
def test_equal_columns_share_the_force(copies):
    pair, given = task("ur5", None, {"tool0": 1})
    expected = copied(solve(pair, given))
    given |= {
        "alpha": np.repeat(given["alpha"], copies, 1),
        "beta": np.repeat(given["beta"], copies),
        "tip": "tool0",
    }
    found = solve(pair, given)
    assert found.rank == 1
    peer.close(found.ddq, expected.ddq, 1e-10)
    peer.close(found.nu, np.repeat(expected.nu, copies) / copies, 1e-10)


@pytest.mark.parametrize("policy", ["relative", "absolute", "damped"])
def test_tolerance_decides_what_is_left_out(policy):
    """Between two eigenvalues each."""
    pair, given = task("ur5", None, {"tool0": 6}, seed=1)
    t = dense.terms(pair, **given)
    C = dense.coupling(t)
    values = np.linalg.eigvalsh(C)
    for k in range(1, 6):
        bound = np.sqrt(values[k - 1] * values[k])
        tolerance = bound if policy == "absolute" else bound / values[-1]
        found = solve(pair, given, singularity=policy, tolerance=tolerance)
        gain = (lambda e, d=bound: e / (e * e + d * d)) if policy == "damped" else cut_at(bound)
        nu = inverse(C, gain) @ dense.excess(t)
        assert found.rank == 6 - k
        peer.close(found.nu, nu, 1e-9)
        peer.close(found.ddq, dense.motion(t, nu), 1e-9)


def test_damping_bounds_the_accelerations_near_a_singularity():
    """An arm that is almost straight is asked to move along itself."""
    model, given, _ = kdl_case("planar2r", 2)
    given |= {
        "q": np.array([0.0, 1e-5]),
        "v": np.zeros(2),
        "alpha": np.eye(6)[:, :2],
        "beta": np.array([1.0, 0.0]),
    }
    data = dyn_ros.Data(model)
    exact = copied(dyn_ros.vereshchagin(model, data, **given))
    damped = copied(dyn_ros.vereshchagin(model, data, **given, singularity="damped"))
    assert exact.rank == 2 and np.abs(exact.ddq).max() > 1e4
    assert np.abs(damped.ddq).max() < 1e3


def test_a_straight_arm_keeps_what_it_can():
    model, given, _ = kdl_case("planar2r", 2)
    given |= {
        "q": np.zeros(2),
        "v": np.zeros(2),
        "alpha": np.eye(6)[:, :2],
        "beta": np.array([1.0, 0.5]),
    }
    data = dyn_ros.Data(model)
    found = copied(dyn_ros.vereshchagin(model, data, **given))
    assert found.rank == 1
    a = at_tips(
        model, {"q": given["q"], "tip_frames": ["tip_1", "tip_2"]}, found.link_accelerations
    )
    peer.close(a[-1, 1], 0.5, 1e-12)


# ---------------------------------------------------------------------------- priorities


@tasks
@pytest.mark.parametrize(
    "priority, opposed",
    [
        ("constraint", ("ff", "push")),
        ("external_force", ("ff",)),
        ("feedforward", ("push",)),
        ("equal", ()),
    ],
)
def test_priorities(robot, root_joint, tips, priority, opposed):
    """What is opposed changes nothing along the constraints, what is not moves the tip freely."""
    pair, given = task(robot, root_joint, tips)
    t = dense.terms(pair, **given)
    nu = np.linalg.solve(dense.coupling(t), dense.excess(t, opposed))
    ddq = dense.motion(t, nu)
    found = solve(pair, given, priority=priority)
    peer.close(found.nu, nu, 1e-9)
    peer.close(found.ddq, ddq, 1e-9)
    above = sum(
        (getattr(t, name) for name in ("ff", "push") if name not in opposed), np.zeros(len(ddq))
    )
    met = t.A.T @ ddq + t.rest - t.A.T @ np.linalg.solve(t.M, above)
    assert np.abs(met).max() < 1e-8 * max(np.abs(t.A.T @ ddq).max(), 1.0)


# ---------------------------------------------------------------------------- calls


def states(robot, root_joint, tips, count):
    pair, _ = task(robot, root_joint, tips)
    each = [task(robot, root_joint, tips, seed)[1] for seed in range(count)]
    return (
        pair,
        each,
        {
            key: each[0]["tip"] if key == "tip" else np.array([x[key] for x in each])
            for key in each[0]
        },
    )


@few
@pytest.mark.parametrize("count, threads", [(1, 1), (7, 1), (9, 1), (40, 2)])
def test_batch_is_state_after_state(robot, root_joint, tips, count, threads):
    pair, each, together = states(robot, root_joint, tips, count)
    found = solve(pair, together, threads=threads)
    for row, given in enumerate(each):
        alone = solve(pair, given)
        for name, x in found._asdict().items():
            one = getattr(alone, name)
            assert x[row].shape == np.shape(one)
            peer.close(x[row], one, 1e-8)
    assert found.rank.dtype.kind == "i"


def test_batch_with_singular_states_among_others():
    """Each lane has its own rank and its own cut."""
    model, given, _ = kdl_case("planar2r", 2)
    angles = np.array([0.0, 0.7, np.pi, -1.2, 0.0, 2.0, 1e-4, 0.3, 0.0, 1.0])
    count = len(angles)
    q = np.stack([np.linspace(-1.0, 1.0, count), angles], 1)
    alpha = np.tile(np.eye(6)[:, :3], (count, 1, 1))
    alpha[3, :, 1] = 0.0
    given |= {"q": q, "v": 0.1 * q, "alpha": alpha, "beta": np.array([0.3, -0.2, 5.0])}
    data = dyn_ros.Data(model)
    for policy in ("relative", "absolute", "damped"):
        found = dyn_ros.vereshchagin(model, data, **given, singularity=policy)
        for row in range(count):
            alone = dyn_ros.vereshchagin(
                model,
                data,
                **{**given, "q": q[row], "v": 0.1 * q[row], "alpha": alpha[row]},
                singularity=policy,
            )
            assert found.rank[row] == alone.rank
            for name in ("ddq", "nu"):
                peer.close(getattr(found, name)[row], getattr(alone, name), 1e-6)
    assert list(dyn_ros.vereshchagin(model, data, **given).rank) == [1, 2, 1, 1, 1, 2, 2, 2, 1, 2]


def test_one_task_for_a_batch_of_states():
    pair, each, together = states("ur5", None, {"tool0": 6}, 9)
    same = {
        **together,
        "alpha": each[0]["alpha"],
        "beta": each[0]["beta"].tolist(),
        "f_ext": None,
        "ff_torques": None,
    }
    found = solve(pair, same)
    for row, given in enumerate(each):
        alone = solve(pair, {**same, "q": given["q"], "v": given["v"]})
        peer.close(found.ddq[row], alone.ddq, 1e-9)


def test_batch_without_constraints():
    pair, _, together = states("ur5", None, {"tool0": 6}, 9)
    found = solve(pair, {**together, "alpha": np.zeros((6, 0)), "beta": [], "tip": "tool0"})
    assert found.nu.shape == (9, 0) and not found.rank.any()
    peer.close(
        found.ddq,
        dyn_ros.aba(
            pair.model,
            pair.data,
            together["q"],
            together["v"],
            together["ff_torques"],
            together["f_ext"],
        ),
        1e-12,
    )


def test_batches_of_other_numbers_of_constraints_one_after_the_other():
    pair = peer.new_pair("solo12", "floating")
    q, v, _, _ = pair.states(9)
    for count in (2, 12, 9, 18, 1, 12):
        tips = [("HL_FOOT", "FR_FOOT", "FL_FOOT")[k // 6] for k in range(count)]
        alpha = np.concatenate([np.eye(6)] * 3, 1)[:, :count]
        given = q, v, alpha, np.linspace(-1.0, 1.0, count), tips
        found = dyn_ros.vereshchagin(pair.model, pair.data, *given)
        expected = dyn_ros.vereshchagin(pair.model, dyn_ros.Data(pair.model), *given)
        assert found.nu.shape == (9, count)
        for x, y in zip(found, expected):
            assert np.array_equal(x, y)


def test_results_are_the_datas_own():
    pair, given = task(*FEW[0])
    found = solve(pair, given)
    for name in (
        "ddq",
        "constraint_torques",
        "total_torque",
        "constraint_generalized_forces",
        "link_accelerations",
    ):
        assert getattr(found, name) is getattr(pair.data, name)
    assert np.shares_memory(found.nu, solve(pair, given).nu)
    assert isinstance(found.rank, int)


def test_no_result_depends_on_an_earlier_call():
    pair, given = task(*TASKS[8])
    fresh = copied(dyn_ros.vereshchagin(pair.model, dyn_ros.Data(pair.model), **given))
    _, other = task("every_joint", "floating", {"tip": 6, "dish": 2, "slider": 1}, 5)
    for options in ({}, {"singularity": "damped"}, {"priority": "equal"}):
        solve(pair, other, **options)
        dyn_ros.aba(pair.model, pair.data, given["q"], given["v"], given["ff_torques"])
        found = solve(pair, given)
        for x, y in zip(found, fresh):
            assert np.array_equal(x, y)


def test_tips_by_index_and_as_one_name():
    pair, given = task("ur5", None, {"tool0": 6})
    expected = copied(solve(pair, given))
    index = pair.model.frame_index("tool0")
    for tip in ("tool0", index, ("tool0",) * 6, np.array(["tool0"] * 6), [index] * 6):
        assert np.array_equal(solve(pair, {**given, "tip": tip}).ddq, expected.ddq)


FORMS = {
    "list": np.ndarray.tolist,
    "Fortran": np.asfortranarray,
    "columns of more": lambda x: np.concatenate([x, x], -1)[..., : x.shape[-1]],
    "backwards": lambda x: x[::-1].copy()[::-1],
    "big-endian": lambda x: x.astype(">f8"),
}


@pytest.mark.parametrize("form", FORMS)
def test_any_form_of_array(form):
    pair, given = task("ur5", None, {"tool0": 6})
    given["root_acc"] = np.arange(6.0)
    expected = copied(solve(pair, given))
    for changed in ("alpha", "beta", "root_acc", "f_ext", "ff_torques"):
        found = solve(pair, {**given, changed: FORMS[form](given[changed])})
        assert np.array_equal(found.ddq, expected.ddq)
        assert np.array_equal(found.nu, expected.nu)


@pytest.mark.parametrize(
    "copy_of",
    [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))],
    ids=["copied", "pickled"],
)
def test_data_that_was_copied_after_a_call(copy_of):
    pair, given = task("ur5", None, {"tool0": 6})
    expected = copied(solve(pair, given))
    data = copy_of(pair.data)
    found = dyn_ros.vereshchagin(data.model, data, **given)
    assert np.array_equal(found.ddq, expected.ddq)


def test_many_ways_of_calling():
    """More than Data keeps tables for."""
    pair, given = task("ur5", None, {"tool0": 6})
    expected = copied(solve(pair, given))
    for k in range(200):
        found = solve(pair, given, tolerance=1e-12 * (1.0 + 0.01 * k))
        assert np.array_equal(found.ddq, expected.ddq)


def test_the_inputs_stay_as_they_are():
    pair, given = task(*FEW[3])
    before = {key: np.copy(x) for key, x in given.items()}
    solve(pair, given)
    assert all(np.array_equal(given[key], before[key]) for key in before)


def test_without_compiled_code():
    pair, each, together = states("every_joint", "floating", TASKS[8][2], 3)
    calls = [
        ("vereshchagin", {**given, "singularity": policy})
        for policy in ("relative", "damped")
        for given in (each[0], together)
    ]
    for (_, given), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        for x, y in zip(found, solve(pair, given), strict=True):
            peer.close(x, y, 1e-10)


# ---------------------------------------------------------------------------- bad input


def spoiled(name, value):
    return lambda given: {**given, name: value}


BAD = {
    "alpha of five rows": (
        spoiled("alpha", np.eye(5)),
        r"alpha: expected shape \(6, m\).*\(5, 5\)",
    ),
    "alpha of one row": (spoiled("alpha", np.ones(6)), r"alpha: expected shape \(6, m\).*\(6,\)"),
    "alpha a number": (spoiled("alpha", 1.0), r"alpha: expected shape \(6, m\).*got \(\)"),
    "alpha of text": (spoiled("alpha", "up"), r"alpha: expected shape.*real numbers"),
    "no alpha": (spoiled("alpha", None), r"alpha: expected shape.*real numbers"),
    "alpha not finite": (
        spoiled("alpha", np.where(np.eye(6) > 0, np.nan, 0.0)),
        r"alpha: expected finite numbers, got nan in alpha\[0, 0\]",
    ),
    "beta not finite": (
        spoiled("beta", [0, 0, np.inf, 0, 0, 0]),
        r"beta: expected finite numbers, got inf in beta\[2\]",
    ),
    "short beta": (spoiled("beta", np.zeros(5)), r"same number of constraints.*alpha: 6.*beta: 5"),
    "beta a number": (spoiled("beta", 1.0), r"beta: expected shape \(m,\)"),
    "no beta": (spoiled("beta", None), r"beta: expected"),
    "unknown tip": (spoiled("tip", "hand"), r"no frame named 'hand'; available: .*tool0"),
    "tip out of range": (spoiled("tip", 1000), r"tip: expected a name or an index.*tool0"),
    "no tip": (spoiled("tip", None), r"tip: expected a name or an index.*tool0"),
    "tip a fraction": (spoiled("tip", 0.5), r"tip: expected a name or an index.*tool0"),
    "one unknown tip": (spoiled("tip", ["tool0"] * 5 + ["hand"]), r"no frame named 'hand'"),
    "tips too few": (
        spoiled("tip", ["tool0"] * 5),
        r"tip: expected one frame, or one for each of "
        r"the 6 constraints, got 5",
    ),
    "tip on the base": (
        spoiled("tip", "base_link"),
        r"tip: no joint moves 'base_link'; available: .*tool0",
    ),
    "seven on one tip": (
        lambda given: {**given, "alpha": np.ones((6, 7)), "beta": np.ones(7)},
        r"tip: expected at most 6 constraints on a tip, got 7 on 'tool0'",
    ),
    "seven on one of two tips": (
        lambda given: {
            **given,
            "alpha": np.ones((6, 8)),
            "beta": np.ones(8),
            "tip": ["tool0", "forearm_link"] + ["tool0"] * 6,
        },
        r"got 7 on 'tool0'",
    ),
    "37 constraints": (
        lambda given: {**given, "alpha": np.ones((6, 37)), "beta": np.ones(37)},
        r"alpha: expected.*m at most 36.*\(6, 37\)",
    ),
    "short root_acc": (spoiled("root_acc", np.zeros(3)), r"root_acc: expected shape \(6,\)"),
    "short f_ext": (spoiled("f_ext", np.zeros((5, 6))), r"f_ext: expected shape \(6, 6\)"),
    "short ff_torques": (spoiled("ff_torques", np.zeros(5)), r"ff_torques: expected shape \(6,\)"),
    "unknown policy": (
        spoiled("singularity", "none"),
        r"singularity: expected 'relative', "
        r"'absolute', 'damped', got 'none'",
    ),
    "policy a list": (spoiled("singularity", []), r"singularity: expected 'relative'"),
    "unknown priority": (
        spoiled("priority", 1),
        r"priority: expected 'constraint', 'external_force', 'feedforward', "
        r"'equal', got 1",
    ),
    "negative tolerance": (spoiled("tolerance", -1e-3), r"tolerance: expected a number >= 0"),
    "tolerance not finite": (spoiled("tolerance", np.nan), r"tolerance: expected a finite number"),
    "tolerance a list": (spoiled("tolerance", [1e-3]), r"tolerance: expected a finite number"),
}


@pytest.mark.parametrize("how", BAD)
def test_bad_input(how):
    pair, given = task("ur5", None, {"tool0": 6})
    given["tip"] = "tool0"
    expected = copied(solve(pair, given))
    spoil, message = BAD[how]
    with pytest.raises(ValueError, match=message):
        solve(pair, spoil(given))
    assert np.array_equal(solve(pair, given).ddq, expected.ddq)  # and the next call is right


@pytest.mark.parametrize("name", ["q", "alpha", "beta", "root_acc", "f_ext", "ff_torques"])
def test_a_number_that_is_none_in_a_batch(name):
    pair, _, together = states("ur5", None, {"tool0": 6}, 9)
    together["root_acc"] = np.zeros((9, 6))
    together[name][5, ..., -1] = np.nan
    with pytest.raises(
        ValueError,
        match=rf"{name}: expected finite numbers, got nan in "
        rf"{name}\[5",
    ):
        solve(pair, together)


def test_data_of_another_model_or_none():
    pair, given = task("ur5", None, {"tool0": 6})
    other = peer.pair("kinova")
    with pytest.raises(ValueError, match="data: created for"):
        dyn_ros.vereshchagin(pair.model, other.data, **given)
    with pytest.raises(TypeError, match="data: expected"):
        dyn_ros.vereshchagin(pair.model, None, **given)


def test_a_joint_that_moves_no_inertia():
    model = dyn_ros.Model.from_urdf("""<robot name="massless"><link name="base"/><link name="arm"/>
      <joint name="loose" type="continuous"><parent link="base"/><child link="arm"/></joint>
    </robot>""")
    with pytest.raises(np.linalg.LinAlgError, match="vereshchagin: 'loose' moves no inertia"):
        dyn_ros.vereshchagin(
            model, dyn_ros.Data(model), [0.0], [0.0], np.eye(6), np.zeros(6), "arm"
        )


def test_a_call_with_another_model_leaves_no_table_behind():
    floating, fixed = peer.new_pair("solo12", "floating"), peer.new_pair("solo12")
    alpha, beta, tip = np.eye(6)[:, :3], np.zeros(3), "HL_HFE"
    (q, v, _, _), (q_, v_, _, _) = floating.state(1), fixed.state(1)
    data = dyn_ros.Data(floating.model)
    with pytest.raises(ValueError, match="data: created for"):
        dyn_ros.vereshchagin(fixed.model, data, q_, v_, alpha, beta, tip)
    found = dyn_ros.vereshchagin(floating.model, data, q, v, alpha, beta, tip).ddq
    expected = dyn_ros.vereshchagin(floating.model, floating.data, q, v, alpha, beta, tip).ddq
    assert np.array_equal(found, expected)


def test_directions_are_converted_once():
    class Changing:
        columns = 1

        def __array__(self, dtype=None, copy=None):
            self.columns += 1
            return np.eye(6)[:, : self.columns]

    pair = peer.new_pair("panda")
    q, v, _, _ = pair.state(1)
    found = dyn_ros.vereshchagin(pair.model, pair.data, q, v, Changing(), [0.0, 0.0], "panda_hand")
    assert found.nu.shape == (2,) and np.isfinite(found.ddq).all()


def test_a_model_that_is_none_is_named():
    pair = peer.pair("panda")
    q, v, _, _ = pair.state(1)
    for call in (
        lambda: dyn_ros.vereshchagin(None, pair.data, q, v, np.eye(6), np.zeros(6), "a"),
        lambda: dyn_ros.frame_jacobian(pair.data, pair.model, q, "panda_hand", 1),
    ):
        with pytest.raises(TypeError, match="model: expected a dyn_ros.Model, got"):
            call()


def test_a_part_of_a_robot_holds_its_hand_without_the_rest():
    """The numbers of docs/migration/kdl.md: the arm of TIAGo, by the whole tree and on its own."""
    model = dyn_ros.Model.from_urdf(peer.urdf("tiago"))
    q = model.random_configuration(np.random.default_rng(2))
    names = [f"arm_{n}_joint" for n in range(1, 8)]
    part = model.reduced({name: x for name, x in zip(model.position_names, q) if name not in names})
    assert list(part.joint_names) == names
    beta = [0.0, 0.0, 9.81, 0.0, 0.0, 0.0]  # the spatial acceleration of rest
    for each, most, torso in ((model, 14.95, -9.57), (part, 12.54, None)):
        q_each = [q[model.position_names.index(name)] for name in each.position_names]
        plan = dyn_ros.vereshchagin(
            each, dyn_ros.Data(each), q_each, np.zeros(each.nv), np.eye(6), beta, "arm_7_link"
        )
        torques = plan.constraint_generalized_forces[
            [each.velocity_names.index(name) for name in names]
        ]
        assert torques.max() == pytest.approx(most, abs=0.005)
        if torso is not None:
            assert plan.ddq[0] == pytest.approx(torso, abs=0.005)
