# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots in contact, for tests: scenes, a dense solution, and Pinocchio's where it is right.

The rows of a contact of two bodies are J ddq + drift = kp error - kd J v. The dense solution
assembles them from spatial quantities of the two bodies in the world, with Pinocchio's kinematics,
and solves one linear system. It holds for every reference frame and with mimic joints. Damping,
weights and least norms of contacts in WORLD are those of the force at c1, wherever the world's
origin is: such contacts are solved in LOCAL_WORLD_ALIGNED, and their forces moved.

Pinocchio 4.1 has no contacts in WORLD, no external forces and no mimic joints in contact dynamics.
Its derivatives with respect to q are wrong in the cases that `derivatives_are_right` excludes,
its impulses between two bodies ignore the velocity of the second one.
"""

from dataclasses import dataclass, fields, replace
from types import SimpleNamespace

import numpy as np
import pinocchio
import pytest
import scipy.linalg

import dyn_ros
import peer
from dyn_ros import ReferenceFrame

WORLD, LOCAL, ALIGNED = ReferenceFrame  # the last is LOCAL_WORLD_ALIGNED
REFERENCES = pytest.mark.parametrize("reference", list(ReferenceFrame), ids=lambda x: x.name)
PINOCCHIOS = pytest.mark.parametrize("reference", [LOCAL, ALIGNED], ids=lambda x: x.name)


@dataclass(frozen=True)
class Spec:
    """The arguments of a `dyn_ros.Contact`."""

    frame: str
    dimension: int = 6
    reference_frame: ReferenceFrame = LOCAL
    other: str | None = None
    placement: np.ndarray | None = None
    other_placement: np.ndarray | None = None
    kp: float = 0.0
    kd: float = 0.0
    name: str | None = None


def placed(seed):
    """A placement up to 0.2 m away, turned by any angle, (4, 4)."""
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    quaternion = pinocchio.Quaternion(turn / np.linalg.norm(turn))
    return pinocchio.SE3(quaternion, rng.uniform(-0.2, 0.2, 3)).homogeneous


GAINS = {"kp": 40.0, "kd": 9.0}
FEET = tuple(Spec(f"{leg}_FOOT", 3) for leg in ("FL", "FR", "HL", "HR"))
HANDS = ("gripper_left_motor_double_link", "gripper_right_motor_double_link")
SOLES = (Spec("left_sole_link"), Spec("right_sole_link", placement=placed(1), **GAINS))
ARM = Spec("tool0", 3, placement=placed(2), other_placement=placed(3), **GAINS)
SCENES = {
    "solo12": ("solo12", "floating", FEET),
    "solo12, shank": (
        "solo12",
        "floating",
        (Spec("FL_LOWER_LEG", placement=placed(4), other_placement=placed(5), **GAINS), FEET[3]),
    ),
    "talos": (
        "talos_reduced",
        "floating",
        (*SOLES, Spec(HANDS[0], 3, other_placement=placed(6), **GAINS)),
    ),
    "icub": ("icub_reduced", "floating", (Spec("l_sole"), Spec("r_sole", kd=5.0))),
    "tiago": (
        "tiago",
        None,
        (
            Spec("arm_tool_link", other_placement=placed(7), **GAINS),
            Spec("head_2_link", 3, placement=placed(8)),
        ),
    ),
    "panda": ("panda", None, (Spec("panda_leftfinger", placement=placed(9), **GAINS),)),
    "ur5": ("ur5", None, (ARM,)),
    "every_joint": (
        "every_joint",
        "floating",
        (
            Spec("tip", 3, placement=placed(10), **GAINS),
            Spec("dish"),
            Spec("slider", 3, kd=3.0),
            Spec("antenna_link", placement=placed(11)),
        ),
    ),
    "every_joint, planar": (
        "every_joint",
        "planar",
        (Spec("tip", 3, placement=placed(12), **GAINS), Spec("antenna_link")),
    ),
}
PAIRS_OF_BODIES = {
    "talos, hands": (
        "talos_reduced",
        "floating",
        (
            Spec(
                HANDS[0], other=HANDS[1], placement=placed(13), other_placement=placed(14), **GAINS
            ),
            SOLES[0],
        ),
    ),
    "solo12, feet": (
        "solo12",
        "floating",
        (Spec("FL_FOOT", 3, other="HR_FOOT", other_placement=placed(15), **GAINS), FEET[1]),
    ),
    "ur5, nested": (
        "ur5",
        None,
        (Spec("tool0", 3, other="shoulder_link", placement=placed(16), **GAINS),),
    ),
    "panda, from the base": (
        "panda",
        None,
        (Spec("panda_link0", other="panda_leftfinger", placement=placed(20), **GAINS),),
    ),
    "every_joint, branches": (
        "every_joint",
        "floating",
        (
            Spec("tip", 3, other="dish", placement=placed(17), other_placement=placed(18), **GAINS),
            Spec("antenna_link", other="platform", placement=placed(19), kd=2.0),
        ),
    ),
}
TWICE = ("solo12", "floating", (FEET[0], replace(FEET[0], name="again"), FEET[3]))
LOOP = ("four_bar", None, (Spec("pin", 3, other="base_pin"),))
SINGULAR = {  # and the rank of their rows
    "twice": (*TWICE, 6),
    "three points of a link": (
        "talos_reduced",
        "floating",
        tuple(Spec("left_sole_link", 3, placement=placed(k), name=f"point {k}") for k in range(4)),
        6,
    ),
    "four-bar linkage": (*LOOP, 2),
    "closed gripper": ("panda", None, (Spec("panda_leftfinger", other="panda_rightfinger"),), 1),
    "thumb": ("tiago", None, (Spec("hand_palm_link"), Spec("hand_thumb_link")), 7),
}
EVERY_SCENE = SCENES | PAIRS_OF_BODIES
WITHOUT_MIMICS = {
    name: scene for name, scene in EVERY_SCENE.items() if scene[0] not in ("panda", "every_joint")
}
WITH_THE_WORLD = {name: scene for name, scene in WITHOUT_MIMICS.items() if name in SCENES}


def scenes(which=None):
    """pytest parameters ``robot, root_joint, contacts``."""
    which = EVERY_SCENE if which is None else which
    return pytest.mark.parametrize("robot, root_joint, contacts", which.values(), ids=list(which))


def in_axes(contacts, reference):
    return [replace(contact, reference_frame=reference) for contact in contacts]


def ours(contacts):
    """The `dyn_ros.Contact` of each spec."""
    return [
        dyn_ros.Contact(**{entry.name: getattr(contact, entry.name) for entry in fields(contact)})
        for contact in contacts
    ]


def state(pair, seed=0):
    """The arguments of contact_dynamics by name, but for the contacts."""
    q, v, _, tau = pair.state(seed)
    return {"q": q, "v": v, "tau": 10.0 * tau, "f_ext": pair.wrenches(seed)}


def singular(which):
    """Of `SINGULAR`: pair, contacts, a state at rest, in which they agree, and the rank."""
    robot, root_joint, contacts, rank = SINGULAR[which]
    pair = peer.pair(robot, root_joint, "ignore")
    given = state(pair)
    return pair, contacts, given | {"v": 0.0 * given["v"]}, rank


# --- differences

DIFFERENCES = {LOCAL: 1e-9, ALIGNED: 1e-9, WORLD: 1e-7}  # rows in WORLD are badly scaled


def by_configuration(pair, given, function, step=3e-4):
    """Derivatives of function(**given) along each velocity; the function is called for a batch."""
    nv = pair.model.nv
    moves = np.concatenate([k * step * np.eye(nv) for k in (-2, -1, 1, 2)])
    batch = {name: np.repeat(x[None], 4 * nv, 0) for name, x in given.items()}
    batch["q"] = pair.model.integrate(batch["q"], moves)
    at = [np.array(x).reshape(4, nv, -1) for x in function(**batch)]
    return [((8.0 * (x[2] - x[1]) - (x[3] - x[0])) / (12.0 * step)).T for x in at]


def by_vector(given, name, function):
    """The same by v or tau, in steps of 1: exact, as all results are at most quadratic."""
    n = len(given[name])
    batch = {key: np.repeat(x[None], 2 * n, 0) for key, x in given.items()}
    batch[name] = batch[name] + np.concatenate([np.eye(n), -np.eye(n)])
    at = [np.array(x).reshape(2, n, -1) for x in function(**batch)]
    return [(0.5 * (x[0] - x[1])).T for x in at]


# --- rows


def attached(pair, frame, placement):
    """A frame with an offset as Pinocchio's joint and the placement in it."""
    placement = pinocchio.SE3.Identity() if placement is None else pinocchio.SE3(placement)
    if frame is None:
        return 0, placement
    frame = pair.pin.frames[pair.model.frame_index(frame) + 1]  # Pinocchio's universe is 0
    return frame.parentJoint, frame.placement * placement


