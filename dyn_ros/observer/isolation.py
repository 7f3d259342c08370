# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which link is touched, and by what force along which line, from external efforts.

A force on a link is felt by the joints between this link and the root, and by no others. Each link
is a hypothesis: the efforts are noise, plus what a wrench w on this link causes. Before anything is
measured, w is normally distributed: the force with a standard deviation of ``force``, the moment
about the center of the link with this times the length of the link. The best wrench of each
hypothesis is then the minimum of a quadratic cost, and its evidence, the probability of the efforts,
follows from the cost and a determinant. The determinant is what decides in favor of the link
nearest to the root that explains the efforts: further links, whose joints could have felt the
force, but did not, are less probable.

A single contact exerts a force along a line and no torque, f . m = 0. The minimum of the cost under
this condition is found exactly: in coordinates in which the cost is a squared distance and the
condition is sum(k_i x_i^2) = 0, each x_i is divided by 1 + nu k_i, and nu is the only zero of a
monotone function.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..algorithms import joint_jacobians
from ..model import Data, Model
from ..model.types import ArrayLike
from ..spatial.types import Array
from .noise import external_effort, whitener
from .wrenches import _positive

_THRESHOLD_DEVIATIONS = 3.0     # of an effort, in its threshold
_PRECISION = 1e-6               # of efforts, relative to the largest one divided by its deviation
_SCREEN = 40.0                  # twice the log of the ratio of evidences: links to examine
_MOST_LINKS = 8                 # that are examined
_POSSIBLE = 9.0                 # additional cost of links that are possible: 3 standard deviations
_PROBABLE = 6.0                 # or twice the log of the ratio of evidences, a factor of 20
_IMPROBABLE = 0.05              # links that do not contribute to the covariance
_TORQUE = 16.0                  # cost of a contact that exerts a torque: 4 standard deviations
_DETERMINED = 0.5               # largest standard deviation of a force, relative to it
_LINE = 0.1                     # m: largest standard deviation of the line of action
_SHORTEST = 0.05                # m: length of a link
_MOST_STEPS = 100
_ROUNDING = 1e-12
_TINY = 1e-300
_FAR = 1e3                      # standard deviations: where a second solution is impossible
_NAN3 = np.full(3, np.nan)
_HALF_EXCHANGE = 0.5 * np.eye(6)[[3, 4, 5, 0, 1, 2]]    # w' G w = f . m


@dataclass(frozen=True, repr=False)
class IsolatedContact:
    """The result of ``dyn_ros.isolate_contact``. Vectors are expressed in the world.

    Attributes
    ----------
    collision : bool
        Whether the external effort of a joint exceeds its threshold. If not, all values below are
        empty, zero or NaN.
    joints : tuple of str
        Joints whose external effort exceeds the threshold.
    link : str
        The link that is most probably touched. Links that are fixed to each other are one body; the
        name is that of its first link. Empty without a collision.
    possible_links : tuple of str
        All links that explain the efforts, with ``link``, most probable first. Those after it
        require that the force passes the axes of their joints, so that these feel nothing.
    probabilities : tuple of float
        Of ``possible_links``, if all links are touched equally often.
    explained : bool
        Whether a single contact explains all efforts: no residual exceeds the threshold. If not,
        there are several contacts, or the efforts have large errors.
    residual : (nv,) ndarray
        The part of the external efforts that is not explained [N m, N].
    force : (3,) ndarray
        The force on the robot [N]; of the part that the efforts do not determine, the most probable
        value. See ``determined``.
    covariance : (3, 3) ndarray
        Of the errors of ``force`` [N2].
    determined : bool
        Whether the efforts determine the force: the standard deviation in no direction exceeds half
        of it. With fewer than five joints before the contact this is rare.
    magnitude, deviation : float
        Of the force, with its standard deviation [N]; NaN if the force is not determined.
    direction : (3,) ndarray
        Of the force, a unit vector; NaN if the force is not determined.
    direction_deviation : float
        Its standard deviation in the worst direction [rad]; NaN if the force is not determined.
    line_valid : bool
        Whether the efforts determine the line of action: the standard deviation of ``point`` is at
        most 0.1 m.
    point : (3,) ndarray
        Of the line of action, the point nearest to the origin of the link, in the world [m]; NaN if
        the line is not valid. The contact is where the line enters the link.
    point_deviation : float
        Its standard deviation in the worst direction [m]; NaN if the force is not determined.
    is_pure_force : bool
        Whether a force without torque explains the efforts. If not, ``force`` belongs to a wrench
        with a torque, and the line is its central axis.
    torque, torque_deviation : float
        Torque about the line of action, with its standard deviation [N m]: a moment that no force
        explains. NaN if the efforts do not determine it, which requires six joints.
    """

    collision: bool
    joints: tuple[str, ...]
    link: str
    possible_links: tuple[str, ...]
    probabilities: tuple[float, ...]
    explained: bool
    residual: Array
    force: Array
    covariance: Array
    determined: bool
    magnitude: float
    deviation: float
    direction: Array
    direction_deviation: float
    line_valid: bool
    point: Array
    point_deviation: float
    is_pure_force: bool
    torque: float
    torque_deviation: float

    def __repr__(self) -> str:
        """Return the link and the force."""
        if not self.collision:
            return "IsolatedContact(no collision)"
        force = (f"{self.magnitude:.4g} N +- {self.deviation:.2g} N" if self.determined
                 else "force not determined")
        return f"IsolatedContact({self.link!r}, {force})"


