# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The derivative services compared with the engine and differences of other services."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("dyn_ros.srv", reason="the services are not built: run `make test`")

from geometry_msgs.msg import WrenchStamped

import dyn_ros
from dyn_ros.msg import RobotState
from dyn_ros.srv import (
    GetAbaDerivatives,
    GetCentroidalDerivatives,
    GetRneaDerivatives,
)

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
Q = [0.3, -0.6, 0.9, -1.2, 1.5, 0.4, -0.2]
V = [0.5, 0.4, -0.3, 0.2, -0.1, 0.6, 0.7]
A = [1.0, -2.0, 0.5, 0.3, -0.7, 0.2, 0.1]
TYPES = {
    "get_rnea_derivatives": GetRneaDerivatives,
    "get_aba_derivatives": GetAbaDerivatives,
    "get_centroidal_derivatives": GetCentroidalDerivatives,
}
RNEA = ("dtau_dq", "dtau_dv", "dtau_da")
RNEA_SECOND = ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq")
ABA = ("ddq_dq", "ddq_dv", "ddq_dtau")
ABA_SECOND = ("d2ddq_dqdq", "d2ddq_dvdv", "d2ddq_dqdv", "d2ddq_dtaudq")
CENTROIDAL = ("dh_dq", "dhdot_dq", "dhdot_dv", "dhdot_da")


def close(actual, expected, tolerance=1e-12):
    expected = np.asarray(expected)
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance * np.abs(expected).max())


def numbers(message):
    """Return the numbers of a Matrix or a Tensor3."""
    shape = message.shape if hasattr(message, "shape") else (message.rows, message.cols)
    return np.reshape(message.data, tuple(shape))


@pytest.fixture(scope="module")
def dynamics(start):
    return start()


@pytest.fixture(scope="module")
def backwards(start, arm):
    """A node that publishes three joints in a custom order."""
    return start(joints="[wrist_roll, shoulder_yaw, elbow_pitch]")


@pytest.fixture(scope="module")
def centroidal(start):
    return start(module="dyn_ros.nodes.centroidal_node")


@pytest.fixture
def ask(client):
    def ask(node, name, expected=True, /, **fields):
        answer = client.call(TYPES[name], f"{node.name}/{name}", TYPES[name].Request(**fields))
        assert answer.success == expected, answer.message
        return answer

    return ask


def state(model, q=Q, v=V):
    return RobotState(name=list(model.joint_names), position=list(q), velocity=list(v))


def on_tool():
    wrench = WrenchStamped()
    wrench.header.frame_id = "tool"
    wrench.wrench.force.x, wrench.wrench.torque.y = 5.0, -2.0
    return wrench, {"tool": [5.0, 0.0, 0.0, 0.0, -2.0, 0.0]}


@pytest.mark.parametrize("second_order", [False, True])
def test_rnea_and_aba_derivatives(dynamics, ask, arm, second_order):
    data = dyn_ros.Data(arm)
    wrench, wrenches = on_tool()
    f_ext = arm.external_forces(wrenches)
    for name, field, first, second, functions in (
        (
            "get_rnea_derivatives",
            "acceleration",
            RNEA,
            RNEA_SECOND,
            (dyn_ros.rnea_derivatives, dyn_ros.rnea_second_order_derivatives),
        ),
        (
            "get_aba_derivatives",
            "effort",
            ABA,
            ABA_SECOND,
            (dyn_ros.aba_derivatives, dyn_ros.aba_second_order_derivatives),
        ),
    ):
        answer = ask(
            dynamics,
            name,
            state=state(arm),
            name=list(arm.velocity_names),
            **{field: A},
            wrenches=[wrench],
            second_order=second_order,
        )
        assert list(answer.name) == list(arm.velocity_names)
        for key, expected in zip(first, functions[0](arm, data, Q, V, A, f_ext)):
            close(numbers(getattr(answer, key)), expected)
        expected = functions[1](arm, data, Q, V, A, f_ext)
        for key, tensor in zip(second, expected):
            if second_order:
                close(numbers(getattr(answer, key)), tensor)
            else:
                assert not len(getattr(answer, key).data)


