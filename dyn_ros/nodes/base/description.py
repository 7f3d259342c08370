# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Where a node finds the robot description: parameters, or the topic robot_description."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy

from dyn_ros.engine.model.urdf import read_description

from .parameters import Spec

SPECS = (
    Spec("robot_description", "",
         "The robot as URDF text; overridden by the topic robot_description.", robot=True),
    Spec("robot_description_file", "",
         "Path of a URDF file, read if robot_description is empty.", robot=True),
)
NAMES = frozenset(spec.name for spec in SPECS)
QOS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE,
                 durability=DurabilityPolicy.TRANSIENT_LOCAL)


def parameter_description(values: Mapping[str, Any]) -> str:
    """Return the robot description that the parameters specify, or an empty string."""
    if values["robot_description"]:
        return values["robot_description"]
    if values["robot_description_file"]:
        path = values["robot_description_file"]
        try:
            text = read_description(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"robot_description_file: {error}; specify the path of a URDF file, "
                             'or "" to wait for the topic robot_description') from None
        if not text.strip():
            raise ValueError(f"robot_description_file: {path!r} is empty; expected a URDF")
        return text
    return ""


class Description:
    """The `current` description of a node, and the `latest` received, valid or not.

    `use(text)` raises an exception to keep the current one; `reject(source, why)` reports it.
    """

    def __init__(self, use: Callable[[str], None], reject: Callable[[str, str], None]) -> None:
        self._use, self._reject = use, reject
        self.current = self.latest = ""

    def take(self, text: str, source: str) -> None:
        """Use a description from a source; if it is invalid, keep the current one."""
        self.latest = text
        if self.current == text:
            return
        try:
            self._use(text)
        except Exception as error:
            kept = "keeping the current robot" if self.current else "there is no robot yet"
            self._reject(source, f"{error} ({kept})")
            return
        self.current = text

    def forget(self) -> None:
        """No description is in use anymore."""
        self.current = ""
