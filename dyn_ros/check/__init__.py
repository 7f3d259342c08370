# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Findings about a robot description."""

from .check import Examination, check_urdf, examine_urdf
from .link_findings import Finding, LinkInertia

__all__ = ["Examination", "Finding", "LinkInertia", "check_urdf", "examine_urdf"]
