# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Whatever a caller passes by mistake: the error is one of its type or value, and names it."""

import inspect
import re

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS

from .test_contract import arguments

NONSENSE = {
    "None": None,
    "string": "abc",
    "bytes": b"x",
    "integer": 5,
    "large": 10**400,
    "float": 1.5,
    "negative": -1,
    "NaN": np.nan,
    "infinity": np.inf,
    "boolean": True,
    "class": int,
    "object": object(),
    "dictionary": {},
    "set": {1, 2},
    "empty list": [],
    "names": ["a"],
    "nothing": [None],
    "ragged": [[1, 2], [3]],
    "ragged arrays": [np.zeros(3), np.zeros(2)],
    "empty": np.zeros(0),
    "one": np.array([0.0]),
    "square": np.zeros((3, 3)),
    "NaNs": np.full(2, np.nan),
    "complex": 1j * np.ones(2),
    "objects": np.array([object()] * 2),
    "dates": np.array(["2020"], dtype="M8[s]"),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_error_names_the_argument(name):
    pair = peer.new_pair("double_pendulum")
    function, data = getattr(dyn_ros, name), dyn_ros.Data(pair.model)
    given = {"model": pair.model, "data": data, **arguments(pair, name, True)}
    function(**given)
    names = inspect.signature(function).parameters
    words_of = {wrong: f"{wrong}:" for wrong in names} | {
        "model": "(model:|data: .* called with the model)",
        "joint": "(joint:|no joint named 'abc')",
        "axes": "(axes:|no frame named 'abc')",
        "frame": "(frame:|no frame named 'abc')",
        "tip": "(tip:|no frame named 'abc')",
        "residual": "(residual:|damping: .* for proximal iterations)",
    }
    for wrong in names:
        for what, value in NONSENSE.items():
            try:
                function(**{**given, wrong: value})
            except (TypeError, ValueError, np.linalg.LinAlgError) as error:
                words = rf"(^|: |, ){words_of[wrong]}"
                assert re.search(words, str(error)), (wrong, what, str(error))


CONTACTS = [
    name
    for name in ALGORITHMS
    if "contacts" in inspect.signature(getattr(dyn_ros, name)).parameters
]


@pytest.mark.parametrize("name", [*CONTACTS, "external_wrenches"])
@pytest.mark.parametrize(
    "contacts",
    [
        5,
        None,
        object(),
        [None],
        [1.0],
        np.zeros(3),
        np.zeros((2, 2)),
        np.array(1.0),
        np.array([object()]),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_contacts_that_are_none(name, contacts):
    pair = peer.new_pair("double_pendulum")
    given = (
        arguments(pair, name, False)
        if name in ALGORITHMS
        else {"q": pair.state(7)[0], "tau_ext": np.ones(pair.model.nv)}
    )
    with pytest.raises(TypeError, match=r"contacts: expected a sequence of dyn_ros\.Contact"):
        getattr(dyn_ros, name)(
            pair.model, dyn_ros.Data(pair.model), **{**given, "contacts": contacts}
        )


@pytest.mark.parametrize("before", [0.0, np.float32(0.0), 0, None])
@pytest.mark.parametrize("damping", [np.array([0.0]), [0.0], np.zeros((1, 1))], ids=repr)
def test_damping_is_one_number_whatever_the_call_before_was(before, damping):
    pair = peer.new_pair("double_pendulum")
    data, given = dyn_ros.Data(pair.model), arguments(pair, "contact_dynamics", False)
    if before is not None:
        expected = dyn_ros.contact_dynamics(pair.model, data, **given, damping=before)[0].copy()
        one = dyn_ros.contact_dynamics(pair.model, data, **given, damping=np.array(0.0))[0]
        assert np.array_equal(one, expected)
    with pytest.raises(ValueError, match="damping: expected a finite number, got"):
        dyn_ros.contact_dynamics(pair.model, data, **given, damping=damping)


@pytest.mark.parametrize(
    "wrong",
    [0, 1.5, "abc", [], [None], {1}, np.zeros(3), object(), int],
    ids=lambda wrong: type(wrong).__name__,
)
def test_arguments_of_methods_that_are_of_another_type(wrong):
    model = peer.pair("double_pendulum").model
    with pytest.raises(TypeError, match="^wrenches: expected a dict of wrenches by frame, got"):
        model.external_forces(wrong)
    with pytest.raises(TypeError, match=r"^rng: expected a numpy\.random\.Generator, got"):
        model.random_configuration(wrong)
    if not isinstance(wrong, list) or wrong:  # of none, it is a ValueError
        with pytest.raises(TypeError, match="^recordings: expected a sequence"):
            dyn_ros.Samples.concatenate(wrong)


@pytest.mark.parametrize("wrong", ["x", None, np.zeros(2)], ids=repr)
def test_flags_that_are_neither_true_nor_false(wrong):
    model = peer.pair("double_pendulum").model
    q, *others = np.zeros(model.nq), *np.zeros((5, model.nv))
    with pytest.raises(TypeError, match="^direct: expected True or False, got "):
        dyn_ros.momentum_observer_step(
            model, dyn_ros.Data(model), q, *others[:2], 0.001, 10.0, *others[2:], direct=wrong
        )
