# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The public functions of ``dyn_ros.torch`` and ``dyn_ros.jax``, for any library of arrays.

Their first argument, the library, is bound by these modules, which explain what all functions have
in common: leading axes, configurations, ``tangent``, and the parameters of the robot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.algorithms.contacts.contacts import Contact
from ..engine.algorithms.contacts.packed_contacts import pack_contacts
from ..engine.kernel.fields import REFERENCE_FRAME
from ..engine.kernel.validation import require_model
from ..engine.model.frames import ReferenceFrame, frame_number, frame_selector
from ..engine.model.model import Model
from . import contacts as contact_expressions
from . import kinematics as kin
from . import motion
from .library import Library, checked
from .operations import ABA, CRBA, FORWARD_KINEMATICS, MINVERSE, RNEA, Operation
from .rules import Call

# --- arguments


def _checked_states(
    lib: Library, model: Model, tangent: bool, **arguments: tuple[tuple[int, ...], Any]
) -> list[Any]:
    """Return arguments as arrays of one type; the configuration, q, comes first.

    Joint placements are projected onto rigid motions.
    """
    arrays = checked(lib, require_model(model), arguments)
    if tangent and model.nq > 0:
        arrays[0] = lib.with_derivatives(
            arrays[0],
            lambda q, t: motion.rate_of_configuration(lib, model, q, t),
            lambda q, g: motion.tangent_of_gradient(lib, model, q, g),
        )
    if "joint_placements" in arguments:
        n = list(arguments).index("joint_placements")
        if arrays[n] is not None:
            arrays[n] = _rigid(lib, arrays[n])
    return arrays


def _configuration(model: Model, q: Any) -> tuple[tuple[int, ...], Any]:
    return (require_model(model).nq,), q


def _velocities(model: Model, v: Any) -> tuple[tuple[int, ...], Any]:
    return (require_model(model).nv,), v


def _forces(model: Model, f_ext: Any) -> tuple[tuple[int, ...], Any]:
    return (require_model(model).njoints, 6), f_ext


def _parameters(
    model: Model, inertial_parameters: Any, armature: Any, gravity: Any, joint_placements: Any
) -> dict[str, tuple[tuple[int, ...], Any]]:
    """Return the parameters of a robot with their shapes."""
    require_model(model)
    return {
        "inertial_parameters": ((model.njoints, 10), inertial_parameters),
        "armature": ((model.nv,), armature),
        "gravity": ((3,), gravity),
        "joint_placements": ((model.njoints, 4, 4), joint_placements),
    }


_ORTHOGONALIZATION_STEPS = 2  # exact to the third order in the deviation from a rotation


def _rigid(lib: Library, X: Any) -> Any:
    """Return placements whose matrices R are rotations, by steps R (3 - R' R) / 2."""
    R = kin.rotation(X)
    for _ in range(_ORTHOGONALIZATION_STEPS):
        R = R @ (1.5 * lib.eye(3, R) - 0.5 * R.swapaxes(-1, -2) @ R)
    upper = lib.xp.concatenate([R, X[..., :3, 3:]], -1)
    return lib.xp.concatenate([upper, X[..., 3:, :]], -2)


def _default(lib: Library, model: Model, name: str, value: Any, like: Any) -> Any:
    """Return a parameter, by default the model's attribute with a name."""
    return lib.parameter(model, name, like) if value is None else value


def _run(lib: Library, model: Model, operation: Operation, *inputs: Any) -> Any:
    return lib.run(Call(model, operation), inputs, [True])[0]


# --- dynamics


def rnea(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    f_ext: Any = None,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute inverse dynamics: the joint torques of a motion, M a + nle - J' f_ext.

    Recursive Newton-Euler algorithm, Featherstone (2008), table 5.1; the gradient takes one more
    sweep each way.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v, a : (..., nv)
        Velocities and accelerations of the joints [rad/s, m/s; rad/s2, m/s2].
    f_ext : (..., njoints, 6), optional
        Force and moment on the body of each joint, in its frame [N, N m].

    Returns
    -------
    (..., nv)
        Torques [N m, N].
    """
    arrays = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        v=_velocities(model, v),
        a=_velocities(model, a),
        f_ext=_forces(model, f_ext),
        **_parameters(model, inertial_parameters, armature, gravity, joint_placements),
    )
    return _run(lib, model, RNEA, *arrays)


def nonlinear_effects(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute Coriolis, centrifugal and gravity torques: ``rnea`` at zero acceleration.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].

    Returns
    -------
    (..., nv)
        Torques [N m, N].
    """
    q, v, *parameters = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        v=_velocities(model, v),
        **_parameters(model, inertial_parameters, armature, gravity, joint_placements),
    )
    return _run(lib, model, RNEA, q, v, None, None, *parameters)


