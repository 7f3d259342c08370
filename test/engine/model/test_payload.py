# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Payloads: equivalent to bodies in the URDF, removed exactly, rejected if invalid."""

import copy
import re

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

MASS, COM = 2.5, np.array([0.03, -0.02, 0.2])
INERTIA = np.array([[0.02, 0.003, -0.001], [0.003, 0.03, 0.002], [-0.001, 0.002, 0.025]])
BALL = 0.01 * np.eye(3)


def floats(model):
    return model._floats.copy()


def forward(model, q, v, tau):
    data = dyn_ros.Data(model)
    return (
        dyn_ros.crba(model, data, q),
        dyn_ros.nonlinear_effects(model, data, q, v),
        dyn_ros.aba(model, data, q, v, tau),
    )


def frames_of(model):
    """A few frames of every kind, on fixed and on moving links."""
    first = {}
    for index, frame in enumerate(model.tree.frames):
        first.setdefault((frame.kind, frame.parent < 0), index)
    return [*first.values(), len(model.frame_names) - 1]


@pytest.mark.parametrize("inertia", [INERTIA, None], ids=["body", "point mass"])
@peer.robots(("every_joint", "panda", "talos_reduced"))
def test_is_a_body_that_pinocchio_appends(robot, root_joint, inertia):
    pair = peer.new_pair(robot, root_joint)
    q, v, a, tau = pair.state(1)
    for number, index in enumerate(frames_of(pair.model)):
        com = COM + 0.1 * number
        arguments = () if inertia is None else (inertia,)
        pair.model.set_payload(f"load {number}", index, MASS, com, *arguments)
        frame = pair.pin.frames[index + 1]
        body = pinocchio.Inertia(MASS, com, np.zeros((3, 3)) if inertia is None else inertia)
        pair.pin.appendBodyToJoint(frame.parentJoint, body, frame.placement)
    pair.pin_data = pair.pin.createData()
    data = dyn_ros.Data(pair.model)
    peer.close(dyn_ros.rnea(pair.model, data, q, v, a), pair.rnea(q, v, a))
    peer.close(dyn_ros.crba(pair.model, data, q), pair.crba(q))
    peer.close(dyn_ros.aba(pair.model, data, q, v, tau), pair.aba(q, v, tau))
    peer.close(
        pair.model.total_mass, sum(inertia.mass for inertia in list(pair.pin.inertias)[1:]), 1e-14
    )


def test_is_a_link_written_into_the_urdf():
    """On the flange of the arm, and on its base, which is fixed in the world."""
    numbers = " ".join(
        f'{name}="{INERTIA[i, j]}"'
        for name, i, j in (
            ("ixx", 0, 0),
            ("ixy", 0, 1),
            ("ixz", 0, 2),
            ("iyy", 1, 1),
            ("iyz", 1, 2),
            ("izz", 2, 2),
        )
    )
    xml = peer.urdf("ur5")
    for parent in ("tool0", "base_link"):
        link = f"""<link name="load"><inertial><origin xyz="{COM[0]} {COM[1]} {COM[2]}"/>
          <mass value="{MASS}"/><inertia {numbers}/></inertial></link>
          <joint name="grip" type="fixed"><parent link="{parent}"/><child link="load"/></joint>"""
        written = dyn_ros.Model.from_urdf(xml.replace("</robot>", link + "</robot>"))
        model = dyn_ros.Model.from_urdf(xml)
        model.set_payload("load", parent, MASS, COM, INERTIA)
        q, v, tau = np.random.default_rng(2).uniform(-2.0, 2.0, (3, model.nv))
        for ours, theirs in zip(forward(model, q, v, tau), forward(written, q, v, tau)):
            peer.close(ours, theirs, 1e-13)
        peer.close(model.total_mass, written.total_mass, 1e-14)
        for ours, theirs in zip(
            (model.base_inertia.mass, model.base_inertia.com, model.base_inertia.rotational),
            (written.base_inertia.mass, written.base_inertia.com, written.base_inertia.rotational),
        ):
            peer.close(ours, theirs, 1e-13)
    assert model.base_inertia.mass > model.tree.base_inertia.mass


