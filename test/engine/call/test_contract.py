# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Algorithms do what they declare: inputs, results, other public fields, options."""

import inspect
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.algorithms.all_terms import Terms
from dyn_ros.engine.algorithms.kinematics.kinematics import MOTION
from dyn_ros.engine.algorithms.regressors.normal_equations import PRODUCTS
from dyn_ros.engine.call.algorithm import ALGORITHMS, Algorithm, variant
from dyn_ros.engine.call.workspace import Workspace
from dyn_ros.engine.kernel import fields
from dyn_ros.engine.kernel.fields import (
    EMPTY,
    FIELDS,
    FRAME,
    JOINT_V,
    OMI,
    REFERENCE_FRAME,
    TAU_IN,
    Q,
    V,
    axis_lengths,
    field,
)
from dyn_ros.engine.kernel.packing import option
from dyn_ros.engine.machine_code.declare import JIT, kernel
from dyn_ros.engine.model.frames import joint_selector

ROBOTS = (*peer.FILES, *peer.BUILT) if JIT else ("every_joint", "panda")
SMALL = "every_joint", "panda", "solo12", "ball_joints"
PUBLIC = [known for known in FIELDS if known.is_public]


def arguments(pair, name, f_ext):
    """Arguments of a public function by name, without model and data."""
    q, v, a, tau = pair.state(7)
    frame = [each.name for each in pair.model.tree.frames if each.parent >= 0][-1]
    values = {
        "q": q,
        "v": v,
        "a": a,
        "tau": tau,
        "frame": frame,
        "joint": pair.model.joint_names[-1],
        "reference_frame": dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED,
        "offset": [0.1, 0.2, 0.3],
        "tip": frame,
        "alpha": np.eye(6)[:, :2],
        "directions": np.eye(6)[:, :2],
        "beta": [0.5, 1.5],
        "root_acc": np.arange(6.0),
        "ff_torques": tau,
        "b": a,
        "dt": 0.01,
        "gain": 50.0,
        "external": a,
        "momentum": v,
        "known_effort": tau,
        "features": np.outer(tau, np.arange(1.0, 6.0)),
        "contacts": [dyn_ros.Contact(frame, 3, kp=1.0, kd=2.0)],
    }
    wanted = inspect.signature(getattr(dyn_ros, name)).parameters
    if f_ext or ("f_ext" in wanted and wanted["f_ext"].default is inspect.Parameter.empty):
        values["f_ext"] = pair.wrenches(3)
    return {key: value for key, value in values.items() if key in wanted}


def written(data):
    """Names of public fields with a number in them; each is either all numbers or none."""
    found = set()
    for known in PUBLIC:
        numbers = ~np.isnan(getattr(data, known.name))
        assert numbers.all() or not numbers.any(), known.name
        if numbers.any():
            found.add(known.name)
    return found


def fill_with_nan(data):
    for known in PUBLIC:
        array = getattr(data, known.name)  # empty, or of the size of the last call
        array[...] = np.nan
        if known.is_open:
            data._array(known)[...] = np.nan


def declared(algorithm):
    return {known.name for known in (*algorithm.results, *algorithm.also_writes) if known.is_public}


@pytest.mark.parametrize("f_ext", [False, True], ids=["free", "pushed"])
@peer.robots(ROBOTS)
def test_exactly_the_declared_fields_change(robot, root_joint, f_ext):
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for name, algorithm in ALGORITHMS.items():
        given = arguments(pair, name, f_ext)
        if f_ext and "f_ext" not in given:  # the same as without
            continue
        fill_with_nan(data)
        getattr(dyn_ros, name)(pair.model, data, **given)
        assert written(data) == declared(algorithm), name


