# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo in a real browser: it loads, a slider moves, torques change."""

import os
import re
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from urllib.parse import urlsplit

import numpy as np
import pytest

import dyn_ros
from dyn_ros.demo.run import ADDRESS, ARM

pytest.importorskip("rclpy", reason="no ROS: run `make test`")
pytest.importorskip("viser", reason="no viser: pip install viser")

from .chromium import TIMEOUT

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"": 1.0, "k": 1e3, "m": 1e-3, "\u00b5": 1e-6}
START = 120.0  # seconds; the first start on a machine compiles


@pytest.fixture(scope="module")
def demo(other_domain):
    """The address of a running demo's page, and its domain."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dyn_ros", "demo", "--port", "0", "--rate", "100"],
        env=dict(os.environ, ROS_DOMAIN_ID=str(other_domain), PYTHONUNBUFFERED="1"),
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    lines, said = Queue(), []

    def read():
        for line in process.stdout:
            lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + START
    address = ""
    try:
        while not address:
            try:
                said.append(lines.get(timeout=1.0))
            except Empty:
                assert process.poll() is None and time.monotonic() < end, "".join(said)
                continue
            match = ADDRESS.search(said[-1])
            address = match.group() if match else ""
        yield address, other_domain
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def pushed(domain, *frame):
    """The lines of examples/push.py until it has found three contacts."""
    end = time.monotonic() + START
    while time.monotonic() < end:  # it gives up after ten seconds
        lines = []
        with subprocess.Popen(
            [sys.executable, ROOT / "examples" / "push.py", *frame],
            text=True,
            env=dict(os.environ, ROS_DOMAIN_ID=str(domain)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process:
            for line in process.stdout:
                lines.append(line.rstrip())
                if sum(line.startswith("contact: ") for line in lines) == 3:
                    process.kill()
                    return lines
        assert process.returncode == 0, lines
    raise AssertionError(lines)


def test_a_push_is_measured_and_located_as_in_the_tutorial(demo):
    """The output of the example in docs/observer.md is the one that it prints."""
    page = (ROOT / "docs" / "observer.md").read_text()
    expected = re.findall(r"push\.py ?(\w*)\n\n```text\n(.+)\n(.+)\n```", page)
    assert len(expected) == 2
    for frame, efforts, contact in expected:
        lines = pushed(demo[1], *frame.split())
        measured = [line for line in lines if line.startswith("external efforts [N m]: ")]
        assert measured and all(len(line.split()) == len(efforts.split()) for line in measured)
        contacts = [line for line in lines if line.startswith("contact: ")]
        _, where = contact.split(" on ")
        assert sum(line.endswith(f" on {where}") for line in contacts) >= len(contacts) / 3, (
            contacts
        )
        forces = [float(force) for force in re.findall(r"contact: ([\d.]+) N", "\n".join(contacts))]
        assert bool(forces) == (not frame), contacts
        assert not forces or np.median(forces) == pytest.approx(20.0, abs=2.0)


@pytest.fixture(scope="module")
def opened(browser, demo):
    """The page, opened once for all tests, and what it asks for."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(TIMEOUT)
    page.asked, page.faults = [], []
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("websocket", lambda socket: page.asked.append(socket.url))
    page.on("pageerror", lambda error: page.faults.append(str(error)))
    page.goto(demo[0])
    page.wait_for_selector("[data-joint=wrist_roll] .gravity")
    yield page
    page.close()


@pytest.fixture
def page(opened):
    """The page with a robot that moves by itself; the page has no faults and asks nobody else."""
    opened.get_by_role("tab", name="Move").click()
    opened.get_by_role("button", name="Pause").wait_for()
    yield opened
    assert not opened.faults
    hosts = {
        urlsplit(url.removeprefix("blob:")).hostname
        for url in opened.asked
        if not url.startswith("data:")
    }
    assert hosts == {"localhost"}


class Ear:
    """Subscribes to joint states in the demo's domain."""

    def __init__(self, domain):
        import rclpy
        from sensor_msgs.msg import JointState

        self._rclpy, self._context = rclpy, rclpy.Context()
        rclpy.init(context=self._context, domain_id=domain)
        self._node = rclpy.create_node("ear", context=self._context)
        self._executor = rclpy.executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self.states = []
        self._node.create_subscription(JointState, "joint_states", self.states.append, 10)

    def latest(self):
        """The newest joint state, as a dict of positions."""
        self.states.clear()
        end = time.monotonic() + START
        while len(self.states) < 20:
            self._executor.spin_once(0.1)
            assert time.monotonic() < end, "no joint states"
        message = self.states[-1]
        return dict(zip(message.name, message.position))

    def close(self):
        self._executor.shutdown()
        self._node.destroy_node()
        self._rclpy.shutdown(context=self._context)


