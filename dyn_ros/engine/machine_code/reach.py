# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Functions and constants that compiled code can reach, and their digest."""

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
_COMPARABLE_TYPES = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic)
_CONSTANT_OPERATIONS = frozenset(dis.hasconst)
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


def _nested_codes(code: CodeType) -> list[CodeType]:
    """Return a code object and the code objects nested in it."""
    nested = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return [code, *(inner for constant in nested for inner in _nested_codes(constant))]


@functools.cache
def _names_in_code(code: CodeType) -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(name for inner_code in _nested_codes(code) for name in inner_code.co_names)
    )


def _root_package(name: str | None) -> str:
    return (name or "").split(".")[0]


@functools.cache
def _attributes_in_code(code: CodeType) -> tuple[tuple[str, str], ...]:
    """Return pairs of a global variable and its attribute, by name, that the code reads."""
    pairs: dict[tuple[str, str], None] = {}
    for inner_code in _nested_codes(code):
        variable, argument = "", 0
        for operation, byte in zip(inner_code.co_code[::2], inner_code.co_code[1::2]):
            argument = argument << 8 | byte
            if operation == dis.EXTENDED_ARG:
                continue
            if operation == _LOAD_GLOBAL:
                variable = inner_code.co_names[argument >> _GLOBAL_FLAGS]
            elif operation != _CACHE:
                if variable and operation in _LOAD_ATTRIBUTE:
                    attribute = inner_code.co_names[argument >> _LOAD_ATTRIBUTE[operation]]
                    pairs[variable, attribute] = None
                variable = ""
            argument = 0
    return tuple(pairs)


def _visible_variables(function: FunctionType) -> dict[str, Any]:
    """Return the global, enclosing and module variables and the defaults of a function, by name."""
    code = function.__code__
    enclosing = dict(
        zip(code.co_freevars, (cell.cell_contents for cell in function.__closure__ or ()))
    )
    variables = {
        name: function.__globals__[name]
        for name in _names_in_code(code)
        if name in function.__globals__
    } | enclosing
    attributes = {
        *_attributes_in_code(code),
        *((name, attribute) for name in enclosing for attribute in _names_in_code(code)),
    }
    for name, attribute in sorted(attributes):
        module = variables.get(name)
        if (
            isinstance(module, ModuleType)
            and _is_own_package(module.__name__, function)
            and hasattr(module, attribute)
        ):
            variables[f"{name}.{attribute}"] = getattr(module, attribute)
    for n, value in enumerate(function.__defaults__ or ()):
        variables[f"default {n}"] = value
    return variables | (function.__kwdefaults__ or {})


def _is_own_package(module: str | None, referrer: FunctionType) -> bool:
    """Return True for a module of this package, or of the package of a function that uses it."""
    return _root_package(module) in (_PACKAGE, _root_package(referrer.__module__))


def _compiled_functions(value: Any, referrer: FunctionType) -> list[FunctionType]:
    """Return the function that a variable stands for, if it is compiled with its referrer.

    Kernels of all packages are, since an algorithm can be declared anywhere.
    """
    if isinstance(value, FunctionType) and (
        value in KERNELS or value in SUBROUTINES or _is_own_package(value.__module__, referrer)
    ):
        return [value]
    return []


def find_references(function: FunctionType) -> tuple[list[FunctionType], dict[str, Any]]:
    """Return the functions that a function itself refers to, and its other variables by name.

    The functions are compiled with it, or generate code during compilation; the variables are
    global or enclosing ones.
    """
    functions: list[FunctionType] = []
    constants: dict[str, Any] = {}
    for name, value in _visible_variables(function).items():
        inner = _compiled_functions(value, function)
        if inner:
            functions += inner
        elif not isinstance(value, ModuleType):
            constants[name] = value
    return functions, constants


Result = TypeVar("Result")


def walk_functions(
    find: Callable[[FunctionType], tuple[list[FunctionType], Result]], *functions: Any
) -> Iterator[tuple[FunctionType, Result]]:
    """Yield functions and all functions that they refer to, directly or indirectly, each once.

    ``find`` returns the functions that a function itself refers to, and a result that is yielded
    with the function.
    """
    visited: set[FunctionType] = set()
    pending = list(functions)
    while pending:
        function = pending.pop()
        if function not in visited:
            visited.add(function)
            callees, result = find(function)
            pending += callees
            yield function, result


