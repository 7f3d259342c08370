# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of nodes, with values of any kind."""

import os

from rclpy.parameter import Parameter

from .mutations import UNUSUAL_INTEGERS, UNUSUAL_NUMBERS, UNUSUAL_WORDS
from .node import start_nodes

SPARSE_SIZE = 5_000_000_000  # bytes


class Target:
    """Sets parameters of a node; each answer must arrive within a second."""

    TIMEOUT = 1.0  # s of processor time
    DOCUMENTED_ERRORS = ()

    def __init__(self, folder):
        self.nodes = start_nodes()
        os.mkfifo(folder / "pipe")
        with open(folder / "sparse", "wb") as file:
            file.truncate(SPARSE_SIZE)
        (folder / "loop").symlink_to(folder / "loop")
        self.words = [
            *(word for word in UNUSUAL_WORDS if "\x00" not in word and "\ud800" not in word),
            *(str(folder / name) for name in ("pipe", "sparse", "loop", "missing", "")),
            *(name for node in self.nodes for name in node.robot.model.frame_names[:3]),
            *("joint_states", "observer", "floating", "planar", "tool", "hold_pose", "torque"),
        ]

    def run(self, rng):
        node = rng.choice(self.nodes)
        specs = [spec for spec in node.all_specs() if node.has_parameter(spec.name)]
        chosen = rng.sample(specs, rng.choice((1, 1, 1, 2, 3)))
        parameters = [Parameter(spec.name, value=self.value(rng, spec)) for spec in chosen]
        result = node.set_parameters_atomically(parameters)
        assert result.successful or result.reason
        assert len(result.reason) <= 1_000, result.reason[:300]
        return result.successful

    def value(self, rng, spec):
        """Return the default, a value of its type, or one of another type."""
        default, make_any = spec.default, (self.boolean, self.integer, self.number, self.word)
        if isinstance(default, Parameter.Type):  # of an empty array
            default = [""] if default == Parameter.Type.STRING_ARRAY else [0.0]
        is_array = isinstance(default, (list, tuple))
        if rng.random() < 0.2:
            return list(default) if is_array else default
        types = {bool: self.boolean, int: self.integer, float: self.number, str: self.word}
        make = types[type(default[0] if is_array else default)]
        if rng.random() < 0.1:
            make = rng.choice(make_any)
        if is_array == (rng.random() < 0.9):
            return [make(rng) for _ in range(rng.randrange(9))]
        return make(rng)

    def boolean(self, rng):
        return rng.random() < 0.5

    def integer(self, rng):
        return max(
            -(1 << 63), min(rng.choice(UNUSUAL_INTEGERS) * rng.choice((1, -1)), (1 << 63) - 1)
        )

    def number(self, rng):
        return rng.choice(UNUSUAL_NUMBERS)

    def word(self, rng):
        return rng.choice(self.words)
