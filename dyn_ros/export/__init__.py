# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Export for C and C++: a library of machine code, headers, and model files."""
