# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare dyn_ros.torch and dyn_ros.jax with libraries that torch and JAX differentiate.

    make learners ARGS=test/learners/test_imports.py    # installs frax and adam
    .venv-learners/bin/python benchmarks/learners.py [--write docs/learners.md]

A call computes inverse or forward dynamics of B states, the sum of the squares of the result, and
its gradient with respect to q, v and a or tau, in 64 bits, on one processor. adam's inverse
dynamics has no accelerations, so that it computes less than `rnea` here, and its forward dynamics
always has a floating base. The results and their gradients must agree with those of dyn_ros.
A time is that of the fastest call in about a second.

Libraries that are not installed are omitted. With --write, the table on the page is replaced.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

os.environ["JAX_ENABLE_X64"] = "1"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = (  # as frax recommends
    "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    " --xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
)

import numpy as np

import dyn_ros

EXAMPLE_ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
BATCHES = (1, 64, 4096)
FUNCTIONS = {"rnea": "inverse dynamics", "aba": "forward dynamics"}
MAX_RELATIVE_ERROR = 1e-8
CHECKED = 8  # states
SECONDS = 1.0
PEERS = {"adam": "dyn_ros.torch", "frax": "dyn_ros.jax"}
LIBRARIES = {  # of a column: its package, and the package of the library that it runs in
    "dyn_ros.torch": ("torch", "torch"),
    "adam": ("adam-robotics", "torch"),
    "dyn_ros.jax": ("jax", "jax"),
    "frax": ("frax", "jax"),
}

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]
Gradient = Callable[[], object]


def first(states: Arrays, count: int) -> Arrays:
    """Return the first states; a single one without a leading axis."""
    q, v, x = states
    return (q[0], v[0], x[0]) if count == 1 else (q[:count], v[:count], x[:count])


@dataclass
class Robot:
    """A robot: its model, its description, the names of its joints, and random states."""

    name: str
    model: dyn_ros.Model
    file: Path
    states: Arrays

    @property
    def joints(self) -> list[str]:
        return [name for name in self.model.joint_names if name != "root_joint"]

    @property
    def is_floating(self) -> bool:
        return self.model.nq != self.model.nv


def load(name: str, file: Path, root_joint: str | None) -> Robot:
    """Return a robot with random states."""
    model = dyn_ros.Model.from_urdf_file(file, root_joint)
    rng = np.random.default_rng(0)
    q = np.array([model.random_configuration(rng) for _ in range(max(BATCHES))])
    v, x = rng.normal(size=(2, len(q), model.nv))
    return Robot(name, model, file, (q, v, x))


def robots() -> Iterator[Robot]:
    """The arm of the package, and a quadruped with a floating base."""
    package = Path(dyn_ros.__file__).parent
    yield load("arm7", package / "robots" / "arm7.urdf", None)
    found = importlib.metadata.distribution("example-robot-data").locate_file(EXAMPLE_ROBOTS)
    file = Path(str(found)) / "solo_description" / "robots" / "solo12.urdf"
    yield load("solo12", file, "floating")


# ---------------------------------------------------------------------------- torch


def torch_step(f: Callable, arrays: Arrays) -> Gradient:
    """Return a function that computes the loss and the gradient of a function of tensors."""
    import torch

    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]

    def step() -> None:
        f(*tensors).pow(2).sum().backward()
        for x in tensors:
            x.grad = None

    return step


def step_of_dyn_ros_torch(robot: Robot, function: str, count: int) -> Gradient:
    """Return what is timed of dyn_ros.torch."""
    import dyn_ros.torch as dt

    return torch_step(partial(getattr(dt, function), robot.model), first(robot.states, count))


def adam_function(robot: Robot, function: str) -> Callable:
    """Return a function of adam, of (q, v, x) of dyn_ros in tensors with one leading axis."""
    import torch
    from adam import Representations
    from adam.pytorch import KinDynComputationsBatch

    gravity = torch.tensor([*robot.model.gravity, 0.0, 0.0, 0.0])
    adam = KinDynComputationsBatch(
        str(robot.file),
        robot.joints,
        dtype=torch.float64,
        device=torch.device("cpu"),
        gravity=gravity,
    )
    adam.set_frame_velocity_representation(Representations.BODY_FIXED_REPRESENTATION)
    if robot.is_floating:
        q, _, _ = robot.states
        R = torch.tensor(rotations(q[:, 3:7]))
        H = torch.eye(4, dtype=torch.float64).repeat(len(q), 1, 1)
        H[:, :3, :3], H[:, :3, 3] = R, torch.tensor(q[:, :3])
    else:
        H = torch.eye(4, dtype=torch.float64).repeat(max(BATCHES), 1, 1)
    base = 7 if robot.is_floating else 0

    def call(q: object, v: object, x: object) -> object:
        count = len(q)
        twist = v[:, : base - 1] if base else torch.zeros(count, 6, dtype=torch.float64)
        joint_velocities = v[:, max(base - 1, 0) :]
        if function == "rnea":
            return adam.bias_force(H[:count], q[:, base:], twist, joint_velocities)
        torques = x[:, max(base - 1, 0) :]
        return adam.aba(H[:count], q[:, base:], twist, joint_velocities, torques)

    return call


