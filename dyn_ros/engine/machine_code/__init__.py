# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From functions of Python to machine code, built in advance or on first use, and its calls."""
