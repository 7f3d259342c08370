# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""States of a robot in motion, for tests without recordings."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import dyn_ros

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
START = 1_700_000_000_000_000_000  # ns


class States(NamedTuple):
    """Arrays with the fields of `dyn_ros.states.joint_states.States`."""

    log_time: Any
    stamp: Any
    q: Any
    v: Any
    tau: Any
    behind: Any

    def rows(self, selection):
        """Return some of the states."""
        return States(*(array[selection] for array in self))


def model_of(path=ARM7, root_joint=None, friction=True):
    """Return a robot with friction."""
    model = dyn_ros.Model.from_urdf_file(path, root_joint=root_joint)
    if friction:
        first = int(model.nvs[0]) if root_joint else 0
        model.damping[first:] = 0.3
        model.friction[first:] = 0.2
    return model


def moving(model, seconds=2.0, rate=1000.0, jitter=0.0, seed=0):
    """Return states of a smooth motion with the efforts of the model and noise."""
    rng = np.random.default_rng(seed)
    count = round(seconds * rate)
    time = (np.arange(count) + jitter * rng.uniform(-0.5, 0.5, count)) / rate
    stamp = START + np.round(1e9 * time).astype(np.int64)
    time = 1e-9 * (stamp - START)[:, None]
    phase = 1.5 * np.arange(1, model.nv + 1) ** 0.5
    step, v = 0.4 * np.sin(phase * time), 0.4 * phase * np.cos(phase * time)
    a = -0.4 * phase**2 * np.sin(phase * time)
    start = model.random_configuration(rng)
    q = model.integrate(np.tile(start, (count, 1)), step)
    if model.nq > model.nv:  # v is expressed in the moving base
        v[:, :6] = 0.1 * np.sin(phase[:6] * time)
        a[:, :6] = 0.1 * phase[:6] * np.cos(phase[:6] * time)
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + rng.normal(size=v.shape)
    if model.nq > model.nv:
        tau[:, :6] = 0.0
    return States(stamp.copy(), stamp, q, v, tau, np.zeros(count, np.int64))
