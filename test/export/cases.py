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
MAX_ROUNDING_ERROR = 5e-14  # relative to the largest number of a result
PYTHON_NAMES = {"torque_weights": "weights"}
POSITIVE_PARAMETERS = ("gain", "dt", "friction_velocity", "weights", "torque_weights")
OPTION_ENDS = {"operation": len(PRODUCTS), "direct": 2, "classical": 2, "reference_frame": 3}


def draw_case(function, model, data, rng):
    """Draw arguments for C, and return them with the results; None is an omitted argument.

    Draw again if rounding the arguments differently changes the results, as with contacts that
    nearly depend on each other: another processor may round differently.
    """
    for _ in range(200):
        arguments, call = _draw_arguments(function, model, data, rng)
        results, perturbed_results = call(0.0), call(2.0**-52)
        if all(
            abs(x - y).max(initial=0.0) <= MAX_ROUNDING_ERROR * abs(x).max(initial=0.0)
            for x, y in zip(results, perturbed_results)
        ):
            return arguments, [
                _stored_array(field, value)
                for field, value in zip(function.results, results, strict=True)
            ]
    raise AssertionError(f"{function.name}: no well-conditioned state found")


def _draw_arguments(function, model, data, rng):
    """Return random arguments for C, and the call of Python, which can perturb them."""
    table, rows, keywords = _draw_table(function, model, rng)
    arguments = []
    for parameter in function.parameters:
        name = function.parameter_name(parameter)
        if structure_name(parameter):
            arguments += table
            continue
        if name == "wrenches":  # of which the previous argument, f_ext, consists
            wrenches = {frame: rng.standard_normal(6) for frame in rng.choice(model.frame_names, 3)}
            value = np.zeros((model.nframes, 6))
            for frame, wrench in wrenches.items():
                value[model.frame_index(frame)] += wrench
            arguments[-1] = model.external_forces(wrenches)
            keywords["f_ext"] = wrenches
        elif isinstance(parameter, Field):
            value = _draw_numbers(model, name, parameter, rows, rng)
            if parameter in function.algorithm.optional and rng.random() < 0.3:
                value = None
        else:
            value = int(rng.integers(OPTION_ENDS.get(name) or getattr(model, f"n{name}s")))
        arguments.append(value)
        keywords[PYTHON_NAMES.get(name, name)] = value
    public_name = function.name
    if "operation" in keywords:
        public_name = PRODUCTS[keywords.pop("operation")]
    if "gain" in keywords:
        keywords.update(friction=True, dt=float(keywords["dt"][0]))
        names = [function.parameter_name(x) for x in function.parameters]
        for name in ("damping", "friction"):
            arguments[names.index(name)] = getattr(model, name)
    public_function = getattr(dyn_ros, public_name)
    signature = inspect.signature(public_function).parameters

    def call(relative_change):
        perturbed = {
            name: value * (1.0 + relative_change) if isinstance(value, np.ndarray) else value
            for name, value in keywords.items()
            if name in signature
        }
        return _flat(public_function(model, data, **perturbed))

    return arguments, call


def _draw_numbers(model, name, field, rows, rng):
    if name == "q":
        return model.random_configuration(rng)
    numbers = rng.standard_normal(axis_lengths(model, field.shape, rows))
    return abs(numbers) + 0.1 if name in POSITIVE_PARAMETERS else numbers


def _flat(returned):
    """Return the results of a function as a list of arrays."""
    if isinstance(returned, dyn_ros.ContactForces):
        return [returned.lambda_c.copy(), returned._solution.copy()]
    if isinstance(returned, tuple):
        return [value for part in returned for value in _flat(part)]
    return [np.array(returned, float)]


def _stored_array(field, value):
    return value.swapaxes(-1, -2) if field.transposed else value


# --- tables


def _draw_table(function, model, rng):
    """Return the numbers of a table for C, its number of rows, and the arguments for Python."""
    kind = next(filter(None, map(structure_name, function.parameters)), "")
    moving = [n for n, frame in enumerate(model.tree.frames) if frame.parent >= 0]
    if kind == "contacts":
        signature = inspect.signature(getattr(dyn_ros, function.name)).parameters
        draw = _draw_contacts if "contacts" in signature else _draw_task
        return draw(model, signature, moving, rng)
    if kind == "constraints":
        return _draw_constraints(model, moving, rng)
    return [], 0, {}


def _draw_contacts(model, signature, moving, rng):
    frames = rng.choice(moving, size=int(rng.integers(1, 4)))
    contacts, arrays = [], []
    for n, frame in enumerate(frames):
        bodies = [
            f for f in moving if model.tree.frames[f].parent != model.tree.frames[frame].parent
        ]
        other_frame = int(rng.choice(bodies)) if bodies and rng.random() < 0.4 else None
        placements = [dyn_ros.SE3.from_homogeneous(_draw_pose(rng)) for _ in range(2)]
        numbers = (int(frame), int(rng.choice([3, 6])), int(rng.integers(3)))
        gains = rng.uniform(0.0, 10.0, 2) if rng.random() < 0.5 else (0.0, 0.0)
        contacts.append(
            dyn_ros.Contact(*numbers, other_frame, *placements, *gains, name=f"contact {n}")
        )
        arrays.append(
            np.concatenate(
                [
                    numbers,
                    [-1 if other_frame is None else other_frame],
                    gains,
                    *(placement.as_homogeneous().ravel() for placement in placements),
                ]
            )
        )
    damping = 1e-3 if "damping" in signature else 0.0
    restitution = 0.5 if "restitution" in signature else 0.0
    iterated = "residual" in signature and rng.random() < 0.5
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


def _draw_task(model, signature, moving, rng):
    """Return a frame of a task as the only contact."""
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


def _draw_constraints(model, moving, rng):
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


def _draw_pose(rng):
    """Return a placement whose products are rounded once, in any order of summation."""
    X = np.zeros((4, 4))
    X[range(3), rng.permutation(3)] = rng.choice([-1.0, 1.0], 3)
    X[:3, 0] *= np.linalg.det(X[:3, :3])
    X[rng.integers(3), 3], X[3, 3] = 0.125, 1.0
    return X
