# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's table shows the content of the message."""

import io
import math
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from rich.console import Console

import dyn_ros
from dyn_ros.demo.run import ARM
from dyn_ros.demo.table import Flow, joint_table, make_view, message_rows


def message(names, position, gravity, nle, matrix, position_name=None, velocity_valid=True):
    inertia = SimpleNamespace(rows=len(names), cols=len(names), data=np.ravel(matrix))
    return SimpleNamespace(
        name=names,
        position_name=position_name or names,
        position=position,
        gravity=gravity,
        nle=nle,
        velocity_valid=velocity_valid,
        inertia=inertia,
    )


def printed(renderable):
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable)
    return console.file.getvalue()


def words_of(text, joint):
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [joint])


TWO = message(["a", "b"], [0.5, -1.25], [3.0, -20.0], [4.0, -0.001], [[1.5, 0.1], [0.1, 0.25]])


def test_rows_carry_the_message():
    first, second = message_rows(TWO, {"a": 10.0, "b": 40.0})
    assert (first.name, first.position, first.gravity, first.nle, first.inertia) == (
        "a",
        0.5,
        3.0,
        4.0,
        1.5,
    )
    assert (second.inertia, second.effort_limit) == (0.25, 40.0)
    assert first.load == pytest.approx(0.4)


@pytest.mark.parametrize("limits", [{}, {"a": 0.0}, {"a": math.inf}])
def test_no_load_without_an_effort_limit(limits):
    assert math.isnan(message_rows(TWO, limits)[0].load)
    assert "load" not in printed(joint_table(message_rows(TWO, limits)))


def test_unknown_velocity_leaves_nle_out():
    still = message(["a"], [0.5], [3.0], [math.nan], [[1.5]], velocity_valid=False)
    (row,) = message_rows(still, {"a": 10.0})
    assert math.isnan(row.nle)
    assert words_of(printed(joint_table([row])), "a") == ["a", "0.500", "3.00", "-", "1.5000", "-"]


def test_a_floating_base_has_no_single_position():
    names = ["root_joint/linear_x", "knee"]
    floating = message(
        names,
        [0.1, 0.2, 0.9],
        [0.0, 1.0],
        [0.0, 1.0],
        np.eye(2),
        position_name=["root_joint/x", "root_joint/y", "knee"],
    )
    base, knee = message_rows(floating, {})
    assert base.position is None
    assert knee.position == 0.9


def test_printed_numbers_are_those_of_the_engine():
    model = dyn_ros.Model.from_urdf_file(ARM)
    data = dyn_ros.Data(model)
    rng = np.random.default_rng(7)
    q, v = model.random_configuration(rng), rng.normal(size=model.nv)
    gravity = dyn_ros.generalized_gravity(model, data, q).copy()
    nle = dyn_ros.nonlinear_effects(model, data, q, v).copy()
    matrix = dyn_ros.crba(model, data, q).copy()
    names = list(model.joint_names)
    limits = dict(zip(names, model.effort_limit))
    text = printed(joint_table(message_rows(message(names, q, gravity, nle, matrix), limits)))
    for i, name in enumerate(names):
        words = words_of(text, name)
        assert float(words[1]) == pytest.approx(q[i], abs=0.5001e-3)
        assert float(words[2]) == pytest.approx(gravity[i], abs=0.5001e-2)
        assert float(words[3]) == pytest.approx(nle[i], abs=0.5001e-2)
        assert float(words[4]) == pytest.approx(matrix[i, i], abs=0.5001e-4)
        share = abs(nle[i]) / limits[name]
        assert float(words[-1].rstrip("%")) == pytest.approx(100 * share, abs=0.5001)


def test_heading_shows_the_units():
    rows = message_rows(TWO, {})
    assert "[rad]" in printed(joint_table(rows)) and "[kg m²]" in printed(joint_table(rows))
    sliding = printed(joint_table(rows, linear=True))
    assert "[rad | m]" in sliding and "[N m | N]" in sliding and "[kg m² | kg]" in sliding


def test_too_many_joints_for_the_screen():
    names = [f"joint{i}" for i in range(30)]
    long_message = message(names, np.zeros(30), np.zeros(30), np.zeros(30), np.eye(30))
    text = printed(joint_table(message_rows(long_message, {}), limit=10))
    assert "joint9" in text and "joint10" not in text
    assert "… and 20 more" in text


def test_a_narrow_terminal_shortens_names_not_numbers():
    name = "a_joint_with_quite_a_long_name"
    rows = message_rows(message([name], [-1.125], [-120.25], [-121.5], [[18.0]]), {name: 150.0})
    console = Console(file=io.StringIO(), width=72)
    console.print(joint_table(rows))
    text = console.file.getvalue()
    assert "a_joint" in text and name not in text and "…" in text
    assert all(number in text for number in ("-1.125", "-120.25", "-121.50", "18.0000", "81%"))


def test_no_minus_zero():
    rows = message_rows(message(["a"], [-1e-9], [-1e-9], [-0.0], [[1.0]]), {})
    assert "-0" not in printed(joint_table(rows))


def test_flow_counts_and_times():
    flow = Flow()
    for i in range(1001):  # 500 Hz from time 0 to 2, each 3 ms late
        flow.add(0.002 * i, 0.002 * i + 0.003)
    assert flow.messages == 1001
    assert flow.rate(2.003) == pytest.approx(500)
    assert flow.latency(2.003) == pytest.approx(0.003)
    assert flow.total_rate() == pytest.approx(500)
    assert flow.total_latency() == pytest.approx(0.003)


def test_flow_that_stops():
    flow = Flow()
    for i in range(10):
        flow.add(0.01 * i, 0.01 * i + 0.001)
    assert flow.rate(5.0) == 0.0
    assert math.isnan(flow.latency(5.0))
    assert flow.total_rate() == pytest.approx(100)


def test_flow_of_one_message():
    flow = Flow()
    flow.add(1.0, 1.25)
    assert (flow.rate(1.3), flow.total_rate()) == (0.0, 0.0)
    assert flow.latency(1.3) == 0.25


def test_view_says_how_the_messages_flow():
    flow = Flow()
    for i in range(101):
        flow.add(0.01 * i, 0.01 * i + 0.0012)
    text = printed(make_view("the arm", joint_table(message_rows(TWO, {})), flow, 1.005))
    assert "the arm" in text
    assert "100 Hz" in text and "1.20 ms" in text and "101 messages" in text


@pytest.mark.parametrize("path", [None, "/opt/ros/jazzy/bin/ros2"])
def test_view_advises_ros2_only_where_it_is_installed(path):
    with mock.patch("shutil.which", return_value=path):
        text = printed(make_view("the arm", joint_table(message_rows(TWO, {})), Flow(), 0.0))
    assert ("ros2 topic echo /dynamics/gravity" in text) == (path is not None)
    assert "Ctrl-C to quit" in text
