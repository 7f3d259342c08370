# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A public alias of ``messages/message_fields.py``."""

from .messages.message_fields import *  # noqa: F403
