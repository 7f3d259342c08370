# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Publishes gravity, nonlinear effects and the inertia matrix of a moving robot."""
import math

from sensor_msgs.msg import JointState

from dyn_ros.msg import JointSpaceDynamics, JointSpaceInertia

from . import conversions
from .base import Output, RobotNode, run
from .derivative_services import DYNAMICS_KERNELS, DYNAMICS_SERVICES
from .derivative_services import SPEC as DERIVATIVES
from .dynamics_services import BATCH_KERNELS, KERNELS, SERVICES
from .inputs import wrenches
from .markers import DYNAMICS


def gravity(robot):
    """`~/gravity`: the torques that hold the robot still."""
    message, effort = conversions.joint_effort(robot)

    def fill():
        effort[:] = robot.terms().g[robot.rows]
        return message
    return fill


def nle(robot):
    """`~/nle`: gravity, Coriolis and centrifugal torques; requires all velocities."""
    message, effort = conversions.joint_effort(robot)

    def fill():
        if not robot.state.velocity_known:
            return None
        effort[:] = robot.terms().nle[robot.rows]
        return message
    return fill


def inertia(robot):
    """`~/inertia`: the joint-space inertia matrix."""
    message = conversions.named(JointSpaceInertia, robot)
    block = conversions.matrix(message.inertia, len(robot.names), len(robot.names))

    def fill():
        block[:] = robot.terms().M[robot.block]
        return message
    return fill


def state(robot):
    """`~/state`: all of the above at one instant; velocity and nle are NaN if one is unknown."""
    whole, still = _state(robot, True), _state(robot, False)
    return lambda: whole() if robot.state.velocity_known else still()


def _state(robot, velocity_valid):
    state, size = robot.state, len(robot.names)
    message = conversions.named(JointSpaceDynamics, robot)
    message.position_name = robot.position_names
    message.velocity_valid = velocity_valid
    position = conversions.numbers(message, "position", len(robot.position_names))
    g = conversions.numbers(message, "gravity", size)
    M = conversions.matrix(message.inertia, size, size)
    v, h = (conversions.numbers(message, field, size) for field in ("velocity", "nle"))
    v[:], h[:] = math.nan, math.nan

    def fill():
        position[:] = state.q[robot.position_rows]
        terms = robot.terms()
        g[:] = terms.g[robot.rows]
        M[:] = terms.M[robot.block]
        if velocity_valid:
            v[:] = state.v[robot.rows]
            h[:] = terms.nle[robot.rows]
        return message
    return fill


class DynamicsNode(RobotNode):
    """Publishes `~/gravity`, `~/nle`, `~/inertia`, `~/state` and `~/markers`; provides services."""

    kernels = ("all_terms", *KERNELS)
    batch_kernels = BATCH_KERNELS
    offers = SERVICES
    markers = DYNAMICS
    outputs = (
        Output("~/gravity", JointState, gravity, ("g",)),
        Output("~/nle", JointState, nle, ("nle",)),
        Output("~/inertia", JointSpaceInertia, inertia, ("M",)),
        Output("~/state", JointSpaceDynamics, state, ("g", "M", "nle")),
    )

    specs = (DERIVATIVES,)

    def __init__(self, name, source=None, **kwargs):
        super().__init__(name, source, **kwargs)
        if self.parameters.values["derivatives"]:
            self.kernels += DYNAMICS_KERNELS
            self.offers += DYNAMICS_SERVICES

    def wanted_inputs(self, values):
        """Return the subscriptions for the wrenches that `~/markers` shows."""
        return wrenches(values["markers.wrench.topics"], values["markers.wrench.frames"],
                        "the parameter markers.wrench.frames")


def main(args=None):
    """Run the node until it is asked to shut down."""
    return run(DynamicsNode, "dynamics", args)


if __name__ == "__main__":
    raise SystemExit(main())
