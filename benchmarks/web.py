# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the WebAssembly module with the C library and with Pinocchio, in one run.

    python benchmarks/web.py [--build FOLDER] [--rounds 60] [--write docs/web_performance.md]

Contenders take turns, so that changes of the processor's frequency affect all of them. The page
also says how large modules are, how long they take to start, and how much memory they use. gcc,
Node.js, Chromium, and clang and wasm-ld or the package ziglang are required.
"""

import argparse
import ctypes
import gzip
import json
import shutil
import subprocess
import sys
import timeit
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pinocchio
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test"))

from engine import ARM, CASES  # noqa: E402
from viewer.chromium import CHROMIUM, SWITCHES  # noqa: E402

import dyn_ros  # noqa: E402
import peer  # noqa: E402
from dyn_ros.engine.kernel.fields import axis_lengths  # noqa: E402
from dyn_ros.engine.machine_code.targets import best_target, same_architecture  # noqa: E402
from dyn_ros.export.c_library import export_library  # noqa: E402
from dyn_ros.export.functions import find_functions  # noqa: E402
from dyn_ros.export.model_file import write_model  # noqa: E402
from dyn_ros.export.web.module import export_web_module  # noqa: E402

ROBOTS = {"arm7": None, "panda": None, "talos_reduced": "floating", "solo12": "floating"}
TEN_FUNCTIONS = (
    "rnea",
    "crba",
    "aba",
    "nonlinear_effects",
    "generalized_gravity",
    "frame_placements",
    "frame_jacobian",
    "rnea_derivatives",
    "center_of_mass",
    "ccrba",
)
FUNCTIONS = (*TEN_FUNCTIONS, "minverse", "aba_derivatives", "joint_torque_regressor")
# The folder of each module: its functions, None for all, and its target.
MODULES = {
    "ten": (TEN_FUNCTIONS, "wasm32"),
    "ten_without_simd": (TEN_FUNCTIONS, "wasm32-without-simd"),
    "all": (None, "wasm32"),
    "all_without_simd": (None, "wasm32-without-simd"),
}
MODULE_TITLES = {
    "ten": "ten functions",
    "ten_without_simd": "ten, without SIMD",
    "all": "all functions",
    "all_without_simd": "all, without SIMD",
}
BEST_TARGET = best_target()
NODE, CHROMIUM_SIMD, CHROMIUM_SCALAR = "Node.js", "Chromium", "Chromium without SIMD"
METHOD = "`dyn_ros.mjs`"
MAX_MODEL_SIZE = 4096  # bytes of the C structure
TURN = 2e6  # ns of calls of one contender
STARTS = 3  # processes of each contender, since code is faster at some places of the memory
LOADS = 10  # starts of each module that are timed


class Ratio(NamedTuple):
    """Contenders whose times are compared, and the goal for the geometric mean."""

    contender: str
    reference: str
    goal: str = ""


RATIOS = (
    Ratio(CHROMIUM_SIMD, BEST_TARGET, "2.0"),
    Ratio(CHROMIUM_SIMD, "x86-64-v2"),
    Ratio(CHROMIUM_SIMD, "Pinocchio", "0.6"),
    Ratio(CHROMIUM_SCALAR, BEST_TARGET),
    Ratio(NODE, BEST_TARGET),
)


# --- robots and arguments


def load_pair(robot):
    """Return a robot in both engines; mimic joints are free."""
    xml = ARM.read_text(encoding="utf-8") if robot == "arm7" else peer.urdf(robot)
    model = dyn_ros.Model.from_urdf(xml, ROBOTS[robot], mimic="ignore")
    return peer.Pair(model, peer.pinocchio_model(xml, ROBOTS[robot]))


def library_arguments(pair):
    """Return the arguments and arrays for results of each function: arrays, integers, or 0."""
    frame, _ = peer.some_frames(pair)[-1]
    values = dict(zip(("q", "v", "a", "tau"), pair.state()))
    values |= {"frame": frame, "reference_frame": int(dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED)}
    return {
        function.name: [
            *(values.get(function.parameter_name(x), 0) for x in function.parameters),
            *(np.zeros(axis_lengths(pair.model, x.shape)).ravel() for x in function.results),
        ]
        for function in find_functions(FUNCTIONS)
    }


def write_inputs(pairs, folder):
    """Write the robots, and the arguments of their functions, for web.mjs."""
    for robot, pair in pairs.items():
        write_model(pair.model, folder / f"{robot}.dynros")
    calls = {robot: library_arguments(pair) for robot, pair in pairs.items()}
    (folder / "calls.json").write_text(json.dumps(calls, default=np.ndarray.tolist))
    shutil.copy(HERE / "web.mjs", folder)


# --- contenders: functions that take a robot, a function and a count, and return nanoseconds


class NativeLibrary:
    """The C library, loaded from a new copy."""

    def __init__(self, path, copy, pairs, folder):
        timer = ctypes.CDLL(str(folder / "time_calls.so"))
        timer.time_calls.restype = ctypes.c_double
        self.timer = timer
        self.library = ctypes.CDLL(shutil.copy(path, copy))
        self.calls = {robot: self.prepare(pair, folder / robot) for robot, pair in pairs.items()}

    def prepare(self, pair, path):
        """Return the arguments of each function, and the arrays in which they are."""
        write_model(pair.model, path)
        content = aligned_copy(np.fromfile(path))
        model = aligned_copy(np.zeros(MAX_MODEL_SIZE // 8))
        self.run("model_init", model, content, content.nbytes)
        calls = {}
        for name, values in library_arguments(pair).items():
            size = self.run(f"{name}_workspace_size", model)
            work = aligned_copy(np.zeros(-(-size // 8)))
            self.run(f"{name}_workspace_init", model, work, size)
            arrays = [x if isinstance(x, int) else aligned_copy(x) for x in values]
            addresses = as_addresses(model, work, *arrays)
            assert self.run(name, *addresses) == 0, name
            calls[name] = (ctypes.c_void_p * 10)(*addresses), [model, content, work, *arrays]
        return calls

    def run(self, name, *arguments):
        """Return the result of a function."""
        function = getattr(self.library, f"dyn_ros_{name}")
        if name.endswith("_workspace_size"):
            function.restype = ctypes.c_size_t
        return function(*map(ctypes.c_void_p, as_addresses(*arguments)))

    def time_calls(self, robot, name, count):
        """Return the time of a call [ns]."""
        addresses, _ = self.calls[robot][name]
        return self.timer.time_calls(getattr(self.library, f"dyn_ros_{name}"), addresses, count)


def aligned_copy(array):
    """Return a copy that starts at a multiple of 64 bytes, as in the WebAssembly module."""
    buffer = np.zeros(array.size + 16)
    copy = buffer[-buffer.ctypes.data % 64 // 8 :][: array.size]
    copy[:] = array
    return copy


def as_addresses(*values):
    """Return the addresses of arrays, and other values as they are."""
    return [x.ctypes.data if isinstance(x, np.ndarray) else x for x in values]


class Pinocchio:
    """Functions of Pinocchio, called from Python."""

    def __init__(self, pairs):
        self.timers = {robot: self.prepare(pair) for robot, pair in pairs.items()}

    @staticmethod
    def prepare(pair):
        """Return a timer for each function."""
        q, v, a, _ = pair.state()
        state = pair.to_pin_q(q), v, a
        first = pair.pin, pair.pin_data
        calls = {
            name: partial(case.function, *first, *state[: len(case.arguments)])
            for name, case in CASES.items()
        }
        _, frame = peer.some_frames(pair)[-1]
        axes = pinocchio.LOCAL_WORLD_ALIGNED
        calls |= {
            "frame_placements": partial(pinocchio.framesForwardKinematics, *first, state[0]),
            "frame_jacobian": partial(
                pinocchio.computeFrameJacobian, *first, state[0], frame, axes
            ),
            "center_of_mass": partial(pinocchio.centerOfMass, *first, *state, False),
        }
        return {name: timeit.Timer(calls[name]) for name in FUNCTIONS}

    def time_calls(self, robot, name, count):
        """Return the time of a call [ns]."""
        return self.timers[robot][name].timeit(count) / count * 1e9


class Node:
    """A process of Node.js that runs functions of web.mjs."""

    def __init__(self, folder):
        self.process = subprocess.Popen(
            ["node", folder / "web.mjs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, name, *arguments):
        """Run a function; return its result."""
        print(json.dumps([name, *arguments]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def close(self):
        """End the process."""
        self.process.communicate()


class Page:
    """A page of Chromium, in a process of its own, that runs functions of web.mjs."""

    def __init__(self, browser, folder):
        self.context = browser.new_context()
        self.page = self.context.new_page()
        self.page.route("**", partial(answer_request, folder))
        self.page.goto("https://benchmark.invalid/")
        assert self.page.evaluate("crossOriginIsolated")

    def run(self, name, *arguments):
        """Run a function; return its result."""
        return self.page.evaluate(
            "async ([name, ...values]) => (await import('/web.mjs'))[name](...values)",
            [name, *arguments],
        )

    def close(self):
        """Close the page."""
        self.context.close()


def answer_request(folder, route):
    """Answer with a file of a folder, or with an empty page whose clock resolves 5 us."""
    headers = {
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Embedder-Policy": "require-corp",
    }
    name = route.request.url.rpartition("/")[2]
    if not (folder / name).is_file():
        headers["Content-Type"] = "text/html"
        return route.fulfill(headers=headers, body="<title>benchmark</title>")
    types = {".mjs": "text/javascript", ".wasm": "application/wasm"}
    headers["Content-Type"] = types.get(Path(name).suffix, "application/octet-stream")
    return route.fulfill(headers=headers, path=folder / name)


# --- measurements


def export_contenders(folder, pairs):
    """Write the modules, the libraries and the timer; return the paths of the libraries."""
    for name, (functions, target) in MODULES.items():
        export_web_module(folder / name, functions, target)
        write_inputs(pairs, folder / name)
    timer = folder / "time_calls.so"
    command = ["gcc", "-O2", "-shared", "-fPIC", HERE / "time_calls.c", "-o", timer]
    subprocess.run(command, check=True)
    targets = {BEST_TARGET, "x86-64-v2"} & set(same_architecture(BEST_TARGET))
    for target in targets:
        export_library(folder / target, FUNCTIONS, [target])
    return {
        target: folder / target / "lib" / "libdyn_ros.so"
        for target in sorted(targets, reverse=True)
    }


def measure_calls(browser, folder, libraries, pairs, rounds):
    """Return the shortest time of each robot, function and contender, and memory by robot."""
    durations, memory = {}, {}
    for start in range(STARTS):
        runners = [
            Node(folder / "all"),
            Page(browser, folder / "all"),
            Page(browser, folder / "all_without_simd"),
        ]
        natives = {}
        for target, path in libraries.items():
            copy = folder / f"{target}-{start}.so"
            natives[target] = NativeLibrary(path, copy, pairs, folder).time_calls
        for runner in runners:
            runner.run("prepare")
        contenders = {
            **natives,
            "Pinocchio": Pinocchio(pairs).time_calls,
            NODE: partial(runners[0].run, "timeCalls"),
            CHROMIUM_SIMD: partial(runners[1].run, "timeCalls"),
            CHROMIUM_SCALAR: partial(runners[2].run, "timeCalls"),
            METHOD: partial(runners[1].run, "timeMethod"),
        }
        take_turns(contenders, max(2, rounds // STARTS), durations)
        memory = {robot: runners[1].run("measureMemory", robot) for robot in pairs}
        for runner in runners:
            runner.close()
    return {key: min(times[1:]) for key, times in durations.items()}, memory  # the first is short


def take_turns(contenders, rounds, durations):
    """Time each call by each contender in each round; append the nanoseconds to its durations."""
    for _ in range(rounds):
        for robot, name, contender in product(ROBOTS, FUNCTIONS, contenders):
            if contender == METHOD and name != "rnea":
                continue
            previous = durations.setdefault((robot, name, contender), [])
            count = max(10, round(TURN / min(previous))) if previous else 50
            previous.append(contenders[contender](robot, name, count))


def measure_starts(browser, folder):
    """Return the times to start of each module, in Chromium and Node.js [ms]."""
    times = {name: [] for name in MODULES}
    for _ in range(LOADS):
        for name, durations in times.items():
            row = []
            for runner in (Page(browser, folder / name), Node(folder / name)):
                row += runner.run("timeStart", "arm7")
                runner.close()
            durations.append(row)
    return times


def brotli_size(path):
    """Return the size of a file compressed by brotli, which Node.js has."""
    program = (
        "const content = require('fs').readFileSync(process.argv[1]);"
        "console.log(require('zlib').brotliCompressSync(content).length)"
    )
    return int(subprocess.check_output(["node", "-e", program, path], text=True))


# --- the page


def introduction(browser, targets):
    """Yield the first lines of the page."""
    node = subprocess.check_output(["node", "--version"], text=True).strip().removeprefix("v")
    yield from f"""\
