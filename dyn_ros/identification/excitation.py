# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Periodic trajectories to record, which excite a robot's parameters."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path

import numpy as np

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import Array, ArrayLike
from ..engine.kernel.validation import finite_number, require_model
from ..engine.model import Model
from ..engine.model.drives import with_torque_efforts
from ..files.writing import write_whole_text
from .samples import Samples
from .trajectory_search import Box, Series, TrajectorySearch, joint_limits

_MAX_SAMPLES = 10**7  # samples of a trajectory


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Excitation:
    """A trajectory to record for identification.

    Every joint moves along a Fourier series, and all have the same period. It starts and ends at
    rest, where velocities and accelerations are zero. Move the robot to ``q[0]`` first.

    Attributes
    ----------
    model : Model
    time : (B,) ndarray
        Time from the start [s].
    q, v, a : (B, nv) ndarray
        Positions, velocities and accelerations.
    tau : (B, nv) ndarray
        Torques of the motors according to the model, with its friction [N m, N].
    condition : float
        Condition number of the base regressor of the trajectory, with columns of equal length and
        rows divided by the limits of the torques.
    period : float
        [s]; the duration is a multiple of it.
    center : (nv,) ndarray
        Mean positions.
    coefficients : (nv, 2, harmonics) ndarray
        Factors of the sines and cosines of 1, 2, ... times the angle 2 pi t / period.

    Examples
    --------
    >>> motion = dyn_ros.excite(
    ...     model, duration=4.0, period=4.0, harmonics=3, rate=50.0, starts=1,
    ...     joints=model.joint_names[-2:])
    >>> motion.q.shape, motion.samples().tau.shape
    ((201, 7), (201, 7))
    """

    model: Model
    time: Array
    q: Array
    v: Array
    a: Array
    tau: Array
    condition: float
    period: float
    center: Array
    coefficients: Array

    def __repr__(self) -> str:
        return (
            f"Excitation({self.model.name!r}, {self.time[-1]:g} s, condition={self.condition:.3g})"
        )

    def at(self, time: ArrayLike) -> tuple[Array, Array, Array]:
        """Return positions, velocities and accelerations at other times.

        Parameters
        ----------
        time : (B,) array_like
            [s].

        Returns
        -------
        q, v, a : (B, nv) ndarray
        """
        nv, _, harmonics = self.coefficients.shape
        series = Series(harmonics, self.period, np.asarray(time, float))
        return series.motion(self.center, self.coefficients.reshape(nv, -1))

    def samples(self) -> Samples:
        """Return the trajectory as a recording of the model, without noise."""
        return Samples.from_arrays(
            with_torque_efforts(self.model), self.time, self.q, self.tau, self.v, self.a
        )

    def write(self, path: str | PathLike[str], rate: float = 10.0) -> None:
        r"""Write the trajectory to a file.

        ``.yaml`` and ``.json`` are a trajectory_msgs/JointTrajectory, which ``ros2 topic pub``
        accepts. Its points have positions, velocities and accelerations, between which controllers
        interpolate by splines of fifth degree::

            ros2 topic pub --once --stdin /joint_trajectory_controller/joint_trajectory \
              trajectory_msgs/msg/JointTrajectory < motion.yaml

        ``.csv`` has the columns ``time``, ``position.NAME``, ``velocity.NAME``,
        ``acceleration.NAME`` and ``effort.NAME``.

        Parameters
        ----------
        path : str or PathLike
        rate : float
            Points per second of a JointTrajectory.

        Raises
        ------
        ValueError
            Another suffix, or a rate that is not positive.
        """
        rate = finite_number("rate", rate)
        if rate <= 0.0:
            raise ValueError(f"rate: expected points per second, more than 0, got {rate:g}")
        if trajectory_suffix(path) == ".csv":
            self.samples().to_table(self.model, path)
            return
        if self.time[-1] * rate > _MAX_SAMPLES:
            raise ValueError(
                f"rate: expected at most {_MAX_SAMPLES:g} points, got {rate:g} per second "
                f"for {self.time[-1]:g} s; pass a smaller one"
            )
        count = max(2, round(self.time[-1] * rate) + 1)
        time = np.linspace(0.0, self.time[-1], count)
        _write_trajectory(path, self.model.velocity_names, time, *self.at(time))


