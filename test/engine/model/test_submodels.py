# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parts of a robot: locked joints as in Pinocchio, chains as in KDL; both by identities."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

MASS, COM = 2.5, np.array([0.03, -0.02, 0.2])
INERTIA = np.array([[0.02, 0.003, -0.001], [0.003, 0.03, 0.002], [-0.001, 0.002, 0.025]])
LOCAL = dyn_ros.ReferenceFrame.LOCAL
KDL = Path(__file__).resolve().parents[1] / "algorithms" / "constrained" / "kdl"


# --- locked joints


def locked_names(model, seed):
    """About half of the joints that can be locked, at least one."""
    free = [name for name, nq in zip(model.joint_names, model.nqs) if nq]
    chosen = np.random.default_rng(seed).random(len(free)) < 0.5
    return [name for name, is_locked in zip(free, chosen) if is_locked] or free[:1]


def position(model, q, name):
    i = model.joint_index(name)
    x = q[model.idx_q[i] :][: model.nqs[i]]
    return x if len(x) > 1 else float(x[0])


def lock_of(model, q, names):
    return {name: position(model, q, name) for name in names}


def rows(model, part, counts="nvs", starts="idx_v"):
    """Indices of the numbers of q or v that the part has, in the model's."""
    found = []
    for name, count in zip(part.joint_names, getattr(part, counts)):
        start = getattr(model, starts)[model.joint_index(name)]
        found += range(start, start + count)
    return np.array(found, int)


def q_rows(model, part):
    return rows(model, part, "nqs", "idx_q")


def links_renamed(xml):
    """The text without links that have the name of a joint, which Pinocchio cannot lock."""
    robot = ElementTree.fromstring(xml)
    for link in robot.findall("link"):
        link.set("name", link.get("name") + "/link")
    for end in robot.findall("joint/*[@link]"):
        end.set("link", end.get("link") + "/link")
    return ElementTree.tostring(robot, encoding="unicode")


def free_pair(robot, root_joint):
    """A pair without mimic joints, in which links and joints have different names."""
    if robot in peer.BUILT:
        return peer.new_pair(robot, root_joint)
    xml = links_renamed(peer.urdf(robot))
    return peer.Pair(
        dyn_ros.Model.from_urdf(xml, root_joint, mimic="ignore"),
        peer.pinocchio_model(xml, root_joint),
    )


@pytest.mark.parametrize("seed", [1, 2])
@peer.robots((*peer.FILES, "ball_joints"), (None, "floating", "planar"))
def test_is_pinocchios_reduced_model(robot, root_joint, seed):
    pair = free_pair(robot, root_joint)
    q, _, _, armature = pair.state(seed)
    pair.set_armature(np.abs(armature))
    pair.set_gravity([1.0, 2.0, -9.0])
    names = locked_names(pair.model, seed)
    pin = pinocchio.buildReducedModel(
        pair.pin, [pair.pin.getJointId(name) for name in names], pair.to_pin_q(q)
    )
    part = peer.Pair(pair.model.reduced(lock_of(pair.model, q, names)), pin)
    q, v, a, _ = part.state(seed)
    f_ext = part.wrenches(seed)
    assert part.model.total_mass == pytest.approx(pinocchio.computeTotalMass(pin), 1e-14)
    np.testing.assert_array_equal(part.model.gravity, pin.gravity.linear)
    peer.close(dyn_ros.rnea(part.model, part.data, q, v, a, f_ext), part.rnea(q, v, a, f_ext))
    peer.close(dyn_ros.crba(part.model, part.data, q), part.crba(q))
    peer.close(dyn_ros.potential_energy(part.model, part.data, q), part.potential_energy(q))
    pinocchio.framesForwardKinematics(pin, part.pin_data, part.to_pin_q(q))
    oMf = dyn_ros.frame_placements(part.model, part.data, q)
    for name, X in zip(part.model.frame_names, oMf):
        theirs = part.pin_data.oMf[pin.getFrameId(name)].homogeneous
        peer.close(X, theirs, scale=max(1.0, np.abs(X).max()))


