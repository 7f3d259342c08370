# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Inverse and forward dynamics: agreement with Pinocchio, identities, batches, bad input."""

import pickle
import re
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer

SEEDS = range(3)
GRAVITY = (1.5, -2.5, 9.0)
MIMICKING = ("every_joint", "panda", "baxter", "pr2")

# name -> its arguments; the reference is the method of that name of peer.Pair
ARGUMENTS = {
    "rnea": ("q", "v", "a", "f_ext"),
    "nonlinear_effects": ("q", "v"),
    "generalized_gravity": ("q",),
    "static_torque": ("q", "f_ext"),
    "crba": ("q",),
    "aba": ("q", "v", "tau", "f_ext"),
    "minverse": ("q",),
}
RESULTS = {
    "rnea": "tau",
    "nonlinear_effects": "nle",
    "generalized_gravity": "g",
    "static_torque": "tau",
    "crba": "M",
    "aba": "ddq",
    "minverse": "Minv",
}
algorithms = pytest.mark.parametrize("name", ARGUMENTS)


def inputs(pair, seed=0):
    """A random state as the arguments of every algorithm."""
    values = dict(zip(("q", "v", "a", "tau"), pair.state(seed), strict=True))
    return {**values, "f_ext": pair.wrenches(seed)}


def batch(pair, count):
    states = [inputs(pair, seed) for seed in range(count)]
    return {name: np.array([state[name] for state in states]) for name in states[0]}


def arguments(name, values):
    return [values[argument] for argument in ARGUMENTS[name]]


def call(pair, name, values, **options):
    return getattr(dyn_ros, name)(pair.model, pair.data, *arguments(name, values), **options)


def slope(f, h=1e-3):
    """df/dt at 0, to fourth order."""
    return (8.0 * (f(h) - f(-h)) - (f(2.0 * h) - f(-2.0 * h))) / (12.0 * h)


# ---------------------------------------------------------------------------- Pinocchio


@algorithms
@peer.robots(root_joints=(None, "floating", "planar"))
def test_agrees_with_pinocchio(robot, root_joint, name):
    pair = peer.pair(robot, root_joint)
    for seed in SEEDS:
        values = inputs(pair, seed)
        expected = getattr(pair, name)(*arguments(name, values))
        peer.close(call(pair, name, values), expected)


@pytest.mark.parametrize("name", ["rnea", "aba"])
@peer.robots()
def test_agrees_with_pinocchio_without_external_forces(robot, root_joint, name):
    pair = peer.pair(robot, root_joint)
    values = {**inputs(pair), "f_ext": None}
    peer.close(call(pair, name, values), getattr(pair, name)(*arguments(name, values)))


