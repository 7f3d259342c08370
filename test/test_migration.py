# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""docs/migration: the calls of both libraries run, and their results agree."""

import itertools
import re
from pathlib import Path
from types import SimpleNamespace

import dense_contacts as dense
import numpy as np
import pinocchio
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.pinocchio_names import _OTHER_NAMES, snake_case

TEST = Path(__file__).resolve().parent
FOLDER = TEST.parent / "docs" / "migration"
PINOCCHIO = (FOLDER / "pinocchio.md").read_text()
FIELDS = (FOLDER.parent / "data.md").read_text()  # test_data_table.py reads it, too
CALLS = "\n".join(
    [
        (TEST / "migration_calls.md").read_text(),
        *((FOLDER / f"{name}.md").read_text() for name in ("kdl", "idyntree")),
    ]
)
TABLES = dict(
    re.findall(r"^##? (?:Migration from )?(.*?)\n(.*?)(?=^#|\Z)", CALLS, re.MULTILINE | re.DOTALL)
)
FIRST = re.findall(
    r"`(pin[^`]+)`",
    re.search(r"^Each row begins.*?\n\n", TABLES["Contacts"], re.MULTILINE | re.DOTALL)[0],
)
ONE_DOF = 6  # joints at the end of either robot
COMPARED = ("Model and configurations", "Algorithms", "Derivatives", "Values", "Contacts")


def cells(text):
    """For each row of the tables in a text, the pieces of code in its first two cells."""
    return [
        [re.findall(r"`([^`]+)`", cell) for cell in re.split(r" \| ", line.strip("| "))[:2]]
        for line in re.findall(r"^\| .*`.*$", text, re.MULTILINE)
    ]


def rows(*titles):
    """pytest parameters ``theirs, ours``: lists of pieces of code, the last one has the value."""
    return pytest.mark.parametrize(
        "theirs, ours",
        [
            pytest.param(FIRST * (title == "Contacts") + theirs, ours, id="`, `".join(ours))
            for title in titles
            for theirs, ours in cells(TABLES[title])
        ],
    )


def names(code):
    return set(re.findall(r"\w+", " ".join(code)))


def value(code, names):
    """Of the last piece, after the others."""
    for piece in code[:-1]:
        eval(piece, names)
    return eval(code[-1], names)


def test_no_row_is_left_out():
    assert {title for title, text in TABLES.items() if "\n| " in text} == {
        *COMPARED,
        "Only in dyn_ros",
        "KDL",
        "Other calls of KDL",
        "iDynTree",
        "Other calls of iDynTree",
    }


def test_every_algorithm_has_a_row():
    assert [name for name in ALGORITHMS if f"dyn_ros.{name}(" not in CALLS] == []


@pytest.mark.parametrize(
    "theirs, ours", [pytest.param(theirs, ours, id=theirs[0]) for theirs, ours in cells(PINOCCHIO)]
)
def test_the_names_on_the_page_are_in_calls_that_agree(theirs, ours):
    calls = [call for title in (*COMPARED, "Only in dyn_ros") for call in cells(TABLES[title])]
    last = [[re.split(r"\.|::", name)[-1] for name in side] for side in (theirs, ours)]
    pairs = zip(*last) if len(theirs) == len(ours) else itertools.product(*last)
    assert [
        (one, other)
        for one, other in pairs
        if not any(one in names(call[0]) and other in names(call[1]) for call in calls)
    ] == []


@rows(*COMPARED)
def test_a_name_that_is_not_pinocchios_in_snake_case_is_on_a_page(theirs, ours):
    listed = names(name for _, side in cells(PINOCCHIO) for name in side)
    if any("data." in call for call in theirs):
        listed |= names(re.findall(r"`([^`]+)`", FIELDS))
    called = set(re.findall(r"(?<!data)\.(\w+)", " ".join(ours)))  # test_data_table.py has data
    same = names(theirs)
    assert called - listed - same - set(map(snake_case, same)) == set()


def message_for(name):
    with pytest.raises(AttributeError) as raised:
        getattr(dyn_ros, name)
    return str(raised.value)


@pytest.mark.parametrize(
    "name, equivalent",
    [
        ("computeRNEA", "dyn_ros.rnea"),
        ("computeJointJacobian", "dyn_ros.joint_jacobian"),
        ("computeGeneralizedGravity", "dyn_ros.generalized_gravity"),
        ("randomConfiguration", "dyn_ros.Model.random_configuration"),
        ("neutral", "dyn_ros.Model.neutral"),
        ("buildModelFromUrdf", "dyn_ros.Model.from_urdf_file"),
    ],
)
def test_errors_name_the_equivalent_of_a_function_of_pinocchio(name, equivalent):
    assert f"use {equivalent} for" in message_for(name)


