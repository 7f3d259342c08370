# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The functions of `dyn_ros.torch`, written in plain operations of torch.

They are slow, and torch differentiates them as anything else: values and derivatives of all orders
are those that `dyn_ros.torch` and `dyn_ros.jax` must return. The signatures are those of
`dyn_ros.torch`. Motions and forces are (linear, angular), in the frame of their joint.
"""

import numpy as np
import torch

from dyn_ros import ReferenceFrame

# ---------------------------------------------------------------------------- small algebra


def constant(value, like):
    return torch.tensor(np.array(value, float), dtype=like.dtype)


def cat(parts):
    lead = leading(*parts)
    return torch.concatenate([expand(x, lead) for x in parts], -1)


def leading(*arrays, axes=1):
    return np.broadcast_shapes(*(tuple(x.shape[: len(x.shape) - axes]) for x in arrays))


def expand(x, lead, axes=1):
    return torch.broadcast_to(x, (*lead, *x.shape[len(x.shape) - axes :]))


def matrix(rows):
    """A matrix from rows of numbers (...)."""
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def block(rows):
    """A matrix from rows of matrices."""
    lead = np.broadcast_shapes(*(tuple(x.shape[:-2]) for row in rows for x in row))
    rows = [[expand(x, lead, 2) for x in row] for row in rows]
    return torch.concatenate([torch.concatenate(row, -1) for row in rows], -2)


def transposed(A):
    return torch.swapaxes(A, -1, -2)


def times(A, x):
    return (A @ x[..., None])[..., 0]


def skew(v):
    x, y, z = v[..., 0], v[..., 1], v[..., 2]
    o = 0.0 * x
    return matrix([[o, -z, y], [z, o, -x], [-y, x, o]])


def dot(x, y):
    return torch.sum(x * y, -1)


def homogeneous(R, p):
    """A placement (..., 4, 4)."""
    lead = np.broadcast_shapes(tuple(R.shape[:-2]), tuple(p.shape[:-1]))
    bottom = expand(constant([[0.0, 0.0, 0.0, 1.0]], p), lead, 2)
    top = [expand(R, lead, 2), expand(p, lead)[..., None]]
    return torch.concatenate([torch.concatenate(top, -1), bottom], -2)


def adjoint(X):
    """The matrix (..., 6, 6) that moves motions along a placement."""
    R, p = X[..., :3, :3], X[..., :3, 3]
    return block([[R, skew(p) @ R], [0.0 * R, R]])


def inverse_adjoint(X):
    Rt, p = transposed(X[..., :3, :3]), X[..., :3, 3]
    return block([[Rt, -Rt @ skew(p)], [0.0 * Rt, Rt]])


def bracket(v):
    """The matrix (..., 6, 6) of the product of motions v x."""
    v, w = skew(v[..., :3]), skew(v[..., 3:])
    return block([[w, v], [0.0 * w, w]])


def inertia_matrix(p):
    """The matrix (..., 6, 6) of ten inertial parameters."""
    m, xx, xy, yy, xz, yz, zz = (p[..., k] for k in (0, 4, 5, 6, 7, 8, 9))
    mc = skew(p[..., 1:4])
    mass = m[..., None, None] * constant(np.eye(3), p)
    about = matrix([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return block([[mass, -mc], [mc, about]])


def rotation(x):
    """The rotation matrix of a unit quaternion x, y, z, w."""
    i, j, k, w = (x[..., n] for n in range(4))
    return matrix(
        [
            [1 - 2 * (j * j + k * k), 2 * (i * j - k * w), 2 * (i * k + j * w)],
            [2 * (i * j + k * w), 1 - 2 * (i * i + k * k), 2 * (j * k - i * w)],
            [2 * (i * k - j * w), 2 * (j * k + i * w), 1 - 2 * (i * i + j * j)],
        ]
    )


def axis_rotation(axis, angle):
    along = constant(np.outer(axis, axis), angle)
    rest = constant(np.eye(3) - np.outer(axis, axis), angle)
    across = skew(constant(axis, angle))
    angle = angle[..., None, None]
    return along + torch.cos(angle) * rest + torch.sin(angle) * across


# ---------------------------------------------------------------------------- the robot


def normalize(model, q):
    parts, at = [], 0
    for joint, start, nq in zip(model.tree.joints, model.idx_q, model.nqs, strict=True):
        if joint.kind in ("floating", "spherical"):
            k = start + nq - 4
            x = q[..., k : k + 4]
            parts += [q[..., at:k], x / torch.sqrt(dot(x, x))[..., None]]
            at = k + 4
    return cat([*parts, q[..., at:]]) if parts else q


def motion(joint, x):
    """The placement of a joint's frame in its position x, from its position zero."""
    zero = 0.0 * expand(x[..., :1], tuple(x.shape[:-1]))
    if joint.kind == "floating":
        return homogeneous(rotation(x[..., 3:]), x[..., :3])
    if joint.kind == "spherical":
        return homogeneous(rotation(x), cat([zero, zero, zero]))
    if joint.kind == "planar":
        R = axis_rotation([0.0, 0.0, 1.0], x[..., 2])
        return homogeneous(R, cat([x[..., :2], zero]))
    if joint.kind == "prismatic":
        R = axis_rotation([0.0, 0.0, 1.0], zero[..., 0])
        return homogeneous(R, x * constant(joint.axis, x))
    return homogeneous(axis_rotation(joint.axis, x[..., 0]), cat([zero, zero, zero]))


