# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contact dynamics: agreement with a dense solution and with Pinocchio, physics, bad input."""

from dataclasses import replace

import dense_contacts as dense
import numpy as np
import pinocchio
import pytest
from dense_contacts import ALIGNED, ARM, FEET, LOCAL, PINOCCHIOS, REFERENCES, Spec, in_axes, scenes

import dyn_ros
import peer


def solve(pair, contacts, given, **options):
    return dyn_ros.contact_dynamics(
        pair.model,
        pair.data,
        given["q"],
        given["v"],
        given["tau"],
        dense.ours(contacts),
        given.get("f_ext"),
        **options,
    )


def assert_solved(found, expected, rtol=1e-9):
    ddq, forces = found
    peer.close(ddq, expected[0], rtol)
    peer.close(forces.lambda_c, expected[1], rtol)


# --- agreement


@scenes()
@REFERENCES
@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_dense_solution(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    for seed in range(2):
        given = dense.state(pair, seed)
        expected = dense.dynamics(pair, contacts, **given, damping=damping)
        assert_solved(solve(pair, contacts, given, damping=damping), expected)


@scenes(dense.WITHOUT_MIMICS)
@PINOCCHIOS
@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_pinocchio(robot, root_joint, contacts, reference, damping):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = dense.state(pair) | {"f_ext": None}
    expected = dense.pin_dynamics(pair, contacts, given["q"], given["v"], given["tau"], damping)
    assert_solved(solve(pair, contacts, given, damping=damping), expected)


@pytest.mark.parametrize("name", ["solo12", "ur5", "solo12, feet", "ur5, nested"])
def test_well_conditioned_ones_to_the_last_digits(name):
    robot, root_joint, contacts = dense.EVERY_SCENE[name]
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair) | {"f_ext": None}
    expected = dense.pin_dynamics(pair, contacts, given["q"], given["v"], given["tau"])
    assert_solved(solve(pair, contacts, given), expected, 4e-13)


@scenes({name: dense.EVERY_SCENE[name] for name in ("solo12", "panda", "every_joint")})
def test_armature_and_another_gravity(robot, root_joint, contacts):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity((1.5, -2.5, 9.0))
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    given = dense.state(pair)
    assert_solved(solve(pair, contacts, given), dense.dynamics(pair, contacts, **given))


@scenes()
@REFERENCES
def test_jacobian_and_delassus_matrix(robot, root_joint, contacts, reference):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    q = pair.state(1)[0]
    found = dense.ours(contacts)
    peer.close(
        dyn_ros.contact_jacobian(pair.model, pair.data, q, found),
        dense.jacobian(pair, q, contacts),
        1e-12,
    )
    coupling = dyn_ros.delassus_matrix(pair.model, pair.data, q, found).copy()
    peer.close(coupling, dense.delassus(pair, contacts, q), 1e-11)
    peer.close(coupling, coupling.T, 1e-15 if reference == dense.WORLD else 0.0)
    damped = dyn_ros.delassus_matrix(pair.model, pair.data, q, found, 0.3)
    if reference != dense.WORLD:
        peer.close(damped, dense.delassus(pair, contacts, q, 0.3), 1e-11)
    inverse = dyn_ros.delassus_inverse(pair.model, pair.data, q, found, 0.3)
    peer.close(inverse @ damped, np.eye(len(damped)), 1e-8)


def test_damping_in_world_acts_at_the_contact():
    """It is part of J M^-1 J' before that is moved to the origin of the world."""
    pair = peer.pair("solo12", "floating")
    q = pair.state(1)[0]
    frame, p = (
        "FL_LOWER_LEG",
        dyn_ros.frame_placements(pair.model, pair.data, q)[
            pair.model.frame_index("FL_LOWER_LEG"), :3, 3
        ],
    )
    X = np.eye(6)
    X[:3, 3:] = [[0.0, -p[2], p[1]], [p[2], 0.0, -p[0]], [-p[1], p[0], 0.0]]
    at_contact, at_origin = (
        dyn_ros.delassus_matrix(
            pair.model, pair.data, q, [dyn_ros.Contact(frame, reference_frame=axes)], 0.3
        ).copy()
        for axes in (dense.ALIGNED, dense.WORLD)
    )
    peer.close(at_origin, X @ at_contact @ X.T, 1e-12)


