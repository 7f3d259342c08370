# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares identification with FIGAROH on the same simulated recordings, in the same run.

    python -m venv figaroh-venv
    figaroh-venv/bin/pip install figaroh==1.0.2 pin
    python benchmarks/identify.py --figaroh figaroh-venv/bin/python

The recordings are those of the tests: excitation of 20 s, 500 samples per second, encoders of 2^19
counts, 2 % noise of torques, friction and offsets. The true robots have other inertias than their
descriptions. Errors are those of predicted torques for another motion, relative to their RMS, and
without noise: the RMS over all joints, and the worst joint. FIGAROH runs in an interpreter of its
own, with weighted least squares: with its own filter and differences, at the cutoff that dyn_ros
chooses, and with the filtered motion of dyn_ros. Times are those of the identification, from the
recording to the parameters, without imports and compilation.
"""
import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np

HERE = Path(__file__).resolve().parent
ROBOTS = "ur10", "panda"
ARMATURE = True


# --- in the interpreter of FIGAROH

def figaroh_worker(folder: Path) -> None:
    """Identify from the recording in a folder; write predicted torques and times."""
    sys.path = [path for path in sys.path if Path(path or ".").resolve() != HERE]
    logging.disable(logging.CRITICAL)
    import pinocchio
    from figaroh.identification.base_identification import BaseIdentification
    from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced
    from pinocchio.robot_wrapper import RobotWrapper

    recorded = np.load(folder / "recording.npz")
    model = pinocchio.buildModelFromXML((folder / "robot.urdf").read_text())
    joints = list(range(model.nv))
    config = {"has_friction": True, "has_actuator_inertia": ARMATURE, "has_joint_offset": True,
              "is_joint_torques": True, "is_external_wrench": False, "force_torque": None,
              "act_idxq": joints, "act_idxv": joints, "active_joints": list(model.names)[1:],
              "qr_relative_tolerance": 1e-6, "robot_name": model.name,
              "filter_config": {"differentiation_method": "gradient", "filter_params": {
                  "nbutter": 4, "f_butter": float(recorded["cutoff"]), "med_fil": 5,
                  "f_sample": 500}}}

    class Identification(BaseIdentification):
        def load_param(self, config_file, setting_type="identification"):
            self.identif_config = config

        def load_trajectory_data(self, data_source=None):
            kind = self.kind
            return {"timestamps": recorded[f"{kind}time"], "positions": recorded[f"{kind}q"],
                    "velocities": recorded["filtered_v"] if kind else None,
                    "accelerations": recorded["filtered_a"] if kind else None,
                    "torques": recorded[f"{kind}tau"]}

        def filter_kinematics_data(self, filter_config=None):
            if not self.kind:
                return super().filter_kinematics_data(filter_config)
            self.processed_data = {name: self.raw_data[name] for name in (
                "timestamps", "positions", "velocities", "accelerations")}
            return None

    found = {}
    for kind in ("", "filtered_"):
        Identification.kind = kind
        start = time.perf_counter()
        one = Identification(RobotWrapper(model))
        one.initialize()
        one.solve(decimate=True, decimation_factor=10, plotting=False, wls=True)
        seconds = time.perf_counter() - start
        W = build_regressor_basic(one.robot, recorded["test_q"], recorded["test_v"],
                                  recorded["test_a"], config)
        W = build_regressor_reduced(W, one._idx_eliminated)[:, one._base_indices]
        tau = (W @ one.phi_base).reshape(model.nv, -1).T
        np.save(folder / f"{kind}tau.npy", tau)
        found[kind] = {"seconds": seconds, "parameters": len(one.phi_base)}
    (folder / "found.json").write_text(json.dumps(found))


# --- in this interpreter

def identified_torques(model, samples, q, v, a) -> tuple[np.ndarray, int]:
    """Predicted torques of another motion, and the number of base parameters."""
    import dyn_ros
    found = dyn_ros.identify(model, samples)
    own = found.identified
    tau = (dyn_ros.rnea(own, dyn_ros.Data(own), q, v, a) + dyn_ros.joint_friction(own, v)
           + found.offset)
    return tau, len(found.base.names)


def description(robot: str) -> str:
    """URDF of a robot of the tests, with its gripper fixed."""
    import peer
    if robot == "ur10":
        return (peer.EXAMPLE_ROBOTS / "ur_description/urdf/ur10_robot.urdf").read_text()
    return peer.urdf(robot).replace('type="prismatic"', 'type="fixed"').replace(
        '<mimic joint="panda_finger_joint1"/>', "").replace(
        '<mimic joint="panda_finger_joint1" />', "")


def compare(robot: str, python: str | None, folder: Path) -> None:
    """Print the errors and times of one robot."""
    from identification.recordings import offsets, perturbed, record

    import dyn_ros
    from dyn_ros.identification import excite

    xml = description(robot)
    model = dyn_ros.Model.from_urdf(xml)
    true = perturbed(model, seed=1)
    recording = record(true, excite(model, seed=0, starts=1), offset=offsets(true))
    test = record(true, excite(model, seed=9, starts=1, harmonics=4), offset=offsets(true), seed=5)
    q, v, a = test.exact_q, test.exact_v, test.exact_a
    print(f"\n{robot}: {model.nv} joints, {len(recording.time)} samples")
    before = (dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + dyn_ros.joint_friction(model, v))
    show("description", before, test.exact_tau)
    samples = recording.samples(model)
    if hasattr(dyn_ros, "identify"):
        identified_torques(model, samples, q, v, a)         # compiles
        start = time.perf_counter()
        samples = recording.samples(model)
        tau, count = identified_torques(model, samples, q, v, a)
        show("dyn_ros", tau, test.exact_tau, time.perf_counter() - start, count)
    if python is None:
        return
    cutoff = float(samples.filter.split("cutoff ")[1].split()[0])
    (folder / "robot.urdf").write_text(xml)
    np.savez(folder / "recording.npz", time=recording.time, q=recording.q, tau=recording.tau,
             cutoff=cutoff, filtered_time=samples.time, filtered_q=samples.q,
             filtered_v=samples.v, filtered_a=samples.a, filtered_tau=samples.tau,
             test_q=q, test_v=v, test_a=a)
    worker = subprocess.run([python, __file__, "--worker", str(folder)], env={}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if worker.returncode:
        raise SystemExit(f"FIGAROH failed:\n{worker.stdout}")
    found = json.loads((folder / "found.json").read_text())
    for kind, name in (("", "FIGAROH, its filter"), ("filtered_", "FIGAROH, filter of dyn_ros")):
        one = SimpleNamespace(**found[kind])
        show(name, np.load(folder / f"{kind}tau.npy"), test.exact_tau, one.seconds, one.parameters)


def show(name: str, tau: np.ndarray, exact: np.ndarray, seconds: float | None = None,
         count: int | None = None) -> None:
    """Print a line of the table."""
    error = np.sqrt(np.mean((tau - exact) ** 2, axis=0) / np.mean(exact ** 2, axis=0))
    rest = "" if seconds is None else f"{seconds:10.2f} s {count:5d} base parameters"
    total = np.sqrt(np.mean(error ** 2))
    print(f"  {name:28s} error {100 * total:8.3f} %, worst joint {100 * error.max():8.3f} %{rest}")


def main() -> None:
    """Run the comparison of all robots."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figaroh", metavar="PYTHON", help="interpreter that has FIGAROH")
    parser.add_argument("--worker", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("robots", nargs="*", metavar="ROBOT", help=f"of {', '.join(ROBOTS)}")
    arguments = parser.parse_args()
    if arguments.worker:
        figaroh_worker(arguments.worker)
        return
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "test")]
    for robot in arguments.robots or ROBOTS:
        with tempfile.TemporaryDirectory() as folder:
            compare(robot, arguments.figaroh, Path(folder))


if __name__ == "__main__":
    main()
