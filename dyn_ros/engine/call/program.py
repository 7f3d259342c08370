# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A kernel with the fields that it refers to, and its compiled calls."""
from __future__ import annotations

import functools

from ..kernel.compiler import Entry
from ..kernel.fields import Option, fields_among
from ..kernel.layout import fail
from ..kernel.reach import references, walk
from . import native


def _references(function):
    return _declarations(function, len(function.__globals__))


@functools.cache
def _declarations(function, _):
    """The functions, and the fields and options, that a function itself refers to.

    The number of its global variables grows while its module is imported.
    """
    functions, constants = references(function)
    values = constants.values()
    return functions, (fields_among(values), {each for each in values if isinstance(each, Option)})


class Program:
    """A kernel with the fields that it refers to, and its compiled calls."""

    def __init__(self, name, kernel, inputs, results, optional, options):
        self.kernel = kernel
        found = dict(walk(_references, kernel, *native.ALWAYS))
        self.fields = set(inputs).union(*(fields for fields, _ in found.values()))
        self.options = set().union(*(options for _, options in found.values()))
        self.can_fail = getattr(fail, "py_func", fail) in found
        if native.READS_OBJECTS:
            one = native.for_objects(kernel, inputs, optional, options)
            self.one = Entry(f"{name}-one", one, native.OBJECTS_SIGNATURE, nogil=False)
        else:
            self.one = Entry(f"{name}-one", native.for_workspace(kernel),
                             native.WORKSPACE_SIGNATURE, nogil=False)
        self.batch = Entry(f"{name}-batch", native.for_batch(kernel, inputs, options),
                           native.batch_signature(inputs, results), nogil=True)
