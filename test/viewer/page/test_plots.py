# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plots: ranges without spikes, round ticks, labels that do not overlap, gaps."""

import math
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.page import plots
from dyn_ros.viewer.page.plots import (
    CURVES,
    History,
    Plots,
    Progress,
    find_range,
    find_scale,
    is_suitable,
    recent_history,
)

SECONDS = np.linspace(-10.0, 0.0, 100)


def curves(*columns):
    return np.array(np.broadcast_arrays(*columns), float).T


@pytest.mark.parametrize("size", [10.0**power for power in range(-6, 6)])
@pytest.mark.parametrize("offset", [0.0, 0.3, -5.0, 30.0])
def test_ticks_are_distinct_round_and_short(size, offset):
    lower, upper = find_range(curves(size * (offset + np.sin(SECONDS))))
    scale = find_scale(lower, upper)
    texts = scale.tick_labels()
    assert 3 <= len(texts) <= 4 and len(set(texts)) == len(texts)
    assert max(map(len, texts)) <= 6
    np.testing.assert_allclose([float(text) for text in texts], scale.ticks, rtol=1e-12)
    np.testing.assert_allclose(np.diff(scale.ticks), scale.ticks[1] - scale.ticks[0], rtol=1e-9)
    first, last = np.array(scale.range) / scale.factor
    assert first <= lower + 1e-9 * size and upper - 1e-9 * size <= last
    assert last - first <= 5.0 * (upper - lower) and is_suitable(scale, lower, upper)


@pytest.mark.parametrize(
    "largest, prefix",
    [(1e5, "k"), (2e4, "k"), (5e3, ""), (1.0, ""), (0.05, ""), (0.005, "m"), (1e-6, "\u00b5")],
)
def test_the_unit_has_a_prefix(largest, prefix):
    assert find_scale(0.0, largest).prefix == prefix


def test_numbers():
    scale = find_scale(-0.01, 0.01)
    assert scale.format_value(0.0012345) == "1.23" and scale.format_value(-1e-9) == "0.00"
    assert find_scale(-100.0, 100.0).format_value(-12.345) == "-12.35"


@pytest.mark.parametrize("spike", [1e2, -1e4, 1e9])
@pytest.mark.parametrize("length", [1, 4])
def test_a_spike_does_not_flatten_the_rest(spike, length):
    values = np.sin(SECONDS)
    values[40 : 40 + length] = spike
    lower, upper = find_range(curves(values, 0.5 * np.cos(SECONDS)))
    assert -1.1 < lower < -0.9 and 0.9 < upper < 1.1


def test_a_change_that_lasts_is_shown():
    values = np.where(SECONDS < -2.0, 0.1 * np.sin(SECONDS), 50.0)
    assert find_range(curves(values))[1] == 50.0


def test_curves_far_from_each_other_are_all_shown():
    lower, upper = find_range(curves(0.1 * np.sin(SECONDS), 0.0 * SECONDS + 80.0))
    assert lower < 0.0 and upper == 80.0


@pytest.mark.parametrize("value", [0.0, 1e-15, 5.0, -1e5, 1e-6])
def test_a_constant(value):
    lower, upper = find_range(curves(0.0 * SECONDS + value))
    assert lower < value < upper or (abs(value) < 1e-9 and (lower, upper) == (-1.0, 1.0))
    assert len(set(find_scale(lower, upper).tick_labels())) >= 3


def test_noise_of_a_constant_is_not_magnified():
    lower, upper = find_range(curves(100.0 + 1e-3 * np.sin(SECONDS)))
    assert upper - lower == pytest.approx(5.0, rel=1e-2)


def test_unknown_values():
    nothing = np.full((100, 2), math.nan)
    assert find_range(nothing) == (-1.0, 1.0)
    nothing[3:50, 1] = np.linspace(2.0, 4.0, 47)
    nothing[60, 1] = math.inf
    assert find_range(nothing) == (2.0, 4.0)


def test_an_axis_stays_while_it_fits():
    scale = find_scale(-1.0, 1.0)
    assert is_suitable(scale, -0.9, 0.7) and is_suitable(scale, -0.4, 0.4)
    assert not is_suitable(scale, -1.1, 1.0) and not is_suitable(scale, -0.1, 0.1)


def test_noise_far_below_a_limit_does_not_fill_a_plot():
    lower, upper = find_range(curves(1e-5 * np.sin(SECONDS)), 0.2)
    assert upper - lower == pytest.approx(0.2)
    assert find_scale(lower, upper).prefix == ""
    assert find_range(curves(np.sin(SECONDS)), 0.2) == find_range(curves(np.sin(SECONDS)))