def subspace(joint):
    """The directions of a joint, (6, its nv)."""
    if joint.kind == "floating":
        return np.eye(6)
    if joint.kind == "spherical":
        return np.eye(6)[:, 3:]
    if joint.kind == "planar":
        return np.eye(6)[:, [0, 1, 5]]
    zero = np.zeros(3)
    parts = (joint.axis, zero) if joint.kind == "prismatic" else (zero, joint.axis)
    return np.concatenate(parts)[:, None]


def columns(model, i):
    """The velocity of joint i, (6, nv), for each number of v."""
    joint = model.tree.joints[i]
    S = np.zeros((6, model.nv))
    ratio = joint.mimic.multiplier if joint.mimic else 1.0
    own = subspace(joint)
    S[:, model.idx_v[i] : model.idx_v[i] + own.shape[1]] = ratio * own
    return S


def joint_steps(model, q, joint_placements=None):
    """The placement of each joint in its parent's frame."""
    q = normalize(model, q)
    for i, joint in enumerate(model.tree.joints):
        at = model.idx_q[i]
        x = q[..., at : at + model.nqs[i]]
        if joint.mimic:
            x = joint.mimic.multiplier * q[..., at : at + 1] + joint.mimic.offset
        if joint_placements is None:
            fixed = constant(joint.placement, q)
        else:
            fixed = joint_placements[..., i, :, :]
        yield fixed @ motion(joint, x)


def joint_frames(model, q, joint_placements=None):
    placements = []
    for i, step in enumerate(joint_steps(model, q, joint_placements)):
        parent = model.parents[i]
        placements.append(step if parent < 0 else placements[parent] @ step)
    return placements


def jacobians(model, q, joint_placements=None):
    """The Jacobian (..., 6, nv) of each joint, in its frame."""
    found = []
    for i, step in enumerate(joint_steps(model, q, joint_placements)):
        S, parent = constant(columns(model, i), q), model.parents[i]
        J = expand(S, tuple(step.shape[:-2]), 2)
        found.append(J if parent < 0 else inverse_adjoint(step) @ found[parent] + J)
    return found


def parameters_of(model, like, inertial_parameters=None):
    if inertial_parameters is None:
        inertial_parameters = constant(model.inertial_parameters, like)
    return inertial_parameters


# ---------------------------------------------------------------------------- the functions