def step_of_adam(robot: Robot, function: str, count: int) -> Gradient:
    """Return what is timed of adam, which has a leading axis always."""
    q, v, x = (array[:count] for array in robot.states)
    call = adam_function(robot, function)
    if function == "rnea":
        return torch_step(lambda q, v: call(q, v, None), (q, v))
    return torch_step(call, (q, v, x))


# ---------------------------------------------------------------------------- JAX


def jax_step(f: Callable, arrays: Arrays) -> Gradient:
    """Return a function that computes the loss and the gradient of a function of arrays."""
    import jax
    import jax.numpy as jnp

    inputs = [jnp.asarray(array) for array in arrays]
    compiled = jax.jit(jax.value_and_grad(lambda *x: (f(*x) ** 2).sum(), (0, 1, 2)))
    return lambda: jax.block_until_ready(compiled(*inputs))[1]


def step_of_dyn_ros_jax(robot: Robot, function: str, count: int) -> Gradient:
    """Return what is timed of dyn_ros.jax."""
    import dyn_ros.jax as dj

    return jax_step(partial(getattr(dj, function), robot.model), first(robot.states, count))


def frax_function(robot: Robot, function: str) -> Callable:
    """Return a function of frax, of one state in its coordinates."""
    import frax
    import jax.numpy as jnp

    frax_robot = frax.Robot(
        str(robot.file),
        joint_ordering=robot.joints,
        floating_base="quaternion" if robot.is_floating else None,
    )
    names = [name for name in frax_robot.joint_names if name in robot.joints]
    if names != robot.joints:
        raise RuntimeError(f"frax has the joints {names}, dyn_ros {robot.joints}")
    if function == "rnea":
        gravity = jnp.array([*-robot.model.gravity, 0.0, 0.0, 0.0])
        return lambda q, v, a: frax_robot.rnea(q, v, a, gravity, None)
    return lambda q, v, tau: frax_robot.forward_dynamics(q, v, tau, None)


def states_of_frax(robot: Robot, function: str) -> Arrays:
    """Return states in the coordinates of frax: quaternions w, x, y, z; the base in the world."""
    q, v, x = (array.copy() for array in robot.states)
    if robot.is_floating:
        R = rotations(q[:, 3:7])
        if function == "rnea":
            x[:, :3] += np.cross(v[:, 3:6], v[:, :3])
        q[:, 3:7] = q[:, [6, 3, 4, 5]]
        for array in (v, x):
            array[:, :3] = np.einsum("nij,nj->ni", R, array[:, :3])
    return (q, v, x)


def step_of_frax(robot: Robot, function: str, count: int) -> Gradient:
    """Return what is timed of frax, which has a leading axis by vmap."""
    import jax

    call = frax_function(robot, function)
    arrays = first(states_of_frax(robot, function), count)
    return jax_step(call if count == 1 else jax.vmap(call), arrays)


STEPS = {
    "dyn_ros.torch": step_of_dyn_ros_torch,
    "adam": step_of_adam,
    "dyn_ros.jax": step_of_dyn_ros_jax,
    "frax": step_of_frax,
}


# ---------------------------------------------------------------------------- agreement


