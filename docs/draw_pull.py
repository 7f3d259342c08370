# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Records the page while the arm is pulled, for the README, in headless Chromium.

    python docs/draw_pull.py [FILE.webp]        writes docs/images/pull.webp by default

It runs `dyn_ros view`, drags the grip at the tool, and writes the pictures of the page as an
animation in real time. It requires the Debian package chromium, playwright and Pillow
(requirements-test.txt).
"""
from __future__ import annotations

import base64
import io
import math
import sys
import time
from pathlib import Path

import numpy as np
from browser_picture import IMAGES, PANELS, PULL, opened, rest, wait_for_grip
from PIL import Image
from playwright.sync_api import Page

CROP = PANELS[0], 0, 1280, 720  # the robot and its torques, without the left panel
SHOWN = 813, 600                # of the animation [px]
SECONDS = 8.0
QUALITY = 80


def pulled(seconds: float) -> tuple[float, float]:
    """Return where the pointer is, from the grip at rest / PULL, at a time [s]."""
    if not 1.0 < seconds < 6.0:
        return 0.0, 0.0
    part = (seconds - 1.0) / 5.0
    reach = math.sin(math.pi * min(part * 1.2, 0.5)) if part < 0.42 else 1.0
    angle = -0.4 * math.pi + 0.5 * math.sin(2.0 * math.pi * part)
    return reach * math.cos(angle), reach * math.sin(angle)


def record(page: Page) -> tuple[list[Image.Image], list[int]]:
    """Return the pictures and for how long each is shown [ms]."""
    x, y = wait_for_grip(page)
    page.mouse.move(x, y)
    time.sleep(1.0)                                 # until the page has noticed
    frames: list[tuple[float, str]] = []
    browser = page.context.new_cdp_session(page)

    def keep(event: dict) -> None:
        frames.append((event["metadata"]["timestamp"], event["data"]))
        browser.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    browser.on("Page.screencastFrame", keep)
    browser.send("Page.startScreencast", {"format": "jpeg", "quality": 92})
    start, down = time.monotonic(), False
    while (now := time.monotonic() - start) < SECONDS:
        if not down and 1.0 < now < 6.0:
            page.mouse.down()
            down = True
        if down and now >= 6.0:
            page.mouse.up()
            down = False
        if down:
            across, along = pulled(now)
            page.mouse.move(x + PULL * across, y + PULL * along)
        page.wait_for_timeout(50)
    if down:
        page.mouse.up()
    browser.send("Page.stopScreencast")
    times = [when for when, _ in frames]
    lasting = np.diff([*times, times[-1] + 1.0])
    return [shown(data) for _, data in frames], [max(20, round(1000.0 * each)) for each in lasting]


def shown(data: str) -> Image.Image:
    """Return the part of a picture that the animation shows."""
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    return image.crop(CROP).resize(SHOWN, Image.Resampling.LANCZOS)


def main() -> None:
    """Write the animation."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / "pull.webp"
    with opened("view", "--no-browser") as page:
        rest(page)
        frames, lasting = record(page)
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=lasting, loop=0,
                   quality=QUALITY, method=6, minimize_size=True)
    print(f"{path}: {len(frames)} pictures, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