def test_errors_and_the_page_have_the_same_names():
    pairs = [
        pair
        for theirs, ours in cells(PINOCCHIO)
        for pair in (zip(theirs, ours) if len(theirs) == len(ours) else [(theirs[0], ours[0])])
        if hasattr(pinocchio, pair[0])
        and not any(hasattr(dyn_ros, name) for name in (pair[0], snake_case(pair[0])))
    ]
    assert len(pairs) > 20
    for theirs, ours in pairs:
        assert message_for(theirs).partition(" for this")[0].endswith(ours.rpartition(".")[2])
    owners = {"": dyn_ros, "Model": peer.new_pair("panda").model, "SE3": dyn_ros.SE3}
    for name, ours in _OTHER_NAMES.items():
        owner, _, attribute = ours.rpartition(".")
        assert hasattr(pinocchio, name) and hasattr(owners[owner], attribute)


@pytest.mark.parametrize("name", ["rneaa", "__wrapped__", "StdVec_Force"])
def test_other_errors_name_no_equivalent(name):
    assert message_for(name) == f"module 'dyn_ros' has no attribute {name!r}"


# --- what both are asked about


def spatial(seed):
    """Numbers for values, the same for both sides."""
    rng = np.random.default_rng(seed)
    x, y = (np.asarray(dyn_ros.SE3.exp(rng.normal(size=6))) for _ in range(2))
    A = rng.normal(size=(3, 3))
    m, f = rng.normal(size=(2, 6))
    return SimpleNamespace(X=x, Y=y, m=m, f=f, S=A @ A.T, R=x[:3, :3], p=x[:3, 3])


def ours_of(model, state):
    """The names in our column."""
    q, v, a, tau = state
    given = spatial(3)
    X, m = dyn_ros.SE3.from_homogeneous(given.X), dyn_ros.Motion(given.m)
    c = given.p
    return {
        "dyn_ros": dyn_ros,
        "np": np,
        "model": model,
        "data": dyn_ros.Data(model),
        "rng": np.random.default_rng(0),
        "q": q,
        "v": v,
        "a": a,
        "tau": tau,
        "zero": np.zeros(model.nv),
        "q1": model.integrate(q, v),
        "contacts": [dyn_ros.Contact("tool", 3)],
        "frame": "tool",
        "joint": model.joint_names[2],
        "x": q[model.idx_q[2]],
        "root": model.frame_names[0],
        "tip": model.frame_names[-1],
        **{each.name: each for each in dyn_ros.ReferenceFrame},
        "X": X,
        "Y": dyn_ros.SE3.from_homogeneous(given.Y),
        "m": m,
        "f": dyn_ros.Force(given.f),
        "I": dyn_ros.Inertia(2.0, given.p, given.S),
        "R": given.R,
        "p": given.p,
        "S": given.S,
        "quaternion": X.as_quaternion(),
        "linear": given.m[:3],
        "angular": given.m[3:],
        "dX": dyn_ros.TransformDerivative.from_body_twist(X, dyn_ros.Motion(given.f)),
        "other": dyn_ros.Model.from_urdf(peer.urdf("limb")),
        "about_com": given.S - 2.0 * (c @ c * np.eye(3) - np.outer(c, c)),
    }