def contrast(color, ground):
    """The contrast ratio of WCAG."""

    def luminance(text):
        parts = np.array([int(text[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    lights = sorted((luminance(color), luminance(ground)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


@pytest.mark.parametrize("name", CURVES)
def test_colors_can_be_seen_on_light_and_dark_panels(name):
    """At least 3, as WCAG demands for graphics."""
    assert contrast(CURVES[name].color, "#ffffff") >= 3.0
    assert contrast(CURVES[name].color, "#242424") >= 3.0
    assert len(CURVES[name].explanation) > 20


@pytest.fixture
def sent(server, monkeypatch):
    """The messages that are sent, as they are."""
    messages = []
    interface = server.gui._websock_interface
    queue = interface.queue_message
    monkeypatch.setattr(
        interface, "queue_message", lambda message: (messages.append(message), queue(message))
    )
    return messages


def updates(sent, name):
    return [message.updates[name] for message in sent if name in getattr(message, "updates", {})]


@pytest.fixture
def arm(server):
    joints = read_urdf(ARM.read_text()).joints
    return Plots(server.gui, joints, ("gravity", "effort"), 10.0)


def samples(value=0.0):
    waves = 0.9 * np.stack([np.sin(SECONDS), np.cos(SECONDS)], axis=1)
    return np.tile(waves[:, :, None] + value, (1, 1, 7))


def show(shown, values, *progress):
    shown.show(recent_history(10.0, SECONDS, values), *progress)


def test_gaps_are_null(arm, sent):
    values = samples()
    values[20:30, 1, 0] = math.nan
    show(arm, values)
    times, gravity, effort, *limits = updates(sent, "data")[0]
    np.testing.assert_array_equal(times, SECONDS)
    np.testing.assert_array_equal(gravity, values[:, 0, 0])
    assert effort[20:30] == [None] * 10 and effort[30:] == values[30:, 1, 0].tolist()
    limit = arm._joints[0].effort
    for sign, line in zip((-1.0, 1.0), limits, strict=True):
        np.testing.assert_array_equal(line, np.full(len(SECONDS), sign * limit))
    sent[0].as_serializable_dict([])


def test_labels_and_unit(arm):
    values = samples()
    values[-1, :, 0] = 0.5, math.nan
    show(arm, values)
    text = arm._plots[0]._text.content
    assert 'data-joint="shoulder_yaw"' in text and ">N m<" in text and ">limit 110<" in text
    assert '<span class="gravity">0.50</span>' in text and 'class="effort"' not in text
    assert "peak" not in text
    values[:, :, 0] -= values[:, :, 0].max() - 1e-14  # the axis ends at 0
    show(arm, values)
    assert "peak" not in arm._plots[0]._text.content
    values = samples()
    values[50, 0, 0] = 500.0
    show(arm, values)
    assert "peak 500" in arm._plots[0]._text.content


def test_an_axis_is_sent_when_it_changes(arm, sent):
    show(arm, samples())
    sent.clear()
    show(arm, samples(0.01))
    assert updates(sent, "axes") == [] and len(updates(sent, "data")) == 7
    show(arm, samples(100.0))
    assert len(updates(sent, "axes")) == len(updates(sent, "scales")) == 7
    lower, upper = updates(sent, "scales")[0]["y"]["range"]
    assert 95.0 <= lower < 99.0 and 101.0 < upper <= 105.0


def test_a_whole_recording_is_sent_once_and_its_cursor_moves(arm, sent):
    times = np.linspace(0.0, 60.0, 100)
    values, present = samples(), np.full((2, 7), 3.25)
    first = History("all 60 s", (0.0, 60.0), times, values, present, 15.0)
    arm.show(first)
    assert [update["x"]["range"] for update in updates(sent, "scales")] == [(0.0, 60.0)] * 7
    assert len(updates(sent, "data")) == 7 and "all 60 s" in arm._legend.content
    text = arm._plots[0]._text.content
    assert 'class="dyn-cursor"' in text and "* 0.2500)" in text
    assert '<span class="gravity">3.25</span>' in text
    sent.clear()
    arm.show(first._replace(cursor=30.0))
    assert "* 0.5000)" in arm._plots[0]._text.content and updates(sent, "data") == []
    show(arm, values.copy())
    assert "dyn-cursor" not in arm._plots[0]._text.content
    assert [update["x"]["range"] for update in updates(sent, "scales")] == [(-10.0, 0.0)] * 7


def test_empty_plots_say_why(arm):
    """While torques are compiled, with how far it is; also while some are known already."""
    unknown = np.full((100, 2, 7), np.nan)
    show(arm, unknown)
    assert arm._note.visible and plots.NO_TORQUES in arm._note.content
    show(arm, unknown, Progress("compiling <it>: 3 of 4", 0.75))
    note = arm._note.content
    assert "compiling &lt;it&gt;: 3 of 4" in note and 'value="0.750"' in note
    show(arm, np.zeros((100, 2, 7)), Progress("compiling", 0.9))
    assert 'value="0.900"' in arm._note.content
    show(arm, np.zeros((100, 2, 7)))
    assert not arm._note.visible


def test_no_joints(server):
    empty = Plots(server.gui, [], plots.LIVE_CURVES, 10.0)
    show(empty, np.zeros((100, 4, 0)))
    assert "no joints" in empty._legend.content


def test_names_are_escaped(server):
    joint = replace(read_urdf(ARM.read_text()).joints[0], name="<b>&'\"")
    arm = Plots(server.gui, [joint], ("gravity",), 10.0)
    show(arm, samples()[:, :1, :1])
    text = arm._plots[0]._text.content
    assert "&lt;b&gt;&amp;&#x27;&quot;" in text and "<b>&" not in text
