# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What touches a robot: external efforts of its joints, wrenches, contacts."""
from .delay import EffortDelay, estimate_effort_delay
from .fault_checks import EffortFault
from .faults import EffortMonitor, find_effort_faults
from .filters import DelayLine, LowPass
from .isolation import IsolatedContact, isolate_contact
from .momentum_observer import MomentumObserver, momentum_observer
from .thresholds import CalibratedThresholds, Thresholds, calibrate_thresholds
from .wrenches import ExternalWrench, ExternalWrenches, external_wrench, external_wrenches

__all__ = ["CalibratedThresholds", "DelayLine", "EffortDelay", "EffortFault", "EffortMonitor",
           "ExternalWrench", "ExternalWrenches", "IsolatedContact", "LowPass", "MomentumObserver",
           "Thresholds", "calibrate_thresholds", "estimate_effort_delay", "external_wrench",
           "external_wrenches", "find_effort_faults", "isolate_contact", "momentum_observer"]