@pytest.fixture(params=[("ur5", None), ("solo12", "floating")], ids=["ur5", "solo12"])
def both(request):
    """The names in Pinocchio's column, and those in ours."""
    robot, root_joint = request.param
    pair = peer.new_pair(robot, root_joint)
    path = peer.EXAMPLE_ROBOTS / peer.FILES[robot]
    state, f_ext = pair.state(5), pair.wrenches(6)
    ours = ours_of(pair.model, state)
    ours |= {
        "path": str(path),
        "xml": path.read_text(),
        "f_ext": f_ext,
        "frame": pair.model.frame_names[-1],
        "frame_name": pair.model.frame_names[-1],
        "joint_name": ours["joint"],
    }
    given = spatial(3)
    fixed = [frame.kind for frame in pair.model.tree.frames].index("fixed_joint", 3)
    ours["fixed_joint"] = pair.model.frame_names[fixed]
    specs = [dense.Spec(ours["frame"], 3, kp=2.0, kd=3.0)]
    ours["contacts"] = dense.ours(specs)
    theirs = {
        key: ours[key]
        for key in ("np", "path", "xml", "q", "v", "a", "tau", "q1", "R", "p", "S", "quaternion")
    }
    theirs |= {
        "pin": pinocchio,
        "model": pair.pin,
        "data": pair.pin_data,
        "f_ext": pair.to_pin_f(f_ext),
        "frame": pair.pin.getFrameId(ours["frame"]),
        "joint": pair.pin.getJointId(ours["joint"]),
        "frame_name": ours["frame"],
        "joint_name": ours["joint"],
        "fixed_joint": fixed + 1,
        "other": peer.pinocchio_model(peer.urdf("limb")),
        "X": pinocchio.SE3(given.X),
        "Y": pinocchio.SE3(given.Y),
        "m": pinocchio.Motion(given.m),
        "f": pinocchio.Force(given.f),
        "I": pinocchio.Inertia(2.0, given.p, given.S),
    }
    theirs["contacts"], theirs["datas"] = dense.rigid(pair, specs)
    return theirs, ours


def plain(x):
    """A value of either side as something to compare; Pinocchio's lists begin with the universe."""
    if hasattr(x, "baseWrench"):
        return np.hstack([x.baseWrench().toNumPy(), x.jointTorques().toNumPy()])
    for attribute in (
        "vector",
        "homogeneous",
        "toNumPy",
        "asHomogeneousTransform",
        "asHomogeneousTransformDerivative",
        "asMatrix",
    ):
        if hasattr(x, attribute):
            found = getattr(x, attribute)
            return plain(found()) if callable(found) else found
    if isinstance(x, pinocchio.Inertia):
        return x.matrix()
    if isinstance(x, (pinocchio.Model, dyn_ros.Model)):
        return x.nq, x.nv
    if isinstance(x, (pinocchio.Data, dyn_ros.Data)):
        return ()
    if isinstance(x, (tuple, list)):
        return list(x)
    if type(x).__name__.startswith("StdVec"):
        return list(x)[1:]
    return x


def agree(theirs, ours):
    theirs, ours = plain(theirs), plain(ours)
    if isinstance(theirs, (tuple, list)):
        assert len(theirs) == len(ours)
        for one, other in zip(theirs, ours):
            agree(one, other)
    elif isinstance(theirs, str):
        assert ours == theirs
    else:
        peer.close(ours, theirs, 1e-9)


@rows(*COMPARED)
def test_pinocchios_call_and_ours_agree(both, theirs, ours):
    one, other = value(theirs, both[0]), value(ours, both[1])
    if "random" in theirs[-1]:
        one, other = len(one), len(other)
    if "Limit" in theirs[-1]:  # a floating joint's are represented differently
        one, other = one[-ONE_DOF:], other[-ONE_DOF:]
    agree(one, other)


# --- KDL has no wheel: ours answer, with finite numbers (test_vereshchagin.py has KDL's own)


@pytest.fixture
def arm():
    """The names in our column, for the arm of the package."""
    path = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
    model = dyn_ros.Model.from_urdf_file(path)
    state = (
        model.random_configuration(np.random.default_rng(1)),
        *np.random.default_rng(2).normal(size=(3, model.nv)),
    )
    ours = ours_of(model, state)
    rng = np.random.default_rng(3)
    alpha, beta = np.eye(6)[:, :2], np.zeros(2)
    q, v, _, _ = state
    return ours | {
        "xml": path.read_text(),
        "f_ext": rng.normal(size=(model.njoints, 6)),
        "wrench": rng.normal(size=6),
        "alpha": alpha,
        "beta": beta,
        "root_acc": np.array([0.0, 0.0, 9.81, 0.0, 0.0, 0.0]),
        "motion": dyn_ros.vereshchagin(
            model, dyn_ros.Data(model), q, v, alpha, beta, ours["frame"]
        ),
    }


def finite(x):
    if isinstance(x, (tuple, list)):
        return all(map(finite, x))
    if isinstance(x, dyn_ros.ContactForces):
        return finite(x.lambda_c)
    return isinstance(x, (dyn_ros.Model, dyn_ros.Data)) or bool(np.isfinite(np.asarray(x)).all())


@rows("Only in dyn_ros", "KDL", "Other calls of KDL")
def test_our_call_answers(arm, theirs, ours):
    assert finite(value(ours, arm))


# --- iDynTree


