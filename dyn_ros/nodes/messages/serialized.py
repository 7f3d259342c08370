# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages as rclpy reads them."""
from __future__ import annotations

from typing import Any

from rclpy.serialization import deserialize_message

from ...cdr.definition import definition_of


def deserialized(data: bytes, message_type: Any) -> Any:
    """Return the message that these bytes are; raise a ValueError if they are none."""
    try:
        return deserialize_message(data, message_type)
    except Exception as error:          # whatever an RMW implementation raises
        name = definition_of(message_type).name
        raise ValueError(f"cannot deserialize {len(data)} bytes ({data[:16].hex(' ')} ...) as "
                         f"{name}: its publisher may use another version of this type "
                         f"({error})") from error