@peer.robots()
def test_agrees_with_pinocchio_with_armature_and_another_gravity(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    pair.set_gravity(GRAVITY)
    pair.set_armature(np.random.default_rng(1).uniform(0.01, 0.5, pair.model.nv))
    values = inputs(pair)
    for name in ARGUMENTS:
        peer.close(call(pair, name, values), getattr(pair, name)(*arguments(name, values)))


def test_without_gravity():
    pair = peer.new_pair("every_joint", "floating")
    pair.set_gravity((0.0, 0.0, 0.0))
    values = inputs(pair)
    assert not call(pair, "generalized_gravity", values).any()
    peer.close(
        call(pair, "nonlinear_effects", values), pair.nonlinear_effects(values["q"], values["v"])
    )


@peer.robots(MIMICKING)
def test_ignored_mimics_are_free_joints(robot, root_joint):
    pair = peer.new_pair(robot, root_joint, mimic="ignore")
    assert pair.model.nv == pair.pin.nv and not pair.has_mimics
    values = inputs(pair)
    for name in ARGUMENTS:
        peer.close(call(pair, name, values), getattr(pair, name)(*arguments(name, values)))


@pytest.mark.parametrize("robot", ["panda", "baxter"])
def test_mimics_as_pinocchio_does_them_itself(robot):
    """Not by projection of the free model, as peer.Pair does, but by Pinocchio's own joints."""
    pair = peer.pair(robot)
    pin = peer.pinocchio_model(peer.urdf(robot), mimic=True)
    assert pin.nv == pair.model.nv < pair.pin.nv
    pin_data = pin.createData()
    q, v, a, _ = pair.state()
    peer.close(dyn_ros.rnea(pair.model, pair.data, q, v, a), pinocchio.rnea(pin, pin_data, q, v, a))
    M = pinocchio.crba(pin, pin_data, q)
    peer.close(dyn_ros.crba(pair.model, pair.data, q), np.triu(M) + np.triu(M, 1).T)


# ---------------------------------------------------------------------------- identities


@peer.robots()
def test_inertia_matrix_is_symmetric_and_positive_definite(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    M = dyn_ros.crba(pair.model, pair.data, pair.state()[0])
    peer.close(M, M.T, 1e-15)
    assert np.linalg.eigvalsh(M)[0] > 0.0


@peer.robots()
def test_equation_of_motion(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    model, data = pair.model, pair.data
    q, v, a, _ = pair.state()
    tau = dyn_ros.rnea(model, data, q, v, a).copy()
    peer.close(dyn_ros.crba(model, data, q) @ a + dyn_ros.nonlinear_effects(model, data, q, v), tau)


@peer.robots()
def test_forward_dynamics_undo_inverse_dynamics(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    values = inputs(pair)
    tau = call(pair, "rnea", values)
    back = call(pair, "aba", {**values, "tau": tau})  # data.tau itself, not a copy
    # what rounding of tau and of M can move a by: |M^-1| |tau|
    scale = np.linalg.norm(call(pair, "minverse", values), 2) * np.linalg.norm(tau)
    peer.close(back, values["a"], 1e-14, scale)


@peer.robots()
def test_minverse_is_the_inverse_of_the_inertia_matrix(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    values = inputs(pair)
    M, Minv = call(pair, "crba", values), call(pair, "minverse", values)
    peer.close(Minv, Minv.T, 1e-15)
    peer.close(Minv @ M, np.eye(pair.model.nv), 1e-14 * np.linalg.cond(M))


@peer.robots()
def test_forces_add_up(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    values = inputs(pair)
    rest = {**values, "v": 0.0 * values["v"]}
    gravity = call(pair, "generalized_gravity", values).copy()
    peer.close(call(pair, "nonlinear_effects", rest), gravity)
    nothing = {**values, "f_ext": 0.0 * values["f_ext"]}
    peer.close(call(pair, "static_torque", nothing), gravity)
    static = call(pair, "static_torque", values).copy()
    peer.close(call(pair, "rnea", {**rest, "a": rest["v"]}), static)


@peer.robots()
def test_gravity_is_the_slope_of_potential_energy(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q = pair.state()[0]
    expected = [
        slope(lambda t, way=way: pair.potential_energy(pair.model.integrate(q, t * way)))
        for way in np.eye(pair.model.nv)
    ]
    peer.close(dyn_ros.generalized_gravity(pair.model, pair.data, q), expected, 1e-9)


@peer.robots()
def test_kinetic_energy(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    q, v, _, _ = pair.state()
    M = dyn_ros.crba(pair.model, pair.data, q)
    peer.close(0.5 * v @ M @ v, pair.kinetic_energy(q, v))


@peer.robots()
def test_power_balance(robot, root_joint):
    """The torques' power is what the energy grows by."""
    pair = peer.pair(robot, root_joint)
    q, v, a, _ = pair.state()

    def energy(t):
        q_t, v_t = pair.model.integrate(q, t * v), v + t * a
        M = dyn_ros.crba(pair.model, pair.data, q_t)
        return 0.5 * v_t @ M @ v_t + pair.potential_energy(q_t)

    tau = dyn_ros.rnea(pair.model, pair.data, q, v, a)
    peer.close(tau @ v, slope(energy), 1e-9, scale=np.abs(tau) @ np.abs(v))


@peer.robots()
def test_mimics_are_the_projection_of_the_free_robot(robot, root_joint):
    """Within dyn_ros: M = G' M_free G, and so on, with G from the URDF's rules."""
    pair = peer.pair(robot, root_joint)
    if not pair.has_mimics:
        assert (np.eye(pair.model.nv) == pair.G).all()
        return
    free = peer.pair(robot, root_joint, "ignore")
    q, v, a, _ = pair.state()
    q_free, G = free.from_pin_q(pair.to_pin_q(q)), pair.G
    tau = dyn_ros.rnea(free.model, free.data, q_free, G @ v, G @ a)
    peer.close(dyn_ros.rnea(pair.model, pair.data, q, v, a), G.T @ tau)
    M = dyn_ros.crba(free.model, free.data, q_free)
    peer.close(dyn_ros.crba(pair.model, pair.data, q), G.T @ M @ G)


# ---------------------------------------------------------------------------- calls


@algorithms
def test_result_is_the_datas_own_array(name):
    pair = peer.pair("every_joint", "floating")
    result = call(pair, name, inputs(pair))
    assert result is getattr(pair.data, RESULTS[name])
    assert call(pair, name, inputs(pair, 1)) is result


@algorithms
def test_no_result_depends_on_an_earlier_call(name):
    pair = peer.pair("every_joint", "floating")
    values = inputs(pair)
    fresh = getattr(dyn_ros, name)(
        pair.model, dyn_ros.Data(pair.model), *arguments(name, values)
    ).copy()
    for other in ARGUMENTS:
        call(pair, other, inputs(pair, 7))
        assert (call(pair, name, values) == fresh).all()


@algorithms
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 100])
@pytest.mark.parametrize(
    "robot, root_joint",
    [
        ("every_joint", "floating"),
        ("ur5", None),
        ("talos_reduced", "floating"),
        ("ball_joints", None),
    ],
)
def test_batch_is_state_after_state(robot, root_joint, count, threads, name):
    pair = peer.pair(robot, root_joint)
    values = batch(pair, count)
    together = call(pair, name, values, threads=threads)
    assert together.shape == (count, *getattr(pair.data, RESULTS[name]).shape)
    for row in range(count):
        alone = call(pair, name, {key: value[row] for key, value in values.items()})
        peer.close(together[row], alone, 1e-12)


@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_batch_without_external_forces(name):
    pair = peer.pair("every_joint", "floating")
    values = {**batch(pair, 9), "f_ext": None}
    together = call(pair, name, values)
    alone = {key: None if value is None else value[4] for key, value in values.items()}
    peer.close(together[4], call(pair, name, alone), 1e-12)


@pytest.mark.parametrize("name", [name for name in ARGUMENTS if len(ARGUMENTS[name]) > 1])
def test_an_input_of_one_state_is_that_of_all_states_of_a_batch(name):
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 11)
    for argument in ARGUMENTS[name]:
        given = {**values, argument: values[argument][3]}
        tiled = {**values, argument: np.array([values[argument][3]] * 11)}
        assert (call(pair, name, given) == call(pair, name, tiled)).all()


@algorithms
@pytest.mark.parametrize("robot", ["ur5", "every_joint"])
def test_a_batch_of_as_many_states_as_coordinates_is_a_batch(robot, name):
    pair = peer.pair(robot)
    call(pair, name, inputs(pair))
    for count in pair.model.nq, pair.model.nv:
        assert call(pair, name, batch(pair, count)).shape[0] == count


@algorithms
def test_batch_gives_new_arrays(name):
    pair = peer.pair("ur5")
    values = batch(pair, 9)
    first = call(pair, name, values)
    kept = first.copy()
    second = call(pair, name, {key: value[::-1] for key, value in values.items()})
    assert (first == kept).all() and not np.shares_memory(first, second)
    assert (second == first[::-1]).all()


@algorithms
def test_empty_batch(name):
    pair = peer.pair("ur5")
    values = {key: value[:0] for key, value in batch(pair, 2).items()}
    assert call(pair, name, values).shape == (0, *getattr(pair.data, RESULTS[name]).shape)


@pytest.mark.parametrize("threads", [0, -1, 1.5, "two", None])
def test_bad_number_of_threads(threads):
    pair = peer.pair("ur5")
    with pytest.raises(ValueError, match="threads"):
        call(pair, "rnea", batch(pair, 9), threads=threads)


def test_threads_with_a_data_each_do_not_meet():
    pair = peer.pair("every_joint", "floating")
    states = [inputs(pair, seed) for seed in range(4)]
    expected = [call(pair, "aba", values).copy() for values in states]

    def work(values):
        data = dyn_ros.Data(pair.model)
        return [dyn_ros.aba(pair.model, data, *arguments("aba", values)).copy() for _ in range(200)]

    with ThreadPoolExecutor(4) as pool:
        for found, wanted in zip(pool.map(work, states), expected, strict=True):
            assert all((result == wanted).all() for result in found)


# ---------------------------------------------------------------------------- good arrays


def strided(array):
    wide = np.full((*array.shape, 3), np.nan)
    wide[..., 1] = array
    return wide[..., 1]


def unaligned(array):
    room = bytearray(array.nbytes + 1)
    view = np.frombuffer(room, np.uint8)[1:].view(np.float64).reshape(array.shape)
    view[...] = array
    assert not view.flags.aligned
    return view


def read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


class OtherArray(np.ndarray):
    pass


FORMS = {
    "list": np.ndarray.tolist,
    "tuple": lambda x: tuple(map(tuple, x)) if x.ndim > 1 else tuple(x),
    "list of arrays": list,
    "Fortran": np.asfortranarray,
    "strided": strided,
    "backwards": lambda x: x[::-1].copy()[::-1],
    "transposed": lambda x: x.T.copy().T,
    "read-only": read_only,
    "unaligned": unaligned,
    "big-endian": lambda x: x.astype(">f8"),
    "longdouble": lambda x: x.astype(np.longdouble),
    "subclass": lambda x: x.view(OtherArray),
    "masked": np.ma.array,
    "unpickled": lambda x: pickle.loads(pickle.dumps(x)),
    "with metadata": lambda x: x.astype(np.dtype(np.float64, metadata={"unit": "rad"})),
}


@algorithms
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_any_form_of_array(form, name, batched):
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 9) if batched else inputs(pair)
    expected = call(pair, name, values).copy()
    other = {key: FORMS[form](value) for key, value in values.items()}
    assert (call(pair, name, other) == expected).all()
    for changed in ARGUMENTS[name]:  # each alone, the others plain
        assert (call(pair, name, {**values, changed: other[changed]}) == expected).all()


@algorithms
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint8, bool])
def test_any_type_of_number(dtype, name):
    pair = peer.pair("panda")
    values = {key: np.round(3 * value).astype(dtype) for key, value in inputs(pair).items()}
    wide = {key: value.astype(float) for key, value in values.items()}
    expected = call(pair, name, wide).copy()
    assert (call(pair, name, values) == expected).all()


def test_the_inputs_stay_as_they_are():
    pair = peer.pair("every_joint", "floating")
    for values in (inputs(pair), batch(pair, 9)):
        before = {key: value.copy() for key, value in values.items()}
        for name in ARGUMENTS:
            call(pair, name, values)
        assert all((values[key] == before[key]).all() for key in values)


# ---------------------------------------------------------------------------- bad arrays


def with_number(number):
    def spoil(array):
        array = array.copy()
        array[..., -1] = number
        return array

    return spoil


SPOILED = {
    "too short": lambda x: x[..., :-1].copy(),
    "too long": lambda x: np.concatenate([x, x], -1),
    "empty": lambda x: np.zeros(0),
    "a number": lambda x: 1.0,
    "too deep": lambda x: x[None, None],
    "nan": with_number(np.nan),
    "inf": with_number(np.inf),
    "-inf": with_number(-np.inf),
    "complex": lambda x: x + 0j,
    "text": lambda x: x.astype(str),
    "a word": lambda x: "straight",
    "objects": lambda x: x.astype(object),
    "ragged": lambda x: [[1.0], [1.0, 2.0]],
    "masked": lambda x: np.ma.array(x, mask=x > x.mean()),
    "nothing": lambda x: None,
    "dictionary": lambda x: {"q": x},
}


@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize(
    "name, argument", [(name, argument) for name in ARGUMENTS for argument in ARGUMENTS[name]]
)
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_bad_array(name, argument, how, batched):
    if how == "nothing" and argument == "f_ext":
        pytest.skip("f_ext may be None")
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 9) if batched else inputs(pair)
    expected = call(pair, name, values).copy()
    bad = {**values, argument: SPOILED[how](values[argument])}
    with pytest.raises(ValueError, match=rf"\b{argument}\b.*expected.*got"):
        call(pair, name, bad)
    assert (call(pair, name, values) == expected).all()  # and the next call is right


@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
@pytest.mark.parametrize("name", ["rnea", "aba"])
def test_a_bad_number_is_found_in_every_position(name, count):
    pair = peer.pair("ur5")
    values = inputs(pair) if count is None else batch(pair, count)
    call(pair, name, values)
    for argument in ARGUMENTS[name]:
        for index in np.ndindex(values[argument].shape):
            bad = values[argument].copy()
            bad[index] = np.inf
            place = re.escape(f"{argument}[{', '.join(map(str, index))}]")
            with pytest.raises(ValueError, match=place):
                call(pair, name, {**values, argument: bad})


@pytest.mark.parametrize("change", [-1, 1])
def test_wrenches_of_another_number_of_joints_are_rejected(change):
    pair = peer.pair("every_joint", "floating")
    values = inputs(pair)
    expected = call(pair, "static_torque", values).copy()
    shape = pair.model.njoints + change, 6
    with pytest.raises(ValueError, match=rf"f_ext: expected shape .* got \({shape[0]}, 6\)"):
        call(pair, "static_torque", {**values, "f_ext": np.zeros(shape)})
    assert (call(pair, "static_torque", values) == expected).all()


def test_message_names_the_joint_of_a_wrench_in_a_batch():
    pair = peer.pair("panda")
    values = batch(pair, 9)
    values["f_ext"][5, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"f_ext\[5, 2, 1\] \(joint 'panda_joint3'\)"):
        call(pair, "rnea", values)


def test_a_quaternion_whose_square_overflows_gives_no_warning():
    pair = peer.pair("solo12", "floating")
    q = pair.state(1)[0]
    q[3:7] = 1e200
    with warnings.catch_warnings(), pytest.raises(ValueError, match="unit quaternion"):
        warnings.simplefilter("error")
        dyn_ros.crba(pair.model, pair.data, q)


@pytest.mark.parametrize("how", ["too short", "too long", "a number"])
def test_message_gives_both_shapes(how):
    pair = peer.pair("panda")
    values = inputs(pair)
    bad = SPOILED[how](values["v"])
    with pytest.raises(ValueError) as caught:
        call(pair, "rnea", {**values, "v": bad})
    assert f"({pair.model.nv},)" in str(caught.value)
    assert str(np.shape(bad)) in str(caught.value)


def test_message_names_the_joint_of_a_number_that_is_none():
    pair = peer.pair("panda")
    values = inputs(pair)
    values["v"][3] = np.nan
    with pytest.raises(ValueError, match=r"v\[3\].*panda_joint4"):
        call(pair, "rnea", values)


@algorithms
@pytest.mark.parametrize("length", [0.0, 0.9, 1.001, 2.0])
@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_quaternion_that_is_not_unit(name, length, batched):
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 9) if batched else inputs(pair)
    free = pair.model.joint_index("satellite_free")
    start = pair.model.idx_q[free] + 3
    values["q"][..., start : start + 4] *= length
    with pytest.raises(ValueError, match=r"\bq\b.*unit quaternion.*satellite_free"):
        call(pair, name, values)


