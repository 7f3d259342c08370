# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""`dyn_ros view` in a real browser: a slider, a pull and its torques, and the time bar."""

import itertools
import math
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from dyn_ros.demo.run import ADDRESS, ARM

pytest.importorskip("viser", reason="no viser: pip install viser")
pytest.importorskip("mcap", reason="no mcap: run `make test`")
pytest.importorskip("rosbags", reason="no rosbags: run `make test`")

from logs.recorded import synthetic_mcap

import dyn_ros

from .chromium import TIMEOUT
from .person import PANEL_POINT, Person

START = 120.0  # s; the first start on a machine compiles


@contextmanager
def view(browser, folder, *arguments):
    """Run the command; yield its page."""
    output = folder / "output"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dyn_ros",
            "view",
            "--no-browser",
            "--port",
            "0",
            *map(str, arguments),
        ],
        stdin=subprocess.DEVNULL,
        stdout=output.open("w"),
        stderr=subprocess.STDOUT,
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
    )
    try:
        address = until(lambda: ADDRESS.search(output.read_text()), output.read_text)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(TIMEOUT)
        page.goto(address.group())
        page.get_by_role("slider").first.wait_for()
        yield page
        page.close()
    finally:
        process.terminate()
        assert process.wait(60) == 0


@pytest.fixture(scope="module")
def arm(browser, tmp_path_factory):
    """The page of the arm, whose engine is compiled."""
    with view(browser, tmp_path_factory.mktemp("arm")) as page:
        page.locator("[data-joint=wrist_roll] .gravity").first.wait_for(timeout=1e3 * START)
        yield page


def until(ready, state):
    end = time.monotonic() + START
    while not (result := ready()):
        assert time.monotonic() < end, state()
        time.sleep(0.1)
    return result


def torque(page, joint, curve):
    return float(page.locator(f"[data-joint={joint}] .{curve}").first.inner_text())


def test_the_time_bar_of_a_recording(browser, tmp_path):
    model = dyn_ros.Model.from_urdf_file(ARM)
    path = synthetic_mcap(tmp_path / "arm.mcap", model, 6000, 200.0, description=ARM.read_text())
    with view(browser, tmp_path, path) as page:
        play_and_seek(page)


def play_and_seek(page):
    def shown():
        return float(re.search(r"[\d.]+", page.locator(".time").inner_text()).group())

    page.locator("[data-joint=wrist_roll] .external").first.wait_for()
    before = shown()
    until(lambda: shown() > before, shown)  # it plays
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Play").wait_for()
    bar = page.get_by_role("slider").first
    bar.focus()
    bar.press("End")
    until(lambda: shown() > 29.9, shown)
    page.get_by_text("end of the recording").wait_for()
    bar.press("Home")
    until(lambda: shown() == 0.0, shown)
    page.get_by_role("button", name="Play").click()
    until(lambda: shown() > 0.5, shown)


def test_a_click_in_a_plot_of_the_whole_recording_goes_there(browser, tmp_path):
    model = dyn_ros.Model.from_urdf_file(ARM)
    path = synthetic_mcap(tmp_path / "arm.mcap", model, 6000, 200.0, description=ARM.read_text())
    with view(browser, tmp_path, path) as page:
        page.get_by_role("button", name="Pause").click()
        page.get_by_label("plot all").click()
        page.get_by_text("all 30 s, click a plot to go there").first.wait_for()
        for area, fraction in ((".u-over", 0.75), (".dyn-strip", 0.25)):
            box = page.locator(f"{area}:visible").first.bounding_box()
            page.mouse.click(box["x"] + fraction * box["width"], box["y"] + 0.5 * box["height"])
            until(
                lambda expected=30.0 * fraction: (
                    abs(float(page.locator(".time").inner_text().split()[0]) - expected) < 0.3
                ),
                page.locator(".time").inner_text,
            )
        cursor, plot = (
            page.locator(f"{name}:visible").first.bounding_box()
            for name in (".dyn-cursor", ".u-over")
        )
        x = cursor["x"] + 0.5 * cursor["width"]
        assert x == pytest.approx(plot["x"] + 0.25 * plot["width"], abs=3.0)
        assert cursor["height"] == pytest.approx(plot["height"] + 14.0, abs=14.0)


def test_a_click_at_a_link_selects_it(browser, tmp_path):
    with view(browser, tmp_path) as page:
        canvas = page.locator("canvas[data-engine]").bounding_box()
        selection = page.locator(".selection")
        for row, column in itertools.product(
            np.arange(0.95, 0.4, -0.03), (0.5, 0.55, 0.6, 0.45, 0.4)
        ):
            if not selection.is_visible():  # the lowest link is the base
                x = canvas["x"] + column * canvas["width"]
                y = canvas["y"] + row * canvas["height"]
                page.mouse.click(x, y)
                time.sleep(0.1)
        selection.wait_for()
        link, _, motion = selection.inner_text().partition(": ")
        assert (link, motion) == ("base_link", "the root link")
        page.get_by_role("tab", name="Touch").click()
        assert page.get_by_label("push at").input_value() == "base_link"


def test_a_person_pulls_the_moving_arm_and_reads_a_torque(arm, tmp_path):
    """With what is to be seen on the page, and a mouse."""
    person = Person(arm, tmp_path / "pictures")
    arm.reload()
    first = person.find("opened")
    assert arm.locator("#dyn-pull").inner_text() == "pull me"
    until(lambda: math.dist(first, person.find("moving")) > 20.0, lambda: "the arm stays")
    assert largest_push(arm) == 0.0
    person.reach()
    person.pull()
    until(lambda: arm.locator("#dyn-pull").inner_text().endswith(" N"), lambda: "no force")
    until(lambda: largest_push(arm) > 0.0, lambda: "no torque")
    person.find("pulled")
    assert 5.0 < float(arm.locator("#dyn-pull").inner_text().removesuffix(" N")) < 150.0
    assert 1.0 < largest_push(arm) < 100.0
    person.let_go()
    person.move(PANEL_POINT)
    until(lambda: largest_push(arm) == 0.0, lambda: "the torque stays")
    released = person.find("released")
    until(lambda: math.dist(released, person.find("moves_again")) > 20.0, lambda: "the arm stays")


def largest_push(page):
    return max(abs(float(text)) for text in page.locator(".dyn-joint .push").all_inner_texts())


def test_a_slider_moves_the_arm_and_its_torques(arm):
    page = arm
    slider = page.get_by_role("slider").nth(1)
    slider.focus()
    torques = {}
    for end in ("Home", "End"):
        slider.press(end)
        page.get_by_role("button", name="Move by itself").wait_for()
        before = math.inf
        while abs(before - torques.setdefault(end, 0.0)) > 0.01:  # until it stands still
            before = torques[end]
            time.sleep(1.0)
            torques[end] = torque(page, "shoulder_pitch", "gravity")
    assert abs(torques["End"] - torques["Home"]) > 10.0  # the arm leans to the other side
