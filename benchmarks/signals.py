# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Stop nodes with SIGINT or SIGTERM at random moments after their start, and count the exit codes.

Each node is started in turn, as `ros2 run` starts it. In two of three starts, the signal comes at a
random moment up to two seconds later; in the others up to 0.1 s after the first line of the log,
when the node becomes active. In half of the starts, a second signal follows within 0.3 s. A node
has to end with exit code 0, and without output but log lines. The output is the number of starts
by node and exit code, and the first start that went wrong, with its seed.

A signal in the first milliseconds still ends the process with -2 or -15: before `env`, which is the
first program of an executable, blocks signals.

    python benchmarks/signals.py [--starts 1000] [--seed 1] [--processes 2] [--node dynamics_node]
"""

import argparse
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROBOT = Path(__file__).resolve().parents[1] / "dyn_ros" / "robots" / "arm7.urdf"
NODES = (
    "dynamics_node",
    "centroidal_node",
    "vereshchagin_node",
    "observer_node",
    "viewer_node",
    "dyn_ros_node",
)
LOG_LINE = re.compile(r"\[(INFO|WARN)\] \[")
TIMEOUT = 60.0  # s; from the last signal to the end of a node


@dataclass(frozen=True)
class Stop:
    """A start of a node, and what signals did to it."""

    node: str
    seed: int
    moment: str  # from which the delay of the first signal counts
    signals: tuple[tuple[float, signal.Signals], ...]  # delay since the previous one [s]
    exit_code: int  # -9 if it did not end
    output: str

    @property
    def is_clean(self) -> bool:
        """True if the exit code is 0 and there are only log lines."""
        return self.exit_code == 0 and all(map(LOG_LINE.match, self.output.splitlines()))

    def __str__(self) -> str:
        signals = ", then ".join(f"{delay:.4f} s: {number.name}" for delay, number in self.signals)
        return (
            f"{self.node}, seed {self.seed}, from {self.moment}: {signals}; "
            f"exit code {self.exit_code}\n{self.output}"
        )


def stop_node(node: str, seed: int) -> Stop:
    """Start a node, send it signals at moments that follow from the seed, and wait for its end."""
    choice = random.Random(seed)
    kinds = (signal.SIGINT, signal.SIGTERM)
    moment = choice.choice(("start", "start", "first line"))
    latest = 2.0 if moment == "start" else 0.1
    signals = [(choice.uniform(0.0, latest), choice.choice(kinds))]
    if choice.random() < 0.5:
        signals.append((choice.uniform(0.0, 0.3), choice.choice(kinds)))
    arguments = ["-p", f"robot_description_file:={ROBOT}"]
    if node == "viewer_node":
        arguments += ["-p", "port:=0"]
    process = subprocess.Popen(
        [find_executable(node), "--ros-args", "-r", f"__ns:=/seed{seed}", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,  # `communicate` does not return what `readline` has read too far
        env=environment(),
    )
    assert process.stdout
    first_line = process.stdout.readline() if moment == "first line" else b""
    for delay, number in signals:
        time.sleep(delay)
        process.send_signal(number)
    try:
        output, _ = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    text = (first_line + output).decode(errors="replace")
    return Stop(node, seed, moment, tuple(signals), process.returncode, text)


def find_executable(node: str) -> Path:
    """Return the executable that `ros2 run` starts."""
    prefixes = [
        *filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)),
        sys.prefix,
    ]
    paths = [Path(prefix, "lib", "dyn_ros", node) for prefix in prefixes]
    return next((path for path in paths if path.exists()), paths[-1])


def environment() -> dict[str, str]:
    """Return the environment of this process, with its Python first in PATH."""
    return {
        **os.environ,
        "PATH": os.pathsep.join((os.path.dirname(sys.executable), os.environ["PATH"])),
        "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
    }


def stop_nodes(nodes: Sequence[str], seeds: Sequence[int], processes: int) -> Iterator[Stop]:
    """Stop nodes in turn, one for each seed, in so many processes at a time."""
    with ThreadPoolExecutor(processes) as pool:
        turns = [nodes[turn % len(nodes)] for turn in range(len(seeds))]
        yield from pool.map(stop_node, turns, seeds)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="of the first start")
    parser.add_argument("--processes", type=int, default=2, help="at the same time")
    parser.add_argument("--node", choices=NODES, help="only this one")
    options = parser.parse_args()
    nodes = [options.node] if options.node else NODES
    seeds = range(options.seed, options.seed + options.starts)
    print(f"seeds {seeds[0]} to {seeds[-1]}")
    counts: Counter[tuple[str, int]] = Counter()
    unclean: list[Stop] = []
    with contextlib.suppress(KeyboardInterrupt):  # Ctrl-C: count those that have ended
        for stop in stop_nodes(nodes, seeds, options.processes):
            counts[stop.node, stop.exit_code] += 1
            if not stop.is_clean:
                unclean.append(stop)
    for (node, exit_code), count in sorted(counts.items()):
        print(f"{node:18} exit code {exit_code:4}: {count}")
    print(f"{len(unclean)} of {counts.total()} starts did not end with code 0 and log lines only")
    if unclean:
        print(f"the first one: {unclean[0]}")
    return bool(unclean)


if __name__ == "__main__":
    raise SystemExit(main())
