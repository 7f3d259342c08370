# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Entries compiled in separate processes."""
import subprocess
import sys

import pytest

from dyn_ros.algorithms.algorithm import ALGORITHMS
from dyn_ros.spatial import cache, workers
from dyn_ros.spatial.compiler import ENTRIES, JIT

pytestmark = pytest.mark.skipif(not JIT, reason="nothing is compiled")
NAMES = ["kinetic_energy-one", "potential_energy-one", "mechanical_energy-one"]


@pytest.fixture
def entries(tmp_path, monkeypatch):
    """A few entries, and an empty cache."""
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    cache.cache_folder.cache_clear()
    yield [ENTRIES[name] for name in NAMES]
    cache.cache_folder.cache_clear()


def test_two_processes_compile_what_this_one_can_load(entries):
    begun = []
    assert not any(entry.is_cached() for entry in entries)
    assert workers.compile_in_processes(entries, 2, begun.append) == set(NAMES)
    assert {entry.name for entry in begun} == set(NAMES) and len(begun) == 3
    assert all(entry.is_cached() for entry in entries)
    assert workers.compile_in_processes(entries, 2) == set()


def test_a_process_that_ends_early_leaves_the_rest(entries, monkeypatch):
    monkeypatch.setattr(workers, "_COMMAND", "import sys; sys.exit(3)")
    assert workers.compile_in_processes(entries, 2) == set()
    monkeypatch.setattr(workers, "_COMMAND", "print('starting'); input()")
    assert workers.compile_in_processes(entries[:1]) == set()


def test_none_are_compiled(entries):
    assert workers.compile_in_processes([]) == set()


def test_every_algorithm_has_its_entries():
    assert {f"{name}-{kind}" for name in ALGORITHMS for kind in ("one", "batch")} <= set(ENTRIES)


def test_a_script_without_a_guard_is_not_imported_again(entries, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("print('once')\n"
                      "from dyn_ros.spatial import workers\n"
                      "from dyn_ros.spatial.compiler import ENTRIES\n"
                      "import dyn_ros\n"
                      "print(workers.compile_in_processes([ENTRIES['kinetic_energy-one']]))\n")
    done = subprocess.run([sys.executable, str(script)], text=True, capture_output=True, check=True)
    assert done.stdout.split("\n")[:2] == ["once", "{'kinetic_energy-one'}"]