@pytest.mark.parametrize("batched", [False, True], ids=["one", "batch"])
def test_quaternion_at_the_edge_of_what_counts_as_unit(batched):
    """Depending on rounding, it is accepted or rejected, with the correct message."""
    pair = peer.pair("solo12", "floating")
    q, refused, count = pair.state(1)[0], 0, 0
    dyn_ros.crba(pair.model, pair.data, q)  # from now on, compiled code checks numbers
    for length in (1.0 - 1e-6) ** 0.5, (1.0 + 1e-6) ** 0.5:
        for turn in np.random.default_rng(0).normal(size=(60, 4)):
            for ulps in range(-5, 6):
                q[3:7] = (1.0 + 1.1e-16 * ulps) * length * turn / np.linalg.norm(turn)
                count += 1
                try:
                    found = dyn_ros.crba(pair.model, pair.data, [q, q] if batched else q)
                except ValueError as error:
                    assert "expected a unit quaternion" in str(error)
                    refused += 1
                else:
                    assert np.all(found[..., 0, 0] > 0.0)
    assert 0 < refused < count


def test_quaternion_rounded_to_single_precision_is_unit():
    pair = peer.pair("every_joint", "floating")
    values = inputs(pair)
    single = {**values, "q": values["q"].astype(np.float32)}
    peer.close(call(pair, "crba", single).copy(), call(pair, "crba", values), 1e-5)


