# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Centers of mass, energies, composite inertias, momenta and forces of bodies and robots."""

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from peer import as_tuple, in_time

EVERY = peer.robots(root_joints=(None, "floating", "planar"))
SOME = peer.robots(("every_joint", "panda", "tiago", "solo12", "ball_joints"))
TIGHT = 1e-12


def vectors(spatial):
    return np.array([x.vector for x in list(spatial)[1:]]).reshape(-1, 6)


def matrices(inertias):
    return np.array([Y.matrix() for Y in list(inertias)[1:]]).reshape(-1, 6, 6)


def free(pair, q, v, a):
    """A state as arguments for Pinocchio."""
    return pair.pin, pair.pin_data, pair.to_pin_q(q), pair.G @ v, pair.G @ a


def copies(results):
    return [np.array(x) for x in results]


def action(X):
    """Of a placement (4, 4) on motions, (6, 6)."""
    return pinocchio.SE3(X).toActionMatrix()


def cross(v):
    """The matrix of v x."""
    return pinocchio.Motion(v).action


def subtrees(model):
    """For each joint, the indices of the joints that it moves, including its own."""
    carried = [[i] for i in range(model.njoints)]
    for i in reversed(range(model.njoints)):
        parent = model.tree.joints[i].parent
        if parent >= 0:
            carried[parent] += carried[i]
    return carried


# --- center of mass


@EVERY
def test_center_of_mass_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        com, vcom, acom, mass = dyn_ros.center_of_mass(pair.model, pair.data, q, v, a)
        pinocchio.centerOfMass(*free(pair, q, v, a))
        peer.close(com, pair.pin_data.com[0], TIGHT)
        peer.close(vcom, pair.pin_data.vcom[0], TIGHT)
        peer.close(acom, pair.pin_data.acom[0], TIGHT)
        assert isinstance(mass, float)
        peer.close(mass, pair.pin_data.mass[0], TIGHT)
        peer.close(mass, pair.model.total_mass, TIGHT)


@SOME
@pytest.mark.parametrize("name", ["center_of_mass", "subtree_centers_of_mass"])
def test_centers_of_mass_without_motion(robot, root_joint, name):
    pair = peer.pair(robot, root_joint)
    function = getattr(dyn_ros, name)
    q, v, a, _ = pair.state(2)
    zero = np.zeros(pair.model.nv)
    function(pair.model, pair.data, q, v, a)  # which leaves numbers behind
    for given, full in (((), (zero, zero)), ((v,), (v, zero)), ((None, a), (zero, a))):
        some = copies(function(pair.model, pair.data, q, *given))
        for x, y in zip(some, function(pair.model, pair.data, q, *full), strict=True):
            assert np.array_equal(x, y)
    assert not np.any(function(pair.model, pair.data, q)[1:3])


