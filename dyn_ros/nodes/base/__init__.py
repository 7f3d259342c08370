# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of all nodes: lifecycle, parameters, outputs."""
