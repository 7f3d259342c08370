# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Center of mass and centroidal momentum."""