@pytest.mark.parametrize("row", [0, 150, 299])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_bad_number_is_found_in_the_part_of_each_thread(row, threads):
    pair = peer.pair("ur5")
    q = pair.states(300)[0]
    q[row, 2] = np.nan
    with pytest.raises(ValueError, match=rf"q: expected finite numbers, got nan in q\[{row}, 2\]"):
        dyn_ros.generalized_gravity(pair.model, pair.data, q, threads=threads)


@algorithms
def test_data_of_another_model(name):
    pair, other = peer.pair("ur5"), peer.pair("kinova")
    assert pair.model.nv == other.model.nv
    call(other, name, inputs(other))  # from now on, compiled code compares the models
    with pytest.raises(ValueError, match="data"):
        getattr(dyn_ros, name)(pair.model, other.data, *arguments(name, inputs(pair)))


@algorithms
@pytest.mark.parametrize("data", [None, 3, "data"])
def test_data_that_is_none(name, data):
    pair = peer.pair("ur5")
    with pytest.raises((TypeError, ValueError), match="data"):
        getattr(dyn_ros, name)(pair.model, data, *arguments(name, inputs(pair)))


@pytest.mark.parametrize(
    "name, argument",
    [
        (name, argument)
        for name in ARGUMENTS
        if len(ARGUMENTS[name]) > 1
        for argument in ARGUMENTS[name]
    ],
)
def test_batches_of_different_size(name, argument):
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 9)
    with pytest.raises(ValueError, match=r"8.*9|9.*8"):
        call(pair, name, {**values, argument: values[argument][:8]})


