# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Straight-line code for one robot from the kernel of an algorithm: trace, schedule, LLVM IR."""