def changed(model, state):
    """The model with all its settings changed, and a few payloads."""
    _, v, a, tau = state
    model.gravity = [1.0, 2.0, -9.0]
    model.armature, model.damping, model.friction = np.abs([v, a, tau])
    model.velocity_limit[:], model.effort_limit[:] = 1.0 + np.abs([a, tau])
    frames = range(0, len(model.frame_names), max(1, len(model.frame_names) // 4))
    for n, frame in enumerate(frames):
        model.set_payload(f"load {n}", frame, MASS + n, COM, INERTIA)
    return model


@pytest.mark.parametrize("seed", [1, 2])
@peer.robots(root_joints=(None, "floating"))
def test_the_rows_of_the_whole_robot_at_the_locked_positions(robot, root_joint, seed):
    state = peer.pair(robot, root_joint).state(seed)
    q, v, a, tau = state
    model = changed(peer.new_pair(robot, root_joint).model, state)
    part = model.reduced(lock_of(model, q, locked_names(model, seed)))
    iq, iv = q_rows(model, part), rows(model, part)
    data, part_data = dyn_ros.Data(model), dyn_ros.Data(part)

    def whole(vector):
        full = np.zeros(model.nv)
        full[iv] = vector[iv]
        return full

    assert part.velocity_names == tuple(model.velocity_names[k] for k in iv)
    assert part.position_names == tuple(model.position_names[k] for k in iq)
    assert part.frame_names == model.frame_names and part.payloads == model.payloads
    kept = {
        frame.name
        for frame in model.tree.frames
        if frame.kind == "joint" and frame.name in part.joint_names
    }
    assert {frame.name for frame in part.tree.frames if frame.kind == "joint"} == kept
    for name in ("lower", "upper"):
        np.testing.assert_array_equal(getattr(part, name), getattr(model, name)[iq])
    for name in ("velocity_limit", "effort_limit", "armature", "damping", "friction"):
        np.testing.assert_array_equal(getattr(part, name), getattr(model, name)[iv])
    scale = np.abs(dyn_ros.rnea(model, data, q, whole(v), whole(a))).max()
    peer.close(dyn_ros.rnea(part, part_data, q[iq], v[iv], a[iv]), data.tau[iv], scale=scale)
    M = dyn_ros.crba(model, data, q)
    peer.close(dyn_ros.crba(part, part_data, q[iq]), M[np.ix_(iv, iv)], scale=np.abs(M).max())
    peer.close(
        dyn_ros.kinetic_energy(part, part_data, q[iq], v[iv]),
        dyn_ros.kinetic_energy(model, data, q, whole(v)),
    )
    oMf = dyn_ros.frame_placements(model, data, q)
    peer.close(dyn_ros.frame_placements(part, part_data, q[iq]), oMf)
    for frame in range(0, len(model.frame_names), 7):
        J = dyn_ros.frame_jacobian(model, data, q, frame, LOCAL)
        peer.close(
            dyn_ros.frame_jacobian(part, part_data, q[iq], frame, LOCAL),
            J[:, iv],
            scale=max(1.0, np.abs(J).max()),
        )
    forces = np.random.default_rng(seed).normal(size=(3, 6))
    wrenches = dict(zip(model.frame_names[-3:], forces))
    tau = dyn_ros.static_torque(model, data, q, model.external_forces(wrenches))
    peer.close(
        dyn_ros.static_torque(part, part_data, q[iq], part.external_forces(wrenches)),
        tau[iv],
        scale=max(np.abs(tau).max(), 1.0),
    )
    bodies = [
        sum(map(np.asarray, _in_world(each, data_, q_)))
        for each, data_, q_ in ((model, data, q), (part, part_data, q[iq]))
    ]
    peer.close(bodies[1], bodies[0])


def _in_world(model, data, q):
    """The inertias of all bodies at the world's origin, and that of the base."""
    oMi = dyn_ros.forward_kinematics(model, data, q)[0]
    return [
        model.base_inertia,
        *(dyn_ros.SE3.from_homogeneous(X).act(Y) for X, Y in zip(oMi, model.inertias)),
    ]


def test_nothing_locked_is_the_same_robot():
    state = peer.pair("panda", "floating").state(3)
    model = changed(dyn_ros.Model.from_urdf(peer.urdf("panda"), "floating"), state)
    part = model.reduced({})
    np.testing.assert_array_equal(part._floats, model._floats)
    np.testing.assert_array_equal(part._ints, model._ints)
    part.clear_payload()
    part.damping = np.zeros(part.nv)
    assert model.payloads and model.damping.any()


def test_everything_locked_is_a_stone():
    pair = peer.pair("panda", "floating")
    q = pair.state(1)[0]
    names = [name for name, nq in zip(pair.model.joint_names, pair.model.nqs) if nq]
    part = pair.model.reduced(lock_of(pair.model, q, names))
    assert (part.njoints, part.nq, part.nv, part.total_mass) == (0, 0, 0, 0.0)
    peer.close(part.base_inertia.mass, pair.model.total_mass, 1e-14)
    data = dyn_ros.Data(part)
    assert dyn_ros.rnea(part, data, [], [], []).shape == (0,)
    peer.close(
        dyn_ros.frame_placements(part, data, []), dyn_ros.frame_placements(pair.model, pair.data, q)
    )


def test_in_two_steps_as_in_one():
    pair = peer.pair("talos_reduced", "floating")
    q = pair.state(4)[0]
    lock = lock_of(pair.model, q, locked_names(pair.model, 4))
    once, step = pair.model.reduced(lock), pair.model
    for name, x in lock.items():
        step = step.reduced({name: x})
    assert step.joint_names == once.joint_names
    peer.close(step._floats, once._floats, 1e-12)
    assert [f.kind for f in step.tree.frames] == [f.kind for f in once.tree.frames]


def test_payloads_can_be_replaced_and_removed_later():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    bare = model.reduced({"panda_joint7": 0.3})
    model.set_payload("tool", "panda_hand", MASS, COM, INERTIA)
    part = model.reduced({"panda_joint7": 0.3})
    assert part.total_mass == pytest.approx(bare.total_mass + MASS)
    bare.set_payload("tool", "panda_hand", MASS, COM, INERTIA)
    peer.close(part._floats, bare._floats, 1e-12)
    part.clear_payload("tool")
    bare.clear_payload("tool")
    np.testing.assert_array_equal(part._floats, bare._floats)


def test_mimic_joints_are_locked_with_their_master():
    model = dyn_ros.Model.from_urdf(peer.urdf("baxter"))
    mimics = {
        joint.name: model.joint_names[joint.mimic.joint]
        for joint in model.tree.joints
        if joint.mimic
    }
    follower, master = next(iter(mimics.items()))
    part = model.reduced({master: 0.01})
    assert master not in part.joint_names and follower not in part.joint_names
    with pytest.raises(
        ValueError,
        match=f"lock: joint '{follower}' mimics joint '{master}'; lock "
        f"'{master}', which locks both",
    ):
        model.reduced({follower: 0.01})
    free = dyn_ros.Model.from_urdf(peer.urdf("baxter"), mimic="ignore")
    assert follower not in free.reduced({follower: 0.01}).joint_names


def test_positions_may_be_outside_the_limits():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    model.reduced({"panda_joint1": 100.0, "panda_finger_joint1": np.float32(-3.0)})


ROOT = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize(
    "lock, why",
    [
        ({"elbow": 0.0}, r"lock: joint 'elbow' is unknown; available: root_joint, panda_joint1, "),
        ({3: 0.0}, r"lock: joint 3 is unknown; available: root_joint"),
        ({"x" * 1000: 0.0}, "lock: joint 'xxx"),
        (
            {"panda_joint8": 0.0},
            "lock: joint 'panda_joint8' is fixed already; available: root_joint",
        ),
        ({"panda_link1": 0.0}, "lock: joint 'panda_link1' is unknown"),
        (
            {"panda_joint1": np.nan},
            "position of joint 'panda_joint1': expected a finite number, got ",
        ),
        (
            {"panda_joint1": "0"},
            "position of joint 'panda_joint1': expected a finite number, got '0'",
        ),
        (
            {"panda_joint1": None},
            "position of joint 'panda_joint1': expected a finite number, got No",
        ),
        ({"panda_joint1": [0.0]}, r"'panda_joint1': expected a finite number, got shape \(1,\)"),
        ({"panda_joint1": -2e14}, r"'panda_joint1': expected at most 1e\+14, got -2"),
        (
            {"panda_finger_joint1": 2e30},
            r"'panda_finger_joint1': expected at most 1e\+30, got 2e\+30",
        ),
        ({"root_joint": 0.0}, r"'root_joint': expected 7 finite numbers, got shape \(\)"),
        ({"root_joint": ROOT[1:]}, r"'root_joint': expected 7 finite numbers, got shape \(6,\)"),
        (
            {"root_joint": [0.0] * 7},
            r"'root_joint': expected a unit quaternion \(x y z w\) after x y "
            "z, got length 0; normalize it",
        ),
    ],
)
def test_invalid_positions(lock, why):
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"), "floating")
    with pytest.raises(ValueError, match=why) as caught:
        model.reduced(lock)
    assert len(str(caught.value)) < 1000


def test_lock_must_be_a_dict():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    with pytest.raises(
        TypeError,
        match="lock: expected a dict from names of joints to positions, "
        r"got list: \['panda_joint1'\]",
    ):
        model.reduced(["panda_joint1"])


# --- chains

CHAINS = [
    ("tiago", "torso_lift_link", "arm_7_link"),
    ("tiago", "base_footprint", "hand_thumb_link"),
    ("talos_reduced", "base_link", "gripper_right_base_link"),
    ("panda", "panda_link2", "panda_rightfinger"),
    ("kinova", "base", "j2s6s200_end_effector"),
    ("every_joint", "upper_arm", "tip"),
]
ACROSS = [
    ("tiago", "arm_7_link", "head_2_link"),
    ("tiago", "hand_thumb_link", "torso_lift_link"),
    ("talos_reduced", "right_sole_link", "left_sole_link"),
    ("baxter", "left_gripper", "right_gripper"),
    ("panda", "panda_rightfinger", "panda_leftfinger"),
    ("kinova", "j2s6s200_end_effector", "base"),
]


def chain_urdf(robot, root, tip):
    """The text with only the links and joints between two links, and the names of the joints."""
    robot = ElementTree.fromstring(peer.urdf(robot))
    above = {joint.find("child").get("link"): joint for joint in robot.findall("joint")}

    def to_root(link):
        joints = []
        while link in above:
            joints.append(above[link])
            link = above[link].find("parent").get("link")
        return joints

    up, down = to_root(root), to_root(tip)
    kept = [joint for joint in up + down if not (joint in up and joint in down)]
    links = {joint.find(end).get("link") for joint in kept for end in ("parent", "child")}
    for element in list(robot):
        if element not in kept and not (element.tag == "link" and element.get("name") in links):
            robot.remove(element)
    return ElementTree.tostring(robot, encoding="unicode")


@pytest.mark.parametrize("robot, root, tip", CHAINS)
def test_a_chain_downward_is_the_urdf_without_its_branches(robot, root, tip):
    for mimic in ("project", "ignore") if robot != "panda" else ("ignore",):
        model = dyn_ros.Model.from_urdf(peer.urdf(robot), "floating", mimic=mimic)
        part = model.chain(root, tip)
        alone = dyn_ros.Model.from_urdf(chain_urdf(robot, root, tip), mimic="ignore")
        assert part.joint_names == alone.joint_names
        assert part.frame_names == alone.frame_names
        assert part.njoints > 0
        assert [f.parent_frame for f in part.tree.frames] == [
            f.parent_frame for f in alone.tree.frames
        ]
        if not any(joint.mimic for joint in part.tree.joints):
            peer.close(part._floats, alone._floats, 1e-12)
            np.testing.assert_array_equal(part._ints, alone._ints)
        np.testing.assert_array_equal(part.tree.joints[0].axis, alone.tree.joints[0].axis)


@pytest.mark.parametrize("robot, root, tip", CHAINS + ACROSS)
def test_the_root_link_of_a_chain_is_held_still(robot, root, tip):
    """The same links on a floating base, which moves so that the root link of the chain rests."""
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), mimic="ignore")
    links = dyn_ros.Model.from_urdf(chain_urdf(robot, root, tip), "floating", mimic="ignore")
    for each in (model, links):
        each.set_payload("load", root, MASS, COM, INERTIA)
        each.set_payload("tool", tip, 2.0 * MASS, COM, INERTIA)
    part = model.chain(root, tip)
    assert set(part.joint_names) == set(links.joint_names) - {"root_joint"}
    assert part.payloads == ("load", "tool")
    rng = np.random.default_rng(7)
    values = {name: rng.uniform(-1.0, 1.0) for name in part.joint_names}
    q = np.array([values[name] for name in part.position_names])
    q_links = np.array([*ROOT, *(values[name] for name in links.position_names[7:])])
    data, data_links = dyn_ros.Data(part), dyn_ros.Data(links)

    oMf = dyn_ros.frame_placements(links, data_links, q_links).copy()
    world = oMf[links.frame_index(root)]
    found = dyn_ros.frame_placements(part, data, q)
    placed = {(frame.name, frame.kind): X for frame, X in zip(links.tree.frames, oMf)}
    for frame, X in zip(part.tree.frames, found):
        if frame.kind != "joint":  # a reversed joint moves the other link
            peer.close(world @ X, placed[frame.name, frame.kind], 1e-12, scale=1.0)

    J = dyn_ros.frame_jacobian(links, data_links, q_links, root, LOCAL)
    still = np.zeros((links.nv, part.nv))  # velocities of the links from those of the part
    for k, name in enumerate(part.velocity_names):
        still[links.velocity_names.index(name), k] = 1.0
    still[:6] = -np.linalg.solve(J[:, :6], J[:, 6:] @ still[6:])
    M = dyn_ros.crba(links, data_links, q_links)
    peer.close(dyn_ros.crba(part, data, q), still.T @ M @ still)
    part.gravity = [1.0, 2.0, -9.0]
    links.gravity = world[:3, :3] @ part.gravity
    g = dyn_ros.generalized_gravity(links, data_links, q_links)
    peer.close(
        dyn_ros.generalized_gravity(part, data, q), still.T @ g, scale=max(1e-3, np.abs(g).max())
    )


