# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Docstrings of kernels: each has one, and it ends with what the kernel reads and writes.

A docstring that lists called kernels omits their fields, except inputs that they read and public
fields that they write.
"""

import inspect
import re
import sys

import pytest
from engine.kernel.field_access import Parameter, access

import dyn_ros  # noqa: F401    declares all kernels
from dyn_ros.engine.call.algorithm import ALGORITHMS, find_fields_and_options
from dyn_ros.engine.kernel import fields as shared_fields
from dyn_ros.engine.kernel.fields import Field
from dyn_ros.engine.machine_code.declare import KERNELS, SUBROUTINES

IN_ALGORITHMS = sorted(
    (
        function
        for function in KERNELS | SUBROUTINES
        if function.__module__.startswith("dyn_ros.engine.algorithms.")
        and "<locals>" not in function.__qualname__
        and next(iter(inspect.signature(function).parameters), "") == "r"
    ),
    key=lambda function: (function.__module__, function.__name__),
)
SENTENCE = re.compile(
    r"(?:^|(?<=\s))(?:Reads|Writes|Calls)\s[\w,\s]+(?:;\s+(?:reads|writes|calls)\s[\w,\s]+)*\.\s*$"
)
SINES = {"_sine", "_cosine"}  # of the angles of joints: parts of Q
INPUTS = {
    value
    for name, value in vars(shared_fields).items()
    if isinstance(value, Field) and not value.is_public and name != "EMPTY"
} | {field for algorithm in ALGORITHMS.values() for field in algorithm.inputs}
CONSTANTS = {}
for module in [item for name, item in sys.modules.items() if name.startswith("dyn_ros.engine")]:
    for name, value in vars(module).items():
        if isinstance(value, Field):
            CONSTANTS.setdefault(name, set()).add(value)


def documented(function):
    """Return what the last sentence of a docstring lists, by "reads", "writes" and "calls"."""
    lists = {"reads": [], "writes": [], "calls": []}
    if sentence := SENTENCE.search(function.__doc__):
        for clause in sentence[0].strip().rstrip(".").split(";"):
            kind, listed = clause.split(None, 1)
            lists[kind.lower()] = [name.strip() for name in listed.replace("\n", " ").split(",")]
    return lists


def called(function, name):
    """Return the kernel that a function calls by a name, perhaps as an attribute of a module."""
    variables = vars(inspect.getmodule(function))
    for owner in (
        variables,
        *(vars(item) for item in variables.values() if inspect.ismodule(item)),
    ):
        if owner.get(name) in KERNELS | SUBROUTINES:
            return owner[name]
    raise AssertionError(f"{function.__name__} calls no kernel {name}")


def fields(places):
    return {place for place in places if isinstance(place, Field) and place.name not in SINES}


def parameters(places):
    return {str(place) for place in places if isinstance(place, Parameter)}


def matches(function, listed, actual, inherited):
    """Return True if names stand for the places; fields of called kernels may be omitted."""
    arguments = {name for name in listed if name in inspect.signature(function).parameters}
    constants = [CONSTANTS[name] for name in listed if name not in arguments]
    return (
        arguments == parameters(actual)
        and all(constant & fields(actual) for constant in constants)
        and fields(actual) <= set().union(inherited, *constants)
    )


@pytest.mark.parametrize("function", IN_ALGORITHMS, ids=lambda item: item.__name__)
def test_a_kernel_documents_what_it_reads_and_writes(function):
    lists, actual = documented(function), access(function)
    kernels = [access(called(function, name)) for name in lists["calls"]]
    reads = set().union(*(fields(kernel.reads) for kernel in kernels)) - INPUTS
    writes = {field for kernel in kernels for field in fields(kernel.writes) if not field.is_public}
    assert matches(function, lists["reads"], actual.reads - actual.writes, reads), function.__doc__
    assert matches(function, lists["writes"], actual.writes, writes), function.__doc__


@pytest.mark.parametrize("name", ALGORITHMS)
def test_reads_and_writes_are_the_fields_that_compiled_code_refers_to(name):
    for program in ALGORITHMS[name].programs:
        if program.kernel.__name__ != "run_both":  # of ``sequence``
            actual = access(program.kernel)
            assert fields(actual.reads | actual.writes) == {
                field
                for field in find_fields_and_options(program.kernel, ())[0]
                if field.name not in SINES
            }
