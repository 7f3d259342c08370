# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The ``dyn_ros`` command: larger subcommands have a file each."""