def test_counts_at_once_where_data_was_made_before():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    data = dyn_ros.Data(model)
    q = model.neutral()
    before = dyn_ros.generalized_gravity(model, data, q).copy()
    model.set_payload("load", "panda_hand", MASS, COM, INERTIA)
    after = dyn_ros.generalized_gravity(model, data, q).copy()
    # The weight of it, by virtual work: dg = -J' m g.
    finger = dict(zip(model.joint_names, after - before))
    assert abs(finger["panda_joint2"]) > 1.0
    batch = dyn_ros.generalized_gravity(model, data, np.tile(q, (9, 1)))
    peer.close(batch, np.tile(after, (9, 1)), 1e-13)


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")])
def test_taken_off_nothing_of_it_remains(order):
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    bare, mass, base = floats(model), model.total_mass, model.base_inertia
    places = {"a": "panda_hand", "b": "panda_link7", "c": "panda_link0"}
    for _ in range(20):
        for name, frame in places.items():
            model.set_payload(name, frame, MASS / 3.0, COM / 7.0, INERTIA)
        assert model.payloads == ("a", "b", "c")
        assert model.base_inertia.mass == base.mass + MASS / 3.0
        for name in order:
            model.clear_payload(name)
    np.testing.assert_array_equal(floats(model), bare)
    assert (model.total_mass, model.base_inertia, model.payloads) == (mass, base, ())


def test_several_are_told_apart():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    bare, mass = floats(model), model.total_mass
    model.set_payload("tool", "panda_hand", 1.0, COM, INERTIA)
    only_tool = floats(model)
    model.set_payload("part", "panda_hand", 2.0, -COM, BALL)
    model.set_payload("belt", "panda_link3", 4.0, COM, BALL)
    peer.close(model.total_mass, mass + 7.0, 1e-15)
    model.clear_payload("part")
    model.clear_payload("belt")
    np.testing.assert_array_equal(floats(model), only_tool)
    model.set_payload("belt", "panda_link3", 4.0, COM, BALL)
    model.clear_payload()
    np.testing.assert_array_equal(floats(model), bare)
    assert model.total_mass == mass
    model.clear_payload()


def test_the_same_name_replaces_also_on_another_link():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    model.set_payload("tool", "panda_link3", MASS, COM, INERTIA)
    model.set_payload("tool", "panda_hand", 1.0, COM, BALL)
    other = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    other.set_payload("tool", other.frame_index("panda_hand"), 1.0, COM, BALL)
    np.testing.assert_array_equal(floats(model), floats(other))
    assert model.payloads == ("tool",)


def test_on_the_fixed_base_it_moves_nothing():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    bare, mass = floats(model), model.total_mass
    model.set_payload("cabinet", "panda_link0", 30.0, COM, INERTIA)
    links = 10 * model.nframes  # the inertias of single links come last
    np.testing.assert_array_equal(floats(model)[:-links], bare[:-links])
    assert floats(model)[-links] == bare[-links] + 30.0
    np.testing.assert_array_equal(floats(model)[10 - links :], bare[10 - links :])
    assert model.total_mass == mass
    peer.close(model.base_inertia.mass, model.tree.base_inertia.mass + 30.0, 1e-15)


def test_a_copy_has_payloads_of_its_own():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    model.set_payload("tool", "panda_hand", 1.0, COM, BALL)
    other = copy.deepcopy(model)
    other.clear_payload()
    assert model.payloads == ("tool",) and other.payloads == ()
    assert model.total_mass > other.total_mass


GOOD = {"name": "tool", "frame": "panda_hand", "mass": 1.0, "com": COM, "inertia": INERTIA}


