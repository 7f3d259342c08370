# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification of inertial parameters and friction from recordings of a robot.

``samples.py`` prepares recordings, ``filtering.py`` filters them, and ``columns.py`` reads and
writes them as tables. ``excitation.py`` computes motions to record.
"""
from .excitation import Excitation, excite
from .samples import Samples

__all__ = ["Excitation", "Samples", "excite"]
