# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries compiled in separate processes."""

import importlib
import os
import subprocess
import sys

import pytest

from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.machine_code import cache, compiler, workers
from dyn_ros.engine.machine_code.compiler import ENTRIES
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
pytest.importorskip("numba", reason="nothing can be compiled")
NAMES = ["one", "two", "three"]
SMALL = """
from dyn_ros.engine.machine_code.compiler import Entry

class Loud(Entry):          # LLVM may also write to standard output
    def compile(self, targets):
        print("compiling")
        return super().compile(targets)

def adding(number):
    return lambda x: x + number

ADDING = [Loud(name, adding(number), "q")
          for number, name in enumerate(("one", "two", "three"), 1)]
"""


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    cache.cache_folder.cache_clear()
    yield
    cache.cache_folder.cache_clear()


@pytest.fixture
def entries(tmp_path, monkeypatch, empty_cache):
    """A few small entries that the processes know too, and an empty cache."""
    (tmp_path / "small_entries.py").write_text(SMALL)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(compiler, "ENTRIES", {})
    monkeypatch.setattr(workers, "_COMMAND", "import small_entries\n" + workers._COMMAND)
    yield importlib.import_module("small_entries").ADDING
    del sys.modules["small_entries"]


def test_two_processes_compile_what_this_one_can_load(entries):
    begun = []
    assert not any(entry.is_cached() for entry in entries)
    assert workers.compile_in_processes(entries, 2, begun.append) == set(NAMES)
    assert {entry.name for entry in begun} == set(NAMES) and len(begun) == 3
    assert all(entry.is_cached() for entry in entries)
    assert not any(entry.load() for entry in entries)
    assert [entry.call(10) for entry in entries] == [11, 12, 13]
    assert workers.compile_in_processes(entries, 2) == set()


def test_a_process_that_ends_early_leaves_the_rest(entries, monkeypatch):
    monkeypatch.setattr(workers, "_COMMAND", "import sys; sys.exit(3)")
    assert workers.compile_in_processes(entries, 2) == set()
    monkeypatch.setattr(workers, "_COMMAND", "print('starting'); input()")
    assert workers.compile_in_processes(entries[:1]) == set()


def test_a_process_ends_with_its_caller_although_it_compiles(entries, monkeypatch):
    slow = "import small_entries, time\nsmall_entries.Loud.compile = lambda *_: time.sleep(60.0)\n"
    monkeypatch.setattr(workers, "_COMMAND", slow + workers._COMMAND)
    process = workers._start_process()
    process.stdin.write("one\n")
    process.stdin.close()  # as the system does when the caller ends
    with process.stdout:
        assert process.wait(30.0) == 0


def test_none_are_compiled(entries):
    assert workers.compile_in_processes([]) == set()


def test_every_algorithm_has_its_entries():
    assert {f"{name}-{kind}" for name in ALGORITHMS for kind in ("one", "lanes")} <= set(ENTRIES)


def test_a_script_without_a_guard_is_not_imported_again(empty_cache, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('once')\n"
        "from dyn_ros.engine.machine_code import workers\n"
        "from dyn_ros.engine.machine_code.compiler import ENTRIES\n"
        "import dyn_ros\n"
        "print(workers.compile_in_processes([ENTRIES['frame_placements-one']]))\n"
    )
    done = subprocess.run([sys.executable, str(script)], text=True, capture_output=True, check=True)
    assert done.stdout.split("\n")[:2] == ["once", "{'frame_placements-one'}"]


def test_calls_for_batches_are_compiled_after_all_others(empty_cache, monkeypatch):
    precompile = importlib.import_module("dyn_ros.engine.call.precompile")
    taken = []
    monkeypatch.setattr(compiler.library, "code_address", lambda *_: 0)  # as without a library
    monkeypatch.setattr(precompile, "worker_count", lambda: 2)
    monkeypatch.setattr(
        precompile,
        "compile_in_processes",
        lambda entries, starting: {taken.append(each.name) for each in entries},
    )
    for name in ("crba", "minverse"):
        for entry in ALGORITHMS[name].entries(True, True):
            monkeypatch.setattr(entry, "call", None)
            monkeypatch.setattr(entry, "load", lambda before: False)
    precompile.precompile(["crba", "minverse"])
    assert taken == [
        "crba-one",
        "call-gather",
        "call-scatter",
        "minverse-one",
        "minverse-mimic-one",
        "crba-lanes",
        "minverse-lanes",
        "minverse-mimic-lanes",
    ]


def test_processors_are_counted_on_macos(monkeypatch):
    assert 1 <= workers.processor_count() <= os.cpu_count()
    monkeypatch.delattr(os, "sched_getaffinity")
    assert workers.processor_count() == os.cpu_count()
