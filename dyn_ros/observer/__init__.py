# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""External efforts of the joints of a robot, and the wrenches and contacts that cause them."""

from inspect import cleandoc as _cleandoc

from .delay import EffortDelay, estimate_effort_delay
from .fault_checks import EffortFault
from .faults import EffortMonitor, find_effort_faults
from .filters import DelayLine, LowPass
from .isolation import IsolatedContact, isolate_contact
from .momentum_observer import MomentumObserver, momentum_observer
from .thresholds import CalibratedThresholds, Thresholds, calibrate_thresholds
from .wrench_estimation import ExternalWrench, ExternalWrenches, external_wrench, external_wrenches

__all__ = [
    "CalibratedThresholds",
    "DelayLine",
    "EffortDelay",
    "EffortFault",
    "EffortMonitor",
    "ExternalWrench",
    "ExternalWrenches",
    "IsolatedContact",
    "LowPass",
    "MomentumObserver",
    "Thresholds",
    "calibrate_thresholds",
    "estimate_effort_delay",
    "external_wrench",
    "external_wrenches",
    "find_effort_faults",
    "isolate_contact",
    "momentum_observer",
]

_RETURNED_BY = {
    CalibratedThresholds: calibrate_thresholds,
    EffortDelay: estimate_effort_delay,
    EffortFault: find_effort_faults,
    ExternalWrench: external_wrench,
    ExternalWrenches: external_wrenches,
    IsolatedContact: isolate_contact,
}
for _result, _function in _RETURNED_BY.items():  # a result has the examples of its function
    if _result.__doc__ and _function.__doc__:  # not with python -OO
        _examples = _cleandoc(_function.__doc__).partition("\n\nExamples\n")[1:]
        _result.__doc__ = _cleandoc(_result.__doc__) + "".join(_examples) + "\n"