def generalized_gravity(
    lib: Library,
    model: Model,
    q: Any,
    *,
    inertial_parameters: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute gravity torques, the gradient of the potential energy: ``rnea`` at rest.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., nv)
        Torques [N m, N].
    """
    q, *parameters = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        **_parameters(model, inertial_parameters, None, gravity, joint_placements),
    )
    return _run(lib, model, RNEA, q, None, None, None, *parameters)


def aba(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    f_ext: Any = None,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute forward dynamics: the joint accelerations M^-1 (tau - nle + J' f_ext).

    Articulated-body algorithm, Featherstone (2008), table 7.1. Its gradient is computed as for
    ``rnea``, after a product with M^-1 by the same algorithm.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v, tau : (..., nv)
        Velocities and torques of the joints [rad/s, m/s; N m, N].
    f_ext : (..., njoints, 6), optional
        Force and moment on the body of each joint, in its frame [N, N m].

    Returns
    -------
    (..., nv)
        Accelerations [rad/s2, m/s2].
    """
    arrays = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        v=_velocities(model, v),
        tau=_velocities(model, tau),
        f_ext=_forces(model, f_ext),
        **_parameters(model, inertial_parameters, armature, gravity, joint_placements),
    )
    return _run(lib, model, ABA, *arrays)


def _matrix(
    lib: Library,
    model: Model,
    operation: Operation,
    q: Any,
    inertial_parameters: Any,
    armature: Any,
    joint_placements: Any,
    tangent: bool,
) -> Any:
    q, inertial_parameters, armature, _, joint_placements = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        **_parameters(model, inertial_parameters, armature, None, joint_placements),
    )
    return _run(lib, model, operation, q, inertial_parameters, armature, joint_placements)


def crba(
    lib: Library,
    model: Model,
    q: Any,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the joint-space inertia matrix M, full and symmetric.

    Composite-rigid-body algorithm, Featherstone (2008), table 6.2. Its gradient takes nv products.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., nv, nv)
        [kg m2, kg m, kg].
    """
    return _matrix(lib, model, CRBA, q, inertial_parameters, armature, joint_placements, tangent)


def minverse(
    lib: Library,
    model: Model,
    q: Any,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the inverse of the joint-space inertia matrix, full and symmetric.

    Carpentier (2018). Its gradient takes nv products; ``aba`` needs no matrix.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., nv, nv)
        [1 / (kg m2), ...].
    """
    return _matrix(
        lib, model, MINVERSE, q, inertial_parameters, armature, joint_placements, tangent
    )


def joint_friction(
    lib: Library,
    model: Model,
    v: Any,
    torque: Any = None,
    *,
    damping: Any = None,
    friction: Any = None,
) -> Any:
    """Compute the joint torques that overcome friction, plus constant offsets.

    See ``dyn_ros.joint_friction``. Where Coulomb friction changes its sign, its derivative is zero.

    Parameters
    ----------
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].
    torque : (..., nv), optional
        Torques that move the links [N m, N], for friction that depends on them.
    damping, friction : (..., nv), optional
        Viscous and Coulomb friction [N m s/rad, N s/m; N m, N]; by default the model's.

    Returns
    -------
    (..., nv)
        Torques [N m, N].
    """
    names = {"v": v, "torque": torque, "damping": damping, "friction": friction}
    arguments = {name: _velocities(model, value) for name, value in names.items()}
    v, torque, damping, friction = checked(lib, require_model(model), arguments)
    xp, drives = lib.xp, model.drives
    coupling = None if drives.coupling is None else lib.constant(drives.coupling, v)
    motors = v if coupling is None else v @ coupling.swapaxes(-1, -2)
    width = lib.constant(drives.friction_velocity, v)
    relative_speed = motors / xp.where(width > 0.0, width, 1.0 + 0.0 * width)
    bounded = xp.clip(relative_speed, -1.0, 1.0)
    smooth = lib.constant(drives.has_smooth_friction, v) > 0.0
    direction = xp.where(smooth, xp.tanh(relative_speed), bounded)
    direction = xp.where(width > 0.0, direction, xp.sign(motors))
    dry = _default(lib, model, "friction", friction, v)
    if drives.has_own_friction:
        speed = xp.where(motors == 0.0, 1.0 + 0.0 * motors, abs(motors))
        root = xp.where(motors == 0.0, 0.0 * motors, xp.sqrt(speed))
        slowness = motors / lib.constant(drives.stribeck_velocity, v)
        dry = dry + lib.constant(drives.root_friction, v) * root
        dry = dry + lib.constant(drives.stribeck, v) * xp.exp(-slowness * slowness)
    total = _default(lib, model, "damping", damping, v) * motors + dry * direction
    total = total + lib.constant(drives.offset, v)
    if torque is not None:
        load = torque
        if coupling is not None:
            load = torque @ xp.linalg.inv(coupling)
        total = total + lib.constant(drives.load_friction, v) * abs(load) * direction
    return total if coupling is None else total @ coupling