def rnea(
    model,
    q,
    v,
    a,
    f_ext=None,
    *,
    inertial_parameters=None,
    armature=None,
    gravity=None,
    joint_placements=None,
):
    theta = parameters_of(model, q, inertial_parameters)
    armature = constant(model.armature, q) if armature is None else armature
    gravity = constant(model.gravity, q) if gravity is None else gravity
    root = -cat([gravity, 0.0 * gravity])
    forces, accelerations, velocities, steps = [], [], [], []
    for i, step in enumerate(joint_steps(model, q, joint_placements)):
        S, parent = constant(columns(model, i), q), model.parents[i]
        X, own = inverse_adjoint(step), times(S, v)
        if parent < 0:
            velocity, carried = own, times(X, root)
        else:
            velocity = times(X, velocities[parent]) + own
            carried = times(X, accelerations[parent])
        acceleration = carried + times(S, a) + times(bracket(velocity), own)
        inertia = inertia_matrix(theta[..., i, :])
        momentum = times(inertia, velocity)
        force = times(inertia, acceleration) - times(transposed(bracket(velocity)), momentum)
        if f_ext is not None:
            force = force - f_ext[..., i, :]
        steps.append(X)
        velocities.append(velocity)
        accelerations.append(acceleration)
        forces.append(force)
    tau = armature * a
    for i in reversed(range(model.njoints)):
        S, parent = constant(columns(model, i), q), model.parents[i]
        tau = tau + times(transposed(S), forces[i])
        if parent >= 0:
            forces[parent] = forces[parent] + times(transposed(steps[i]), forces[i])
    return tau


def nonlinear_effects(model, q, v, **parameters):
    return rnea(model, q, v, 0.0 * v, **parameters)


def generalized_gravity(model, q, **parameters):
    still = expand(0.0 * constant(model.armature, q), tuple(q.shape[:-1]))
    return rnea(model, q, still, still, **parameters)


def crba(model, q, *, inertial_parameters=None, armature=None, joint_placements=None):
    theta = parameters_of(model, q, inertial_parameters)
    armature = constant(model.armature, q) if armature is None else armature
    M = armature[..., None] * constant(np.eye(model.nv), q)
    for i, J in enumerate(jacobians(model, q, joint_placements)):
        M = M + transposed(J) @ inertia_matrix(theta[..., i, :]) @ J
    return M


def minverse(model, q, **parameters):
    return torch.linalg.inv(crba(model, q, **parameters))


def aba(model, q, v, tau, f_ext=None, *, gravity=None, **parameters):
    M = crba(model, q, **parameters)
    rest = tau - rnea(model, q, v, 0.0 * v, f_ext, gravity=gravity, **parameters)
    lead = np.broadcast_shapes(tuple(M.shape[:-2]), tuple(rest.shape[:-1]))
    M, rest = expand(M, lead, 2), expand(rest, lead)
    return torch.linalg.solve(M, rest[..., None])[..., 0]


def forward_kinematics(model, q, *, joint_placements=None):
    return torch.stack(joint_frames(model, q, joint_placements), -3)


def frame_placements(model, q, *, joint_placements=None):
    joints = joint_frames(model, q, joint_placements)
    found = [placed(joints, frame, q) for frame in model.tree.frames]
    return torch.stack([expand(X, leading(*joints, axes=2), 2) for X in found], -3)


def placed(joints, frame, q):
    """The placement of a frame from those of the joints."""
    local = constant(frame.placement, q)
    return local if frame.parent < 0 else joints[frame.parent] @ local


def frame_placement(model, q, frame, *, joint_placements=None):
    joints = joint_frames(model, q, joint_placements)
    return placed(joints, model.tree.frames[model.frame_index(frame)], q)


def frame_jacobian(model, q, frame, reference_frame, *, joint_placements=None):
    frame = model.tree.frames[model.frame_index(frame)]
    local = constant(frame.placement, q)
    J = inverse_adjoint(local) @ jacobians(model, q, joint_placements)[frame.parent]
    X = frame_placement(model, q, frame.name, joint_placements=joint_placements)
    if reference_frame == ReferenceFrame.LOCAL:
        return J
    if reference_frame == ReferenceFrame.LOCAL_WORLD_ALIGNED:
        X = homogeneous(X[..., :3, :3], 0.0 * X[..., :3, 3])
    return adjoint(X) @ J