def test_bad_armature_and_gravity():
    model = peer.new_pair("ur5").model
    for name, length in (("armature", 6), ("gravity", 3)):
        before = getattr(model, name).copy()
        for bad in (np.ones(length + 1), np.full(length, np.nan), "none", 1.0, [[1.0] * length]):
            with pytest.raises(ValueError, match=name):
                setattr(model, name, bad)
        assert (getattr(model, name) == before).all()


# ---------------------------------------------------------------------------- singular


def massless_hand(kind="revolute", inertial=""):
    """An arm of one joint with a joint "loose" at its end that moves a link with this inertial."""
    solid = (
        '<inertial><origin xyz="0 0.1 0.2"/><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" '
        'iyy="1" iyz="0" izz="1"/></inertial>'
    )
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    return f"""<robot name="massless">
      <link name="base"/><link name="arm">{solid}</link><link name="hand">{inertial}</link>
      <joint name="firm" type="revolute"><parent link="base"/><child link="arm"/>{limit}</joint>
      <joint name="loose" type="{kind}"><parent link="arm"/><child link="hand"/>{limit}</joint>
    </robot>"""


POINT = (
    '<inertial><origin xyz="{}"/><mass value="1"/><inertia ixx="0" ixy="0" ixz="0" iyy="0" '
    'iyz="0" izz="0"/></inertial>'
)
SINGULAR = {
    "massless revolute": massless_hand(),
    "massless prismatic": massless_hand("prismatic"),
    "massless planar": massless_hand("planar"),
    "massless floating": massless_hand("floating"),
    "mass on the axis": massless_hand("revolute", POINT.format("7 0 0")),
    "floating point mass": massless_hand("floating", POINT.format("0 0 0")),
    "floating point mass off the origin": massless_hand("floating", POINT.format("0.1 0.2 0.3")),
}


