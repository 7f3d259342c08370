# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What docstrings share is written once, and stands in each of them."""

import inspect
import re

import pytest

import dyn_ros
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.call.documentation import complete_docstring


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_argument_and_the_errors_are_documented(name):
    function = getattr(dyn_ros, name)
    entries = re.findall(r"^([\w, ]+)(?: :.*)?\n    ", function.__doc__, re.MULTILINE)
    documented = {"model", *(name for entry in entries for name in entry.split(", "))}
    assert set(inspect.signature(function).parameters) - documented == set()
    assert function.__doc__.count("\nValueError\n") == 1


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_fields_that_are_written_are_documented(name):
    algorithm, text = ALGORITHMS[name], getattr(dyn_ros, name).__doc__
    described, _, results = text.partition("\nReturns\n-------\n")
    assert [f"data.{known.name}" for known in algorithm.also_writes] == re.findall(
        r"data\.\w+", described.partition("Also computes")[2].partition("\nParameters\n")[0]
    )
    assert [
        known.name
        for known in algorithm.results
        if known.is_public and f"``data.{known.name}``" not in results
    ] == []


@pytest.mark.parametrize(
    ("name", "fails"),
    [
        ("aba", True),
        ("cholesky_Ut_times", True),
        ("contact_dynamics", True),
        ("minverse", True),
        ("rnea", False),
        ("cholesky_M_times", False),
        ("contact_jacobian", False),
        ("crba", False),
    ],
)
def test_an_algorithm_that_divides_by_inertias_may_raise_an_error(name, fails):
    assert ("\nnumpy.linalg.LinAlgError\n" in getattr(dyn_ros, name).__doc__) == fails


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("rnea", "(nv,) ndarray\n    Joint torques and forces [N m, N]; ``data.tau``."),
        ("com_jacobian", "(3, nv) ndarray\n"),
        ("body_momenta", "oh : (njoints, 6) ndarray\n"),
        ("delassus_matrix", "(m, m) ndarray\n"),
        ("potential_energy", "number, or (B,) ndarray\n"),
        ("operational_space_inertia", "(dimension, dimension) ndarray\n"),
        ("joint_jacobian", "(6, nv) ndarray\n"),
        ("joint_jacobians", "(6, n) ndarray\n"),
        ("joint_torque_regressor", "(nv, 10 njoints) ndarray\n"),
    ],
)
def test_results_have_the_shape_that_is_returned(name, entry):
    assert f"\n{entry}" in getattr(dyn_ros, name).__doc__.partition("\nReturns\n")[2]


def test_own_entries_replace_shared_ones_and_sections_are_in_order():
    def function(model, v=None, *, gain, threads=1):
        """Do something.

        More.

        Parameters
        ----------
        gain : float
            The gain.
        v : array
            Of a kind.

        Returns
        -------
        float
        """

    complete_docstring(function)
    text = function.__doc__
    assert text.startswith(
        "Do something.\n\nMore.\n\nParameters\n----------\nmodel : Model\n"
        "v : array\n    Of a kind.\ngain : float\n    The gain.\nthreads : int\n"
    )
    assert text.index("Parameters") < text.index("Returns") < text.index("Raises")
