# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A dense solution of constrained dynamics, from Pinocchio's M, nle and Jacobians."""

from types import SimpleNamespace

import numpy as np
import pinocchio


def copied(found):
    """A ConstrainedMotion that no later call writes over."""
    return found._replace(**{name: np.copy(x) for name, x in found._asdict().items()})


def tip_terms(pair, q, v, frame):
    """(J, b, p): a frame accelerates with J ddq + b, in the root's axes at its origin p."""
    number = pair.model.frame_index(frame) + 1  # Pinocchio's universe is 0
    q_pin, v_pin = pair.to_pin_q(q), pair.G @ v
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, q_pin, v_pin, 0.0 * v_pin)
    pinocchio.updateFramePlacements(pair.pin, pair.pin_data)
    aligned = pinocchio.LOCAL_WORLD_ALIGNED
    b = pinocchio.getFrameAcceleration(pair.pin, pair.pin_data, number, aligned).vector
    p = pair.pin_data.oMf[number].translation.copy()
    J = pinocchio.computeFrameJacobian(pair.pin, pair.pin_data, q_pin, number, aligned)
    return J @ pair.G, b, p


def tips_of(tip, m):
    return [tip] * m if isinstance(tip, str) else list(tip)


def terms(pair, q, v, alpha, beta, tip, root_acc=None, f_ext=None, ff_torques=None):
    """What all that follows is made of: M, A = J' alpha, the free motion and its excess."""
    model, m = pair.model, len(beta)
    root = np.zeros(6)
    root[:3] = -model.gravity
    if root_acc is not None:
        root = np.asarray(root_acc, float)
    zero = np.zeros(model.nv)
    before = pair.pin.gravity.linear.copy()
    pair.pin.gravity.linear = -root[:3]
    h = pair.rnea(q, v, zero) + root_turn(pair, q, root[3:])
    pair.pin.gravity.linear = before
    M = pair.crba(q)
    push = zero if f_ext is None else pair.rnea(q, zero, zero) - pair.rnea(q, zero, zero, f_ext)
    ff = zero if ff_torques is None else ff_torques
    A, rest = np.zeros((model.nv, m)), np.zeros(m)
    for k, frame in enumerate(tips_of(tip, m)):
        J, b, p = tip_terms(pair, q, v, frame)
        A[:, k] = J.T @ alpha[:, k]
        root_there = np.concatenate([root[:3] + np.cross(root[3:], p), root[3:]])
        rest[k] = alpha[:, k] @ (b + root_there) - beta[k]
    return SimpleNamespace(M=M, A=A, rest=rest, h=h, push=push, ff=ff)


def root_turn(pair, q, angular):
    """Torques by which bodies resist an angular acceleration of the root."""
    pinocchio.computeJointJacobians(pair.pin, pair.pin_data, pair.to_pin_q(q))
    total = np.zeros(pair.pin.nv)
    for i in range(1, pair.pin.njoints):
        J = pinocchio.getJointJacobian(pair.pin, pair.pin_data, i, pinocchio.WORLD)
        Y = pair.pin_data.oMi[i].act(pair.pin.inertias[i]).matrix()
        total += J.T @ Y @ np.concatenate([np.zeros(3), angular])
    return pair.G.T @ total


def saddle_point(t):
    """(ddq, nu) of M ddq + A nu = tau - h and A' ddq = beta - ..., solved as one system."""
    n, m = t.A.shape
    K = np.block([[t.M, t.A], [t.A.T, np.zeros((m, m))]])
    x = np.linalg.solve(K, np.concatenate([t.ff + t.push - t.h, -t.rest]))
    return x[:n], x[n:]


def coupling(t):
    """alpha' J M^-1 J' alpha."""
    return t.A.T @ np.linalg.solve(t.M, t.A)


def excess(t, opposed=("ff", "push")):
    """How far the free motion is from beta, by the forces that the constraints oppose."""
    forces = sum((getattr(t, name) for name in opposed), -t.h)
    return t.A.T @ np.linalg.solve(t.M, forces) + t.rest


def motion(t, nu):
    """ddq under the constraint forces -alpha nu."""
    return np.linalg.solve(t.M, t.ff + t.push - t.h - t.A @ nu)


def upper_factor(M):
    """(U, D) of M = U D U'."""
    n = len(M)
    U, D, rest = np.eye(n), np.zeros(n), M.copy()
    for k in range(n - 1, -1, -1):
        D[k] = rest[k, k]
        U[:k, k] = rest[:k, k] / D[k]
        rest[:k, :k] -= np.outer(U[:k, k], rest[:k, k])
    return U, D
