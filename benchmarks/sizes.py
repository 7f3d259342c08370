# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare run times and memory with Pinocchio, for chains and trees of 10, 100 and 1000 joints.

    python benchmarks/sizes.py

Each engine runs in its own process. Memory is the growth of the process after the import, both
resident and address space: the model, the results of all calls and their working memory. An engine
that requires more than 8 GB of address space is reported as such. Time is that of the fastest of
several calls. The contact of ``contact_dynamics`` holds the pose of the last link.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

JOINT_COUNTS = 10, 100, 1000
PARENT_OF_LINK: dict[str, Callable[[int], int]] = {
    "chain": lambda k: k - 1,
    "tree": lambda k: (k - 1) // 2,
}
FUNCTIONS = "rnea", "crba", "aba", "rnea_derivatives", "contact_dynamics"
REPETITION_TIME = 2.0  # s, of each call
MEMORY_LIMIT = 8 << 30  # bytes, address space of each process


def urdf(count: int, shape: str) -> str:
    """Return a robot of revolute joints with alternating axes, in a chain or a tree."""
    inertial = (
        '<inertial><origin xyz="0.1 0 0.2"/><mass value="1"/><inertia ixx="0.1" ixy="0" '
        'ixz="0" iyy="0.2" iyz="0" izz="0.15"/></inertial>'
    )
    links = "".join(f'<link name="l{k}">{inertial}</link>' for k in range(count + 1))
    joints = "".join(
        f'<joint name="j{k:04}" type="continuous"><parent link="l{PARENT_OF_LINK[shape](k)}"/>'
        f'<child link="l{k}"/><origin xyz="0.05 0 0.3"/>'
        f'<axis xyz="{k % 3 == 0:d} {k % 3 == 1:d} {k % 3 == 2:d}"/></joint>'
        for k in range(1, count + 1)
    )
    return f'<robot name="{shape}{count}">{links}{joints}</robot>'


def memory() -> np.ndarray:
    """Return the resident memory and the address space of this process [MB]."""
    with open("/proc/self/statm") as file:
        size, resident = map(int, file.read().split()[:2])
    return np.array([resident, size]) * 4096 / 1e6


def fastest(call: Callable[[], object]) -> float:
    """Return the microseconds of the fastest call."""
    shortest, end = np.inf, time.perf_counter() + REPETITION_TIME
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - start)
    return shortest * 1e6


def bind_calls(functions, model, data, q, v, a) -> dict[str, Callable[[], object]]:
    """Return calls without arguments, by name."""
    arguments_of_functions = (q, v, a), (q,), (q, v, a), (q, v, a), (q, v, a)
    return {
        name: partial(function, model, data, *arguments)
        for name, function, arguments in zip(FUNCTIONS, functions, arguments_of_functions)
    }


def prepare_dyn_ros(xml: str) -> tuple[np.ndarray, dict[str, Callable[[], object]]]:
    """Return the memory before the model was created, and the calls of dyn_ros."""
    import dyn_ros

    before = memory()
    model = dyn_ros.Model.from_urdf(xml)
    data, rng = dyn_ros.Data(model), np.random.default_rng(0)
    q, v, a = rng.uniform(-1.0, 1.0, (3, model.nv))
    contacts = (dyn_ros.Contact(model.frame_names[-1]),)

    def contact_dynamics(model, data, q, v, tau):
        dyn_ros.contact_dynamics(model, data, q, v, tau, contacts)

    calls = (dyn_ros.rnea, dyn_ros.crba, dyn_ros.aba, dyn_ros.rnea_derivatives, contact_dynamics)
    return before, bind_calls(calls, model, data, q, v, a)


def prepare_pinocchio(xml: str) -> tuple[np.ndarray, dict[str, Callable[[], object]]]:
    """Return the memory before the model was created, and the calls of Pinocchio."""
    import pinocchio

    before = memory()
    model = pinocchio.buildModelFromXML(xml)
    data, rng = model.createData(), np.random.default_rng(0)
    angle = rng.uniform(-1.0, 1.0, model.nv)
    q = np.ravel(np.column_stack([np.cos(angle), np.sin(angle)]))
    v, a = rng.uniform(-1.0, 1.0, (2, model.nv))
    models = pinocchio.StdVec_RigidConstraintModel()
    models.append(
        pinocchio.RigidConstraintModel(
            pinocchio.ContactType.CONTACT_6D,
            model,
            model.njoints - 1,
            pinocchio.ReferenceFrame.LOCAL,
        )
    )
    datas = pinocchio.StdVec_RigidConstraintData()
    datas.append(models[0].createData())
    pinocchio.initConstraintDynamics(model, data, models, datas)
    settings = pinocchio.ProximalSettings()

    def contact_dynamics(model, data, q, v, tau):
        pinocchio.constraintDynamics(model, data, q, v, tau, models, datas, settings)

    calls = (
        pinocchio.rnea,
        pinocchio.crba,
        pinocchio.aba,
        pinocchio.computeRNEADerivatives,
        contact_dynamics,
    )
    return before, bind_calls(calls, model, data, q, v, a)


def measure(engine: str, count: int, shape: str) -> dict[str, float]:
    """Return times [us] and memory [MB] of one engine for one robot, in this process."""
    prepare = {"ours": prepare_dyn_ros, "theirs": prepare_pinocchio}[engine]
    before, calls = prepare(urdf(count, shape))
    for call in calls.values():
        call()  # loads machine code and touches memory
    resident, space = memory() - before
    return {
        "resident": resident,
        "space": space,
        **{name: fastest(call) for name, call in calls.items()},
    }


def measure_in_process(engine: str, count: int, shape: str) -> dict[str, float]:
    """Call ``measure`` in its own process; return infinity if the memory is not sufficient."""
    process = subprocess.run(
        [sys.executable, __file__, engine, str(count), shape], capture_output=True, text=True
    )
    if process.returncode:
        return dict.fromkeys((*FUNCTIONS, "resident", "space"), np.inf)
    return json.loads(process.stdout)


def table_lines() -> Iterator[str]:
    """Yield the lines of a table: dyn_ros/Pinocchio in each column."""
    yield "| robot | " + " | ".join(f"`{name}`" for name in FUNCTIONS) + " | memory [MB] |"
    yield "| --- |" + " --- |" * (len(FUNCTIONS) + 1)
    for shape in PARENT_OF_LINK:
        for count in JOINT_COUNTS:
            ours, theirs = (
                measure_in_process(engine, count, shape) for engine in ("ours", "theirs")
            )
            times = " | ".join(f"{ours[name]:.1f}/{theirs[name]:.1f}" for name in FUNCTIONS)
            memory_cell = f"{ours['resident']:.0f}/{theirs['resident']:.0f}"
            row = f"| {shape}, {count} | {times} | {memory_cell} |"
            yield row.replace("inf", "-")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2]), sys.argv[3])))
    else:
        for line in table_lines():
            print(line, flush=True)
