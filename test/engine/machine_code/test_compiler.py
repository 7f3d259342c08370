# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""When entries are compiled again, and from where their machine code comes."""

import ast
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from dyn_ros.engine.machine_code import cache, compiler, reach
from dyn_ros.engine.machine_code.declare import JIT

pytest.importorskip("numba", reason="nothing can be compiled")
ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
COMPILE = "import dyn_ros; print(dyn_ros.precompile(['frame_placements'], batch=False))"
LEAVE_IN_CACHE = """
import dyn_ros
from dyn_ros.engine.machine_code.compiler import ENTRIES
compiled = dyn_ros.precompile(["frame_placements"], batch=False, load=False)
entry = ENTRIES["frame_placements-one"]
print([compiled, entry.is_cached(), entry.call is not None, entry.load()])
"""
NAMES = """
import dyn_ros
from dyn_ros.engine.machine_code.compiler import ENTRIES
print({name: entry.file_name() for name, entry in ENTRIES.items()})
"""
SMALL = """
import warnings
from dyn_ros.engine.machine_code.declare import kernel, subroutine
from dyn_ros.engine.machine_code.compiler import Entry

@kernel
def twice(x):
    return 2.0 * x

@kernel
def quadruple(x, shift):
    return twice(twice(x)) + shift

@subroutine
def half(x):
    return 0.5 * x

@subroutine
def quarter(x):
    return half(half(x))

def function(x):
    return int(2.0 * (quadruple(quarter(4.0 * x), 1) + half(1.0)))

def run():
    entry = Entry("small", function, "d")
    compiled = entry.load()
    return compiled, entry.call(10.0)
"""
REPORT = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print([*run(), *[str(warning.message) for warning in caught
                     if issubclass(warning.category, RuntimeWarning)]])      # Numba has others