def _reach(function: Any) -> tuple[dict[str, FunctionType], dict[str, Any]]:
    """Return the functions that a function refers to, itself included, and their constants.

    Both are by module and qualified name, and include indirect references. The function need not
    be compiled yet.
    """
    functions: dict[str, FunctionType] = {}
    constants: dict[str, Any] = {}
    for reached, variables in walk_functions(find_references, function):
        path = base = f"{reached.__module__}.{reached.__qualname__}"
        count = 1
        while path in functions:
            count += 1
            path = f"{base} {count}"
        functions[path] = reached
        constants |= {f"{path}.{name}": value for name, value in variables.items()}
    return functions, constants


# --- the digest


def describe_code(function: Any) -> str:
    """Describe a function's own code, without comments, docstring, file and lines."""
    return _described_code(function.__code__)


def _describe_instructions(code: CodeType) -> Iterator[Any]:
    """Yield bytecode with its constants inserted, without the docstring."""
    argument = 0
    for operation, byte in zip(code.co_code[::2], code.co_code[1::2]):
        argument = argument << 8 | byte
        if operation == dis.EXTENDED_ARG:
            continue
        yield operation
        yield (
            _described_constant(code.co_consts[argument])
            if operation in _CONSTANT_OPERATIONS
            else argument
        )
        argument = 0


@functools.cache
def _described_code(code: CodeType) -> str:
    """Describe a code object, without its comments, docstring, file and lines."""
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    numbers = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return repr((names, numbers, *_describe_instructions(code)))


def _described_class(kind: type) -> str:
    """Describe a class: a named tuple's fields, or the code of its methods."""
    methods = [
        (name, _described_code(method.__code__))
        for name, method in sorted(vars(kind).items())
        if isinstance(method, FunctionType)
    ]
    fields = getattr(kind, "_fields", None)
    return repr((kind.__module__, kind.__qualname__, fields if fields else methods))


def _described_constant(value: Any) -> str:
    """Describe a constant by its value; raise NotComparable if that is not possible."""
    if isinstance(value, _COMPARABLE_TYPES):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, CodeType):
        return _described_code(value)
    if isinstance(value, (tuple, frozenset)):
        items = [_described_constant(item) for item in value]
        return repr(
            (type(value).__qualname__, sorted(items) if isinstance(value, frozenset) else items)
        )
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return repr((value.dtype.str, value.shape, value.tobytes()))
    if isinstance(value, type):
        return (
            _described_class(value)
            if hasattr(value, "_fields") or _root_package(value.__module__) == _PACKAGE
            else f"{value.__module__}.{value.__qualname__}"
        )
    if callable(value) and hasattr(value, "__name__"):  # a function of another package
        return f"{getattr(value, '__module__', None)}.{value.__name__}"
    raise NotComparable(f"{value!r} of type {type(value).__qualname__}")


@functools.cache
def described_module(name: str) -> str:
    """Describe the code of a module, which is not imported, without comments and docstrings."""
    specification = importlib.util.find_spec(name)
    assert specification and specification.origin
    with open(specification.origin, encoding="utf-8") as file:
        return _described_code(compile(file.read(), name, "exec", optimize=2))


def digest(function: FunctionType, circumstances: Any) -> str:
    """Return the digest of all that the machine code of a function depends on.

    It does not depend on comments, docstrings, line numbers, or code that the function cannot
    reach. ``circumstances`` (options, and the code that compiles) are compared by ``repr``. Raises
    NotComparable with the name of a constant that cannot be compared by its value.
    """
    functions, constants = _reach(function)
    sha = hashlib.sha256(repr(circumstances).encode())
    for path, function in functions.items():
        sha.update(f"{path}\0{describe_code(function)}\0".encode())
    for path, value in constants.items():
        try:
            sha.update(f"{path}\0{_described_constant(value)}\0".encode())
        except NotComparable as error:
            raise NotComparable(f"{path} is {error}") from None
    return sha.hexdigest()[:32]
