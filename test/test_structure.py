# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure of the package: imports point one way, and few modules use private names."""

import ast
import functools
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "dyn_ros"
ORDER = (
    "files",
    "engine/machine_code",
    "engine/kernel",
    "engine/spatial",
    "engine/model/urdf",
    "engine/model/mjcf",
    "engine/model",
    "engine/call",
    "engine/algorithms/kinematics",
    "engine/algorithms/dynamics",
    "engine/algorithms/derivatives",
    "engine/algorithms/centroidal",
    "engine/algorithms/constrained",
    "engine/algorithms/contacts",
    "engine/algorithms/regressors",
    "engine/algorithms/filters",
    "engine/algorithms",
    "engine",
    "differentiable",
    "torch",
    "jax",
    "check",
    "model",
    "drives",
    "cdr",
    "states",
    "recordings/tables",
    "recordings/formats",
    "recordings",
    "identification/motion",
    "identification",
    "identification/report",
    "observer",
    "logs/write",
    "logs/run",
    "logs",
    "viewer/scene",
    "viewer/page",
    "viewer",
    "nodes/robot",
    "nodes/messages",
    "nodes/base",
    "nodes/services",
    "nodes/markers",
    "nodes",
    "export/specialize",
    "export",
    "export/web",
    "demo",
    "command",
    ".",
)
"""A folder imports only from itself and from those before it."""
PUBLIC = Path("__init__.py")  # what users see, and what does not compute may call
FIRST = Path("command/ctrl_c.py")  # imported before everything else; imports nothing
MODULES = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}


@functools.cache
def tree(file):
    """The syntax tree of a file; parsed when a test needs it, as collecting tests has no need."""
    return ast.parse(MODULES[file].read_text(encoding="utf-8"))


def module(parts):
    """The file of a dotted name below the package, or None."""
    files = Path(*parts[:-1], f"{(parts or ['?'])[-1]}.py"), Path(*parts, "__init__.py")
    return next((file for file in files if file in MODULES), None)


def imported(file):
    """The files of the package that a file imports, annotations included."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            names = [name.name.split(".") for name in node.names]
            yield from (module(parts[1:]) for parts in names if parts[0] == "dyn_ros")
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".") if node.module else []
            if node.level:
                parts = [*file.parent.parts[: len(file.parent.parts) - node.level + 1], *parts]
            elif parts[0] != "dyn_ros":
                continue
            else:
                parts = parts[1:]
            for name in node.names:
                yield module([*parts, name.name]) or module(parts)


@functools.cache
def imports(file):
    """The other files of the package that a file imports; public modules count only in part."""
    return {
        other
        for other in imported(file)
        if other not in (None, file, FIRST)
        and (other != PUBLIC or file.parts[0] in ("engine", "observer"))
    }


@pytest.mark.parametrize("file", [pytest.param(file, id=str(file)) for file in MODULES])
def test_imports_point_one_way(file):
    folder = file.parent.as_posix()
    assert folder in ORDER, f"{file}: add its folder to ORDER"
    below = ORDER[: ORDER.index(folder) + 1]
    above = {str(other) for other in imports(file) if other.parent.as_posix() not in below}
    assert above == set()


def circles():
    """The groups of modules that import each other (Tarjan, 1972)."""
    number, low, stack, found = {}, {}, [], []

    def visit(file):
        number[file] = low[file] = len(number)
        stack.append(file)
        for other in imports(file):
            if other not in number:
                visit(other)
                low[file] = min(low[file], low[other])
            elif other in stack:
                low[file] = min(low[file], number[other])
        if low[file] == number[file]:
            group = stack[stack.index(file) :]
            del stack[stack.index(file) :]
            if len(group) > 1:
                found.append(sorted(map(str, group)))

    for file in MODULES:
        if file not in number:
            visit(file)
    return found


def test_no_modules_import_each_other():
    assert circles() == []


INTERNALS = {
    "nodes": Path("nodes/base/rclpy_internals.py"),
    "viewer": Path("viewer/page/viser_internals.py"),
}
"""The only modules of their folders that use what a library does not document."""
UNDOCUMENTED = {"nodes": {"handle", "send_response"}, "viewer": set()}
"""Names without an underscore that belong there as well."""
STANDARD = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Documented names of the standard library."""
CHECKED = [
    file for file in MODULES if file.parts[0] in INTERNALS and file not in INTERNALS.values()
]


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def is_of_self(node):
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def defined(file):
    """The names of functions, classes, variables and attributes that a module defines."""
    for node in ast.walk(tree(file)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield from [node.attr] if is_of_self(node) else []


@functools.cache
def names_of_the_package():
    return {name for file in MODULES for name in defined(file)}


def internal_names(folder):
    """The names that the module for the library of a folder uses, and no other module may."""
    nodes = ast.walk(tree(INTERNALS[folder]))
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return {name for name in names if is_private(name)} | UNDOCUMENTED[folder]


def private_names(file):
    """The private names of libraries that a module uses."""
    names, own = internal_names(file.parts[0]), set(defined(file))
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute):
            name = node.attr
            is_foreign = is_private(name) and name not in names_of_the_package() | STANDARD
            if is_foreign or name in names - (own if is_of_self(node) else set()):
                yield name
        elif isinstance(node, (ast.Import, ast.ImportFrom)) and not getattr(node, "level", 0):
            text = ".".join([getattr(node, "module", ""), *(each.name for each in node.names)])
            yield from filter(is_private, text.split("."))


@pytest.mark.parametrize("file", [pytest.param(file, id=str(file)) for file in CHECKED])
def test_private_names_of_libraries_are_in_one_module(file):
    found = sorted(set(private_names(file)))
    assert found == [], f"move them to {INTERNALS[file.parts[0]]}, with a reason and a test"


@pytest.mark.parametrize(
    "folder, expected",
    [
        ("nodes", {"_service_change_state", "_state_machine", "handle", "send_response"}),
        ("viewer", {"_impl", "_messages", "_websock_interface", "_websock_server"}),
    ],
)
def test_private_names_are_found(folder, expected):
    assert set(private_names(INTERNALS[folder])) >= expected
