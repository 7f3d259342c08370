# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The error of a singular result."""
import numpy as np


def raise_where_singular(name, model, status):
    """LinAlgError where a kernel has reported a velocity as singular."""
    if status:
        raise np.linalg.LinAlgError(
            f"{name}: {model.velocity_names[status - 1]!r} moves no inertia, so its "
            "acceleration is not determined; give the link that it moves a mass and an "
            "inertia, or set model.armature for it")
