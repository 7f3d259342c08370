# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The C header."""
from __future__ import annotations

from pathlib import Path

from .. import __version__
from .functions import Function
from .sources import prototypes

_TEMPLATE = Path(__file__).parent / "runtime" / "dyn_ros.h.in"


def header(functions: list[Function]) -> str:
    """``dyn_ros.h``."""
    text = "\n".join(f"{prototype};" for one in functions for prototype in prototypes(one))
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.replace("@FUNCTIONS@", text).replace("@VERSION@", __version__)
