# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Damaged URDFs."""

from pathlib import Path

import numpy as np

import dyn_ros

from .mutations import mutate_bytes, mutate_text

ROOT = Path(__file__).resolve().parents[2]
SOURCES = (*sorted((ROOT / "test" / "robots").glob("*.urdf")), ROOT / "dyn_ros/robots/arm7.urdf")


class Target:
    """Reads a damaged URDF and computes its inverse dynamics."""

    TIMEOUT = 10.0  # s of processor time
    DOCUMENTED_ERRORS = ValueError

    def __init__(self, folder):
        self.texts = [path.read_text() for path in SOURCES]
        words = {word for text in self.texts for word in text.replace('"', " ").split()}
        self.words = sorted(words)

    def run(self, rng):
        text = rng.choice(self.texts)
        if rng.random() < 0.2:
            text = mutate_bytes(rng, text.encode())
        else:
            text = mutate_text(rng, text, self.words)
        model = dyn_ros.Model.from_urdf(
            text,
            rng.choice((None, "floating", "planar")),
            (0.0, 0.0, -9.81),
            rng.choice(("project", "ignore")),
            rng.random() < 0.2,
        )
        tau = dyn_ros.rnea(
            model, dyn_ros.Data(model), model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        )
        assert tau.shape == (model.nv,)
