# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The algebra of the kernels as plain Python: the same source, run uncompiled on floats."""
from types import FunctionType, SimpleNamespace

from . import algebra as _algebra


def interpreted(module):
    """Return a module's names, with its kernels as Python functions that call each other.

    If Numba is disabled, the kernels already are Python functions.
    """
    names = dict(vars(module))
    for name, value in vars(module).items():
        if hasattr(value, "py_func"):
            names[name] = FunctionType(value.py_func.__code__, names, name)
    return SimpleNamespace(**names)


algebra = interpreted(_algebra)