def isolate_contact(model: Model, data: Data, q: ArrayLike, tau_ext: ArrayLike,
                    threshold: ArrayLike, *, covariance: ArrayLike | None = None,
                    force: float = 100.0) -> IsolatedContact:
    """Find the link that a single unknown contact touches, and the force and its line of action.

    Haddadin, De Luca and Albu-Schaeffer (2017), section V: the joints before the contact feel it,
    those beyond it do not; with six joints or more before it, the force and its line of action
    follow. Here each link is a hypothesis, weighted by the noise of the efforts, and the contact
    exerts a force without a torque: five joints can suffice. Robots may branch and may have a
    floating base, whose external wrench, if it is known, determines the force.

    What joints cannot show: a contact with a fixed base; forces through all their axes; on which of
    several links a force acts whose line passes the axes between them; where on its line it acts,
    and so whether it pushes or pulls.

    Parameters
    ----------
    model : Model
    data : Data
        Created for this model.
    q : (nq,) array_like
        Configuration [rad, m].
    tau_ext : (nv,) array_like
        Efforts that the environment exerts on the joints [N m, N], as ``MomentumObserver`` returns
        them.
    threshold : float or (nv,) array_like
        Efforts above it are a collision [N m, N]; positive. Infinite for joints whose efforts are
        not measured.
    covariance : (nv, nv) array_like, optional
        Covariance of the errors of ``tau_ext`` [N2 m2, N2]. By default the errors are independent,
        with a standard deviation of a third of the threshold.
    force : float
        Typical magnitude of unknown forces [N]. Its order of magnitude is enough.

    Returns
    -------
    IsolatedContact

    Raises
    ------
    ValueError
        An invalid array, a threshold or force that is not positive, or a covariance that is not
        positive definite; names the argument, the expected and the actual value.

    References
    ----------
    Haddadin, S., De Luca, A. and Albu-Schaeffer, A.: Robot collisions: a survey on detection,
    isolation, and identification. IEEE Transactions on Robotics 33 (2017).
    """
    tau = _one_state(external_effort(model, tau_ext))
    limits = _thresholds(model, threshold)
    exceeding = np.abs(tau) > limits
    bodies = _bodies(model)
    if not exceeding.any() or not len(bodies.names):
        return _nothing(tau)
    force = _positive("force", force)
    places = _places(model, data, q, bodies)
    W = _weights(model, limits, covariance, tau)
    found = _hypotheses(places, W, tau, bodies.lengths, force)
    explaining = [each for each in found if (np.abs(each.residual) <= limits).all()]
    found = explaining or found
    best = found[0]
    lowest = min(each.cost for each in found)
    possible = [each for each in found if each.cost <= lowest + _POSSIBLE
                or each.score <= best.score + _PROBABLE]
    odds = [math.exp(0.5 * (best.score - each.score)) for each in possible]
    probabilities = [each / sum(odds) for each in odds]
    origin = places.origins[best.body]
    wrench, spread = _at_point(possible, probabilities, places.centers, origin)
    return IsolatedContact(
        True, tuple(dict.fromkeys(bodies.joints[k] for k in np.flatnonzero(exceeding))),
        bodies.names[best.body], tuple(bodies.names[each.body] for each in possible),
        tuple(probabilities), bool(explaining), best.residual,
        *_force_and_line(best, wrench, spread, origin))


