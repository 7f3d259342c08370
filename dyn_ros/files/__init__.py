# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that others write, read within limits, and files that exist completely or not at all."""
