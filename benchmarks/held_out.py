# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the torque errors of identified models with the errors of plain least squares.

    python benchmarks/held_out.py FOLDER [FOLDER ...]

Each FOLDER contains a robot, robot.urdf, a recording of any kind, and drives.yaml if its efforts
are not torques. The recording is cut after 40, 50 and 60 % of its duration, and each side is
predicted from the other. Both models use the same samples and cutoff. For each joint, the error of
the identified model is printed relative to the error of plain least squares (bodies, viscous and
Coulomb friction and offsets): the ratio of the means of six divisions, then the ratio of each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import dyn_ros
from dyn_ros.identification.recorded_samples import read_recordings, read_samples
from dyn_ros.recordings.formats.sources import find_recordings
from dyn_ros.recordings.options import ReadOptions

CUTS = (0.4, 0.5, 0.6)  # relative to the duration
MAX_RATIO = 1.1  # relative to plain least squares; joints above it are counted


def measure(folder: Path) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the joints, and errors of both models in each division, (6, nv, 2)."""
    model = dyn_ros.Model.from_urdf_file(folder / "robot.urdf")
    if (folder / "drives.yaml").is_file():
        dyn_ros.load_drives(model, folder / "drives.yaml")
    [path] = find_recordings([folder])
    robot, samples = read_recordings(model, [path], ReadOptions())
    errors = []
    for first, second in divisions(samples.time[0], samples.time[-1]):
        _, training = read_recordings(robot, [path], first, lock_still=False)
        test = read_samples(robot, path, second, None, cutoff=training.cutoff)
        results = dyn_ros.identify(robot, training).errors(test)
        errors.append([(joint.after, joint.least_squares) for joint in results])
    return robot.velocity_names, np.array(errors)


def divisions(start: float, end: float) -> Iterator[tuple[ReadOptions, ReadOptions]]:
    """Yield options that read the training and the test interval of each division."""
    for cut in CUTS:
        moment = start + cut * (end - start)
        sides = ReadOptions(until=moment), ReadOptions(since=moment)
        yield sides
        yield sides[::-1]


def main() -> None:
    """Print a line for each joint of each robot, and how many joints exceed the ratio."""
    folders = [Path(text) for text in sys.argv[1:]]
    if not folders:
        sys.exit(__doc__)
    means = []
    for folder in folders:
        names, errors = measure(folder)
        mean_ratio = np.divide(*errors.mean(axis=0).T)
        for name, ratio, single_ratios in zip(
            names, mean_ratio, errors[..., 0].T / errors[..., 1].T
        ):
            single_text = " ".join(f"{x:.2f}" for x in single_ratios)
            print(f"{folder.name:12} {name:20} {ratio:5.2f}   {single_text}", flush=True)
        means.extend(mean_ratio)
    print(f"{sum(x > MAX_RATIO for x in means)} of {len(means)} joints exceed {MAX_RATIO}")


if __name__ == "__main__":
    main()
