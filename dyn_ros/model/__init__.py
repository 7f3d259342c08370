# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Former place of what is public in ``dyn_ros.check``."""
