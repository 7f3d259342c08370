# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Check package.xml with the parser of ROS's build tools, and that other XML is well-formed."""

import sys
from pathlib import Path

from catkin_pkg.package import InvalidPackage, parse_package
from lxml import etree

ROOT = Path(__file__).resolve().parents[1]


def main():
    """Return the errors, a line each; None without errors."""
    errors = []
    try:
        parse_package(ROOT / "package.xml", warnings=errors)
    except InvalidPackage as error:
        errors.append(str(error))
    for path in (*ROOT.glob("launch/*.xml"), *ROOT.glob("dyn_ros/robots/*.urdf")):
        try:
            etree.parse(path)
        except etree.XMLSyntaxError as error:
            errors.append(f"{path}: {error}")
    return "\n".join(errors) or None


if __name__ == "__main__":
    sys.exit(main())