@pytest.fixture
def ear(demo):
    ear = Ear(demo[1])
    yield ear
    ear.close()


def numbers(page, kind):
    """The numbers that the page shows for each joint [N m], all at the same moment."""
    shown = page.locator("[data-joint]").evaluate_all(
        """(joints, kind) => joints.map(joint => [joint.dataset.joint,
            joint.querySelector("." + kind).innerText, joint.querySelector(".unit").innerText])""",
        kind,
    )
    assert [name for name, _, _ in shown] == list(arm().joint_names)
    return {name: float(number) * UNITS[unit.removesuffix("N m")] for name, number, unit in shown}


@cache
def arm():
    return dyn_ros.Model.from_urdf_file(ARM)


def until(ready, state):
    end = time.monotonic() + START
    while not (result := ready()):
        assert time.monotonic() < end, state() if callable(state) else state
        time.sleep(0.2)
    return result


def gravity(positions):
    model = arm()
    q = np.array([positions[name] for name in model.joint_names])
    return dict(
        zip(model.joint_names, dyn_ros.generalized_gravity(model, dyn_ros.Data(model), q).tolist())
    )


def test_the_robot_moves_by_itself(page, ear):
    before, there = numbers(page, "gravity"), ear.latest()
    until(lambda: numbers(page, "gravity") != before, "the torques stay")
    until(lambda: ear.latest() != there, "the joints stay")
    assert page.locator("canvas").count() >= 8  # the robot, and a plot of each joint


def test_a_slider_moves_the_joint_and_its_torques(page, ear):
    slider = page.get_by_role("slider").nth(1)
    assert page.get_by_text("shoulder_pitch").count() >= 1
    slider.focus()
    slider.press("End")  # its upper limit
    page.get_by_role("button", name="Move by itself").wait_for()
    until(lambda: abs(ear.latest()["shoulder_pitch"] - 1.9) < 1e-3, ear.latest)
    # it is at rest: the page shows gravity at this position
    expected = gravity(ear.latest())
    until(
        lambda: all(
            abs(x - expected[name]) <= 0.01 for name, x in numbers(page, "gravity").items()
        ),
        lambda: (numbers(page, "gravity"), expected),
    )
    before = numbers(page, "gravity")["shoulder_pitch"]
    slider.press("Home")
    until(lambda: abs(ear.latest()["shoulder_pitch"] + 1.9) < 1e-3, ear.latest)
    until(
        lambda: (
            numbers(page, "gravity")["shoulder_pitch"] < 0 < before
            or before < 0 < numbers(page, "gravity")["shoulder_pitch"]
        ),
        "the torque stays",
    )
    page.get_by_role("button", name="Move by itself").click()
    there = ear.latest()
    until(lambda: ear.latest() != there, "the joints stay")


def test_a_payload_is_a_contact_until_it_has_been_weighed(page):
    page.get_by_role("tab", name="Touch").click()
    mass = page.locator("[role=slider]:visible").last
    page.get_by_text("nothing touches the robot").wait_for()
    mass.focus()
    for _ in range(5):
        mass.press("ArrowRight")  # by 0.1 kg
    page.get_by_text("contact at").wait_for()
    weigh, result = page.get_by_role("button", name="Weigh", exact=True), page.get_by_text(" kg (")

    def interval():
        """Return the interval of the mass [kg], if one is shown."""
        text = result.inner_text() if result.is_visible() else "(-inf to inf)"
        lower, upper = text.partition("(")[2].partition(")")[0].split(" to ")
        return float(lower), float(upper)

    def is_weighed():
        """Beside other tests, states have gaps: the next click adds more until they are enough."""
        ended = weigh.is_visible() and weigh.is_enabled()  # then, its result is shown
        lower, upper = interval()
        if ended and upper - lower > 0.1:
            weigh.click()
            page.get_by_role("button", name="Weighing ...").wait_for()
        return upper - lower < 0.1

    until(is_weighed, lambda: page.inner_text("body"))
    assert abs(float(result.inner_text().split()[0]) - 0.5) < 0.05, result.inner_text()
    page.get_by_text("nothing touches the robot").wait_for()
    mass.press("Home")
    result.wait_for(state="detached")


def test_two_browsers_see_the_same(page, browser, demo):
    second_page = browser.new_page(viewport={"width": 1280, "height": 400})
    second_page.set_default_timeout(TIMEOUT)
    try:
        second_page.goto(demo[0])
        second_page.wait_for_selector("[data-joint=wrist_roll] .gravity")
        page.get_by_role("button", name="Pause").click()
        second_page.get_by_role("button", name="Move by itself").wait_for()
        second_page.get_by_role("button", name="Move by itself").click()
        page.get_by_role("button", name="Pause").wait_for()
    finally:
        second_page.close()
