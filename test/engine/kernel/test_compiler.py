# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""When entries are compiled again, and what happens if Numba's internals are not as expected."""
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

import numba
import numpy as np
import pytest

from dyn_ros.engine.kernel import cache, compiler, reach
from dyn_ros.engine.kernel.compiler import JIT

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
COMPILE = "import dyn_ros; print(dyn_ros.precompile(['frame_placements'], batch=False))"
LEAVE_IN_CACHE = """
import dyn_ros
from dyn_ros.engine.kernel.compiler import ENTRIES
compiled = dyn_ros.precompile(["frame_placements"], batch=False, load=False)
entry = ENTRIES["frame_placements-one"]
print([compiled, entry.is_cached(), entry.call is not None, entry.load()])
"""
NAMES = """
import dyn_ros
from dyn_ros.engine.kernel.compiler import ENTRIES
print({name: entry.file_name() for name, entry in ENTRIES.items()})
"""
SMALL = """
import warnings
import numba
from dyn_ros.engine.kernel.compiler import Entry, kernel, overload, subroutine

def twice(x):
    return 2.0 * x

@overload(twice)
def _(x):
    return lambda x: 2.0 * x

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
    return quadruple(quarter(4.0 * x), 1) + half(1.0)

def run():
    entry = Entry("small", function, numba.types.float64(numba.types.float64), False)
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
    done = subprocess.run([sys.executable, "-c", code], cwd=root, text=True, capture_output=True,
                          env=dict(os.environ, PYTHONPATH=str(root), **environment))
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
    shutil.copytree(ROOT / "dyn_ros", tmp_path / "copy" / "dyn_ros",
                    ignore=shutil.ignore_patterns("__pycache__"))
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
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)
               and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            strings += [each for each in node.exc.args if isinstance(each, (
                ast.Constant, ast.JoinedStr)) and not isinstance(getattr(each, "value", ""), int)]
    lines = [line.encode() for line in text.split("\n")]
    for node in sorted(strings, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        line, column = lines[node.lineno - 1], node.col_offset
        column += re.match(rb"[rf]*(\"\"\"|\"|')", line[column:]).end()
        lines[node.lineno - 1] = line[:column] + b"Changed. " + line[column:]
    text = "\n".join(line.decode() for line in lines)
    return "# A new line\n" + re.sub(r"^(@\w|def |    for |    return )", r"# A comment\n\1", text,
                                    flags=re.M).replace(":\n    ", ":    # and another\n    ")


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
    change(copy, "engine/kernel/algebra.py", "@kernel\n",
           "@kernel\ndef without(x):\n    return x * 2.5\n\n\n@kernel\n")
    names = ("from dyn_ros.engine.kernel import reach, algebra\n"
             "print([reach.described(algebra.without)])")
    before = evaluated(names, copy)
    change(copy, "engine/kernel/algebra.py", "def without(x):\n",
           'def without(x):\n    """Says something."""\n')
    assert evaluated(names, copy) == before
    change(copy, "engine/kernel/algebra.py", "x * 2.5", "x * 2.25")
    assert evaluated(names, copy) != before


def test_a_changed_kernel_compiles_what_can_reach_it_and_nothing_else(copy, names):
    change(copy, "engine/algorithms/dynamics/minverse.py", "@kernel\ndef minverse_kernel(r):\n",
           "@kernel\ndef minverse_kernel(r):\n    ly.offset(r, 0)\n")
    found = changed(names, evaluated(NAMES, copy))
    assert found == {"minverse"}


def test_a_changed_constant_compiles_what_reads_it(copy, names):
    change(copy, "engine/algorithms/dynamics/cholesky.py", "DOUBTFUL = ", "DOUBTFUL = 2.0 * ")
    found = changed(names, evaluated(NAMES, copy))
    assert "aba_derivatives" in found
    assert not found & {"rnea", "crba", "generalized_gravity", "forward_kinematics"}


@pytest.mark.parametrize("file, old, new", [
    ("engine/kernel/lanes.py", 'operator.add, "fadd"', 'operator.add, "fsub"'),
    ("engine/kernel/lanes.py", "value.align = 8", "value.align = 4"),
    ("engine/kernel/lanes.py", "super().__init__(manager, fe_type, _VECTOR)",
     "super().__init__(manager, fe_type, _DOUBLE)"),
    ("engine/kernel/compiler.py", '"nsz", ', "")])
def test_a_change_of_the_numbers_compiles_everything(copy, names, file, old, new):
    change(copy, file, old, new)
    assert changed(names, evaluated(NAMES, copy)) == {name.rsplit("-", 1)[0] for name in names}


def test_the_layout_of_named_tuples_counts(copy, names):
    change(copy, "engine/kernel/algebra.py", 'namedtuple("Inertia", "',
           'namedtuple("Inertia", "unused ')
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
    module = SMALL + "\nfrom dyn_ros.engine.kernel.compiler import ENTRIES\n" + (
        'Entry("small", function, numba.types.float64(numba.types.float64), False)\n'
        'def name():\n    return ENTRIES["small"].file_name()\n')
    texts = []
    for old, new in (("twice(x)) + shift", "twice(x)) - shift"),
                     ("lambda x: 2.0", "lambda x: 3.0"),
                     ("return 2.0 * x", '"""Uncompiled."""\n    return 2.0 * x'),
                     ("1) + half(1.0)", "2) + half(1.0)"), ("0.5 * x", "1.5 * x")):
        texts += [module, module.replace(old, new)]
    found = evaluated(f"FOLDER = {str(tmp_path)!r}\nTEXTS = {texts!r}\n" + OWN)
    assert len({*found[::2], found[5]}) == 1 and len({*found}) == 5


ALGORITHM = """
from dyn_ros.engine.call.algorithm import ALGORITHMS, Algorithm
from dyn_ros.engine.kernel.fields import Q, field
from dyn_ros.engine.kernel.layout import offset
from dyn_ros.engine.kernel.compiler import kernel
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
    for old, new in (("FACTOR", "FACTOR"), ("FACTOR = 2.0", "FACTOR = 2.0   # the same"),
                     ("FACTOR = 2.0", "FACTOR = 3.0"), ("(r, Q)))", "(r, Q)) + 1.0)"),
                     ("FIRST =", 'field("zeroth", ())\nFIRST =')):
        (tmp_path / "own.py").write_text(ALGORITHM.replace(old, new))
        found.append(evaluated("import sys\nsys.dont_write_bytecode = True\n"
                               f"sys.path.insert(0, {str(tmp_path)!r})\nimport own"))
    for names in zip(*found, strict=True):
        assert names[0] == names[1] and len(set(names)) == 4


