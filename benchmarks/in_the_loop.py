# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures what the engine costs in a control loop: the calls of one cycle, at a rate.

    python benchmarks/in_the_loop.py [--rate 1000] [--seconds 10] [--write docs/in_the_loop.md]

The loop sleeps until the next cycle, takes a new state of the 7-joint arm, and makes one call; the
time of the call is measured, not the sleep. Between cycles other programs use the caches, so a call
takes longer than in a row. The second table compares the same kernel in a row: called as a function
of Python, by its address through ctypes, and by its address from compiled code, as a program in C
would. With --write, both tables on the page are replaced.
"""
from __future__ import annotations

import argparse
import ctypes
import gc
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np

import dyn_ros
from dyn_ros.engine.call import entries
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.kernel.fields import Q

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
CALLS = 20_000
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)


def cycles(model: dyn_ros.Model) -> dict[str, Callable[..., object]]:
    """Return what a controller may compute in a cycle, from (q, v, a, tau)."""
    data, axes = dyn_ros.Data(model), dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
    observer = dyn_ros.MomentumObserver(model)
    up = np.eye(6)[:, :3]
    return {
        "`generalized_gravity`": lambda q, v, a, tau: dyn_ros.generalized_gravity(model, data, q),
        "`nonlinear_effects`": lambda q, v, a, tau: dyn_ros.nonlinear_effects(model, data, q, v),
        "`rnea`": lambda q, v, a, tau: dyn_ros.rnea(model, data, q, v, a),
        "`aba`": lambda q, v, a, tau: dyn_ros.aba(model, data, q, v, tau),
        "`all_terms`": lambda q, v, a, tau: dyn_ros.all_terms(model, data, q, v),
        "`frame_jacobian`": lambda q, v, a, tau: dyn_ros.frame_jacobian(
            model, data, q, "tool", axes),
        "`operational_space_inertia`": lambda q, v, a, tau: dyn_ros.operational_space_inertia(
            model, data, q, "tool", axes),
        "`constrained_dynamics`, position of the tool": lambda q, v, a, tau: (
            dyn_ros.constrained_dynamics(model, data, q, v, "tool", up)),
        "`MomentumObserver.update`": lambda q, v, a, tau: observer.update(q, v, tau, 0.001),
    }


def at_a_rate(call: Callable[..., object], states: np.ndarray, rate: float) -> np.ndarray:
    """Return the time of each call [us], one per cycle."""
    times = np.empty(len(states))
    due = time.perf_counter()
    for k, (q, v, a, tau) in enumerate(states):
        due += 1.0 / rate
        while (wait := due - time.perf_counter()) > 0.0:
            time.sleep(wait)
        start = time.perf_counter()
        call(q, v, a, tau)
        times[k] = time.perf_counter() - start
    return times * 1e6


def in_a_row(call: Callable[[], object]) -> float:
    """Return the time of a call [us]: the fastest of 20 turns."""
    best = np.inf
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        best = min(best, (time.perf_counter() - start) / CALLS * 1e6)
    return best


@numba.njit
def compiled_loop(function, addresses, q, target, count):
    """Call a kernel by its address, with a copy of q."""
    for _ in range(count):
        for i in range(len(q)):
            target[i] = q[i]
        function(*addresses)


def by_address(model: dyn_ros.Model, name: str, q: np.ndarray) -> dict[str, float]:
    """Return the times of one kernel [us]: from Python, through ctypes, from compiled code."""
    data = dyn_ros.Data(model)
    function = getattr(dyn_ros, name)
    expected = function(model, data, q).copy()
    program = ALGORITHMS[name].program(model)
    [ready] = [call for call in data._ready.values() if call.program is program]
    compiled = KERNEL(program.one.address)
    addresses = entries.addresses(model, ready.workspace)
    start = ready.workspace.offset(Q)
    target = ready.workspace.work[start:start + model.nq]
    result = ready.results
    result[:] = np.nan
    compiled_loop(compiled, addresses, q, target, 1)
    assert np.array_equal(result, expected)
    times = {"from Python": in_a_row(lambda: function(model, data, q)),
             "by its address, ctypes": in_a_row(lambda: compiled(*addresses))}
    best = np.inf
    for _ in range(20):
        began = time.perf_counter()
        compiled_loop(compiled, addresses, q, target, CALLS)
        best = min(best, (time.perf_counter() - began) / CALLS * 1e6)
    return times | {"by its address, compiled code": best}


def report(rate: float, seconds: float) -> list[str]:
    """Return the lines of both tables."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (int(rate * seconds), 4, model.nv))
    lines = [f"One call per cycle at {rate:g} Hz for {seconds:g} s; {platform.machine()}, Python "
             f"{platform.python_version()}, not a real-time kernel [us]:", "",
             "| | median | 99 % | 99.9 % | longest |", "| --- | --- | --- | --- | --- |"]
    gc.collect()
    gc.disable()
    for name, call in cycles(model).items():
        call(*states[0])                            # the first call compiles or loads
        times = at_a_rate(call, states, rate)
        figures = [*np.percentile(times, [50, 99, 99.9]), times.max()]
        lines.append(f"| {name} | " + " | ".join(f"{x:.1f}" for x in figures) + " |")
    tables = {name: by_address(model, name, states[0, 0]) for name in (
        "generalized_gravity", "crba")}
    lines += ["", "The same kernel in a row [us]:", "",
              "| | " + " | ".join(next(iter(tables.values()))) + " |", "| --- | --- | --- | --- |"]
    lines += [f"| `{name}` | " + " | ".join(f"{x:.2f}" for x in times.values()) + " |"
              for name, times in tables.items()]
    return lines


def main() -> None:
    """Print both tables; write them to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="cycles per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each row")
    parser.add_argument("--write", type=Path, help="replace the tables of this page")
    options = parser.parse_args()
    text = "\n".join(report(options.rate, options.seconds))
    print(text)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(re.sub(
            r"(<!-- measured -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}{text}\n{m[2]}", page,
            flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
