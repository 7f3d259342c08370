# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts of a robot: what the environment exerts on its joints."""
from .isolation import IsolatedContact as IsolatedContact
from .isolation import isolate_contact as isolate_contact
from .momentum_observer import MomentumObserver as MomentumObserver
from .momentum_observer import momentum_observer as momentum_observer
from .thresholds import Thresholds as Thresholds
from .thresholds import calibrate_thresholds as calibrate_thresholds
from .wrenches import ExternalWrench as ExternalWrench
from .wrenches import ExternalWrenches as ExternalWrenches
from .wrenches import external_wrench as external_wrench
from .wrenches import external_wrenches as external_wrenches

__all__ = ["ExternalWrench", "ExternalWrenches", "IsolatedContact", "MomentumObserver",
           "Thresholds", "calibrate_thresholds", "external_wrench", "external_wrenches",
           "isolate_contact", "momentum_observer"]