def side(pair, frame, placement):
    """One side of a contact: placement in the world; Jacobian, drift of its body, in WORLD."""
    joint, placement = attached(pair, frame, placement)
    data = pair.pin_data
    J = pinocchio.getJointJacobian(pair.pin, data, joint, pinocchio.WORLD) @ pair.G
    drift = data.oMi[joint].act(data.a[joint]).vector
    return SimpleNamespace(joint=joint, oMc=data.oMi[joint] * placement, J=J, drift=drift)


def cross(v, w):
    """The spatial cross product of two motions."""
    return pinocchio.Motion(v).cross(pinocchio.Motion(w)).vector


def at(point):
    """Brings motions in WORLD to a point, in the axes of the world."""
    return pinocchio.SE3(np.eye(3), point).toActionMatrixInverse()


def turned(contact, oMc):
    """Brings a motion of a contact frame from its own axes to those of the contact's rows."""
    return {
        LOCAL: np.eye(6),
        ALIGNED: np.kron(np.eye(2), oMc.rotation),
        WORLD: oMc.toActionMatrix(),
    }[contact.reference_frame]


def pose_rows(contact, one, two):
    """(K1, K2, error): the rows are K1 V1 - K2 V2 for velocities in WORLD; dimension 6."""
    turn = turned(contact, one.oMc)
    K = turn @ one.oMc.toActionMatrixInverse()
    return K, K, turn @ pinocchio.log6(one.oMc.actInv(two.oMc)).vector


