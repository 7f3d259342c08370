# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Print the oldest versions that setup.cfg allows, as pip takes them; `make oldest` tests these."""
import configparser
import re
import sys
from pathlib import Path


def oldest(requirements: str) -> list[str]:
    """`name >= 1.2` as `name==1.2.*`: with the fixes made to that version."""
    found = []
    for line in requirements.split("\n"):
        match = re.fullmatch(r"([\w-]+) >= ([\w.]+)", line.strip())
        if match:
            name, version = match.groups()
            found.append(f"{name}=={version}" + ("" if "post" in version else ".*"))
    return found


def main() -> None:
    config = configparser.ConfigParser()
    config.read(Path(__file__).resolve().parents[1] / "setup.cfg")
    print(*oldest(config["options"]["install_requires"]))


if __name__ == "__main__":
    sys.exit(main())