@EVERY
def test_subtree_centers_of_mass_are_pinocchios_seen_from_the_world(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    com, vcom, acom, mass = dyn_ros.subtree_centers_of_mass(pair.model, pair.data, q, v, a)
    pinocchio.centerOfMass(*free(pair, q, v, a))
    d = pair.pin_data
    heavy = [j for j in range(1, pair.pin.njoints) if d.mass[j] > 0.0]
    rows = np.array(heavy) - 1
    peer.close(mass, np.array(list(d.mass))[1:], TIGHT)
    peer.close(com[rows], [d.oMi[j].act(d.com[j]) for j in heavy], TIGHT)
    peer.close(vcom[rows], [d.oMi[j].rotation @ d.vcom[j] for j in heavy], TIGHT)
    peer.close(acom[rows], [d.oMi[j].rotation @ d.acom[j] for j in heavy], TIGHT)


@SOME
def test_the_whole_is_the_sum_of_its_subtrees(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(3)
    *parts, mass = copies(dyn_ros.subtree_centers_of_mass(pair.model, pair.data, q, v, a))
    *whole, total = dyn_ros.center_of_mass(pair.model, pair.data, q, v, a)
    first = [i for i, joint in enumerate(pair.model.tree.joints) if joint.parent < 0]
    peer.close(mass[first].sum(), total, TIGHT)
    for part, x in zip(parts, whole, strict=True):
        peer.close(mass[first] @ part[first] / total, x, TIGHT)


@SOME
def test_rates_of_centers_of_mass(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(4)
    for function in (dyn_ros.center_of_mass, dyn_ros.subtree_centers_of_mass):

        def motion(q, v, function=function):
            return np.array(function(pair.model, pair.data, q, v)[:2])

        com_rate, vcom_rate = in_time(pair, q, v, a, motion)
        _, vcom, acom, _ = function(pair.model, pair.data, q, v, a)
        peer.close(vcom, com_rate, 1e-9)
        peer.close(acom, vcom_rate, 1e-9)


# --- its Jacobian


@EVERY
def test_com_jacobian_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(5)
    J = dyn_ros.com_jacobian(pair.model, pair.data, q)
    expected = pinocchio.jacobianCenterOfMass(pair.pin, pair.pin_data, pair.to_pin_q(q))
    peer.close(J, expected @ pair.G, TIGHT)
    peer.close(J @ v, dyn_ros.center_of_mass(pair.model, pair.data, q, v)[1], TIGHT)


@SOME
def test_subtree_com_jacobian_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(6)
    vcom, mass = copies(dyn_ros.subtree_centers_of_mass(model, data, q, v)[1::2])
    for i, name in enumerate(model.joint_names):
        J = dyn_ros.subtree_com_jacobian(model, data, q, name).copy()
        assert np.array_equal(J, dyn_ros.subtree_com_jacobian(model, data, q, i))
        # 1 m/s: a wheel's center is on its axis, and its velocity is a rounding error
        peer.close(J @ v, vcom[i], TIGHT, scale=max(1.0, np.abs(vcom[i]).max()))
        if mass[i] > 0.0:
            expected = pinocchio.jacobianSubtreeCenterOfMass(
                pair.pin, pair.pin_data, pair.to_pin_q(q), i + 1
            )
            peer.close(J, expected @ pair.G, TIGHT, scale=max(1.0, np.abs(expected).max()))


# --- without mass

FEATHER = """<robot name="feather"><link name="base"/>
  <link name="arm">{inertial}</link><link name="hand"/><link name="tip"/>
  <joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/>
    <origin xyz="0.1 0.2 0.3" rpy="0.4 0.5 0.6"/><axis xyz="1 2 3"/>
    <limit lower="-9" upper="9" effort="1" velocity="1"/></joint>
  <joint name="wrist" type="floating"><parent link="arm"/><child link="hand"/>
    <origin xyz="0.7 0.8 0.9"/></joint>
  <joint name="slide" type="prismatic"><parent link="hand"/><child link="tip"/>
    <origin xyz="0.1 0 0.3"/><axis xyz="0 1 0"/>
    <limit lower="-9" upper="9" effort="1" velocity="1"/></joint>
</robot>"""
INERTIAL = """<inertial><mass value="2"/><origin xyz="0.1 0 0.2"/>
  <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>"""


def feather(inertial, root_joint=None):
    xml = FEATHER.format(inertial=inertial)
    return peer.Pair(
        dyn_ros.Model.from_urdf(xml, root_joint), peer.pinocchio_model(xml, root_joint)
    )


@pytest.mark.parametrize("root_joint", [None, "floating"])
@pytest.mark.parametrize("inertial", [INERTIAL, ""], ids=["light hand", "no mass"])
def test_the_centre_of_a_subtree_without_mass_is_its_joints_origin(inertial, root_joint):
    pair = feather(inertial, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(7)
    com, vcom, acom, mass = copies(dyn_ros.subtree_centers_of_mass(model, data, q, v, a))
    light = [i for i in range(model.njoints) if mass[i] == 0.0]
    assert len(light) == (2 if inertial else model.njoints)
    origins = dyn_ros.forward_kinematics(model, data, q)[0][:, :3, 3].copy()
    peer.close(com[light], origins[light], TIGHT)

    def motion(q, v):
        return np.array(dyn_ros.subtree_centers_of_mass(model, data, q, v)[:2])

    com_rate, vcom_rate = in_time(pair, q, v, a, motion)
    peer.close(vcom, com_rate, 1e-9)
    peer.close(acom, vcom_rate, 1e-9)
    for i in range(model.njoints):
        peer.close(dyn_ros.subtree_com_jacobian(model, data, q, i) @ v, vcom[i], TIGHT)


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_a_robot_without_mass_weighs_nothing(count):
    pair = feather("")
    model, data = pair.model, pair.data
    q, v, a = pair.state(8)[:3] if count is None else pair.states(count)[:3]
    for name in FUNCTIONS:
        if name in ("subtree_centers_of_mass", "subtree_com_jacobian"):
            continue
        for x in results(name, model, data, q=q, v=v, a=a, joint=0):
            assert not np.any(x), name


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    data = dyn_ros.Data(model)
    for shape in ((0,), (9, 0)):
        empty = np.zeros(shape)
        for name, (takes, _) in FUNCTIONS.items():
            if "joint" in takes:
                with pytest.raises(ValueError, match="joint"):
                    call(name, model, data, q=empty, joint=0)
                continue
            for x in results(name, model, data, q=empty, v=empty, a=empty):
                assert not np.any(x), name


# --- energies


@EVERY
def test_energies_are_pinocchios(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.0, -2.0, 3.0))
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(9)
    kinetic = dyn_ros.kinetic_energy(model, data, q, v)
    potential = dyn_ros.potential_energy(model, data, q)
    both = dyn_ros.mechanical_energy(model, data, q, v)
    assert all(isinstance(x, float) for x in (kinetic, potential, both))
    peer.close(kinetic, pair.kinetic_energy(q, v), TIGHT)
    com, _, _, mass = dyn_ros.center_of_mass(model, data, q)
    scale = 4.0 * mass * np.abs(com).max()
    peer.close(potential, pair.potential_energy(q), TIGHT, scale)
    peer.close(potential, -mass * model.gravity @ com, TIGHT, scale)
    assert both == kinetic + potential


@EVERY
def test_kinetic_energy_is_that_of_the_inertia_matrix(robot, root_joint):
    """Armature counts. (Pinocchio 4.1 leaves that of revolute joints on odd axes out.)"""
    pair = peer.new_pair(robot, root_joint)
    pair.model.armature = np.random.default_rng(1).uniform(0.0, 0.5, pair.model.nv)
    q, v, _, _ = pair.state(10)
    M = dyn_ros.crba(pair.model, pair.data, q)
    peer.close(dyn_ros.kinetic_energy(pair.model, pair.data, q, v), 0.5 * v @ M @ v, TIGHT)


@SOME
def test_mechanical_energy_grows_by_the_torques_power(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    model, data = pair.model, pair.data
    model.gravity = 1.0, -2.0, 3.0
    model.armature = np.random.default_rng(2).uniform(0.0, 0.5, model.nv)
    q, v, a, _ = pair.state(11)
    tau = dyn_ros.rnea(model, data, q, v, a)
    rate = in_time(pair, q, v, a, lambda q, v: dyn_ros.mechanical_energy(model, data, q, v))
    peer.close(tau @ v, rate, 1e-9, scale=np.abs(tau) @ np.abs(v))


# --- composite inertias, bodies


@EVERY
def test_composite_inertias_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(12)
    Ycrb, oYcrb, _, _ = dyn_ros.composite_inertias(pair.model, pair.data, q, v)
    pin, data, q_pin, v_pin, _ = free(pair, q, v, a)
    pinocchio.crba(pin, data, q_pin)
    peer.close(Ycrb, matrices(data.Ycrb), TIGHT)
    pinocchio.ccrba(pin, data, q_pin, v_pin)
    peer.close(oYcrb, matrices(data.oYcrb), TIGHT)


@SOME
def test_rates_of_composite_inertias(robot, root_joint):
    """Against differences, and against the sum over the bodies of v x* Y - Y v x."""
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(13)
    _, _, dYcrb, doYcrb = copies(dyn_ros.composite_inertias(model, data, q, v))
    rate = in_time(pair, q, v, a, lambda q, v: dyn_ros.composite_inertias(model, data, q)[1])
    peer.close(doYcrb, rate, 1e-9)
    oMi, _, _, _, ov, _ = copies(dyn_ros.forward_kinematics(model, data, q, v))
    bodies = []
    for X, v_i, joint in zip(oMi, ov, list(pair.pin.inertias)[1:], strict=True):
        Y = pinocchio.SE3(X).act(joint).matrix()
        bodies.append(-cross(v_i).T @ Y - Y @ cross(v_i))
    peer.close(doYcrb, [sum(bodies[j] for j in carried) for carried in subtrees(model)], TIGHT)
    peer.close(dYcrb, [action(X).T @ dY @ action(X) for X, dY in zip(oMi, doYcrb)], TIGHT)


@SOME
def test_composite_inertias_without_motion(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state(14)
    moving = copies(dyn_ros.composite_inertias(pair.model, pair.data, q, v))
    still = dyn_ros.composite_inertias(pair.model, pair.data, q)
    assert np.array_equal(still[0], moving[0]) and np.array_equal(still[1], moving[1])
    assert not still[2].any() and not still[3].any()


@EVERY
def test_momenta_and_forces_are_those_of_pinocchios_rnea(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(15)
    f_ext = pair.wrenches(15)
    pinocchio.forwardKinematics(*free(pair, q, v, a))
    pair.rnea(q, v, a, f_ext)
    world = [X.toDualActionMatrix() for X in list(pair.pin_data.oMi)[1:]]
    h, oh = dyn_ros.body_momenta(model, data, q, v)
    peer.close(h, vectors(pair.pin_data.h), TIGHT)
    peer.close(oh, [X @ h_i for X, h_i in zip(world, vectors(pair.pin_data.h))], TIGHT)
    f, of = dyn_ros.joint_forces(model, data, q, v, a, f_ext)
    peer.close(f, vectors(pair.pin_data.f), TIGHT)
    peer.close(of, [X @ f_i for X, f_i in zip(world, vectors(pair.pin_data.f))], TIGHT)
    tau = data.tau.copy()
    peer.close(tau, dyn_ros.rnea(model, data, q, v, a, f_ext), TIGHT)


@SOME
def test_the_whole_robots_momentum_and_force_are_its_bodies(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(16)
    com = dyn_ros.center_of_mass(model, data, q)[0].copy()
    to_com = action(np.block([[np.eye(3), com[:, None]], [0.0, 0.0, 0.0, 1.0]])).T
    h = to_com @ dyn_ros.body_momenta(model, data, q, v)[1].sum(axis=0)
    peer.close(dyn_ros.ccrba(model, data, q, v)[1], h, TIGHT)
    f = dyn_ros.joint_forces(model, data, q, v, a)[1]
    f = to_com @ sum(f[i] for i, joint in enumerate(model.tree.joints) if joint.parent < 0)
    f[:3] += model.total_mass * model.gravity  # which the first joints bear
    dhg = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a)
    peer.close(dhg, f, TIGHT, scale=10.0 * model.total_mass + np.abs(f).max())


# --- centroidal momentum


@EVERY
def test_ccrba_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        Ag, hg, Ig = dyn_ros.ccrba(pair.model, pair.data, q, v)
        pin, data, q_pin, v_pin, _ = free(pair, q, v, a)
        pinocchio.ccrba(pin, data, q_pin, v_pin)
        peer.close(Ag, data.Ag @ pair.G, TIGHT)
        peer.close(hg, data.hg.vector, TIGHT)
        peer.close(Ig, data.Ig.matrix(), TIGHT)
        peer.close(pair.data.com, data.com[0], TIGHT)
        assert Ag.flags.f_contiguous


@EVERY
def test_dccrba_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        dAg = dyn_ros.dccrba(pair.model, pair.data, q, v)
        pin, data, q_pin, v_pin, _ = free(pair, q, v, a)
        pinocchio.dccrba(pin, data, q_pin, v_pin)
        expected = data.dAg @ pair.G  # next to zero for an iris with a fixed base
        scale = np.abs(data.Ag).max() * np.abs(v_pin).max()
        peer.close(dAg, expected, TIGHT, scale)
        assert dAg.flags.f_contiguous


@EVERY
def test_centroidal_momentum_time_derivative_is_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    for seed in range(3):
        q, v, a, _ = pair.state(seed)
        dhg = dyn_ros.centroidal_momentum_time_derivative(pair.model, pair.data, q, v, a)
        pinocchio.computeCentroidalMomentumTimeVariation(*free(pair, q, v, a))
        peer.close(dhg, pair.pin_data.dhg.vector, TIGHT)
        peer.close(pair.data.hg, pair.pin_data.hg.vector, TIGHT)


@EVERY
def test_identities_of_centroidal_momentum(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(17)
    dhg = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a).copy()
    momentum = data.hg.copy()  # the sum over the bodies
    Ag, hg, Ig = copies(dyn_ros.ccrba(model, data, q, v))
    dAg = dyn_ros.dccrba(model, data, q, v).copy()
    peer.close(Ag @ v, hg, TIGHT)
    peer.close(momentum, hg, TIGHT)
    peer.close(Ag @ a + dAg @ v, dhg, TIGHT)
    _, vcom, acom, mass = copies(dyn_ros.center_of_mass(model, data, q, v, a))
    peer.close(hg[:3], mass * vcom, TIGHT)
    peer.close(dhg[:3], mass * acom, TIGHT)
    peer.close(Ag[:3], mass * dyn_ros.com_jacobian(model, data, q), TIGHT)
    assert np.array_equal(Ig, Ig.T) and np.linalg.eigvalsh(Ig)[0] > 0.0
    peer.close(Ig[:3, :3], mass * np.eye(3), TIGHT)
    assert not Ig[:3, 3:].any()


@SOME
def test_rates_along_a_motion(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state(18)
    rate = in_time(pair, q, v, a, lambda q, v: dyn_ros.ccrba(model, data, q, v)[0])
    peer.close(dyn_ros.dccrba(model, data, q, v), rate, 1e-9)
    rate = in_time(pair, q, v, a, lambda q, v: dyn_ros.ccrba(model, data, q, v)[1])
    peer.close(dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a), rate, 1e-9)


@SOME
def test_locked_inertia_is_that_of_the_floating_base(robot, root_joint):
    """Ig is the sum of the first joints' composite inertias, shifted to the center of mass."""
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, _ = pair.state(19)
    oYcrb = dyn_ros.composite_inertias(model, data, q)[1].copy()
    total = sum(oYcrb[i] for i, joint in enumerate(model.tree.joints) if joint.parent < 0)
    Ig = dyn_ros.ccrba(model, data, q, v)[2]
    X = action(np.block([[np.eye(3), data.com[:, None]], [0.0, 0.0, 0.0, 1.0]]))
    peer.close(Ig, X.T @ total @ X, TIGHT, scale=np.abs(total).max())


@peer.robots(root_joints=("floating",))
def test_in_free_flight_gravity_is_all_that_acts(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    model, data = pair.model, pair.data
    model.gravity = 1.0, -2.0, 3.0
    q, v, _, tau = pair.state(20)
    tau[:6] = 0.0
    a = dyn_ros.aba(model, data, q, v, tau)
    dhg = dyn_ros.centroidal_momentum_time_derivative(model, data, q, v, a)
    weight = model.total_mass * model.gravity
    scale = np.linalg.norm(dyn_ros.ccrba(model, data, q, v)[0], 2) * np.linalg.norm(a)
    peer.close(dhg, [*weight, 0.0, 0.0, 0.0], 1e-12, scale)


@peer.robots(("solo12", "talos_reduced"), ("floating",))
@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_far_from_the_root_no_digit_is_lost(robot, root_joint, count):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a = pair.state(21)[:3] if count is None else pair.states(count)[:3]
    q[..., :3] = 0.0
    for function, arguments in (
        (dyn_ros.ccrba, (v,)),
        (dyn_ros.dccrba, (v,)),
        (dyn_ros.centroidal_momentum_time_derivative, (v, a)),
        (dyn_ros.com_jacobian, ()),
    ):
        near = np.copy(as_tuple(function(model, data, q, *arguments))[-1])
        far = q.copy()
        far[..., :3] = 4e6, -3e6, 1e5
        assert np.array_equal(as_tuple(function(model, data, far, *arguments))[-1], near)


@peer.robots(("every_joint", "panda", "baxter"))
def test_ignored_mimics_are_free_joints(robot, root_joint):
    """Results with projected mimic joints follow from the free robot and G: v_free = G v."""
    pair, loose = peer.pair(robot, root_joint), peer.pair(robot, root_joint, "ignore")
    assert loose.model.nv > pair.model.nv
    q, v, a, _ = pair.state(22)
    q_free, G = loose.from_pin_q(pair.to_pin_q(q)), pair.G
    for name, (takes, leaves) in FUNCTIONS.items():
        for joint in (0, pair.model.njoints - 1) if "joint" in takes else (None,):
            mine = copies(results(name, pair.model, pair.data, q=q, v=v, a=a, joint=joint))
            theirs = results(name, loose.model, loose.data, q=q_free, v=G @ v, a=G @ a, joint=joint)
            for field, x, y in zip(leaves.split(), mine, theirs, strict=True):
                columns = field in ("Ag", "dAg", "Jcom", "subtree_Jcom")
                peer.close(x, y @ G if columns else y, TIGHT)


# --- calls

FUNCTIONS = {  # name -> its arguments, what it leaves in Data
    "center_of_mass": ("q v a", "com vcom acom mass"),
    "subtree_centers_of_mass": ("q v a", "subtree_com subtree_vcom subtree_acom subtree_mass"),
    "com_jacobian": ("q", "Jcom"),
    "subtree_com_jacobian": ("q joint", "subtree_Jcom"),
    "kinetic_energy": ("q v", "kinetic_energy"),
    "potential_energy": ("q", "potential_energy"),
    "mechanical_energy": ("q v", "mechanical_energy"),
    "composite_inertias": ("q v", "Ycrb oYcrb dYcrb doYcrb"),
    "body_momenta": ("q v", "h oh"),
    "joint_forces": ("q v a", "f of"),
    "ccrba": ("q v", "Ag hg Ig"),
    "dccrba": ("q v", "dAg"),
    "centroidal_momentum_time_derivative": ("q v a", "dhg"),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def call(name, model, data, threads=1, **values):
    arguments = [values[key] for key in FUNCTIONS[name][0].split()]
    return getattr(dyn_ros, name)(model, data, *arguments, threads=threads)


def results(name, *arguments, **values):
    return as_tuple(call(name, *arguments, **values))


@functions
def test_results_are_datas_own(name):
    pair = peer.pair("every_joint", "floating")
    q, v, a, _ = pair.state(23)
    found = results(name, pair.model, pair.data, q=q, v=v, a=a, joint=3)
    for x, field in zip(found, FUNCTIONS[name][1].split(), strict=True):
        own = getattr(pair.data, field)
        assert x == own if isinstance(x, float) else x is own


@pytest.mark.parametrize(
    "name, fields",
    [
        ("dccrba", "Ag hg Ig com vcom mass"),
        ("centroidal_momentum_time_derivative", "hg com vcom acom mass"),
        ("mechanical_energy", "kinetic_energy potential_energy"),
    ],
)
def test_what_else_is_left_in_data(name, fields):
    """The same numbers as from the functions that give them."""
    pair = peer.pair("every_joint", "floating")
    state = dict(zip("qva", pair.state(27)))
    data = dyn_ros.Data(pair.model)
    call(name, pair.model, data, **state)
    for giver, (_, leaves) in FUNCTIONS.items():
        if set(leaves.split()) & set(fields.split()):
            found = results(giver, pair.model, pair.data, **state)
            for field, x in zip(leaves.split(), found, strict=True):
                if field in fields.split():
                    peer.close(getattr(data, field), x, TIGHT)
    dyn_ros.center_of_mass(pair.model, pair.data, **state)
    dyn_ros.ccrba(pair.model, pair.data, state["q"], state["v"])
    peer.close(
        pair.data.vcom, dyn_ros.com_jacobian(pair.model, pair.data, state["q"]) @ state["v"], TIGHT
    )


@functions
def test_no_result_depends_on_an_earlier_call(name):
    pair = peer.pair("every_joint", "floating")
    state = dict(zip("qva", pair.state(24)), joint=3)
    other = dict(zip("qva", pair.state(25)), joint=5)
    fresh = copies(results(name, pair.model, dyn_ros.Data(pair.model), **state))
    for earlier in FUNCTIONS:
        call(earlier, pair.model, pair.data, **other)
        for x, y in zip(results(name, pair.model, pair.data, **state), fresh, strict=True):
            assert np.array_equal(x, y)


@functions
@pytest.mark.parametrize("threads", [1, 2])
@peer.robots(("every_joint", "talos_reduced", "ball_joints"), (None, "floating"))
def test_a_batch_is_its_states(robot, root_joint, name, threads):
    pair = peer.pair(robot, root_joint)
    for count in (1, 19):
        states = dict(zip("qva", pair.states(count)))
        batch = results(name, pair.model, pair.data, threads, **states, joint=2)
        for n in range(count):
            state = {key: value[n] for key, value in states.items()}
            for x, y in zip(
                batch, results(name, pair.model, pair.data, **state, joint=2), strict=True
            ):
                assert len(x) == count
                peer.close(x[n], y, 1e-13, scale=max(1.0, np.abs(y).max()))


@functions
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_bad_arrays_are_named(name, batched):
    pair = peer.pair("every_joint", "floating")
    states = pair.states(9) if batched else pair.state(26)
    state = dict(zip("qva", states), joint=3)
    for key in FUNCTIONS[name][0].split()[:3]:
        if key == "joint":
            continue
        for bad in (state[key][..., :-1], np.full_like(state[key], np.nan), "words"):
            with pytest.raises(ValueError, match=rf"\b{key}\b.*expected.*got"):
                call(name, pair.model, pair.data, **{**state, key: bad})


@pytest.mark.parametrize("joint", ["nowhere", -1, 99, None, 1.5, [0]])
def test_an_unknown_joint(joint):
    pair = peer.pair("panda")
    with pytest.raises(ValueError, match="joint.*available: panda_joint1, "):
        dyn_ros.subtree_com_jacobian(pair.model, pair.data, pair.state()[0], joint)


def test_without_compiled_code():
    pair = peer.pair("every_joint", "floating")
    states = [{**dict(zip("qva", state)), "joint": 3} for state in (pair.state(0), pair.states(2))]
    calls = [
        (name, {key: state[key] for key in FUNCTIONS[name][0].split()})
        for name in FUNCTIONS
        for state in states
    ]
    for (name, given), found in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        for x, y in zip(
            as_tuple(found), results(name, pair.model, pair.data, **given), strict=True
        ):
            peer.close(x, y, 1e-12, scale=max(1.0, np.abs(y).max()))