def test_rows_in_the_order_of_the_node(backwards, ask, arm):
    data, rows = dyn_ros.Data(arm), [6, 0, 3]
    a = np.zeros(7)
    a[rows] = [1.0, 2.0, 3.0]
    answer = ask(
        backwards,
        "get_rnea_derivatives",
        state=state(arm),
        second_order=True,
        name=["wrist_roll", "shoulder_yaw", "elbow_pitch"],
        acceleration=[1.0, 2.0, 3.0],
    )
    assert list(answer.name) == ["wrist_roll", "shoulder_yaw", "elbow_pitch"]
    for key, expected in zip(RNEA, dyn_ros.rnea_derivatives(arm, data, Q, V, a)):
        close(numbers(getattr(answer, key)), expected[np.ix_(rows, rows)])
    for key, expected in zip(
        RNEA_SECOND, dyn_ros.rnea_second_order_derivatives(arm, data, Q, V, a)
    ):
        close(numbers(getattr(answer, key)), expected[np.ix_(rows, rows, rows)])


def momentum(q, v, a):
    """The momentum of all links about their center of mass, and its rate.

    With a floating root joint at rest, the mass of the base link is included.
    """
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    data = dyn_ros.Data(model)
    full = [np.r_[0, 0, 0, 0, 0, 0, 1.0, q], np.r_[np.zeros(6), v], np.r_[np.zeros(6), a]]
    dh = dyn_ros.centroidal_momentum_time_derivative(model, data, *full)
    return np.array([data.hg, dh])


def test_centroidal_derivatives_count_the_fixed_base(centroidal, ask, arm):
    answer = ask(
        centroidal,
        "get_centroidal_derivatives",
        state=state(arm),
        name=list(arm.velocity_names),
        acceleration=A,
    )
    derivatives = {key: numbers(getattr(answer, key)) for key in CENTROIDAL}
    step = 1e-4
    inputs = [np.array(x) for x in (Q, V, A)]
    slopes = []
    for which in range(3):
        columns = []
        for direction in np.eye(7):
            at = {}
            for k in (-2, -1, 1, 2):
                moved = list(inputs)
                moved[which] = moved[which] + k * step * direction
                at[k] = momentum(*moved)
            columns.append((8.0 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12.0 * step))
        slopes.append(np.moveaxis(columns, 0, -1))
    (dh_dq, dhdot_dq), (dh_dv, dhdot_dv), (_, dhdot_da) = slopes
    for key, expected in (
        ("dh_dq", dh_dq),
        ("dhdot_dq", dhdot_dq),
        ("dhdot_dv", dhdot_dv),
        ("dhdot_da", dh_dv),
        ("dhdot_da", dhdot_da),
    ):
        close(derivatives[key], expected, 1e-9)


def test_rejections(dynamics, centroidal, ask, arm):
    for node, name, field in (
        (dynamics, "get_rnea_derivatives", "acceleration"),
        (dynamics, "get_aba_derivatives", "effort"),
        (centroidal, "get_centroidal_derivatives", "acceleration"),
    ):
        assert (
            "elbow_pitch"
            in ask(node, name, False, state=state(arm), name=["elbow"], **{field: [1.0]}).message
        )
        assert (
            "nan"
            in ask(
                node, name, False, state=state(arm), name=["elbow_pitch"], **{field: [float("nan")]}
            ).message
        )
        assert "unknown or stale position" in ask(node, name, False).message
        assert "too large" in ask(node, name, False, state=state(arm, v=[1e200] * 7)).message
        assert ask(node, name, state=state(arm)).success


def test_without_derivatives(client, start):
    node = start(derivatives="false")
    client.diagnostics(node, lambda status, values: values["lifecycle state"] == "active")
    names = {name for name, _ in client.node.get_service_names_and_types()}
    assert f"{node.name}/get_jacobian" in names
    assert f"{node.name}/get_rnea_derivatives" not in names
