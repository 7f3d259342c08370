# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""How Chromium is started, without a graphics card."""

import shutil

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SLOW = 120_000  # ms: pictures are drawn without a graphics card, beside other tests
SWITCHES = [
    f"--{each}"
    for each in (
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
