# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Comparison of algorithms with Pinocchio, for all tests.

`pair` loads a robot in both engines. dyn_ros projects mimic joints onto their masters; Pinocchio's
forward dynamics does not support them. The mimic joints of the Pinocchio model are therefore always
free here, and `Pair` contains the mapping between the two: with the velocity of the free joints
v_free = G v (and q_free likewise, plus offsets), forces and inertias project as G' tau_free and
G' M_free G. Without mimic joints, G is the identity. For the algorithms of Pinocchio that support
mimic joints (rnea and crba), test_dynamics.py checks that they agree with this projection.

    pair = peer.pair("panda", None)
    q, v, a, tau = pair.state(seed=1)
    peer.close(dyn_ros.rnea(pair.model, pair.data, q, v, a), pair.rnea(q, v, a))

Pairs are cached and shared, so their models must not be changed; `new_pair` returns a new one.
"""

import functools
import importlib.metadata
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pinocchio
import pytest

import dyn_ros
from dyn_ros.engine.model.urdf import read_urdf

OWN_ROBOTS = Path(__file__).parent / "robots"
EXAMPLE_ROBOTS = Path(
    importlib.metadata.distribution("example-robot-data").locate_file(
        "cmeel.prefix/share/example-robot-data/robots"
    )
)

FILES = {  # what the name says, for the robots whose name does not say it
    "every_joint": OWN_ROBOTS / "every_joint.urdf",
    "double_pendulum": "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "panda": "panda_description/urdf/panda.urdf",  # arm, with a mimicking gripper
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",  # arm with continuous joints
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "baxter": "baxter_description/urdf/baxter.urdf",  # two arms, with mimics
    "allegro_hand": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "solo12": "solo_description/robots/solo12.urdf",  # quadruped
    "anymal_c": "anymal_c_simple_description/urdf/anymal.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "bolt": "bolt_description/robots/bolt.urdf",  # biped
    "talos_reduced": "talos_data/robots/talos_reduced.urdf",  # humanoid
    "g1": "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",  # humanoid with hands
    "simple_humanoid": "simple_humanoid_description/urdf/simple_humanoid.urdf",
    "centauro": "centauro_description/urdf/centauro.urdf",  # four legs, two arms
    "tiago": "tiago_description/robots/tiago.urdf",  # mobile manipulator with a hand
    "pr2": "pr2_description/urdf/pr2.urdf",  # mobile, two arms
    "iris": "iris_description/robots/iris.urdf",  # quadrotor
}
OTHER_FILES = {  # of some tests only
    "icub_reduced": "icub_description/robots/icub_reduced.urdf",  # humanoid
    "arm7": Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf",
    "four_bar": OWN_ROBOTS / "four_bar.urdf",
}
ROOT_JOINTS = {
    None: None,
    "floating": pinocchio.JointModelFreeFlyer,
    "planar": pinocchio.JointModelPlanar,
}
STENCIL = np.array([-2.0, -1.0, 1.0, 2.0])

# Robots assembled in Python, since a URDF has no spherical joints: the first part of each.
BUILT = {"ball_joints": "limb", "every_joint_on_balls": "every_joint"}


def robots(names=(*FILES, *BUILT), root_joints=(None, "floating")):
    """pytest parameters ``robot, root_joint``: every combination, readable ids."""
    return pytest.mark.parametrize(
        "robot, root_joint",
        [
            pytest.param(robot, root_joint, id=f"{robot}-{root_joint or 'fixed'}")
            for robot in names
            for root_joint in root_joints
        ],
    )


@functools.cache
def urdf(robot):
    """The URDF text of a robot of `FILES` or `OTHER_FILES`, or of the tests."""
    file = (FILES | OTHER_FILES).get(robot, OWN_ROBOTS / f"{robot}.urdf")
    return (EXAMPLE_ROBOTS / file).read_text(encoding="utf-8")


def pinocchio_model(xml, root_joint=None, mimic=False):
    """The Pinocchio model of a URDF text; mimic joints are free unless `mimic` is True."""
    root = ROOT_JOINTS[root_joint]
    arguments = (xml,) if root is None else (xml, root())
    return pinocchio.buildModelFromXML(*arguments, mimic=mimic)


def assembled(robot, root_joint=None, mimic="project"):
    """A robot of `BUILT`: three limbs on spherical joints, two of them at the end of others."""
    first = dyn_ros.Model.from_urdf(urdf(BUILT[robot]), root_joint, mimic=mimic)
    limb = dyn_ros.Model.from_urdf(urdf("limb"))
    rng = np.random.default_rng(0)

    def appended(model, frame, prefix):
        placement = dyn_ros.SE3.exp(rng.normal(size=6))
        return model.append(limb, frame, placement, "spherical", prefix=prefix)

    model = appended(first, first.frame_names[-1], "arm/")
    model = appended(model, first.frame_names[0], "leg/")
    return appended(model, "arm/claw", "hand/")


ONE_JOINT = """<robot name="r"><link name="a"/><link name="b"/><joint name="j" type="{kind}">
<parent link="a"/><child link="b"/><axis xyz="{axis}"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint></robot>"""


def pinocchio_joint(joint):
    """The joint model of Pinocchio for a joint of a tree."""
    if joint.kind == "spherical":
        return pinocchio.JointModelSpherical()
    if joint.kind in ROOT_JOINTS:
        return ROOT_JOINTS[joint.kind]()
    axis = " ".join(map(repr, joint.axis.tolist()))
    return pinocchio.buildModelFromXML(ONE_JOINT.format(kind=joint.kind, axis=axis)).joints[1]


def pinocchio_of(model):
    """The Pinocchio model of one that is not from a description; mimic joints are free."""
    kinds = {
        "joint": pinocchio.JOINT,
        "fixed_joint": pinocchio.FIXED_JOINT,
        "body": pinocchio.BODY,
        "frame": pinocchio.OP_FRAME,
    }
    pin = pinocchio.Model()
    for joint in model.tree.joints:
        pin.addJoint(
            joint.parent + 1, pinocchio_joint(joint), pinocchio.SE3(joint.placement), joint.name
        )
    for frame in model.tree.frames:
        own = frame.inertia
        pin.addFrame(
            pinocchio.Frame(
                frame.name,
                frame.parent + 1,
                frame.parent_frame + 1,
                pinocchio.SE3(frame.placement),
                kinds[frame.kind],
                pinocchio.Inertia(own.mass, own.com, own.rotational),
            )
        )
    return pin


@functools.cache
def _read(robot, root_joint, mimic):
    """The tree of a robot and its Pinocchio model, which nobody changes."""
    if robot in BUILT:
        model = assembled(robot, root_joint, mimic)
        return model.tree, pinocchio_of(model)
    return read_urdf(urdf(robot), root_joint, mimic), pinocchio_model(urdf(robot), root_joint)


def new_pair(robot, root_joint=None, mimic="project"):
    """A robot in both engines, with models that the caller may change."""
    tree, pin = _read(robot, root_joint, mimic)
    return Pair(dyn_ros.Model(tree), pin.copy())


pair = functools.cache(new_pair)


class Pair:
    """A robot in both engines; its methods ask Pinocchio, in dyn_ros's coordinates.

    Attributes
    ----------
    model, data : dyn_ros.Model, dyn_ros.Data
    pin, pin_data : pinocchio.Model, pinocchio.Data
        Mimic joints free.
    G : (pin.nv, model.nv) ndarray
        v_free = G v.
    """

    def __init__(self, model, pin):
        assert list(model.joint_names) == list(pin.names)[1:]
        self.model, self.pin = model, pin
        self.data, self.pin_data = dyn_ros.Data(model), pin.createData()
        self.G = np.zeros((pin.nv, model.nv))
        for i, joint in enumerate(model.tree.joints):
            ratio = joint.mimic.multiplier if joint.mimic else 1.0
            for k in range(pin.nvs[i + 1]):
                self.G[pin.idx_vs[i + 1] + k, model.idx_v[i] + k] = ratio

    # -- to Pinocchio

    def to_pin_q(self, q):
        """q of dyn_ros as q of Pinocchio: mimics written out, angles as cos and sin."""
        q_pin = np.empty(self.pin.nq)
        for i, joint in enumerate(self.model.tree.joints):
            own = np.array(q[self.model.idx_q[i] :][: 1 if joint.mimic else self.model.nqs[i]])
            if joint.mimic:
                own = joint.mimic.multiplier * own + joint.mimic.offset
            if joint.kind in ("continuous", "planar"):
                own = np.append(own[:-1], [math.cos(own[-1]), math.sin(own[-1])])
            q_pin[self.pin.idx_qs[i + 1] :][: len(own)] = own
        return q_pin

    def from_pin_q(self, q_pin):
        """The inverse of `to_pin_q`, angles between -pi and pi."""
        q = np.empty(self.model.nq)
        for i, joint in enumerate(self.model.tree.joints):
            own = q_pin[self.pin.idx_qs[i + 1] :][: self.pin.nqs[i + 1]]
            if joint.kind in ("continuous", "planar"):
                own = np.append(own[:-2], math.atan2(own[-1], own[-2]))
            if not joint.mimic:
                q[self.model.idx_q[i] :][: len(own)] = own
        return q

    def to_pin_f(self, f_ext):
        """(njoints, 6) wrenches in joint frames as Pinocchio's list, which has the universe."""
        forces = pinocchio.StdVec_Force([pinocchio.Force.Zero()])
        forces.extend([pinocchio.Force(np.asarray(wrench, float)) for wrench in f_ext])
        return forces

    def set_gravity(self, gravity):
        self.model.gravity = gravity
        self.pin.gravity.linear = np.asarray(gravity, float)

    def set_armature(self, armature):
        """Armature by coordinate. A mimic joint has none of its own."""
        self.model.armature = armature
        free = np.zeros(self.pin.nv)
        for i, joint in enumerate(self.model.tree.joints):
            if not joint.mimic:
                nv = self.model.nvs[i]
                free[self.pin.idx_vs[i + 1] :][:nv] = armature[self.model.idx_v[i] :][:nv]
        self.pin.armature = free

    # -- random states

    def state(self, seed=0):
        """q, v, a, tau: angles in +-pi, slides in +-1 m, all turns of floating joints."""
        rng = np.random.default_rng(seed)
        q = rng.uniform(-math.pi, math.pi, self.model.nq)
        for i, joint in enumerate(self.model.tree.joints):
            at = self.model.idx_q[i]
            if joint.kind == "prismatic" and not joint.mimic:
                q[at] = rng.uniform(-1.0, 1.0)
            if joint.kind in ("floating", "spherical"):
                turn = rng.normal(size=4)
                q[at : at + self.model.nqs[i]][-4:] = turn / np.linalg.norm(turn)
        return (q, *rng.uniform(-1.0, 1.0, (3, self.model.nv)))

    def states(self, count, seed=0):
        """As `state`, each with a leading axis."""
        states = [self.state(1000 * seed + k) for k in range(count)]
        return tuple(np.array([state[part] for state in states]) for part in range(4))

    def wrenches(self, seed=0):
        """Random f_ext, (njoints, 6)."""
        return np.random.default_rng(seed).uniform(-5.0, 5.0, (self.model.njoints, 6))

    # -- Pinocchio's answers

    @property
    def has_mimics(self):
        return self.pin.nv != self.model.nv

    def rnea(self, q, v, a, f_ext=None):
        free = [self.G @ v, self.G @ a]
        forces = [] if f_ext is None else [self.to_pin_f(f_ext)]
        return self.G.T @ pinocchio.rnea(self.pin, self.pin_data, self.to_pin_q(q), *free, *forces)

    def nonlinear_effects(self, q, v):
        return self.G.T @ pinocchio.nonLinearEffects(
            self.pin, self.pin_data, self.to_pin_q(q), self.G @ v
        )

    def generalized_gravity(self, q):
        return self.G.T @ pinocchio.computeGeneralizedGravity(
            self.pin, self.pin_data, self.to_pin_q(q)
        )

    def static_torque(self, q, f_ext):
        return self.G.T @ pinocchio.computeStaticTorque(
            self.pin, self.pin_data, self.to_pin_q(q), self.to_pin_f(f_ext)
        )

    def crba(self, q):
        M = pinocchio.crba(self.pin, self.pin_data, self.to_pin_q(q))
        return self.G.T @ (np.triu(M) + np.triu(M, 1).T) @ self.G

    def aba(self, q, v, tau, f_ext=None):
        """By Pinocchio's aba; with mimic joints, by solving with the projected matrix."""
        if self.has_mimics:
            bias = self.rnea(q, v, np.zeros(self.model.nv), f_ext)
            return np.linalg.solve(self.crba(q), tau - bias)
        forces = [] if f_ext is None else [self.to_pin_f(f_ext)]
        return pinocchio.aba(self.pin, self.pin_data, self.to_pin_q(q), v, tau, *forces)

    def minverse(self, q):
        """By Pinocchio's computeMinverse; with mimics by inverting the projection."""
        if self.has_mimics:
            return np.linalg.inv(self.crba(q))
        inverse = pinocchio.computeMinverse(self.pin, self.pin_data, self.to_pin_q(q))
        return np.triu(inverse) + np.triu(inverse, 1).T

    def kinetic_energy(self, q, v):
        return pinocchio.computeKineticEnergy(self.pin, self.pin_data, self.to_pin_q(q), self.G @ v)

    def potential_energy(self, q):
        return pinocchio.computePotentialEnergy(self.pin, self.pin_data, self.to_pin_q(q))