# --- arguments

def _one_state(tau: Array) -> Array:
    if tau.ndim > 1:
        raise ValueError(f"tau_ext: expected a single state, got a batch of shape {tau.shape}; "
                         "pass one state after the other")
    return tau


def _thresholds(model: Model, threshold: ArrayLike) -> Array:
    """One positive number for each effort; infinite ones are allowed."""
    limits = np.asarray(threshold)
    expected = f"threshold: expected {model.nv} positive numbers, or one for all"
    if limits.dtype.kind not in "fiu" or limits.shape not in ((), (model.nv,)):
        raise ValueError(f"{expected}, got {threshold!r:.80}")
    limits = np.array(np.broadcast_to(limits, (model.nv,)), float)
    if not (limits > 0.0).all():                    # or NaN
        k = int(np.argmin(limits > 0.0))
        raise ValueError(f"{expected}, got {limits[k]:g} in threshold[{k}] "
                         f"({model.velocity_names[k]!r})")
    return limits


def _weights(model: Model, limits: Array, covariance: ArrayLike | None, tau: Array) -> Array:
    """The matrix that makes the errors of efforts unit noise, or larger for huge efforts."""
    W = np.diag(_THRESHOLD_DEVIATIONS / limits) if covariance is None else whitener(
        model, covariance)
    largest = float(np.abs(W @ tau).max())
    return W / max(1.0, _PRECISION * largest)


def _nothing(tau: Array) -> IsolatedContact:
    nan = math.nan
    return IsolatedContact(False, (), "", (), (), True, np.array(tau), np.zeros(3),
                           np.zeros((3, 3)), False, nan, nan, _NAN3.copy(), nan, False,
                           _NAN3.copy(), nan, True, nan, nan)


# --- the robot

class _Bodies(NamedTuple):
    """The bodies that can be touched, nb, and the joints that move them."""

    numbers: Array              # of their joints, (nb,)
    names: tuple[str, ...]      # of their first links
    centers: Array              # in the frames of their joints, (nb, 3)
    lengths: Array              # (nb,)
    moves: Array                # (nb, ncolumns): 1 if a column of the Jacobian moves the body, or 0
    rows: Array | None          # (nv, ncolumns): 1 where a column belongs to a velocity; None: all
    joints: tuple[str, ...]     # of each velocity, the name of its joint


_known: WeakKeyDictionary[Model, _Bodies] = WeakKeyDictionary()


def _bodies(model: Model) -> _Bodies:
    """Those of a model, found once."""
    found = _known.get(model)
    if found is None:
        found = _known[model] = _find_bodies(model)
    return found


def _find_bodies(model: Model) -> _Bodies:
    joints, frames = model.tree.joints, model.tree.frames
    numbers = [j for j, joint in enumerate(joints) if joint.inertia.mass > 0.0]
    boxes = [_box(model, j) for j in numbers]
    owner = [j for j, joint in enumerate(joints)
             for _ in range(model._tree_table[j + 1, 4])]
    velocities = [model.idx_v[j] + k for j in range(model.njoints)
                  for k in range(model._tree_table[j + 1, 4])]
    moves = np.array([[float(i in model.supports[j]) for i in owner] for j in numbers])
    rows = np.eye(model.nv)[:, velocities]
    names = tuple(next(frame.name for frame in frames
                       if frame.parent == j and frame.kind == "body") for j in numbers)
    of_velocity = [""] * model.nv
    for j in reversed(range(model.njoints)):        # the master, not those that mimic it
        for k in range(model.idx_v[j], model.idx_v[j] + model.nvs[j]):
            of_velocity[k] = model.joint_names[j]
    return _Bodies(np.array(numbers, int), names, np.array([box[0] for box in boxes]),
                   np.array([box[1] for box in boxes]), moves,
                   None if np.array_equal(rows, np.eye(model.nv)) else rows, tuple(of_velocity))


