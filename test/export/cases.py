# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Random arguments of exported functions, for C and for Python, and the results of Python."""

import inspect

import numpy as np

import dyn_ros
from dyn_ros.engine.algorithms.constrained.constraints import POLICIES, PRIORITIES
from dyn_ros.engine.kernel.fields import Field, axis_lengths
from dyn_ros.export.functions import structure_name

PRODUCTS = (
    "cholesky_solve",
    "cholesky_M_times",
    "cholesky_U_times",
    "cholesky_Ut_times",
    "cholesky_U_solve",
    "cholesky_Ut_solve",
)
ROUNDING = 5e-14
RENAMED = {"torque_weights": "weights"}
POSITIVE = ("gain", "dt", "friction_velocity", "weights", "torque_weights")
LIMITS = {"operation": len(PRODUCTS), "direct": 2, "classical": 2, "reference_frame": 3}


def case(one, model, data, rng):
    """The arguments for C, and the results; None for an omitted argument.

    Draws again if rounding the arguments differently changes the results, as with contacts that
    nearly depend on each other: another processor may round differently.
    """
    for _ in range(200):
        arguments, call = _draw(one, model, data, rng)
        results, others = call(0.0), call(2.0**-52)
        if all(
            abs(x - y).max(initial=0.0) <= ROUNDING * abs(x).max(initial=0.0)
            for x, y in zip(results, others)
        ):
            return arguments, [
                _stored(x, value) for x, value in zip(one.results, results, strict=True)
            ]
    raise AssertionError(f"{one.name}: no well-conditioned state found")


def _draw(one, model, data, rng):
    """Random arguments for C, and the call of Python, with arguments that are changed a little."""
    table, rows, keywords = _table(one, model, rng)
    arguments = []
    for x in one.parameters:
        name = one.parameter_name(x)
        if structure_name(x):
            arguments += table
            continue
        if name == "wrenches":  # what f_ext consists of, by name
            wrenches = {frame: rng.standard_normal(6) for frame in rng.choice(model.frame_names, 3)}
            value = np.zeros((model.nframes, 6))
            for frame, wrench in wrenches.items():
                value[model.frame_index(frame)] += wrench
            arguments[-1] = model.external_forces(wrenches)
            keywords["f_ext"] = wrenches
        elif isinstance(x, Field):
            value = _numbers(model, name, x, rows, rng)
            if x in one.algorithm.optional and rng.random() < 0.3:
                value = None
        else:
            value = int(rng.integers(LIMITS.get(name) or getattr(model, f"n{name}s")))
        arguments.append(value)
        keywords[RENAMED.get(name, name)] = value
    public = PRODUCTS[keywords.pop("operation", 0)] if "operation" in keywords else one.name
    if "gain" in keywords:
        keywords.update(friction=True, dt=float(keywords["dt"][0]))
        for name in ("damping", "friction"):
            arguments[[one.parameter_name(x) for x in one.parameters].index(name)] = getattr(
                model, name
            )
    function = getattr(dyn_ros, public)
    known = inspect.signature(function).parameters

    def call(change):
        changed = {
            name: value * (1.0 + change) if isinstance(value, np.ndarray) else value
            for name, value in keywords.items()
            if name in known
        }
        return _flat(function(model, data, **changed))

    return arguments, call


def _numbers(model, name, known, rows, rng):
    if name == "q":
        return model.random_configuration(rng)
    numbers = rng.standard_normal(axis_lengths(model, known.shape, rows))
    return abs(numbers) + 0.1 if name in POSITIVE else numbers


def _flat(returned):
    """The results of a function, one after the other."""
    if isinstance(returned, dyn_ros.ContactForces):
        return [returned.lambda_c.copy(), returned._solution.copy()]
    if isinstance(returned, tuple):
        return [value for part in returned for value in _flat(part)]
    return [np.array(returned, float)]


def _stored(known, value):
    return value.swapaxes(-1, -2) if known.transposed else value