@pytest.mark.parametrize("name", ["aba", "minverse"])
@pytest.mark.parametrize("xml", SINGULAR.values(), ids=SINGULAR)
@pytest.mark.parametrize("count", [None, 9], ids=["one", "batch"])
def test_singular_names_the_joint(xml, name, count):
    model = dyn_ros.Model.from_urdf(xml)
    data = dyn_ros.Data(model)
    lead = () if count is None else (count,)
    q = np.broadcast_to(model.neutral(), (*lead, model.nq))
    rest = [np.zeros((*lead, model.nv))] * 2 if name == "aba" else []
    with pytest.raises(np.linalg.LinAlgError, match="loose"):
        getattr(dyn_ros, name)(model, data, q, *rest)
    assert any("loose" in warning for warning in model.warnings)
    assert np.isfinite(dyn_ros.crba(model, data, q)).all()  # and the rest works
    model.armature = np.ones(model.nv)
    assert np.isfinite(getattr(dyn_ros, name)(model, data, q, *rest)).all()


def test_singular_with_mimics():
    """M = G' M_free G is singular although no row of it is zero in the free robot."""
    xml = massless_hand().replace(
        "</robot>",
        """<link name="thumb"/>
      <joint name="limp" type="revolute"><parent link="arm"/><child link="thumb"/>
        <limit lower="-1" upper="1" effort="1" velocity="1"/><mimic joint="loose"/></joint>
      </robot>""",
    )
    model = dyn_ros.Model.from_urdf(xml)
    with pytest.raises(np.linalg.LinAlgError, match="loose"):
        dyn_ros.aba(model, dyn_ros.Data(model), [0.1, 0.2], [0.0, 0.0], [0.0, 0.0])


