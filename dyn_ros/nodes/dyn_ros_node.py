# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All nodes in one process: one robot, one pass over its kinematics for each joint state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base.robot_node import RobotNode, run_node
from .centroidal_node import CentroidalNode
from .dynamics_node import DynamicsNode
from .observer_node import ObserverNode
from .vereshchagin_node import VereshchaginNode


class DynRosNode(RobotNode):
    """Owns the robot and passes each state to dynamics, centroidal, vereshchagin and observer.

    These nodes are in the same process and have their own parameters, see `dynamics_node --help`
    etc.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        DynamicsNode("dynamics", robot_owner=self)
        CentroidalNode("centroidal", robot_owner=self)
        VereshchaginNode("vereshchagin", robot_owner=self)
        ObserverNode("observer", robot_owner=self)
        names = [node.get_name() for node in (self, *self.members)]
        if len(set(names)) < len(names):
            raise ValueError(
                f"the nodes have duplicate names: {', '.join(names)}; remap each "
                "node by itself, as in -r dynamics:__node:=left_dynamics"
            )


def main(args: Sequence[str] | None = None) -> int:
    """Run the node until it is asked to shut down."""
    return run_node(DynRosNode, "dyn_ros", args)


if __name__ == "__main__":
    raise SystemExit(main())
