# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The functions of `dyn_ros.torch` and `dyn_ros.jax`, robots, states, and the results expected.

Results are a list of arrays, also of functions that return one. `expected` differentiates
`learners.plain` with torch, in random directions:

    value       f(x)
    tangent     f'(x) t
    gradient    f'(x)' w
    second      the gradient of w' f'(x) t with respect to x and w
"""

import functools
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros import ReferenceFrame

ROBOTS = {
    "arm7": ("arm7", None),
    "panda": ("panda", None),  # with mimic joints
    "solo12": ("solo12", "floating"),
    "talos": ("talos_reduced", "floating"),
    "every_joint": ("every_joint", "planar"),  # planar, prismatic, continuous and mimic joints
    "ball_joints": ("ball_joints", None),
}
FRAMES = {
    "arm7": "tool",
    "panda": "panda_leftfinger",
    "solo12": "FL_FOOT",
    "talos": "gripper_left_joint",
    "every_joint": "tip",
}
AXES = {"f_ext": 2, "inertial_parameters": 2, "joint_placements": 3}
"""The number of the axes of an array of one state, if it is not 1."""

INERTIA = ("inertial_parameters", "armature", "joint_placements")
DYNAMICS = (*INERTIA, "gravity")
BODIES = ("inertial_parameters", "joint_placements")
GEOMETRY = ("joint_placements",)


@dataclass(frozen=True)
class Function:
    """A function, the arrays that it takes, its parameters, and its other arguments."""

    name: str
    inputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    more: Callable[[str], tuple] = lambda robot: ()


def of_frame(robot):
    model = model_of(robot)
    return (FRAMES.get(robot, model.frame_names[-1]),)


def in_axes(reference_frame):
    return lambda robot: (*of_frame(robot), reference_frame)


def contacts_of(robot):
    return ([dyn_ros.Contact(*of_frame(robot), 3)],)


FUNCTIONS = {
    "rnea": Function("rnea", ("q", "v", "a", "f_ext"), DYNAMICS),
    "aba": Function("aba", ("q", "v", "tau", "f_ext"), DYNAMICS),
    "nonlinear_effects": Function("nonlinear_effects", ("q", "v"), DYNAMICS),
    "generalized_gravity": Function("generalized_gravity", ("q",), (*BODIES, "gravity")),
    "crba": Function("crba", ("q",), INERTIA),
    "minverse": Function("minverse", ("q",), INERTIA),
    "forward_kinematics": Function("forward_kinematics", ("q",), GEOMETRY),
    "frame_placements": Function("frame_placements", ("q",), GEOMETRY),
    "frame_placement": Function("frame_placement", ("q",), GEOMETRY, of_frame),
    **{
        f"{name} {axes.name}": Function(name, inputs, GEOMETRY, in_axes(axes))
        for name, inputs in (("frame_jacobian", ("q",)), ("frame_velocity", ("q", "v")))
        for axes in ReferenceFrame
    },
    "center_of_mass": Function("center_of_mass", ("q",), BODIES),
    "centroidal_momentum": Function("centroidal_momentum", ("q", "v"), BODIES),
    "kinetic_energy": Function("kinetic_energy", ("q", "v"), INERTIA),
    "potential_energy": Function("potential_energy", ("q",), (*BODIES, "gravity")),
    "mechanical_energy": Function("mechanical_energy", ("q", "v"), DYNAMICS),
    "contact_dynamics": Function(
        "contact_dynamics", ("q", "v", "tau", "f_ext"), DYNAMICS, contacts_of
    ),
    "joint_friction": Function("joint_friction", ("v",), ("damping", "friction")),
    "integrate": Function("integrate", ("q", "v")),
}
DAMPING = {"contact_dynamics": {"damping": 0.01}}

functions = pytest.mark.parametrize("function", FUNCTIONS)
robots = pytest.mark.parametrize("robot", ROBOTS)


@functools.cache
def model_of(robot):
    """The model of a robot, with armature and friction; it is shared."""
    model = peer.new_pair(*ROBOTS[robot]).model
    rng = np.random.default_rng(0)
    model.armature, model.damping, model.friction = rng.uniform(0.01, 0.5, (3, model.nv))
    model.gravity = (0.5, -1.0, -9.0)
    return model


def state(robot, seed=0, lead=()):
    """Random arrays by name, with leading axes. q is not normalized."""
    model, pair = model_of(robot), peer.pair(*ROBOTS[robot])
    count = int(np.prod(lead))
    rows = [pair.state(1000 * seed + k) for k in range(max(count, 1))]
    found = {
        name: np.array([row[part] for row in rows])[:count].reshape(*lead, -1 if count else size)
        for part, (name, size) in enumerate(
            {"q": model.nq, "v": model.nv, "a": model.nv, "tau": model.nv}.items()
        )
    }
    rng = np.random.default_rng(seed)
    for joint, start, nq in zip(model.tree.joints, model.idx_q, model.nqs, strict=True):
        if joint.kind in ("floating", "spherical"):
            found["q"][..., start + nq - 4 : start + nq] *= rng.uniform(0.8, 1.2, (*lead, 1))
    found["f_ext"] = rng.uniform(-5.0, 5.0, (*lead, model.njoints, 6))
    return found


def parameters(robot, names, seed=0, lead=()):
    """Random values of parameters by name, with leading axes."""
    model, rng = model_of(robot), np.random.default_rng(seed + 10)
    found = {}
    for name in names:
        if name == "joint_placements":
            steps = np.array([joint.placement for joint in model.tree.joints])
            turns = 0.1 * rng.normal(size=(*lead, model.njoints, 6))
            found[name] = steps @ exponentials(turns)
        else:
            value = np.array(getattr(model, name))
            found[name] = value * rng.uniform(0.9, 1.1, (*lead, *value.shape))
    return found


def exponentials(motions):
    """Placements (..., 4, 4) of small motions (..., 6)."""
    rows = [dyn_ros.SE3.exp(row).homogeneous for row in motions.reshape(-1, 6)]
    return np.array(rows).reshape(*motions.shape[:-1], 4, 4)


def bound(module, robot, function, **options):
    """A function of a module as one of the arrays of `Function.inputs`, which returns a list."""
    known, model = FUNCTIONS[function], model_of(robot)
    called, more = getattr(module, known.name), known.more(robot)
    options = DAMPING.get(function, {}) | options
    takes_f_ext = known.inputs[-1] == "f_ext"

    def f(*arrays):
        if takes_f_ext:
            result = called(model, *arrays[:-1], *more, f_ext=arrays[-1], **options)
        else:
            result = called(model, *arrays, *more, **options)
        return list(result) if isinstance(result, tuple) else [result]

    return f


def call(module, robot, function, arrays, **options):
    """Call a function of a module with the arrays of `Function.inputs`; a list."""
    return bound(module, robot, function, **options)(*arrays)


def engine(robot, function, arrays):
    """The same by the engine's functions for arrays of NumPy, one state or a batch."""
    model, known = model_of(robot), FUNCTIONS[function]
    data = dyn_ros.Data(model)
    given = dict(zip(known.inputs, arrays, strict=True))
    more = known.more(robot)
    if "q" in given:
        given["q"] = model.normalize(given["q"])
    if function == "joint_friction":
        return [dyn_ros.joint_friction(model, *given.values())]
    if function == "integrate":
        return [model.integrate(*given.values())]
    if function == "frame_placement":
        found = dyn_ros.frame_placements(model, data, given["q"])
        return [np.array(found)[..., model.frame_index(*more), :, :]]
    if function == "contact_dynamics":
        f_ext = given.pop("f_ext")
        ddq, forces = dyn_ros.contact_dynamics(
            model, data, *given.values(), *more, f_ext, **DAMPING[function]
        )
        return [np.array(ddq), np.array(forces.lambda_c)]
    index = {"forward_kinematics": 0, "center_of_mass": 0, "centroidal_momentum": 1}.get(function)
    name = {"centroidal_momentum": "ccrba"}.get(function, known.name)
    found = getattr(dyn_ros, name)(model, data, *given.values(), *more)
    return [np.array(found if index is None else found[index])]


