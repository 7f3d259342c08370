# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a robot, and the combinations that its torques depend on: base parameters."""

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
from ..engine.model.coordinates import has_single_coordinate, is_linear
from .motion.numerics import RELATIVE_TOLERANCE, STATISTICS_SAMPLES, evenly_spaced
from .result import BaseEstimate
from .samples import Samples

BODY_PARAMETERS = ("m", "m cx", "m cy", "m cz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
FEATURES = (
    "armature",
    "damping",
    "friction",
    "offset",
    "stribeck",
    "root_friction",
    "load_friction",
)
_OPTIONAL_FEATURES = ("root_friction", "load_friction")
# features whose sign is the direction of motion
DIRECTED_FEATURES = ("friction", "stribeck", "root_friction", "load_friction")
ANGULAR_UNITS = ("kg m2", "N m s/rad", "N m", "N m", "N m", "N m (s/rad)^0.5", "")
LINEAR_UNITS = ("kg", "N s/m", "N", "N", "N", "N (s/m)^0.5", "")
# order within a body that leads to the usual combinations: Ixx - Iyy, masses last
_LEADING_NUMBERS = ("Ixx", "Ixy", "Ixz", "Iyz", "Izz", "m cx", "m cy", "m cz", "Iyy", "m")
_POSE_COUNT = 30  # random poses, to compare the torques of motions and of gravity


class Unknowns:
    """The p parameters of a robot: 10 for each joint's body, then each feature for each velocity.

    ``further`` adds features of some joints, (nv,) of bool by name.

    Attributes
    ----------
    chosen_features : tuple of str
        Features of all joints with one coordinate.
    features : tuple of str
        Names of all features, also those that only some joints have.
    body_parameter_count : int
        Number of parameters of bodies, 10 for each.
    names, units : tuple of str, length p
        Such as "friction(elbow)" and "N m".
    is_active : (p,) ndarray of bool
        True for parameters that are estimated.
    order : list of int
        Parameters in the order in which they are preferred as leading ones of combinations.
    row_columns : (nv, c) ndarray of int
        Columns of each row of the equations: of all bodies and of the joint's features, or all
        columns if rows are combined.
    """

    def __init__(
        self,
        model: Model,
        chosen: Sequence[str],
        are_combined: bool = False,
        further: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.model, self.chosen_features = model, tuple(chosen)
        self.body_parameter_count = 10 * model.njoints
        has_further = any(
            np.any(joints) for name, joints in (further or {}).items() if name in _OPTIONAL_FEATURES
        )
        self.features = FEATURES if has_further else FEATURES[: -len(_OPTIONAL_FEATURES)]
        self.names = (
            *(f"{number}({joint})" for joint in model.joint_names for number in BODY_PARAMETERS),
            *(f"{feature}({name})" for feature in self.features for name in model.velocity_names),
        )
        linear_rows = is_linear(model)
        self.units = (
            *("kg", *3 * ("kg m",), *6 * ("kg m2",)) * model.njoints,
            *(
                (LINEAR_UNITS if linear_rows[k] else ANGULAR_UNITS)[n]
                for n in range(len(self.features))
                for k in range(model.nv)
            ),
        )
        is_estimated = np.isin(self.features, chosen)[:, None] & has_single_coordinate(model)
        is_estimated[0] &= ~model.drives.is_link_side  # link-side sensors do not measure rotors
        for name, joints in (further or {}).items():
            if name in self.features:
                is_estimated[self.features.index(name)] |= joints
        self.is_active = np.concatenate(
            [np.ones(self.body_parameter_count, bool), is_estimated.ravel()]
        )
        body_order = [BODY_PARAMETERS.index(name) for name in _LEADING_NUMBERS]
        self.order = [10 * i + k for i in range(model.njoints) for k in body_order]
        self.order += range(self.body_parameter_count, len(self.names))
        feature_columns = (
            self.body_parameter_count
            + np.arange(model.nv)[:, None]
            + model.nv * np.arange(len(self.features))
        )
        self.row_columns = (
            np.tile(np.arange(len(self.names)), (model.nv, 1))
            if are_combined
            else np.hstack(
                [np.tile(np.arange(self.body_parameter_count), (model.nv, 1)), feature_columns]
            )
        )

    def __len__(self) -> int:
        return len(self.names)


def expand_features(features: Array) -> Array:
    """Expand features of each row, (B, nv, F), to the columns of all joints, (B, nv, F nv)."""
    size, nv, _ = features.shape
    return np.einsum("bkf,kj->bkfj", features, np.eye(nv)).reshape(size, nv, -1)


@dataclass(frozen=True, repr=False)
class BaseParameters:
    """Combinations of a robot's parameters on which its torques depend.

    Attributes
    ----------
    parameter_names : tuple of str, length p
        All parameters: 10 for each joint's body, such as "Ixx(elbow)", then armature, damping,
        friction, offset and stribeck of each velocity, such as "friction(elbow)"; and their
        root_friction and load_friction if a joint has one of these.
    names : tuple of str, length b
        The combinations, such as "Ixx(elbow) - Iyy(elbow) + 0.25 m(wrist)".
    units : tuple of str, length b
        Units of the combinations.
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
    """Compute the combinations of parameters on which a robot's torques depend.

    The regressor of random motions within the position limits is decomposed numerically: its rank,
    by QR with column pivoting, is the number of base parameters. Parameters of bodies close to the
    root lead the combinations.

    Parameters
    ----------
    model : Model
    armature, friction : bool
        Include the parameters that ``identify`` estimates if these are true.
    seed : int
        Seed of the random motions.

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
    return find_base_parameters(
        Unknowns(require_model(model), FEATURES[not armature : 1 + 3 * friction]), seed
    )


def find_base_parameters(unknowns: Unknowns, seed: int = 0) -> BaseParameters:
    """Compute the combinations of the active parameters that random motions determine.

    ``seed`` is of these motions.
    """
    W = random_regressor(unknowns, np.random.default_rng(seed))
    independent, matrix, condition = independent_columns(W, unknowns.order)
    leading = independent.tolist()
    return BaseParameters(
        unknowns.names,
        tuple(combination_text(row, lead, unknowns.names) for row, lead in zip(matrix, leading)),
        tuple(unknowns.units[lead] for lead in leading),
        independent,
        matrix,
        condition,
    )


def random_regressor(unknowns: Unknowns, rng: np.random.Generator) -> Array:
    """Return the torque regressor of random motions, with enough rows for all parameters."""
    model = unknowns.model
    size = 20 + 4 * len(unknowns) // max(model.nv, 1)
    q = np.array([model.random_configuration(rng) for _ in range(size)])
    v, a = rng.normal(0.0, 2.0, (2, size, model.nv))
    bodies = torque_regressor(model, Data(model), q, v, a)
    s, load = np.sign(v), np.abs(bodies.sum(axis=2))
    features = np.stack(
        [a, v, s, np.ones_like(v), s * np.exp(-(v**2)), s * np.sqrt(np.abs(v)), s * load], axis=2
    )[:, :, : len(unknowns.features)]
    W = np.concatenate([bodies, expand_features(features)], axis=2).reshape(-1, len(unknowns))
    return W * unknowns.is_active


def independent_columns(W: Array, order: Sequence[int]) -> tuple[np.ndarray, Array, float]:
    """Find the independent columns of a regressor, and how the others depend on them.

    Columns are visited in ``order``; a column that is not a combination of the previous ones is
    independent. Returns their indices, the (b, p) matrix of the combinations, and the condition
    number of the independent columns, scaled to equal length.
    """
    lengths = np.linalg.norm(W, axis=0)
    is_nonzero = lengths > 1e-12 * lengths.max(initial=0.0)
    scaled = np.where(is_nonzero, W / np.where(is_nonzero, lengths, 1.0), 0.0)
    rank = _numerical_rank(scaled[:, is_nonzero])
    basis = np.zeros((len(W), rank))
    chosen: list[int] = []
    for j in order:
        if len(chosen) == rank or not is_nonzero[j]:
            continue
        residual = scaled[:, j].copy()
        for _ in range(2):  # twice is enough (Kahan)
            residual -= basis[:, : len(chosen)] @ (basis[:, : len(chosen)].T @ residual)
        length = np.linalg.norm(residual)
        if length > RELATIVE_TOLERANCE:
            basis[:, len(chosen)] = residual / length
            chosen.append(j)
    independent = np.array(chosen, int)
    Q = basis[:, : len(chosen)]
    R = Q.T @ scaled[:, independent]
    coefficients = solve_triangular(R, Q.T @ scaled) if chosen else Q.T @ scaled
    coefficients[np.abs(coefficients) < RELATIVE_TOLERANCE] = 0.0
    matrix = coefficients * lengths / lengths[independent, None]
    matrix[:, independent] = np.eye(len(chosen))
    singular = np.linalg.svd(R, compute_uv=False)
    return independent, matrix, float(singular[0] / singular[-1]) if chosen else 1.0


def _numerical_rank(scaled: Array) -> int:
    """Return the numerical rank of a matrix, by QR with column pivoting."""
    if not scaled.size:
        return 0
    diagonal = np.abs(np.diag(qr(scaled, mode="r", pivoting=True)[0]))
    return int((diagonal > RELATIVE_TOLERANCE * diagonal[0]).sum())


def combination_text(row: Array, lead: int, names: Sequence[str]) -> str:
    """Return a combination as text, with its leading parameter first."""
    text = names[lead]
    for j in np.flatnonzero(row).tolist():
        if j != lead:
            size = abs(row[j])
            factor = "" if abs(size - 1.0) < 1e-6 else f"{size:.4g} "
            text += f" {'-' if row[j] < 0.0 else '+'} {factor}{names[j]}"
    return text


# --- undetermined parameters


def undetermined_remedies(
    unknowns: Unknowns, base: BaseParameters, values: BaseEstimate, samples: Samples
) -> tuple[str, ...]:
    """Return a sentence for each base parameter that the recording does not determine."""
    undetermined_numbers = [
        n for n, excitation in enumerate(values.excitation) if excitation == "not"
    ]
    if not undetermined_numbers:
        return ()
    responses = _torque_responses(unknowns.model)
    max_speed = np.quantile(
        np.abs(samples.v[evenly_spaced(len(samples), STATISTICS_SAMPLES)]), 0.99, axis=0
    )
    rms_acceleration = np.sqrt(
        (samples.a[evenly_spaced(len(samples), STATISTICS_SAMPLES)] ** 2).mean(axis=0)
    )
    return tuple(
        base.names[n]
        + ": "
        + _describe_remedy(unknowns, base.independent[n], responses, max_speed, rms_acceleration)
        for n in undetermined_numbers
    )


def _describe_remedy(
    unknowns: Unknowns, lead: int, responses: Array, max_speed: Array, rms_acceleration: Array
) -> str:
    """Return a sentence about the motion that would determine a parameter."""
    model = unknowns.model
    if lead >= unknowns.body_parameter_count:
        k = (lead - unknowns.body_parameter_count) % model.nv
        return (
            f"move {model.velocity_names[k]} in both directions, at several speeds; it reached "
            f"{max_speed[k]:.2g} {_position_unit(model, k)}/s"
        )
    k = int(np.argmax(responses[:, lead]))
    if k == model.nv:
        return "visit more poses, which changes the torque of gravity"
    return (
        f"accelerate {model.velocity_names[k]} more, in different poses; its RMS acceleration "
        f"was {rms_acceleration[k]:.2g} {_position_unit(model, k)}/s2"
    )


def _position_unit(model: Model, k: int) -> str:
    """Return the unit of a position."""
    return "m" if is_linear(model)[k] else "rad"


def _torque_responses(model: Model) -> Array:
    """Return the response of torques to joint motions and gravity, by parameter, (nv + 1, p)."""
    rng, data = np.random.default_rng(0), Data(model)
    q = np.array([model.random_configuration(rng) for _ in range(_POSE_COUNT)])
    zero = np.zeros((_POSE_COUNT, model.nv))
    gravity = joint_torque_regressor(model, data, q, zero, zero).copy()
    responses = []
    for k in range(model.nv):
        a = zero.copy()
        a[:, k] = 1.0
        response = joint_torque_regressor(model, data, q, zero, a) - gravity
        responses.append(np.abs(response).max(axis=(0, 1)))
    return np.array([*responses, np.abs(gravity).max(axis=(0, 1)) / 10.0])