def frame_velocity(model, q, v, frame, reference_frame, **parameters):
    return times(frame_jacobian(model, q, frame, reference_frame, **parameters), v)


def center_of_mass(model, q, *, inertial_parameters=None, joint_placements=None):
    theta = parameters_of(model, q, inertial_parameters)
    mass, moment = 0.0, 0.0
    for i, X in enumerate(joint_frames(model, q, joint_placements)):
        m, mc = theta[..., i, :1], theta[..., i, 1:4]
        mass, moment = mass + m, moment + m * X[..., :3, 3] + times(X[..., :3, :3], mc)
    return moment / mass


def centroidal_momentum(model, q, v, *, inertial_parameters=None, joint_placements=None):
    theta = parameters_of(model, q, inertial_parameters)
    parameters = {
        "inertial_parameters": inertial_parameters,
        "joint_placements": joint_placements,
    }
    com = center_of_mass(model, q, **parameters)
    placements = joint_frames(model, q, joint_placements)
    total = 0.0
    for i, J in enumerate(jacobians(model, q, joint_placements)):
        X = placements[i]
        X = homogeneous(X[..., :3, :3], X[..., :3, 3] - com)
        h = times(inertia_matrix(theta[..., i, :]), times(J, v))
        total = total + times(transposed(inverse_adjoint(X)), h)
    return total


def kinetic_energy(model, q, v, **parameters):
    return 0.5 * dot(v, times(crba(model, q, **parameters), v))


def potential_energy(model, q, *, inertial_parameters=None, gravity=None, joint_placements=None):
    theta = parameters_of(model, q, inertial_parameters)
    gravity = constant(model.gravity, q) if gravity is None else gravity
    energy = 0.0
    for i, X in enumerate(joint_frames(model, q, joint_placements)):
        m, mc = theta[..., i, :1], theta[..., i, 1:4]
        moment = m * X[..., :3, 3] + times(X[..., :3, :3], mc)
        energy = energy - dot(moment, gravity)
    return energy


def mechanical_energy(model, q, v, *, armature=None, gravity=None, **parameters):
    moving = kinetic_energy(model, q, v, armature=armature, **parameters)
    return moving + potential_energy(model, q, gravity=gravity, **parameters)


def contact_dynamics(model, q, v, tau, contacts, f_ext=None, damping=0.0, **parameters):
    """For points in their own axes, without gains and other bodies."""
    placements = {k: x for k, x in parameters.items() if k == "joint_placements"}
    M = crba(model, q, **{k: x for k, x in parameters.items() if k != "gravity"})
    rest = tau - rnea(model, q, v, 0.0 * v, f_ext, **parameters)
    rows, drifts = [], []
    for contact in contacts:
        J = frame_jacobian(model, q, contact.frame, ReferenceFrame.LOCAL, **placements)
        rows.append(J[..., :3, :])
        drifts.append(point_drift(model, q, v, contact.frame, **placements))
    lead = np.broadcast_shapes(tuple(M.shape[:-2]), tuple(rest.shape[:-1]))
    J = torch.concatenate([expand(x, lead, 2) for x in rows], -2)
    drift = cat(drifts)
    eye = constant(np.eye(drift.shape[-1]), q)
    Jt = transposed(J)
    Minv_Jt = torch.linalg.solve(expand(M, lead, 2), Jt)
    free = torch.linalg.solve(expand(M, lead, 2), expand(rest, lead)[..., None])
    G = J @ Minv_Jt + damping * eye
    force = -torch.linalg.solve(G, J @ free + expand(drift, lead)[..., None])
    return (free + Minv_Jt @ force)[..., 0], force[..., 0]