UNCOMPILED = """
import pickle, sys
import dyn_ros
xml, calls = pickle.load(sys.stdin.buffer)
model = dyn_ros.Model.from_urdf(xml, "floating")
data = dyn_ros.Data(model)
assert not dyn_ros.precompile([name for name, _ in calls])
pickle.dump([pickle.dumps(getattr(dyn_ros, name)(model, data, **given)) for name, given in calls],
            sys.stdout.buffer)
"""


def uncompiled(robot, calls):
    """The results of functions without the compiler, for a floating robot, in a list.

    `calls` contains the name of each function, and its arguments after `data` by name.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNCOMPILED],
        check=True,
        input=pickle.dumps((urdf(robot), calls)),
        stdout=subprocess.PIPE,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )
    return [pickle.loads(result) for result in pickle.loads(done.stdout)]


def some_frames(pair):
    """Indices of frames here and in Pinocchio: far out, in the middle, on the base; all kinds."""
    kinds = {"joint": pinocchio.JOINT, "fixed_joint": pinocchio.FIXED_JOINT, "body": pinocchio.BODY}
    count = len(pair.model.tree.frames)
    return [
        (n, pair.pin.getFrameId(frame.name, kinds[frame.kind]))
        for n, frame in enumerate(pair.model.tree.frames)
        if n in {0, 1, count // 3, count // 2, count - 2, count - 1}
    ]


def as_tuple(found):
    """The results of a function as a tuple, even if there is only one."""
    return found if isinstance(found, tuple) else (found,)


def along(pair, q, direction, function, step=1e-4):
    """Derivative of function(q) along a velocity, to the fourth order in the step."""
    steps = step * STENCIL[:, None] * direction
    return _slope([np.array(function(moved)) for moved in pair.model.integrate(q, steps)], step)


def in_time(pair, q, v, a, function, step=1e-4):
    """Rate of function(q, v) as the robot moves with v and accelerates with a."""
    t = step * STENCIL[:, None]
    middles = pair.model.integrate(q, t * v + 0.5 * t * t * a)
    return _slope([np.array(function(*moved)) for moved in zip(middles, v + t * a)], step)


def _slope(values, step):
    """The derivative to the fourth order, from the values at the steps of `STENCIL`."""
    back_2, back_1, ahead_1, ahead_2 = values
    return (8.0 * (ahead_1 - back_1) - (ahead_2 - back_2)) / (12.0 * step)


def close(actual, expected, rtol=1e-10, scale=None):
    """Assert that two arrays agree, relative to the largest number in the expected one.

    The error is that of the array as a whole, max |actual - expected| / max |expected|: if one
    torque is 1e-3 N m and another 1e3 N m, the small one is a difference of large numbers, whose
    rounding errors limit its correct digits. There is no absolute tolerance, so if all expected
    numbers are zero, the actual ones must be zero; if these are differences of large numbers,
    `scale` specifies the magnitude of those.
    """
    actual, expected = np.asarray(actual, float), np.asarray(expected, float)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    assert np.isfinite(expected).all(), "the expected numbers are not finite"
    assert np.isfinite(actual).all(), f"not finite: {actual}"
    error = np.abs(actual - expected)
    largest = np.abs(expected).max(initial=0.0) if scale is None else scale
    if error.max(initial=0.0) > rtol * largest:
        worst = np.unravel_index(error.argmax(), error.shape)
        raise AssertionError(
            f"relative error {error.max() / largest if largest else np.inf:.3g} > {rtol:g}, at "
            f"{tuple(map(int, worst))}: {actual[worst]!r}, expected {expected[worst]!r}"
        )
