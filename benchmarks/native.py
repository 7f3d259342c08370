# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare functions called from C and C++ with Pinocchio in C++ and C code by CasADi, in one run.

    python benchmarks/native.py [--build FOLDER] [--rounds 3000] [--write docs/native.md]

Contenders take turns, so that changes of the processor's frequency affect all of them. In FOLDER,
pip installs CasADi and the headers of Eigen into an environment of their own, once; Pinocchio comes
from the wheel ``pin``. gcc and g++ are required. The page also says how long Python takes to start,
with a library of machine code that is built first, and with Numba.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

import numpy as np
import pinocchio

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test"))

from node_latency import time_to_active  # noqa: E402

import dyn_ros  # noqa: E402
import peer  # noqa: E402
from dyn_ros.engine.machine_code.targets import best_target  # noqa: E402
from dyn_ros.export import c_library  # noqa: E402
from dyn_ros.export.model_file import write_model  # noqa: E402
from dyn_ros.export.robot_functions import (  # noqa: E402
    NotTraceable,
    parameters_struct,
    robot_parameters,
    specialize_function,
)

PREFIX = next(p for p in Path(pinocchio.__file__).parents if p.name == "cmeel.prefix")
COMPILER_FLAGS = (
    "-std=c++17",
    "-w",
    "-O3",
    "-march=native",
    "-DNDEBUG",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=10",
)
STARTUP_PROGRAM = """
import json, time
from pathlib import Path
import numpy as np, dyn_ros
model = dyn_ros.Model.from_urdf_file(Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf")
data, (q, v, a) = dyn_ros.Data(model), np.ones((3, model.nv))
dyn_ros.rnea(model, data, q, v, a), dyn_ros.aba(model, data, q, v, a), dyn_ros.crba(model, data, q)
(peak,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps([time.process_time(), int(peak.split()[1]) / 1000]))
"""
ROBOTS = ("panda", "talos_reduced")  # on a fixed base, mimic joints are free
FUNCTIONS = ("rnea", "aba", "crba", "rnea_derivatives")
STATES, COPIES = 200, 5


def create_environment(folder):
    """Return the Python of an environment with CasADi, and the folder of Eigen's headers."""
    python = folder / "environment" / "bin" / "python"
    if not python.exists():
        venv.create(folder / "environment", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "casadi", "cmeel-eigen"], check=True)
    (eigen,) = (folder / "environment").glob("lib/*/site-packages/cmeel.prefix/include/eigen3")
    return python, eigen


def compile_pinocchio(eigen, folder):
    """Compile Pinocchio's functions unless they are compiled, which takes minutes."""
    path, source = folder / "pinocchio.o", HERE / "native_pinocchio.cpp"
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        run_command(
            "g++",
            *COMPILER_FLAGS,
            f"-I{PREFIX / 'include'}",
            f"-I{eigen}",
            "-c",
            source,
            "-o",
            path,
        )
    return path


def write_tree(model, path):
    """Write the joints of a model with one degree of freedom each, for CasADi."""
    joints = [
        {
            "kind": joint.kind,
            "parent": joint.parent,
            "velocity": int(model.idx_v[i]),
            "placement": np.asarray(joint.placement).tolist(),
            "axis": joint.axis.tolist(),
            "mass": inertia.mass,
            "com": np.asarray(inertia.com).tolist(),
            "rotational": np.asarray(inertia.rotational).tolist(),
        }
        for i, (joint, inertia) in enumerate(zip(model.tree.joints, model.inertias))
    ]
    path.write_text(
        json.dumps(
            {
                "joints": joints,
                "gravity": model.gravity.tolist(),
                "armature": model.armature.tolist(),
            }
        )
    )


def write_robot_functions(model, folder):
    """Write the functions for a robot; return seconds and bytes by prefix, and the objects."""
    head, objects, costs = parameters_struct(model, "robot"), [], {}
    for prefix, settable in (("constant", False), ("robot", True)):
        start, size = time.perf_counter(), 0
        for name in FUNCTIONS:
            try:
                function = specialize_function(model, name, prefix, best_target(), settable)
            except NotTraceable:
                head += f"#define NO_{prefix}_{name}\n"
                continue
            objects.append(folder / f"{function.symbol}.o")
            objects[-1].write_bytes(function.content)
            head += f"{function.prototype};\n"
            size += len(function.content)
        costs[prefix] = time.perf_counter() - start, size
    head += "int casadi_rnea(const double **, double **, long long *, double *, int);\n"
    (folder / "robot.h").write_text(f'extern "C" {{\n{head}}}\n')
    return costs, objects


def run_command(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, **options)