# Calls in a web page

`python benchmarks/web.py --write docs/web_performance.md` writes this page. The programs
run in turn, so that other load affects all alike. The robots' tables show the shortest time of a
call in nanoseconds.

- {" and ".join(f"**{target}**" for target in targets)}: the library that `dyn_ros export` writes
  for these processors, called from C.
- **Pinocchio** {pinocchio.__version__}, called from Python.
- **Node.js** {node} and **Chromium** {browser.version}: functions of `dyn_ros.wasm`, whose
  arguments are in its memory.
- **{METHOD}**: `model.rnea(q, v, a)` in Chromium, which copies arguments and results.

""".splitlines()


def module_lines(folder, times):
    """Yield the lines of the section on modules."""
    yield from (
        "## Size and start",
        "",
        "Times in milliseconds are the shortest and, in parentheses, the median, without the "
        "download. *Start* compiles and instantiates the module; *first call* reads arm7 and calls "
        f"`rnea`. The ten functions are {', '.join(f'`{name}`' for name in TEN_FUNCTIONS)}. Their "
        "goals are at most 170 kB, 50 kB with gzip, and 15 ms to start in Chromium.",
        "",
        "| | kB | gzip | brotli | Chromium: start | first call | Node.js: start | first call |",
        "| --- |" + " --- |" * 7,
    )
    for name, title in MODULE_TITLES.items():
        path = folder / name / "dyn_ros.wasm"
        content = path.read_bytes()
        sizes = len(content), len(gzip.compress(content, 9)), brotli_size(path)
        cells = [f"{size / 1000:.1f}" for size in sizes]
        cells += [f"{min(x):.1f} ({np.median(x):.1f})" for x in zip(*times[name])]
        yield f"| {title} | {' | '.join(cells)} |"
    yield ""


def memory_lines(memory):
    """Yield the lines of the section on memory."""
    yield from (
        "## Memory",
        "",
        "Each robot has an instance of the module. After the "
        f"{len(FUNCTIONS)} functions below, its memory is to be at most 10 MB:",
        "",
        "| | MB | workspaces of all functions, in addition [MB] |",
        "| --- | --- | --- |",
    )
    for robot, sizes in memory.items():
        yield f"| {robot} | {' | '.join(f'{size / 1e6:.1f}' for size in sizes)} |"
    yield ""


def robot_lines(robot, shortest):
    """Yield the lines of the section of a robot."""
    contenders = list(dict.fromkeys(contender for _, _, contender in shortest))
    yield f"## {robot}, {ROBOTS[robot] or 'fixed'} base"
    yield ""
    yield f"| | {' | '.join(contenders)} |"
    yield "| --- |" + " --- |" * len(contenders)
    for name in FUNCTIONS:
        times = [shortest.get((robot, name, contender)) for contender in contenders]
        yield f"| `{name}` | {' | '.join(f'{x:.0f}' if x else '' for x in times)} |"
    yield ""


def ratio_lines(shortest):
    """Yield the lines of the section on ratios."""
    yield from (
        "## Ratios",
        "",
        f"Ratios of these times, geometric means of {len(FUNCTIONS)} functions and {len(ROBOTS)} "
        "robots:",
        "",
        "| | mean | range | goal |",
        "| --- | --- | --- | --- |",
    )
    for contender, reference, goal in RATIOS:
        ratios = [
            shortest[robot, name, contender] / shortest[robot, name, reference]
            for robot, name in product(ROBOTS, FUNCTIONS)
            if (robot, name, reference) in shortest
        ]
        if ratios:
            mean = np.exp(np.mean(np.log(ratios)))
            extent = f"{min(ratios):.2f} to {max(ratios):.2f}"
            yield f"| {contender} / {reference} | {mean:.2f} | {extent} | {goal} |"
    yield ""


def main():
    """Print the tables; write them to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "web")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    options = parser.parse_args()
    folder = options.build.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    pairs = {robot: load_pair(robot) for robot in ROBOTS}
    libraries = export_contenders(folder, pairs)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=SWITCHES)
        lines = [
            *introduction(browser, libraries),
            *module_lines(folder, measure_starts(browser, folder)),
        ]
        shortest, memory = measure_calls(browser, folder, libraries, pairs, options.rounds)
        browser.close()
    lines += memory_lines(memory)
    for robot in ROBOTS:
        lines += robot_lines(robot, shortest)
    text = "\n".join([*lines, *ratio_lines(shortest)])
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
