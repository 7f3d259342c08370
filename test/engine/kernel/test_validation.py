# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of arguments."""

import re

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.kernel import validation


@pytest.fixture(scope="module")
def arm():
    return peer.pair("every_joint", "floating")


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2.0), np.int8(2), np.array(2.0)])
def test_a_number_becomes_a_float(value):
    for convert in (validation.finite_number, validation.positive_number):
        number = convert("x", value)
        assert type(number) is float and number == 2.0


@pytest.mark.parametrize(
    "value", [np.nan, -np.inf, 10**400, "2", b"2", None, 2j, [2.0], np.ones(1), np.ma.masked]
)
def test_anything_else_is_no_number(value):
    for convert in (validation.finite_number, validation.positive_number):
        with pytest.raises(ValueError, match="^x: expected a finite number, got "):
            convert("x", value)


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0"), (-2, "-2"), (np.float64(-0.5), "-0.5")])
def test_numbers_that_are_not_positive(value, shown):
    with pytest.raises(ValueError, match=f"^x: expected a positive number, got {shown}$"):
        validation.positive_number("x", value)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_an_array_is_new_and_of_float64(shape):
    value = np.ones(shape, np.float64)
    array = validation.finite_array("x", value, shape)
    assert array.dtype == np.float64 and array.shape == shape
    assert not np.shares_memory(array, value)
    if shape:
        assert not np.shares_memory(validation.shaped_array("x", value, shape), value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones(2), r"x: expected shape \(..., 3\), got \(2,\)"),
        (1.0, r"x: expected shape \(..., 3\), got \(\)"),
        ("text", r"x: expected shape \(..., 3\) of real numbers, got dtype <U4: 'text'"),
        ([[1.0], [2.0, 3.0]], r"x: expected shape \(..., 3\), got a list: "),
        (
            [[0.0, 0.0, 0.0], [0.0, np.inf, 0.0]],
            r"x: expected finite numbers, got inf in x\[1, 1\]",
        ),
    ],
)
def test_leading_axes(value, message):
    assert validation.shaped_array("x", np.ones((4, 5, 3)), (3,), leading=True).shape == (4, 5, 3)
    with pytest.raises(ValueError, match=f"^{message}"):
        validation.shaped_array("x", value, (3,), leading=True)


def test_one_number_stands_for_all():
    assert validation.one_each("x", 2, 3).tolist() == [2.0, 2.0, 2.0]
    assert validation.one_each("x", [1, 2, 3], 3).tolist() == [1.0, 2.0, 3.0]
    assert validation.one_each("x", [], 0).shape == (0,)


@pytest.mark.parametrize(
    ("value", "bounds", "message"),
    [
        ([1.0, 2.0], {}, r"expected 3 finite numbers, got shape \(2,\)"),
        ([1.0, [2.0], 3.0], {}, "expected 3 finite numbers, got "),
        (np.nan, {}, "expected 3 finite numbers, got "),
        ([1.0, 0.0, -1.0], {"above": 0.0}, r"expected positive numbers, got 0 in x\[1\]"),
        ([1.0, 2.0, 3.0], {"above": 2.0}, r"expected numbers above 2, got 1 in x\[0\]"),
        ([1.0, 0.0, -1.0], {"least": 0.0}, r"expected numbers of at least 0, got -1 in x\[2\]"),
    ],
)
def test_numbers_beyond_their_bounds(value, bounds, message):
    with pytest.raises(ValueError, match=f"^x: {message}"):
        validation.one_each("x", value, 3, **bounds)


def test_arrays_of_a_model(arm):
    q, v = arm.states(3)[:2]
    model = arm.model
    assert validation.as_array(model, "q", ("nq",), q) == (pytest.approx(q), True)
    array, batched = validation.as_array(model, "v", ("nv",), v[0].tolist())
    assert not batched and np.array_equal(array, v[0])
    assert np.array_equal(validation.valid_array(model, "q", ("nq",), q), q)
    array, batched = validation.as_array(model, "A", (6, "constraints"), np.ones((6, 2))[:, ::-1])
    assert not batched and array.flags.c_contiguous and array.shape == (6, 2)


def test_numbers_of_a_model_are_named(arm):
    q, v = arm.states(3)[:2]
    model = arm.model
    v[1, -1] = np.nan
    assert np.isnan(validation.as_array(model, "v", ("nv",), v)[0]).any()  # not checked
    last = re.escape(repr(model.velocity_names[-1]))
    with pytest.raises(ValueError, match=rf"got nan in v\[1, {model.nv - 1}\] \({last}\)$"):
        validation.valid_array(model, "v", ("nv",), v)
    q[2, 3:7] *= 1.1
    with pytest.raises(ValueError, match=r"expected a unit quaternion \(x y z w\) in q\[2, 3:7\]"):
        validation.valid_array(model, "q", ("nq",), q)


def test_what_is_no_model():
    model = peer.pair("panda").model
    assert validation.require_model(model) is model
    with pytest.raises(TypeError, match="model: expected a dyn_ros.Model, got Data"):
        validation.require_model(dyn_ros.Data(model))