# --- names of entries in this process

FLOAT_TO_FLOAT = numba.types.float64(numba.types.float64)


def digest(function, signature=FLOAT_TO_FLOAT):
    return reach.digest(function, signature, (), lambda kind: [])


def returning(constant):
    def function(x):
        return constant
    return function


def calling(*functions):
    def function(x):
        return first(x) + second(x)

    first, second = functions
    return function


@pytest.mark.parametrize("one, other", [
    (1, 1.0), (1, True), (1.0, np.float32(1.0)), ("1", b"1"), ((1, 2), (1, 3)),
    (np.zeros(4, np.int32), np.zeros(4, np.float32)), (np.zeros(4), np.zeros((2, 2))),
    (np.zeros(100), np.arange(100) // 99 * 1.0), (0.0, -0.0), ((1, 2), frozenset({1, 2})),
    (numba.types.int64, numba.types.int32)], ids=str)
def test_constants_that_differ_have_other_digests(one, other):
    assert digest(returning(one)) != digest(returning(other))
    assert digest(returning(one)) == digest(returning(one))


def test_the_order_in_a_set_does_not_matter():
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert list(one) != list(other)
    assert digest(returning(one)) == digest(returning(other))


@pytest.mark.parametrize("one, other", [
    (lambda x, k=1.0: x * k, lambda x, k=2.0: x * k),
    (lambda x, *, k=1.0: x * k, lambda x, *, k=2.0: x * k),
    (lambda x, k: x * k, lambda x, *, k: x * k),
    (lambda x: x + 1.0, lambda x: 1.0 + x),
    (lambda x: [x * k for k in (1.0, 2.0)], lambda x: [x * k for k in (1.0, 3.0)]),
    (calling(returning(1.0), returning(2.0)), calling(returning(3.0), returning(2.0))),
    (calling(returning(1.0), returning(2.0)), calling(returning(1.0), returning(3.0)))])
def test_code_that_differs_has_another_digest(one, other):
    assert digest(one) != digest(other)


def module(scale):
    """A module of this package."""
    found = ModuleType(f"{__name__}.values")
    found.SCALE = scale
    return found


def scaling(values):
    return lambda x: x * values.SCALE


@pytest.mark.parametrize("text, name, one, other", [
    ("lambda x: (lambda y: y * SCALE)(x)", "SCALE", 1.0, 2.0),
    ("lambda x: x * values.SCALE", "values", module(1.0), module(2.0)),
    ("lambda x: (lambda y: y * values.SCALE)(x)", "values", module(1.0), module(2.0))])
def test_globals_that_differ_have_other_digests(text, name, one, other):
    one, same, other = (eval(text, {"__name__": __name__, name: value})
                        for value in (one, one, other))
    assert digest(one) == digest(same) != digest(other)


def test_modules_in_a_closure_that_differ_have_other_digests():
    assert digest(scaling(module(1.0))) == digest(scaling(module(1.0)))
    assert digest(scaling(module(1.0))) != digest(scaling(module(2.0)))


def test_a_constant_behind_the_first_256_has_another_digest():
    text = "lambda x: [" + "".join(f"x + {k}.5, " for k in range(299)) + "x + LAST]"
    one, other = (eval(text.replace("LAST", last)) for last in ("1e3", "2e3"))
    assert digest(one) != digest(other)


def test_a_signature_that_differs_has_another_digest():
    function = returning(1.0)
    kinds = numba.types.float64, numba.types.int64
    assert len({digest(function, returned(taken)) for returned in kinds for taken in kinds}) == 4


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """A function that makes an entry, and an empty cache."""
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "ENTRIES", {})
    cache.cache_folder.cache_clear()
    yield lambda nogil=False: compiler.Entry("small", returning(1.0), FLOAT_TO_FLOAT, nogil)
    cache.cache_folder.cache_clear()


