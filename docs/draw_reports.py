# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Takes the pictures of reports: of `dyn_ros check --picture` and of `dyn_ros identify --report`.

    python docs/draw_reports.py         writes docs/images/check.png, docs/images/identification.png

The first one is of the UR5 of example-robot-data, the second one of a simulated recording of the
arm. It requires the Debian package chromium and playwright (requirements/test.txt).
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))
from identification import recordings

import dyn_ros
import peer
from dyn_ros.command import main as cli

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
ARM = ROOT / "dyn_ros" / "robots" / "arm7.urdf"


def photograph(page: Path, width: int, height: int, scale: float, file: str) -> None:
    """Write the top of a page in a window of this size [px]."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--no-sandbox", "--disable-gpu", "--use-angle=swiftshader"],
        )
        window = browser.new_page(
            viewport={"width": width, "height": height}, device_scale_factor=scale
        )
        window.goto(page.as_uri())
        window.wait_for_timeout(5000)
        window.screenshot(path=IMAGES / file)
        browser.close()


def draw_check(folder: Path) -> None:
    """Draw the inertias of an arm, three of which are too large."""
    page = folder / "inertias.html"
    cli.main(["check", str(peer.EXAMPLE_ROBOTS / peer.FILES["ur5"]), "--picture", str(page)])
    photograph(page, 1000, 640, 1.0, "check.png")


def draw_identification(folder: Path) -> None:
    """Draw the top of the report about a recording of 60 s."""
    true = recordings.perturbed(dyn_ros.Model.from_urdf_file(ARM))
    true.damping = 1.5 * true.damping + 0.1
    true.friction = [1.0, 1.0, 0.6, 0.6, 0.3, 0.3, 0.3]  # N m
    motion = dyn_ros.excite(true, duration=60.0, period=20.0, rate=200.0, starts=1)
    recording = recordings.record(true, motion, offset=recordings.offsets(true))
    table, page = folder / "recording.parquet", folder / "report.html"
    recording.samples().to_table(true, table)
    cli.main(
        [
            "identify",
            str(ARM),
            str(table),
            "--report",
            str(page),
            "-o",
            str(folder / "identified.urdf"),
        ]
    )
    photograph(page, 1140, 1480, 1.0, "identification.png")


def main() -> None:
    """Draw both."""
    with tempfile.TemporaryDirectory() as name:
        draw_check(Path(name))
        draw_identification(Path(name))


if __name__ == "__main__":
    main()
