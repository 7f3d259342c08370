# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot's parameters, and their combinations that its torques depend on: base parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular

from ..drives.efforts import torque_regressor
from ..engine.algorithms import joint_torque_regressor
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model import Model
from ..engine.model.coordinates import is_actuated, is_linear
from .motion.numerics import ROUNDING, STATISTICS, evenly
from .result import BaseEstimate
from .samples import Samples

NUMBERS = ("m", "m cx", "m cy", "m cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
FEATURES = (
    "armature",
    "damping",
    "friction",
    "offset",
    "stribeck",
    "root_friction",
    "load_friction",
)
_RARE = ("root_friction", "load_friction")
DIRECTED = ("friction", "stribeck", "root_friction", "load_friction")  # which turns with motion
ANGULAR_UNITS = ("kg m2", "N m s/rad", "N m", "N m", "N m", "N m (s/rad)^0.5", "")
LINEAR_UNITS = ("kg", "N s/m", "N", "N", "N", "N (s/m)^0.5", "")
# Within a body, in the order in which combinations are the usual ones: Ixx - Iyy, masses last
_LEADING = ("Ixx", "Ixy", "Ixz", "Iyz", "Izz", "m cx", "m cy", "m cz", "Iyy", "m")
_POSES = 30  # in which the response to motions is compared


class Unknowns:
    """The p parameters of a robot: 10 for each joint's body, then each feature for each velocity.

    ``bodies`` is the number of those of bodies, ``names`` are such as "friction(elbow)", ``active``
    (p,) whether each is estimated, ``order`` that in which they are preferred as leading ones of
    combinations, ``local`` (nv, c) the columns of each row of the equations: those of all bodies
    and its own features, or all if rows are combined. All joints with one coordinate have
    the features in ``chosen``; ``further`` are features of some joints, (nv,) of bool. ``features``
    are the names of all.
    """

    def __init__(
        self,
        model: Model,
        chosen: Sequence[str],
        are_combined: bool = False,
        further: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.model, self.chosen, self.bodies = model, tuple(chosen), 10 * model.njoints
        has_further = any(
            np.any(joints) for name, joints in (further or {}).items() if name in _RARE
        )
        self.features = FEATURES if has_further else FEATURES[: -len(_RARE)]
        self.names = (
            *(f"{number}({joint})" for joint in model.joint_names for number in NUMBERS),
            *(f"{feature}({name})" for feature in self.features for name in model.velocity_names),
        )
        linear = is_linear(model)
        self.units = (
            *("kg", *3 * ("kg m",), *6 * ("kg m2",)) * model.njoints,
            *(
                (LINEAR_UNITS if linear[k] else ANGULAR_UNITS)[n]
                for n in range(len(self.features))
                for k in range(model.nv)
            ),
        )
        wanted = np.isin(self.features, chosen)[:, None] & is_actuated(model)
        wanted[0] &= ~model.drives.is_link_side  # where rotors do not act
        for name, joints in (further or {}).items():
            if name in self.features:
                wanted[self.features.index(name)] |= joints
        self.active = np.concatenate([np.ones(self.bodies, bool), wanted.ravel()])
        leading = [NUMBERS.index(name) for name in _LEADING]
        self.order = [10 * i + k for i in range(model.njoints) for k in leading]
        self.order += range(self.bodies, len(self.names))
        own = self.bodies + np.arange(model.nv)[:, None] + model.nv * np.arange(len(self.features))
        self.local = (
            np.tile(np.arange(len(self.names)), (model.nv, 1))
            if are_combined
            else np.hstack([np.tile(np.arange(self.bodies), (model.nv, 1)), own])
        )

    def __len__(self) -> int:
        return len(self.names)


def in_columns(features: Array) -> Array:
    """Features of each row, (B, nv, F), in the columns of all parameters, (B, nv, F nv)."""
    size, nv, _ = features.shape
    return np.einsum("bkf,kj->bkfj", features, np.eye(nv)).reshape(size, nv, -1)


@dataclass(frozen=True, repr=False)
class BaseParameters:
    """The combinations of a robot's parameters that its torques depend on.

    Attributes
    ----------
    parameter_names : tuple of str, length p
        All parameters: 10 for each joint's body, such as "Ixx(elbow)", then armature, damping,
        friction, offset and stribeck of each velocity, such as "friction(elbow)"; and their
        root_friction and load_friction if a joint has one of these.
    names : tuple of str, length b
        The combinations, such as "Ixx(elbow) - Iyy(elbow) + 0.25 m(wrist)".
    units : tuple of str, length b
        Of the combinations.
    independent : (b,) ndarray of int
        The parameter that leads each combination: its coefficient is 1 there and 0 in the others.
    matrix : (b, p) ndarray
        The base parameters are ``matrix @ parameters``.
    condition : float
        Condition number of the regressor of random motions, its columns scaled to equal length.

    Examples
    --------
    >>> base = dyn_ros.base_parameters(model)
    >>> base.names[-1], base.units[-1]
    ('m cy(wrist_roll)', 'kg m')
    """

    parameter_names: tuple[str, ...]
    names: tuple[str, ...]
    units: tuple[str, ...]
    independent: np.ndarray
    matrix: Array
    condition: float

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"BaseParameters({len(self)}, condition={self.condition:.3g})"


def base_parameters(
    model: Model, *, armature: bool = False, friction: bool = False, seed: int = 0
) -> BaseParameters:
    """The combinations of parameters that a robot's torques depend on.

    The regressor of random motions within the position limits is decomposed numerically: its rank,
    by QR with column pivoting, is the number of base parameters. Parameters of bodies close to the
    root lead the combinations.

    Parameters
    ----------
    model : Model
    armature, friction : bool
        Include the parameters that ``identify`` estimates if these are true.
    seed : int
        Of the random motions.

    References
    ----------
    Gautier, M. and Khalil, W.: Direct calculation of minimum set of inertial parameters of serial
    robots. IEEE Transactions on Robotics and Automation 6 (1990).
    Gautier, M.: Numerical calculation of the base inertial parameters of robots. Journal of
    Robotic Systems 8 (1991).

    Examples
    --------
    The torques of the arm depend on fewer than its 70 inertial parameters:

    >>> base = dyn_ros.base_parameters(model)
    >>> len(base.names)
    43
    """
    return structure(
        Unknowns(require_model(model), FEATURES[not armature : 1 + 3 * friction]), seed
    )


def structure(unknowns: Unknowns, seed: int = 0) -> BaseParameters:
    """The combinations of the active parameters that random motions determine."""
    W = random_regressor(unknowns, np.random.default_rng(seed))
    independent, matrix, condition = combinations(W, unknowns.order)
    leads = independent.tolist()
    return BaseParameters(
        unknowns.names,
        tuple(symbolic(row, lead, unknowns.names) for row, lead in zip(matrix, leads)),
        tuple(unknowns.units[lead] for lead in leads),
        independent,
        matrix,
        condition,
    )


def random_regressor(unknowns: Unknowns, rng: np.random.Generator) -> Array:
    """Rows of the torque regressor for random motions, enough to determine all parameters."""
    model = unknowns.model
    size = 20 + 4 * len(unknowns) // max(model.nv, 1)
    q = np.array([model.random_configuration(rng) for _ in range(size)])
    v, a = rng.normal(0.0, 2.0, (2, size, model.nv))
    bodies = torque_regressor(model, Data(model), q, v, a)
    s, load = np.sign(v), np.abs(bodies.sum(axis=2))
    own = np.stack(
        [a, v, s, np.ones_like(v), s * np.exp(-(v**2)), s * np.sqrt(np.abs(v)), s * load], axis=2
    )[:, :, : len(unknowns.features)]
    W = np.concatenate([bodies, in_columns(own)], axis=2).reshape(-1, len(unknowns))
    return W * unknowns.active


def combinations(W: Array, order: Sequence[int]) -> tuple[np.ndarray, Array, float]:
    """The independent columns of a regressor, and how the others depend on them.

    Unknowns are taken in the order given; one that is not a combination of those before it is
    independent. Returns their indices, the (b, p) matrix of the combinations, and the condition
    number of the independent columns, scaled to equal length.
    """
    lengths = np.linalg.norm(W, axis=0)
    matters = lengths > 1e-12 * lengths.max(initial=0.0)
    scaled = np.where(matters, W / np.where(matters, lengths, 1.0), 0.0)
    rank = _rank(scaled[:, matters])
    basis = np.zeros((len(W), rank))
    chosen: list[int] = []
    for j in order:
        if len(chosen) == rank or not matters[j]:
            continue
        rest = scaled[:, j].copy()
        for _ in range(2):  # twice is enough (Kahan)
            rest -= basis[:, : len(chosen)] @ (basis[:, : len(chosen)].T @ rest)
        length = np.linalg.norm(rest)
        if length > ROUNDING:
            basis[:, len(chosen)] = rest / length
            chosen.append(j)
    independent = np.array(chosen, int)
    used = basis[:, : len(chosen)]
    R = used.T @ scaled[:, independent]
    coefficients = solve_triangular(R, used.T @ scaled) if chosen else used.T @ scaled
    coefficients[np.abs(coefficients) < ROUNDING] = 0.0
    matrix = coefficients * lengths / lengths[independent, None]
    matrix[:, independent] = np.eye(len(chosen))
    singular = np.linalg.svd(R, compute_uv=False)
    return independent, matrix, float(singular[0] / singular[-1]) if chosen else 1.0


def _rank(scaled: Array) -> int:
    if not scaled.size:
        return 0
    diagonal = np.abs(np.diag(qr(scaled, mode="r", pivoting=True)[0]))
    return int((diagonal > ROUNDING * diagonal[0]).sum())


def symbolic(row: Array, lead: int, names: Sequence[str]) -> str:
    """A combination as text, its leading parameter first."""
    text = names[lead]
    for j in np.flatnonzero(row).tolist():
        if j != lead:
            size = abs(row[j])
            factor = "" if abs(size - 1.0) < 1e-6 else f"{size:.4g} "
            text += f" {'-' if row[j] < 0.0 else '+'} {factor}{names[j]}"
    return text


# --- what a recording does not determine


def undetermined(
    unknowns: Unknowns, base: BaseParameters, values: BaseEstimate, samples: Samples
) -> tuple[str, ...]:
    """A sentence for each base parameter that the recording does not determine."""
    missing = [n for n, excited in enumerate(values.excitation) if excited == "not"]
    if not missing:
        return ()
    responses = _responses(unknowns.model)
    fastest = np.quantile(np.abs(samples.v[evenly(len(samples), STATISTICS)]), 0.99, axis=0)
    rate = np.sqrt((samples.a[evenly(len(samples), STATISTICS)] ** 2).mean(axis=0))
    return tuple(
        base.names[n] + ": " + _remedy(unknowns, base.independent[n], responses, fastest, rate)
        for n in missing
    )


def _remedy(unknowns: Unknowns, lead: int, responses: Array, fastest: Array, rate: Array) -> str:
    """Which motion would determine a parameter."""
    model = unknowns.model
    if lead >= unknowns.bodies:
        k = (lead - unknowns.bodies) % model.nv
        return (
            f"move {model.velocity_names[k]} in both directions, at several speeds; it reached "
            f"{fastest[k]:.2g} {_unit(model, k)}/s"
        )
    k = int(np.argmax(responses[:, lead]))
    if k == model.nv:
        return "visit more poses, which changes the torque of gravity"
    return (
        f"accelerate {model.velocity_names[k]} more, in different poses; its RMS acceleration "
        f"was {rate[k]:.2g} {_unit(model, k)}/s2"
    )


def _unit(model: Model, k: int) -> str:
    return "m" if is_linear(model)[k] else "rad"


def _responses(model: Model) -> Array:
    """How much each parameter's torque depends on each joint's motion and gravity, (nv + 1, p)."""
    rng, data = np.random.default_rng(0), Data(model)
    q = np.array([model.random_configuration(rng) for _ in range(_POSES)])
    still = np.zeros((_POSES, model.nv))
    gravity = joint_torque_regressor(model, data, q, still, still).copy()
    responses = []
    for k in range(model.nv):
        a = still.copy()
        a[:, k] = 1.0
        moved = joint_torque_regressor(model, data, q, still, a) - gravity
        responses.append(np.abs(moved).max(axis=(0, 1)))
    return np.array([*responses, np.abs(gravity).max(axis=(0, 1)) / 10.0])
