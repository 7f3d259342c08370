# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""User input on the page, as events of the panel."""

import asyncio
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")
from viser import _messages

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.page.page import WIDE_WIDTH, DynRosWindow
from dyn_ros.viewer.page.panel import (
    DEG,
    MAX_LEFT_WIDTH,
    METER,
    OTHER_JOINTS,
    RAD,
    Panel,
    group_joints,
    mark_text,
    round_inward,
    show_waiting,
    slider_limits,
)
from dyn_ros.viewer.page.plots import recent_history
from dyn_ros.viewer.scene.legend import LEGEND


@pytest.fixture
def panel(server, monkeypatch):
    """The panel of the arm, with a connected user."""
    monkeypatch.setattr(server.gui, "_resolve_client", lambda client_id: "a person")
    return Panel(
        server, "arm7", read_urdf(ARM.read_text()).joints, ["tool"], 5.0, True, pushed_link="tool"
    )


@pytest.fixture
def slide(panel, server):
    """Do what a browser does; return when the server has processed it."""

    def slide(slot, value):
        message = _messages.GuiUpdateMessage(panel._sliders[slot]._impl.uuid, {"value": value})
        asyncio.run_coroutine_threadsafe(
            server.gui._handle_gui_updates(0, message), server.get_event_loop()
        ).result(10.0)

    return slide


def settle(server):
    """Wait until the server's thread has done what it was given."""
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0.0), server.get_event_loop()).result(10.0)


def test_a_slide_goes_where_the_person_moved_it_while_the_robot_moves(panel, slide, server):
    for number in range(200):
        panel.show_playing(True)
        wanted = round(0.001 * (number + 1), 3)
        panel.show_positions(np.full(7, -0.5 - 0.001 * number))
        slide(1, wanted)
        panel.show_positions(np.full(7, -0.6 - 0.001 * number))
        assert panel.events.get(timeout=10.0) == ("slide", 1, wanted)
        settle(server)
        assert panel.positions[1] == wanted  # the robot moves no slider any more


def test_sliders_follow_the_robot_until_a_person_moves_one(panel, slide, server):
    panel.show_positions(np.full(7, 0.25))
    settle(server)
    assert np.all(panel.positions == 0.25) and panel.events.empty()
    slide(0, 0.5)
    panel.show_positions(np.full(7, 0.35))
    settle(server)
    assert panel.positions.tolist() == [0.5] + 6 * [0.25]
    panel.show_playing(True)
    panel.show_positions(np.full(7, 0.35))
    settle(server)
    assert np.all(panel.positions == 0.35)


JOINT = read_urdf(ARM.read_text()).joints[1]


def act(server, panel, control, value):
    """Send the value of a control as a browser does, and wait."""
    message = _messages.GuiUpdateMessage(control._impl.uuid, {"value": value})
    asyncio.run_coroutine_threadsafe(
        server.gui._handle_gui_updates(0, message), server.get_event_loop()
    ).result(10.0)


def find(panel, label):
    """Return the control with a label."""
    return next(
        handle
        for handle in panel._gui._gui_input_handle_from_uuid.values()
        if getattr(handle, "label", "") == label
    )


def test_degrees(panel, slide, server):
    slide(1, 0.5)
    panel.events.get(timeout=10.0)
    act(server, panel, find(panel, "degrees"), True)
    slider = panel._sliders[1]
    assert (slider.min, slider.max, slider.value) == (-108.8, 108.8, 28.6)
    assert slider.hint == "shoulder_pitch: -108.9 to 108.9 deg"
    assert [mark.label for mark in slider._marks] == ["-109", "109"]
    assert panel.positions[1] == pytest.approx(0.5, abs=1e-3)
    slide(1, 45.0)
    action, slot, position = panel.events.get(timeout=10.0)
    assert (action, slot) == ("slide", 1) and position == pytest.approx(math.pi / 4, abs=1e-12)
    panel.show_playing(True)
    panel.show_positions(np.full(7, 0.1))
    settle(server)
    assert slider.value == 5.7
    act(server, panel, find(panel, "degrees"), False)
    assert panel._sliders[1].value == pytest.approx(0.1, abs=2e-3)  # it was 5.7 deg
    assert panel._sliders[1].hint == "shoulder_pitch: -1.900 to 1.900 rad"


def test_read_only_sliders_stay_so_in_other_units(panel, server):
    panel.enable(False)
    act(server, panel, find(panel, "degrees"), True)
    assert all(slider.disabled for slider in panel._sliders)


def test_prismatic_joints_have_meters(server):
    slides = [replace(JOINT, kind="prismatic", lower=-0.05, upper=0.4)]
    panel = Panel(server, "slide", slides, ["tool"], 5.0, True, pushed_link="tool")
    assert not find(panel, "degrees").visible
    assert panel._sliders[0].hint == "shoulder_pitch: -0.050 to 0.400 m"


