# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot of a node and what is computed from its states, independent of ROS."""

from ...states.joint_states import State as State
from .context import DynamicsTerms as DynamicsTerms
from .context import RobotContext as RobotContext
from .context import SettingError as SettingError
from .context import once_per_state as once_per_state
from .context import parameter_errors as parameter_errors