def test_a_robot_that_does_not_move():
    model = dyn_ros.Model.from_urdf('<robot name="stone"><link name="base"/></robot>')
    data = dyn_ros.Data(model)
    values = {"q": [], "v": [], "a": [], "tau": [], "f_ext": np.zeros((0, 6))}
    for name in ARGUMENTS:
        result = getattr(dyn_ros, name)(model, data, *arguments(name, values))
        assert result.size == 0


# ---------------------------------------------------------------------------- without compiler


def test_without_compiled_code():
    pair = peer.pair("every_joint", "floating")
    values = batch(pair, 9)
    first = {key: value[0] for key, value in values.items()}
    calls = [
        (name, {key: given[key] for key in ARGUMENTS[name]})
        for name in ARGUMENTS
        for given in (first, values)
    ]
    for (name, given), x in zip(calls, peer.uncompiled("every_joint", calls), strict=True):
        peer.close(x, call(pair, name, given), 1e-12)


# -- wrenches from frames


def test_wrench_on_a_frame_acts_through_that_frames_jacobian():
    """f_ext from `external_forces` gives the torque J' f of Pinocchio's LOCAL frame Jacobian."""
    pair = peer.pair("panda", "floating")
    q, v, a, _ = pair.state(3)
    wrench = np.array([3.0, -2.0, 5.0, 0.4, 0.7, -0.2])
    for frame in ("panda_hand_tcp", "panda_link5", "panda_joint3"):
        f_ext = pair.model.external_forces({frame: wrench})
        got = dyn_ros.rnea(pair.model, pair.data, q, v, a).copy()
        got -= dyn_ros.rnea(pair.model, pair.data, q, v, a, f_ext)
        J = pinocchio.computeFrameJacobian(
            pair.pin, pair.pin_data, pair.to_pin_q(q), pair.pin.getFrameId(frame), pinocchio.LOCAL
        )
        peer.close(got, pair.G.T @ J.T @ wrench, 1e-12, scale=100.0)


def test_wrenches_on_one_joint_add_up_and_the_base_takes_its_own():
    model = peer.pair("panda", None).model
    one = model.external_forces({"panda_link5": np.ones(6)})
    both = model.external_forces(
        {"panda_link5": np.ones(6), "panda_joint5": np.ones(6), "panda_link0": np.ones(6)}
    )
    peer.close(both, 2.0 * one, 1e-15)


@pytest.mark.parametrize(
    "wrenches, message",
    [
        ({"no_such": np.zeros(6)}, "no frame named 'no_such'; available: .*panda_link5"),
        ({"panda_link5": np.zeros(3)}, "wrench on panda_link5: expected 6 finite numbers"),
        ({"panda_link5": [0, 0, np.nan, 0, 0, 0]}, "wrench on panda_link5"),
    ],
)
def test_bad_wrenches_are_named(wrenches, message):
    with pytest.raises(ValueError, match=message):
        peer.pair("panda", None).model.external_forces(wrenches)