@scenes()
def test_inverse_and_factor_of_the_delassus_matrix(robot, root_joint, contacts):
    pair = peer.pair(robot, root_joint)
    q, found = pair.state(1)[0], dense.ours(contacts)
    for damping in (0.0, 0.3):
        given = (pair.model, pair.data, q, found, damping)
        coupling = dense.delassus(pair, contacts, q, damping)
        inverse = dyn_ros.delassus_inverse(*given)
        peer.close(inverse, np.linalg.inv(coupling), 1e-9)
        factor = dyn_ros.delassus_cholesky(*given)
        assert np.array_equal(factor, np.tril(factor))
        peer.close(factor @ factor.T, coupling, 1e-11)


# --- physics


@scenes()
@REFERENCES
def test_forces_on_the_free_robot_move_it_so(robot, root_joint, contacts, reference):
    pair, contacts = peer.pair(robot, root_joint), in_axes(contacts, reference)
    given = dense.state(pair)
    ddq, forces = solve(pair, contacts, given)
    push = dense.wrenches(pair, given["q"], contacts, forces.lambda_c)
    free = dyn_ros.aba(
        pair.model,
        dyn_ros.Data(pair.model),
        given["q"],
        given["v"],
        given["tau"],
        given["f_ext"] + push,
    )
    peer.close(free, ddq, 1e-9)


@scenes(dense.SCENES)
def test_axes_do_not_matter_to_the_motion(robot, root_joint, contacts):
    """Of contacts with the world."""
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    expected = solve(pair, in_axes(contacts, LOCAL), given)[0].copy()
    for reference in dyn_ros.ReferenceFrame:
        peer.close(solve(pair, in_axes(contacts, reference), given)[0], expected, 1e-9)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.1, 3.0, np.pi - 1e-4, np.pi - 1e-9])
@REFERENCES
def test_small_and_large_errors(angle, reference):
    """A pose error that is known: the contact frame is at exp6 of it from its target."""
    pair = peer.pair("ur5", None)
    given = dense.state(pair)
    dense.update(pair, given["q"], given["v"])
    frame = dense.side(pair, "tool0", None).oMc
    error = np.concatenate([[0.3, -0.2, 0.4], angle * np.array([2.0, -3.0, 6.0]) / 7.0])
    target = (frame * pinocchio.exp6(error)).homogeneous
    contact = Spec("tool0", reference_frame=reference, other_placement=target, kp=50.0)
    M, J, force, b = dense.terms(pair, [replace(contact, kp=0.0)], **given)
    wanted = 50.0 * dense.turned(contact, frame) @ error
    expected = dense.saddle_point(M, J, force, b + wanted)
    assert_solved(solve(pair, [contact], given), expected)


@REFERENCES
@pytest.mark.parametrize("damping", [0.0, 1e-2])
def test_far_from_the_origin_of_the_world(reference, damping):
    """A kilometer away, the rows in WORLD are badly scaled, but the motion is the same."""
    robot, root_joint, contacts = dense.SCENES["solo12, shank"]
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair)
    given["q"][:2] += 1000.0
    contacts = [replace(contact, kp=0.0) for contact in contacts]
    expected = dense.dynamics(pair, in_axes(contacts, LOCAL), **given, damping=damping)
    ddq, forces = solve(pair, in_axes(contacts, reference), given, damping=damping)
    peer.close(ddq, expected[0], 1e-9)
    assert forces.rank == 9


@pytest.mark.parametrize("dimension", [3, 6])
@REFERENCES
def test_gains_close_the_error(dimension, reference):
    """Critically damped: an error x decays as (1 + r t) exp(-r t)."""
    pair, rate, step = peer.pair("ur5", None), 8.0, 1e-3
    model, q, v = pair.model, pair.state(2)[0], np.zeros(6)
    dense.update(pair, q, v)
    away = pinocchio.SE3(np.eye(3), np.array([0.02, -0.03, 0.01]))
    target = (dense.side(pair, "tool0", None).oMc * away).homogeneous
    contact = Spec(
        "tool0", dimension, reference, other_placement=target, kp=rate * rate, kd=2.0 * rate
    )

    def error():
        dense.update(pair, q, v)
        return next(dense.rows_of(pair, [contact]))[-1]

    before = np.linalg.norm(error())
    for _ in range(300):
        given = {"q": q, "v": v, "tau": np.zeros(6)}
        v = v + step * solve(pair, [contact], given)[0]
        q = model.integrate(q, step * v)
    t = 300 * step
    after = before * (1.0 + rate * t) * np.exp(-rate * t)
    assert abs(np.linalg.norm(error()) - after) < 0.01 * before


