# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Print the oldest versions that pyproject.toml allows, for pip; `make oldest` tests these."""
import re
import sys
from pathlib import Path


def oldest(requirements: str) -> list[str]:
    """`name >= 1.2` as `name==1.2.*`: with the fixes made to that version."""
    found = []
    for name, version in re.findall(r'^ *"([\w-]+) >= ([\w.]+)"', requirements, re.MULTILINE):
        found.append(f"{name}=={version}" + ("" if "post" in version else ".*"))
    return found


def main() -> None:
    text = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    [dependencies] = re.findall(r"^dependencies = \[\n(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    print(*oldest(dependencies))


if __name__ == "__main__":
    sys.exit(main())
