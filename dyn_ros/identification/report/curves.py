# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the figures of a report show: held-out torques, friction and bodies, as arrays."""
from __future__ import annotations

import numpy as np

from ...engine.algorithms import frame_jacobian
from ...engine.call.data import Data
from ...engine.kernel.types import Array
from ...engine.model import Model, ReferenceFrame
from ...engine.model.parameters import pseudo_inertia
from ..filtering import divided
from ..result import Identification
from ..samples import Samples

_SAMPLES = 200_000              # of the held-out ones that are shown
_CHUNK = 8192                   # samples


def shown(result: Identification) -> Samples:
    """The held-out samples, or the beginning of each block if they are many."""
    most = max(2, _SAMPLES // max(len(result.held_out), 1))
    rows = [np.arange(block.start, min(block.stop, block.start + most))
            for block in result.held_out]
    return result.samples.take(np.concatenate([np.arange(0), *rows]))


def stretches_of(samples: Samples) -> list[slice]:
    """Stretches of consecutive samples."""
    if len(samples) == 0:
        return []
    step = np.diff(samples.time)
    typical = np.median(step[step > 0.0]) if (step > 0.0).any() else 0.0
    apart = (np.diff(samples.segment) != 0) | (step <= 0.0) | (step > 3.5 * typical)
    return [slice(*stretch) for stretch in divided(apart)]


def joined_time(samples: Samples, stretches: list[slice]) -> Array:
    """Time that passed in the stretches before each sample, with small pauses between them [s]."""
    time = np.empty(len(samples))
    total = sum(samples.time[stretch.stop - 1] - samples.time[stretch.start]
                for stretch in stretches)
    now, pause = 0.0, 0.004 * total
    for stretch in stretches:
        time[stretch] = now + samples.time[stretch] - samples.time[stretch.start]
        now = time[stretch.stop - 1] + pause
    return time


def peaks(x: Array, y: Array, most: int) -> tuple[Array, Array]:
    """At most so many points of a curve: the lowest and the highest one of each interval."""
    count = len(x)
    if count <= most or most < 4:
        return x, y
    edges = np.linspace(0, count, most // 2 + 1).astype(int)[:-1]
    width = np.diff([*edges, count]).max()
    index = np.minimum(edges[:, None] + np.arange(width), count - 1)
    inside = index < np.append(edges[1:], count)[:, None]
    low = np.where(inside, y[index], np.inf).argmin(1)
    high = np.where(inside, y[index], -np.inf).argmax(1)
    rows = np.arange(len(edges))
    chosen = np.unique(np.concatenate([index[rows, low], index[rows, high]]))
    return x[chosen], y[chosen]


def curve(time: Array, y: Array, stretches: list[slice], most: int) -> tuple[Array, Array]:
    """The points of a curve that is interrupted between stretches."""
    share = most / max(len(time), 1)
    xs: list[Array] = []
    ys: list[Array] = []
    pause = np.array([np.nan])
    for stretch in stretches:
        count = int(share * (stretch.stop - stretch.start))
        x, part = peaks(time[stretch], y[stretch], max(4, count))
        xs += [x, pause]
        ys += [part, pause]
    return (np.concatenate(xs).astype(np.float32), np.concatenate(ys).astype(np.float32))


def predicted(result: Identification, samples: Samples) -> tuple[Array, Array]:
    """Torques before and after, with those of unknown contact forces, (B, nv) each."""
    before, after = result.described_torque(samples), result.torque(samples)
    return (before + contact_torques(result, samples, samples.tau - before),
            after + contact_torques(result, samples, samples.tau - after))


def contact_torques(result: Identification, samples: Samples, residual: Array) -> Array:
    """The part of a residual that contact forces explain, by weighted least squares."""
    explained = np.zeros_like(residual)
    if not samples.contacts:
        return explained
    noise = np.array([joint.noise for joint in result.joints])
    noise = np.where(noise > 0.0, noise, 1.0)
    data, axes = Data(result.model), ReferenceFrame.LOCAL_WORLD_ALIGNED
    for start in range(0, len(samples), _CHUNK):
        rows = slice(start, start + _CHUNK)
        J = np.stack([frame_jacobian(result.model, data, samples.q[rows], frame, axes)
                      for frame in samples.contacts], axis=1)[:, :, :result.contact_dimension]
        if samples.in_contact is not None:
            J *= samples.in_contact[rows][:, :, None, None]
        A = J.reshape(len(J), -1, J.shape[-1]) / noise
        _, sizes, directions = np.linalg.svd(A, full_matrices=False)
        directions *= (sizes > 1e-9 * sizes.max(initial=1e-300))[:, :, None]
        forces = np.einsum("bij,bj->bi", directions, residual[rows] / noise)
        explained[rows] = noise * np.einsum("bij,bi->bj", directions, forces)
    return explained


def single(model: Model) -> list[int]:
    """Velocities of joints with one coordinate: those that have friction."""
    return [model.idx_v[i] for i in range(model.njoints) if model.nvs[i] == 1]


def loss(model: Model, k: int, v: Array, sign: Array) -> Array:
    """Damping and Coulomb friction of a velocity."""
    return model.damping[k] * v + model.friction[k] * sign


def friction_torque(result: Identification, k: int, v: Array, sign: Array) -> Array:
    """Friction and offset as identified."""
    return (loss(result.identified, k, v, sign) + result.offset[k]
            + result.stribeck[k] * sign * np.exp(-(v / result.stribeck_velocity[k]) ** 2))


def central(parameters: Array) -> tuple[float, Array, Array, Array]:
    """Mass, center of mass, second moments of the mass about it per mass, and their axes.

    The moments, (3,) [m2], are ascending, and zero if they are negative.
    """
    P = pseudo_inertia(parameters)
    if not P[3, 3] > 0.0:
        return float(P[3, 3]), np.full(3, np.nan), np.full(3, np.nan), np.eye(3)
    com = P[:3, 3] / P[3, 3]
    moments, axes = np.linalg.eigh(P[:3, :3] / P[3, 3] - np.outer(com, com))
    return float(P[3, 3]), com, np.maximum(moments, 0.0), axes


def body_links(model: Model) -> list[str]:
    """The link that each joint connects."""
    frames = model.tree.frames
    return [next(frame.name for frame in frames if frame.kind == "body" and frame.parent == joint)
            for joint in range(model.njoints)]