def test_a_linkage_moves_as_with_mimic_joints():
    """A parallelogram that a contact closes has the dynamics of one made of mimic joints."""
    closed = peer.new_pair("four_bar", mimic="ignore")
    driven = peer.pair("four_bar", None)
    for seed in range(3):
        q, v, _, _ = driven.state(seed)
        tau = np.random.default_rng(seed).normal(size=3)
        given = {"q": driven.to_pin_q(q), "v": driven.G @ v, "tau": tau}
        ddq, forces = solve(closed, dense.LOOP[2], given)
        assert forces.rank == 2
        peer.close(ddq, driven.G @ driven.aba(q, v, driven.G.T @ tau), 1e-10)


# --- results


def test_forces_by_name():
    pair = peer.pair("talos_reduced", "floating")
    contacts = [
        Spec("left_sole_link"),
        Spec("right_sole_link", 3, name="toe"),
        Spec(dense.HANDS[0], 3, placement=dense.placed(1), name="hand"),
    ]
    _, forces = solve(pair, contacts, dense.state(pair))
    names = ("left_sole_link", "toe", "hand")
    assert forces.names == tuple(forces) == names and len(forces) == 3
    assert forces.lambda_c.shape == (12,)
    for name, rows in zip(names, (slice(0, 6), slice(6, 9), slice(9, 12)), strict=True):
        assert np.array_equal(forces[name], forces.lambda_c[rows])
    assert dict(forces).keys() == set(names) and "toe" in forces and "left_toe" not in forces
    assert forces.rank == 12
    with pytest.raises(KeyError, match="left_toe.*left_sole_link.*toe.*hand"):
        forces["left_toe"]


def test_results_are_in_data():
    pair = peer.new_pair("solo12", "floating")
    ddq, forces = solve(pair, FEET, dense.state(pair))
    assert np.array_equal(pair.data.ddq, ddq)
    assert np.array_equal(pair.data.lambda_c, forces.lambda_c)


def test_no_contacts_is_aba():
    for robot, root_joint in (("solo12", "floating"), ("panda", None)):
        pair = peer.pair(robot, root_joint)
        given = dense.state(pair)
        ddq, forces = solve(pair, (), given)
        assert np.array_equal(ddq, dyn_ros.aba(pair.model, dyn_ros.Data(pair.model), **given))
        assert len(forces) == 0 and forces.lambda_c.shape == (0,) and forces.rank == 0
        assert forces.residual == 0.0


