# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inputs of `fuzz.py`: a module for each target."""
