# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""In a real browser: the robot and the markers on the screen are of one stamp, in each picture.

A marker covers the only shape of a robot. The shape is seen if the two are of different stamps.
"""

import io
import math
import shutil
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import dyn_ros
from dyn_ros.engine.model.urdf import read_urdf

pytest.importorskip("viser", reason="no viser: pip install viser")
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: run `make test`")

from dyn_ros.viewer.actor import PageSettings  # noqa: E402
from dyn_ros.viewer.scene.marker_arrays import SPHERE  # noqa: E402
from dyn_ros.viewer.session import Session  # noqa: E402

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("no Chromium: apt install chromium", allow_module_level=True)

SWITCHES = [
    f"--{switch}"
    for switch in (
        "no-sandbox",
        "disable-gpu",
        "use-gl=angle",
        "use-angle=swiftshader",
        "enable-unsafe-swiftshader",
        "disable-quic",
        "no-first-run",
        "disable-background-networking",
        "disable-component-update",
        "disable-sync",
    )
]
START = 120.0  # [s]
PICTURES = 8
SPEED = 3.0  # [rad/s]
TIP = np.array([0.8, 0.0, 0.0])
LATE = 0.03  # of the markers [s]
ROBOT = """<robot name="hand"><link name="base"/><link name="hand"><visual>
  <origin xyz="0.8 0 0"/><geometry><sphere radius="0.05"/></geometry>
  <material name="green"><color rgba="0 1 0 1"/></material></visual></link>
  <joint name="joint" type="continuous"><parent link="base"/><child link="hand"/>
    <axis xyz="1 0.6 0.4"/><origin xyz="0 0 0.6"/></joint></robot>"""


class Idle:
    """An actor that does nothing."""

    def can_move(self):
        return True

    def can_weigh(self):
        return False

    def __getattr__(self, name):
        return lambda *arguments: None


class Mover(threading.Thread):
    """Moves the robot; its markers come later, as from a node."""

    def __init__(self, session, family):
        super().__init__(daemon=True)
        self._session, self._family, self.stop = session, family, threading.Event()
        self._model = dyn_ros.Model.from_urdf(ROBOT)
        self._data = dyn_ros.Data(self._model)

    def run(self):
        last, waiting = time.monotonic(), []
        while not self.stop.wait(0.02):
            stamp, now = time.time_ns(), time.monotonic()
            q = math.remainder(SPEED * 1e-9 * (stamp % 10**12), 2.0 * math.pi)
            self._session.receive_joint_state(["joint"], [q], stamp=stamp)
            waiting.append((now + LATE, self._markers(stamp, q)))
            while waiting and waiting[0][0] <= now:
                self._session.receive_markers("node/markers", waiting.pop(0)[1])
            self._session.update(now, now - last)
            last = now

    def _markers(self, stamp, q):
        model = self._model
        positions = [math.cos(q), math.sin(q)] if model.nq == 2 else [q]
        hand = dyn_ros.frame_placements(model, self._data, np.array(positions))[
            model.frame_index("hand")
        ]
        x, y, z = (hand[:3, :3] @ TIP + hand[:3, 3]).tolist()
        made = SimpleNamespace(
            ns=self._family,
            id=0,
            type=SPHERE,
            action=0,
            points=[],
            colors=[],
            text="",
            mesh_resource="",
            header=SimpleNamespace(
                frame_id="world", stamp=SimpleNamespace(sec=stamp // 10**9, nanosec=stamp % 10**9)
            ),
            lifetime=SimpleNamespace(sec=0, nanosec=0),
            pose=SimpleNamespace(
                position=SimpleNamespace(x=x, y=y, z=z),
                orientation=SimpleNamespace(x=0.0, y=0.0, z=0.0, w=1.0),
            ),
            scale=SimpleNamespace(x=0.15, y=0.15, z=0.15),
            color=SimpleNamespace(r=1.0, g=0.0, b=0.0, a=1.0),
        )
        return SimpleNamespace(markers=[made])


@pytest.fixture
def moving():
    session = Session("127.0.0.1", 0, Idle(), PageSettings(can_push=False))
    session.show_robot(read_urdf(ROBOT), ROBOT)
    session._stop_pushing()
    mover = Mover(session, "com")
    mover.start()
    yield session
    mover.stop.set()
    mover.join()
    session.close()


def colored(page):
    """Numbers of red and of green pixels of the scene, and where the red ones are."""
    box = page.locator("canvas").first.bounding_box()
    picture = np.array(Image.open(io.BytesIO(page.screenshot(clip=box))).convert("RGB")).astype(int)
    red, green, blue = np.moveaxis(picture, -1, 0)
    is_red = red - np.maximum(green, blue) > 80
    is_green = green - np.maximum(red, blue) > 60
    places = np.argwhere(is_red)
    return is_red.sum(), is_green.sum(), places.mean(axis=0) if len(places) else None


def test_robot_and_markers_on_the_screen_are_of_one_stamp(moving):
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        page = browser.new_page(viewport={"width": 1000, "height": 700})
        page.set_default_timeout(START * 1000)
        page.goto(moving.address)
        end = time.monotonic() + START
        while colored(page)[0] < 100:
            assert time.monotonic() < end, "no marker on the screen"
            page.evaluate(
                "document.querySelectorAll('.mantine-Notification-closeButton')"
                ".forEach(button => button.click())"
            )
        pictures = [colored(page) for _ in range(PICTURES)]
        browser.close()
    assert all(red >= 100 for red, _, _ in pictures), "the marker has gone"
    places = np.array([place for _, _, place in pictures])
    assert np.ptp(places, axis=0).max() > 20.0, "nothing moves"
    assert [green for _, green, _ in pictures] == [0] * PICTURES