@peer.robots(SMALL)
def test_a_batch_changes_no_field(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for name in ALGORITHMS:
        fill_with_nan(data)
        given = arguments(pair, name, False)
        given["q"] = np.tile(given["q"], (9, 1))
        getattr(dyn_ros, name)(pair.model, data, **given)
        assert written(data) == set(), name


@peer.robots(SMALL)
def test_a_result_depends_on_its_own_arguments_alone(robot, root_joint):
    """Every algorithm once more, after all the others and other states."""
    pair = peer.new_pair(robot, root_joint)
    data = dyn_ros.Data(pair.model)
    for seed in range(2):
        for name in ALGORITHMS:
            given = arguments(pair, name, seed == 0)
            given["q"] = pair.state(seed)[0]
            getattr(dyn_ros, name)(pair.model, data, **given)
    for name, algorithm in ALGORITHMS.items():
        given = arguments(pair, name, False)
        fresh = dyn_ros.Data(pair.model)
        getattr(dyn_ros, name)(pair.model, data, **given)
        getattr(dyn_ros, name)(pair.model, fresh, **given)
        for each in declared(algorithm):
            assert np.array_equal(getattr(data, each), getattr(fresh, each)), (name, each)


def test_all_terms_writes_those_that_are_asked_for():
    pair = peer.new_pair("panda")
    data, (q, v, _, _) = dyn_ros.Data(pair.model), pair.state(1)
    for name in Terms._fields:
        fill_with_nan(data)
        found = dyn_ros.all_terms(pair.model, data, q, v, only=(name,))
        assert written(data) == {name}
        assert np.array_equal(found, getattr(data, name))


@peer.robots(SMALL)
def test_forward_kinematics_writes_those_that_are_asked_for(robot, root_joint):
    pair = peer.new_pair(robot, root_joint)
    data, (q, v, a, _) = dyn_ros.Data(pair.model), pair.state(1)
    every = dyn_ros.Data(pair.model)
    dyn_ros.forward_kinematics(pair.model, every, q, v, a)
    for known in MOTION:
        fill_with_nan(data)
        found = dyn_ros.forward_kinematics(pair.model, data, q, v, a, only=(known.name,))
        assert written(data) == {known.name}
        assert found is getattr(data, known.name)
        assert np.array_equal(found, getattr(every, known.name))


@pytest.mark.parametrize("only", [5, "oMi", (), ["v", 3], ["a_gf"]])
def test_motions_that_are_none_are_rejected(only):
    pair = peer.pair("double_pendulum")
    with pytest.raises(ValueError, match=r"only: expected .*available: oMi, liMi"):
        dyn_ros.forward_kinematics(pair.model, pair.data, pair.state(1)[0], only=only)


def test_many_choices_of_terms_stay_right():
    """More than a Data keeps memory for."""
    pair = peer.new_pair("double_pendulum")
    data, (q, v, _, _) = dyn_ros.Data(pair.model), pair.state(1)
    expected = dyn_ros.all_terms(pair.model, dyn_ros.Data(pair.model), q, v)._asdict()
    choices = [
        tuple(name for k, name in enumerate(Terms._fields) if n >> k & 1) for n in range(1, 300)
    ]
    for only in choices + choices[:20]:
        found = dyn_ros.all_terms(pair.model, data, q, v, only=only)
        for name, value in zip(only, found if len(only) > 1 else [found]):
            peer.close(value, expected[name], 1e-12)
    assert sum(each is not None for each in data._prepared) <= len(data._state_calls) <= 256


@pytest.mark.parametrize("only", [5, "com", "M", (), [["M"]], ["M", 3], ["nothing"]])
def test_terms_that_are_none_are_rejected(only):
    pair = peer.pair("double_pendulum")
    with pytest.raises(ValueError, match=r"only: expected .*available: M, nle"):
        dyn_ros.all_terms(pair.model, pair.data, pair.state(1)[0], only=only)


@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_what_is_left_is_documented(name):
    """Each field that it also writes is in its docstring or in one that this refers to."""
    texts, todo = "", [name]
    seen = set()
    while todo:
        each = todo.pop()
        if each not in seen and each in ALGORITHMS:
            seen.add(each)
            text = inspect.getdoc(getattr(dyn_ros, each)) or ""
            texts += text
            todo += re.findall(r"``(\w+)``", text)
    returned = set(re.findall(r"^(\w+(?:, \w+)*) :", texts, re.MULTILINE))
    names = {part for each in returned for part in each.split(", ")}
    for known in ALGORITHMS[name].also_writes:
        assert f"data.{known.name}" in texts or known.name in names, known.name


def test_forward_dynamics_with_mimic_joints_leaves_the_bias_torques_alone():
    """A mimic joint takes aba through nle, without f_ext: it is no result of aba's."""
    pair = peer.new_pair("panda")
    q, v, _, tau = pair.state(2)
    expected = dyn_ros.nonlinear_effects(pair.model, pair.data, q, v).copy()
    dyn_ros.aba(pair.model, pair.data, q, v, tau, pair.wrenches(1))
    assert np.array_equal(pair.data.nle, expected)


@pytest.mark.parametrize(
    "compute, tensors",
    [
        (dyn_ros.rnea_second_order_derivatives, "d2tau_dqdq d2tau_dvdv d2tau_dqdv d2tau_dadq"),
        (dyn_ros.aba_second_order_derivatives, "d2tau_dqdq d2tau_dvdv d2tau_dqdv d2tau_dadq"),
        (dyn_ros.rnea_derivatives, "dtau_dq dtau_dv M"),
        (dyn_ros.crba, "M"),
        (dyn_ros.coriolis_matrix, "C"),
        (dyn_ros.minverse, "Minv"),
        (dyn_ros.forward_kinematics, "oMi liMi"),
        (dyn_ros.frame_placements, "oMf"),
    ],
)
def test_what_a_caller_wrote_into_a_result_is_gone_after_the_next_call(compute, tensors):
    pair = peer.new_pair("solo12", "floating")
    data = dyn_ros.Data(pair.model)
    given = arguments(pair, compute.__name__, False)
    compute(pair.model, data, **given)
    expected = {name: getattr(data, name).copy() for name in tensors.split()}
    for name in expected:
        getattr(data, name)[...] = 7.0
    compute(pair.model, data, **given)
    for name, array in expected.items():
        assert np.array_equal(getattr(data, name), array)


# --- an algorithm of one's own

OWN = """
    from dyn_ros.engine.call.algorithm import Algorithm
    from dyn_ros.engine.kernel.fields import Q, V, field
    from dyn_ros.engine.kernel.packing import has_input, nv, offset
    from dyn_ros.engine.machine_code.declare import kernel
    from dyn_ros.engine.kernel.lanes import load, store

    WEIGHT = field("_W", ("nv",))
    WEIGHTED = field("weighted", ("nv",), "W v.")


    @kernel
    def weighted_kernel(r):
        for k in range(nv(r)):
            x = load(r.work, offset(r, V) + k)
            if has_input(r, WEIGHT):
                x = load(r.work, offset(r, WEIGHT) + k) * x
            store(r.work, offset(r, WEIGHTED) + k, x)


    _algorithm = Algorithm("weighted", weighted_kernel, (Q, V, WEIGHT), (WEIGHTED,){optional})
    _{name} = _algorithm.make_call()


    def weighted(model, data, q, v, W=None, *, threads=1):
        return _{name}(model, data, threads, q, v, W)
"""
CALL = """
    import sys
    import numpy as np
    import dyn_ros
    model = dyn_ros.Model.from_urdf_file(sys.argv[1])
    data = dyn_ros.Data(model)          # made before the field was declared
    import own
    q, v = model.neutral(), np.arange(1.0, model.nv + 1.0)
    W = np.full(model.nv, 3.0)
    assert np.array_equal(own.weighted(model, data, q, v, W), 3.0 * v)
    assert own.weighted(model, data, q, v, W) is data.weighted
    assert np.array_equal(data.weighted, 3.0 * v)
    many = np.tile(v, (11, 1))
    assert np.array_equal(own.weighted(model, data, q, many, W), 3.0 * many)
    try:
        print(own.weighted(model, data, q, v) / v, own.weighted(model, data, q, many)[3] / v)
    except ValueError as error:
        print(error)
"""
ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


@pytest.mark.parametrize(
    "optional, expected",
    [
        (", optional=(WEIGHT,)", "[1. 1. 1. 1. 1. 1. 1.] [1. 1. 1. 1. 1. 1. 1.]"),
        ("", "W: expected shape (7,), or (B, 7) for a batch"),
    ],
)
def test_an_input_that_is_declared_in_another_file_is_read(tmp_path, optional, expected):
    if JIT:
        pytest.importorskip("numba", reason="a kernel of a user's own is compiled")
    own = textwrap.dedent(OWN).format(name="call", optional=optional)
    (tmp_path / "own.py").write_text(own)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CALL), str(ARM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(expected)


TOTAL = """
    import sys
    import numpy as np
    import dyn_ros
    from dyn_ros.engine.call.algorithm import Algorithm
    from dyn_ros.engine.kernel.fields import BETA, field
    from dyn_ros.engine.kernel.packing import nconstraints, offset
    from dyn_ros.engine.machine_code.declare import kernel
    from dyn_ros.engine.kernel.lanes import load, store

    SUM = field("total", ())


    @kernel
    def total_kernel(r):
        store(r.work, offset(r, SUM), 0.0)
        for k in range(nconstraints(r)):
            total = load(r.work, offset(r, SUM)) + load(r.work, offset(r, BETA) + k)
            store(r.work, offset(r, SUM), total)


    call = Algorithm("total", total_kernel, (BETA,), (SUM,)).make_call()
    model = dyn_ros.Model.from_urdf_file(sys.argv[1])
    data = dyn_ros.Data(model)
    for count in (0, 1, 36, 2):
        assert call(model, data, 1, np.ones(count)) == count
    try:
        call(model, data, 1, np.ones(37))
    except ValueError as error:
        print(error)
"""


def test_more_constraints_than_there_is_room_for_are_rejected(tmp_path):
    if JIT:
        pytest.importorskip("numba", reason="a kernel of a user's own is compiled")
    (tmp_path / "total.py").write_text(textwrap.dedent(TOTAL))  # its code is found as a file
    done = subprocess.run(
        [sys.executable, "total.py", str(ARM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("beta: expected shape (m,), or (B, m) for a batch (m at most 36)")


@kernel
def _selects_kernel(r):
    return option(r, FRAME)


@kernel
def _empty_kernel(r):
    return


def test_a_declaration_that_the_kernel_contradicts_is_rejected():
    before = dict(ALGORITHMS)
    with pytest.raises(ValueError, match=r"mine: its kernel reads the options frame; add them"):
        Algorithm("mine", _selects_kernel, (V,), ())
    with pytest.raises(ValueError, match=r"mine: its kernel never refers to _v"):
        Algorithm("mine", _empty_kernel, (), (V,))
    assert before == ALGORITHMS


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"name": "crba"}, ValueError, "named 'crba' exists already"),
        ({"inputs": V}, TypeError, "inputs: expected a tuple of Field"),
        ({"results": "tau"}, TypeError, "results: expected a tuple of Field"),
        ({"inputs": (V, V)}, ValueError, "inputs: expected distinct items, got _v, _v"),
        ({"optional": (Q,)}, ValueError, "optional inputs must be inputs"),
        (
            {"options": (REFERENCE_FRAME, FRAME)},
            ValueError,
            "only the first option can have bits=0",
        ),
    ],
)
def test_a_wrong_declaration_says_what_is_wrong(change, error, words):
    right = {"name": "mine", "kernel": _empty_kernel, "inputs": (V,), "results": ()}
    with pytest.raises(error, match=words):
        Algorithm(**{**right, **change})
    assert "mine" not in ALGORITHMS