class Expected(NamedTuple):
    """The results of a function and its derivatives, as lists of NumPy arrays."""

    value: list
    tangent: list
    gradient: list
    second: list


def directions(function, arrays, seed=5):
    """Random directions of the shapes of arrays, in NumPy."""
    rng = np.random.default_rng([seed, zlib.crc32(function.encode())])
    return [rng.normal(size=array.shape) for array in arrays]


def derivatives(f, arrays, function):
    """Value and derivatives of a function of tensors, which returns a list, by torch."""
    import torch

    x = [torch.tensor(array, requires_grad=True) for array in arrays]
    t = [torch.tensor(direction) for direction in directions(function, arrays, 5)]
    value = f(*x)
    w = [
        torch.tensor(direction, requires_grad=True) for direction in directions(function, value, 6)
    ]
    weighted = sum((a * b).sum() for a, b in zip(value, w, strict=True))
    gradient = torch.autograd.grad(weighted, x, create_graph=True)
    along = sum((a * b).sum() for a, b in zip(gradient, t, strict=True))
    second = torch.autograd.grad(along, [*x, *w], allow_unused=True)
    second = [
        torch.zeros_like(a) if b is None else b for a, b in zip([*x, *w], second, strict=True)
    ]
    _, tangent = torch.func.jvp(lambda *y: tuple(f(*y)), tuple(y.detach() for y in x), tuple(t))
    parts = (value, tangent, gradient, second)
    return Expected(*([y.detach().numpy() for y in part] for part in parts))