# --- frames


def _joint_placements(
    lib: Library, model: Model, q: Any, joint_placements: Any, tangent: bool
) -> tuple[Any, Any]:
    """Return the placements of joints in the world, and q."""
    arrays = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        joint_placements=((require_model(model).njoints, 4, 4), joint_placements),
    )
    return _run(lib, model, FORWARD_KINEMATICS, *arrays), arrays[0]


def forward_kinematics(
    lib: Library, model: Model, q: Any, *, joint_placements: Any = None, tangent: bool = False
) -> Any:
    """Compute the placements of the joints in the world, homogeneous matrices.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., njoints, 4, 4)
        [m]; ``data.oMi``.
    """
    return _joint_placements(lib, model, q, joint_placements, tangent)[0]


def frame_placements(
    lib: Library, model: Model, q: Any, *, joint_placements: Any = None, tangent: bool = False
) -> Any:
    """Compute the placements of all frames in the world, homogeneous matrices.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., nframes, 4, 4)
        [m], in the order of ``model.frame_names``.
    """
    placements, _ = _joint_placements(lib, model, q, joint_placements, tangent)
    return kin.frame_placements(lib, model, placements)


def frame_placement(
    lib: Library,
    model: Model,
    q: Any,
    frame: str | int,
    *,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the placement of one frame in the world, a homogeneous matrix.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    frame : str or int
        Name or index of a frame.

    Returns
    -------
    (..., 4, 4)
        [m].
    """
    number = frame_number(require_model(model), frame)
    placements, _ = _joint_placements(lib, model, q, joint_placements, tangent)
    return kin.frame_placement(lib, model, placements, number)


def _selected(
    model: Model, frame: str | int, reference_frame: ReferenceFrame | int
) -> tuple[int, int]:
    selector = frame_selector(require_model(model), frame, reference_frame)
    return selector >> REFERENCE_FRAME.bits, int(reference_frame)


def frame_jacobian(
    lib: Library,
    model: Model,
    q: Any,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the Jacobian of a frame, linear rows first.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    frame : str or int
        Name or index of a frame.
    reference_frame : ReferenceFrame
        The frame in which the velocity is expressed, and its point of reference.

    Returns
    -------
    (..., 6, nv)
        Velocity of the frame for each joint velocity.
    """
    selected = _selected(model, frame, reference_frame)
    placements, _ = _joint_placements(lib, model, q, joint_placements, tangent)
    return kin.frame_jacobian(lib, model, placements, *selected)


def frame_velocity(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    frame: str | int,
    reference_frame: ReferenceFrame | int,
    *,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the velocity of a frame.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].
    frame : str or int
        Name or index of a frame.
    reference_frame : ReferenceFrame
        The frame in which the velocity is expressed, and its point of reference.

    Returns
    -------
    (..., 6)
        Linear and angular velocity [m/s, rad/s].
    """
    selected = _selected(model, frame, reference_frame)
    placements, v, _ = _moving(lib, model, q, v, None, joint_placements, tangent)
    return kin.frame_velocity(lib, model, placements, v, *selected)


# --- bodies


def _moving(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    inertial_parameters: Any,
    joint_placements: Any,
    tangent: bool,
) -> tuple[Any, Any, Any]:
    """Return the placements of joints in the world, velocities, and inertial parameters."""
    parameters = _parameters(model, inertial_parameters, None, None, joint_placements)
    states = {"q": _configuration(model, q), "v": _velocities(model, v)}
    q, v, inertial, _, _, joint_placements = _checked_states(
        lib, model, tangent, **states, **parameters
    )
    placements = _run(lib, model, FORWARD_KINEMATICS, q, joint_placements)
    return placements, v, _default(lib, model, "inertial_parameters", inertial, placements)


def center_of_mass(
    lib: Library,
    model: Model,
    q: Any,
    *,
    inertial_parameters: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the center of mass of all moving links, expressed in the world.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (..., 3)
        [m].
    """
    q, inertial, _, _, joint_placements = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        **_parameters(model, inertial_parameters, None, None, joint_placements),
    )
    placements = _run(lib, model, FORWARD_KINEMATICS, q, joint_placements)
    parameters = _default(lib, model, "inertial_parameters", inertial, placements)
    return kin.center_of_mass(lib, placements, parameters)