@pytest.mark.parametrize("robot, root, tip", ACROSS)
def test_a_reversed_chain_moves_back(robot, root, tip):
    """With the chain and its reverse: the placement of one end in the other is inverted."""
    model = dyn_ros.Model.from_urdf(peer.urdf(robot), mimic="ignore")
    there, back = model.chain(root, tip), model.chain(tip, root)
    assert set(there.joint_names) == set(back.joint_names)
    q = model.random_configuration(np.random.default_rng(1))
    ends = []
    for part, end in ((there, tip), (back, root)):
        own = [q[model.position_names.index(name)] for name in part.position_names]
        ends.append(dyn_ros.frame_placements(part, dyn_ros.Data(part), own)[part.frame_index(end)])
    peer.close(ends[0] @ ends[1], np.eye(4), 1e-12)
    for name in ("lower", "upper"):
        for part in (there, back):
            np.testing.assert_array_equal(
                getattr(part, name),
                [
                    getattr(model, name)[model.position_names.index(each)]
                    for each in part.position_names
                ],
            )


@pytest.mark.parametrize("name", ["planar2r", "lwr7", "prismatic3", "rand6"])
def test_the_chains_of_kdl_are_whole(name):
    model = dyn_ros.Model.from_urdf((KDL / f"{name}.urdf").read_text())
    last = [frame.name for frame in model.tree.frames if frame.kind == "body"][-1]
    part = model.chain(model.frame_names[0], last)
    peer.close(part._floats, model._floats, 1e-15)
    np.testing.assert_array_equal(part._ints, model._ints)