def point_rows(contact, one, two):
    """The same for dimension 3."""
    turn = one.oMc.rotation.T if contact.reference_frame == LOCAL else np.eye(3)
    p1, p2 = one.oMc.translation, two.oMc.translation
    return turn @ at(p1)[:3], turn @ at(p2)[:3], turn @ (p2 - p1)


def pose_drift(contact, one, two, K, _, v):
    """Accelerations of the rows at ddq = 0, as Pinocchio's; dimension 6.

    In LOCAL, this is the rate of the relative velocity in the axes of the first frame. In the
    other axes it is the difference of spatial accelerations.
    """
    drift = K @ (one.drift - two.drift)
    if contact.reference_frame == LOCAL:
        drift = drift + cross(K @ (one.J - two.J) @ v, K @ two.J @ v)
    return drift


def point_drift(contact, one, two, K1, K2, v):
    """The difference of classical accelerations of two points at ddq = 0."""

    def classical(body, K):
        V = body.J @ v
        moving = np.concatenate([np.cross(V[3:], (at(body.oMc.translation) @ V)[:3]), np.zeros(3)])
        return K @ (body.drift + moving)

    return classical(one, K1) - classical(two, K2)


def update(pair, q, v):
    """Pinocchio's kinematics at ddq = 0, and the Jacobian of each joint."""
    q_pin, v_pin = pair.to_pin_q(q), pair.G @ v
    pinocchio.forwardKinematics(pair.pin, pair.pin_data, q_pin, v_pin, 0.0 * v_pin)
    pinocchio.computeJointJacobians(pair.pin, pair.pin_data, q_pin)


def rows_of(pair, contacts):
    """Each contact with its two sides and its K1, K2, error."""
    for contact in contacts:
        one = side(pair, contact.frame, contact.placement)
        two = side(pair, contact.other, contact.other_placement)
        rows = pose_rows if contact.dimension == 6 else point_rows
        yield (contact, one, two, *rows(contact, one, two))


def rows(pair, q, v, contacts):
    """J, drift and the wanted kp error - kd J v of all contacts."""
    update(pair, q, v)
    parts = [(np.zeros((0, len(v))), np.zeros(0), np.zeros(0))]
    for contact, one, two, K1, K2, error in rows_of(pair, contacts):
        J = K1 @ one.J - K2 @ two.J
        drift = pose_drift if contact.dimension == 6 else point_drift
        parts.append(
            (J, drift(contact, one, two, K1, K2, v), contact.kp * error - contact.kd * J @ v)
        )
    return tuple(np.concatenate(part) for part in zip(*parts))