def centroidal_momentum(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    *,
    inertial_parameters: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the momentum about the center of mass, expressed in the world; hg of ``ccrba``.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].

    Returns
    -------
    (..., 6)
        Linear and angular momentum [kg m/s, kg m2/s].
    """
    placements, v, parameters = _moving(
        lib, model, q, v, inertial_parameters, joint_placements, tangent
    )
    return kin.centroidal_momentum(lib, model, placements, v, parameters)


def kinetic_energy(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the kinetic energy of all moving links and rotors.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].

    Returns
    -------
    (...)
        [J].
    """
    q, v, inertial, armature, _, joint_placements = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        v=_velocities(model, v),
        **_parameters(model, inertial_parameters, armature, None, joint_placements),
    )
    placements = _run(lib, model, FORWARD_KINEMATICS, q, joint_placements)
    return kin.kinetic_energy(
        lib,
        model,
        placements,
        v,
        _default(lib, model, "inertial_parameters", inertial, placements),
        _default(lib, model, "armature", armature, placements),
    )


def potential_energy(
    lib: Library,
    model: Model,
    q: Any,
    *,
    inertial_parameters: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the potential energy of all moving links, zero at the world's origin.

    Parameters
    ----------
    q : (..., nq)
        Configuration.

    Returns
    -------
    (...)
        [J].
    """
    q, inertial, _, gravity, joint_placements = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        **_parameters(model, inertial_parameters, None, gravity, joint_placements),
    )
    placements = _run(lib, model, FORWARD_KINEMATICS, q, joint_placements)
    return kin.potential_energy(
        lib,
        placements,
        _default(lib, model, "inertial_parameters", inertial, placements),
        _default(lib, model, "gravity", gravity, placements),
    )


def mechanical_energy(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> Any:
    """Compute the kinetic and potential energy of all moving links and rotors.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocities of the joints [rad/s, m/s].

    Returns
    -------
    (...)
        [J].
    """
    common = {
        "inertial_parameters": inertial_parameters,
        "joint_placements": joint_placements,
        "tangent": tangent,
    }
    kinetic = kinetic_energy(lib, model, q, v, armature=armature, **common)
    return kinetic + potential_energy(lib, model, q, gravity=gravity, **common)


# --- contacts and configurations


def contact_dynamics(
    lib: Library,
    model: Model,
    q: Any,
    v: Any,
    tau: Any,
    contacts: Sequence[Contact],
    f_ext: Any = None,
    damping: float = 0.0,
    *,
    inertial_parameters: Any = None,
    armature: Any = None,
    gravity: Any = None,
    joint_placements: Any = None,
    tangent: bool = False,
) -> tuple[Any, Any]:
    """Compute forward dynamics with contacts: accelerations and contact forces.

    See ``dyn_ros.contact_dynamics``. The rows of the contacts must be independent, or damped.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v, tau : (..., nv)
        Velocities and torques of the joints [rad/s, m/s; N m, N].
    contacts : sequence of Contact
        Contacts of the robot.
    f_ext : (..., njoints, 6), optional
        Force and moment on the body of each joint, in its frame [N, N m].
    damping : float
        Acceleration by which a row gives way for each unit of its force.

    Returns
    -------
    ddq : (..., nv)
        Accelerations [rad/s2, m/s2].
    forces : (..., rows)
        Forces of all contacts, one after the other, in the axes of each contact [N, N m].
    """
    arrays = _checked_states(
        lib,
        model,
        tangent,
        q=_configuration(model, q),
        v=_velocities(model, v),
        tau=_velocities(model, tau),
        f_ext=_forces(model, f_ext),
        **_parameters(model, inertial_parameters, armature, gravity, joint_placements),
    )
    packed = pack_contacts(model, None, contacts, damping)  # type: ignore[arg-type]  # raises errors
    q, v, _, _, inertial_parameters, armature, _, joint_placements = arrays
    free = _run(lib, model, ABA, *arrays)
    if not packed.rows:
        return free, free[..., :0]
    placements = _run(lib, model, FORWARD_KINEMATICS, q, joint_placements)
    J, required = contact_expressions.contact_rows(lib, model, placements, v, packed.contacts)
    Minv = _run(lib, model, MINVERSE, q, inertial_parameters, armature, joint_placements)
    response = Minv @ J.swapaxes(-1, -2)
    size = J.shape[-2]
    matrix = J @ response + packed.damping * lib.eye(size, J)
    missing = required - motion.times(J, free)
    # torch differentiates solve wrongly in nested forward mode.
    forces = (lib.xp.linalg.inv(matrix) @ missing[..., None])[..., 0]
    return free + motion.times(response, forces), forces


def integrate(lib: Library, model: Model, q: Any, v: Any, *, tangent: bool = False) -> Any:
    """Integrate a velocity from a configuration for one unit of time; see ``Model.integrate``.

    Parameters
    ----------
    q : (..., nq)
        Configuration.
    v : (..., nv)
        Velocity times duration; for floating, planar and spherical joints in their frame.

    Returns
    -------
    (..., nq)
        The quaternions are normalized.
    """
    q, v = _checked_states(lib, model, tangent, q=_configuration(model, q), v=_velocities(model, v))
    return motion.integrate(lib, model, q, v)