def with_parameters(function, names, placements):
    """Split the arrays after a function's inputs into its parameters; placements by motions."""
    count = len(FUNCTIONS[function].inputs)

    def split(arrays):
        given = dict(zip(names, arrays[count:], strict=True))
        if "joint_placements" in given:
            given["joint_placements"] = placements(given["joint_placements"])
        return arrays[:count], given

    return split


@functools.cache
def expected(robot, function, with_all_parameters=False, lead=()):
    """The arrays of a function and its results, by `learners.plain`; with parameters after q, v...

    Joint placements are a function of small motions (njoints, 6), so that they stay placements.
    """
    from learners import plain

    arrays, names = inputs(robot, function, with_all_parameters, lead)
    split = with_parameters(function, names, torch_placements(robot))

    def f(*x):
        x, given = split(x)
        return call(plain, robot, function, x, **given)

    return arrays, derivatives(f, arrays, function)


def inputs(robot, function, with_all_parameters=False, lead=()):
    """The arrays of a function, and the names of its parameters, which are last."""
    known = FUNCTIONS[function]
    names = known.parameters if with_all_parameters else ()
    given = state(robot, 1, lead)
    values = parameters(robot, [name for name in names if name != "joint_placements"], 1)
    if "joint_placements" in names:
        rng = np.random.default_rng(3)
        values["joint_placements"] = 0.1 * rng.normal(size=(model_of(robot).njoints, 6))
    return [given[name] for name in known.inputs] + [values[name] for name in names], names


def fixed_placements(robot):
    """The constant placements of the joints, (njoints, 4, 4)."""
    return np.array([joint.placement for joint in model_of(robot).tree.joints])


def hat(motions, stack):
    """The matrix (..., 4, 4) whose exponential is the placement of a motion."""
    v, w = motions[..., :3], motions[..., 3:]
    o = 0.0 * v[..., 0]
    rows = (
        (o, -w[..., 2], w[..., 1], v[..., 0]),
        (w[..., 2], o, -w[..., 0], v[..., 1]),
        (-w[..., 1], w[..., 0], o, v[..., 2]),
        (o, o, o, o),
    )
    return stack([stack(row, -1) for row in rows], -2)


def torch_placements(robot):
    """A function of small motions (..., njoints, 6), which returns the joints' placements."""
    import torch

    fixed = torch.tensor(fixed_placements(robot))
    return lambda motions: fixed @ torch.linalg.matrix_exp(hat(motions, torch.stack))


def close(actual, wanted, rtol=1e-9):
    """Assert that lists of arrays agree, each relative to its largest number."""
    assert len(actual) == len(wanted)
    for one, other in zip(actual, wanted, strict=True):
        other = np.asarray(other)
        if not other.size:
            assert np.shape(one) == other.shape
            continue
        peer.close(np.asarray(one), other, rtol, scale=max(abs(other).max(), 1e-6))