@pytest.mark.parametrize(
    "bad, why",
    [
        ({"name": ""}, "name: expected a non-empty string, got ''"),
        ({"name": 3}, "name: expected a non-empty string, got 3"),
        ({"frame": "nowhere"}, "no frame named 'nowhere'; available: panda_link0, "),
        ({"frame": "x" * 100000}, "no frame named 'xxxx"),
        ({"frame": 1000}, "got 1000"),
        ({"mass": 0.0}, "mass: expected more than 0 kg, got 0"),
        ({"mass": -1.0}, "mass: expected more than 0 kg, got -1"),
        ({"mass": np.nan}, "mass: expected a finite number, got nan"),
        ({"mass": "heavy"}, "mass: expected a finite number, got 'heavy'"),
        ({"mass": "3"}, "mass: expected a finite number, got '3'"),
        ({"mass": "\u0663"}, "mass: expected a finite number, got "),
        ({"mass": b"3"}, "mass: expected a finite number, got b'3'"),
        ({"com": ["0", "0", "0"]}, "com: expected 3 finite numbers, got ["),
        ({"com": [0.0, [1.0], 0.0]}, "com: expected 3 finite numbers, got ["),
        (
            {"com": np.ma.array([0.0, 0.0, 1.0], mask=[0, 0, 1])},
            "com: expected 3 finite numbers, got ",
        ),
        ({"com": 1j * np.ones(3)}, "com: expected 3 finite numbers, got "),
        ({"mass": 1e300, "com": [1e10] * 3}, "too large: 1e+300 kg"),
        ({"mass": 1.1e30}, "expected numbers of at most 1e+30, got 1.1e+30"),
        ({"com": [0.0, 0.0, -2e30]}, "expected numbers of at most 1e+30, got 2e+30"),
        ({"inertia": 3e30 * np.eye(3)}, "expected numbers of at most 1e+30, got 3e+30"),
        ({"inertia": 1e308 * np.eye(3)}, "expected numbers of at most 1e+30, got 1e+308"),
        ({"com": [0.0, 0.0]}, "com: expected 3 finite numbers, got shape (2,)"),
        ({"com": [0.0, np.inf, 0.0]}, "com: expected 3 finite numbers"),
        ({"inertia": np.full((3, 3), np.nan)}, "inertia: expected 3 x 3 finite numbers"),
        ({"inertia": [1.0, 1.0, 1.0]}, "inertia: expected 3 x 3 finite numbers, got shape (3,)"),
        ({"inertia": [[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]}, "inertia: expected a symmetric matrix"),
        ({"inertia": -BALL}, "not positive semidefinite: its smallest principal moment is -0.01"),
        ({"inertia": np.diag([0.0, 1e-3, 1e-3])}, "for a point mass, all of it is 0"),
        ({"inertia": np.diag([0.0, 1.0, 1.0])}, "not positive definite"),
        ({"inertia": np.diag([1.0, 1.0, 2.1])}, "triangle inequality"),
    ],
)
def test_what_no_body_is_is_refused_and_changes_nothing(bad, why):
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    model.set_payload("tool", "panda_link3", MASS, COM, INERTIA)
    was, mass = floats(model), model.total_mass
    with pytest.raises(ValueError, match=re.escape(why)) as told:
        model.set_payload(**{**GOOD, **bad})
    assert len(str(told.value)) < 3000
    np.testing.assert_array_equal(floats(model), was)
    assert (model.total_mass, model.payloads) == (mass, ("tool",))


def test_of_the_heaviest_payloads_nothing_overflows():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    for name in "abc":
        model.set_payload(name, "panda_hand", 1e30, [1e30, -1e30, 1.0], 1e30 * np.eye(3))
    q = model.random_configuration(np.random.default_rng(0))
    assert np.isfinite(dyn_ros.crba(model, dyn_ros.Data(model), q)).all()


def test_clearing_what_is_not_there_is_refused():
    model = dyn_ros.Model.from_urdf(peer.urdf("panda"))
    with pytest.raises(ValueError, match="no payload named 'tool'; available: none"):
        model.clear_payload("tool")
    model.set_payload("tool", "panda_hand", MASS, COM, INERTIA)
    with pytest.raises(ValueError, match="no payload named 'part'; available: tool"):
        model.clear_payload("part")
    assert model.payloads == ("tool",)
