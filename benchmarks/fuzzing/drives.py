# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Damaged drives files."""

import copy

import dyn_ros

from .descriptions import ROOT
from .mutations import UNUSUAL_WORDS, mutate_bytes, mutate_text

TEXTS = (
    "joints:\n  wrist_pitch: {unit: A, gain: 0.04, gear_ratio: -45, armature: 0.2}\n"
    "  wrist_roll: {side: link}\n"
    "motors: {joints: [wrist_pitch, wrist_roll], matrix: [[1, 0], [1, 1]]}\n",
    "joints:\n  elbow_pitch: &elbow\n    unit: A\n    gain: 12.4\n    load_friction: 0.06\n"
    "    friction: 3.0\n    damping: 1.0\n    delay: 0.004\n    offset: 0.1\n"
    "  wrist_roll: *elbow\n  wrist_pitch: {<<: *elbow, gain: 2.0}\n",
)


class Target:
    """Reads a damaged drives file."""

    TIMEOUT = 1.0  # s of processor time
    DOCUMENTED_ERRORS = (ValueError, OSError)

    def __init__(self, folder):
        self.path = folder / "robot.drives.yaml"
        self.model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros/robots/arm7.urdf")
        drives = copy.copy(self.model)
        drives.drives = dyn_ros.Drives.of(7, gain=2.0, delay=0.1, stribeck=0.5, load_friction=0.1)
        dyn_ros.save_drives(drives, self.path)
        self.texts = (*TEXTS, self.path.read_text())
        self.words = sorted(
            {*self.model.joint_names, *" ".join(self.texts).replace(":", " ").split()}
        )

    def run(self, rng):
        text = rng.choice(self.texts)
        if rng.random() < 0.2:
            content = mutate_bytes(rng, text.encode(), [text.encode() for text in self.texts])
        else:
            content = mutate_text(rng, text, self.words).encode("utf-8", "replace")
        if rng.random() < 0.02:
            bracket = rng.choice(("[", "{a: ", "- ", "a:\n "))
            content = (bracket * rng.randint(1, 3_000)).encode()
        if rng.random() < 0.01:
            word = rng.choice(UNUSUAL_WORDS)
            content += f"\n{word}: ".encode("utf-8", "replace") * rng.randint(1, 20_000)
        self.path.write_bytes(content)
        dyn_ros.load_drives(copy.copy(self.model), self.path)