def excite(
    model: Model,
    *,
    duration: float = 20.0,
    period: float = 10.0,
    harmonics: int = 5,
    rate: float = 100.0,
    margin: float = 0.9,
    rest: ArrayLike | None = None,
    velocity_limit: ArrayLike | None = None,
    acceleration_limit: ArrayLike | None = None,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
    joints: Sequence[str] | None = None,
    workspace: Mapping[str, Box] | None = None,
    armature: bool = True,
    starts: int = 3,
    seed: int = 0,
    progress: Callable[[float, int], object] | None = None,
) -> Excitation:
    """Compute a periodic trajectory from which a robot's parameters can be identified.

    Each joint moves along a Fourier series (Swevers et al. 1997), whose coefficients minimize the
    RMS standard deviation of the base parameters (A-optimality), each relative to its contribution
    to the torques of random motions within the limits. Compared with the smallest condition
    number, it rewards large motions as well: standard deviations are about 40 % smaller, at a
    condition number within 15 % of the smallest. The noise of torques is in proportion to their
    limits. The regressor includes viscous friction, Coulomb friction and offsets. Several random
    starts are improved by L-BFGS; the best one is returned.

    Positions, velocities and accelerations keep their limits at every instant, which follows from
    the series; torques and the workspace do so at instants ten times as dense as in the
    optimization. **Collisions of the robot with itself, the floor or other things are not
    checked**: use ``workspace`` and look at the motion before you run it.

    Parameters
    ----------
    model : Model
        A robot with a fixed base, whose joints have one coordinate. Its torques and its limits are
        from the description; the margin allows for its errors.
    duration : float
        [s], rounded to whole periods.
    period : float
        [s]. Longer ones allow larger motions within the limits of the velocities.
    harmonics : int
        Number of sines and cosines of each joint, at least 3.
    rate : float
        Samples of the result per second.
    margin : float
        Fraction of the limits that is used, more than 0 and at most 1. Position limits shrink
        around their middle.
    rest : (nq,) array_like, optional
        Positions of the joints that do not move; by default zero, or the closest limit.
    velocity_limit, acceleration_limit : float or (nv,) array_like, optional
        [rad/s, m/s] and [rad/s2, m/s2]. By default the model's velocity limits, or 2 rad/s and
        0.5 m/s if there are none; and 5 rad/s2 and 2 m/s2.
    lower, upper : (nq,) array_like, optional
        Position limits that replace the model's. Where there are none, or numbers above 8 pi rad
        or 100 m that stand for none, they are 3 rad or 0.5 m before and after ``rest``.
    joints : sequence of str, optional
        Names of the joints to move; by default all. Other joints rest.
    workspace : dict of str to (low, high), optional
        Lowest and highest corner (3,) of a box, in the world [m], in which the origin of a frame
        stays, by the name of the frame.
    armature : bool
        Include rotor inertias in the parameters.
    starts : int
        Number of random starts.
    seed : int
        The same seed returns the same trajectory.
    progress : callable, optional
        Called with the number of completed starts, which is no integer within a start, and of all.

    Raises
    ------
    ValueError
        An argument that is invalid, a joint with several coordinates, or limits that no trajectory
        keeps.

    References
    ----------
    Swevers, J., Ganseman, C., Tuekel, D. B., De Schutter, J. and Van Brussel, H.: Optimal robot
    excitation and identification. IEEE Transactions on Robotics and Automation 13 (1997).

    Examples
    --------
    Two joints move for 4 s, within their limits, from rest to rest:

    >>> motion = dyn_ros.excite(
    ...     model, duration=4.0, period=4.0, harmonics=3, rate=50.0, starts=1,
    ...     joints=model.joint_names[-2:])
    >>> bool((abs(motion.v) <= model.velocity_limit).all()), np.allclose(motion.v[0], 0.0)
    (True, True)
    """
    _require_single_coordinates(model)
    positive_numbers = {"period": period, "duration": duration, "rate": rate, "margin": margin}
    for name, value in positive_numbers.items():
        if not finite_number(name, value) > 0.0:
            raise ValueError(f"{name}: expected more than 0, got {short_repr(value)}")
    if margin > 1.0:
        raise ValueError(f"margin: expected at most 1, got {short_repr(margin)}")
    if harmonics < 3 or starts < 1:
        raise ValueError(
            "expected at least 3 harmonics, which start at rest, and 1 start, got "
            f"harmonics={short_repr(harmonics)}, starts={short_repr(starts)}"
        )
    if seed < 0:
        raise ValueError(f"seed: expected an integer >= 0, got {seed}")
    if max(period, duration) * rate > _MAX_SAMPLES:
        raise ValueError(
            f"duration: expected at most {_MAX_SAMPLES:g} samples of the result, got a "
            f"period of {period:g} s and a duration of {duration:g} s at "
            f"rate={rate:g}; pass smaller ones"
        )
    limits = joint_limits(
        model,
        rest=rest,
        lower=lower,
        upper=upper,
        velocity=velocity_limit,
        acceleration=acceleration_limit,
        joints=joints,
        margin=margin,
    )

    def show_progress(start: int, fraction: float) -> None:
        if progress is not None:
            progress(start + fraction, starts)

    search = TrajectorySearch(model, limits, period, harmonics, workspace or {}, armature)
    rng = np.random.default_rng(seed)
    trajectories = []
    for start in range(starts):
        trajectories.append(search.find_trajectory(rng, partial(show_progress, start)))
        show_progress(start, 1)
    best = min(trajectories, key=lambda trajectory: trajectory.deviation)
    if best.fault:
        raise ValueError(
            f"no trajectory was found that keeps the limits: {best.fault}. Narrow "
            "lower and upper to positions that keep them, or pass other limits"
        )
    time, motion, tau, condition = search.sample_trajectory(
        best, rate, max(1, round(duration / period))
    )
    return Excitation(
        model,
        time,
        *motion,
        tau,
        condition,
        period,
        best.center,
        best.coefficients.reshape(model.nv, 2, harmonics),
    )


