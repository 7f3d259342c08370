# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares identification with FIGAROH on the same simulated recordings, in the same run.

    python -m venv figaroh-venv
    figaroh-venv/bin/pip install figaroh==1.0.2 pin
    python benchmarks/identify.py --figaroh figaroh-venv/bin/python

Recordings are simulated as in the tests: excitation of 20 s (--seconds), 500 samples per second,
encoders of 2^19 counts, 2 % noise of torques, friction and offsets. The true robots have other
inertias than their descriptions. Errors are those of predicted torques for another motion, relative
to their RMS, and without noise: the RMS over all joints, and the worst joint. FIGAROH runs in an
interpreter of its own, with weighted least squares and its default settings, except for the cutoff
of its filter, which is that of dyn_ros: with its own filter and differences, and with the filtered
motion of dyn_ros. Both use all samples. Times are those of the identification, from the recording
to the parameters, without imports and compilation.
"""

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

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
    config = {
        "has_friction": True,
        "has_actuator_inertia": ARMATURE,
        "has_joint_offset": True,
        "is_joint_torques": True,
        "is_external_wrench": False,
        "force_torque": None,
        "act_idxq": joints,
        "act_idxv": joints,
        "active_joints": list(model.names)[1:],
        "qr_relative_tolerance": 1e-6,
        "robot_name": model.name,
        "filter_config": {
            "differentiation_method": "gradient",
            "filter_params": {
                "nbutter": 4,
                "f_butter": float(recorded["cutoff"]),
                "med_fil": 5,
                "f_sample": 500,
            },
        },
    }

    class Identification(BaseIdentification):
        def load_param(self, config_file, setting_type="identification"):
            self.identif_config = config

        def load_trajectory_data(self, data_source=None):
            kind = self.kind
            return {
                "timestamps": recorded[f"{kind}time"],
                "positions": recorded[f"{kind}q"],
                "velocities": recorded["filtered_v"] if kind else None,
                "accelerations": recorded["filtered_a"] if kind else None,
                "torques": recorded[f"{kind}tau"],
            }

        def filter_kinematics_data(self, filter_config=None):
            if not self.kind:
                return super().filter_kinematics_data(filter_config)
            self.processed_data = {
                name: self.raw_data[name]
                for name in ("timestamps", "positions", "velocities", "accelerations")
            }
            return None

    results = {}
    for kind in ("", "filtered_"):
        Identification.kind = kind
        start = time.perf_counter()
        identification = Identification(RobotWrapper(model))
        identification.initialize()
        identification.solve(decimate=True, decimation_factor=10, plotting=False, wls=True)
        seconds = time.perf_counter() - start
        W = build_regressor_basic(
            identification.robot, recorded["test_q"], recorded["test_v"], recorded["test_a"], config
        )
        W = build_regressor_reduced(W, identification._idx_eliminated)
        W = W[:, identification._base_indices]
        tau = (W @ identification.phi_base).reshape(model.nv, -1).T
        np.save(folder / f"{kind}tau.npy", tau)
        results[kind] = {"seconds": seconds, "count": len(identification.phi_base)}
    (folder / "results.json").write_text(json.dumps(results))


# --- in this interpreter


def description(robot: str) -> str:
    """Return the URDF of a robot of the tests, with its gripper fixed."""
    import peer

    if robot == "ur10":
        return (peer.EXAMPLE_ROBOTS / "ur_description/urdf/ur10_robot.urdf").read_text()
    return (
        peer.urdf(robot)
        .replace('type="prismatic"', 'type="fixed"')
        .replace('<mimic joint="panda_finger_joint1"/>', "")
        .replace('<mimic joint="panda_finger_joint1" />', "")
    )


class Score(NamedTuple):
    """Relative errors of predicted torques (nv,), seconds and number of base parameters."""

    error: np.ndarray
    seconds: float = np.nan
    count: int = 0


def compare(robot: str, python: str | None, recordings: int, seconds: float) -> None:
    """Print the errors and times of one robot."""
    from identification.recordings import offsets, perturbed, record

    import dyn_ros

    xml = description(robot)
    model = dyn_ros.Model.from_urdf(xml)
    true = perturbed(model, seed=1)
    motion = dyn_ros.excite(model, duration=seconds, seed=0)
    test = record(true, dyn_ros.excite(model, seed=9, starts=1, harmonics=4), offset=offsets(true))
    scores: dict[str, list[Score]] = {}
    for seed in range(recordings):
        recording = record(true, motion, offset=offsets(true), seed=seed)
        for name, score in scores_of_recording(model, xml, recording, test, python):
            scores.setdefault(name, []).append(score)
    print(f"\n{robot}: {model.nv} joints, {len(recording.time)} samples, {recordings} recordings")
    for name, recording_scores in scores.items():
        show(name, recording_scores)


def scores_of_recording(
    model, xml: str, recording, test, python: str | None
) -> Iterator[tuple[str, Score]]:
    """Yield the name and score of each method on one recording."""
    import dyn_ros

    q, v, a = test.exact_q, test.exact_v, test.exact_a
    exact = test.exact_tau

    def error(tau):
        return np.sqrt(np.mean((tau - exact) ** 2, axis=0) / np.mean(exact**2, axis=0))

    before = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + dyn_ros.joint_friction(model, v)
    yield "description", Score(error(before))
    dyn_ros.identify(model, recording.samples(model))  # compiles
    start = time.perf_counter()
    samples = recording.samples(model)
    result = dyn_ros.identify(model, samples)
    seconds = time.perf_counter() - start
    yield "dyn_ros", Score(error(predict_torque(result, q, v, a)), seconds, len(result.base.names))
    if python is None:
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cutoff = float(samples.filter.split("cutoff ")[1].split()[0])
        (folder / "robot.urdf").write_text(xml)
        np.savez(
            folder / "recording.npz",
            time=recording.time,
            q=recording.q,
            tau=recording.tau,
            cutoff=cutoff,
            filtered_time=samples.time,
            filtered_q=samples.q,
            filtered_v=samples.v,
            filtered_a=samples.a,
            filtered_tau=samples.tau,
            test_q=q,
            test_v=v,
            test_a=a,
        )
        run_worker(python, folder)
        for kind, text in (("", "FIGAROH, its filter"), ("filtered_", "FIGAROH, our filter")):
            result = json.loads((folder / "results.json").read_text())[kind]
            yield text, Score(error(np.load(folder / f"{kind}tau.npy")), **result)


def predict_torque(result, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Return the torques of an identified robot."""
    import dyn_ros

    model = result.identified
    return (
        dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a)
        + dyn_ros.joint_friction(model, v)
        + result.offset
    )


