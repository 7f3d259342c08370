# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``dyn_ros`` command: one file for each subcommand."""