@pytest.mark.parametrize(
    "lower, upper, unit, expected",
    [
        (-6.283185307, 6.283185307, RAD, (-6.283, 6.283)),
        (-2.8973, -0.0698, RAD, (-2.897, -0.07)),
        (-math.pi, math.pi, DEG, (-180.0, 180.0)),
        (0.0, 0.04, METER, (0.0, 0.04)),
        (0.00011, 0.00012, METER, (0.00011, 0.00012)),
        (-1.0, 2.0, RAD, (-1.0, 2.0)),
    ],
)
def test_limits_are_rounded_inward(lower, upper, unit, expected):
    assert round_inward((lower, upper), unit) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "lower, upper, expected",
    [
        (-math.inf, math.inf, (-math.pi, math.pi)),
        (-1.0, math.inf, (-1.0, math.pi)),
        (1.0, -1.0, (-1.0 - math.pi, 1.0 + math.pi)),
        (0.0, 0.0, (-math.pi, math.pi)),
    ],
)
def test_limits_that_are_none(lower, upper, expected):
    assert slider_limits(replace(JOINT, lower=lower, upper=upper)) == expected


@pytest.mark.parametrize(
    "value, unit, text",
    [
        (-6.283, RAD, "-6.28"),
        (2.0, RAD, "2"),
        (0.0, RAD, "0"),
        (1.5, RAD, "1.5"),
        (-0.0, RAD, "0"),
        (-180.0, DEG, "-180"),
        (0.4, DEG, "0"),
        (-0.4, DEG, "0"),
        (0.04, METER, "0.04"),
        (-0.004, METER, "0"),
    ],
)
def test_limits_below_a_slider(value, unit, text):
    assert mark_text(value, unit) == text


# Markers


def test_markers_are_in_groups(panel, server):
    entries = {entry.family: entry for entry in LEGEND}
    panel.show_families(
        {
            ("mine", "balls"): True,
            ("centroidal/markers", "com"): True,
            ("dynamics/markers", "inertia"): False,
            ("dynamics/markers", "torque"): True,
        }
    )
    boxes = panel._check_boxes
    assert {family: box.value for (_, family), box in boxes.items()} == {
        "balls": True,
        "com": True,
        "inertia": False,
        "torque": True,
    }
    assert boxes["centroidal/markers", "com"].label == "center of mass"
    for topic, family in boxes:
        group = panel._groups[entries[family].group if family in entries else topic]
        assert group.visible
        assert boxes[topic, family]._impl.parent_container_id == group._impl.uuid
    assert not panel._groups["Ground"].visible
    style = panel._legend_style.content
    for topic, family in boxes:
        assert f'label[for="{boxes[topic, family]._impl.uuid}"]' in style
    assert entries["torque"].color in style and entries["torque"].explanation in style
    assert "Markers of the topic mine." in style
    act(server, panel, boxes["dynamics/markers", "inertia"], True)
    assert panel.events.get(timeout=10.0) == ("see", "dynamics/markers", "inertia", True)


def test_one_family_of_two_nodes(panel):
    panel.show_families({("dynamics/markers", "wrench"): False})
    panel.show_families(
        {("dynamics/markers", "wrench"): False, ("vereshchagin/markers", "wrench"): False}
    )
    assert [box.label for box in panel._check_boxes.values()] == ["wrench", "wrench (vereshchagin)"]


def test_names_of_markers_do_not_end_the_style(panel):
    panel.show_families({("</style><img src=x>", "balls"): True})
    assert "<img" not in panel._legend_style.content
    assert panel._legend_style.content.count("</style>") == 1


# Windows


class Client:
    """A browser, as the server sees it."""

    client_id = 3

    def __init__(self):
        self.sent, self.widths = {}, []
        self.gui = SimpleNamespace(
            main_panel=SimpleNamespace(set_width=self.widths.append),
            _websock_interface=SimpleNamespace(
                queue_message=lambda message: self.sent.setdefault(message.uuid, {}).update(
                    message.updates
                )
            ),
        )


