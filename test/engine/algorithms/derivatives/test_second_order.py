# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Second-order derivatives of inverse and forward dynamics.

The references are differences of the first order, and numbers made by Pinocchio in C++.
"""

from pathlib import Path

import numpy as np
import pytest

import dyn_ros
import peer

GOLDEN = Path(__file__).parent / "second_order"
GRAVITY = (1.5, -2.5, 9.0)
EVERY = peer.robots(root_joints=(None, "floating", "planar"))
RNEA = ("d2tau_dqdq", "d2tau_dvdv", "d2tau_dqdv", "d2tau_dadq")
ABA = ("d2ddq_dqdq", "d2ddq_dvdv", "d2ddq_dqdv", "d2ddq_dtaudq")


def differences(function, n, step):
    """Derivatives by n numbers of each matrix of function, the number last; to the sixth order."""
    slopes = []
    for way in step * np.eye(n):
        at = {k: [np.array(matrix) for matrix in function(k * way)] for k in (-3, -2, -1, 1, 2, 3)}
        slopes.append(
            [
                (
                    45.0 * (at[1][m] - at[-1][m])
                    - 9.0 * (at[2][m] - at[-2][m])
                    + at[3][m]
                    - at[-3][m]
                )
                / (60.0 * step)
                for m in range(len(at[1]))
            ]
        )
    return [np.stack(each, -1) for each in zip(*slopes)]


def loaded(robot, root_joint):
    """A pair with odd gravity and armature; its state and wrenches."""
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity(GRAVITY)
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    return pair, pair.state(1), pair.wrenches(1)


def rnea(pair, *inputs, **options):
    return dyn_ros.rnea_second_order_derivatives(pair.model, pair.data, *inputs, **options)


def aba(pair, *inputs, **options):
    return dyn_ros.aba_second_order_derivatives(pair.model, pair.data, *inputs, **options)


BOTH = pytest.mark.parametrize("call, names", [(rnea, RNEA), (aba, ABA)], ids=["rnea", "aba"])


# --- inverse dynamics


@EVERY
def test_rnea_second_order_by_differences(robot, root_joint):
    """Every index: [i, j, k] is the derivative of [i, j] of the first order by k."""
    pair, (q, v, a, _), f_ext = loaded(robot, root_joint)

    n = pair.model.nv
    zero = np.zeros(n)

    def first(dq, dv):
        return dyn_ros.rnea_derivatives(
            pair.model, pair.data, pair.model.integrate(q, dq), v + dv, a, f_ext
        )

    dqdq, _, dadq = differences(lambda dq: first(dq, zero), n, 1e-2)
    # quadratic in v, so that a wide step costs nothing, and no digits
    dqdv, dvdv, dadv = differences(lambda dv: first(zero, dv), n, 0.5)
    assert not dadv.any()
    rounding = 1e-3 * np.abs(first(zero, zero)[2]).max()  # where symmetry makes all but zeros
    for got, expected in zip(rnea(pair, q, v, a, f_ext), (dqdq, dvdv, dqdv, dadq)):
        peer.close(got, expected, 1e-9, max(rounding, np.abs(expected).max()))


@pytest.mark.parametrize(
    "robot, root_joint, name", [("ur5", None, "ur5"), ("solo12", "floating", "solo12_ff")]
)
def test_rnea_second_order_is_pinocchios(robot, root_joint, name):
    known = np.load(GOLDEN / f"{name}.npz")
    found = rnea(peer.pair(robot, root_joint), known["in/q"], known["in/v"], known["in/a"])
    for field, got in zip(RNEA, found):
        peer.close(got, known[f"so/{field}"])


@pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("every_joint", None),
        ("every_joint", "planar"),
        ("solo12", "floating"),
        ("ball_joints", None),
        ("every_joint_on_balls", "floating"),
    ],
)
def test_directions_of_one_joint_do_not_commute(robot, root_joint):
    """X_k X_j - X_j X_k is the direction [X_k, X_j]: that of the velocity S_k x S_j."""
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(2)
    n = pair.model.nv
    dqdq, dvdv, _, dadq = rnea(pair, q, v, a)
    slopes = pair.data.dtau_dq
    difference = np.zeros((n, n, n))
    for i, joint in enumerate(pair.model.tree.joints):
        at = pair.model.idx_v[i]
        S = np.eye(6)[
            {"floating": range(6), "planar": [0, 1, 5], "spherical": [3, 4, 5]}.get(joint.kind, [])
        ]
        for j, k in np.ndindex(len(S), len(S)):
            bracket = np.r_[
                np.cross(S[k, 3:], S[j, :3]) + np.cross(S[k, :3], S[j, 3:]),
                np.cross(S[k, 3:], S[j, 3:]),
            ]
            difference[:, at + j, at + k] = slopes[:, at : at + len(S)] @ S @ bracket
    peer.close(dqdq - dqdq.swapaxes(1, 2), difference, 1e-12, np.abs(dqdq).max())
    assert difference.any()
    peer.close(dvdv, dvdv.swapaxes(1, 2), 1e-13)
    peer.close(dadq, dadq.swapaxes(0, 1), 1e-13)


@EVERY
def test_coriolis_torques_are_quadratic_in_velocity(robot, root_joint):
    """d2tau_dvdv v v / 2 is the part of rnea that velocity alone makes."""
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(3)
    moving = dyn_ros.nonlinear_effects(pair.model, pair.data, q, v).copy()
    gravity = dyn_ros.generalized_gravity(pair.model, pair.data, q)
    dvdv = rnea(pair, q, v, a)[1]
    size = max(np.abs(moving).max(), np.abs(pair.data.M).max())  # symmetric rotors make none
    peer.close(0.5 * dvdv @ v @ v, moving - gravity, 1e-12, size)


@EVERY
def test_rnea_second_order_leaves_the_first(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state(4)
    names = ("dtau_dq", "dtau_dv", "M", "tau")
    rnea(pair, q, v, a)
    left = [getattr(pair.data, name).copy() for name in names]
    dyn_ros.rnea_derivatives(pair.model, pair.data, q, v, a)
    size = max(np.abs(expected).max() for expected in left)
    for name, expected in zip(names, left):
        peer.close(getattr(pair.data, name), expected, 1e-13, size)


# --- forward dynamics


@EVERY
def test_aba_second_order_by_differences(robot, root_joint):
    pair, (q, v, _, tau), f_ext = loaded(robot, root_joint)
    n = pair.model.nv
    zero = np.zeros(n)

    def first(dq, dv, dtau):
        return dyn_ros.aba_derivatives(
            pair.model, pair.data, pair.model.integrate(q, dq), v + dv, tau + dtau, f_ext
        )

    dqdq, _, dtaudq = differences(lambda dq: first(dq, zero, zero), n, 3e-3)
    dqdv, dvdv, dtaudv = differences(lambda dv: first(zero, dv, zero), n, 0.5)
    dqdtau, dvdtau, dtaudtau = differences(lambda dtau: first(zero, zero, dtau), n, 0.5)
    assert not dtaudv.any() and not dtaudtau.any()
    size = max(np.abs(matrix).max() for matrix in first(zero, zero, zero))
    peer.close(dvdtau, 0.0 * dvdtau, 1e-13, size)
    found = aba(pair, q, v, tau, f_ext)
    for got, expected in zip(found, (dqdq, dvdv, dqdv, dtaudq)):
        peer.close(got, expected, 1e-9, max(1e-3 * size, np.abs(expected).max()))
    peer.close(found[3].swapaxes(1, 2), dqdtau, 1e-9, max(1e-3 * size, np.abs(dqdtau).max()))


@EVERY
def test_symmetries_of_forward_dynamics(robot, root_joint):
    pair, (q, v, _, tau), f_ext = loaded(robot, root_joint)
    _, dvdv, _, dtaudq = aba(pair, q, v, tau, f_ext)
    peer.close(dvdv, dvdv.swapaxes(1, 2), 1e-11)
    peer.close(dtaudq, dtaudq.swapaxes(0, 1), 1e-11)


def test_a_joint_that_moves_no_inertia_has_no_second_order():
    model = dyn_ros.Model.from_urdf(
        '<robot name="bare"><link name="base"/><link name="tip"/>'
        '<joint name="turn" type="continuous"><parent link="base"/><child link="tip"/></joint>'
        "</robot>"
    )
    with pytest.raises(np.linalg.LinAlgError, match="turn"):
        dyn_ros.aba_second_order_derivatives(model, dyn_ros.Data(model), [0.0], [0.0], [0.0])


# --- calls


@BOTH
def test_results_are_the_datas_own_arrays(call, names):
    pair = peer.pair("every_joint", "floating")
    found = call(pair, *pair.state()[:3])
    assert all(got is getattr(pair.data, name) for name, got in zip(names, found))


@BOTH
@peer.robots(("every_joint", "panda", "solo12"))
def test_no_result_depends_on_an_earlier_call(robot, root_joint, call, names):
    """What the tree makes zero stays zero, also where mimic joints make sums."""
    pair = peer.pair(robot, root_joint)
    states = [pair.state(seed)[:3] for seed in (1, 2)]
    new = peer.new_pair(robot, root_joint)
    fresh = [got.copy() for got in call(new, *states[0])]
    aba(pair, *states[1])
    rnea(pair, *states[1])
    for got, expected in zip(call(pair, *states[0]), fresh):
        assert (got == expected).all()


@BOTH
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 8, 21])
@pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("every_joint", "floating"),
        ("ur5", None),
        ("baxter", None),
        ("solo12", "floating"),
        ("ball_joints", "floating"),
    ],
)
def test_batch_is_state_after_state(robot, root_joint, count, threads, call, names):
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.states(count)
    f_ext = np.array([pair.wrenches(seed) for seed in range(count)])
    together = call(pair, q, v, a, f_ext, threads=threads)
    for row in range(count):
        for got, expected in zip(together, call(pair, q[row], v[row], a[row], f_ext[row])):
            peer.close(got[row], expected, 1e-11)


@BOTH
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_bad_input(batched, call, names):
    pair = peer.pair("ur5")
    good = [values[:3] if batched else values[0] for values in pair.states(3)[:3]]
    for k in range(3):
        for spoil in (lambda x: x[..., 1:], lambda x: np.nan * x):
            inputs = [spoil(x) if n == k else x for n, x in enumerate(good)]
            with pytest.raises(ValueError, match="expected"):
                call(pair, *inputs)
