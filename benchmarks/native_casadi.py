# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse dynamics of one robot in C, by CasADi; native.py runs it in an environment of its own.

The recursive Newton-Euler algorithm in body frames, written with the robot's constants, so that
CasADi omits operations with zeros and ones.

    native_casadi.py TREE.json FUNCTION           writes FUNCTION.c
"""

import json
import sys

import casadi
import numpy as np
from casadi import cross, mtimes

_ROUNDING_TOLERANCE = 1e-12


def without_rounding_errors(numbers):
    """Return an array of the numbers, with 0, 1 and -1 in place of numbers close to them."""
    numbers = np.array(numbers, float)
    nearest = np.round(numbers)
    return np.where(
        (abs(numbers - nearest) < _ROUNDING_TOLERANCE) & (abs(nearest) <= 1), nearest, numbers
    )


def constant(numbers):
    return casadi.sparsify(casadi.DM(without_rounding_errors(numbers)))


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


class Body:
    """Joint and its body: placement, motion and momentum."""

    def __init__(self, joint, q, v, a):
        self.joint, k = joint, joint["velocity"]
        placement, axis = (
            without_rounding_errors(joint["placement"]),
            without_rounding_errors(joint["axis"]),
        )
        rotation, translation = placement[:3, :3], placement[:3, 3]
        zero = casadi.DM(3, 1)
        self.v, self.a = v[k], a[k]
        if joint["kind"] == "revolute":
            s, c, uu = casadi.sin(q[k]), casadi.cos(q[k]), np.outer(axis, axis)
            turn = constant(uu) + s * constant(skew(axis)) + c * constant(np.eye(3) - uu)
            self.rotation = mtimes(constant(rotation), turn)
            self.translation = constant(translation)
            self.linear, self.angular = zero, constant(axis)
        else:
            self.rotation = constant(rotation)
            self.translation = constant(translation) + q[k] * constant(rotation @ axis)
            self.linear, self.angular = constant(axis), zero

    def to_child(self, motion):
        linear, angular = motion
        return (
            mtimes(self.rotation.T, linear - cross(self.translation, angular)),
            mtimes(self.rotation.T, angular),
        )

    def to_parent(self, force):
        linear = mtimes(self.rotation, force[0])
        return linear, mtimes(self.rotation, force[1]) + cross(self.translation, linear)

    def momentum(self, motion):
        mass, com = self.joint["mass"], without_rounding_errors(self.joint["com"])
        about_origin = np.array(self.joint["rotational"]) + mass * (
            com @ com * np.eye(3) - np.outer(com, com)
        )
        linear, angular = motion
        moment = constant(mass * com)
        return (
            mass * linear - cross(moment, angular),
            cross(moment, linear) + mtimes(constant(about_origin), angular),
        )

    def force(self, velocity, acceleration):
        (linear, angular), (p, h) = velocity, self.momentum(velocity)
        f = self.momentum(acceleration)
        return f[0] + cross(angular, p), f[1] + cross(angular, h) + cross(linear, p)


def rnea(tree, q, v, a):
    """Return the torques."""
    bodies = [Body(joint, q, v, a) for joint in tree["joints"]]
    zero = casadi.DM.zeros(3)
    velocities, accelerations = [(zero, zero)], [(constant(tree["gravity"]) * -1, zero)]
    forces = []
    for body in bodies:
        parent = body.joint["parent"] + 1
        joint_v, joint_w = body.linear * body.v, body.angular * body.v
        linear, angular = body.to_child(velocities[parent])
        linear, angular = linear + joint_v, angular + joint_w
        linear_a, angular_a = body.to_child(accelerations[parent])
        linear_a += cross(angular, joint_v) + cross(linear, joint_w) + body.linear * body.a
        angular_a += cross(angular, joint_w) + body.angular * body.a
        velocities.append((linear, angular))
        accelerations.append((linear_a, angular_a))
        forces.append(body.force(velocities[-1], accelerations[-1]))
    torques = [None] * len(bodies)
    for i, body in reversed(list(enumerate(bodies))):
        k, parent = body.joint["velocity"], body.joint["parent"]
        linear, angular = forces[i]
        torques[k] = (
            casadi.dot(body.linear, linear)
            + casadi.dot(body.angular, angular)
            + tree["armature"][k] * body.a
        )
        if parent >= 0:
            forces[parent] = tuple(x + y for x, y in zip(forces[parent], body.to_parent(forces[i])))
    return casadi.vertcat(*torques)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tree = json.load(file)
    q, v, a = (casadi.SX.sym(name, len(tree["joints"])) for name in "qva")
    torques = casadi.cse(casadi.densify(rnea(tree, q, v, a)))
    casadi.Function(sys.argv[2], [q, v, a], [torques]).generate(
        f"{sys.argv[2]}.c", {"with_header": False}
    )


if __name__ == "__main__":
    main()
