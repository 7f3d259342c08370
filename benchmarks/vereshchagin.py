# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare constrained dynamics with KDL in C++, on chains of 7 to 70 joints.

    python benchmarks/vereshchagin.py

The last link has six constraints. KDL (requires liborocos-kdl-dev and a C++ compiler) is called
from C++ in benchmarks/kdl_vereshchagin.cpp, dyn_ros from Python, including all checks; without
KDL, only dyn_ros is measured. The times are the fastest of many short rounds; a batch has 8000
states.
"""

import platform
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import dyn_ros

HERE = Path(__file__).parent
ARM = HERE.parent / "dyn_ros" / "robots" / "arm7.urdf"
JOINT_COUNTS = (7, 14, 21, 35, 70)
STATES = 8000


def chain(njoints):
    """Return a model with this number of joints: copies of the demo's arm in series."""
    text, links = [], ["base"]
    arm = dyn_ros.Model.from_urdf_file(ARM)
    text.append('<robot name="chain"><link name="base"/>')
    for i in range(njoints):
        joint = arm.tree.joints[i % arm.njoints]
        inertia = joint.inertia
        (xx, xy, xz), (_, yy, yz), (_, _, zz) = inertia.rotational
        name = f"link_{i + 1}"
        text.append(
            f'<link name="{name}"><inertial><origin xyz="{join_numbers(inertia.com)}"/>'
            f'<mass value="{inertia.mass:.17g}"/><inertia ixx="{xx:.17g}" ixy="{xy:.17g}" '
            f'ixz="{xz:.17g}" iyy="{yy:.17g}" iyz="{yz:.17g}" izz="{zz:.17g}"/></inertial></link>'
            f'<joint name="joint_{i + 1}" type="continuous"><parent link="{links[-1]}"/>'
            f'<child link="{name}"/><origin xyz="{join_numbers(joint.placement[:3, 3])}" '
            f'rpy="{join_numbers(roll_pitch_yaw(joint.placement[:3, :3]))}"/>'
            f'<axis xyz="{join_numbers(joint.axis)}"/></joint>'
        )
        links.append(name)
    return dyn_ros.Model.from_urdf("".join(text) + "</robot>")


def join_numbers(numbers):
    return " ".join(repr(float(x)) for x in numbers)


def roll_pitch_yaw(R):
    return (
        np.arctan2(R[2, 1], R[2, 2]),
        np.arctan2(-R[2, 0], np.hypot(R[0, 0], R[1, 0])),
        np.arctan2(R[1, 0], R[0, 0]),
    )


def task(model):
    """Return a state, alpha and beta: all directions of the last link, with accelerations."""
    rng = np.random.default_rng(model.nv)
    return (
        rng.uniform(-1.0, 1.0, model.nv),
        rng.uniform(-1.0, 1.0, model.nv),
        np.eye(6),
        rng.uniform(-1.0, 1.0, 6) + [0.0, 0.0, 9.81, 0.0, 0.0, 0.0],
    )


def fastest(call, repeats, rounds):
    """Return the microseconds per call."""
    shortest = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        shortest = min(shortest, (time.perf_counter() - start) / repeats * 1e6)
    return shortest


def compile_kdl(folder):
    """Return the compiled program, or None without KDL or a compiler."""
    compiler, program = shutil.which("c++"), Path(folder) / "kdl"
    if compiler is None:
        return None
    compilation = subprocess.run(
        [
            compiler,
            "-O3",
            "-I/usr/include/eigen3",
            "-o",
            program,
            HERE / "kdl_vereshchagin.cpp",
            "-lorocos-kdl",
        ],
        capture_output=True,
    )
    return program if compilation.returncode == 0 else None


def run_kdl(program, model, q, v, alpha, beta, repeats, rounds):
    """Return the time per call [us] and the joint accelerations."""
    numbers = [model.nv, len(beta), repeats, rounds]
    for joint, armature in zip(model.tree.joints, model.armature):
        c, Y = joint.inertia.com, joint.inertia.rotational
        numbers += [
            joint.kind == "prismatic",
            *joint.placement[:3, 3],
            *joint.placement[:3, :3].ravel(),
            *joint.axis,
            armature,
            joint.inertia.mass,
            *c,
            Y[0, 0],
            Y[1, 1],
            Y[2, 2],
            Y[0, 1],
            Y[0, 2],
            Y[1, 2],
        ]
    numbers += [*q, *v, *alpha.ravel(), *beta]
    output = subprocess.run(
        [program],
        input=" ".join(repr(float(x)) for x in numbers),
        text=True,
        capture_output=True,
        check=True,
    ).stdout.split()
    return float(output[0]), np.array(output[1:], float)


def table_rows(program):
    """Yield the rows of the table."""
    for joints in JOINT_COUNTS:
        model = chain(joints)
        data, tip, (q, v, alpha, beta) = dyn_ros.Data(model), f"link_{joints}", task(model)
        ddq = dyn_ros.vereshchagin(model, data, q, v, alpha, beta, tip).ddq.copy()
        repeats = 2000 * JOINT_COUNTS[0] // joints
        ours = fastest(
            partial(dyn_ros.vereshchagin, model, data, q, v, alpha, beta, tip), repeats, 40
        )
        states = np.tile(q, (STATES, 1)), np.tile(v, (STATES, 1))
        batch = (
            fastest(partial(dyn_ros.vereshchagin, model, data, *states, alpha, beta, tip), 1, 5)
            / STATES
        )
        if program is None:
            yield f"| {joints} | {ours:.2f} | {batch:.3f} | | | |"
            continue
        theirs, expected = run_kdl(program, model, q, v, alpha, beta, repeats, 40)
        error = np.abs(ddq - expected).max() / np.abs(expected).max()
        yield (
            f"| {joints} | {ours:.2f} | {batch:.3f} | {theirs:.2f} | {ours / theirs:.2f} | "
            f"{error:.0e} |"
        )


def main():
    dyn_ros.precompile(["vereshchagin"])
    print(f"{platform.machine()}, Python {platform.python_version()}; microseconds per state")
    print()
    print(
        "| joints | dyn_ros, from Python | in a batch, one thread | KDL, from C++ | ratio | "
        "largest difference of ddq |"
    )
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        program = compile_kdl(folder)
        if program is None:
            print("KDL or a C++ compiler is not installed: dyn_ros only", file=sys.stderr)
        for row in table_rows(program):
            print(row, flush=True)


if __name__ == "__main__":
    main()
