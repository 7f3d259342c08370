# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls of the engine's functions with arguments of any type, shape and value."""

import copy
import inspect

import numpy as np

import dyn_ros

from .descriptions import ROOT
from .mutations import UNUSUAL_NUMBERS, unusual_value

ROBOTS = ("dyn_ros/robots/arm7.urdf", "test/robots/every_joint.urdf", "test/robots/limb.urdf")
DTYPES = (np.float64, np.float32, np.int64, np.uint8, bool, complex, object, "U5", "M8[ns]", ">f8")


class Target:
    """Calls a function of a model and its data."""

    TIMEOUT = 10.0  # s of processor time
    DOCUMENTED_ERRORS = (ValueError, TypeError, np.linalg.LinAlgError)

    def __init__(self, folder):
        paths = [ROOT / robot for robot in ROBOTS]
        self.models = [dyn_ros.Model.from_urdf_file(path) for path in paths]
        self.models.append(dyn_ros.Model.from_urdf_file(paths[0], "floating"))
        self.data = [dyn_ros.Data(model) for model in self.models]
        functions = {name: getattr(dyn_ros, name) for name in dyn_ros.__all__}
        self.functions = [
            (function, inspect.signature(function).parameters)
            for _, function in sorted(functions.items())
            if inspect.isroutine(function)
            and list(inspect.signature(function).parameters)[:2] == ["model", "data"]
        ]
        assert len(self.functions) > 50

    def run(self, rng):
        function, parameters = rng.choice(self.functions)
        k = rng.randrange(len(self.models))
        model, data = self.models[k], self.data[k]
        if rng.random() < 0.02:
            data = rng.choice((rng.choice(self.data), unusual_value(rng), copy.copy(data)))
        if rng.random() < 0.01:
            model = unusual_value(rng)
        arguments = {}
        for name, parameter in list(parameters.items())[2:]:
            if parameter.default is not parameter.empty and rng.random() < 0.6:
                continue
            if rng.random() < 0.02 and parameter.default is parameter.empty:
                continue  # it is missing
            arguments[name] = self.argument(rng, name, self.models[k])
        if rng.random() < 0.02:
            arguments["unknown"] = 0
        function(model, data, **arguments)

    def argument(self, rng, name, model):
        """Return an argument that fits its name, or anything."""
        kind = rng.random()
        if kind < 0.1:
            return unusual_value(rng)
        sizes = {"q": model.nq, "frame": 0}
        if name in ("frame", "frame_id", "joint", "frames") or name.endswith("_frame"):
            if kind < 0.4:
                return rng.choice(model.frame_names)
            return rng.randint(-2, len(model.frame_names) + 1)
        size = sizes.get(name, model.nv)
        if kind < 0.2:
            size = rng.choice((0, 1, 3, 6, model.nq, model.nv + 1, model.nframes))
        shape = (size,)
        if kind > 0.8:
            shape = rng.choice(
                ((0, size), (1, size), (9, size), (3, 3, size), (6, size), (size, 6))
            )
        array = np.array([rng.gauss(0.0, 1.0) for _ in range(int(np.prod(shape)))]).reshape(shape)
        if array.size and rng.random() < 0.15:
            array.flat[rng.randrange(array.size)] = rng.choice(UNUSUAL_NUMBERS)
        if rng.random() < 0.1:
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(DTYPES[:8]) if rng.random() < 0.9 else DTYPES[-1])
        if rng.random() < 0.1:
            array = rng.choice(
                (array.tolist(), array[..., ::-1], np.asfortranarray(array), array.T)
            )
        return array
