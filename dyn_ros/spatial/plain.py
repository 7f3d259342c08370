# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The kernels' algebra as plain Python: the same source, run on tuples of floats, not compiled."""
from types import FunctionType, SimpleNamespace

from . import algebra as _algebra


def interpreted(module):
    """A module's names, with its kernels as Python functions that call each other.

    Where Numba is switched off, they are that already.
    """
    names = dict(vars(module))
    for name, value in vars(module).items():
        if hasattr(value, "py_func"):
            names[name] = FunctionType(value.py_func.__code__, names, name)
    return SimpleNamespace(**names)


algebra = interpreted(_algebra)
