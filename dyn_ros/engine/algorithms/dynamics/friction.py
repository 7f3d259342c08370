# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Friction torques of the joints."""
from __future__ import annotations

import numpy as np

from ...kernel.lanes import select_above
from ...kernel.types import Array, ArrayLike
from ...machine_code.declare import kernel
from ...model.inputs import as_array, require_model, require_valid
from ...model.model import Model


@kernel
def friction_effort(v, damping, coulomb, reversal):
    """damping v + coulomb sign(v), where the sign changes linearly from -reversal to reversal."""
    ratio = v / select_above(reversal, 0.0, reversal, 1.0)
    sign = select_above(v, reversal, 1.0, select_above(-reversal, v, -1.0, ratio))
    return damping * v + coulomb * sign


def joint_friction(model: Model, v: ArrayLike) -> Array:
    """Torques that overcome the friction of the joints, damping v + friction sign(v).

    Both are those of the model. Only the observers of external efforts include friction. The motors
    of a robot with friction apply ``rnea(model, data, q, v, a) + joint_friction(model, v)``. At
    rest Coulomb friction is not determined by the state; here it is zero.

    Returns
    -------
    (nv,) or (B, nv) ndarray
        A new array [N m, N].

    Examples
    --------
    >>> robot = copy.copy(model)
    >>> robot.damping, robot.friction = np.full(7, 0.5), np.full(7, 1.0)
    >>> print(dyn_ros.joint_friction(robot, [2.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0])[:3])
    [ 2. -2.  0.]
    """
    array, _ = as_array(require_model(model), "v", ("nv",), v)
    require_valid(model, "v", ("nv",), array)
    torque: Array = model.damping * array + model.friction * np.sign(array)
    return torque
