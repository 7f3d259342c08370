# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A public alias of ``messages/conversions.py``."""

from .messages.conversions import *  # noqa: F403
