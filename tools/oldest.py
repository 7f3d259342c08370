# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Print the oldest versions that setup.cfg allows, for pip; `make oldest` tests them."""

import configparser
import re
import sys
from pathlib import Path


def oldest_versions(requirements: str) -> list[str]:
    """Return `name==1.2.*` for each `name >= 1.2`, which includes the fixes of that version."""
    return [
        f"{name}=={version}.*"
        for name, version in re.findall(r"([\w-]+) >= ([\w.]+)", requirements)
    ]


def main() -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).resolve().parents[1] / "setup.cfg", encoding="utf-8")
    print(
        *oldest_versions(
            setup["options"]["install_requires"] + setup["options.extras_require"]["compiler"]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
