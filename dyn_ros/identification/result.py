# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Results of an identification."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from ..drives import save_drives
from ..drives.efforts import exclude_subtracted_gravity
from ..engine.algorithms import rnea
from ..engine.algorithms.dynamics.friction import add_compensated_gravity, friction_along
from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.model.coordinates import has_single_coordinate
from ..engine.model.urdf.text import END_OF_MESSAGE, MAX_CHARACTERS
from ..engine.model.write import write_urdf
from ..files.reading import read_regular_file
from ..files.writing import write_whole_file
from .equation_sums import rounding_deviation
from .friction_terms import friction_directions
from .motion.filtering import REST_SPEED_RATIO
from .motion.numerics import MIN_SPEED, robust_deviation
from .samples import Samples


@dataclass(frozen=True)
class JointResult:
    """Errors of the described and the identified model in the torques of one velocity.

    Attributes
    ----------
    name : str
        Name of the velocity, as in ``model.velocity_names``.
    unit : str
        "N m" or "N".
    before, after : float
        RMS difference of measured and modeled torque on held-out samples, with the parameters of
        the description and with those identified from the other samples [N m, N].
    least_squares : float
        The same difference with ``PlainModel``, from the same samples as ``after`` [N m, N].
    noise : float
        Standard deviation of the noise of the measured torque, from the second differences of
        consecutive residuals, also of samples that were not held out; at least the noise of
        rounding, if efforts have steps [N m, N]. No model can have a smaller error. Of a base, the
        noise of whose motion is smooth, it is ``after``.
    torque : float
        RMS measured torque [N m, N].

    Examples
    --------
    The recording was computed with the model, so that nothing is left to improve:

    >>> found = dyn_ros.identify(model, recording)
    >>> joint = found.joints[3]
    >>> joint.unit, bool(joint.after < 0.01 * joint.torque)
    ('N m', True)
    """

    name: str
    unit: str
    before: float
    least_squares: float
    after: float
    noise: float
    torque: float


@dataclass(frozen=True, repr=False, eq=False)
class PlainModel:
    """Result of plain least squares, to compare an identified model with.

    Rigid bodies with viscous and Coulomb friction and an offset of each joint, or motor, which
    minimize the squared errors of the torques, each joint divided by its RMS error. Bodies and
    friction need not be physical: masses and damping may be negative.

    Attributes
    ----------
    model : Model
        The robot with these bodies, without armature. Parameters that no torque depends on are 0.
    damping : (nv,) ndarray
        [N m s/rad, N s/m].
    friction, offset : (nv,) ndarray
        [N m, N].

    Examples
    --------
    >>> found = dyn_ros.identify(model, recording)
    >>> bool(abs(found.least_squares.friction - found.identified.friction).max() < 0.01)
    True
    """

    model: Model
    damping: Array
    friction: Array
    offset: Array

    def __repr__(self) -> str:
        return f"PlainModel({self.model.name!r})"

    def motor_torque(self, samples: Samples) -> Array:
        """Return the torques of the motors in samples, without gravity that drives subtract.

        Returns
        -------
        (B, nv) ndarray
            Torques [N m, N]; motors are joints unless the drives have a coupling.
        """
        model = self.model
        torque = rnea(model, Data(model), samples.q, samples.v, samples.a, samples.f_ext)
        torque = model.drives.to_motors(exclude_subtracted_gravity(model, samples.q, torque))
        v = model.drives.motor_velocity(samples.v)
        result: Array = torque + self.damping * v + self.friction * np.sign(v) + self.offset
        return result


