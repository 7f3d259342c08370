# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare second-order derivatives of inverse dynamics with Pinocchio in C++, in one run.

Pinocchio has no Python binding for them, so second_order.cpp is compiled with its headers and those
of Eigen, which pip installs. Single states: dyn_ros is called from Python, Pinocchio in a C++ loop
that does not clear its tensors between calls. Batches: microseconds per state.

    pip install cmeel-eigen
    python benchmarks/second_order.py [--eigen FOLDER_OF_EIGEN] [--batch STATES]
"""

import argparse
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pinocchio

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "test"))
from vereshchagin import fastest  # noqa: E402

import dyn_ros  # noqa: E402
import peer  # noqa: E402

PREFIX = next(p for p in Path(pinocchio.__file__).parents if p.name == "cmeel.prefix")
COMPILER_FLAGS = (
    "-std=c++17",
    "-w",
    "-O3",
    "-march=native",
    "-DNDEBUG",
    "-DEIGEN_MAX_ALIGN_BYTES=16",
    "-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS",
    "-DBOOST_MPL_LIMIT_LIST_SIZE=30",
    "-DBOOST_MPL_LIMIT_VECTOR_SIZE=30",
    "-DBOOST_FUSION_INVOKE_MAX_ARITY=10",
)
ROBOTS = (("ur5", None), ("panda", None), ("solo12", "floating"), ("talos_reduced", "floating"))


def compile_program(eigen, folder):
    program = folder / "second_order"
    subprocess.run(
        [
            "g++",
            *COMPILER_FLAGS,
            f"-I{PREFIX / 'include'}",
            f"-I{eigen}",
            str(HERE / "second_order.cpp"),
            "-o",
            str(program),
            f"-L{PREFIX / 'lib'}",
            f"-Wl,-rpath,{PREFIX / 'lib'}",
            "-lpinocchio_default",
            "-lboost_serialization",
        ],
        check=True,
    )
    return program


def run_pinocchio(program, pair, state, folder):
    """Return the time of a call [us] and the tensors."""
    q, v, a = state
    model_path, state_path, result_path = (folder / name for name in ("model", "state", "result"))
    pair.pin.saveToText(str(model_path))
    state_path.write_text(" ".join(map(repr, map(float, [*pair.to_pin_q(q), *v, *a]))))
    output = subprocess.run(
        [program, model_path, state_path, result_path], check=True, capture_output=True, text=True
    ).stdout
    n = pair.model.nv
    tensors = np.fromfile(result_path).reshape(4, n, n, n)
    return float(output), [tensor.transpose(2, 1, 0) for tensor in tensors]  # column-major


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--eigen", type=Path, default=PREFIX / "include" / "eigen3")
    parser.add_argument("--batch", type=int, default=200)
    options = parser.parse_args()
    if not (options.eigen / "Eigen").is_dir():
        parser.error(f"no Eigen in {options.eigen}; pip install cmeel-eigen, or specify --eigen")
    names = ["rnea_second_order_derivatives", "aba_second_order_derivatives"]
    rnea, aba = (getattr(dyn_ros, name) for name in names)
    dyn_ros.precompile(names)
    print(
        "| | nv | Pinocchio, C++ [us] | dyn_ros [us] | ratio | a batch | error "
        "| aba_second_order [us] |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        program = compile_program(options.eigen, Path(name))
        for robot, root_joint in ROBOTS:
            pair = peer.new_pair(robot, root_joint, "ignore")
            model, data = pair.model, pair.data
            state, states = pair.state()[:3], pair.states(options.batch)[:3]
            ours = fastest(partial(rnea, model, data, *state), 50, 60)
            theirs, tensors = run_pinocchio(program, pair, state, Path(name))
            ours = min(ours, fastest(partial(rnea, model, data, *state), 50, 60))
            error = max(
                np.abs(x - y).max() / np.abs(y).max()
                for x, y in zip(rnea(model, data, *state), tensors)
            )
            batch = fastest(partial(rnea, model, data, *states), 1, 5) / options.batch
            forward = fastest(partial(aba, model, data, *state), 20, 10)
            print(
                f"| {robot}, {root_joint or 'fixed'} | {model.nv} | {theirs:.1f} | {ours:.1f} "
                f"| {ours / theirs:.2f} | {batch:.1f} | {error:.0e} | {forward:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
