# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with the input of a command."""


class UsageError(Exception):
    """The user's input cannot be used; the message names a remedy."""