@pytest.fixture
def with_idyntree():
    """The names in iDynTree's column, and those in ours; of a floating robot."""
    idyn = pytest.importorskip("idyntree.swig", reason="iDynTree is not installed")
    xml = peer.urdf("solo12")
    model = dyn_ros.Model.from_urdf(xml, "floating")
    state = peer.pair("solo12", "floating").state(5)
    q, v, a, _ = state
    ours = ours_of(model, state) | {"frame": model.frame_names[-1]}
    loader = idyn.ModelLoader()
    assert loader.loadReducedModelFromString(xml, list(model.joint_names[1:]))
    kindyn = idyn.KinDynComputations()
    assert kindyn.loadRobotModel(loader.model())
    assert kindyn.setFrameVelocityRepresentation(idyn.BODY_FIXED_REPRESENTATION)
    base = dyn_ros.SE3.from_quaternion(q[3:7], q[:3])
    ours |= {"base": base, "turn": dyn_ros.SE3(base.rotation)}
    assert kindyn.setRobotState(base.as_homogeneous(), q[7:], v[:6], v[6:], model.gravity)
    given = spatial(3)
    theirs = {
        "iDynTree": idyn,
        "kindyn": kindyn,
        "loader": loader,
        "model": loader.model(),
        "frame": ours["frame"],
        "base_acceleration": a[:6],
        "joint_accelerations": a[6:],
        "no_wrenches": idyn.LinkWrenches(loader.model()),
        "jacobian": idyn.MatrixDynSize(6, model.nv),
        "mass_matrix": idyn.MatrixDynSize(model.nv, model.nv),
        "forces": idyn.FreeFloatingGeneralizedTorques(loader.model()),
        "R": idyn.Rotation(given.R),
        "p": idyn.Position(given.p),
        "S": idyn.RotationalInertia(given.S),
    }
    theirs["no_wrenches"].zero()
    theirs["X"] = idyn.Transform(theirs["R"], theirs["p"])
    theirs["dX"] = idyn.TransformDerivative()
    theirs["dX"].setRotationDerivative(idyn.Matrix3x3(np.array(ours["dX"].rotation)))
    theirs["dX"].setPositionDerivative(idyn.Vector3(np.array(ours["dX"].translation)))
    theirs["m"], theirs["f"] = idyn.SpatialMotionVector(), idyn.SpatialForceVector()
    for k in range(6):
        theirs["m"].setVal(k, given.m[k])
        theirs["f"].setVal(k, given.f[k])
    return theirs, ours


@rows("iDynTree", "Other calls of iDynTree")
def test_idyntrees_call_and_ours_agree(with_idyntree, theirs, ours):
    agree(value(theirs, with_idyntree[0]), value(ours, with_idyntree[1]))


def test_idyntrees_default_representation(with_idyntree):
    """MIXED: the base is in the axes of the world, and its acceleration is the classical one."""
    theirs, ours = with_idyntree
    idyn, kindyn = theirs["iDynTree"], theirs["kindyn"]
    model, data, q, v, frame, aligned = (
        ours[name] for name in ("model", "data", "q", "v", "frame", "LOCAL_WORLD_ALIGNED")
    )
    T = np.eye(model.nv)
    T[:3, :3] = T[3:6, 3:6] = ours["turn"].rotation
    still = np.zeros(model.nv)
    still[:3] = -np.cross(v[3:6], v[:3])
    assert kindyn.setFrameVelocityRepresentation(idyn.MIXED_REPRESENTATION)
    assert kindyn.setRobotState(
        ours["base"].as_homogeneous(), q[7:], T[:6, :6] @ v[:6], v[6:], model.gravity
    )
    kindyn.getFreeFloatingMassMatrix(theirs["mass_matrix"])
    kindyn.getFrameFreeFloatingJacobian(theirs["frame"], theirs["jacobian"])
    kindyn.generalizedBiasForces(theirs["forces"])
    agree(
        kindyn.getFrameVel(theirs["frame"]),
        dyn_ros.frame_velocity(model, data, q, v, frame, aligned),
    )
    agree(
        kindyn.getFrameBiasAcc(theirs["frame"]),
        dyn_ros.frame_classical_acceleration(model, data, q, v, still, frame, aligned),
    )
    agree(theirs["mass_matrix"], T @ dyn_ros.crba(model, data, q) @ T.T)
    agree(theirs["jacobian"], dyn_ros.frame_jacobian(model, data, q, frame, aligned) @ T.T)
    agree(theirs["forces"], T @ dyn_ros.rnea(model, data, q, v, still))
