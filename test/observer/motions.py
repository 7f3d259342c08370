# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Smooth motions of any robot under known external efforts, without noise."""

import itertools
from typing import NamedTuple

import numpy as np

import dyn_ros
import peer


class Motion(NamedTuple):
    """Samples: q, v, a, external efforts, and the efforts of the motors."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    external: np.ndarray
    tau: np.ndarray


def lossy(robot, root_joint=None):
    """A robot with rotors, damping and Coulomb friction, and gravity in all directions."""
    model = peer.new_pair(robot, root_joint).model
    model.gravity = (1.5, -2.5, 9.0)
    model.armature = np.linspace(0.1, 0.5, model.nv)
    model.damping = np.linspace(0.2, 0.6, model.nv)
    model.friction = np.linspace(0.5, 0.1, model.nv)
    return model


def rates(seed, model, times):
    """Velocities and accelerations: sums of sines, which do not change their sign."""
    rng = np.random.default_rng(seed)
    speed, phase = rng.uniform(1.0, 4.0, model.nv), rng.uniform(0.0, 6.0, model.nv)
    size = rng.uniform(0.2, 0.6, model.nv) * rng.choice([-1.0, 1.0], model.nv)
    angle = np.multiply.outer(times, speed) + phase
    return size * (1.3 + np.sin(angle)), size * speed * np.cos(angle)


def configurations(model, q, times, rate):
    """The configurations of a velocity over time, to the fourth order (Gauss-Magnus)."""
    found, root = [np.array(q)], np.sqrt(3.0)
    for start, stop in itertools.pairwise(times):
        # small steps: the velocities of floating and spherical joints at two times do not commute
        h = (stop - start) / 4
        for k in range(4):
            middle = start + (k + 0.5) * h
            mean = 0.5 * (rate(middle - h * root / 6) + rate(middle + h * root / 6))
            q = model.integrate(q, h * mean)
        found.append(model.normalize(q))
    return np.array(found)


def motion(model, times, seed=0, external=None):
    """A motion under external efforts that vary slowly; ``external(times)`` for others."""

    def rate(t):
        return rates(seed, model, np.array([t]))[0][0]

    data = dyn_ros.Data(model)
    q = configurations(model, model.random_configuration(np.random.default_rng(seed)), times, rate)
    v, a = rates(seed, model, times)
    forces = 5.0 * np.sin(np.multiply.outer(times, np.linspace(2.0, 6.0, model.nv)))
    if external is not None:
        forces = np.broadcast_to(external(times), v.shape)
    tau = dyn_ros.rnea(model, data, q, v, a) + dyn_ros.joint_friction(model, v) - forces
    return Motion(q, v, a, forces, tau)


def filtered(values, dt, gain):
    """A filter of the first order, with the mean of both ends in each step; zero at first."""
    found, r = [np.zeros(values.shape[1])], np.zeros(values.shape[1])
    for before, after, h in zip(values[:-1], values[1:], np.broadcast_to(dt, len(values))[1:]):
        e = np.exp(-gain * h)
        r = e * r + (1.0 - e) * 0.5 * (before + after)
        found.append(r)
    return np.array(found)
