# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The examples in docstrings: each public function and class has one, and all of them run."""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

from dyn_ros.engine.call.robot_library import LIBRARIES

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api" / "examples.rst"
# What modules and functions need in addition to the engine.
OPTIONAL = {
    "dyn_ros.logs": "pyarrow",
    "dyn_ros.load_native": "llvmlite",
    "dyn_ros.show": "viser",
    "dyn_ros.RobotPicture": "viser",
}
PUBLIC = [
    (module, name)
    for module in ("dyn_ros", "dyn_ros.logs")
    for name in importlib.import_module(module).__all__
]


def run(test):
    """Run a parsed doctest; return its report."""
    report = []
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(test, out=report.append, clear_globs=False)
    return "".join(report)


@pytest.fixture(scope="module")
def names():
    """What the page defines for all examples."""
    test = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, PAGE.name, str(PAGE), 0)
    assert run(test) == ""
    return test.globs


@pytest.fixture(autouse=True)
def no_library_remains():
    yield
    LIBRARIES.clear()


@pytest.mark.parametrize("module, name", PUBLIC, ids=[".".join(each) for each in PUBLIC])
def test_it_has_an_example_that_runs(names, module, name):
    for needed in {OPTIONAL.get(module), OPTIONAL.get(f"{module}.{name}")} - {None}:
        pytest.importorskip(needed, reason=f"no {needed}: run `make test`")
    value = getattr(importlib.import_module(module), name)
    text = inspect.getdoc(value)
    assert text and "\nExamples\n--------\n" in text, "add an example to its docstring"
    test = doctest.DocTestParser().get_doctest(text, dict(names), name, None, 0)
    assert any(example.want for example in test.examples), "its example shows no result"
    assert run(test) == ""
