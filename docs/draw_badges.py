# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Draws the badges of the README.

    python docs/draw_badges.py      writes docs/images/badge_*.svg

They state what package.xml, the Makefile and the requirements declare.
"""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
CHARACTER = 7  # width [px]
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{left}: {right}">
  <title>{left}: {right}</title>
  <rect width="{width}" height="20" rx="3" fill="#555"/>
  <path d="M{split} 0h{rest}a3 3 0 0 1 3 3v14a3 3 0 0 1-3 3h-{rest}z" fill="{color}"/>
  <g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
    <text x="{left_middle}" y="14">{left}</text>
    <text x="{right_middle}" y="14">{right}</text>
  </g>
</svg>
"""


def badge(left: str, right: str, color: str) -> str:
    """Return a badge of two texts."""
    split, width = (CHARACTER * len(left) + 10, CHARACTER * (len(left) + len(right)) + 20)
    return BADGE.format(
        left=left,
        right=right,
        color=color,
        split=split,
        width=width,
        rest=width - split - 3,
        left_middle=split / 2,
        right_middle=(split + width) / 2,
    )


def badges() -> dict[str, str]:
    """Return the badges by name."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    first, last = re.findall(r"\((3\.\d+) to (3\.\d+)\)", makefile)[0]
    distributions = sorted(
        path.stem
        for path in (ROOT / "requirements").iterdir()
        if "ros-rclpy" in path.read_text(encoding="utf-8")
    )
    license_name = ET.parse(ROOT / "package.xml").findtext("license")
    return {
        "license": badge("license", str(license_name), "#2a6db3"),
        "python": badge("Python", f"{first} to {last}", "#2a6db3"),
        "ros": badge("ROS 2", " | ".join(distributions), "#2f7d43"),
    }


if __name__ == "__main__":
    for name, image in badges().items():
        (IMAGES / f"badge_{name}.svg").write_text(image, encoding="utf-8")
