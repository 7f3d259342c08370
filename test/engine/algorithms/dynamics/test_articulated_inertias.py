# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Articulated-body inertias against Pinocchio, dense matrices and the motion of a free base."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "tiago", "solo12", "talos_reduced"))
TIGHT = 1e-11


def with_armature(robot, root_joint, mimic="project"):
    pair = peer.new_pair(robot, root_joint, mimic)
    armature = np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv)
    if root_joint:
        armature[: pair.model.nvs[0]] = 0.0
    pair.set_armature(armature)
    return pair


def subspace(pair, i):
    """Motion subspace of joint i of the free robot, expressed in its frame, after ``aba``."""
    columns = slice(pair.pin.idx_vs[i], pair.pin.idx_vs[i] + pair.pin.nvs[i])
    return pair.pin_data.oMi[i].inverse().action @ pair.pin_data.J[:, columns], columns


def eliminated(Y, S, armature):
    return Y - Y @ S @ np.linalg.solve(S.T @ Y @ S + np.diag(armature), S.T @ Y)


@EVERY
@pytest.mark.parametrize("world", [False, True], ids=["local", "world"])
def test_pinocchios_are_these_with_the_own_joint_eliminated(robot, root_joint, world):
    """As the docstring says; joints of the root link are not eliminated."""
    pair = with_armature(robot, root_joint, "ignore")
    q, v, _, tau = pair.state(1)
    found = dyn_ros.articulated_inertias(pair.model, pair.data, q)[0]
    convention = pinocchio.Convention.WORLD if world else pinocchio.Convention.LOCAL
    pinocchio.aba(pair.pin, pair.pin_data, pair.to_pin_q(q), v, tau, convention)
    pinocchio.computeJointJacobians(pair.pin, pair.pin_data, pair.to_pin_q(q))
    for i in range(1, pair.pin.njoints):
        Y, (S, columns) = found[i - 1], subspace(pair, i)
        theirs = (pair.pin_data.oYaba if world else pair.pin_data.Yaba)[i]
        if world:
            X = pair.pin_data.oMi[i].action
            theirs = X.T @ theirs @ X
        if pair.pin.parents[i] > 0:
            Y = eliminated(Y, S, pair.pin.armature[columns])
        peer.close(theirs, Y, TIGHT, scale=np.abs(found[i - 1]).max())


def test_pinocchios_minverse_has_the_same_ones_as_its_aba():
    pair = peer.new_pair("talos_reduced", "floating")
    q, v, _, tau = pair.state(2)
    pinocchio.aba(pair.pin, pair.pin_data, pair.to_pin_q(q), v, tau, pinocchio.Convention.WORLD)
    expected = np.array(list(pair.pin_data.oYaba)[1:])
    data = pair.pin.createData()
    pinocchio.computeMinverse(pair.pin, data, pair.to_pin_q(q))
    peer.close(np.array(list(data.oYaba)[1:]), expected, TIGHT)


def dense(pair, i):
    """oYaba of joint i from the kinetic energy of its subtree, after Pinocchio's Jacobians."""
    pin, data = pair.pin, pair.pin_data
    E = np.zeros((6 + pair.model.nv,) * 2)
    for b in pin.subtrees[i]:
        A = np.zeros((6, pin.nv))
        for j in pin.supports[b]:
            if j in list(pin.subtrees[i])[1:]:
                columns = slice(pin.idx_vs[j], pin.idx_vs[j] + pin.nvs[j])
                A[:, columns] = data.J[:, columns]
        A = np.hstack([np.eye(6), A @ pair.G])
        E += A.T @ data.oMi[b].act(pin.inertias[b]).matrix() @ A
    behind = {
        k
        for j in list(pin.subtrees[i])[1:]
        for k in range(pair.model.idx_v[j - 1], pair.model.idx_v[j - 1] + pin.nvs[j])
    }
    at = [6 + k for k in sorted(behind)]
    H = E[np.ix_(at, at)] + np.diag(pair.model.armature[sorted(behind)])
    return E[:6, :6] - E[:6, at] @ np.linalg.solve(H, E[at, :6])


@EVERY
def test_every_subtree_by_itself(robot, root_joint):
    """The handle: nothing but the subtree, with its mimic joints."""
    pair = with_armature(robot, root_joint)
    q = pair.state(3)[0]
    pinocchio.computeJointJacobians(pair.pin, pair.pin_data, pair.to_pin_q(q))
    Yaba, oYaba = dyn_ros.articulated_inertias(pair.model, pair.data, q)
    assert np.array_equal(Yaba, Yaba.swapaxes(1, 2))
    for i in range(1, pair.pin.njoints):
        X = pair.pin_data.oMi[i].action
        expected = dense(pair, i)
        peer.close(oYaba[i - 1], expected, TIGHT)
        peer.close(Yaba[i - 1], X.T @ oYaba[i - 1] @ X, TIGHT, scale=np.abs(expected).max())


@peer.robots(root_joints=("floating",))
def test_the_base_accelerates_as_the_inertia_says(robot, root_joint):
    pair = with_armature(robot, root_joint)
    q = pair.state(4)[0]
    Y = dyn_ros.articulated_inertias(pair.model, pair.data, q)[0][0]
    Minv = dyn_ros.minverse(pair.model, pair.data, q)
    peer.close(Minv[:6, :6] @ Y, np.eye(6), 1e-9)


