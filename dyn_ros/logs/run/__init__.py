# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls for the parts of recordings, on this machine and on a cluster."""