def test_settings_of_the_joints_in_a_chain_remain():
    state = peer.pair("tiago").state(3)
    model = changed(dyn_ros.Model.from_urdf(peer.urdf("tiago")), state)
    part = model.chain("head_2_link", "arm_7_link")
    assert part.joint_names == (
        "head_2_joint",
        "head_1_joint",
        *(f"arm_{n}_joint" for n in range(1, 8)),
    )
    np.testing.assert_array_equal(part.gravity, model.gravity)
    for name in (
        "lower",
        "upper",
        "velocity_limit",
        "effort_limit",
        "armature",
        "damping",
        "friction",
    ):
        assert [*getattr(part, name)] == [
            getattr(model, name)[model.velocity_names.index(each)] for each in part.joint_names
        ]
    part.gravity = [0.0, 0.0, 0.0]
    assert model.gravity.any()


def test_payloads_outside_a_chain_are_left_out():
    model = dyn_ros.Model.from_urdf(peer.urdf("tiago"))
    bare = model.chain("torso_lift_link", "arm_7_link").total_mass
    for frame in ("arm_3_joint", "arm_tool_link", "head_1_link", "torso_lift_link"):
        model.set_payload(frame, frame, MASS, COM, INERTIA)
    part = model.chain("torso_lift_link", "arm_7_link")
    assert part.payloads == ("arm_3_joint", "torso_lift_link")
    assert part.total_mass == pytest.approx(bare + MASS)