def _box(model: Model, j: int) -> tuple[Array, float]:
    """Center and diagonal of the box around the frames of a body and the joints that it carries."""
    points = [np.zeros(3)]
    points += [joint.placement[:3, 3] for joint in model.tree.joints if joint.parent == j]
    for frame in model.tree.frames:
        if frame.parent == j:
            points.append(frame.placement[:3, 3])
            if frame.inertia.mass > 0.0:
                points.append(frame.placement[:3, :3] @ np.asarray(frame.inertia.com)
                              + frame.placement[:3, 3])
    low, high = np.min(points, axis=0), np.max(points, axis=0)
    return 0.5 * (low + high), max(float(np.linalg.norm(high - low)), _SHORTEST)


class _Places(NamedTuple):
    """The bodies at a configuration, in the world."""

    origins: Array              # (nb, 3)
    centers: Array              # (nb, 3)
    columns: Array              # (nb, nv, 6): efforts of a wrench at the center of each body


def _places(model: Model, data: Data, q: ArrayLike, bodies: _Bodies) -> _Places:
    J = joint_jacobians(model, data, q)
    if J.ndim > 2:
        raise ValueError(f"q: expected a single state, got a batch of shape {np.shape(q)}; pass one "
                         "state after the other")
    X = data.oMi[bodies.numbers]
    origins = X[:, :3, 3]
    centers = (X[:, :3, :3] @ bodies.centers[:, :, None])[:, :, 0] + origins
    angular = J[3:].T
    columns = np.empty((len(centers), len(angular), 6))
    columns[..., :3] = J[:3].T + angular @ _cross_matrices(centers)
    columns[..., 3:] = angular
    columns *= bodies.moves[:, :, None]
    if bodies.rows is not None:
        columns = bodies.rows @ columns
    return _Places(origins, centers, columns)


def _cross_matrices(c: Array) -> Array:
    """Matrices X with w @ X = w x c."""
    X = np.zeros((len(c), 3, 3))
    X[:, 0, 1], X[:, 0, 2], X[:, 1, 2] = -c[:, 2], c[:, 1], -c[:, 0]
    X[:, 1, 0], X[:, 2, 0], X[:, 2, 1] = c[:, 2], -c[:, 1], c[:, 0]
    return X


# --- hypotheses

class _Hypothesis(NamedTuple):
    """A link that may be touched, with the most probable wrench at its center."""

    body: int
    cost: float                 # squared distance from the efforts and from zero
    score: float                # -2 log(evidence), less a constant
    residual: Array             # (nv,): what the wrench does not explain
    wrench: Array               # (6,)
    covariance: Array           # (6, 6), with what the efforts do not determine
    is_pure_force: bool
    linear: Array               # (6,): the wrench if there were a torque
    linear_covariance: Array    # (6, 6)


