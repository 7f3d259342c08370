# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Options that start Chromium without a graphics card."""

import shutil

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
