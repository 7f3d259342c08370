# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Simulated recordings of robots whose parameters differ from their description.

    true = perturbed(model, seed=1)         # other inertias, friction, rotor inertias
    recording = record(true, excite(model), offset=offsets(true))
    samples = recording.samples(model)      # input of an identification

A recording has the noise of a real one: positions are rounded to encoder counts, torques have white
noise in proportion to their RMS. `record_standing` and `record_flying`
record legged robots.
"""

import dataclasses

import numpy as np

import dyn_ros
from dyn_ros.identification import Samples


@dataclasses.dataclass(frozen=True, eq=False)
class Recording:
    """Measurements of a robot, with the true robot and its true motion."""

    true: dyn_ros.Model
    offset: np.ndarray  # (nv,) N m, N; constant torques
    time: np.ndarray
    q: np.ndarray  # measured
    tau: np.ndarray  # measured
    exact_q: np.ndarray
    exact_v: np.ndarray
    exact_a: np.ndarray
    exact_tau: np.ndarray
    f_ext: np.ndarray | None = None
    contacts: tuple[str, ...] = ()
    in_contact: np.ndarray | None = None

    def samples(self, model=None, **arguments):
        """Return the measurements as Samples; external forces are known unless f_ext=None."""
        known_forces = dict(f_ext=self.f_ext, contacts=self.contacts, in_contact=self.in_contact)
        return Samples.from_arrays(
            model or self.true, self.time, self.q, self.tau, **known_forces | arguments
        )

    def exact_samples(self):
        """Return the true motion and torques as Samples, without noise and filter."""
        return Samples.from_arrays(
            self.true,
            self.time,
            self.exact_q,
            self.exact_tau,
            self.exact_v,
            self.exact_a,
            f_ext=self.f_ext,
            contacts=self.contacts,
            in_contact=self.in_contact,
        )

    def table(self):
        """Return the columns that `Samples.from_table` reads."""
        model = self.true
        columns = {"time": self.time}
        columns |= {f"position.{name}": self.q[:, k] for k, name in enumerate(model.position_names)}
        columns |= {f"effort.{name}": self.tau[:, k] for k, name in enumerate(model.velocity_names)}
        if self.in_contact is not None:
            columns |= {
                f"in_contact.{name}": self.in_contact[:, k].astype(float)
                for k, name in enumerate(self.contacts)
            }
        return columns


# --- the true robot


def perturbed(model, size=0.2, seed=0, friction=True):
    """Return the robot with other inertias, which are physical, and with friction.

    The mass distribution of each body is deformed by an affine map, by about `size`, and scaled. So
    its pseudo-inertia stays positive semidefinite.
    """
    rng = np.random.default_rng(seed)
    joints = tuple(
        dataclasses.replace(joint, inertia=deform(joint.inertia, size, rng))
        for joint in model.tree.joints
    )
    true = dyn_ros.Model(dataclasses.replace(model.tree, joints=joints), model.gravity)
    single = np.array(
        [count == 1 for count, joint in zip(model.nvs, model.tree.joints) for _ in range(count)]
    )
    true.armature = model.armature
    if not friction:
        true.damping, true.friction = model.damping, model.friction
        return true
    scale = np.where(single, typical_torques(true), 0.0)
    true.friction = scale * rng.uniform(0.05, 0.15, model.nv)
    true.damping = scale * rng.uniform(0.03, 0.1, model.nv)
    true.armature = np.where(single, rng.uniform(0.02, 0.1, model.nv) * diagonal_inertia(true), 0.0)
    return true


def deform(inertia, size, rng):
    """Return a physical inertia close to another one."""
    if not inertia.mass > 0.0:
        return inertia
    A = np.eye(4)
    A[:3, :3] += 0.5 * size * rng.standard_normal((3, 3))
    A[:3, 3] = (
        0.5 * size * rng.standard_normal(3) * np.sqrt(np.trace(inertia.rotational) / inertia.mass)
    )
    J = (1.0 + size * rng.uniform(-1.0, 1.0)) * A @ inertia.pseudo_inertia() @ A.T
    E, h, m = J[:3, :3], J[:3, 3], J[3, 3]
    rotational = np.trace(E) * np.eye(3) - E
    xx, xy, xz, yy, yz, zz = rotational[np.triu_indices(3)]
    return dyn_ros.Inertia.from_dynamic_parameters([m, *h, xx, xy, yy, xz, yz, zz])


def typical_torques(model):
    """Return the RMS torques of random motions, (nv,)."""
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(100)])
    v, a = rng.standard_normal((2, 100, model.nv))
    return np.sqrt(np.mean(dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) ** 2, axis=0))


def diagonal_inertia(model):
    """Return the mean inertia that each coordinate moves, (nv,)."""
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(100)])
    M = dyn_ros.crba(model, dyn_ros.Data(model), q)
    return np.einsum("kii->i", M) / len(q)


def offsets(model, seed=0):
    """Return constant torques of motors or sensors, a few percent of typical torques, (nv,)."""
    size = 0.03 * typical_torques(model) * (model.friction > 0.0)
    return size * np.random.default_rng(seed).uniform(-1.0, 1.0, model.nv)


# --- recordings


def record(true, motion, *, rate=500.0, counts=2**19, noise=0.02, offset=None, seed=0):
    """Record a fixed robot that follows an `Excitation` or a function of time to q, v, a."""
    function = motion.at if hasattr(motion, "at") else motion
    duration = motion.time[-1] if hasattr(motion, "time") else 20.0
    time = np.arange(round(duration * rate) + 1) / rate
    q, v, a = function(time)
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a)
    return measure(true, time, q, v, a, tau, counts=counts, noise=noise, offset=offset, seed=seed)


def measure(true, time, q, v, a, tau, *, counts, noise, offset, seed, **forces):
    """Add friction, offsets and noise, and round the positions."""
    rng = np.random.default_rng(seed)
    offset = np.zeros(true.nv) if offset is None else np.asarray(offset)
    exact = tau + dyn_ros.joint_friction(true, v, tau) + offset
    actuated = np.array([count == 1 for count in true.nvs for _ in range(count)])
    exact[:, ~actuated] = tau[:, ~actuated]
    sigma = noise * np.sqrt(np.mean(exact**2, axis=0)) * actuated
    return Recording(
        true,
        offset,
        time,
        round_positions(true, q, counts, rng),
        exact + sigma * rng.standard_normal(exact.shape),
        q,
        v,
        a,
        exact,
        **forces,
    )


def round_positions(model, q, counts, rng):
    """Return positions as measured by encoders, and by motion capture (10 um, 10 urad)."""
    if counts is None:
        return q.copy()
    step = 2.0 * np.pi / counts
    measured_q = np.round(q / step) * step
    for start, count in zip(model.idx_q, model.nqs):
        if count > 1:
            columns = slice(start, start + count)
            measured_q[:, columns] = q[:, columns] + 1e-5 * rng.standard_normal((len(q), count))
    return model.normalize(measured_q)


def waves(center, size, frequencies, seed=0):
    """Return a function of time to sums of sines and their first two derivatives, (B, n)."""
    rng = np.random.default_rng(seed)
    center, size = np.broadcast_arrays(np.asarray(center, float), np.asarray(size, float))
    w = 2.0 * np.pi * np.asarray(frequencies)
    share = rng.uniform(0.3, 1.0, (len(center), len(w)))
    share *= (size / share.sum(axis=1))[:, None]
    phase = rng.uniform(0.0, 2.0 * np.pi, share.shape)

    def motion(time):
        angle = np.asarray(time)[:, None, None] * w + phase
        return (
            center + np.sum(share * np.sin(angle), axis=2),
            np.sum(share * w * np.cos(angle), axis=2),
            -np.sum(share * w * w * np.sin(angle), axis=2),
        )

    return motion


# --- legged robots with a floating base


def feet(model):
    """Return the names of the feet: the last link of each leg."""
    joints = range(model.njoints)
    tips = [j for j in joints if j not in model.parents]
    return tuple(
        [frame.name for frame in model.tree.frames if frame.parent == tip and frame.kind == "body"][
            -1
        ]
        for tip in tips
    )


def record_standing(
    true, *, seconds=30.0, rate=500.0, counts=2**17, noise=0.02, offset=None, seed=0
):
    """Record a robot whose base and joints move while its feet are in contact.

    The forces on the feet, without moments, make the base follow its motion; they are known in
    `f_ext`. The feet are lifted one at a time. They may slide: the equations of motion stay true.
    """
    time = np.arange(round(seconds * rate)) / rate
    coordinates = waves(
        np.zeros(true.nv),
        np.r_[np.full(3, 0.05), np.full(3, 0.25), np.full(true.nv - 6, 0.5)],
        [0.23, 0.51, 0.87, 1.3],
        seed,
    )
    q, v, a = motion_along(true, coordinates, time)
    names = feet(true)
    in_contact = np.ones((len(time), len(names)), bool)
    for k in range(len(names)):
        in_contact[:, k] = (time % (len(names) + 1.0)).astype(int) != k
    data = dyn_ros.Data(true)
    free = dyn_ros.rnea(true, data, q, v, a)
    f_ext = contact_forces(true, q, free[:, :6], names, in_contact)
    tau = dyn_ros.rnea(true, data, q, v, a, f_ext)
    assert np.abs(tau[:, :6]).max() < 1e-8 * np.abs(free).max()
    tau[:, :6] = 0.0
    return measure(
        true,
        time,
        q,
        v,
        a,
        tau,
        counts=counts,
        noise=noise,
        offset=offset,
        seed=seed,
        f_ext=f_ext,
        contacts=names,
        in_contact=in_contact,
    )


def motion_along(model, coordinates, time, h=1e-3):
    """Return q, v, a of a robot moved by coordinates from neutral, by finite differences."""

    def position(k):
        start = np.tile(model.neutral(), (len(time), 1))
        return model.integrate(start, coordinates(time + k * h)[0])

    positions = {k: position(k) for k in range(-4, 5)}

    def velocity(k):
        single_step, double_step = (
            model.difference(positions[k - n], positions[k])
            + model.difference(positions[k], positions[k + n])
            for n in (1, 2)
        )
        return (4.0 * single_step / (2.0 * h) - double_step / (4.0 * h)) / 3.0

    rates = {k: velocity(k) for k in range(-2, 3)}
    a = (8.0 * (rates[1] - rates[-1]) - (rates[2] - rates[-2])) / (12.0 * h)
    return positions[0], rates[0], a


def contact_forces(model, q, base, names, in_contact):
    """Return the smallest forces on the feet that apply a wrench to the base, as `f_ext`."""
    data = dyn_ros.Data(model)
    reference = dyn_ros.ReferenceFrame.LOCAL
    J = (
        np.stack(
            [
                dyn_ros.frame_jacobian(model, data, q, name, reference)[:, :3, :6].copy()
                for name in names
            ],
            axis=1,
        )
        * in_contact[:, :, None, None]
    )
    G = J.reshape(len(q), -1, 6).swapaxes(1, 2)  # (B, 6, 3 feet)
    forces = (np.linalg.pinv(G) @ base[:, :, None])[:, :, 0].reshape(len(q), len(names), 3)
    f_ext = np.zeros((len(q), model.njoints, 6))
    for k, name in enumerate(names):
        frame = model.tree.frames[model.frame_names.index(name)]
        force = forces[:, k] @ frame.placement[:3, :3].T
        f_ext[:, frame.parent, :3] += force
        f_ext[:, frame.parent, 3:] += np.cross(frame.placement[:3, 3], force)
    return f_ext


def record_flying(
    true, *, flights=12, seconds=1.5, rate=500.0, counts=2**17, noise=0.02, offset=None, seed=0
):
    """Record a robot without contacts: its base moves by its own dynamics, in several flights.

    The time stamps have a gap of one second between flights.
    """
    steps = round(seconds * rate)
    half = np.arange(2 * steps) / (2.0 * rate)
    joints = [
        waves(np.zeros(true.nv - 6), 0.6, [0.7, 1.5, 2.3], seed + k)(half) for k in range(flights)
    ]
    q, v, a = simulate_fall(true, np.moveaxis(joints, 0, 2), 1.0 / rate)
    time = np.concatenate([half[::2] + k * (seconds + 1.0) for k in range(flights)])
    tau = dyn_ros.rnea(true, dyn_ros.Data(true), q, v, a)
    assert np.abs(tau[:, :6]).max() < 1e-8 * np.abs(tau).max()
    tau[:, :6] = 0.0
    return measure(true, time, q, v, a, tau, counts=counts, noise=noise, offset=offset, seed=seed)


def simulate_fall(model, joints, step):
    """Simulate bases in free fall while the joints move as given, by Runge-Kutta of order 4.

    The joints are q, v, a at steps and between them: (3, 2 steps, flights, joints). Returns q, v, a
    of all flights, one after the other.
    """
    data = dyn_ros.Data(model)
    flights, fixed = joints.shape[2], np.zeros((joints.shape[2], model.nv - 6))

    def state(row, base_q, base_v):
        q, v = np.c_[base_q, joints[0, row]], np.c_[base_v, joints[1, row]]
        a = np.c_[np.zeros((flights, 6)), joints[2, row]]
        bias = dyn_ros.rnea(model, data, q, v, a)[:, :6, None]
        a[:, :6] = np.linalg.solve(dyn_ros.crba(model, data, q)[:, :6, :6], -bias)[:, :, 0]
        return q, v, a

    base_q, base_v = np.tile(model.neutral()[:7], (flights, 1)), np.zeros((flights, 6))
    states = []
    for row in range(0, joints.shape[1] - 2, 2):
        q, v, a = state(row, base_q, base_v)
        states.append((q, v, a))
        k_v, k_a = [base_v], [a[:, :6]]  # rates of exponential coordinates relative to q
        for row_step, share in ((1, 0.5), (1, 0.5), (2, 1.0)):
            speed = base_v + share * step * k_a[-1]
            displacement = share * step * k_v[-1]
            next_q = model.integrate(q, np.c_[displacement, fixed])[:, :7]
            k_a.append(state(row + row_step, next_q, speed)[2][:, :6])
            turn = bracket(displacement, speed)
            k_v.append(speed + turn / 2.0 + bracket(displacement, turn) / 12.0)
        displacement = step / 6.0 * (k_v[0] + 2.0 * k_v[1] + 2.0 * k_v[2] + k_v[3])
        base_q = model.integrate(q, np.c_[displacement, fixed])[:, :7]
        base_v = base_v + step / 6.0 * (k_a[0] + 2.0 * k_a[1] + 2.0 * k_a[2] + k_a[3])
    states.append(state(joints.shape[1] - 2, base_q, base_v))
    return tuple(
        np.stack(arrays, axis=1).reshape(-1, arrays[0].shape[1]) for arrays in zip(*states)
    )


def bracket(p, v):
    """Return the Lie bracket of twists."""
    linear = np.cross(p[:, 3:], v[:, :3]) + np.cross(p[:, :3], v[:, 3:])
    return np.c_[linear, np.cross(p[:, 3:], v[:, 3:])]
