# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What compiled code can reach: the functions that it calls, and the constants in them."""

import dis
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, TypeVar

import numpy as np

from .declare import KERNELS, SUBROUTINES

_PACKAGE = __name__.split(".")[0]
_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)
_CONSTANTS = frozenset(dis.hasconst)
# The argument of an operation is the index of a name, followed by flags in some versions of Python.
_LOAD_GLOBAL, _GLOBAL_FLAGS = dis.opmap["LOAD_GLOBAL"], int(sys.version_info >= (3, 11))
_LOAD_ATTRIBUTE = {
    dis.opmap[name]: int(name == "LOAD_ATTR" and sys.version_info >= (3, 12))
    for name in ("LOAD_ATTR", "LOAD_METHOD")
    if name in dis.opmap
}
_CACHE = dis.opmap.get("CACHE")


class NotComparable(TypeError):
    """A constant that cannot be compared between processes."""


def _codes(code: CodeType) -> list[CodeType]:
    """A code object and those nested in it."""
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(inner for constant in nested for inner in _codes(constant))]


@functools.cache
def _names(code: CodeType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in _codes(code) for name in part.co_names))


def _root(name: str | None) -> str:
    return (name or "").split(".")[0]


@functools.cache
def _attributes(code: CodeType) -> tuple[tuple[str, str], ...]:
    """The names of global variables whose attributes the code reads, and of these attributes."""
    pairs: dict[tuple[str, str], None] = {}
    for part in _codes(code):
        variable, argument = "", 0
        for operation, low in zip(part.co_code[::2], part.co_code[1::2]):
            argument = argument << 8 | low
            if operation == dis.EXTENDED_ARG:
                continue
            if operation == _LOAD_GLOBAL:
                variable = part.co_names[argument >> _GLOBAL_FLAGS]
            elif operation != _CACHE:
                if variable and operation in _LOAD_ATTRIBUTE:
                    pairs[variable, part.co_names[argument >> _LOAD_ATTRIBUTE[operation]]] = None
                variable = ""
            argument = 0
    return tuple(pairs)


def _variables(function: FunctionType) -> dict[str, Any]:
    """The global, enclosing and module variables and the defaults of a function, by name."""
    code = function.__code__
    enclosing = dict(
        zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()))
    )
    variables = {
        name: function.__globals__[name] for name in _names(code) if name in function.__globals__
    } | enclosing
    attributes = {
        *_attributes(code),
        *((name, other) for name in enclosing for other in _names(code)),
    }
    for name, attribute in sorted(attributes):
        module = variables.get(name)
        if (
            isinstance(module, ModuleType)
            and _is_ours(module.__name__, function)
            and hasattr(module, attribute)
        ):
            variables[f"{name}.{attribute}"] = getattr(module, attribute)
    for n, value in enumerate(function.__defaults__ or ()):
        variables[f"default {n}"] = value
    return variables | (function.__kwdefaults__ or {})


def _is_ours(module: str | None, referrer: FunctionType) -> bool:
    """Whether a module belongs to this package, or to the package of a function that uses it."""
    return _root(module) in (_PACKAGE, _root(referrer.__module__))


def _python_functions(value: Any, referrer: FunctionType) -> list[FunctionType]:
    """The function that a variable stands for, if it is compiled with its referrer.

    Kernels of all packages, since an algorithm can be declared anywhere.
    """
    if isinstance(value, FunctionType) and (
        value in KERNELS or value in SUBROUTINES or _is_ours(value.__module__, referrer)
    ):
        return [value]
    return []


def references(function: FunctionType) -> tuple[list[FunctionType], dict[str, Any]]:
    """The functions that a function itself refers to, and its other variables by name.

    The functions are compiled with it, or generate code during compilation; the variables are
    global or enclosing ones.
    """
    functions: list[FunctionType] = []
    constants: dict[str, Any] = {}
    for name, value in _variables(function).items():
        inner = _python_functions(value, function)
        if inner:
            functions += inner
        elif not isinstance(value, ModuleType):
            constants[name] = value
    return functions, constants


Result = TypeVar("Result")