"""


def run(code, root=ROOT, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=root,
        text=True,
        capture_output=True,
        env=dict(os.environ, PYTHONPATH=str(root), **environment),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def evaluated(code, root=ROOT, **environment):
    return ast.literal_eval(run(code, root, **environment))


@pytest.fixture(scope="module")
def names():
    """The names of all entries, which do not depend on where the package is."""
    return evaluated(NAMES)


@pytest.fixture
def copy(tmp_path):
    """A copy of the package, to be changed."""
    shutil.copytree(
        ROOT / "dyn_ros",
        tmp_path / "copy" / "dyn_ros",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    return tmp_path / "copy"


def change(copy, file, old, new):
    path = copy / "dyn_ros" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def changed(before, after):
    """The algorithms that would be compiled again."""
    assert before.keys() == after.keys()
    return {name.rsplit("-", 1)[0] for name in before if before[name] != after[name]}


def with_other_words(text):
    """The same code with other docstrings, messages of errors, comments and line numbers."""
    tree = ast.parse(text)
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            strings += [
                each
                for each in node.exc.args
                if isinstance(each, (ast.Constant, ast.JoinedStr))
                and not isinstance(getattr(each, "value", ""), int)
            ]
    lines = [line.encode() for line in text.split("\n")]
    for node in sorted(strings, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line, column = lines[node.lineno - 1], node.col_offset
        column += re.match(rb"[rf]*(\"\"\"|\"|')", line[column:]).end()
        lines[node.lineno - 1] = line[:column] + b"Changed. " + line[column:]
    text = "\n".join(line.decode() for line in lines)
    return "# A new line\n" + re.sub(
        r"^(@\w|def |    for |    return )", r"# A comment\n\1", text, flags=re.M
    ).replace(":\n    ", ":    # and another\n    ")


def test_names_are_the_same_in_every_process(names):
    """Python orders sets of strings differently in each process."""
    assert names and None not in names.values()
    for seed in "12":
        assert evaluated(NAMES, PYTHONHASHSEED=seed) == names


def test_comments_docstrings_and_messages_compile_nothing(copy, names):
    for path in (copy / "dyn_ros").rglob("*.py"):
        text = path.read_text()
        path.write_text(with_other_words(text))
        assert path.read_text().count("\n") > text.count("\n")
    assert changed(names, evaluated(NAMES, copy)) == set()


def test_a_docstring_that_comes_or_goes_compiles_nothing(copy):
    change(
        copy,
        "engine/kernel/algebra.py",
        "@kernel\n",
        "@kernel\ndef without(x):\n    return x * 2.5\n\n\n@kernel\n",
    )
    names = (
        "from dyn_ros.engine.kernel import algebra\n"
        "from dyn_ros.engine.machine_code import reach\n"
        "print([reach.describe_code(algebra.without)])"
    )
    before = evaluated(names, copy)
    change(
        copy,
        "engine/kernel/algebra.py",
        "def without(x):\n",
        'def without(x):\n    """Says something."""\n',
    )
    assert evaluated(names, copy) == before
    change(copy, "engine/kernel/algebra.py", "x * 2.5", "x * 2.25")
    assert evaluated(names, copy) != before


def test_a_changed_kernel_compiles_what_can_reach_it_and_nothing_else(copy, names):
    change(
        copy,
        "engine/algorithms/dynamics/minverse.py",
        "@kernel\ndef minverse_kernel(r):\n",
        "@kernel\ndef minverse_kernel(r):\n    ly.offset(r, 0)\n",
    )
    found = changed(names, evaluated(NAMES, copy))
    assert found == {"minverse"}


def test_a_changed_constant_compiles_what_reads_it(copy, names):
    name = "MIN_RELIABLE_PIVOT = "
    change(copy, "engine/algorithms/dynamics/cholesky.py", name, f"{name}2.0 * ")
    found = changed(names, evaluated(NAMES, copy))
    assert "aba_derivatives" in found
    assert not found & {"rnea", "crba", "generalized_gravity", "forward_kinematics"}


@pytest.mark.parametrize(
    "file, old, new",
    [
        ("engine/kernel/lanes_llvm.py", "operator.add, _sum", "operator.add, _difference"),
        ("engine/kernel/lanes_llvm.py", "align=4", "align=2"),
        ("engine/machine_code/lower.py", "untyped_passes.ReconstructSSA(),", ""),
        ("engine/machine_code/emit.py", "opt=3", "opt=2"),
        ("engine/machine_code/declare.py", '"nsz", ', ""),
    ],
)
def test_a_change_of_the_numbers_compiles_everything(copy, names, file, old, new):
    change(copy, file, old, new)
    assert changed(names, evaluated(NAMES, copy)) == {name.rsplit("-", 1)[0] for name in names}


def test_a_change_of_a_target_leaves_the_code_for_others(copy, names):
    names_on_arm = evaluated(NAMES, DYN_ROS_TARGET="aarch64")
    change(copy, "engine/machine_code/targets.py", "+reserve-x18", "")
    assert evaluated(NAMES, copy, DYN_ROS_TARGET="x86-64-v2") == evaluated(
        NAMES, DYN_ROS_TARGET="x86-64-v2"
    )
    found = changed(names_on_arm, evaluated(NAMES, copy, DYN_ROS_TARGET="aarch64"))
    assert found == {name.rsplit("-", 1)[0] for name in names}


def test_the_layout_of_named_tuples_counts(copy, names):
    change(
        copy,
        "engine/kernel/algebra.py",
        'namedtuple("Inertia", "',
        'namedtuple("Inertia", "unused ',
    )
    found = changed(names, evaluated(NAMES, copy))
    assert "crba" in found and len(found) < len(names) // 2


OWN = """
import importlib, pathlib, sys
sys.dont_write_bytecode = True
sys.path.insert(0, FOLDER)
found = []
for text in TEXTS:
    sys.modules.pop("own", None)
    pathlib.Path(FOLDER, "own.py").write_text(text)
    importlib.invalidate_caches()
    found.append(importlib.import_module("own").name())
print(found)
"""


def test_kernels_of_other_packages_are_followed(tmp_path):
    module = (
        SMALL
        + "\nfrom dyn_ros.engine.machine_code.compiler import ENTRIES\n"
        + ('Entry("small", function, "d")\ndef name():\n    return ENTRIES["small"].file_name()\n')
    )
    texts = []
    for old, new in (
        ("twice(x)) + shift", "twice(x)) - shift"),
        ("return 2.0 * x", "return 3.0 * x"),
        ("return 2.0 * x", '"""Documented."""\n    return 2.0 * x'),
        ("1) + half(1.0)", "2) + half(1.0)"),
        ("0.5 * x", "1.5 * x"),
    ):
        texts += [module, module.replace(old, new)]
    found = evaluated(f"FOLDER = {str(tmp_path)!r}\nTEXTS = {texts!r}\n" + OWN)
    assert len({*found[::2], found[5]}) == 1 and len({*found}) == 5


ALGORITHM = """
from dyn_ros.engine.call.algorithm import ALGORITHMS, Algorithm
from dyn_ros.engine.kernel.fields import Q, field
from dyn_ros.engine.kernel.packing import offset
from dyn_ros.engine.machine_code.declare import kernel
from dyn_ros.engine.kernel.lanes import load, store

FIRST = field("first", ())
FACTOR = 2.0


@kernel
def first_kernel(r):
    store(r.work, offset(r, FIRST), FACTOR * load(r.work, offset(r, Q)))