def _hypotheses(places: _Places, W: Array, tau: Array, lengths: Array,
                force: float) -> list[_Hypothesis]:
    """The links that may be touched, most probable first.

    In the coordinates x = sqrt(1 + s^2) V' z, the cost is |x - x0|^2 plus a constant.
    """
    units = np.full((len(lengths), 6), force)
    units[:, 3:] *= lengths[:, None]
    Y, t = (W @ places.columns) * units[:, None, :], W @ tau
    kept, logdet = _screened(Y, t)
    U, s, Vt = np.linalg.svd(_at_least_six(Y[kept]), full_matrices=False)
    U, units = U[:, :len(t)], units[kept]
    root = np.sqrt(1.0 + s * s)
    part = t @ U
    x0 = s / root * part
    rest = t - _times(U, part)
    constant = (rest * rest).sum(axis=1) + ((part / root) ** 2).sum(axis=1)
    T = units[:, :, None] * np.swapaxes(Vt, 1, 2) / root[:, None, :]        # w = T x
    scale = (units[:, 0] * units[:, 5])[:, None, None]
    k, Q = np.linalg.eigh(np.swapaxes(T, 1, 2) @ _HALF_EXCHANGE @ T / scale)
    T, x0 = T @ Q, _times(np.swapaxes(Q, 1, 2), x0)
    nu = np.array([_multiplier(*each) for each in zip(k.tolist(), x0.tolist())])
    shrink = 1.0 / (1.0 + nu[:, None] * k)
    x = shrink * x0
    added = ((x - x0) ** 2).sum(axis=1)
    pure = added <= _TORQUE
    linear, spread = _times(T, x0), T @ np.swapaxes(T, 1, 2)
    wrench = np.where(pure[:, None], _times(T, x), linear)
    covariance = np.where(pure[:, None, None], _spread_of_forces(T, k, x, x0, shrink, Q[:, -1]),
                          spread)
    cost = constant + np.minimum(added, _TORQUE)
    residual = tau - _times(places.columns[kept], wrench)
    order = np.argsort(cost + logdet)
    return [_Hypothesis(int(kept[n]), float(cost[n]), float(cost[n] + logdet[n]), residual[n],
                        wrench[n], covariance[n], bool(pure[n]), linear[n], spread[n])
            for n in order]


def _times(A: Array, x: Array) -> Array:
    """Products of matrices and vectors, (k, i, j) and (k, j)."""
    product: Array = (A @ x[:, :, None])[:, :, 0]
    return product


def _at_least_six(Y: Array) -> Array:
    """Rows of zeros for robots with fewer joints."""
    if Y.shape[1] >= 6:
        return Y
    return np.concatenate([Y, np.zeros((len(Y), 6 - Y.shape[1], 6))], axis=1)


def _screened(Y: Array, t: Array) -> tuple[Array, Array]:
    """The bodies that may be touched by any wrench, and the determinants of their evidence."""
    Yt = np.swapaxes(Y, 1, 2)
    H = Yt @ Y + np.eye(6)
    z = np.linalg.solve(H, Yt @ t[:, None])[:, :, 0]
    rest = t - _times(Y, z)
    cost = (rest * rest).sum(axis=1) + (z * z).sum(axis=1)
    logdet = np.linalg.slogdet(H)[1]
    score = cost + logdet
    likely = (score <= score.min() + _SCREEN) | (cost <= cost.min() + _POSSIBLE + _TORQUE)
    kept = np.flatnonzero(likely)
    kept = kept[np.argsort(score[kept])][:_MOST_LINKS]
    return kept, logdet[kept]


def _multiplier(k: list[float], x: list[float]) -> float:
    """The zero of sum(k x^2 / (1 + nu k)^2), decreasing in nu, where each 1 + nu k is positive.

    By Newton's method, with bisection where it leaves the interval.
    """
    low, high = -1.0 / k[-1], -1.0 / k[0]
    nu = 0.0
    pairs = [(a, a * b * b) for a, b in zip(k, x)]
    for _ in range(_MOST_STEPS):
        value = slope = total = 0.0
        for a, w in pairs:
            d = 1.0 / (1.0 + nu * a)
            term = w * d * d
            value += term
            total += abs(term)
            slope -= 2.0 * term * a * d
        if abs(value) <= _ROUNDING * total:
            return nu
        if value > 0.0:
            low = nu
        else:
            high = nu
        nu -= value / slope
        if not low < nu < high:
            nu = 0.5 * (low + high)
    return nu


