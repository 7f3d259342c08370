# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated arms that move, are pushed and carry payloads, and what their sensors measure.

    arm = Arm(with_friction(load("panda")))         # follows `waves`; 1 kHz, noise as of a real arm
    free = arm.record(60.0)                         # nothing touches it
    for part in arm.parts(3600.0): ...              # an hour, in parts of a minute
    pushed = arm.record(10.0, [Push("tool", [0, 5, 0], start=4.0)])
    heavy = arm.record(10.0, payload=("tool", 0.5, [0, 0, 0.05]))
    soft = arm.simulate(2.0, [Push("tool", [0, 20, 0], start=1.0)])

`record` prescribes the motion and computes the efforts, which is exact and fast: the controller is
infinitely stiff. `simulate` integrates the dynamics under a joint controller that yields.
"""

import copy
import dataclasses
from collections.abc import Callable

import numpy as np
from identification.recordings import offsets, typical_torques
from identification.recordings import waves as sines

import dyn_ros

FREQUENCIES = 0.0713, 0.1291, 0.2237, 0.3881  # Hz: the motion does not repeat
WORLD_AXES = dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED


@dataclasses.dataclass(frozen=True)
class Push:
    """A wrench on the robot at a point of a frame, in axes of the world.

    `force` is (3,) or (6,), or a function of time (B,) to (B, 3) or (B, 6); it acts from `start`
    until `stop`.
    """

    frame: str
    force: object
    start: float = 0.0
    stop: float = np.inf
    point: tuple = (0.0, 0.0, 0.0)  # in the frame

    def wrench(self, time):
        """At each time, (B, 6)."""
        value = self.force(time) if callable(self.force) else np.asarray(self.force, float)
        acting = (time >= self.start) & (time < self.stop)
        found = np.zeros((len(time), 6))
        found[:, : np.shape(value)[-1]] = value
        return found * acting[:, None]


@dataclasses.dataclass(frozen=True, eq=False)
class Recording:
    """What was measured, and what is true."""

    model: dyn_ros.Model  # without the payload
    time: np.ndarray
    q: np.ndarray  # measured
    v: np.ndarray  # measured
    tau: np.ndarray  # measured
    exact_q: np.ndarray
    exact_v: np.ndarray
    exact_a: np.ndarray
    exact_tau: np.ndarray  # of the motors, at the time of the sample
    external: np.ndarray  # (B, nv): J' of the pushes; without the payload

    @property
    def dt(self):
        """The sampling period."""
        return self.time[1] - self.time[0]


# --- robots and motions


def with_friction(model, seed=0, coulomb=(0.05, 0.15), viscous=(0.03, 0.1)):
    """A copy with joint friction in proportion to the usual torques, or 2 % of their limits.

    Rotors have an inertia of 1e-3 kg m2 per N m of the limit.
    """
    rng = np.random.default_rng(seed)
    found = copy.copy(model)
    limit = np.where(np.isfinite(model.effort_limit), model.effort_limit, 0.0)
    scale = np.maximum(typical_torques(model), 0.02 * limit)
    found.friction = scale * rng.uniform(*coulomb, model.nv)
    found.damping = scale * rng.uniform(*viscous, model.nv)
    found.armature = np.maximum(model.armature, 1e-3 * limit)
    return found


def ranges(model, reach=1.2):
    """Centers of motions, and their largest sizes within the limits of positions."""
    lower, upper = np.maximum(model.lower, -np.pi), np.minimum(model.upper, np.pi)
    return (lower + upper) / 2.0, np.minimum(0.4 * (upper - lower), reach)


def waves(model, speed=1.2, seed=0):
    """Sums of sines of all joints with velocities up to `speed` or 60 % of their limits."""
    center, size = ranges(model)
    fastest = np.abs(sines(center, size, FREQUENCIES, seed)(np.arange(0.0, 600.0, 0.05))[1]).max(0)
    limit = np.where(model.velocity_limit > 0.0, 0.6 * model.velocity_limit, np.inf)
    return sines(
        center, size * np.minimum(1.0, np.minimum(limit, speed) / fastest), FREQUENCIES, seed
    )


def moves(model, duration=2.0, rest=1.0, seed=0):
    """Minimum-jerk motions between random poses, with rests between them."""
    center, size = ranges(model)

    def pose(number):
        return center + size * np.random.default_rng((seed, number)).uniform(-1.0, 1.0, model.nv)

    def motion(time):
        index = np.floor(np.asarray(time) / (duration + rest)).astype(int)
        first = max(index.min(), 0)
        poses = np.array([pose(k) for k in range(first, index.max() + 2)])
        start, stop = poses[index.clip(0) - first], poses[index.clip(0) - first + 1]
        s = np.clip((time - index * (duration + rest)) / duration, 0.0, 1.0)[:, None]
        s = np.where(index[:, None] < 0, 0.0, s)
        step = stop - start
        return (
            start + step * s**3 * (10.0 - 15.0 * s + 6.0 * s * s),
            step * 30.0 * (s * (1.0 - s)) ** 2 / duration,
            step * 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / duration**2,
        )

    return motion


# --- the arm


@dataclasses.dataclass(eq=False)
class Arm:
    """An arm with its motion and sensors.

    velocity is what the driver publishes: "differences" of the measured positions, "rounded" to
    1e-4 rad/s, or "exact". noise is that of the efforts, relative to the RMS effort of each joint.
    The measured effort is that of the motors `delay` earlier.
    """

    model: dyn_ros.Model
    motion: Callable | None = None
    rate: float = 1000.0
    counts: int | None = 2**20
    velocity: str = "differences"
    noise: float = 0.02
    delay: float = 0.0
    biased: bool = False  # constant errors of the efforts: 3 % of the usual ones
    seed: int = 0

    def __post_init__(self):
        if self.motion is None:
            self.motion = waves(self.model, seed=self.seed)
        q, v, a = self.motion(np.arange(0.0, 120.0, 0.01))
        tau = self._efforts(self.model, q, v, a)
        self.sigma = self.noise * np.sqrt(np.mean(tau**2, axis=0))
        self.offset = offsets(self.model) * self.biased

    def record(self, seconds, pushes=(), *, start=0.0, payload=None):
        """Record the motion as it is, whatever touches the arm.

        payload is a frame, a mass and a center of mass.
        """
        time = start + np.arange(round(seconds * self.rate)) / self.rate
        q, v, a = self.motion(time)
        external = self._external(q, time, pushes)
        loaded = self._loaded(payload)
        tau = self._efforts(loaded, q, v, a) - external
        seen = tau
        if self.delay:
            earlier = self.motion(time - self.delay)
            seen = self._efforts(loaded, *earlier) - self._external(
                earlier[0], time - self.delay, pushes
            )
        return self._measured(time, q, v, a, tau, seen, external)

    def parts(self, seconds, length=60.0, start=0.0, **arguments):
        """Yield the recording of a long time in parts."""
        for number in range(round(seconds / length)):
            yield self.record(length, start=start + number * length, **arguments)

    def simulate(self, seconds, pushes=(), *, start=0.0, payload=None, bandwidth=40.0, steps=4):
        """Integrate the dynamics under feedforward and a controller that yields to pushes.

        The controller holds its efforts for a sample; bandwidth is that of its stiffness [rad/s].
        Coulomb friction is smooth below 0.01 rad/s.
        """
        model, loaded = self.model, self._loaded(payload)
        data, h = dyn_ros.Data(loaded), 1.0 / (self.rate * steps)
        time = start + np.arange(round(seconds * self.rate)) / self.rate
        wanted_q, wanted_v, wanted_a = self.motion(time)
        feedforward = self._efforts(model, wanted_q, wanted_v, wanted_a)
        M = np.einsum("kii->i", dyn_ros.crba(model, dyn_ros.Data(model), wanted_q)) / len(time)
        kp, kd = bandwidth**2 * M, 1.4 * bandwidth * M
        fine = start + np.arange(2 * len(time) * steps + 1) * (h / 2.0)
        pushed = [(push, push.wrench(fine)) for push in pushes]
        q, v = wanted_q[0].copy(), wanted_v[0].copy()
        found = np.empty((5, len(time), model.nv))

        def rate(q, v, tau, row):
            external = sum(
                (
                    self._jacobian(data, loaded, q, push).T @ wrench[row]
                    for push, wrench in pushed
                    if wrench[row].any()
                ),
                np.zeros(model.nv),
            )
            smooth = model.damping * v + model.friction * np.tanh(v / 0.01)
            return dyn_ros.aba(loaded, data, q, v, tau + external - smooth).copy(), external

        for k in range(len(time)):
            tau = feedforward[k] + kp * (wanted_q[k] - q) + kd * (wanted_v[k] - v)
            a, external = rate(q, v, tau, 2 * steps * k)
            found[:, k] = q, v, a, tau, external
            for step in range(steps):
                row = 2 * (steps * k + step)
                a1 = rate(q, v, tau, row)[0]
                a2 = rate(q + h / 2 * v, v + h / 2 * a1, tau, row + 1)[0]
                a3 = rate(q + h / 2 * v + h * h / 4 * a1, v + h / 2 * a2, tau, row + 1)[0]
                a4 = rate(q + h * v + h * h / 2 * a2, v + h * a3, tau, row + 2)[0]
                q = q + h * v + h * h / 6 * (a1 + a2 + a3)
                v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        q, v, a, tau, external = found
        return self._measured(time, q, v, a, tau, self._late(time, tau), external)

    def _late(self, time, tau):
        """Efforts as they are measured, by linear interpolation."""
        if not self.delay:
            return tau
        return np.stack([np.interp(time - self.delay, time, column) for column in tau.T], axis=1)

    def _loaded(self, payload):
        if payload is None:
            return self.model
        loaded = copy.copy(self.model)
        frame, mass, com = payload
        loaded.set_payload("load", frame, mass, com, 0.4 * mass * 0.03**2 * np.eye(3))
        return loaded

    def _efforts(self, model, q, v, a):
        """Of the motors; at rest friction keeps the direction of the last motion."""
        direction = np.sign(v)
        last = np.maximum.accumulate(
            np.where(direction != 0.0, np.arange(len(v))[:, None], 0), axis=0
        )
        friction = model.damping * v + model.friction * np.take_along_axis(direction, last, axis=0)
        return dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + friction

    def _external(self, q, time, pushes):
        found = np.zeros((len(time), self.model.nv))
        for push in pushes:
            wrench = push.wrench(time)
            rows = np.flatnonzero(wrench.any(axis=1))
            if rows.size:
                J = self._jacobian(dyn_ros.Data(self.model), self.model, q[rows], push)
                found[rows] += np.einsum("kij,ki->kj", J, wrench[rows])
        return found

    def _jacobian(self, data, model, q, push):
        return dyn_ros.frame_jacobian(
            model, data, q, push.frame, WORLD_AXES, offset=list(push.point)
        )

    def _measured(self, time, q, v, a, tau, seen, external):
        rng = np.random.default_rng((self.seed, round(1e6 * abs(time[0]))))
        noisy = seen + self.offset + self.sigma * rng.standard_normal(tau.shape)
        seen_q = self._counted(q)
        if self.velocity == "differences":
            before = q[:1] - v[:1] / self.rate
            seen_v = np.diff(seen_q, axis=0, prepend=self._counted(before)) * self.rate
        elif self.velocity == "rounded":
            seen_v = np.round(v / 1e-4) * 1e-4
        else:
            seen_v = v
        return Recording(self.model, time, seen_q, seen_v, noisy, q, v, a, tau, external)

    def _counted(self, q):
        if self.counts is None:
            return q
        step = 2.0 * np.pi / self.counts
        return np.round(q / step) * step
