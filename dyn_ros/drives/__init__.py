# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the drives of a robot report as effort, and what they lose to friction."""

from .file import load_drives as load_drives
from .file import save_drives as save_drives

__all__ = ["load_drives", "save_drives"]
