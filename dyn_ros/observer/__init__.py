# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts of a robot: what the environment exerts on its joints."""
from .momentum_observer import MomentumObserver as MomentumObserver
from .momentum_observer import momentum_observer as momentum_observer

__all__ = ["MomentumObserver", "momentum_observer"]
