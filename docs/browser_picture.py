# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of the demo's page for the README, in headless Chromium.

    python docs/browser_picture.py [browser.png] [push.png]

It requires the Debian package chromium, playwright (requirements-test.txt) and pillow.
"""
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright

from dyn_ros.demo.run import ADDRESS

IMAGES = Path(__file__).parent / "images"
SIZE = {"width": 1280, "height": 800}
SECONDS = 10.0          # until the plots are full
PAUSE_IN_A_GOOD_POSE = """() => {
    const q = [...document.querySelectorAll(".mantine-NumberInput-input")].map(x => +x.value);
    const good = q[1] > -1.0 && q[1] < -0.3 && q[3] > 1.0 && q[3] < 2.0;
    if (good) [...document.querySelectorAll("button")].find(x => x.innerText == "Pause").click();
    return good;
}"""
PUSHED_POSE = -0.6, -0.6, 0.0, 1.9, -0.2, 0.5, 0.0      # [rad]
RED = 255, 51, 83       # the handle's axis x
PULL = 100              # how far the handle is dragged along it [px]
SWITCHES = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync"]


@contextmanager
def demo():
    """Run the demo; yield its page."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dyn_ros.cli", "demo", "--port", "0", "--rate", "100"],
        env=dict(os.environ, PYTHONUNBUFFERED="1"), text=True, stdout=subprocess.PIPE)
    try:
        said = iter(process.stdout.readline, "")
        address = next((match.group() for match in map(ADDRESS.search, said) if match), "")
        if not address:
            raise SystemExit("the demo has ended")
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=SWITCHES)
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(120_000)
            page.goto(address.rstrip(":"))
            page.wait_for_selector(".constraint")           # all nodes have started
            page.locator(".mantine-Notification-closeButton").first.click()
            yield page
            browser.close()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def take_overview(page, picture):
    """The arm with its markers and torques."""
    time.sleep(SECONDS)
    page.wait_for_function(PAUSE_IN_A_GOOD_POSE)
    time.sleep(2.0)                                 # until all plots show the same instant
    page.screenshot(path=picture)


def take_push(page, picture):
    """The arm with a payload that has been weighed, pushed at its tool."""
    boxes = page.locator("input[type=checkbox]:visible")
    page.get_by_role("button", name="Weigh").wait_for()
    for number in range(boxes.count()):             # the payload on, all markers off
        boxes.nth(number).click()
    page.get_by_role("button", name="Weigh", exact=True).click()
    page.get_by_text(" kg (").wait_for()
    page.get_by_role("button", name="Pause").click()
    for box, angle in zip(page.locator(".mantine-NumberInput-input").all(), PUSHED_POSE):
        box.fill(str(angle))
        box.press("Enter")
    time.sleep(5.0)
    start, end = find_axis(page)
    page.mouse.move(*start)
    time.sleep(2.0)                                 # until the handle has noticed
    page.mouse.down()
    time.sleep(1.0)
    page.mouse.move(*end, steps=10)
    time.sleep(SECONDS)
    page.screenshot(path=picture)


def find_axis(page):
    """Return a point on the handle's axis x, and the one to drag it to [px]."""
    image = np.array(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)
    image = image[:, 330:920]                       # between the panels
    y, x = np.nonzero(abs(image - RED).sum(axis=2) < 60)
    points = np.stack([x + 330.0, y], axis=1)
    center = points.mean(axis=0)
    direction = np.linalg.svd(points - center, full_matrices=False)[2][0]
    direction *= -np.sign(direction[1])             # up
    return center, center + PULL * direction


def main():
    """Take both pictures."""
    pictures = [Path(name) for name in sys.argv[1:]]
    pictures += [IMAGES / name for name in ("browser.png", "push.png")][len(pictures):]
    for take, picture in zip((take_overview, take_push), pictures):
        with demo() as page:
            take(page, picture)


if __name__ == "__main__":
    main()