def run_worker(python: str, folder: Path) -> None:
    """Run FIGAROH in its interpreter."""
    worker = subprocess.run(
        [python, __file__, "--worker", str(folder)],
        env={},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if worker.returncode:
        raise SystemExit(f"FIGAROH failed:\n{worker.stdout}")


def show(name: str, scores: list[Score]) -> None:
    """Print a line of the table: RMS over all recordings."""
    joints = np.sqrt(np.mean([score.error**2 for score in scores], axis=0))
    details = (
        f"{np.median([score.seconds for score in scores]):10.2f} s"
        f"{scores[0].count:5d} base parameters"
        if scores[0].count
        else ""
    )
    print(
        f"  {name:24s} error {100 * np.sqrt(np.mean(joints**2)):8.3f} %, "
        f"worst joint {100 * joints.max():8.3f} %{details}"
    )


def main() -> None:
    """Run the comparison of all robots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--figaroh", metavar="PYTHON", help="interpreter that has FIGAROH")
    parser.add_argument("--recordings", type=int, default=4, help="of each robot")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each (default: 20)")
    parser.add_argument("--worker", metavar="FOLDER", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("robots", nargs="*", metavar="ROBOT", help=f"of {', '.join(ROBOTS)}")
    arguments = parser.parse_args()
    if arguments.worker:
        figaroh_worker(arguments.worker)
        return
    sys.path[:0] = [str(HERE.parent), str(HERE.parent / "test")]
    for robot in arguments.robots or ROBOTS:
        compare(robot, arguments.figaroh, arguments.recordings, arguments.seconds)


if __name__ == "__main__":
    main()