def _spread_of_forces(T: Array, k: Array, x: Array, x0: Array, shrink: Array,
                      direction: Array) -> Array:
    """Covariances of the wrenches without torque, (n, 6, 6).

    On the surface sum(k x^2) = 0, near x; and, with five joints, that of a second solution: these
    show all but one direction of wrenches, and on a line there are up to two pure forces.
    """
    g = k * x                                       # normal to the surface
    normal = shrink * g
    size = (g * normal).sum(axis=1)
    normal /= np.sqrt(np.maximum(size, _TINY))[:, None]
    inner = -normal[:, :, None] * normal[:, None, :]
    inner[:, range(6), range(6)] += shrink
    curvature = (k * direction * direction).sum(axis=1)
    slope = -2.0 * (g * direction).sum(axis=1)
    second = np.abs(slope) < _FAR * np.abs(curvature)
    move = np.where(second, slope / np.where(second, curvature, 1.0), 0.0)[:, None] * direction
    excess = ((x + move - x0) ** 2).sum(axis=1) - ((x - x0) ** 2).sum(axis=1)
    odds = np.exp(-0.5 * np.clip(excess, 0.0, 700.0))
    move *= (np.sqrt(odds) / (1.0 + odds))[:, None]
    inner += move[:, :, None] * move[:, None, :]
    spread: Array = T @ inner @ np.swapaxes(T, 1, 2)
    return spread


# --- force and line

def _at_point(possible: list[_Hypothesis], probabilities: list[float], centers: Array,
              point: Array) -> tuple[Array, Array]:
    """The most probable wrench at a point, (6,), and the covariance of all that are possible."""
    wrench, total, sum_of_weights = np.zeros(6), np.zeros((6, 6)), 0.0
    for n, (each, probability) in enumerate(zip(possible, probabilities)):
        if n > 0 and probability < _IMPROBABLE:
            break
        move = np.eye(6)
        move[3:, :3] = _skew(centers[each.body] - point)
        w, C = move @ each.wrench, move @ each.covariance @ move.T
        if n == 0:
            wrench = w
        total += probability * (C + np.outer(w - wrench, w - wrench))
        sum_of_weights += probability
    return wrench, total / sum_of_weights


def _force_and_line(found: _Hypothesis, wrench: Array, covariance: Array,
                    origin: Array) -> tuple[Any, ...]:
    """The fields of ``IsolatedContact`` from ``force`` on; the wrench acts at the origin."""
    f, m = wrench[:3].copy(), wrench[3:]
    C = covariance[:3, :3].copy()
    size = float(np.linalg.norm(f))
    nan = math.nan
    if size == 0.0 or _deviations(C[None])[0] > _DETERMINED * size:
        return (f, C, False, nan, nan, _NAN3.copy(), nan, False, _NAN3.copy(), nan,
                found.is_pure_force, nan, nan)
    u = f / size
    across = (np.eye(3) - np.outer(u, u)) / size
    p = _cross(f, m) / size ** 2
    D = np.empty((3, 6))                            # of p with respect to force and moment
    D[:, :3] = (-_skew(m) - 2.0 * np.outer(p, f)) / size ** 2
    D[:, 3:] = _skew(f) / size ** 2
    turn, spread = _deviations(np.array([across @ C @ across, D @ covariance @ D.T]))
    line_valid = spread <= _LINE
    return (f, C, True, size, math.sqrt(max(float(u @ C @ u), 0.0)), u, turn,
            line_valid, p + origin if line_valid else _NAN3.copy(), spread, found.is_pure_force,
            *_torque(found))


def _deviations(C: Array) -> list[float]:
    """The standard deviations in the worst directions of covariances, (k, i, i)."""
    worst: list[float] = np.sqrt(np.maximum(np.linalg.eigvalsh(C)[:, -1], 0.0)).tolist()
    return worst


def _torque(found: _Hypothesis) -> tuple[float, float]:
    """The torque about the force if there is one, and its standard deviation, or NaN."""
    f, m = found.linear[:3], found.linear[3:]
    C, size = found.linear_covariance, float(np.linalg.norm(f))
    if size == 0.0 or _deviations(C[None, :3, :3])[0] > _DETERMINED * size:
        return math.nan, math.nan
    u = f / size
    torque = float(u @ m)
    g = np.concatenate([(m - torque * u) / size, u])
    deviation = math.sqrt(max(float(g @ C @ g), 0.0))
    if deviation > _LINE * size:
        return math.nan, math.nan
    return torque, deviation


def _cross(a: Array, b: Array) -> Array:
    return np.array([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                     a[0] * b[1] - a[1] * b[0]])


def _skew(a: Array) -> Array:
    return np.array([[0.0, -a[2], a[1]], [a[2], 0.0, -a[0]], [-a[1], a[0], 0.0]])
