# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts at the limits: rows of rounding errors, none at all, tiny damping, bad arguments."""

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros import SE3, Contact, ReferenceFrame

PENDULUM = """<robot name="pendulum"><link name="base"/><link name="body"><inertial>
<origin xyz="0.1 0.2 0.1"/><mass value="1"/><inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0"
iyz="0"/></inertial></link><joint name="j" type="revolute"><parent link="base"/><child link="body"/>
<origin xyz="0.3 0.1 0.7" rpy="0.3 0.2 0.5"/><axis xyz="0.6 0.7 0.2"/>
<limit lower="-3" upper="3" effort="1" velocity="1"/></joint></robot>"""


@pytest.mark.parametrize("distance", [0.1, 1 / 3, 1.0, 7.0])
def test_a_point_on_the_axis_of_a_joint_holds_nothing(distance):
    """Its row consists of rounding errors, which have a direction but no meaning."""
    model = dyn_ros.Model.from_urdf(PENDULUM)
    data = dyn_ros.Data(model)
    point = SE3(np.eye(3), distance * model.tree.joints[0].axis)
    on_axis = [Contact("body", 3, ReferenceFrame.LOCAL_WORLD_ALIGNED, placement=point)]
    free = dyn_ros.aba(model, data, [0.3], [0.0], [1.0]).copy()
    ddq, forces = dyn_ros.contact_dynamics(model, data, [0.3], [0.0], [1.0], on_axis)
    peer.close(ddq, free, 1e-12)
    assert forces.rank == 0 and not forces.lambda_c.any()
    batch, _ = dyn_ros.contact_dynamics(model, data, [[0.3]] * 9, [0.0], [1.0], on_axis)
    peer.close(batch[3], free, 1e-12)
    v_after, _ = dyn_ros.impulse_dynamics(model, data, [0.3], [1.0], on_axis)
    assert v_after == pytest.approx(1.0, abs=1e-12)
    derivative = dyn_ros.contact_dynamics_derivatives(model, data, [0.3], [0.0], [1.0], on_axis)
    expected, _, _ = dyn_ros.aba_derivatives(model, dyn_ros.Data(model), [0.3], [0.0], [1.0])
    peer.close(derivative.ddq_dq, expected, 1e-12)
    assert dyn_ros.contact_forces(model, data, [0.3], [0.0], [0.0], [1.0], on_axis).rank == 0


@pytest.mark.parametrize("inertia", [1e-6, 1e-9, 1e-11, 1e-12])
def test_a_tiny_link_does_not_hide_the_contact_of_a_heavy_one(inertia):
    """The rows differ by 11 orders of magnitude, which makes none of them dependent."""
    link = """<link name="{}"><inertial><mass value="{}"/><inertia ixx="{}" iyy="{}" izz="{}"
        ixy="0" ixz="0" iyz="0"/></inertial></link>"""
    model = dyn_ros.Model.from_urdf(
        f"""<robot name="r">{link.format("base", 50, 1, 1, 1)}
        {link.format("tiny", 0.001, inertia, inertia, inertia)}
        <joint name="j" type="revolute"><parent link="base"/><child link="tiny"/>
        <origin xyz="0.3 0.1 0.2"/><axis xyz="0 0 1"/>
        <limit lower="-3" upper="3" effort="1" velocity="1"/></joint></robot>""",
        "floating",
    )
    data, zero = dyn_ros.Data(model), np.zeros(model.nv)
    both = [Contact("base"), Contact("tiny", 3, placement=SE3(np.eye(3), [0.1, 0.0, 0.0]))]
    ddq, forces = dyn_ros.contact_dynamics(model, data, model.neutral(), zero, zero, both)
    assert (
        forces.rank
        == np.linalg.matrix_rank(dyn_ros.contact_jacobian(model, data, model.neutral(), both))
        == 7
    )
    assert np.abs(ddq[:6]).max() < 1e-3
    carried = forces["base"][2] + forces["tiny"][2]
    assert carried == pytest.approx(9.81 * model.total_mass, rel=1e-3)


@pytest.mark.parametrize("dimension", [3, 6])
def test_contacts_between_links_do_not_carry_the_base(dimension):
    pair = peer.pair("solo12", "floating")
    between = [Contact("FL_FOOT", dimension, other="HR_FOOT")]
    for seed in range(20):
        q, v, a, _ = pair.state(seed)
        tau, forces = dyn_ros.contact_inverse_dynamics(pair.model, pair.data, q, v, a, between)
        expected = dyn_ros.rnea(pair.model, dyn_ros.Data(pair.model), q, v, a)
        assert forces.rank == 0 if dimension == 6 else forces.rank <= 2
        assert np.abs(forces.lambda_c).max() < 1e5
        if dimension == 6:
            peer.close(tau, expected, 1e-12)


