# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Print the oldest versions that setup.cfg allows, for pip; `make oldest` tests these."""

import configparser
import re
import sys
from pathlib import Path


def oldest(requirements: str) -> list[str]:
    """`name >= 1.2` as `name==1.2.*`: with the fixes made to that version."""
    return [
        f"{name}=={version}.*"
        for name, version in re.findall(r"([\w-]+) >= ([\w.]+)", requirements)
    ]


def main() -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).resolve().parents[1] / "setup.cfg", encoding="utf-8")
    print(
        *oldest(setup["options"]["install_requires"] + setup["options.extras_require"]["compiler"])
    )


if __name__ == "__main__":
    sys.exit(main())
