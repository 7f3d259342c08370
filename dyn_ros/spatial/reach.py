# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What compiled code can reach: the functions that it calls, and the constants in them."""
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

_PACKAGE = __name__.split(".")[0] + "."


class Reach(NamedTuple):
    """Everything of this package that a function refers to, directly or through others.

    Attributes
    ----------
    functions : dict of str to function
        Python functions that are compiled, by module and qualified name; the function itself too.
    constants : dict of str to object
        Global and enclosing variables that they read, by the place where they stand: numbers,
        tuples, types.
    """

    functions: dict[str, FunctionType]
    constants: dict[str, Any]


def _codes(code: CodeType) -> list[CodeType]:
    """A code object and those nested in it."""
    nested = [each for each in code.co_consts if isinstance(each, CodeType)]
    return [code, *(inner for each in nested for inner in _codes(each))]


def _variables(function: FunctionType) -> dict[str, Any]:
    """The global, enclosing and module variables that a function refers to, by name."""
    found: dict[str, Any] = {}
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    for name in names:
        if name in function.__globals__:
            value = found[name] = function.__globals__[name]
            if isinstance(value, ModuleType) and value.__name__.startswith(_PACKAGE):
                found |= {f"{name}.{each}": getattr(value, each) for each in names
                          if hasattr(value, each)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        found[name] = cell.cell_contents
    return found


def _python_function(value: Any, root: str) -> FunctionType | None:
    """The Python function of a kernel, or a plain function of this package; else None."""
    value = getattr(value, "py_func", value)
    if isinstance(value, FunctionType) and value.__module__.split(".")[0] in (_PACKAGE[:-1], root):
        return value
    return None


def reach(*functions: Any) -> Reach:
    """Walk through all that functions refer to.

    Parameters
    ----------
    functions : callable
        Kernels, or functions that are about to be compiled.

    Returns
    -------
    Reach
    """
    found: dict[str, FunctionType] = {}
    constants: dict[str, Any] = {}
    todo = [getattr(function, "py_func", function) for function in functions]
    while todo:
        function = todo.pop()
        place = f"{function.__module__}.{function.__qualname__}"
        if found.get(place) is function:
            continue
        found[place] = function
        for name, value in _variables(function).items():
            inner = _python_function(value, function.__module__.split(".")[0])
            if inner:
                todo.append(inner)
            elif not isinstance(value, ModuleType):
                constants[f"{place}.{name}"] = value
    return Reach(found, constants)
