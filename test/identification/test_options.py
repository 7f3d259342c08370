# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The options of an identification are listed once."""

import dataclasses
import inspect
import pickle

import numpy as np
import pytest

import dyn_ros
from dyn_ros.identification.identify_options import IdentifyOptions


@pytest.mark.parametrize("function", [dyn_ros.identify, dyn_ros.logs.identify])
def test_functions_show_the_options(function):
    shown = inspect.signature(function).parameters
    documentation = inspect.getdoc(function)
    for field in dataclasses.fields(IdentifyOptions):
        assert shown[field.name].default == field.default
        assert shown[field.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert f"\n{field.name} : " in documentation
    assert "options" not in shown and "**options" not in documentation
    with pytest.raises(
        TypeError, match=r"^identify\(\) got an unexpected keyword argument 'thread'"
    ):
        function(None, [], thread=2)


def test_options_can_be_sent_and_follow_joints_that_are_locked():
    options = IdentifyOptions(noise=np.arange(1.0, 4.0), stribeck=0.1)
    few = pickle.loads(pickle.dumps(options)).for_velocities(np.array([0, 2]), 3)
    assert few.noise.tolist() == [1.0, 3.0] and few.stribeck == 0.1


@pytest.mark.parametrize(
    "options, words",
    [
        (dict(regularization=0.0), "regularization: expected a positive number, got 0.0"),
        (dict(huber=-1.0), "huber: expected a positive number"),
        (dict(held_out=0.95), "held_out: expected a fraction between 0 and 0.9"),
        (dict(contact_dimension=4), "contact_dimension: expected 3 or 6, got 4"),
        (dict(friction_terms="stribeck"), "friction_terms: expected some of"),
        (dict(friction_terms=["wear"]), "friction_terms: expected some of"),
    ],
)
def test_options_out_of_range(options, words):
    with pytest.raises(ValueError, match=words):
        IdentifyOptions(**options)


def test_terms_that_may_be_chosen():
    assert len(IdentifyOptions().allowed_terms) == 4
    assert IdentifyOptions(friction_terms=["stribeck"]).allowed_terms == ("stribeck",)
    assert IdentifyOptions(friction=False, friction_terms=["stribeck"]).allowed_terms == ()
