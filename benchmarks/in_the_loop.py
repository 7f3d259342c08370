# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the cost of the engine in a control loop: the time of one call per cycle, at a rate.

    python benchmarks/in_the_loop.py [--rate 1000] [--seconds 10] [--write docs/in_the_loop.md]

The loop sleeps until the next cycle, takes a new state of the 7-joint arm, and makes one call; the
time of the call is measured, not the sleep. Between cycles other programs use the caches, so a call
takes longer than in a row. With --write, the table on the page is replaced.
"""

from __future__ import annotations

import argparse
import gc
import platform
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dyn_ros

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


def cycle_calls(model: dyn_ros.Model) -> dict[str, Callable[..., object]]:
    """Return calls that a controller may make in a cycle, with (q, v, a, tau), by name."""
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
            model, data, q, "tool", axes
        ),
        "`operational_space_inertia`": lambda q, v, a, tau: dyn_ros.operational_space_inertia(
            model, data, q, "tool", axes
        ),
        "`constrained_dynamics`, position of the tool": lambda q, v, a, tau: (
            dyn_ros.constrained_dynamics(model, data, q, v, "tool", up)
        ),
        "`MomentumObserver.update`": lambda q, v, a, tau: observer.update(q, v, tau, 0.001),
    }


def time_calls(call: Callable[..., object], states: np.ndarray, rate: float) -> np.ndarray:
    """Call at a rate [1/s], with one state per cycle; return the time of each call [us]."""
    times = np.empty(len(states))
    cycle_start = time.perf_counter()
    for k, (q, v, a, tau) in enumerate(states):
        cycle_start += 1.0 / rate
        while (wait := cycle_start - time.perf_counter()) > 0.0:
            time.sleep(wait)
        start = time.perf_counter()
        call(q, v, a, tau)
        times[k] = time.perf_counter() - start
    return times * 1e6


def report(rate: float, seconds: float) -> list[str]:
    """Return the lines of the table."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (int(rate * seconds), 4, model.nv))
    lines = [
        f"One call per cycle at {rate:g} Hz for {seconds:g} s; {platform.machine()}, Python "
        f"{platform.python_version()}, not a real-time kernel [µs]:",
        "",
        "| | median | 99 % | 99.9 % | longest |",
        "| --- | --- | --- | --- | --- |",
    ]
    gc.collect()
    gc.disable()
    for name, call in cycle_calls(model).items():
        call(*states[0])  # the first call compiles or loads
        times = time_calls(call, states, rate)
        statistics = [*np.percentile(times, [50, 99, 99.9]), times.max()]
        lines.append(f"| {name} | " + " | ".join(f"{x:.1f}" for x in statistics) + " |")
    return lines


def main() -> None:
    """Print the table; write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rate", type=float, default=1000.0, help="cycles per second")
    parser.add_argument("--seconds", type=float, default=10.0, help="duration of each row")
    parser.add_argument("--write", type=Path, help="replace the table of this page")
    options = parser.parse_args()
    text = "\n".join(report(options.rate, options.seconds))
    print(text)
    if options.write:
        page = options.write.read_text(encoding="utf-8")
        options.write.write_text(
            re.sub(
                r"(<!-- measured -->\n).*?(<!-- end -->)",
                lambda m: f"{m[1]}{text}\n{m[2]}",
                page,
                flags=re.DOTALL,
            ),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