def test_a_function_without_a_body_has_an_argument_for_each_input_and_option():
    before = list(dyn_ros.engine.algorithms.__all__)
    words = "mine: expected arguments named as .* takes; add offset, reference_frame, or give"
    with pytest.raises(ValueError, match=words):

        @variant(dyn_ros.frame_jacobian, joint_selector)
        def mine(model, data, q, joint, *, threads=1):
            """Nothing."""

    assert before == dyn_ros.engine.algorithms.__all__


def test_a_call_with_a_forgotten_selector_says_what_is_expected():
    pair = peer.pair("panda")
    velocity = ALGORITHMS["frame_velocity"].make_call()
    with pytest.raises(
        TypeError,
        match="frame_velocity: its caller expects model, data, threads, "
        "a selector and 2 inputs, got 1 inputs",
    ):
        velocity(pair.model, pair.data, 1, *pair.state(1)[:2])


@pytest.mark.parametrize(
    "name, shape, words",
    [
        ("model", (3,), "a field cannot be named 'model'"),
        ("release", (3,), "named 'release'"),
        ("a b", (3,), "cannot be named 'a b'"),
        ("M", (3,), "exists already"),
        ("mine", ("nvv",), "shape: expected a tuple"),
        ("mine", ("nv"), "shape: expected a tuple"),
    ],
)
def test_a_wrong_field_says_what_is_wrong(name, shape, words):
    with pytest.raises(ValueError, match=words):
        field(name, shape)


