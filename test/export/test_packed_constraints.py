# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts and constraints in C: what they accept, and robots with locked joints."""

import ctypes

import numpy as np
import pytest
from export.test_model import Robot, random_state
from export.tools import robot as robot_of

import dyn_ros
from dyn_ros.export.model_file import model_bytes

MISSING, NOT_FINITE, NO_FRAME, NO_OPTION, TOO_MANY, OUT_OF_RANGE = -10, -11, -13, -15, -17, -18


class Contact(ctypes.Structure):
    """``dyn_ros_contact``."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("frame", "dimension", "reference_frame", "other")),
        ("placement", ctypes.c_double * 16),
        ("other_placement", ctypes.c_double * 16),
        ("kp", ctypes.c_double),
        ("kd", ctypes.c_double),
    )


class Settings(ctypes.Structure):
    """``dyn_ros_contact_settings``."""

    _fields_ = (
        ("damping", ctypes.c_double),
        ("max_iterations", ctypes.c_int),
        ("residual", ctypes.c_double),
        ("restitution", ctypes.c_double),
    )


class PackedConstraints(ctypes.Structure):
    """``dyn_ros_contacts``, or ``dyn_ros_constraints``, which is smaller."""

    _fields_ = (
        ("rows", ctypes.c_int),
        ("size", ctypes.c_int),
        ("numbers", ctypes.c_int64 * (5 + 32 * 12)),
    )


@pytest.fixture(scope="module")
def panda(library):
    other = Robot(library, model_bytes(robot_of("panda")))
    other.c.dyn_ros_contact_at.restype = Contact
    return other


def make_contacts(robot, contacts, settings=None, **changes):
    """Return the error and packed contacts (frame, dimension, axes) with changed members."""
    array = (Contact * max(len(contacts), 1))(
        *(robot.c.dyn_ros_contact_at(*contact) for contact in contacts)
    )
    for name, value in changes.items():
        setattr(array[0], name, value)
    packed = PackedConstraints(rows=1000)
    error = robot.c.dyn_ros_contacts_init(
        robot.reference,
        ctypes.byref(packed),
        array,
        len(contacts),
        settings and ctypes.byref(settings),
    )
    return error, packed


def test_contacts_that_are_refused(panda):
    """Contacts that are not accepted have no rows, so that a call with it reads nothing else."""
    last = panda.model.nframes - 1
    good, nan = (last, 3, 2), float("nan")
    for places, settings, changes, expected in (
        ([good] * 13, None, {}, TOO_MANY),
        ([(last, 6, 2)] * 7, None, {}, TOO_MANY),
        ([(last + 1, 3, 2)], None, {}, NO_FRAME),
        ([(-1, 3, 2)], None, {}, NO_FRAME),
        ([(0, 3, 2)], None, {}, NO_FRAME),
        ([good], None, {"other": last}, NO_FRAME),
        ([(last, 4, 2)], None, {}, NO_OPTION),
        ([(last, 3, 3)], None, {}, NO_OPTION),
        ([good], None, {"kp": nan}, NOT_FINITE),
        ([good], None, {"kd": -1.0}, OUT_OF_RANGE),
        *(
            ([good], Settings(*numbers), {}, OUT_OF_RANGE)
            for numbers in ((-1.0, 1), (0.0, 0), (0.0, 2), (nan, 1), (0.0, 1, 0.0, 1.5))
        ),
    ):
        error, packed = make_contacts(panda, places, settings, **changes)
        assert (error, packed.rows) == (expected, 0)
    for places, rows in (([], 0), ([good] * 12, 36), ([(last, 6, 0)] * 6, 36)):
        error, packed = make_contacts(panda, places)
        assert (error, packed.rows) == (0, rows)
    error = panda.c.dyn_ros_contacts_init(panda.reference, ctypes.byref(packed), None, 1, None)
    assert error == MISSING


def test_contacts_of_another_robot_are_refused(library, panda):
    """Their joints need not exist."""
    solo = Robot(library, model_bytes(robot_of("solo12")))
    error, packed = make_contacts(panda, [(panda.model.nframes - 1, 3, 2)])
    assert error == 0
    for robot, expected in ((panda, 0), (solo, NO_FRAME)):
        q, v, n = np.zeros(robot.model.nq), np.zeros(robot.model.nv), robot.model.nv
        q[-1] = q[6 % len(q)] = 1.0
        error, *_ = robot.call("contact_dynamics", (q, v, v, ctypes.byref(packed), None), n, 3, 3)
        assert error == expected


def test_constraints_that_are_refused(panda):
    last = panda.model.nframes - 1
    for tips, axes, options, expected in (
        ([last] * 37, None, (0, -1.0, 0), TOO_MANY),
        ([last] * 7, None, (0, -1.0, 0), TOO_MANY),
        ([last + 1], None, (0, -1.0, 0), NO_FRAME),
        ([0], None, (0, -1.0, 0), NO_FRAME),
        ([last], [last + 1], (0, -1.0, 0), NO_FRAME),
        ([last], [-2], (0, -1.0, 0), NO_FRAME),
        ([last], None, (3, -1.0, 0), NO_OPTION),
        ([last], None, (0, -1.0, 4), NO_OPTION),
        ([last], None, (0, float("inf"), 0), NOT_FINITE),
        ([last] * 6, [-1] * 6, (2, -1.0, 3), 0),
    ):
        packed, (singularity, tolerance, priority) = PackedConstraints(rows=1000), options
        error = panda.c.dyn_ros_constraints_init(
            panda.reference,
            ctypes.byref(packed),
            (ctypes.c_int * len(tips))(*tips),
            axes and (ctypes.c_int * len(axes))(*axes),
            len(tips),
            singularity,
            ctypes.c_double(tolerance),
            priority,
        )
        assert (error, packed.rows) == (expected, 0 if expected else len(tips))


@pytest.mark.parametrize(
    "name, joints, frames",
    [
        ("panda", ["panda_joint2", "panda_joint5"], ["panda_hand"]),
        ("solo12", ["FL_HFE", "HR_KFE"], ["FL_FOOT", "HR_FOOT"]),
    ],
)
def test_contacts_of_a_robot_with_locked_joints(library, name, joints, frames):
    """With derivatives and impulses: they are those of the robot in which the joints are fixed."""
    model = robot_of(name)
    model.armature = np.linspace(0.1, 0.2, model.nv)
    other, (q, v, _, tau) = Robot(library, model_bytes(model)), random_state(model)
    other.c.dyn_ros_contact_at.restype = Contact
    indices = [model.joint_index(joint) for joint in joints]
    free = np.setdiff1d(np.arange(model.nv), [model.idx_v[i] for i in indices])
    positions = np.setdiff1d(np.arange(model.nq), [model.idx_q[i] for i in indices])
    v[[model.idx_v[i] for i in indices]] = 0.0
    fixed = model.reduced({joint: q[model.idx_q[i]] for joint, i in zip(joints, indices)})
    for i in indices:
        assert other.set("lock_joint", i, 1) == 0
    error, packed = make_contacts(other, [(model.frame_index(frame), 3, 2) for frame in frames])
    assert error == 0
    data, there, n = dyn_ros.Data(fixed), [dyn_ros.Contact(f, 3, 2) for f in frames], model.nv
    state, reduced = (q, v, tau), (q[positions], v[free], tau[free])
    square, wide = (n, n), (packed.rows, n)
    for function, arguments, fixed_arguments, shapes in (
        ("aba_derivatives", (*state, None), reduced, [square] * 3),
        (
            "contact_dynamics",
            (*state, ctypes.byref(packed), None),
            (*reduced, there),
            [n, packed.rows, packed.rows],
        ),
        (
            "contact_dynamics_derivatives",
            (*state, ctypes.byref(packed), None),
            (*reduced, there),
            [square] * 3 + [wide] * 3,
        ),
        (
            "impulse_dynamics",
            (q, v, ctypes.byref(packed)),
            (*reduced[:2], there),
            [n, packed.rows, packed.rows],
        ),
    ):
        error, *results = other.call(function, arguments, *shapes)
        assert error == 0
        expected = getattr(dyn_ros, function)(fixed, data, *fixed_arguments)
        for result, wanted in zip(results, expected):
            wanted = getattr(wanted, "lambda_c", wanted)
            for axis in (k for k, size in enumerate(result.shape) if size == n):
                result = np.take(result, free, axis)
            assert abs(result - wanted).max() <= 1e-9 * abs(wanted).max(), function