@scenes()
@pytest.mark.parametrize("damping", [0.0, 1e-3])
@pytest.mark.parametrize("count, threads", [(3, 1), (20, 2)])
def test_batch_is_state_after_state(robot, root_joint, contacts, damping, count, threads):
    pair = peer.pair(robot, root_joint)
    each = [dense.state(pair, seed) for seed in range(count)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    ddq, forces = solve(pair, contacts, together, damping=damping, threads=threads)
    assert forces.lambda_c.shape == (count, sum(contact.dimension for contact in contacts))
    for row, given in enumerate(each):
        alone = solve(pair, contacts, given, damping=damping)
        peer.close(ddq[row], alone[0], 1e-9)
        for name in alone[1]:
            peer.close(
                forces[name][row], alone[1][name], 1e-9, scale=np.abs(alone[1].lambda_c).max()
            )


def test_each_state_of_a_batch_iterates_until_it_is_solved():
    pair = peer.pair("solo12", "floating")
    each = [dense.state(pair, seed) for seed in range(20)]
    together = {name: np.array([given[name] for given in each]) for name in each[0]}
    torn = (*FEET, replace(FEET[0], name="torn", kp=5.0))
    for contacts, damping, residual in ((FEET, 1.0, 1e-6), (FEET, 0.1, 20.0), (torn, 1e-2, 1e-6)):
        options = {"damping": damping, "residual": residual, "max_iterations": 30}
        ddq, forces = solve(pair, contacts, together, **options)
        for row, given in enumerate(each):
            alone = solve(pair, contacts, given, **options)
            peer.close(ddq[row], alone[0], 1e-9)
            peer.close(forces.lambda_c[row], alone[1].lambda_c, 1e-9)
            peer.close(forces.residual[row], alone[1].residual, 1e-6, max(1.0, residual))
            assert forces.iterations[row] == alone[1].iterations
            assert forces.rank[row] == alone[1].rank == 12


def test_batch_of_one_and_of_none():
    pair = peer.pair("solo12", "floating")
    given = dense.state(pair)
    for count in (0, 1):
        together = {name: np.repeat(x[None], count, 0) for name, x in given.items()}
        ddq, forces = solve(pair, FEET, together)
        assert ddq.shape == (count, 18) and forces["FL_FOOT"].shape == (count, 3)


# --- repeated and contradictory rows, damping


@pytest.mark.parametrize("which", dense.SINGULAR)
@REFERENCES
def test_repeated_rows(which, reference):
    pair, contacts, given, rank = dense.singular(which)
    contacts = in_axes(contacts, reference)
    M, J, force, _ = dense.terms(pair, contacts, **given)
    expected, _ = dense.least_norm(pair, contacts, **given)
    ddq, forces = solve(pair, contacts, given)
    peer.close(ddq, expected, 1e-9)
    peer.close(M @ ddq - J.T @ forces.lambda_c, force, 1e-9, scale=np.abs(M @ ddq).max())
    assert forces.rank == rank == np.linalg.matrix_rank(J, 1e-9)
    assert forces.residual < 1e-9 * np.abs(ddq).max()


@pytest.mark.parametrize("which", dense.SINGULAR)
def test_repeated_rows_by_proximal_iterations(which):
    """The forces are those of the least norm."""
    pair, contacts, given, _ = dense.singular(which)
    expected = dense.least_norm(pair, contacts, **given)
    scale = np.abs(expected[0]).max()
    ddq, forces = solve(pair, contacts, given, damping=1e-3, residual=1e-11 * scale)
    peer.close(ddq, expected[0], 1e-8)
    peer.close(forces.lambda_c, expected[1], 1e-6)
    assert forces.residual <= 1e-11 * scale and 1 < forces.iterations < 100


@pytest.mark.parametrize("damping", [0.0, 1e-6, 1e-3])
def test_contradictory_rows(damping):
    """One point that should accelerate in two ways: all results are finite."""
    pair = peer.pair("solo12", "floating")
    given = dense.state(pair)
    torn = [FEET[0], replace(FEET[0], name="torn", kp=30.0), FEET[3]]
    ddq, forces = solve(pair, torn, given, damping=damping)
    assert np.isfinite(ddq).all() and np.isfinite(forces.lambda_c).all()
    _, J, _, b = dense.terms(pair, torn, **given)
    peer.close(forces.residual, np.abs(J @ ddq - b).max(), 1e-9)
    assert forces.residual > 0.1
    if damping == 0.0:
        assert forces.rank == 6


def test_proximal_iterations_end():
    """Without a solution, after max_iterations; with one, at the first that is good enough."""
    pair = peer.pair("solo12", "floating")
    given = dense.state(pair)
    torn = [FEET[0], replace(FEET[0], name="torn", kp=30.0)]
    _, forces = solve(pair, torn, given, damping=1e-2, residual=1e-9, max_iterations=7)
    assert forces.iterations == 7 and forces.residual > 0.1
    counts = [
        solve(pair, FEET, given, damping=1e-2, residual=residual)[1].iterations
        for residual in (1e3, 1e-3, 1e-8)
    ]
    assert counts[0] < counts[1] < counts[2] < 100


@scenes(dense.WITHOUT_MIMICS)
@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_proximal_iterations_are_pinocchios(robot, root_joint, contacts, iterations):
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair) | {"f_ext": None}
    damping = 0.1
    expected = dense.pin_dynamics(
        pair, contacts, given["q"], given["v"], given["tau"], damping, iterations
    )
    found = solve(pair, contacts, given, damping=damping, residual=0.0, max_iterations=iterations)
    assert_solved(found, expected)
    assert found[1].iterations == iterations


