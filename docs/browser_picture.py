# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the picture of the demo's page for the README, in headless Chromium.

    python docs/browser_picture.py [docs/images/browser.png]

It requires the Debian package chromium, and playwright (requirements-test.txt).
"""
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from dyn_ros.demo.run import ADDRESS

PICTURE = Path(__file__).parent / "images" / "browser.png"
SIZE = {"width": 1280, "height": 800}
SECONDS = 10.0          # until the plots are full
PAUSE_IN_A_GOOD_POSE = """() => {
    const q = [...document.querySelectorAll(".mantine-NumberInput-input")].map(x => +x.value);
    const good = q[1] > -1.0 && q[1] < -0.3 && q[3] > 1.0 && q[3] < 2.0;
    if (good) [...document.querySelectorAll("button")].find(x => x.innerText == "Pause").click();
    return good;
}"""
SWITCHES = ["--no-sandbox", "--disable-gpu", "--use-gl=angle", "--use-angle=swiftshader",
            "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync"]


def main():
    """Run the demo, open its page, wait, and take the picture."""
    picture = sys.argv[1] if len(sys.argv) > 1 else PICTURE
    demo = subprocess.Popen(
        [sys.executable, "-m", "dyn_ros.cli", "demo", "--port", "0", "--rate", "100"],
        env=dict(os.environ, PYTHONUNBUFFERED="1"), text=True, stdout=subprocess.PIPE)
    try:
        address = next(match.group() for match in map(ADDRESS.search, demo.stdout) if match)
        with sync_playwright() as driver:
            browser = driver.chromium.launch(
                executable_path=shutil.which("chromium"), args=SWITCHES)
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(120_000)
            page.goto(address.rstrip(":"))
            page.wait_for_selector(".constraint")           # all nodes have started
            page.locator(".mantine-Notification-closeButton").first.click()
            time.sleep(SECONDS)
            page.wait_for_function(PAUSE_IN_A_GOOD_POSE)
            time.sleep(2.0)                                 # until all plots show the same instant
            page.screenshot(path=picture)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=20)


if __name__ == "__main__":
    main()
