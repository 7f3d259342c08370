# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The topics from which nodes can read joint states."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from sensor_msgs.msg import JointState

from ...cdr.decode import DYNAMIC_JOINT_STATE, JOINT_STATE
from ...states.joint_states import Reception, Rejected
from ...states.messages import MessageCollector


class JointStateTopic(NamedTuple):
    """A topic of joint states, and functions for its messages as rclpy reads them.

    `load_class` returns the class of the messages; it raises `Rejected` if its package is not
    installed. `collect(collector, message, stamp)` passes a message to a collector, `positions`
    returns pairs of joint and position.
    """

    name: str
    type_name: str
    load_class: Callable[[], Any]
    collect: Callable[[MessageCollector, Any, int], Reception]
    positions: Callable[[Any], Iterable[tuple[str, float]]]


def _load_dynamic_joint_state() -> Any:
    """Return the class of a DynamicJointState."""
    try:
        from control_msgs.msg import DynamicJointState
    except ImportError as error:
        raise Rejected(
            f"joint_state_source dynamic_joint_states requires control_msgs ({error}): sudo apt "
            "install ros-$ROS_DISTRO-control-msgs, or set joint_state_source to joint_states"
        ) from None
    return DynamicJointState


def _collect_joint_state(collector: MessageCollector, message: Any, stamp: int) -> Reception:
    """Pass a JointState to a collector."""
    return collector.receive_joint_states(
        message.name, message.position, message.velocity, message.effort, stamp
    )


def _collect_interfaces(collector: MessageCollector, message: Any, stamp: int) -> Reception:
    """Pass a DynamicJointState to a collector."""
    return collector.receive_interfaces(
        message.joint_names,
        [entry.interface_names for entry in message.interface_values],
        [entry.values for entry in message.interface_values],
        stamp,
    )


def _interface_positions(message: Any) -> Iterable[tuple[str, float]]:
    """Yield the joints of a DynamicJointState and their positions."""
    for name, entry in zip(message.joint_names, message.interface_values):
        for interface, value in zip(entry.interface_names, entry.values):
            if interface == "position":
                yield name, value


JOINT_STATES = JointStateTopic(
    "joint_states",
    JOINT_STATE,
    lambda: JointState,
    _collect_joint_state,
    lambda message: zip(message.name, message.position),
)
DYNAMIC_JOINT_STATES = JointStateTopic(
    "dynamic_joint_states",
    DYNAMIC_JOINT_STATE,
    _load_dynamic_joint_state,
    _collect_interfaces,
    _interface_positions,
)
JOINT_STATE_TOPICS = {topic.name: topic for topic in (JOINT_STATES, DYNAMIC_JOINT_STATES)}
"""The topics by name: values of the parameter joint_state_source."""
