# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Operational space, and the factors of the dynamics in contact, against their definitions."""

import dense_contacts as dense
import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros import ReferenceFrame

WORLD, LOCAL, ALIGNED = ReferenceFrame
AXES = pytest.mark.parametrize("axes", list(ReferenceFrame), ids=lambda x: x.name)
DIMENSIONS = pytest.mark.parametrize("dimension", [3, 6])
ROBOTS = pytest.mark.parametrize(
    "robot, root_joint, frame",
    [
        ("panda", None, "panda_hand"),
        ("solo12", "floating", "FL_FOOT"),
        ("talos_reduced", "floating", "left_sole_link"),
    ],
)


def jacobian(pair, q, v, frame, axes, dimension):
    """J and dJ/dt; a point in WORLD is that of LOCAL_WORLD_ALIGNED."""
    if dimension == 3 and axes == WORLD:
        axes = ALIGNED
    rate = dyn_ros.frame_jacobian_time_variation(pair.model, pair.data, q, v, frame, axes)
    return pair.data.frame_jacobian[:dimension].copy(), rate[:dimension].copy()


@ROBOTS
@AXES
@DIMENSIONS
def test_equation_of_motion(robot, root_joint, frame, axes, dimension):
    """Lambda x'' + mu + p is the force that torques cause, Jbar' tau."""
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, _, tau = pair.state(3)
    given = model, data, q, frame, axes, dimension
    J, dJ = jacobian(pair, q, v, frame, axes, dimension)
    Minv = np.linalg.inv(pair.crba(q))
    Lambda = dyn_ros.operational_space_inertia(*given).copy()
    Jbar = dyn_ros.dynamically_consistent_inverse(*given).copy()
    mu, p = (
        x.copy() for x in dyn_ros.operational_space_bias(model, data, q, v, frame, axes, dimension)
    )
    peer.close(Lambda @ J @ Minv @ J.T, np.eye(dimension), 1e-9)
    peer.close(Jbar, Minv @ J.T @ Lambda, 1e-9)
    acceleration = J @ dyn_ros.aba(model, data, q, v, tau) + dJ @ v
    peer.close(Lambda @ acceleration + mu + p, Jbar.T @ tau, 1e-9)
    peer.close(p, Jbar.T @ dyn_ros.generalized_gravity(model, data, q), 1e-10)
    N = dyn_ros.null_space_projector(*given)
    peer.close(N, np.eye(model.nv) - J.T @ Jbar.T, 1e-10)


@ROBOTS
def test_batches(robot, root_joint, frame):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.states(9)
    for function in (
        dyn_ros.operational_space_inertia,
        dyn_ros.dynamically_consistent_inverse,
        dyn_ros.null_space_projector,
    ):
        found = function(pair.model, pair.data, q, frame, WORLD)
        for row in range(9):
            peer.close(found[row], function(pair.model, pair.data, q[row], frame, WORLD), 1e-8)
    mu, _ = dyn_ros.operational_space_bias(pair.model, pair.data, q, v, frame, LOCAL)
    peer.close(
        mu[4],
        dyn_ros.operational_space_bias(pair.model, pair.data, q[4], v[4], frame, LOCAL)[0],
        1e-8,
    )


def test_far_from_the_worlds_origin():
    """The projector does not depend on the axes, and the inertia moves as an inertia does."""
    pair = peer.pair("solo12", "floating")
    model, data = pair.model, pair.data
    q = pair.state(0)[0]
    q[:2] += 3000.0
    given = model, data, q, "FL_LOWER_LEG"
    N = dyn_ros.null_space_projector(*given, ALIGNED).copy()
    peer.close(dyn_ros.null_space_projector(*given, WORLD), N, 1e-12)
    inertia = dyn_ros.operational_space_inertia(*given, ALIGNED).copy()
    p = dyn_ros.frame_placements(model, data, q)[model.frame_index("FL_LOWER_LEG"), :3, 3]
    X = np.eye(6)
    X[:3, 3:] = -np.array([[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]])
    peer.close(dyn_ros.operational_space_inertia(*given, WORLD), X.T @ inertia @ X, 1e-12)
    one = [dyn_ros.Contact("FL_LOWER_LEG", reference_frame=WORLD)]
    peer.close(dyn_ros.delassus_inverse(model, data, q, one), X.T @ inertia @ X, 1e-12)


def test_a_frame_that_nothing_moves():
    pair = peer.pair("ur5", None)
    with pytest.raises(ValueError, match="frame: no joint moves 'base_link'"):
        dyn_ros.operational_space_inertia(pair.model, pair.data, pair.state(0)[0], "base_link", 1)


@AXES
@pytest.mark.parametrize("scene", ["solo12", "talos", "panda"])
def test_the_matrix_of_the_dynamics_in_contact(scene, axes):
    robot, root_joint, specs = dense.SCENES[scene]
    pair = peer.pair(robot, root_joint)
    given = dense.ours(dense.in_axes(specs, axes))
    q, v, _, tau = pair.state(1)
    ddq, forces = dyn_ros.contact_dynamics(pair.model, pair.data, q, v, tau, given)
    expected = np.concatenate([-forces.lambda_c, ddq])
    K = dyn_ros.contact_cholesky(pair.model, pair.data, q, given)
    right = dyn_ros.contact_right_side(pair.model, pair.data, q, v, tau, given)
    peer.close(K.U @ np.diag(K.D) @ K.U.T, K.matrix, 1e-12)
    peer.close(K.solve(np.concatenate(right)), expected, 1e-8)
    peer.close(K.inverse() @ K.matrix, np.eye(len(K.D)), 1e-8)
    batch = dyn_ros.contact_cholesky(pair.model, pair.data, np.tile(q, (3, 1)), given)
    peer.close(batch.U[2], K.U, 1e-9)


def test_redundant_contacts_have_no_factor_without_damping():
    pair = peer.pair("solo12", "floating")
    twice = [dyn_ros.Contact("FL_FOOT", 3), dyn_ros.Contact("FL_FOOT", 3, name="again")]
    q = pair.state(0)[0]
    with pytest.raises(np.linalg.LinAlgError, match="set damping to about 1e-6"):
        dyn_ros.contact_cholesky(pair.model, pair.data, q, twice)
    K = dyn_ros.contact_cholesky(pair.model, pair.data, q, twice, 1e-3)
    peer.close(K.U @ np.diag(K.D) @ K.U.T, K.matrix, 1e-12)
