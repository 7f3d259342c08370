# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a recording does not determine, and which motion would."""
from __future__ import annotations

import numpy as np

from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from .base_parameters import BaseParameters
from .result import BaseEstimate
from .samples import Samples
from .unknowns import Unknowns, is_linear

_POSES = 30


def undetermined(unknowns: Unknowns, base: BaseParameters, values: BaseEstimate,
                 samples: Samples) -> tuple[str, ...]:
    """A sentence for each base parameter that the recording does not determine."""
    missing = [n for n, excited in enumerate(values.excitation) if excited == "not"]
    if not missing:
        return ()
    responses = _responses(unknowns.model)
    fastest = np.quantile(np.abs(samples.v[::1 + len(samples) // 100000]), 0.99, axis=0)
    rate = np.sqrt((samples.a[::1 + len(samples) // 100000] ** 2).mean(axis=0))
    return tuple(base.names[n] + ": " + _remedy(unknowns, base.independent[n], responses, fastest,
                                                rate)
                 for n in missing)


def _remedy(unknowns: Unknowns, lead: int, responses: Array, fastest: Array, rate: Array) -> str:
    """Which motion would determine a parameter."""
    model = unknowns.model
    if lead >= unknowns.bodies:
        k = (lead - unknowns.bodies) % model.nv
        return (f"move {model.velocity_names[k]} in both directions, at several speeds; it reached "
                f"{fastest[k]:.2g} {_unit(model, k)}/s")
    k = int(np.argmax(responses[:, lead]))
    if k == model.nv:
        return "visit more poses: it changes the torque of gravity"
    return (f"accelerate {model.velocity_names[k]} more, in different poses; its RMS acceleration "
            f"was {rate[k]:.2g} {_unit(model, k)}/s2")


def _unit(model: Model, k: int) -> str:
    return "m" if is_linear(model)[k] else "rad"


def _responses(model: Model) -> Array:
    """How much each parameter's torque depends on the motion of each joint, (nv + 1, p).

    The last row is for gravity.
    """
    rng, data = np.random.default_rng(0), Data(model)
    q = np.array([model.random_configuration(rng) for _ in range(_POSES)])
    still = np.zeros((_POSES, model.nv))
    gravity = joint_torque_regressor(model, data, q, still, still).copy()
    found = []
    for k in range(model.nv):
        a = still.copy()
        a[:, k] = 1.0
        moved = joint_torque_regressor(model, data, q, still, a) - gravity
        found.append(np.abs(moved).max(axis=(0, 1)))
    return np.array([*found, np.abs(gravity).max(axis=(0, 1)) / 10.0])