def test_what_changes_the_machine_code_changes_the_name(entry, monkeypatch):
    names = [entry().file_name(), entry(nogil=True).file_name()]
    for place, name in (compiler, "FLAGS"), (cache, "VERSIONS"):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, (*getattr(place, name), "another"))
            names.append(entry().file_name())
    monkeypatch.setattr(compiler._private, "processor", lambda: "another")
    names.append(entry().file_name())
    assert None not in names and len(set(names)) == 5


def test_a_compilation_is_announced_and_a_hit_is_not(entry):
    announced = []
    assert [entry().load(lambda: announced.append(1)) for _ in range(3)] == [True, False, False]
    assert announced == [1]


def test_an_entry_that_this_numba_cannot_load_is_compiled(entry, monkeypatch):
    assert entry().load()
    with monkeypatch.context() as patch:
        def broken(content):
            raise AttributeError("gone")

        patch.setattr(compiler._private, "load", broken)
        patch.setattr(compiler, "_has_warned", False)
        made = entry()
        with pytest.warns(RuntimeWarning, match="results are not affected") as caught:
            assert made.load() and made.call(3.0) == 1.0
        assert len(caught) == 1
    made = entry()
    assert not made.load() and made.call(3.0) == 1.0


def test_threads_that_load_at_once_load_once(entry, monkeypatch):
    made, started, looks = entry(), threading.Barrier(4), []
    load_cached = compiler.Entry._load_cached
    monkeypatch.setattr(compiler.Entry, "_load_cached",
                        lambda entry, name: looks.append(name) or load_cached(entry, name))

    def load():
        started.wait()
        return made.load()

    with ThreadPoolExecutor(4) as pool:
        found = [each.result() for each in [pool.submit(load) for _ in range(4)]]
    assert sorted(found) == [False, False, False, True] and made.call(3.0) == 1.0
    assert len(looks) == 1


