# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What docstrings share is written once, and stands in each of them."""
import inspect
import re

import pytest

import dyn_ros
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.call.documentation import complete


@pytest.mark.parametrize("name", ALGORITHMS)
def test_each_argument_and_the_errors_are_documented(name):
    function = getattr(dyn_ros, name)
    entries = re.findall(r"^([\w, ]+)(?: :.*)?\n    ", function.__doc__, re.MULTILINE)
    documented = {"model", *(name for entry in entries for name in entry.split(", "))}
    assert set(inspect.signature(function).parameters) - documented == set()
    assert function.__doc__.count("\nValueError\n") == 1


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
    complete(function)
    text = function.__doc__
    assert text.startswith(
        "Do something.\n\nMore.\n\nParameters\n----------\nmodel : Model\n"
        "v : array\n    Of a kind.\ngain : float\n    The gain.\nthreads : int\n")
    assert text.index("Parameters") < text.index("Returns") < text.index("Raises")
