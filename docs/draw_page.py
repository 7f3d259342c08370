# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draw docs/images/web_page.webp: the web page with an arm that is pulled, in Chromium.

    python docs/draw_page.py

Requires Chromium, and what `dyn_ros export --page` does.
"""

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent / "test"))

from viewer.chromium import CHROMIUM, SWITCHES  # noqa: E402

from dyn_ros.export.web.page import export_page  # noqa: E402

SIZE = {"width": 1280, "height": 760}
TOOL, PULLED = (505, 225), (430, 330)  # pixels


def draw_page(folder: Path) -> bytes:
    """Return a PNG of the page while the tool of its arm is pulled."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(f"{(folder / 'index.html').as_uri()}#robot=arm7")
        page.wait_for_timeout(4000)
        page.mouse.move(*TOOL)
        page.mouse.down()
        page.mouse.move(*PULLED, steps=10)
        page.wait_for_timeout(4000)
        picture = page.screenshot()
        browser.close()
    return picture


with tempfile.TemporaryDirectory() as temporary:
    export_page(temporary)
    png = draw_page(Path(temporary))
Image.open(io.BytesIO(png)).save(DOCS / "images" / "web_page.webp", quality=85)