@SOME
def test_locked_joints_leave_the_composite_inertia(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.model.armature = np.full(pair.model.nv, 1e12)
    q = pair.state(5)[0]
    Ycrb, oYcrb = (x.copy() for x in dyn_ros.composite_inertias(pair.model, pair.data, q)[:2])
    Yaba, oYaba = dyn_ros.articulated_inertias(pair.model, pair.data, q)
    peer.close(Yaba, Ycrb, 1e-8)
    peer.close(oYaba, oYcrb, 1e-8)


def test_kernels_with_and_without_mimic_joints_agree(monkeypatch):
    """Without mimic joints both methods are right."""
    from dyn_ros.engine.call.algorithm import ALGORITHMS

    pair = peer.new_pair("talos_reduced", "floating")
    q = pair.state(6)[0]
    expected = [x.copy() for x in dyn_ros.articulated_inertias(pair.model, pair.data, q)]
    algorithm = ALGORITHMS["articulated_inertias"]
    monkeypatch.setattr(algorithm, "_programs", {False: algorithm._programs[True]})
    for x, y in zip(
        dyn_ros.articulated_inertias(pair.model, dyn_ros.Data(pair.model), q), expected
    ):
        peer.close(x, y, TIGHT)


# --- calls


def test_results_are_datas_own():
    pair = peer.pair("panda")
    Yaba, oYaba = dyn_ros.articulated_inertias(pair.model, pair.data, pair.state(7)[0])
    assert Yaba is pair.data.Yaba and oYaba is pair.data.oYaba
    assert Yaba.shape == (pair.model.njoints, 6, 6)


@pytest.mark.parametrize("threads", [1, 2])
@peer.robots(("every_joint", "panda", "talos_reduced"))
def test_a_batch_is_its_states(robot, root_joint, threads):
    pair = peer.pair(robot, root_joint)
    for count in (1, 19):
        q = pair.states(count)[0]
        found = dyn_ros.articulated_inertias(pair.model, pair.data, q, threads=threads)
        for n in range(count):
            alone = dyn_ros.articulated_inertias(pair.model, pair.data, q[n])
            for x, y in zip(found, alone, strict=True):
                peer.close(x[n], y, TIGHT)


LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
SOLID = (
    '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/>'
    "</inertial>"
)


def hand(mimic="", thumb=""):
    """A wrist with a massless joint "loose" behind it, and one beside the wrist, on the base."""
    return f"""<robot name="hand"><link name="base"/><link name="palm">{SOLID}</link>
      <link name="finger"/><link name="thumb">{thumb}</link>
      <joint name="wrist" type="revolute"><parent link="base"/><child link="palm"/>{LIMIT}</joint>
      <joint name="loose" type="revolute"><parent link="palm"/><child link="finger"/>{LIMIT}
        {mimic}</joint>
      <joint name="other" type="revolute"><parent link="base"/><child link="thumb"/>{LIMIT}
      </joint></robot>"""


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_singular_inertia_matrix_names_the_joint(count):
    model = dyn_ros.Model.from_urdf(hand(thumb=SOLID))
    q = np.zeros((3,) if count is None else (count, 3))
    with pytest.raises(np.linalg.LinAlgError, match="articulated_inertias: 'loose'"):
        dyn_ros.articulated_inertias(model, dyn_ros.Data(model), q)


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_joint_that_nothing_is_behind_may_move_no_inertia(count):
    model = dyn_ros.Model.from_urdf(hand())
    model.armature = [float(name == "loose") for name in model.velocity_names]
    q = np.zeros((3,) if count is None else (count, 3))
    found = dyn_ros.articulated_inertias(model, dyn_ros.Data(model), q)[0]
    wrist = model.joint_index("wrist")
    peer.close(found[..., wrist, :, :], np.broadcast_to(np.eye(6), (*q.shape[:-1], 6, 6)), 1e-15)


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_mimic_joint_without_mass_changes_nothing(count):
    """Its coordinate moves another link, outside the subtree."""
    model = dyn_ros.Model.from_urdf(hand('<mimic joint="other"/>', SOLID))
    q = np.zeros((2,) if count is None else (count, 2))
    found = dyn_ros.articulated_inertias(model, dyn_ros.Data(model), q)[0]
    wrist = model.joint_index("wrist")
    peer.close(found[..., wrist, :, :], np.broadcast_to(np.eye(6), (*q.shape[:-1], 6, 6)), 1e-15)


def test_a_singular_inertia_matrix_of_mimic_joints_names_the_joint():
    model = dyn_ros.Model.from_urdf(hand('<mimic joint="other"/>'))
    with pytest.raises(np.linalg.LinAlgError, match="articulated_inertias: 'other'"):
        dyn_ros.articulated_inertias(model, dyn_ros.Data(model), [0.0, 0.0])


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    for x in dyn_ros.articulated_inertias(model, dyn_ros.Data(model), []):
        assert x.shape == (0, 6, 6)


@pytest.mark.parametrize("robot", ["every_joint", "panda"])
def test_without_compiled_code(robot):
    pair = peer.pair(robot, "floating")
    given = {"q": pair.state(8)[0]}
    (found,) = peer.uncompiled(robot, [("articulated_inertias", given)])
    expected = dyn_ros.articulated_inertias(pair.model, pair.data, **given)
    for x, y in zip(found, expected, strict=True):
        peer.close(x, y, 1e-12)