def point_drift(model, q, v, name, joint_placements=None):
    """The acceleration of a frame's origin without joint accelerations, in the frame's axes."""
    frame = model.tree.frames[model.frame_index(name)]
    velocities, accelerations = [], []
    for i, step in enumerate(joint_steps(model, q, joint_placements)):
        S, parent = constant(columns(model, i), q), model.parents[i]
        X, own = inverse_adjoint(step), times(S, v)
        velocity, carried = own, 0.0 * own
        if parent >= 0:
            velocity = times(X, velocities[parent]) + own
            carried = times(X, accelerations[parent])
        velocities.append(velocity)
        accelerations.append(carried + times(bracket(velocity), own))
    X = inverse_adjoint(constant(frame.placement, q))
    v, a = times(X, velocities[frame.parent]), times(X, accelerations[frame.parent])
    return a[..., :3] + times(skew(v[..., 3:]), v[..., :3])


def joint_friction(model, v, *, damping=None, friction=None):
    """Without drives."""
    damping = constant(model.damping, v) if damping is None else damping
    friction = constant(model.friction, v) if friction is None else friction
    return damping * v + friction * torch.sign(v)


def integrate(model, q, v):
    q = normalize(model, q)
    parts = []
    for i, joint in enumerate(model.tree.joints):
        if joint.mimic:
            continue
        x = q[..., model.idx_q[i] : model.idx_q[i] + model.nqs[i]]
        u = v[..., model.idx_v[i] : model.idx_v[i] + model.nvs[i]]
        parts.append((model.idx_q[i], integrated(joint, x, u)))
    return cat([x for _, x in sorted(parts, key=lambda part: part[0])])


def stepped(model, q, v):
    """q after a short motion with velocity v, to first order, as `integrate` moves it."""
    q = normalize(model, q)
    parts = []
    for i, joint in enumerate(model.tree.joints):
        if joint.mimic:
            continue
        x = q[..., model.idx_q[i] : model.idx_q[i] + model.nqs[i]]
        u = v[..., model.idx_v[i] : model.idx_v[i] + model.nvs[i]]
        if joint.kind in ("floating", "spherical"):
            w = cat([0.5 * u[..., -3:], 0.0 * u[..., :1]])
            x = x + cat([0.0 * x[..., :-4], product(x[..., -4:], w)])
            if joint.kind == "floating":
                p = times(rotation(x[..., 3:].detach()), u[..., :3])
                x = x + cat([p, 0.0 * x[..., 3:]])
        elif joint.kind == "planar":
            R = axis_rotation([0.0, 0.0, 1.0], x[..., 2])[..., :2, :2]
            x = x + cat([times(R, u[..., :2]), u[..., 2:]])
        else:
            x = x + u
        parts.append((model.idx_q[i], x))
    return cat([x for _, x in sorted(parts, key=lambda part: part[0])])


def integrated(joint, x, v):
    if joint.kind == "spherical":
        return product(x, quaternion(v))
    if joint.kind == "floating":
        p = x[..., :3] + times(rotation(x[..., 3:]) @ left(v[..., 3:]), v[..., :3])
        return cat([p, product(x[..., 3:], quaternion(v[..., 3:]))])
    if joint.kind == "planar":
        zero = 0.0 * v[..., :1]
        turn = cat([zero, zero, v[..., 2:]])
        R = axis_rotation([0.0, 0.0, 1.0], x[..., 2])
        p = times(R @ left(turn), cat([v[..., :2], zero]))
        return cat([x[..., :2] + p[..., :2], x[..., 2:] + v[..., 2:]])
    return x + v


def left(w):
    """The integral of the rotation by w over one unit of time, (..., 3, 3); w is not zero."""
    angle = torch.sqrt(dot(w, w))[..., None, None]
    W = skew(w)
    return (
        constant(np.eye(3), w)
        + (1.0 - torch.cos(angle)) / angle**2 * W
        + (angle - torch.sin(angle)) / angle**3 * W @ W
    )


def quaternion(w):
    """The quaternion of a rotation vector, which is not zero."""
    half = 0.5 * torch.sqrt(dot(w, w))[..., None]
    return cat([0.5 * w * torch.sin(half) / half, torch.cos(half)])


def product(x, y):
    u, a, w, b = x[..., :3], x[..., 3:], y[..., :3], y[..., 3:]
    vector = a * w + b * u + times(skew(u), w)
    return cat([vector, a * b - dot(u, w)[..., None]])
