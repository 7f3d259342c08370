# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The model in C: files, errors, names, what can be set, configurations."""

import ctypes
import mmap
import os

import numpy as np
import pytest
from export.tools import robot

import dyn_ros
from dyn_ros.export.model_file import HEADER, SECTIONS, checksum, model_bytes, write_model

NAMES = ("panda", "every_joint")
RNEA = ("rnea", "q", "v", "a")


class Joint(ctypes.Structure):
    """``dyn_ros_joint``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        *((name, ctypes.c_int) for name in ("parent", "frame", "idx_q", "idx_v", "nq", "nv")),
    )


class Frame(ctypes.Structure):
    """``dyn_ros_frame``."""

    _fields_ = (("name", ctypes.c_char_p), ("joint", ctypes.c_int), ("is_link", ctypes.c_int))


class Sizes(ctypes.Structure):
    """The beginning of ``dyn_ros_model``."""

    _fields_ = (
        *(
            (name, ctypes.c_int)
            for name in ("nq", "nv", "njoints", "nframes", "ncolumns", "checks")
        ),
        *(
            (name, ctypes.POINTER(ctypes.c_double))
            for name in (
                "lower",
                "upper",
                "velocity_limit",
                "effort_limit",
                "damping",
                "friction",
                "gravity",
                "armature",
            )
        ),
        ("private", ctypes.c_void_p * 8),
    )


def pointer(array):
    return None if array is None else array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


class Robot:
    """A model in C, from the content of a file."""

    def __init__(self, library, content):
        self.c = ctypes.CDLL(str(library / "lib" / "libdyn_ros.so"))
        self.c.dyn_ros_total_mass.restype = ctypes.c_double
        for name in ("robot_name", "velocity_name", "position_name", "error_text"):
            getattr(self.c, f"dyn_ros_{name}").restype = ctypes.c_char_p
        self.bytes, self.model, self.spaces = ctypes.create_string_buffer(content), Sizes(), {}
        self.error = self.c.dyn_ros_model_init(
            self.reference, self.bytes, ctypes.c_size_t(len(content))
        )

    @property
    def reference(self):
        return ctypes.byref(self.model)

    def text(self, error):
        return self.c.dyn_ros_error_text(error).decode()

    def workspace(self, name):
        """Initialized memory of a function."""
        size = getattr(self.c, f"dyn_ros_{name}_workspace_size")
        size.restype = ctypes.c_size_t
        count = size(self.reference)
        space = ctypes.create_string_buffer(count)
        assert (
            getattr(self.c, f"dyn_ros_{name}_workspace_init")(
                self.reference, space, ctypes.c_size_t(count)
            )
            == 0
        )
        return space

    def call(self, name, arguments, *shapes):
        """The error and the results of a function."""
        space = self.spaces.setdefault(name, self.workspace(name))
        results = [np.full(shape, 7.0) for shape in shapes]
        error = getattr(self.c, f"dyn_ros_{name}")(
            self.reference,
            space,
            *(pointer(x) if isinstance(x, np.ndarray) else x for x in arguments),
            *map(pointer, results),
        )
        return error, *results

    def set(self, name, *arguments):
        return getattr(self.c, f"dyn_ros_{name}")(
            self.reference,
            *(
                pointer(np.ascontiguousarray(x, float))
                if isinstance(x, (np.ndarray, list))
                else ctypes.c_double(x)
                if isinstance(x, float)
                else x
                for x in arguments
            ),
        )


@pytest.fixture(params=NAMES)
def pair(request, library):
    """The same robot in Python and in C."""
    model = robot(request.param)
    return model, Robot(library, model_bytes(model))


def random_state(model, seed=0):
    rng = np.random.default_rng(seed)
    return (model.random_configuration(rng), *rng.standard_normal((3, model.nv)))


def assert_same_dynamics(model, other, joints=None):
    """Whether everything that depends on inertias, armature and gravity is the same."""
    data, n = dyn_ros.Data(model), model.nv
    q, v, a, tau = random_state(model)
    for name, arguments, shape in (
        ("rnea", (q, v, a, None), (n,)),
        ("crba", (q,), (n, n)),
        ("aba", (q, v, tau, None), (n,)),
        ("minverse", (q,), (n, n)),
        ("frame_forces", (q, v, a, None, None), (model.nframes, 6)),
    ):
        error, result = other.call(name, arguments, shape)
        expected = getattr(dyn_ros, name)(model, data, *[x for x in arguments if x is not None])
        assert error == 0
        assert abs(result - expected).max() <= 1e-13 * abs(expected).max(), name
    assert other.c.dyn_ros_total_mass(other.reference) == pytest.approx(model.total_mass, 1e-14)


# --- files


def test_names_sizes_and_limits(pair):
    model, other = pair
    assert other.c.dyn_ros_robot_name(other.reference).decode() == model.name
    for name in ("nq", "nv", "njoints", "nframes"):
        assert getattr(other.model, name) == getattr(model, name)
    for name in (
        "lower",
        "upper",
        "velocity_limit",
        "effort_limit",
        "damping",
        "friction",
        "gravity",
        "armature",
    ):
        expected = getattr(model, name)
        assert np.array_equal(getattr(other.model, name)[: len(expected)], expected)
    joint, frame = Joint(), Frame()
    for i, name in enumerate(model.joint_names):
        assert other.c.dyn_ros_joint_info(other.reference, i, ctypes.byref(joint)) == 0
        assert joint.name.decode() == name == model.frame_names[joint.frame]
        assert (joint.parent, joint.idx_q, joint.idx_v, joint.nq, joint.nv) == (
            model.parents[i],
            model.idx_q[i],
            model.idx_v[i],
            model.nqs[i],
            model.nvs[i],
        )
        assert other.c.dyn_ros_joint_index(other.reference, name.encode()) == i
    for i, name in enumerate(model.frame_names):
        assert other.c.dyn_ros_frame_info(other.reference, i, ctypes.byref(frame)) == 0
        assert (frame.name.decode(), frame.joint) == (name, model.tree.frames[i].parent)
        index = other.c.dyn_ros_frame_index(other.reference, name.encode())
        assert index == model.frame_index(name)
    for k, name in enumerate(model.velocity_names):
        assert other.c.dyn_ros_velocity_name(other.reference, k).decode() == name
    for k, name in enumerate(model.position_names):
        assert other.c.dyn_ros_position_name(other.reference, k).decode() == name
    assert other.c.dyn_ros_velocity_name(other.reference, model.nv) is None
    assert other.c.dyn_ros_joint_index(other.reference, b"nothing") == -14
    assert other.c.dyn_ros_frame_index(other.reference, b"nothing") == -13


def changed(content, name, value):
    """A file in which an integer of the header differs, with the checksum that belongs to it."""
    word = (*HEADER, "START", "COUNT").index(name)  # of the first section
    return with_word(np.frombuffer(content, np.int64), word, value)


def with_word(content, word, value):
    """A file in which an integer differs, with the checksum that belongs to it."""
    words = content.copy()
    words[word] = value
    words[HEADER.index("CHECKSUM")] = 0
    words.view(np.uint64)[HEADER.index("CHECKSUM")] = checksum(words)
    return words.tobytes()


def test_files_that_cannot_be_used(library):
    content = model_bytes(robot("panda"))
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    for wrong, text in (
        (b"<robot/>" * 100, "not a model file"),
        (content[:100], "not complete"),
        (content[:-8], "not complete"),
        (bytes(flipped), "damaged"),
        (changed(content, "LAYOUT", 1), "another version"),
        (changed(content, "NV", 9), "damaged"),
        (b"", "not complete"),
        (changed(content, "NFRAMES", -1), "damaged"),
        (changed(content, "START", 2**63 - 8), "damaged"),
        (changed(content, "COUNT", 2**61), "damaged"),
    ):
        other = Robot(library, wrong)
        assert other.error < 0 and text in other.text(other.error), text
        assert other.c.dyn_ros_rnea_workspace_size(other.reference) == 0


def test_a_robot_without_joints(library):
    urdf = """<robot name="r"><link name="a"/><link name="b"/>
    <joint name="j" type="fixed"><parent link="a"/><child link="b"/></joint></robot>"""
    other = Robot(library, model_bytes(dyn_ros.Model.from_urdf(urdf)))
    assert (other.error, other.model.nq, other.model.nframes) == (0, 0, 3)
    error, placements = other.call("frame_placements", (np.zeros(1),), (3, 4, 4))
    assert error == 0 and np.array_equal(placements, [np.eye(4)] * 3)


@pytest.mark.parametrize("name", ["panda", "solo12", "every_joint"])
def test_wrong_integers_with_the_right_checksum_crash_nothing(library, name):
    """Integers of a file that kernels or calls read; a model that is accepted can be used."""
    content, rng = np.frombuffer(model_bytes(robot(name)), np.int64), np.random.default_rng(0)
    words = []
    for section in map(SECTIONS.index, ("INTS", "JOINTS", "FRAMES", "NAMES")):
        start, count = content[len(HEADER) + 2 * section :][:2]
        words += range(start // 8, start // 8 + count)
    for word in rng.choice(words, 150):
        for value in (-(2**62), -2, content[word] - 1, content[word] + 1, 2**31, 2**62):
            other = Robot(library, with_word(content, word, value))
            if other.error:
                assert "damaged" in other.text(other.error)
                continue
            q, v = np.zeros(other.model.nq), np.zeros(other.model.nv)
            other.call("aba", (q, v, v, None), v.shape)
            other.call("frame_placements", (q,), (other.model.nframes, 4, 4))


def test_a_file_is_read_after_any_payload(library):
    model = robot("panda")
    for n in range(8):
        model.set_payload(f"load {n}", n, 0.5, [0.1, 0.0, 0.1 * n], 0.01 * np.eye(3))
    other = Robot(library, model_bytes(model))
    assert_same_dynamics(model, other)
    for n in (3, 0, 7):
        model.clear_payload(f"load {n}")
        assert other.c.dyn_ros_clear_payload(other.reference, n) == 0
    assert_same_dynamics(model, other)
    for n in range(3):
        model.set_payload(f"more {n}", 4, 0.5, [0.1, 0.0, 0.1], 0.01 * np.eye(3))
    model.set_payload("too many", 4, 0.5, [0.1, 0.0, 0.1], 0.01 * np.eye(3))
    with pytest.raises(ValueError, match="at most 8 payloads, got 9"):
        model_bytes(model)


def test_a_file_that_a_program_has_mapped_is_replaced(tmp_path):
    path, link = tmp_path / "robot.dynros", tmp_path / "link"
    link.symlink_to(path)
    write_model(robot("panda"), link)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        write_model(robot("every_joint"), link)
        assert mapped[:] == model_bytes(robot("panda"))
    assert path.read_bytes() == model_bytes(robot("every_joint")) and link.is_symlink()
    read, write = os.pipe()
    with open(read, "rb") as pipe:
        write_model(robot("panda"), f"/dev/fd/{write}")
        os.close(write)
        assert pipe.read() == model_bytes(robot("panda"))


# --- errors of calls


def test_errors_of_calls(pair):
    model, other = pair
    q, v, a, _ = random_state(model)
    call = other.c.dyn_ros_rnea
    space, tau = other.workspace("rnea"), np.zeros(model.nv)
    good = (pointer(q), pointer(v), pointer(a), None, pointer(tau))
    assert call(other.reference, space, *good) == 0
    assert call(other.reference, space, *good[:-1], None) == 0  # no result is wanted
    assert call(None, space, *good) == -1
    assert call(other.reference, None, *good) == -2
    assert call(other.reference, other.workspace("aba"), *good) == -3
    error = call(other.reference, space, *good[:2], None, *good[3:])
    assert other.c.dyn_ros_error_kind(error) == -10
    assert other.text(error) == "a is NULL, but not optional"
    init = other.c.dyn_ros_rnea_workspace_init
    assert init(other.reference, space, ctypes.c_size_t(len(space) - 8)) == -5
    assert init(other.reference, ctypes.byref(space, 4), ctypes.c_size_t(len(space))) == -4
    jacobian = np.zeros((model.nv, 6))
    for frame, axes, expected in ((model.nframes, 0, -13), (-1, 0, -13), (0, 3, -15), (0, 2, 0)):
        error, _ = other.call("frame_jacobian", (q, frame, axes, None), jacobian.shape)
        assert error == expected
    assert other.call("subtree_com_jacobian", (q, model.njoints), jacobian.shape)[0] == -14
    assert [other.text(code) for code in (0, -50, -1000000, -64, -(2**31))] == [
        "no error",
        *["not an error of dyn_ros"] * 4,
    ]


def test_inputs_are_examined_on_request(pair):
    model, other = pair
    q, v, a, _ = random_state(model)
    v[-1] = np.nan
    error, tau = other.call("rnea", (q, v, a, None), model.nv)
    assert error == 0 and np.isnan(tau).any()
    other.model.checks = 1
    error, tau = other.call("rnea", (q, v, a, None), model.nv)
    assert other.text(error) == "v has a number that is not finite"
    assert (tau == 7.0).all()  # nothing is stored
    for value in (np.inf, -np.inf):
        v[-1] = value
        assert other.text(other.call("rnea", (q, v, a, None), model.nv)[0]).startswith("v has a n")
    v[-1] = 0.0
    assert other.call("rnea", (q, v, a, None), model.nv)[0] == 0
    if model.nq > model.nv:
        error, _ = other.call("rnea", (1.1 * q, v, a, None), model.nv)
        assert other.text(error) == "q has a quaternion that is not unit"


def test_a_joint_without_inertia_is_reported(pair):
    model, other = pair
    q, v, _, tau = random_state(model)
    k = model.nv - 1
    (joint,) = [
        i for i in range(model.njoints) if model.idx_v[i] <= k < (model.idx_v[i] + model.nvs[i])
    ]
    for i in range(model.njoints):
        if joint in model.supports[i] or model.idx_v[i] == k:
            assert other.set("set_inertia", i, np.zeros(10)) == 0
    error, _ = other.call("aba", (q, v, tau, None), model.nv)
    assert model.idx_v[joint] < error <= k + 1
    assert "almost no inertia" in other.text(error)


def test_tiny_numbers(pair):
    """Denormal inputs are numbers as others."""
    model, other = pair
    q = model.neutral()
    v, a = np.full((2, model.nv), 5e-324)
    v[::2] = 2.2e-310
    error, tau = other.call("rnea", (q, v, a, None), model.nv)
    assert error == 0
    assert np.array_equal(tau, dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a))
    assert other.set("set_gravity", [0.0, 0.0, 1e-310]) == 0
    model.gravity = [0.0, 0.0, 1e-310]
    error, tau = other.call("rnea", (q, v, a, None), model.nv)
    assert np.array_equal(tau, dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a))


# --- what can be set


def test_what_can_be_set(pair):
    model, other = pair
    rng = np.random.default_rng(3)
    model.gravity = [1.0, 2.0, -3.0]
    assert other.set("set_gravity", [1.0, 2.0, -3.0]) == 0
    model.armature = rng.random(model.nv)
    assert other.set("set_armature", model.armature) == 0
    assert_same_dynamics(model, other)
    frame, com, inertia = model.nframes - 1, [0.1, -0.2, 0.3], np.diag([0.01, 0.02, 0.015])
    inertia[0, 1] = inertia[1, 0] = 0.001
    model.set_payload("cup", frame, 0.4, com, inertia)
    assert other.set("set_payload", 5, frame, 0.4, com, inertia) == 0
    assert_same_dynamics(model, other)
    model.set_payload("point mass", frame, 0.7, com)
    assert other.set("set_payload", 6, frame, 0.7, com, np.zeros((3, 3))) == 0
    assert_same_dynamics(model, other)
    model.clear_payload("point mass")
    assert other.set("clear_payload", 6) == 0
    parameters = model.inertial_parameters.copy()
    parameters[-1] *= 1.5
    parameters[0] += rng.random(10)
    model.inertial_parameters = parameters
    for joint in (0, model.njoints - 1):
        assert other.set("set_inertia", joint, parameters[joint]) == 0
    assert_same_dynamics(model, other)
    stored = np.zeros(10)
    assert other.c.dyn_ros_get_inertia(other.reference, 0, pointer(stored)) == 0
    assert np.array_equal(stored, model.inertial_parameters[0])
    model.clear_payload("cup")
    assert other.set("clear_payload", 5) == 0 == other.set("clear_payload", 4)
    assert_same_dynamics(model, other)


def test_what_cannot_be_set(pair):
    model, other = pair
    before = bytes(other.bytes)
    good = (0, 0, 0.4, [0.0, 0.0, 0.0], 0.01 * np.eye(3))
    for n, wrong, error in (
        (0, 8, -15),
        (0, -1, -15),
        (1, model.nframes, -13),
        (2, 0.0, -16),
        (2, -1.0, -16),
        (2, float("nan"), -11),
        (3, [0.0, np.inf, 0.0], -11),
        (4, np.diag([0.0, 1.0, 1.0]), -16),
        (4, np.diag([1.0, 1.0, 3.0]), -16),
        (4, np.diag([1.0, 1.0, -1.0]), -16),
        (4, np.eye(3) + np.eye(3, k=1), -16),
    ):
        assert (
            other.set("set_payload", *(wrong if k == n else x for k, x in enumerate(good))) == error
        ), wrong
    assert other.set("set_gravity", [0.0, np.nan, 0.0]) == -11
    assert other.set("set_armature", np.full(model.nv, np.inf)) == -11
    assert other.set("set_inertia", model.njoints, np.zeros(10)) == -14
    assert other.set("set_inertia", 0, np.full(10, np.nan)) == -11
    assert other.set("lock_joint", model.njoints, 1) == -14
    assert other.set("set_gravity", None) == other.set("set_armature", None) == -10
    assert other.set("set_inertia", 0, None) == other.set("get_inertia", 0, None) == -10
    assert other.set("set_payload", *good[:3], None, good[4]) == -10
    assert other.c.dyn_ros_set_gravity(None, None) == -1
    assert bytes(other.bytes) == before


@pytest.mark.parametrize("name", ["talos_reduced", "panda", "every_joint"])
def test_a_locked_joint(library, name):
    """Forward dynamics is that of the robot without the joint; rnea has the torque of the brake."""
    model = robot(name)
    other, rng = Robot(library, model_bytes(model)), np.random.default_rng(0)
    q, v, _, tau = random_state(model)
    joints = [i for i in range(model.njoints) if model.nvs[i] == 1][1:8:3]
    locked = [model.idx_v[i] for i in joints]
    free = np.setdiff1d(np.arange(model.nv), locked)
    assert other.set("set_armature", 0.1 * np.ones(model.nv)) == 0
    model.armature = 0.1 * np.ones(model.nv)
    for i in joints:
        assert other.set("lock_joint", i, 1) == 0
    v[locked] = 0.0
    error, ddq = other.call("aba", (q, v, tau, None), model.nv)
    assert error == 0 and abs(ddq[locked]).max() < 1e-20
    data = dyn_ros.Data(model)
    M, nle = dyn_ros.crba(model, data, q).copy(), dyn_ros.nonlinear_effects(model, data, q, v)
    expected = np.linalg.solve(M[np.ix_(free, free)], (tau - nle)[free])
    assert np.allclose(ddq[free], expected, rtol=1e-10, atol=1e-10 * abs(expected).max())
    error, inverse = other.call("minverse", (q,), (model.nv, model.nv))
    expected = np.linalg.inv(M[np.ix_(free, free)])
    assert error == 0 and abs(inverse[locked]).max() < 1e-20
    assert np.allclose(inverse[np.ix_(free, free)], expected, atol=1e-10 * abs(expected).max())
    a = rng.standard_normal(model.nv)
    a[locked] = 0.0
    error, torque = other.call("rnea", (q, v, a, None), model.nv)
    assert error == 0
    assert np.array_equal(torque, dyn_ros.rnea(model, data, q, v, a))
    for i in joints:
        assert other.set("lock_joint", i, 0) == 0
    assert_same_dynamics(model, other)


# --- configurations


def test_configurations(pair):
    model, other = pair
    rng = np.random.default_rng(0)
    q = np.zeros(model.nq)
    assert other.c.dyn_ros_neutral(other.reference, pointer(q)) == 0
    assert np.array_equal(q, model.neutral())
    for size in (0.0, 1e-9, 1e-3, 0.3, 1.0, 3.0, 40.0):
        q, v = model.random_configuration(rng), size * rng.standard_normal(model.nv)
        moved = np.zeros(model.nq)
        assert (
            other.c.dyn_ros_integrate(other.reference, pointer(q), pointer(v), pointer(moved)) == 0
        )
        assert np.allclose(moved, model.integrate(q, v), rtol=0.0, atol=1e-14 * (1.0 + 10 * size))
        assert other.c.dyn_ros_integrate(other.reference, pointer(q), pointer(v), pointer(q)) == 0
        assert np.array_equal(q, moved)
