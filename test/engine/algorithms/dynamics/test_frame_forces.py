# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Forces that fixed and moving joints transmit."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

MASS, COM = 2.5, np.array([0.03, -0.02, 0.2])
INERTIA = np.array([[0.02, 0.003, -0.001], [0.003, 0.03, 0.002], [-0.001, 0.002, 0.025]])


def act(X, f):
    return np.asarray(dyn_ros.SE3.from_homogeneous(X).act(dyn_ros.Force(f)))


def act_inverse(X, f):
    return np.asarray(dyn_ros.SE3.from_homogeneous(X).act_inverse(dyn_ros.Force(f)))


def with_payloads(model):
    """A few payloads, on links and on joints."""
    for n, frame in enumerate(range(0, model.nframes, max(1, model.nframes // 5))):
        model.set_payload(f"load {n}", frame, MASS + n, COM, INERTIA)
    return model


def on_some(model, seed=0):
    """Wrenches on a few frames, by name."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=6) for name in model.frame_names[::7]}


def forces(model, q, v, a, f_ext=None):
    return dyn_ros.frame_forces(model, dyn_ros.Data(model), q, v, a, f_ext)


# --- moving joints


@peer.robots()
def test_moving_joints_transmit_the_forces_of_the_joints(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    for f_ext in (None, pair.wrenches(2), on_some(pair.model)):
        array = pair.model.external_forces(f_ext) if isinstance(f_ext, dict) else f_ext
        expected, _ = dyn_ros.joint_forces(pair.model, pair.data, q, v, a, array)
        torque = pair.data.tau.copy()
        found = dyn_ros.frame_forces(pair.model, pair.data, q, v, a, f_ext)
        np.testing.assert_array_equal(pair.data.tau, torque)
        own = [n for n, frame in enumerate(pair.model.tree.frames) if frame.kind == "joint"]
        assert len(own) == pair.model.njoints
        peer.close(found[own], expected, 1e-12)


@peer.robots(("every_joint", "talos_reduced"))
def test_links_have_the_force_of_the_joint_that_connects_them(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(1)
    found = forces(pair.model, q, v, a, on_some(pair.model))
    for n, frame in enumerate(pair.model.tree.frames):
        if frame.kind == "body" and frame.parent_frame >= 0:
            np.testing.assert_array_equal(found[n], found[frame.parent_frame])


# --- fixed joints


def fixed_joints(model):
    return [n for n, frame in enumerate(model.tree.frames) if frame.kind == "fixed_joint"]


def is_beyond(frames, n, other):
    """Whether a frame is beyond another one, or the same."""
    while n > other:
        n = frames[n].parent_frame
    return n == other


@peer.robots(("every_joint", "panda", "ur5", "baxter", "solo12", "tiago"), (None, "floating"))
def test_is_the_torque_of_a_floating_joint_in_its_place(robot, root_joint):
    """Of one that does not move, by the wrench that rnea returns for it."""
    model = with_payloads(dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint))
    q, v, a, _ = peer.pair(robot, root_joint).state(2)
    wrenches = on_some(model)
    found = forces(model, q, v, a, wrenches)
    indices = fixed_joints(model)
    for n in indices[:: max(1, len(indices) // 8)]:
        name = model.frame_names[n]
        xml = ElementTree.fromstring(peer.urdf(robot))
        xml.find(f"joint[@name='{name}']").set("type", "floating")
        other = with_payloads(
            dyn_ros.Model.from_urdf(ElementTree.tostring(xml, encoding="unicode"), root_joint)
        )
        assert other.frame_names == model.frame_names
        q_other, v_other, a_other = other.neutral(), np.zeros(other.nv), np.zeros(other.nv)
        for k, each in enumerate(model.position_names):
            q_other[other.position_names.index(each)] = q[k]
        for k, each in enumerate(model.velocity_names):
            at = other.velocity_names.index(each)
            v_other[at], a_other[at] = v[k], a[k]
        torques = dyn_ros.rnea(
            other, dyn_ros.Data(other), q_other, v_other, a_other, other.external_forces(wrenches)
        )
        start = other.idx_v[other.joint_index(name)]
        peer.close(found[n], torques[start : start + 6], scale=np.abs(found).max())


@peer.robots()
def test_fixed_joints_as_in_pinocchio(robot, root_joint):
    """Pinocchio counts all children of the moving joint, also those that are not beyond."""
    pair = peer.pair(robot, root_joint)
    model, frames = pair.model, pair.model.tree.frames
    q, v, a, _ = pair.state(3)
    free = pair.to_pin_q(q), pair.G @ v, pair.G @ a
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, *free)
    pinocchio.rnea(pair.pin, pair.pin_data, *free)
    found = forces(model, q, v, a)
    f, _ = dyn_ros.joint_forces(model, pair.data, q, v, a)
    own = {frame.parent: n for n, frame in enumerate(frames) if frame.kind == "joint"}
    for n in fixed_joints(model):
        frame = frames[n]
        beside = [
            act(pair.data.liMi[i], f[i])
            for i, joint in enumerate(model.tree.joints)
            if joint.parent == frame.parent and not is_beyond(frames, own[i], n)
        ]
        theirs = pinocchio.computeSupportedForceByFrame(pair.pin, pair.pin_data, n + 1).vector
        if frame.parent >= 0:
            expected = theirs - act_inverse(frame.placement, sum(beside, np.zeros(6)))
            peer.close(found[n], expected, scale=np.abs(found).max())


@peer.robots(("every_joint", "panda", "tiago", "talos_reduced"))
def test_a_locked_joint_transmits_what_it_did_before(robot, root_joint):
    """A joint at rest and the same joint locked: the torque about its axis is part of the force."""
    model = with_payloads(dyn_ros.Model.from_urdf(peer.urdf(robot), root_joint, mimic="ignore"))
    q, v, a, _ = peer.new_pair(robot, root_joint, mimic="ignore").state(4)
    single = [name for name, nq in zip(model.joint_names, model.nqs) if nq == 1][::4]
    for name in single:
        i, k = model.joint_index(name), model.velocity_names.index(name)
        v_rest, a_rest = v.copy(), a.copy()
        v_rest[k] = a_rest[k] = 0.0
        part = model.reduced({name: q[model.idx_q[i]]})
        rest = [np.delete(x, j) for x, j in ((q, model.idx_q[i]), (v, k), (a, k))]
        whole = forces(model, q, v_rest, a_rest)
        found = forces(part, *rest)
        peer.close(found, whole, 1e-11)
        torque = dyn_ros.rnea(model, dyn_ros.Data(model), q, v_rest, a_rest)[k]
        joint, f = model.tree.joints[i], found[model.frame_names.index(name)]
        part_of_f = f[:3] if joint.kind == "prismatic" else f[3:]
        peer.close(joint.axis @ part_of_f, torque, scale=np.abs(found).max())


@peer.robots(("every_joint", "panda", "tiago"), (None,))
def test_the_ground_carries_the_whole_robot(robot, root_joint):
    model = with_payloads(dyn_ros.Model.from_urdf(peer.urdf(robot)))
    q = peer.pair(robot).state(1)[0]
    zero, model.gravity = np.zeros(model.nv), [1.0, 2.0, -9.0]
    mass = model.total_mass + model.base_inertia.mass
    com = dyn_ros.center_of_mass(model, dyn_ros.Data(model), q)[0]
    moment = model.total_mass * com + model.base_inertia.mass * model.base_inertia.com
    found = forces(model, q, zero, zero)[0]
    peer.close(found[:3], -mass * model.gravity, 1e-12)
    peer.close(found[3:], np.cross(moment, -model.gravity), 1e-11)
    pushed = forces(model, q, zero, zero, {model.frame_names[0]: np.arange(6.0)})[0]
    peer.close(pushed, found - np.arange(6.0), 1e-12)


def test_payloads_load_only_what_is_before_them():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    q, zero = peer.pair("panda").state(1)[0], np.zeros(model.nv)
    before = forces(model, q, zero, zero)
    model.set_payload("tool", "panda_hand", MASS, COM, INERTIA)
    more = forces(model, q, zero, zero) - before
    names = ("panda_joint7", "panda_joint8", "panda_hand_joint", "panda_hand")
    for name in names:
        weight = np.linalg.norm(more[model.frame_index(name)][:3])
        assert weight == pytest.approx(9.81 * MASS)
    for name in ("panda_hand_tcp", "panda_leftfinger", "panda_finger_joint1"):
        assert not more[model.frame_index(name)].any()
    own = np.concatenate([np.zeros(3), np.cross(COM, more[model.frame_index("panda_hand")][:3])])
    peer.close(more[model.frame_index("panda_hand")][3:], own[3:], 1e-12)
    model.set_payload("tool", "panda_joint8", MASS, COM, INERTIA)
    more = forces(model, q, zero, zero) - before
    assert not more[model.frame_index("panda_hand_joint")].any()
    assert more[model.frame_index("panda_joint8")].any()
    model.set_payload("second", "panda_link8", MASS, COM, INERTIA)
    both = forces(model, q, zero, zero) - before
    peer.close(both, 2.0 * more, 1e-11)
    model.clear_payload()
    np.testing.assert_array_equal(forces(model, q, zero, zero), before)


def test_a_wrench_loads_only_what_is_before_it():
    """By the name of a frame; an array acts on the links of the moving joints."""
    pair = peer.pair("panda")
    q, v, a, _ = pair.state(1)
    push = np.arange(1.0, 7.0)
    free = forces(pair.model, q, v, a)
    pushed = free - forces(pair.model, q, v, a, {"panda_hand_joint": push})
    n = pair.model.frame_index
    peer.close(pushed[n("panda_hand")], push, 1e-12)
    assert not pushed[n("panda_hand_tcp")].any()
    as_array = free - forces(
        pair.model, q, v, a, pair.model.external_forces({"panda_hand_joint": push})
    )
    assert not as_array[n("panda_joint8")].any()
    peer.close(as_array[n("panda_joint7")], pushed[n("panda_joint7")], 1e-11)
    two = free - forces(pair.model, q, v, a, {"panda_hand": push, "panda_hand_joint": push})
    peer.close(two, 2.0 * pushed, 1e-11)


def test_a_sensor_in_a_chain_that_is_reversed():
    """A link below a reversed joint is the one above it in the robot."""
    model = dyn_ros.Model.from_urdf(peer.urdf("tiago"))
    part = model.chain("wrist_ft_tool_link", "arm_5_link")
    zero = np.zeros(part.nv)
    found = forces(part, zero, zero, zero)
    beyond = sum(
        frame.inertia.mass
        for frame in part.tree.frames[part.frame_names.index("wrist_ft_joint") + 1 :]
    )
    weight = found[part.frame_names.index("wrist_ft_joint")][:3]
    assert np.linalg.norm(weight) == pytest.approx(9.81 * beyond)


# --- one frame, batches, errors


@peer.robots(("every_joint", "panda"))
def test_batches_and_single_frames(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.states(11)
    for f_ext in (None, on_some(pair.model), pair.wrenches(1)):
        found = dyn_ros.frame_forces(pair.model, pair.data, q, v, a, f_ext, threads=2)
        assert found.shape == (11, pair.model.nframes, 6)
        for n in range(11):
            one = dyn_ros.frame_forces(pair.model, pair.data, q[n], v[n], a[n], f_ext)
            assert one is pair.data.frame_f
            peer.close(found[n], one, 1e-12)
        frame = pair.model.frame_names[-1]
        index = pair.model.frame_index(frame)
        for each in (frame, index):
            np.testing.assert_array_equal(
                dyn_ros.frame_force(pair.model, pair.data, q, v, a, each, f_ext), found[:, index]
            )
            single = dyn_ros.frame_force(pair.model, pair.data, q[10], v[10], a[10], each, f_ext)
            np.testing.assert_array_equal(single, one[index])


def test_invalid_arguments():
    pair = peer.pair("panda")
    q, v, a, _ = pair.state(1)
    with pytest.raises(ValueError, match="no frame named 'nowhere'; available: panda_link0"):
        dyn_ros.frame_force(pair.model, pair.data, q, v, a, "nowhere")
    with pytest.raises(ValueError, match="no frame named 'nowhere'; available: panda_link0"):
        dyn_ros.frame_forces(pair.model, pair.data, q, v, a, {"nowhere": np.zeros(6)})
    with pytest.raises(ValueError, match="wrench on panda_hand: expected 6 finite numbers, got"):
        dyn_ros.frame_forces(pair.model, pair.data, q, v, a, {"panda_hand": [np.inf] * 6})
    with pytest.raises(ValueError, match=r"f_ext: expected shape \(9, 6\), or \(B, 9, 6\) for"):
        dyn_ros.frame_forces(pair.model, pair.data, q, v, a, np.zeros((8, 6)))
    with pytest.raises(ValueError, match="v: expected finite numbers, got nan"):
        dyn_ros.frame_forces(pair.model, pair.data, q, v * np.nan, a)
    for function in (dyn_ros.frame_forces, dyn_ros.frame_force):
        with pytest.raises(TypeError, match="model: expected a dyn_ros.Model, got str: 'panda'"):
            function("panda", pair.data, q, v, a, {})
