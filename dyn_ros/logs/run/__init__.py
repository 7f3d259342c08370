# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls for parts of recordings, made by worker processes on this machine or of a cluster."""