def test_much_damping_releases():
    pair = peer.pair("solo12", "floating")
    given = dense.state(pair)
    ddq, forces = solve(pair, FEET, given, damping=1e12)
    peer.close(ddq, pair.aba(**given), 1e-6)
    assert np.abs(forces.lambda_c).max() < 1e-6


# --- contacts


def test_a_contact():
    contact = dyn_ros.Contact("tool0", 3, ALIGNED, placement=dense.placed(1), **dense.GAINS)
    assert contact.frame == contact.name == "tool0" and contact.dimension == 3
    assert contact.reference_frame == ALIGNED and contact.other is None
    assert (contact.kp, contact.kd) == (40.0, 9.0)
    with pytest.raises(AttributeError):
        contact.dimension = 6
    assert "tool0" in repr(contact)
    assert dyn_ros.Contact("tool0", name="tip").name == "tip"


def test_placements_of_both_kinds():
    pair = peer.pair("ur5", None)
    given, arm = dense.state(pair), dense.ours([ARM])[0]
    one, two = map(dyn_ros.SE3.from_homogeneous, (ARM.placement, ARM.other_placement))
    same = dyn_ros.Contact("tool0", 3, placement=one, other_placement=two, **dense.GAINS)
    q, v, tau = (given[name] for name in ("q", "v", "tau"))
    ddq = dyn_ros.contact_dynamics(pair.model, pair.data, q, v, tau, [arm])[0].copy()
    assert np.array_equal(
        dyn_ros.contact_dynamics(pair.model, pair.data, q, v, tau, [same])[0], ddq
    )


TURNED_BADLY = np.diag([2.0, 1.0, 1.0, 1.0])
BAD_CONTACTS = {
    "dimension": ({"dimension": 4}, "dimension: expected 6 or 3, got 4"),
    "reference frame": ({"reference_frame": 7}, "7"),
    "placement of another shape": ({"placement": np.eye(3)}, r"placement.*\(4, 4\).*\(3, 3\)"),
    "placement that stretches": ({"placement": TURNED_BADLY}, "placement.*rotation"),
    "target that is not finite": (
        {"other_placement": np.full((4, 4), np.nan)},
        "other_placement.*nan",
    ),
    "negative stiffness": ({"kp": -1.0}, "kp.*-1"),
    "damping that is not finite": ({"kd": np.inf}, "kd.*inf"),
}


@pytest.mark.parametrize("how", BAD_CONTACTS)
def test_bad_contacts(how):
    changes, message = BAD_CONTACTS[how]
    with pytest.raises(ValueError, match=message):
        dyn_ros.Contact("tool0", **changes)


BAD_CALLS = {
    "unknown frame": ((Spec("hand", 3),), {}, "no frame named 'hand'"),
    "unknown other frame": ((Spec("tool0", 3, other="hand"),), {}, "no frame named 'hand'"),
    "links of one body": (
        (Spec("tool0", 3, other="wrist_3_link"),),
        {},
        "'tool0' and 'wrist_3_link'.*same body.*'wrist_3_joint'",
    ),
    "root link on the world": ((Spec("base_link", 3),), {}, "no joint moves.*'base_link'"),
    "same name twice": ((ARM, ARM), {}, "tool0"),
    "negative damping": ((ARM,), {"damping": -1.0}, "damping.*-1"),
    "damping that is not finite": ((ARM,), {"damping": np.nan}, "damping.*nan"),
    "residual without damping": ((ARM,), {"residual": 1e-9}, "damping"),
    "negative residual": ((ARM,), {"residual": -1e-9, "damping": 1e-3}, "residual"),
    "no iterations": (
        (ARM,),
        {"residual": 1e-9, "damping": 1e-3, "max_iterations": 0},
        "max_iterations.*0",
    ),
}