def _require_single_coordinates(model: Model) -> None:
    """Raise a ValueError if a joint has several coordinates, or none moves."""
    described_joints = [
        f"{joint.name!r} ({joint.kind})"
        for joint, nv in zip(require_model(model).tree.joints, model.nvs)
        if nv > 1
    ]
    if described_joints:
        raise ValueError(
            f"model: expected joints with one coordinate, got {', '.join(described_joints)}; "
            "lock them with model.reduced, or describe them as fixed"
        )
    if not model.nv:
        raise ValueError("model: the robot has no joints that move")


# --- files


def trajectory_suffix(path: str | PathLike[str]) -> str:
    """Return ``.yaml``, ``.json`` or ``.csv``; raise a ValueError for other files."""
    ending = Path(path).suffix.lower().replace(".yml", ".yaml")
    if ending not in (".yaml", ".json", ".csv"):
        raise ValueError(f"{str(path)!r}: expected a file that ends with .yaml, .json or .csv")
    return ending


def _write_trajectory(
    path: str | PathLike[str], names: Sequence[str], time: Array, q: Array, v: Array, a: Array
) -> None:
    """Write a trajectory_msgs/JointTrajectory of times (B,) from the start [s], as JSON or YAML."""

    def round_numbers(values: Array) -> list[float]:
        """Return numbers with six decimals, without -0."""
        return [round(float(value), 6) + 0.0 for value in values]

    points = []
    for seconds, *point_values in zip(time, q, v, a):
        point: dict[str, object] = dict(
            zip(("positions", "velocities", "accelerations"), map(round_numbers, point_values))
        )
        sec, nanosec = divmod(round(1e9 * float(seconds)), 10**9)
        points.append(point | {"time_from_start": {"sec": sec, "nanosec": nanosec}})
    if trajectory_suffix(path) == ".json":
        text = json.dumps({"joint_names": list(names), "points": points}) + "\n"
    else:
        lines = [
            f"joint_names: {json.dumps(list(names))}",
            "points:",
            *(f"- {json.dumps(point)}" for point in points),
        ]
        text = "\n".join(lines) + "\n"
    write_whole_text(path, text)
