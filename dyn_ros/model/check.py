# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Public alias of ``dyn_ros.check``."""

from ..check import *  # noqa: F403