# --- tables


def _table(one, model, rng):
    """The numbers of a table for C, its number of rows, and the arguments for Python."""
    kind = next(filter(None, map(structure_name, one.parameters)), "")
    moving = [n for n, frame in enumerate(model.tree.frames) if frame.parent >= 0]
    if kind == "contacts":
        known = inspect.signature(getattr(dyn_ros, one.name)).parameters
        return (_contacts if "contacts" in known else _task)(model, known, moving, rng)
    if kind == "constraints":
        return _constraints(model, moving, rng)
    return [], 0, {}


def _contacts(model, known, moving, rng):
    frames = rng.choice(moving, size=int(rng.integers(1, 4)))
    contacts, arrays = [], []
    for n, frame in enumerate(frames):
        bodies = [
            f for f in moving if model.tree.frames[f].parent != model.tree.frames[frame].parent
        ]
        other = int(rng.choice(bodies)) if bodies and rng.random() < 0.4 else None
        places = [dyn_ros.SE3.from_homogeneous(_pose(rng)) for _ in range(2)]
        numbers = (int(frame), int(rng.choice([3, 6])), int(rng.integers(3)))
        gains = rng.uniform(0.0, 10.0, 2) if rng.random() < 0.5 else (0.0, 0.0)
        contacts.append(dyn_ros.Contact(*numbers, other, *places, *gains, name=f"contact {n}"))
        arrays.append(
            np.concatenate(
                [
                    numbers,
                    [-1 if other is None else other],
                    gains,
                    *(place.as_homogeneous().ravel() for place in places),
                ]
            )
        )
    damping = 1e-3 if "damping" in known else 0.0
    restitution = 0.5 if "restitution" in known else 0.0
    iterated = "residual" in known and rng.random() < 0.5
    keywords = {
        "contacts": contacts,
        "damping": damping,
        "restitution": restitution,
        "residual": 1e-9 if iterated else None,
        "max_iterations": 20,
    }
    settings = [damping, 1e-9 if iterated else 0.0, 20 if iterated else 1, restitution]
    rows = sum(contact.dimension for contact in contacts)
    return [np.array([*settings, len(contacts)]), *arrays], rows, keywords


def _task(model, known, moving, rng):
    """A frame of a task as the only contact."""
    frame, dimension, axes = int(rng.choice(moving)), int(rng.choice([3, 6])), int(rng.integers(3))
    arrays = [
        np.array([1e-3, 0.0, 1, 0.0, 1]),
        np.concatenate(
            [(frame, dimension, axes, -1, 0.0, 0.0), np.eye(4).ravel(), np.eye(4).ravel()]
        ),
    ]
    return (
        arrays,
        dimension,
        {"frame": frame, "dimension": dimension, "reference_frame": axes, "damping": 1e-3},
    )


def _constraints(model, moving, rng):
    rows = int(rng.integers(1, 7))
    tips = [int(rng.choice(moving))] * (rows // 2)
    tips += [int(rng.choice(moving))] * (rows - len(tips))
    axes = [int(n) for n in rng.integers(model.nframes, size=rows)]
    policy, priority = str(rng.choice(list(POLICIES))), str(rng.choice(list(PRIORITIES)))
    keywords = {
        "tip": tips,
        "frame": tips,
        "axes": axes,
        "singularity": policy,
        "priority": priority,
        "tolerance": 1e-6,
    }
    return (
        [np.array([rows, POLICIES[policy][0], 1e-6, PRIORITIES[priority]]), tips, axes],
        rows,
        keywords,
    )


def _pose(rng):
    """A placement whose products with others are rounded once, in any order of summation."""
    X = np.zeros((4, 4))
    X[range(3), rng.permutation(3)] = rng.choice([-1.0, 1.0], 3)
    X[:3, 0] *= np.linalg.det(X[:3, :3])
    X[rng.integers(3), 3], X[3, 3] = 0.125, 1.0
    return X