@pytest.mark.parametrize(
    "width, wide",
    [
        (600, False),
        (1000, False),
        (WIDE_WIDTH - 1, False),
        (WIDE_WIDTH, True),
        (1920, True),
    ],
)
def test_a_second_panel_where_there_is_room(panel, width, wide):
    client = Client()
    panel.arrange(client, DynRosWindow(width, 800, False))
    tabs = client.sent[panel._tabs._impl.uuid]["_tab_labels"]
    assert tabs == ("Move", "Touch", "Markers") if wide else ("Move", "Touch", "Torques", "Markers")
    assert client.sent[panel._right_panel._impl.uuid]["visible"] is wide
    panel.arrange(client, DynRosWindow(width, 800, False))  # its panels are there
    panel.arrange(client, DynRosWindow(width + 1, 800, False))
    # not set again: users may have changed it
    assert client.widths == 2 * [MAX_LEFT_WIDTH if width > 900 else 240]
    panel.arrange(client, DynRosWindow(700, 800, False))  # but there it is another one
    assert client.widths[2:] == [245]


@pytest.mark.parametrize(
    "widths, narrow, wide",
    [([], True, False), ([600], True, False), ([1920], False, True), ([600, 1920], True, True)],
)
def test_curves_are_sent_to_the_plots_that_a_window_has(
    panel, server, monkeypatch, widths, narrow, wide
):
    shown = set()
    for name in ("narrow", "wide"):
        monkeypatch.setattr(
            getattr(panel, f"_{name}_plots"), "show", lambda *shown_now, name=name: shown.add(name)
        )
    server.windows.update({i: DynRosWindow(width, 800, False) for i, width in enumerate(widths)})
    panel.show_history(recent_history(10.0, np.zeros(1), np.zeros((1, 4, 7))))
    assert shown == {name for name, used in (("narrow", narrow), ("wide", wide)) if used}


def test_waiting(server):
    show_waiting(server, "Start <one>.")
    text = [
        handle.content
        for handle in server.gui._container_handle_from_uuid["root"]._children.values()
    ]
    assert len(text) == 1 and "Waiting for a robot" in text[0] and "Start &lt;one&gt;." in text[0]


def test_a_typed_number_is_clamped_and_reported(panel, slide):
    slide(1, 90.0)
    assert panel.events.get(timeout=10.0) == ("exceed", 1, 90.0)
    upper = slider_limits(panel._joints[1])[1]
    assert panel.events.get(timeout=10.0) == ("slide", 1, upper)
    assert panel._sliders[1].value == upper


def test_layers_and_the_pose_are_requested(panel, server):
    for label, event in (
        ("link frames", ("layer", "link frames", True)),
        ("collision shapes", ("layer", "collision shapes", True)),
        ("transparent", ("transparent", True)),
    ):
        act(server, panel, find(panel, label), True)
        assert panel.events.get(timeout=10.0) == event
    act(server, panel, panel._reset, True)
    assert panel.events.get(timeout=10.0) == ("reset",)
    panel.enable(False)
    assert panel._reset.disabled


HUMANOID = [
    *(f"leg_{side}_{k}_joint" for side in ("left", "right") for k in range(1, 7)),
    "torso_1_joint",
    "torso_2_joint",
    "head_joint",
    "FL_HAA",
    "FL_KFE",
]


def test_many_joints_are_grouped_by_their_names():
    assert group_joints(HUMANOID[:3]) == [(None, [0, 1, 2])]
    assert group_joints(HUMANOID) == [
        ("leg_left", [0, 1, 2, 3, 4, 5]),
        ("leg_right", [6, 7, 8, 9, 10, 11]),
        ("torso", [12, 13]),
        ("FL", [15, 16]),
        (OTHER_JOINTS, [14]),
    ]


def test_joints_are_found_by_a_part_of_their_names(server, monkeypatch):
    monkeypatch.setattr(server.gui, "_resolve_client", lambda client_id: "a person")
    joints = [replace(JOINT, name=name) for name in HUMANOID]
    panel = Panel(server, "humanoid", joints, ["tool"], 5.0, True)
    assert panel._filter.visible
    act(server, panel, panel._filter, "Left_2")
    found = [joint.name for joint, slider in zip(joints, panel._sliders) if slider.visible]
    assert found == ["leg_left_2_joint"]
    assert [folder.visible for folder, _ in panel._group_folders] == [True] + 4 * [False]
    act(server, panel, find(panel, "degrees"), True)
    assert sum(slider.visible for slider in panel._sliders) == 1
    act(server, panel, panel._filter, "")
    assert all(slider.visible for slider in panel._sliders)


def test_details_of_a_problem_are_folded(panel):
    panel.show_status("ready", ["2 shapes are not shown\nlink <a>\nlink b", "short"])
    html = panel._status.content
    assert "<summary>2 shapes are not shown</summary>" in html
    assert html.index("link &lt;a&gt;") < html.index("</details>") < html.index("short")


def test_a_button_releases_what_is_held(panel):
    assert not panel._let_go.visible
    panel.show_force(np.array([1.0, 0.0, 0.0]), True)
    assert panel._let_go.visible
    panel.show_force(None)
    assert not panel._let_go.visible