Algorithm("first", first_kernel, (Q,), (FIRST,))
program, = ALGORITHMS["first"].programs
print([program.one.file_name(), program.lanes.file_name()])
"""


def test_a_changed_kernel_of_another_package_is_compiled_again(tmp_path):
    """Also one that reads fields with other numbers, as after an update."""
    found = []
    for old, new in (
        ("FACTOR", "FACTOR"),
        ("FACTOR = 2.0", "FACTOR = 2.0   # the same"),
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("(r, Q)))", "(r, Q)) + 1.0)"),
        ("FIRST =", 'field("zeroth", ())\nFIRST ='),
    ):
        (tmp_path / "own.py").write_text(ALGORITHM.replace(old, new))
        found.append(
            evaluated(
                "import sys\nsys.dont_write_bytecode = True\n"
                f"sys.path.insert(0, {str(tmp_path)!r})\nimport own"
            )
        )
    for names in zip(*found, strict=True):
        assert names[0] == names[1] and len(set(names)) == 4


# --- names of entries in this process


def digest(function):
    return reach.digest(function, ())


def returning(constant):
    def function(x):
        return constant

    return function


def calling(*functions):
    def function(x):
        return first(x) + second(x)

    first, second = functions
    return function


@pytest.mark.parametrize(
    "one, other",
    [
        (1, 1.0),
        (1, True),
        (1.0, np.float32(1.0)),
        ("1", b"1"),
        ((1, 2), (1, 3)),
        (np.zeros(4, np.int32), np.zeros(4, np.float32)),
        (np.zeros(4), np.zeros((2, 2))),
        (np.zeros(100), np.arange(100) // 99 * 1.0),
        (0.0, -0.0),
        ((1, 2), frozenset({1, 2})),
    ],
    ids=str,
)
def test_constants_that_differ_have_other_digests(one, other):
    assert digest(returning(one)) != digest(returning(other))
    assert digest(returning(one)) == digest(returning(one))


def test_the_order_in_a_set_does_not_matter():
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)
    assert digest(returning(one)) == digest(returning(other))


@pytest.mark.parametrize(
    "one, other",
    [
        (lambda x, k=1.0: x * k, lambda x, k=2.0: x * k),
        (lambda x, *, k=1.0: x * k, lambda x, *, k=2.0: x * k),
        (lambda x, k: x * k, lambda x, *, k: x * k),
        (lambda x: x + 1.0, lambda x: 1.0 + x),
        (lambda x: [x * k for k in (1.0, 2.0)], lambda x: [x * k for k in (1.0, 3.0)]),
        (calling(returning(1.0), returning(2.0)), calling(returning(3.0), returning(2.0))),
        (calling(returning(1.0), returning(2.0)), calling(returning(1.0), returning(3.0))),
    ],
)
def test_code_that_differs_has_another_digest(one, other):
    assert digest(one) != digest(other)


def module(scale):
    """A module of this package."""
    found = ModuleType(f"{__name__}.values")
    found.SCALE = scale
    return found


def scaling(values):
    return lambda x: x * values.SCALE


@pytest.mark.parametrize(
    "text, name, one, other",
    [
        ("lambda x: (lambda y: y * SCALE)(x)", "SCALE", 1.0, 2.0),
        ("lambda x: x * values.SCALE", "values", module(1.0), module(2.0)),
        ("lambda x: (lambda y: y * values.SCALE)(x)", "values", module(1.0), module(2.0)),
    ],
)
def test_globals_that_differ_have_other_digests(text, name, one, other):
    one, same, other = (
        eval(text, {"__name__": __name__, name: value}) for value in (one, one, other)
    )
    assert digest(one) == digest(same) != digest(other)


def test_modules_in_a_closure_that_differ_have_other_digests():
    assert digest(scaling(module(1.0))) == digest(scaling(module(1.0)))
    assert digest(scaling(module(1.0))) != digest(scaling(module(2.0)))


def test_a_constant_behind_the_first_256_has_another_digest():
    text = "lambda x: [" + "".join(f"x + {k}.5, " for k in range(299)) + "x + LAST]"
    one, other = (eval(text.replace("LAST", last)) for last in ("1e3", "2e3"))
    assert digest(one) != digest(other)


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """A function that makes an entry, and an empty cache."""
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "ENTRIES", {})
    cache.cache_folder.cache_clear()
    yield lambda signature="d", constant=1: compiler.Entry("small", returning(constant), signature)
    cache.cache_folder.cache_clear()


def test_what_changes_the_machine_code_changes_the_name(entry, monkeypatch):
    names = [
        entry().file_name(),
        entry("q").file_name(),
        entry(constant=2).file_name(),
        entry().file_name("aarch64"),
    ]
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "another"))
        names.append(entry().file_name())
    monkeypatch.setattr(compiler, "_describe_implementations", lambda: "another")
    names.append(entry().file_name())
    assert None not in names and len(set(names)) == 6


def test_a_compilation_is_announced_and_a_hit_is_not(entry):
    announced = []
    assert [entry().load(lambda: announced.append(1)) for _ in range(3)] == [True, False, False]
    assert announced == [1]


def test_threads_that_load_at_once_load_once(entry, monkeypatch):
    small, started, looks = entry(), threading.Barrier(4), []
    find = compiler.Entry._read_or_compile
    monkeypatch.setattr(
        compiler.Entry,
        "_read_or_compile",
        lambda entry, *rest: looks.append(1) or find(entry, *rest),
    )

    def load():
        started.wait()
        return small.load()

    with ThreadPoolExecutor(4) as pool:
        loads = [future.result() for future in [pool.submit(load) for _ in range(4)]]
    assert sorted(loads) == [False, False, False, True] and small.call(3.0) == 1
    assert len(looks) == 1


def test_what_cannot_be_compared_is_not_kept(tmp_path):
    code = SMALL.replace(
        "@subroutine\ndef half",
        "class Choice(enum.Enum):\n    YES = 1\n\nchosen = Choice.YES\n\n@subroutine\ndef half",
        1,
    ).replace("return 0.5 * x", "return 0.5 * x if chosen is Choice.YES else x")
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path / "cache")}
    compiled, result, warning = evaluated("import enum\n" + code + REPORT, **named)
    assert compiled and result == 83
    assert "chosen" in warning and "each process" in warning
    assert not list(tmp_path.rglob("small-*"))


def test_a_second_process_compiles_nothing(tmp_path):
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path), "DYN_ROS_LIBRARY": "none"}
    assert run(COMPILE, **named) == "['frame_placements']"
    assert run(COMPILE, **named) == "[]"
    assert evaluated(LEAVE_IN_CACHE, **named) == [[], True, False, False]


def test_a_kernel_is_a_function_of_python():
    called = "print(quadruple(10.0, 2.0), quadruple(1, 2), quarter(2.0))"
    assert run(SMALL + called) == "42.0 6.0 0.5"


def test_a_function_that_numba_compiles_can_call_kernels_and_subroutines():
    code = (
        SMALL
        + """