def test_more_fields_and_options_than_a_table_has_room_for_are_rejected(monkeypatch):
    monkeypatch.setattr(fields, "MAX_FIELDS", len(FIELDS))
    monkeypatch.setattr(fields, "MAX_OPTIONS", len(fields.OPTIONS))
    before = len(FIELDS), len(fields.OPTIONS)
    with pytest.raises(ValueError, match=rf"more than {len(FIELDS)} fields; raise MAX_FIELDS"):
        field("mine", (3,))
    with pytest.raises(ValueError, match="more than .* options; raise MAX_OPTIONS"):
        fields.declare_option("mine")
    assert before == (len(FIELDS), len(fields.OPTIONS))


def test_fields_in_tuples_are_among_the_constants():
    assert fields.fields_among([3, Q, (1.0, (V, (TAU_IN,))), "text"]) == {Q, V, TAU_IN}


@pytest.mark.parametrize("lanes", [False, True])
def test_scratch_is_nan_unless_it_has_to_be_zero_or_holds_placements(lanes):
    """NaN shows a kernel that reads what it has not written."""
    workspace = Workspace(peer.pair("panda").model, {Q, OMI, EMPTY, JOINT_V}, lanes)
    assert np.isnan(workspace[Q]).all() and np.isnan(workspace[JOINT_V]).all()
    assert not workspace[EMPTY].any()
    placements = np.moveaxis(workspace[OMI], (1, 2), (-2, -1))
    assert np.array_equal(placements, np.broadcast_to(np.eye(4), placements.shape))


@pytest.mark.parametrize("lanes", [False, True])
def test_a_sum_is_one_array_of_zeros_for_all_lanes(lanes):
    model = peer.pair("panda").model
    workspace = Workspace(model, {Q, PRODUCTS, V}, lanes)
    shape = axis_lengths(model, PRODUCTS.shape)
    assert workspace[PRODUCTS].shape == shape
    assert not workspace[PRODUCTS].any()
    workspace[PRODUCTS][...] = 1.0
    assert np.isnan(workspace[Q]).all() and np.isnan(workspace[V]).all()
    assert (workspace.work == 1.0).sum() == np.prod(shape)