def test_a_payload_on_a_joint_stays_on_its_link_if_the_joint_is_reversed():
    """The name of a joint selects the link below it, in the whole robot."""
    model = dyn_ros.Model.from_urdf(peer.urdf("tiago"))
    bare = model.chain("arm_4_link", "torso_lift_link")
    model.set_payload("load", "arm_3_joint", MASS, COM, INERTIA)
    part = model.chain("arm_4_link", "torso_lift_link")
    own = [part.inertias[i].mass - bare.inertias[i].mass for i in range(part.njoints)]
    assert own == pytest.approx([MASS, 0.0, 0.0, 0.0])  # moved by arm_4_joint


def test_a_mimic_joint_follows_its_master_only_in_the_chain():
    model = dyn_ros.Model.from_urdf(peer.urdf("every_joint"))
    part = model.chain("base", "slider")
    rules = {joint.name: joint.mimic for joint in part.tree.joints}
    assert list(rules) == ["shoulder", "follower", "second_follower"]
    assert [rule.joint for rule in list(rules.values())[1:]] == [0, 0]
    assert rules["second_follower"].multiplier == -0.2

    alone = model.chain("upper_arm", "slider")
    theirs = model.tree.joints[model.joint_index("follower")]
    assert alone.velocity_names == ("follower", "second_follower")
    assert (alone.damping[0], alone.friction[0]) == (theirs.damping, theirs.friction)
    assert (alone.lower[0], alone.upper[0]) == (theirs.lower, theirs.upper)