def rotations(quaternions: np.ndarray) -> np.ndarray:
    """Return the matrices of unit quaternions x, y, z, w."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_quat(quaternions).as_matrix()


def expected(robot: Robot, column: str, function: str) -> list[np.ndarray]:
    """Return results of a few states for the joints without the base, and gradients for them.

    Everybody has the same coordinates of these, and takes the base's as they are. adam's inverse
    dynamics lacks accelerations, and its forward dynamics has a floating base without a force.
    """
    model, states = robot.model, [array[:CHECKED].copy() for array in robot.states]
    if column == "adam" and function == "rnea":
        states[2][:] = 0.0
    elif column == "adam":
        states[2][:, : -len(robot.joints)] = 0.0
    if column == "adam" and function == "aba" and not robot.is_floating:
        model = dyn_ros.Model.from_urdf_file(robot.file, "floating")
        base = np.tile(model.neutral()[:7], (CHECKED, 1))
        states = [
            np.hstack([rest, x])
            for rest, x in zip((base, 0 * base[:, 1:], 0 * base[:, 1:]), states)
        ]
    joints, data = slice(-len(robot.joints), None), dyn_ros.Data(model)
    result = getattr(dyn_ros, function)(model, data, *states)[:, joints].copy()
    matrices = getattr(dyn_ros, f"{function}_derivatives")(model, data, *states)
    return [
        result,
        *(2.0 * np.einsum("ni,nij->nj", result, D[:, joints, joints]) for D in matrices),
    ]


def found(robot: Robot, column: str, function: str) -> list[np.ndarray]:
    """Return the same by a library."""
    joints = len(robot.joints)
    arrays = [array[:CHECKED] for array in robot.states]
    if LIBRARIES[column][1] == "torch":
        import torch

        if column == "adam":
            f = adam_function(robot, function)
        else:
            import dyn_ros.torch as dt

            f = partial(getattr(dt, function), robot.model)
        inputs = [torch.tensor(array, requires_grad=True) for array in arrays]
        result = f(*inputs)[:, -joints:]
        gradients = torch.autograd.grad(result.pow(2).sum(), inputs, allow_unused=True)
        found = [x if x is None else x.detach().numpy() for x in (result, *gradients)]
    else:
        import jax

        if column == "frax":
            f, arrays = jax.vmap(frax_function(robot, function)), states_of_frax(robot, function)
        else:
            import dyn_ros.jax as dj

            f = partial(getattr(dj, function), robot.model)
        result, pull = jax.vjp(lambda *x: f(*x)[:, -joints:], *(x[:CHECKED] for x in arrays))
        found = [result, *pull(2.0 * result)]
    return [x if x is None else np.asarray(x)[:, -joints:] for x in found]


def check(robot: Robot, column: str, function: str) -> float:
    """Return the largest relative error of a library; raise a RuntimeError if it is large."""
    pairs = zip(found(robot, column, function), expected(robot, column, function), strict=True)
    error = max(abs(x - y).max() / abs(y).max() for x, y in pairs if x is not None)
    if not error < MAX_RELATIVE_ERROR:
        raise RuntimeError(f"{column}: {function} of {robot.name} has an error of {error:.1e}")
    return error


# ---------------------------------------------------------------------------- table


def fastest(step: Gradient) -> float:
    """Return the time of the fastest call [s]."""
    step()
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return min(times)


def three_digits(number: float) -> str:
    """Return a number with three digits, or all those before the point."""
    return f"{number:.0f}" if number >= 100.0 else f"{number:.3g}"


def installed() -> list[str]:
    """Return the columns whose libraries are installed."""
    return [
        column
        for column, packages in LIBRARIES.items()
        if all(find_spec(name.split("-")[0]) for name in packages)
    ]


def report() -> Iterator[str]:
    """Yield the lines of the section."""
    columns = installed()
    if find_spec("torch"):
        import torch

        torch.set_num_threads(1)
    packages = dict.fromkeys(name for column in columns for name in reversed(LIBRARIES[column]))
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    every = list(robots())
    error = max(check(*each) for each in product(every, columns, FUNCTIONS))
    yield (
        f"dyn_ros {dyn_ros.__version__}, {versions}; {platform.machine()}, "
        f"Python {platform.python_version()}. The results and gradients agree to {error:.0e}. "
        "Times are in µs for each state."
    )
    yield ""
    heads = [head for column in columns for head in (column, "ratio")[: 1 + (column in PEERS)]]
    yield f"| | B | {' | '.join(heads)} |"
    yield "| --- |" + " --- |" * (1 + len(heads))
    for robot, (function, title) in product(every, FUNCTIONS.items()):
        for count in BATCHES:
            cells, times = [], {}
            for column in columns:
                times[column] = 1e6 * fastest(STEPS[column](robot, function, count)) / count
                cells.append(three_digits(times[column]))
                if own := times.get(PEERS.get(column, "")):
                    cells.append(f"{times[column] / own:.1f}")
            yield f"| {robot.name}, {title} | {count} | {' | '.join(cells)} |"


def main() -> None:
    """Print the section; write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the table of this page")
    path = parser.parse_args().write
    warnings.simplefilter("ignore")
    lines = []
    for line in report():
        print(line, flush=True)
        lines.append(line)
    if path:
        page, text = path.read_text(encoding="utf-8"), "\n".join(lines)
        path.write_text(
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
