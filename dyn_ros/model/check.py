# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Former name of ``dyn_ros.check``, for programs that import it."""
from ..check import *  # noqa: F403