@dataclass(frozen=True, repr=False)
class BaseEstimate:
    """Estimates of the base parameters, with 95 % confidence intervals.

    Attributes
    ----------
    names : tuple of str, length b
        The combinations of parameters, such as "Ixx(elbow) - Iyy(elbow)".
    units : tuple of str, length b
        Units of the values.
    matrix : (b, p) ndarray
        The values are ``matrix @ parameters``. Parameters are the 10 inertial ones of each body,
        in the order of ``Model.inertial_parameters``, then blocks of nv numbers: armature,
        damping, friction, offset and "stribeck"; if a joint has them, also "root_friction" and
        "load_friction".
    before, after : (b,) ndarray
        Values of the description and of the identified model.
    estimate : (b,) ndarray
        Weighted least squares, without regularization and without physical constraints. NaN if the
        recording does not determine the value.
    deviation : (b,) ndarray
        Standard deviation of ``estimate``; infinite if the recording does not determine the value.
    lower, upper : (b,) ndarray
        95 % confidence interval around ``after``; infinite if the recording does not determine the
        value.
    excitation : tuple of str, length b
        "well", "weakly" or "not": whether the deviation is below 10 % of the parameter's size,
        below 100 %, or above. The size is a typical value: for bodies, in a robot with bodies like
        the described bodies; for rotor inertia, friction and offsets, the value in the
        description, otherwise a small part of the joint's median torque, or the estimate if it is
        larger.

    Examples
    --------
    >>> found = dyn_ros.identify(model, recording)
    >>> found.base.names[0], found.base.excitation[0]
    ('Izz(shoulder_yaw) + Izz(shoulder_pitch) + armature(shoulder_yaw)', 'well')
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    matrix: Array
    before: Array
    after: Array
    estimate: Array
    deviation: Array
    lower: Array
    upper: Array
    excitation: tuple[str, ...]

    def __repr__(self) -> str:
        return f"BaseEstimate({len(self.names)} base parameters)"


@dataclass(frozen=True, repr=False)
class Identification:
    """Result of ``dyn_ros.identify``.

    Attributes
    ----------
    model : Model
        The robot as described.
    identified : Model
        A copy with the identified inertial parameters, armature, damping and friction, and with
        ``drives`` that have offsets and further terms of friction. Every body is physical.
    offset : (nv,) ndarray
        Constant torque of each joint [N m, N], which a URDF cannot express.
    stribeck : (nv,) ndarray
        Additional friction at low velocity [N m, N]; zeros unless requested or chosen.
    stribeck_velocity : (nv,) ndarray
        [rad/s, m/s]; infinite unless requested or chosen.
    joints : tuple of JointResult, length nv
        Errors of the torques; of motors, where these move several joints.
    base : BaseEstimate
    least_squares : PlainModel
        Plain least squares of the samples, to compare errors with; of long recordings, of those in
        ``samples``.
    friction_intervals : dict of str to (float, float)
        95 % intervals of the velocities and distances of friction in ``identified.drives`` that
        were estimated, by names such as "friction_velocity(elbow)" [rad/s, m/s, rad, m].
    samples : Samples
        The recording, or several; efforts times the motor constants, if these were given. Of long
        recordings, ``dyn_ros.logs.identify`` keeps some parts.
    size : int
        Number of samples that the parameters were estimated from.
    held_out : tuple of slice
        The blocks of samples on which ``joints`` compares torques.
    contact_dimension : int
        3 if the contacts of the samples transmit a force, 6 if also a moment.
    undetermined : tuple of str
        Base parameters that the recording does not determine, and motions that would determine
        them.
    faults : tuple of str
        Warnings that make the estimates unusable, such as efforts of the wrong sign, or masses
        that collapsed.
    warnings : tuple of str
        All warnings; first, these faults.
    seconds : float
        Duration of the estimation [s].

    Examples
    --------
    >>> found = dyn_ros.identify(model, recording)
    >>> bool(found.identified.is_physical.all()), len(found.joints)
    (True, 7)
    """

    model: Model
    identified: Model
    offset: Array
    stribeck: Array
    stribeck_velocity: Array
    joints: tuple[JointResult, ...]
    base: BaseEstimate
    least_squares: PlainModel
    friction_intervals: dict[str, tuple[float, float]]
    samples: Samples
    size: int
    held_out: tuple[slice, ...]
    contact_dimension: int
    undetermined: tuple[str, ...]
    faults: tuple[str, ...]
    warnings: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        return (
            f"Identification({self.model.name!r}, {len(self.joints)} joints, "
            f"{self.size} samples, {len(self.base.names)} base parameters)"
        )

    @property
    def validation(self) -> Samples:
        """Held-out samples, from which the errors in ``joints`` are computed."""
        return self.samples.take(
            np.concatenate([np.arange(block.start, block.stop) for block in self.held_out])
        )

    def torque(self, samples: Samples) -> Array:
        """Return the torques that the identified parameters predict for the motion of samples.

        Friction may depend on the motion before, so these are consecutive, in order of time.

        Returns
        -------
        (B, nv) ndarray
            Inverse dynamics, friction and offsets [N m, N]. At rest, where the direction of
            friction is unknown, there is none. Where drives subtract gravity, the gravity torque
            is taken from the description, as in the samples.
        """
        model, v = self.identified, samples.v
        torque = rnea(model, Data(model), samples.q, v, samples.a, samples.f_ext)
        torque += model.drives.rotor_torque(samples.a)
        torque += _friction_torque(model, samples, torque)
        torque = exclude_subtracted_gravity(model, samples.q, torque)
        return add_compensated_gravity(self.model, Data(self.model), samples.q, torque)

    def described_torque(self, samples: Samples) -> Array:
        """Return the torques that the description predicts for the motion of samples, (B, nv)."""
        torque = rnea(self.model, Data(self.model), samples.q, samples.v, samples.a, samples.f_ext)
        return torque + _friction_torque(self.model, samples, torque)

    def errors(self, samples: Samples) -> tuple[JointResult, ...]:
        """Return the errors of both models on another recording.

        Parameters
        ----------
        samples : Samples
            A recording of ``model``; efforts times the motor constants, if these were given.
            Samples in which a joint, or its motor, is at rest do not count for it, since its
            friction is not determined there.

        Returns
        -------
        tuple of JointResult, length nv
            Errors as in ``joints``; of motors, where these move several joints. NaN if one does not
            move.

        Raises
        ------
        ValueError
            Samples of another robot, or with contacts, whose forces are unknown.

        Examples
        --------
        >>> found = dyn_ros.identify(model, recording)
        >>> bool(found.errors(recording)[3].after < 0.05)
        True
        """
        if samples.v.shape[1] != self.model.nv or samples.contacts:
            raise ValueError(
                f"samples: expected a recording without contacts of {self.model!r}, "
                f"got {samples!r} with the contacts {samples.contacts}"
            )
        drives = self.model.drives
        speed = np.abs(drives.motor_velocity(samples.v))
        rest_speed = np.maximum(REST_SPEED_RATIO * np.quantile(speed, 0.99, axis=0), MIN_SPEED)
        is_moving = (speed > rest_speed) | ~has_single_coordinate(self.model)
        residual_of_least_squares = drives.to_motors(
            exclude_subtracted_gravity(self.model, samples.q, samples.tau)
        ) - self.least_squares.motor_torque(samples)
        torques = (
            drives.to_motors(samples.tau),
            drives.to_motors(samples.tau - self.described_torque(samples)),
            residual_of_least_squares,
            drives.to_motors(samples.tau - self.torque(samples)),
        )
        return tuple(
            _joint_errors(joint, *(tau[is_moving[:, k], k] for tau in torques))
            for k, joint in enumerate(self.joints)
        )

    def write_drives(self, path: str | PathLike[str]) -> None:
        """Write a drives file, with parameters that a URDF cannot express.

        The file contains rotor inertias, offsets, further friction, and the meaning of efforts,
        but no locked joints.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        save_drives(self.identified, path)

    def write_urdf(self, description: str | PathLike[str], path: str | PathLike[str]) -> None:
        """Write the robot's description with the identified parameters.

        Only numbers of <inertial> and <dynamics> change; these elements are added where they are
        missing. Rotor inertia, offsets and further friction are not part of a URDF;
        ``write_drives`` writes them.

        Parameters
        ----------
        description : str or PathLike
            File of the description that ``model`` was created from.
        path : str or PathLike
            File to write.

        Raises
        ------
        OSError
            A file cannot be read or written.
        ValueError
            The description is of another robot.
        """
        with write_whole_file(path) as file:
            file.write(urdf_content(description, self.identified))


