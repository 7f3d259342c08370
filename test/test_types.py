# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Annotations: complete, correct, useful to type checkers; docstrings of all public names."""

import ast
import inspect
import pydoc
import re
import sys
from pathlib import Path

import pytest

import dyn_ros
from dyn_ros.engine.call.algorithm import ALGORITHMS

ROOT = Path(__file__).resolve().parents[1]
USER = ROOT / "test" / "typed_user.py"


def functions():
    """Every public function, and the public methods of public classes, by name."""
    for name in dyn_ros.__all__:
        value = getattr(dyn_ros, name)
        if inspect.isfunction(value):
            yield name, value
        elif not issubclass(value, (int, Exception)):
            for attribute in dir(value):
                member = inspect.getattr_static(value, attribute)
                member = (
                    member.fget
                    if isinstance(member, property)
                    else getattr(member, "__func__", member)
                )
                if (
                    inspect.isfunction(member)
                    and member.__module__.startswith("dyn_ros")
                    and (attribute == "__init__" or not attribute.startswith("_"))
                ):
                    yield f"{name}.{attribute}", member


@pytest.mark.parametrize(
    "function", [pytest.param(function, id=name) for name, function in functions()]
)
def test_everything_public_is_annotated_and_explained(function):
    signature = inspect.signature(function)
    bare = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.annotation is parameter.empty and name not in ("self", "cls")
    ]
    assert bare == []
    assert signature.return_annotation is not signature.empty
    assert function.__doc__ or function.__name__ == "__init__"


def test_signatures_show_the_names_of_types():
    """In `help` and in an editor: ArrayLike, not the union of hundreds of characters behind it."""
    for name, function in functions():
        signature = inspect.signature(function)
        shown = {
            key: inspect.formatannotation(parameter.annotation)
            for key, parameter in signature.parameters.items()
            if parameter.annotation is not parameter.empty
        }
        assert {key: text for key, text in shown.items() if len(text) > 50} == {}, name
        shown["return"] = inspect.formatannotation(signature.return_annotation)
        assert {
            key: text
            for key, text in shown.items()
            if re.search(
                r"Union|Optional|Buffer|NestedSequence|SupportsArray|dyn_ros\.|collections\.|numpy\.",
                text,
            )
        } == {}, name


def test_help_is_short_enough_to_read():
    expected = (
        "contact_dynamics(model: 'Model', data: 'Data', q: 'ArrayLike', v: 'ArrayLike', "
        "tau: 'ArrayLike', contacts: 'Sequence[Contact]'"
    )
    assert expected in pydoc.plaintext.document(dyn_ros.contact_dynamics).replace("\n    ", " ")


ANNOTATED = (
    "cdr",
    "check",
    "command",
    "demo",
    "identification",
    "logs",
    "nodes",
    "observer",
    "states",
    "viewer",
)


def is_kernel(node):
    return any(
        isinstance(decorator, ast.Name) and decorator.id in ("kernel", "subroutine")
        for decorator in node.decorator_list
    )


def unannotated(source):
    """Name the functions of a source that lack an annotation, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_kernel(node):
            given = node.args
            arguments = [
                *given.posonlyargs,
                *given.args,
                *given.kwonlyargs,
                given.vararg,
                given.kwarg,
            ]
            if node.returns is None or any(
                each.annotation is None
                for each in arguments
                if each is not None and each.arg not in ("self", "cls")
            ):
                yield f"{node.name}:{node.lineno}"


@pytest.mark.parametrize("folder", ANNOTATED)
def test_every_function_is_annotated(folder):
    files = sorted(
        path
        for path in (ROOT / "dyn_ros" / folder).rglob("*.py")
        if not path.stem.endswith("kernel")
    )
    assert files
    assert {
        path.name: bare
        for path in files
        if (bare := list(unannotated(path.read_text(encoding="utf-8"))))
    } == {}


@pytest.mark.parametrize(
    "source, found",
    [
        ("def f(x: int) -> int: ...", []),
        ("class A:\n    def f(self, *x: int, **y: int) -> None: ...", []),
        ("def f(x: int): ...", ["f:1"]),
        ("def f(x) -> int: ...", ["f:1"]),
        ("def f(*, x) -> int: ...", ["f:1"]),
        ("def f(*x) -> int: ...", ["f:1"]),
        ("def f(**x) -> int: ...", ["f:1"]),
        ("def f() -> None:\n    async def g(): ...", ["g:2"]),
    ],
)
def test_a_missing_annotation_is_found(source, found):
    assert list(unannotated(source)) == found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_as_many_results_as_are_annotated(name):
    annotation = inspect.signature(getattr(dyn_ros, name), eval_str=True).return_annotation
    named = [
        each
        for each in (annotation, *getattr(annotation, "__args__", ()))
        if hasattr(each, "_fields")
    ]
    if named:
        results = named[0]._fields
    else:
        several = getattr(annotation, "__origin__", None) is tuple
        results = annotation.__args__ if several else [annotation]
    more = sum(each is dyn_ros.ContactForces for each in results)  # forces, and rank and so on
    if annotation is dyn_ros.NormalEquations:  # three parts of one array of sums
        more -= 2
    assert len(results) + more == len(ALGORITHMS[name].results)


def test_a_type_checker_finds_what_is_wrong_and_nothing_else(monkeypatch):
    api = pytest.importorskip("mypy.api", reason="no mypy: run `make test`")
    monkeypatch.chdir(ROOT)  # where it looks for dyn_ros first
    output, failure, _ = api.run(
        [
            "--config-file=",
            "--strict",
            "--follow-imports=silent",
            "--hide-error-context",
            "--no-error-summary",
            "--no-pretty",
            f"--cache-dir={ROOT / '.mypy_cache'}",
            f"--python-executable={sys.executable}",
            str(USER),
        ]
    )
    assert failure == ""
    found = {}
    for line, code in re.findall(r"^.*?:(\d+): error: .*\[([\w-]+)\]$", output, re.MULTILINE):
        found.setdefault(int(line), []).append(code)
    expected = {
        number: line.partition("# error: ")[2].split()
        for number, line in enumerate(USER.read_text().splitlines(), 1)
        if "# error: " in line
    }
    assert found == expected, output
    assert expected


def test_the_annotations_are_installed():
    assert (Path(dyn_ros.__file__).parent / "py.typed").exists()