def test_derivatives_without_contacts():
    pair = peer.pair("solo12", "floating")
    q, v, _, tau = pair.state(0)
    found = dyn_ros.contact_dynamics_derivatives(
        pair.model, dyn_ros.Data(pair.model), q, v, tau, []
    )
    expected = dyn_ros.aba_derivatives(pair.model, dyn_ros.Data(pair.model), q, v, tau)
    for x, y in zip(found, expected):
        peer.close(x, y, 1e-10)
    assert found.dlambda_dq.shape == (0, pair.model.nv)
    dv_dq, dv_dv, *_ = dyn_ros.impulse_dynamics_derivatives(
        pair.model, dyn_ros.Data(pair.model), q, v, []
    )
    assert not dv_dq.any()
    assert np.array_equal(dv_dv, np.eye(pair.model.nv))


@pytest.mark.parametrize("damping", [1e-300, 1e-16, 1e-14, 1e-12])
@pytest.mark.parametrize("residual", [None, 1e-9])
def test_damping_below_rounding_errors(damping, residual):
    pair = peer.pair("solo12", "floating")
    q, v, _, tau = pair.state(0)
    feet = [Contact(f"{leg}_FOOT") for leg in ("FL", "FR", "HL", "HR")]
    many = [*feet, Contact("FL_FOOT", name="b"), Contact("FL_FOOT", 6, kp=50.0, name="c")]
    ddq, forces = dyn_ros.contact_dynamics(
        pair.model, pair.data, q, v, tau, many, damping=damping, residual=residual
    )
    assert np.isfinite(ddq).all() and np.isfinite(forces.lambda_c).all()
    assert forces.residual > 1e-9


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"frame": True}, "frame: expected the name or the index"),
        ({"frame": None}, "frame: expected the name or the index"),
        ({"frame": "a", "other": 1.5}, "other: expected the name or the index"),
        ({"frame": "a", "dimension": np.array([3, 6])}, "dimension: expected 6 or 3"),
        ({"frame": "a", "name": ""}, "name: expected a name"),
        ({"frame": "a", "kp": -1.0}, "kp: expected a number of 0 or more, got -1"),
        ({"frame": "a", "kd": np.nan}, "kd: expected a finite number"),
        ({"frame": "a", "placement": np.ones((4, 4))}, "placement: expected a 4 x 4"),
        ({"frame": "a", "reference_frame": 3}, "reference_frame: expected"),
    ],
)
def test_arguments_of_a_contact(arguments, message):
    with pytest.raises(ValueError, match=message):
        Contact(**arguments)


def test_a_contact_does_not_change():
    contact = Contact("FL_FOOT")
    with pytest.raises(AttributeError, match="cannot be changed"):
        contact.kp = 1.0
    with pytest.raises(TypeError, match="already initialized"):
        contact.__init__("FR_FOOT")


def test_a_call_with_the_same_objects_reads_what_has_changed_in_them():
    pair = peer.pair("solo12", "floating")
    data, q = dyn_ros.Data(pair.model), pair.state(0)[0]
    feet, damping = [Contact("FL_FOOT", 3), Contact("FR_FOOT", 3)], np.array(0.5)
    before = dyn_ros.delassus_matrix(pair.model, data, q, feet, damping).copy()
    damping[...] = 1.5
    after = dyn_ros.delassus_matrix(pair.model, data, q, feet, damping).copy()
    peer.close(after, before + np.eye(6), 1e-12)
    for _ in range(2):
        dyn_ros.delassus_matrix(pair.model, data, q, feet, 1.5)
    feet[1] = Contact("HL_FOOT", 3)
    found = dyn_ros.delassus_matrix(pair.model, data, q, feet, 1.5).copy()
    expected = dyn_ros.delassus_matrix(pair.model, dyn_ros.Data(pair.model), q, feet, 1.5)
    assert np.array_equal(found, expected) and not np.allclose(found, after)


def test_errors_name_the_argument():
    pair = peer.pair("solo12", "floating")
    given = pair.model, pair.data, *pair.state(0)[:3]
    foot = [Contact("FL_FOOT", 3)]
    with pytest.raises(ValueError, match=r"weights: expected shape \(3,\)"):
        dyn_ros.contact_inverse_dynamics(*given, foot, weights=np.ones(2))
    with pytest.raises(ValueError, match=r"weights: expected shape \(18,\)"):
        dyn_ros.contact_forces(*given, np.zeros(18), foot, weights=np.ones(5))
    with pytest.raises(ValueError, match="weights: expected positive numbers, got 0"):
        dyn_ros.contact_inverse_dynamics(*given, foot, weights=np.zeros(3))
    with pytest.raises(ValueError, match="max_iterations: expected a whole number from 1"):
        dyn_ros.contact_dynamics(*given, foot, damping=1e-3, residual=1e-6, max_iterations=10**30)
    with pytest.raises(ValueError, match="other of contact 'FL_FOOT': no frame named"):
        dyn_ros.contact_dynamics(*given, [Contact("FL_FOOT", 3, other="nope")])


def test_forces_are_equal_to_themselves_alone():
    pair = peer.pair("solo12", "floating")
    q, v, _, tau = pair.state(0)
    _, forces = dyn_ros.contact_dynamics(pair.model, pair.data, q, v, tau, [Contact("FL_FOOT", 3)])
    assert forces == forces and forces != dict(forces)
    with pytest.raises(KeyError, match="no contact named"):
        forces[:2]
