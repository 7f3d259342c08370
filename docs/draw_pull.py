# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Records the page while the arm is pulled, for the README, in headless Chromium.

    python docs/draw_pull.py [FILE.webp]        writes docs/images/pull.webp by default

It runs `dyn_ros view`, reaches for the grip of the moving arm and pulls it, and writes the pictures
of the page as an animation in real time. It requires the Debian package chromium, playwright and
Pillow (requirements/test.txt).
"""

from __future__ import annotations

import base64
import io
import math
import sys
import time
from pathlib import Path

import numpy as np
from browser_picture import IMAGES, PULL, opened, reach
from PIL import Image
from playwright.sync_api import Page

CROP = 304, 0, 1280, 580  # the robot and its torques, without the left panel
SHOWN = 813, 483  # of the animation [px]
FULL = 12.0  # until the plots are full [s]
START = 620, 640  # of the mouse [px]
BEFORE, PULLED, AFTER = 1.4, 2.0, 0.6  # [s]
QUALITY = 70
CURSOR = """() => {
    const cursor = document.createElement("div");
    cursor.innerHTML = '<svg width="24" height="24"><path d="M2 1v18l5-4 3 7 3-1-3-7h6z" '
        + 'stroke="#fff" stroke-width="1.5"/></svg>';
    cursor.style = "position: fixed; left: 0; top: 0; z-index: 9999; pointer-events: none";
    document.body.append(cursor);
    addEventListener("pointermove", event => {
        cursor.style.transform = `translate(${event.x}px, ${event.y}px)`;
    }, true);
}"""


def pulled(part: float) -> tuple[float, float]:
    """Return where the pointer is, from the grip at rest / PULL, at a part of the pull."""
    reach = math.sin(0.5 * math.pi * min(2.5 * part, 1.0))
    angle = -0.4 * math.pi + 0.9 * math.sin(math.pi * part)
    return reach * math.cos(angle), reach * math.sin(angle)


class Film:
    """The pictures of a page, with their times [s]."""

    def __init__(self, page: Page) -> None:
        self.frames: list[tuple[float, str]] = []
        self._browser = page.context.new_cdp_session(page)
        self._browser.on("Page.screencastFrame", self._keep)
        self._browser.send("Page.startScreencast", {"format": "jpeg", "quality": 92})

    def _keep(self, event: dict) -> None:
        self.frames.append((event["metadata"]["timestamp"], event["data"]))
        self._browser.send("Page.screencastFrameAck", {"sessionId": event["sessionId"]})

    def stop(self) -> None:
        """Take no more pictures."""
        self._browser.remove_listener("Page.screencastFrame", self._keep)
        self._browser.send("Page.stopScreencast")


def record(page: Page) -> tuple[list[Image.Image], list[int]]:
    """Return the pictures of a pull, and for how long each is shown [ms]."""
    page.evaluate(CURSOR)
    page.mouse.move(*START)
    film = Film(page)
    x, y = reach(page)
    page.mouse.down()
    start, first = time.monotonic(), time.time() - BEFORE
    while (part := (time.monotonic() - start) / PULLED) < 1.0:
        across, along = pulled(part)
        page.mouse.move(x + PULL * across, y + PULL * along)
        page.wait_for_timeout(20)
    page.mouse.up()
    page.wait_for_timeout(1e3 * AFTER)
    film.stop()
    times, data = zip(*(frame for frame in film.frames if frame[0] > first))
    lasting = np.diff([*times, times[-1] + 0.3])
    return (
        [shown(picture) for picture in data],
        [max(20, round(1000.0 * seconds)) for seconds in lasting],
    )


def shown(data: str) -> Image.Image:
    """Return the part of a picture that the animation shows."""
    image = Image.open(io.BytesIO(base64.b64decode(data))).convert("RGB")
    return image.crop(CROP).resize(SHOWN, Image.Resampling.LANCZOS)


def main() -> None:
    """Write the animation."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES / "pull.webp"
    with opened("view", "--no-browser", "--port", "0") as page:
        page.locator("[data-joint=wrist_roll] .gravity").first.wait_for()
        time.sleep(FULL)
        frames, lasting = record(page)
    frames[0].save(
        path,
        save_all=True,
        append_images=frames[1:],
        duration=lasting,
        loop=0,
        quality=QUALITY,
        method=6,
        minimize_size=True,
    )
    print(f"{path}: {len(frames)} pictures, {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