def walk(
    find: Callable[[FunctionType], tuple[list[FunctionType], Result]], *functions: Any
) -> Iterator[tuple[FunctionType, Result]]:
    """Yield functions and all that they refer to, directly or indirectly, each once.

    ``find`` returns the functions that a function itself refers to, and something else about it,
    which is yielded with it.
    """
    seen: set[FunctionType] = set()
    todo = list(functions)
    while todo:
        function = todo.pop()
        if function not in seen:
            seen.add(function)
            inner, reached = find(function)
            todo += inner
            yield function, reached


def _reach(function: Any) -> tuple[dict[str, FunctionType], dict[str, Any]]:
    """The functions that a function refers to, itself included, and the constants that they read.

    Directly or indirectly; by module and qualified name. It need not be compiled yet.
    """
    functions: dict[str, FunctionType] = {}
    constants: dict[str, Any] = {}
    for inner, own in walk(references, function):
        place = base = f"{inner.__module__}.{inner.__qualname__}"
        count = 1
        while place in functions:
            count += 1
            place = f"{base} {count}"
        functions[place] = inner
        constants |= {f"{place}.{name}": value for name, value in own.items()}
    return functions, constants


# --- the digest


def described(function: Any) -> str:
    """A function's own code, without comments, docstring, file and lines."""
    return _described(function.__code__)


def _instructions(code: CodeType) -> Iterator[Any]:
    """Bytecode with its constants inserted, without the docstring."""
    argument = 0
    for operation, low in zip(code.co_code[::2], code.co_code[1::2]):
        argument = argument << 8 | low
        if operation == dis.EXTENDED_ARG:
            continue
        yield operation
        yield _value(code.co_consts[argument]) if operation in _CONSTANTS else argument
        argument = 0


@functools.cache
def _described(code: CodeType) -> str:
    """A code object without its comments, docstring, file and lines."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return repr((names, numbers, *_instructions(code)))


def _class(kind: type) -> str:
    """A class: a named tuple's fields, or the code of its methods."""
    methods = [
        (name, _described(method.__code__))
        for name, method in sorted(vars(kind).items())
        if isinstance(method, FunctionType)
    ]
    fields = getattr(kind, "_fields", None)
    return repr((kind.__module__, kind.__qualname__, fields if fields else methods))


def _value(value: Any) -> str:
    """A constant by its value, or NotComparable."""
    if isinstance(value, _NUMBERS):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, CodeType):
        return _described(value)
    if isinstance(value, (tuple, frozenset)):
        items = [_value(item) for item in value]
        return repr(
            (type(value).__qualname__, sorted(items) if isinstance(value, frozenset) else items)
        )
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return repr((value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, type):
        return (
            _class(value)
            if hasattr(value, "_fields") or _root(value.__module__) == _PACKAGE
            else f"{value.__module__}.{value.__qualname__}"
        )
    if callable(value) and hasattr(value, "__name__"):  # of other packages
        return f"{getattr(value, '__module__', None)}.{value.__name__}"
    raise NotComparable(f"{value!r} of type {type(value).__qualname__}")


@functools.cache
def described_module(name: str) -> str:
    """The code of a module, which is not imported, without comments, docstrings and lines."""
    specification = importlib.util.find_spec(name)
    assert specification and specification.origin
    with open(specification.origin, encoding="utf-8") as file:
        return _described(compile(file.read(), name, "exec", optimize=2))


def digest(function: FunctionType, circumstances: Any) -> str:
    """Digest of everything that the machine code of a function depends on.

    It does not depend on comments, docstrings, line numbers, or code that the function cannot
    reach. ``circumstances`` (options and what compiles it) are compared by ``repr``. A
    NotComparable names a constant that cannot be compared by its value.
    """
    functions, constants = _reach(function)
    sha = hashlib.sha256(repr(circumstances).encode())
    for place, function in functions.items():
        sha.update(f"{place}\0{described(function)}\0".encode())
    for place, value in constants.items():
        try:
            sha.update(f"{place}\0{_value(value)}\0".encode())
        except NotComparable as error:
            raise NotComparable(f"{place} is {error}") from None
    return sha.hexdigest()[:32]
