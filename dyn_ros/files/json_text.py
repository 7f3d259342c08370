# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""JSON that others write."""

from __future__ import annotations

import json
from typing import Any


def load_json(content: bytes) -> Any:
    """Return the content of a JSON document in UTF-8; raise a ValueError if it is none."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("JSON: too many arrays and objects inside each other") from None
