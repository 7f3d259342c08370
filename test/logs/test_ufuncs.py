# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions of the engine as generalized ufuncs, alone and in Dask and xarray."""

import pickle

import numpy as np
import pytest

import dyn_ros
from dyn_ros.logs.ufuncs import gufunc

MODEL = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
QUADRUPED = dyn_ros.Model.from_urdf_file("dyn_ros/robots/quadruped.urdf", root_joint="floating")
TOOL = MODEL.frame_names[-1]


def states(model, *shape):
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(int(np.prod(shape)))])
    return (
        q.reshape(*shape, model.nq),
        rng.normal(size=(*shape, model.nv)),
        rng.normal(size=(*shape, model.nv)),
    )


@pytest.mark.parametrize(
    "function, options, count, signature, sizes",
    [
        (dyn_ros.rnea, {}, 3, "(q),(v),(v)->(v)", {}),
        (dyn_ros.crba, {}, 1, "(q)->(v,v)", {"v": 7}),
        (dyn_ros.kinetic_energy, {}, 2, "(q),(v)->()", {}),
        (dyn_ros.rnea_derivatives, {}, 3, "(q),(v),(v)->(v,v),(v,v),(v,v)", {}),
        (
            dyn_ros.frame_jacobian,
            dict(frame=TOOL, reference_frame=dyn_ros.ReferenceFrame.LOCAL),
            1,
            "(q)->(6,v)",
            {"6": 6, "v": 7},
        ),
        (
            dyn_ros.frame_velocity,
            dict(frame=TOOL, reference_frame=dyn_ros.ReferenceFrame.LOCAL),
            2,
            "(q),(v)->(6)",
            {"6": 6},
        ),
        (dyn_ros.ccrba, {}, 2, "(q),(v)->(6,v),(6),(6,6)", {"6": 6}),
        (dyn_ros.joint_torque_regressor, {}, 3, "(q),(v),(v)->(v,parameters)", {"parameters": 70}),
    ],
)
def test_values_and_signature(function, options, count, signature, sizes):
    call = pickle.loads(pickle.dumps(gufunc(function, MODEL, **options)))
    assert (call.signature, call.output_sizes) == (signature, sizes)
    arguments = states(MODEL, 2, 3)[:count]
    result, data = call(*arguments), dyn_ros.Data(MODEL)
    is_single = not isinstance(result, tuple)
    for n in np.ndindex(2, 3):
        expected = function(MODEL, data, *(array[n] for array in arguments), **options)
        for values, expected_values in zip(
            (result,) if is_single else result, (expected,) if is_single else expected
        ):
            np.testing.assert_allclose(values[n], expected_values, rtol=1e-12, atol=1e-12)


def test_leading_axes():
    call, data = gufunc(dyn_ros.rnea, QUADRUPED), dyn_ros.Data(QUADRUPED)
    q, v, a = states(QUADRUPED, 4, 3)
    expected = dyn_ros.rnea(QUADRUPED, data, q[0, 0], v[0, 0], a[0, 0]).copy()
    np.testing.assert_allclose(call(q[0, 0], v[0, 0], a[0, 0]), expected, atol=1e-12)
    broadcast = call(q[:, None], v, a[0, 0])
    assert broadcast.shape == (4, 4, 3, QUADRUPED.nv)
    expected = dyn_ros.rnea(QUADRUPED, data, q[3, 2], v[1, 2], a[0, 0])
    np.testing.assert_allclose(broadcast[3, 1, 2], expected, atol=1e-12)
    assert call(q[:0], v[:0], a[:0]).shape == (0, 3, QUADRUPED.nv)


def test_inputs_that_are_optional():
    call = gufunc(dyn_ros.rnea, MODEL, inputs=("q", "v", "a", "f_ext"))
    assert call.signature == "(q),(v),(v),(njoints,6)->(v)"
    q, v, a = states(MODEL, 5)
    forces = np.ones((5, MODEL.njoints, 6))
    np.testing.assert_allclose(
        call(q, v, a, forces), dyn_ros.rnea(MODEL, dyn_ros.Data(MODEL), q, v, a, forces), atol=1e-12
    )


