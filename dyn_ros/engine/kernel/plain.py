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
            function = value.py_func
            names[name] = FunctionType(function.__code__, names, name,
                                       closure=function.__closure__)
    return SimpleNamespace(**names)


algebra = interpreted(_algebra)
