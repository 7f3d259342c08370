# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Chromium without a graphics card."""

import contextlib
import shutil

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
TIMEOUT = 120_000  # ms; pictures are drawn without a graphics card, while other tests run
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


@contextlib.contextmanager
def open_browser():
    """Yield Chromium; skip the test if it is not installed."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: run `make test`")
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        yield browser
        browser.close()