def test_from_a_link_to_itself_is_a_stone():
    part = dyn_ros.Model.from_urdf(peer.urdf("panda")).chain("panda_link3", "panda_link3")
    assert (part.njoints, part.frame_names) == (0, ("panda_link3",))
    assert part.base_inertia.mass > 0.0


def test_joints_select_their_links():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    part = model.chain("panda_joint2", model.frame_index("panda_joint8"))
    assert (part.frame_names[0], part.frame_names[-1]) == ("panda_link2", "panda_link8")


def test_invalid_ends():
    model = dyn_ros.Model.from_urdf(peer.urdf("every_joint"))
    with pytest.raises(ValueError, match="no frame named 'nowhere'; available: "):
        model.chain("nowhere", model.frame_names[-1])
    with pytest.raises(ValueError, match="tip: expected a name or an index from 0 to .*got 1000"):
        model.chain(model.frame_names[0], 1000)


@pytest.mark.parametrize("kind", ["planar", "floating"])
def test_joints_that_cannot_be_reversed(kind):
    model = dyn_ros.Model.from_urdf(f"""<robot name="r"><link name="a"/><link name="b"/>
      <link name="c"/><joint name="j" type="{kind}"><parent link="a"/><child link="b"/></joint>
      <joint name="k" type="fixed"><parent link="b"/><child link="c"/></joint></robot>""")
    assert model.chain("a", "c").joint_names == ("j",)
    with pytest.raises(
        ValueError,
        match=f"root: the way from 'c' to the tip passes the {kind} "
        "joint 'j' from its child to its parent, which only "
        "revolute, continuous, prismatic joints support; use a "
        "root above it, such as 'a'",
    ):
        model.chain("c", "a")