@pytest.mark.parametrize(
    "function, options, words",
    [
        (len, {}, "expected a function of the engine, such as dyn_ros.rnea, got len"),
        (dyn_ros.joint_friction, {}, "got joint_friction"),
        (dyn_ros.rnea, dict(speed=1), "rnea: has no argument 'speed'; it has q, v, a, f_ext"),
        (dyn_ros.frame_jacobian, {}, "the argument 'frame' is not an array"),
    ],
)
def test_errors(function, options, words):
    with pytest.raises(ValueError, match=words):
        gufunc(function, MODEL, **options)


def test_a_wrong_number_of_arrays():
    with pytest.raises(ValueError, match="rnea: expected 3 arrays, q, v, a, got 1"):
        gufunc(dyn_ros.rnea, MODEL)(np.zeros(7))


def test_dask():
    array = pytest.importorskip("dask.array")
    q, v, a = states(MODEL, 1000)
    call = gufunc(dyn_ros.rnea, MODEL)
    lazy = array.apply_gufunc(
        call,
        call.signature,
        *(array.from_array(values, chunks=(100, -1)) for values in (q, v, a)),
        output_dtypes=call.output_dtypes[0],
    )
    expected = dyn_ros.rnea(MODEL, dyn_ros.Data(MODEL), q, v, a)
    for scheduler in ("threads", "synchronous"):
        np.testing.assert_allclose(lazy.compute(scheduler=scheduler), expected, atol=1e-12)


def test_dask_infers_results_of_several_arrays():
    array = pytest.importorskip("dask.array")
    q, v, _ = states(MODEL, 60)
    call = gufunc(dyn_ros.ccrba, MODEL)
    lazy = array.apply_gufunc(
        call,
        call.signature,
        *(array.from_array(values, chunks=(20, -1)) for values in (q, v)),
        output_dtypes=call.output_dtypes,
        output_sizes=call.output_sizes,
    )
    for result, expected in zip(
        array.compute(*lazy), dyn_ros.ccrba(MODEL, dyn_ros.Data(MODEL), q, v)
    ):
        np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.mark.parametrize("chunks", [None, {"time": 25}])
def test_xarray(chunks):
    xarray = pytest.importorskip("xarray")
    q, v, a = states(MODEL, 4, 100)
    recording = xarray.Dataset(
        {
            "q": (("run", "time", "position"), q),
            "v": (("run", "time", "velocity"), v),
            "a": (("run", "time", "velocity"), a),
        }
    )
    if chunks:
        pytest.importorskip("dask")
        recording = recording.chunk(chunks)
    tau = xarray.apply_ufunc(
        gufunc(dyn_ros.rnea, MODEL),
        recording.q,
        recording.v,
        recording.a,
        input_core_dims=[["position"], ["velocity"], ["velocity"]],
        output_core_dims=[["velocity"]],
        dask="parallelized",
        output_dtypes=[float],
    )
    assert tau.dims == ("run", "time", "velocity")
    expected = dyn_ros.rnea(
        MODEL, dyn_ros.Data(MODEL), *(values.reshape(400, -1) for values in (q, v, a))
    )
    np.testing.assert_allclose(tau.values.reshape(400, -1), expected, atol=1e-12)


@pytest.mark.parametrize(
    "call", [lambda path: gufunc(dyn_ros.rnea, 5), lambda path: dyn_ros.logs.read(path, robot=5)]
)
def test_a_number_is_no_robot(call, tmp_path):
    path = tmp_path / "run.csv"
    path.write_text("time,position.j\n0,0\n1,0\n")
    with pytest.raises(TypeError, match="expected a dyn_ros.Model.* 5"):
        call(path)