@pytest.mark.parametrize("how", BAD_CALLS)
def test_bad_calls(how):
    pair = peer.pair("ur5", None)
    given = dense.state(pair)
    expected = solve(pair, (ARM,), given)[0].copy()
    contacts, options, message = BAD_CALLS[how]
    with pytest.raises(ValueError, match=message):
        solve(pair, contacts, given, **options)
    assert np.array_equal(solve(pair, (ARM,), given)[0], expected)  # and the next call is right


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("q", np.zeros(5), r"q: expected shape \(6,\)"),
        ("v", np.full(6, np.nan), "v: expected finite numbers, got nan"),
        ("tau", np.zeros(7), r"tau: expected shape \(6,\)"),
        ("f_ext", np.zeros((5, 6)), r"f_ext: expected shape \(6, 6\)"),
    ],
)
def test_bad_arrays(name, value, message):
    pair = peer.pair("ur5", None)
    with pytest.raises(ValueError, match=message):
        solve(pair, (ARM,), dense.state(pair) | {name: value})


@pytest.mark.parametrize(
    "collect",
    [lambda contact: contact, lambda contact: (contact,), lambda contact: iter([contact])],
    ids=["alone", "tuple", "iterator"],
)
def test_contacts_of_any_iterable(collect):
    pair = peer.new_pair("ur5", None)
    given = dense.state(pair)
    state, contact = (given["q"], given["v"], given["tau"]), dense.ours([ARM])[0]
    expected = dense.dynamics(pair, [ARM], *state)[0]
    for _ in range(2):
        found = dyn_ros.contact_dynamics(pair.model, pair.data, *state, collect(contact))
        peer.close(found[0], expected, 1e-9)


def test_at_most_36_rows():
    """Twelve points of four bodies, of which each has three or fewer: 24 independent rows."""
    pair = peer.pair("talos_reduced", "floating")
    given = dense.state(pair)
    given["v"] *= 0.0
    points = [
        Spec(
            ("left_sole_link", "right_sole_link", *dense.HANDS)[k % 4],
            3,
            placement=dense.placed(k),
            name=f"point {k}",
        )
        for k in range(13)
    ]
    ddq, forces = solve(pair, points[:12], given)
    expected = dense.least_norm(pair, points[:12], **given)
    peer.close(ddq, expected[0], 1e-9)
    peer.close(forces.lambda_c, expected[1], 1e-9)
    assert forces.rank == 24
    with pytest.raises(ValueError, match="at most 36 rows.*got 39 in 13 contacts"):
        solve(pair, points, given)


@pytest.mark.parametrize("wrong", [["tool0"], "tool0", None, [None]])
def test_contacts_of_another_type(wrong):
    pair = peer.pair("ur5", None)
    given = dense.state(pair)
    with pytest.raises(TypeError, match="contacts: expected a sequence of dyn_ros.Contact, got"):
        dyn_ros.contact_dynamics(pair.model, pair.data, given["q"], given["v"], given["tau"], wrong)


# --- without compiled code


def flat(found):
    """All arrays of a result."""
    if isinstance(found, tuple):
        return [x for part in found for x in flat(part)]
    return [found.lambda_c if isinstance(found, dyn_ros.ContactForces) else np.array(found)]


@pytest.mark.parametrize("scene", ["every_joint, branches", "solo12, shank"])
def test_without_compiled_code(scene):
    robot, root_joint, contacts = dense.EVERY_SCENE[scene]
    pair = peer.pair(robot, root_joint)
    given = dense.state(pair) | {"contacts": dense.ours(contacts)}
    impact = {name: given[name] for name in ("q", "v", "contacts")}
    calls = [
        ("contact_dynamics", given),
        ("contact_dynamics", given | {"damping": 1e-2}),
        ("contact_dynamics", given | {"damping": 1e-2, "residual": 1e-6}),
        ("contact_dynamics_derivatives", given),
        ("impulse_dynamics", impact | {"restitution": 0.4}),
        ("impulse_dynamics_derivatives", impact | {"restitution": 0.4}),
    ]
    for (name, arguments), found in zip(calls, peer.uncompiled(robot, calls), strict=True):
        expected = getattr(dyn_ros, name)(pair.model, pair.data, **arguments)
        for x, y in zip(flat(found), flat(expected), strict=True):
            peer.close(x, y, 1e-9)