def measure(robot, folder, rounds):
    """Return the times of all contenders, and the costs of the functions for this robot."""
    python, eigen = create_environment(folder)
    pinocchios = compile_pinocchio(eigen, folder)
    folder = folder / robot
    folder.mkdir(exist_ok=True)
    xml = peer.urdf(robot)
    model = dyn_ros.Model.from_urdf(xml, mimic="ignore")
    peer.pinocchio_model(xml).saveToText(str(folder / "pinocchio.txt"))
    write_model(model, folder / "robot.dynros")
    write_tree(model, folder / "tree.json")
    c_library.export_library(folder, FUNCTIONS, [best_target()])
    rng = np.random.default_rng(0)
    states = np.concatenate(
        [rng.uniform(-2.0, 2.0, (STATES, model.nv)), *rng.standard_normal((2, STATES, model.nv))],
        axis=1,
    )
    np.concatenate([states.ravel(), robot_parameters(model)]).tofile(folder / "states")
    costs, objects = write_robot_functions(model, folder)
    run_command(python, HERE / "native_casadi.py", "tree.json", "casadi_rnea", cwd=folder)
    run_command("gcc", "-O3", "-march=native", "-ffast-math", "-c", "casadi_rnea.c", cwd=folder)
    run_command(
        "g++",
        "-std=c++17",
        "-O2",
        f"-I{folder / 'include'}",
        f"-I{folder}",
        HERE / "native.cpp",
        pinocchios,
        *objects,
        folder / "casadi_rnea.o",
        folder / "lib" / "libdyn_ros.a",
        "-o",
        folder / "native",
        f"-L{PREFIX / 'lib'}",
        f"-Wl,-rpath,{PREFIX / 'lib'}",
        "-lboost_serialization",
    )
    return time_contenders(folder, rounds), costs


def time_contenders(folder, rounds):
    """Return the minimum, the median and the difference of each function and contender.

    Code that does not fit into the cache of instructions takes up to twice as long at some places
    in the memory of the machine, so several copies of the program run.
    """
    lines = []
    for n in range(COPIES):
        copy = shutil.copy(folder / "native", folder / f"native{n}")
        output = run_command(
            copy,
            folder / "pinocchio.txt",
            folder / "robot.dynros",
            folder / "states",
            rounds // COPIES,
            stdout=subprocess.PIPE,
        ).stdout
        lines.append([line.split() for line in output.splitlines()])
    return [
        (
            *copies[0][:2],
            min(float(line[2]) for line in copies),
            float(np.median([float(line[3]) for line in copies])),
            copies[0][4],
        )
        for copies in zip(*lines)
    ]


def introduction():
    """Yield the first lines of the page."""
    gcc = run_command("gcc", "-dumpfullversion", stdout=subprocess.PIPE).stdout.strip()
    yield from f"""\
# Calls from C++

`python benchmarks/native.py --write docs/native.md` writes this page. Each cell shows the shortest
time of a call from C++ and, in parentheses, the median, in nanoseconds.

- **Pinocchio** {pinocchio.__version__} is compiled by g++ {gcc} with `-O3 -march=native -DNDEBUG`.
- **CasADi** generates C code of `rnea`, compiled with `-O3 -march=native -ffast-math`.
- **generic** is the library that `dyn_ros export` writes for {best_target()}.
- **constant** and **settable** are functions that `dyn_ros export --robot` writes. Inertias,
  gravity and armature are constants in constant functions, and arguments of settable functions.
  Large functions are not generated, because the generic ones are faster.

""".splitlines()


def startup_lines():
    """Yield lines about the time to start Python with three functions, and a node."""
    library = HERE.parent / "build" / "machine_code"
    run_command(sys.executable, "-m", "dyn_ros.command.build", "--what", "host", "--out", library)
    yield from (
        "## Startup",
        "",
        "Time and memory from the start of the process, if the functions are already compiled:",
        "",
        "| | Python: `rnea`, `aba`, `crba` [s of CPU time] | [MB] "
        "| node: until active [s] | [MB] |",
        "| --- | --- | --- | --- | --- |",
    )
    for name, machine_code in (("library", library / "library"), ("Numba and its cache", "none")):
        os.environ["DYN_ROS_LIBRARY"] = str(machine_code)
        runs = [
            json.loads(
                run_command(sys.executable, "-c", STARTUP_PROGRAM, stdout=subprocess.PIPE).stdout
            )
            for _ in range(6)
        ]
        seconds, memory = map(min, zip(*runs[1:]))
        active, node_memory = time_to_active(6)
        yield f"| {name} | {seconds:.2f} | {memory:.0f} | {active[2]:.2f} | {node_memory:.0f} |"
    del os.environ["DYN_ROS_LIBRARY"]
    yield ""


def table_lines(robot, lines, costs):
    """Yield the lines of the section of a robot."""
    names, functions = (list(dict.fromkeys(line[n] for line in lines)) for n in (1, 0))
    cells = {
        (function, name): f"{minimum:.0f} ({median:.0f})"
        for function, name, minimum, median, _ in lines
    }
    max_difference = max(float(line[4]) for line in lines if line[1] != "Pinocchio")
    yield f"## {robot}, fixed base"
    yield ""
    constant_time, constant_size = costs["constant"]
    settable_time, settable_size = costs["robot"]
    yield (
        f"Results differ from Pinocchio by up to {max_difference:.1e} of the largest number. "
        f"Constant functions take {constant_time:.1f} s to generate ({constant_size / 1000:.0f} "
        f"kB), settable ones {settable_time:.1f} s ({settable_size / 1000:.0f} kB)."
    )
    yield ""
    yield f"| | {' | '.join(names)} |"
    yield "| --- |" + " --- |" * len(names)
    for function in functions:
        yield f"| `{function}` | {' | '.join(cells.get((function, name), '') for name in names)} |"
    yield ""


def main():
    """Print the tables; write them to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=Path, default=HERE.parent / "build" / "native")
    parser.add_argument("--rounds", type=int, default=3000)
    parser.add_argument("--write", type=Path, help="also write the page to this file")
    options = parser.parse_args()
    folder = options.build.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lines = [*introduction(), *startup_lines()]
    for robot in ROBOTS:
        lines += table_lines(robot, *measure(robot, folder, options.rounds))
    text = "\n".join(lines)
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