def test_what_cannot_be_compared_is_not_kept(tmp_path):
    code = SMALL.replace("lambda x: 2.0 * x", "(lambda x: 2.0 * x) if choices else None").replace(
        "@overload", "choices = {1: 2}\n\n@overload")
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path / "cache")}
    compiled, result, warning = evaluated(code + REPORT, **named)
    assert compiled and result == 41.5
    assert "choices" in warning and "each process" in warning
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_second_process_compiles_nothing(tmp_path):
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path)}
    assert run(COMPILE, **named) == "['frame_placements']"
    assert run(COMPILE, **named) == "[]"
    assert evaluated(LEAVE_IN_CACHE, **named) == [[], True, False, False]


def test_a_kernel_can_be_called_from_python():
    called = "print(quadruple(10.0, 2.0), quadruple(1, 2), quarter(2.0))"
    assert run(SMALL + called) == "42.0 6.0 0.5"


def test_a_function_that_numba_compiles_can_call_kernels_and_subroutines():
    code = SMALL + """
@numba.njit
def other(x):
    return quadruple(quarter(x), 1) + half(x)
print(other(1.0))
"""
    assert run(code) == "2.5"


def test_subroutines_are_optimized_once_for_all_entries(tmp_path):
    code = SMALL + """
from dyn_ros.engine.kernel.numba_private import _Library
optimize, optimized = _Library._optimize_final_module, []
_Library._optimize_final_module = lambda each: (optimized.append(each.name), optimize(each))
def other(x):
    return quarter(x)
entries = [Entry(name, each, numba.types.float64(numba.types.float64), False)
           for name, each in (("one", function), ("other", other))]
print([[entry.load(), entry.call(10.0)] for entry in entries],
      sorted(each for each in optimized if each in ("half", "quarter")))
"""
    found = run(code, DYN_ROS_CACHE_DIR=str(tmp_path))
    assert found == "[[True, 41.5], [True, 2.5]] ['half', 'quarter']"


def test_a_kernel_that_needs_all_passes_of_numba_gets_them(tmp_path):
    code = SMALL.replace("def quadruple(x, shift):\n", "def quadruple(x, shift, other=None):\n"
                         "    if other is not None:\n        shift = shift + other.real[0]\n")
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path / "cache")}
    compiled, result, *told = evaluated(code + REPORT, **named)
    assert compiled and result == 41.5 and len(told) < 2
    assert evaluated(code + REPORT, **named) == [False, 41.5]


BROKEN = {
    "gone": "import numba.core.codegen as c; del c.JITCodeLibrary",
    "module gone": "import sys; sys.modules['numba.core.targetconfig'] = None",
    "helper": "private.Helper.__init__ = broken",
    "compile": "private.Helper.compile = broken",
    "passes": "private._Compiler._compile_core = broken",
    "lowering": "private._Lowering.run_pass = broken",
    "module": "private._Library.add_ir_module = broken",
    "linking": "private._Library.optimized = broken",
    "subroutines": "private._link_subroutines = broken",
    "overload": "private.overload = broken",
    "fast compilation": "private.fast_compilation = broken",
    "processor": "private.processor = broken",
    "types": "private.processor = lambda: None; private.parts_of_type = broken",
    "dump": "private.dump = broken",
}
BREAK = """
import importlib
import numba
def broken(*args, **kwargs):
    raise AttributeError("gone")
"""


@pytest.mark.parametrize("how", BROKEN.values(), ids=BROKEN)
def test_without_a_private_part_results_are_the_same_and_one_warning_says_so(how, tmp_path):
    named = {"DYN_ROS_CACHE_DIR": str(tmp_path / "cache")}
    imported = ""
    if "private" in how:
        imported = "import dyn_ros.engine.kernel.numba_private as private\n"
    if "private" not in how:
        imported = ("import numba.core.registry, numba.core.typed_passes, numba.extending\n")
    code = BREAK + imported + how + "\n" + SMALL + REPORT
    found = evaluated(code, **named)
    assert found[:2] == [True, 41.5] and len(found) == 3, found
    assert numba.__version__ in found[2] and "results are not affected" in found[2]
