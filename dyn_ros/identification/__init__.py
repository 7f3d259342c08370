# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Identification: a robot's parameters from its measured torques."""
from .base_parameters import BaseParameters as BaseParameters
from .base_parameters import base_parameters as base_parameters
from .identify import identify as identify
from .result import Identification as Identification
from .samples import Samples as Samples
