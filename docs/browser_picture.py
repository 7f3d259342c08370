# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the demo's page, in headless Chromium.

    python docs/browser_picture.py [browser.png] [push.png]

It requires the Debian package chromium and playwright (requirements/test.txt).
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 720}
POSE = -0.75, 0.1, 0.0, 1.3, 0.0, 0.5, 0.0  # [rad]
SETTLED = 14.0  # until the arm rests and the plots are full [s]
BELOW = 18  # from the label of the grip to its middle [px]
BESIDE = 640, 680  # the robot [px]
PULL = 150  # how far the grip is dragged [px]
SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def opened(*command: str) -> Iterator[Page]:
    """Run a command of dyn_ros that serves a page; yield the page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dyn_ros", *command],
        text=True,
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        lines = iter(process.stdout.readline, "")
        address = next(
            (
                match[0]
                for match in (re.search(r"http://[\w.]+:\d+", line) for line in lines)
                if match
            ),
            None,
        )
        if address is None:
            raise SystemExit(f"dyn_ros {command[0]} has ended")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=SWITCHES
            )
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.set_default_timeout(120_000)
            page.goto(address)
            yield page
            browser.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def rest(page: Page, seconds: float = SETTLED) -> None:
    """Move the arm to the pose, and wait until it rests; by default, until the plots show that."""
    pause = page.get_by_role("button", name="Pause")
    pause.wait_for()
    pause.click()
    for box, angle in zip(page.locator(".mantine-NumberInput-input").all(), POSE):
        box.fill(str(angle))
        box.press("Enter")
    page.get_by_role("button", name="Fit view").click()
    page.mouse.move(*BESIDE)
    time.sleep(seconds)


def find_grip(page: Page) -> tuple[float, float]:
    """Return the middle of the grip in the window [px], which is below its label."""
    label = page.locator("#dyn-pull").bounding_box()
    if label is None:
        raise SystemExit("the page shows no grip")
    return label["x"] + 0.5 * label["width"], label["y"] + label["height"] + BELOW


def reach(page: Page) -> tuple[float, float]:
    """Move the mouse to the grip, which waits for it; return where it is [px]."""
    before, place = (0.0, 0.0), find_grip(page)
    while math.dist(before, place) > 5.0:
        page.mouse.move(*place, steps=3)
        page.wait_for_timeout(250)
        before, place = place, find_grip(page)
    return place


def take_overview(page: Page, path: Path) -> None:
    """The arm with its markers, and its torques when it came to rest."""
    page.wait_for_selector(".constraint")  # all nodes have started
    time.sleep(SETTLED)
    rest(page, 4.0)
    page.screenshot(path=path)


def take_push(page: Page, path: Path) -> None:
    """The arm with a payload that has been weighed, pulled at its tool; without markers."""
    page.wait_for_selector(".constraint")  # all nodes have started
    page.get_by_role("tab", name="Markers").click()
    for box in page.locator("input[type=checkbox]:visible").all():
        box.uncheck()
    page.get_by_role("tab", name="Touch").click()
    mass = page.locator("[role=slider]:visible").last
    mass.focus()
    for _ in range(5):
        mass.press("ArrowRight")  # by 0.1 kg
    weigh, result = page.get_by_role("button", name="Weigh", exact=True), page.get_by_text(" kg (")
    while not result.is_visible():  # while the arm moves, until the mass is determined
        weigh.click()
        weigh.wait_for()  # it has another text meanwhile
    page.get_by_role("tab", name="Move").click()
    rest(page)
    page.get_by_role("tab", name="Touch").click()
    x, y = reach(page)
    page.mouse.down()
    time.sleep(1.0)
    page.mouse.move(x - 0.72 * PULL, y + 0.69 * PULL, steps=10)  # along the arrow
    time.sleep(SETTLED)
    page.screenshot(path=path)
    page.mouse.up()


def main() -> None:
    """Take both pictures."""
    paths = [Path(name) for name in sys.argv[1:]]
    paths += [IMAGES / name for name in ("browser.png", "push.png")][len(paths) :]
    for take, path in zip((take_overview, take_push), paths):
        with opened("demo", "--port", "0", "--rate", "100") as page:
            take(page, path)


if __name__ == "__main__":
    main()