def jacobian(pair, q, contacts):
    return rows(pair, q, np.zeros(pair.model.nv), contacts)[0]


def at_frames(pair, q, contacts):
    """The same contacts in LOCAL_WORLD_ALIGNED for WORLD, and T that moves their forces back."""
    update(pair, q, np.zeros(pair.model.nv))
    moved, blocks = [], []
    for contact in contacts:
        T = np.eye(contact.dimension)
        if contact.reference_frame == WORLD:
            p = side(pair, contact.frame, contact.placement).oMc.translation
            T = at(p).T if contact.dimension == 6 else T
            contact = replace(contact, reference_frame=ALIGNED)
        moved.append(contact)
        blocks.append(T)
    return moved, scipy.linalg.block_diag(np.zeros((0, 0)), *blocks)


def wrenches(pair, q, contacts, forces):
    """The forces of contacts as f_ext, (njoints, 6): on each link in the frame of its joint."""
    update(pair, q, np.zeros(pair.model.nv))
    found, start = np.zeros((pair.pin.njoints, 6)), 0
    for contact, one, two, K1, K2, _ in rows_of(pair, contacts):
        own = forces[start : start + contact.dimension]
        for body, K, sign in ((one, K1, 1.0), (two, K2, -1.0)):
            motion = K @ pair.pin_data.oMi[body.joint].toActionMatrix()
            found[body.joint] += sign * motion.T @ own
        start += contact.dimension
    return found[1:]


# --- the dense solution


def saddle_point(M, J, force, b, damping=0.0):
    """(x, forces) of M x - J' forces = force and J x + damping forces = b, as one system."""
    n, m = len(M), len(J)
    K = np.block([[M, -J.T], [J, damping * np.eye(m)]])
    x = np.linalg.solve(K, np.concatenate([force, b]))
    return x[:n], x[n:]


def terms(pair, contacts, q, v, tau, f_ext=None):
    """M, J, the free force and the right side of the rows."""
    J, drift, wanted = rows(pair, q, v, contacts)
    return pair.crba(q), J, tau - pair.rnea(q, v, 0.0 * v, f_ext), wanted - drift


def dynamics(pair, contacts, q, v, tau, f_ext=None, damping=0.0):
    """(ddq, forces)."""
    contacts, T = at_frames(pair, q, contacts)
    ddq, forces = saddle_point(*terms(pair, contacts, q, v, tau, f_ext), damping)
    return ddq, T @ forces


def least_norm_point(M, J, force, b):
    """`saddle_point` of rows that repeat or contradict each other, by a pseudoinverse."""
    coupling = J @ np.linalg.solve(M, J.T)
    forces = np.linalg.pinv(coupling, 1e-9, hermitian=True) @ (b - J @ np.linalg.solve(M, force))
    return np.linalg.solve(M, force + J.T @ forces), forces


def least_norm(pair, contacts, q, v, tau, f_ext=None):
    """(ddq, forces) of contacts that repeat or contradict each other."""
    contacts, T = at_frames(pair, q, contacts)
    ddq, forces = least_norm_point(*terms(pair, contacts, q, v, tau, f_ext))
    return ddq, T @ forces


def impulse_terms(pair, contacts, q, v, restitution=0.0):
    """M, J, the free force and the right side of the rows, of the change of velocity."""
    J = jacobian(pair, q, contacts)
    return pair.crba(q), J, 0.0 * v, -(1.0 + restitution) * J @ v


def impulses(pair, contacts, q, v, restitution=0.0, damping=0.0):
    """(v_after, impulses)."""
    contacts, T = at_frames(pair, q, contacts)
    change, found = saddle_point(*impulse_terms(pair, contacts, q, v, restitution), damping)
    return v + change, T @ found


def least_norm_impulses(pair, contacts, q, v, restitution=0.0):
    """The same of contacts that repeat each other."""
    contacts, T = at_frames(pair, q, contacts)
    change, found = least_norm_point(*impulse_terms(pair, contacts, q, v, restitution))
    return v + change, T @ found


def delassus(pair, contacts, q, damping=0.0):
    J = jacobian(pair, q, contacts)
    return J @ np.linalg.solve(pair.crba(q), J.T) + damping * np.eye(len(J))


