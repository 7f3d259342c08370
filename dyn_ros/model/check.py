# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A public alias of ``dyn_ros.check``."""

from ..check import *  # noqa: F403
