# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Drives of a robot: files of what they report as effort and lose to friction, and checks."""

from .file import load_drives as load_drives
from .file import save_drives as save_drives

__all__ = ["load_drives", "save_drives"]