# --- Pinocchio


def contact_data(pair):
    """A Data of Pinocchio for contacts alone: they leave it unfit for its other algorithms."""
    if not hasattr(pair, "contact_data"):
        pair.contact_data = pair.pin.createData()
    return pair.contact_data


def rigid(pair, contacts):
    """(models, datas) of Pinocchio, initialized."""
    models = pinocchio.StdVec_RigidConstraintModel()
    for contact in contacts:
        kind = (
            pinocchio.ContactType.CONTACT_3D
            if contact.dimension == 3
            else pinocchio.ContactType.CONTACT_6D
        )
        model = pinocchio.RigidConstraintModel(
            kind,
            pair.pin,
            *attached(pair, contact.frame, contact.placement),
            *attached(pair, contact.other, contact.other_placement),
            pinocchio.ReferenceFrame.values[int(contact.reference_frame)],
        )
        model.setBaumgarteCorrectorParameters(
            pinocchio.BaumgarteCorrectorParameters(contact.kp, contact.kd)
        )
        models.append(model)
    datas = pinocchio.StdVec_RigidConstraintData()
    datas.extend([model.createData() for model in models])
    pinocchio.initConstraintDynamics(pair.pin, contact_data(pair), models, datas)
    return models, datas


def proximal(damping, iterations=1):
    """Pinocchio's settings; exact zeros make it take all iterations."""
    return pinocchio.ProximalSettings(0.0, 0.0, damping, iterations)


def pin_dynamics(pair, contacts, q, v, tau, damping=0.0, iterations=1):
    """(ddq, forces) of Pinocchio."""
    ddq = pinocchio.constraintDynamics(
        pair.pin,
        contact_data(pair),
        pair.to_pin_q(q),
        v,
        tau,
        *rigid(pair, contacts),
        proximal(damping, iterations),
    )
    return ddq.copy(), contact_data(pair).lambda_c.copy()


def pin_derivatives(pair, contacts, q, v, tau, damping=0.0):
    """ddq_dq, ddq_dv, ddq_dtau, dlambda_dq, dlambda_dv, dlambda_dtau of Pinocchio."""
    model, data, both = pair.pin, contact_data(pair), rigid(pair, contacts)
    pinocchio.constraintDynamics(model, data, pair.to_pin_q(q), v, tau, *both, proximal(damping))
    pinocchio.computeConstraintDynamicsDerivatives(model, data, *both, proximal(damping))
    return [
        x.copy()
        for x in (
            data.ddq_dq,
            data.ddq_dv,
            data.ddq_dtau,
            data.dlambda_dq,
            data.dlambda_dv,
            data.dlambda_dtau,
        )
    ]


def pin_impulses(pair, contacts, q, v, restitution=0.0, damping=0.0):
    """(v_after, impulses) of Pinocchio."""
    after = pinocchio.impulseDynamics(
        pair.pin,
        contact_data(pair),
        pair.to_pin_q(q),
        v,
        *rigid(pair, contacts),
        restitution,
        proximal(damping),
    )
    return after.copy(), contact_data(pair).impulse_c.copy()


def pin_impulse_derivatives(pair, contacts, q, v, restitution=0.0, damping=0.0):
    """dv_dq, dv_dv, dimpulse_dq, dimpulse_dv of Pinocchio."""
    model, data, both = pair.pin, contact_data(pair), rigid(pair, contacts)
    rest = (restitution, proximal(damping))
    pinocchio.impulseDynamics(model, data, pair.to_pin_q(q), v, *both, *rest)
    pinocchio.computeImpulseDynamicsDerivatives(model, data, *both, *rest)
    return [
        data.ddq_dq.copy(),
        data.ddq_dv + np.eye(model.nv),  # its own is of the change
        data.dlambda_dq.copy(),
        data.dlambda_dv.copy(),
    ]


def derivatives_are_right(contacts, root_joint, damping=0.0):
    """Whether Pinocchio's derivatives with respect to q are those of its contact dynamics."""
    return not any(
        (
            contact.reference_frame == ALIGNED
            and (damping > 0.0 or (contact.dimension == 6 and contact.kp > 0.0))
        )
        or (contact.dimension == 3 and contact.other is not None and root_joint is None)
        for contact in contacts
    )