def urdf_content(description: str | PathLike[str], model: Model) -> bytes:
    """Return the content of a description's file, in its encoding, with the numbers of a model."""
    text = read_regular_file(description, MAX_CHARACTERS).removesuffix(END_OF_MESSAGE.encode())
    return write_urdf(text, model)


def _friction_torque(model: Model, samples: Samples, torque: Array) -> Array:
    """Return the friction of a model in samples, (B, nv)."""
    return friction_along(model, samples.v, torque, friction_directions(model.drives, samples))


def _joint_errors(
    joint: JointResult, tau: Array, before: Array, least_squares: Array, after: Array
) -> JointResult:
    """Return the errors of a joint, given its torques and the residuals of three models."""
    if len(tau) < 3:
        nan = float("nan")
        return JointResult(joint.name, joint.unit, nan, nan, nan, nan, nan)
    noise = max(
        float(robust_deviation(np.diff(after, 2))) / np.sqrt(6.0),
        rounding_deviation(tau[:, None])[0],
    )
    rms_tau, rms_before, rms_least_squares, rms_after = (
        float(np.sqrt(np.mean(values**2))) for values in (tau, before, least_squares, after)
    )
    return JointResult(
        name=joint.name,
        unit=joint.unit,
        before=rms_before,
        least_squares=rms_least_squares,
        after=rms_after,
        noise=float(noise),
        torque=rms_tau,
    )
