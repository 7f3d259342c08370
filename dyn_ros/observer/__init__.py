# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What touches a robot: external efforts of its joints, wrenches, contacts."""
from .delay import EffortDelay as EffortDelay
from .delay import estimate_effort_delay as estimate_effort_delay
from .delay_line import DelayLine as DelayLine
from .fault_checks import EffortFault as EffortFault
from .faults import EffortMonitor as EffortMonitor
from .faults import find_effort_faults as find_effort_faults
from .isolation import IsolatedContact as IsolatedContact
from .isolation import isolate_contact as isolate_contact
from .low_pass import LowPass as LowPass
from .momentum_observer import MomentumObserver as MomentumObserver
from .momentum_observer import momentum_observer as momentum_observer
from .thresholds import CalibratedThresholds as CalibratedThresholds
from .thresholds import Thresholds as Thresholds
from .thresholds import calibrate_thresholds as calibrate_thresholds
from .wrenches import ExternalWrench as ExternalWrench
from .wrenches import ExternalWrenches as ExternalWrenches
from .wrenches import external_wrench as external_wrench
from .wrenches import external_wrenches as external_wrenches

__all__ = ["CalibratedThresholds", "DelayLine", "EffortDelay", "EffortFault", "EffortMonitor",
           "ExternalWrench", "ExternalWrenches", "IsolatedContact", "LowPass", "MomentumObserver",
           "Thresholds", "calibrate_thresholds", "estimate_effort_delay", "external_wrench",
           "external_wrenches", "find_effort_faults", "isolate_contact", "momentum_observer"]