import numba
import dyn_ros.engine.kernel.lanes_llvm

@numba.njit
def other(x):
    return quadruple(quarter(x), 1) + half(x)
print(other(1.0))
"""
    )
    assert run(code) == "2.5"


def test_subroutines_are_optimized_once_for_all_entries(tmp_path):
    code = (
        SMALL
        + """
from dyn_ros.engine.machine_code.lower import _FunctionLibrary
optimize, optimized = _FunctionLibrary._optimize_final_module, []
_FunctionLibrary._optimize_final_module = lambda library: (
    optimized.append(library.name), optimize(library))
def other(x):
    return int(2.0 * quarter(x))
entries = [Entry("one", function, "d"), Entry("other", other, "d")]
print([[entry.load(), entry.call(10.0)] for entry in entries],
      sorted(name for name in optimized if name in ("half", "quarter")))
"""
    )
    printed = run(code, DYN_ROS_CACHE_DIR=str(tmp_path))
    assert printed == "[[True, 83], [True, 5]] ['half', 'quarter']"


@pytest.mark.parametrize("body", ["print(x)", "np.zeros(3)", "np.linalg.inv(np.eye(2))"])
def test_an_entry_that_would_need_python_is_refused(tmp_path, body):
    code = SMALL.replace("    return 2.0 * x", f"    {body}\n    return 2.0 * x")
    done = subprocess.run(
        [sys.executable, "-c", "import numpy as np\n" + code + REPORT],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT), DYN_ROS_CACHE_DIR=str(tmp_path)),
    )
    assert done.returncode == 1


def test_without_numba_what_is_not_in_the_cache_says_what_to_install(tmp_path):
    without = "import sys\nsys.modules['numba'] = None\n"
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path)}
    missing = (
        without
        + SMALL
        + ("try:\n    run()\nexcept ModuleNotFoundError as error:\n    print(error)")
    )
    assert "dyn_ros[compiler]" in run(missing, **named)
    quiet = (
        "sys.modules['llvmlite'] = None\n"
        + SMALL
        + (
            "try:\n    Entry('small', function, 'd').load(lambda: print('compiling'))\n"
            "except ModuleNotFoundError:\n    pass"
        )
    )
    assert run(without + quiet, **named) == ""
    run(SMALL + "run()", **named)
    assert run(without + SMALL + REPORT, **named) == "[False, 83]"
