# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads a robot description (URDF) into a `Tree`: the moving joints and what each carries.

The text goes through four steps, each of them one section below: it is parsed and stripped to
what dynamics needs (so that a strange mesh or plugin never hurts), the links and joints are
checked to be one tree, the tree is walked in Pinocchio's order while fixed joints are lumped
into the moving joint they hang on, and mimic joints are followed to the joint that drives them.

Whatever is wrong ends as a `UrdfError` that names the element and says what would do. What is
odd but can be computed with is told in `Tree.warnings`, or refused with ``strict=True``.
"""
from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass

import numpy as np

from ..spatial.inertia import Inertia
from ..spatial.se3 import SE3
from .inertia import rotational_fault

MAX_CHARACTERS = 5_000_000
"""A longer text is refused. The largest robots known are below 1 MB; meshes belong in files."""

ROOT_JOINT_NAME = "root_joint"
ONE_DOF = ("revolute", "continuous", "prismatic")
MOVING = ONE_DOF + ("floating", "planar")
SUPPORTED = MOVING + ("fixed",)


class UrdfError(ValueError):
    """A robot description that cannot be used; the message names the element and the remedy."""


@dataclass(frozen=True, eq=False)
class Mimic:
    """A dependent joint's rule: q = multiplier * q[joint] + offset.

    Attributes
    ----------
    joint : int
        Index in `Tree.joints` of the driving joint, itself independent (chains are resolved).
    multiplier, offset : float
        Unitless, m/rad or rad/m between unlike joints; rad or m.
    """

    joint: int
    multiplier: float
    offset: float


@dataclass(frozen=True, eq=False)
class Joint:
    """A moving joint and the body that moves with it.

    Attributes
    ----------
    name : str
    kind : {"revolute", "continuous", "prismatic", "floating", "planar"}
        A planar joint moves in the x-y plane of its frame and turns about z.
    parent : int
        Index in `Tree.joints`, -1 for the universe.
    placement : (4, 4) ndarray
        The joint frame at zero position in the parent joint's frame, homogeneous.
    axis : (3,) ndarray
        Unit axis in the joint frame; for planar joints z, for floating joints without meaning.
    inertia : Inertia
        Lumped over all links fixed to the joint.
    mimic : Mimic or None
    lower, upper : float
        Position limits in rad or m; infinite for continuous, floating and planar joints.
    velocity, effort : float
        Limits in rad/s or m/s, and N m or N; infinite where the description gives none.
    """

    name: str
    kind: str
    parent: int
    placement: np.ndarray
    axis: np.ndarray
    inertia: Inertia
    mimic: Mimic | None
    lower: float
    upper: float
    velocity: float
    effort: float


@dataclass(frozen=True, eq=False)
class Frame:
    """A named place on the robot.

    Attributes
    ----------
    name : str
    kind : {"joint", "fixed_joint", "body"}
    parent : int
        The joint it moves with (index in `Tree.joints`), -1 for the universe.
    placement : (4, 4) ndarray
        In the parent joint's frame, homogeneous.
    """

    name: str
    kind: str
    parent: int
    placement: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """A robot as `read_urdf` gives it.

    Attributes
    ----------
    name : str
    joints : tuple of Joint
        Depth first, children by joint name: Pinocchio's order. A parent precedes its children.
    frames : tuple of Frame
        Pinocchio's order, the universe left out.
    base_inertia : Inertia
        The links fixed to the universe, in the root link's frame; zero with a root joint.
    warnings : tuple of str
    """

    name: str
    joints: tuple[Joint, ...]
    frames: tuple[Frame, ...]
    base_inertia: Inertia
    warnings: tuple[str, ...]


def read_urdf(xml, root_joint=None, mimic="project", strict=False):
    """Read a robot description.

    Parameters
    ----------
    xml : str or bytes
        The URDF text, xacro already expanded. Bytes are decoded as their XML declaration says.
    root_joint : {None, "floating", "planar"}
        The joint between the universe and the root link; named "root_joint". None fixes it.
    mimic : {"project", "ignore"}
        "ignore" makes mimic joints plain free joints and does not look at their mimic elements.
    strict : bool
        Refuse what would otherwise be told in `Tree.warnings`.

    Returns
    -------
    Tree

    Raises
    ------
    UrdfError
        For anything that is wrong in the text.
    ValueError
        For an unknown `root_joint` or `mimic`.

    Notes
    -----
    Conventions are those of the URDF specification: rpy are fixed-axis angles, R = Rz(yaw)
    Ry(pitch) Rx(roll); the default axis is x; lower and upper limits default to 0. A planar joint
    moves in the x-y plane of its own frame as in Pinocchio and MoveIt, whatever its axis says.
    """
    _check_choice("root_joint", root_joint, (None, "floating", "planar"))
    _check_choice("mimic", mimic, ("project", "ignore"))
    warnings = []
    robot = _parse(parse_elements(xml), warnings)
    root = _check_one_tree(robot)
    tree = _assemble(robot, root, root_joint, mimic, warnings)
    if strict and warnings:
        raise UrdfError("refused, as strict=True: " + "; ".join(warnings))
    return tree


def _check_choice(argument, value, choices):
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"{argument} is {value!r}; expected one of {allowed}")


# ---------------------------------------------------------------------------- text to elements

_REQUIRED = object()
_TEXT = 0

# What is read of each element: attribute -> (what it holds, what stands for a missing one).
# It holds a text, one of several words, or so many numbers. A default of None leaves the
# attribute out: the specification's own default then holds.
_ATTRIBUTES = {
    "robot": {"name": (_TEXT, _REQUIRED)},
    "link": {"name": (_TEXT, _REQUIRED)},
    "joint": {"name": (_TEXT, _REQUIRED), "type": (SUPPORTED, _REQUIRED)},
    "inertial": {},
    "origin": {"xyz": (3, None), "rpy": (3, None)},
    "mass": {"value": (1, _REQUIRED)},
    "inertia": dict.fromkeys(("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), (1, _REQUIRED)),
    "parent": {"link": (_TEXT, _REQUIRED)},
    "child": {"link": (_TEXT, _REQUIRED)},
    "axis": {"xyz": (3, _REQUIRED)},
    "limit": {
        "lower": (1, None),
        "upper": (1, None),
        "effort": (1, "inf"),
        "velocity": (1, "inf"),
    },
    "mimic": {"joint": (_TEXT, _REQUIRED), "multiplier": (1, None), "offset": (1, None)},
}

# What is read inside each element: child -> whether it must be there.
_CHILDREN = {
    "robot": {"link": False, "joint": False},
    "link": {"inertial": False},
    "inertial": {"origin": False, "mass": True, "inertia": False},
    "fixed joint": {"origin": False, "parent": True, "child": True},
    "joint": {
        "origin": False,
        "parent": True,
        "child": True,
        "axis": False,
        "limit": False,
        "mimic": False,
    },
}

# XML's prolog: white space, processing instructions and comments, before a DOCTYPE or the root.
_PROLOG = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")


def _text(xml):
    """The description as text, its size and its prolog checked before any parser sees it."""
    if not isinstance(xml, (str, bytes)):
        raise UrdfError(f"expected the URDF as str or bytes, got {type(xml).__name__}")
    if len(xml) > MAX_CHARACTERS:
        raise UrdfError(
            f"the description has {len(xml) / 1e6:.1f} million characters; at most "
            f"{MAX_CHARACTERS / 1e6:.0f} million are read (meshes belong in files of their own)"
        )
    text = (xml if isinstance(xml, str) else _decode(xml)).lstrip("\ufeff \t\r\n")
    if not text:
        raise UrdfError("the description is empty; expected URDF, <robot name=...> ... </robot>")
    if not text.startswith("<"):
        raise UrdfError(
            f"not XML: the description starts with {text[:40]!r}; expected URDF text, "
            "<robot name=...> ... </robot> (to read a file, use Model.from_urdf_file)"
        )
    if text.startswith("<!DOCTYPE", _PROLOG.match(text).end()):
        raise UrdfError(
            "the description has a DOCTYPE, which is refused because it can declare entities; "
            "remove it and write the values out"
        )
    return text


def _decode(data):
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        declared = _DECLARED_ENCODING.match(data)
        encoding = declared.group(1).decode("ascii") if declared else "utf-8"
    try:
        return data.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise UrdfError(
            f"the description cannot be decoded as {encoding}: {error}; "
            "save it as UTF-8 or correct the encoding in its XML declaration"
        ) from None


def parse_elements(xml):
    """The XML of a description, of which nothing is checked but that it is a URDF's.

    Parameters
    ----------
    xml : str or bytes

    Returns
    -------
    xml.etree.ElementTree.Element

    Raises
    ------
    UrdfError
        It is not well-formed, or too long, or has a DOCTYPE.
    """
    return _parse_xml(_text(xml))


def _parse(elements, warnings):
    """The robot as urdf_parser_py's objects, every value in it checked."""
    from urdf_parser_py.urdf import URDF

    needed = _needed(elements, "", warnings)
    try:
        return URDF.from_xml_string(ElementTree.tostring(needed))
    except Exception as error:  # whatever the library trips over, the caller gets one kind
        raise UrdfError(f"urdf_parser_py cannot read the description: {error}") from error


def _parse_xml(text):
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        hint = "; expand xacro files with the xacro command first" if "prefix" in str(error) else ""
        raise UrdfError(f"not well-formed XML: {error}{hint}") from None
    except (ValueError, UnicodeError) as error:
        raise UrdfError(f"not well-formed XML: {error}") from None
    if _local_name(root) != "robot":
        raise UrdfError(f"the root element is <{_local_name(root)}>; a URDF's is <robot>")
    for element in root.iter():
        if _namespace(element).rstrip("/").endswith("xacro"):
            raise UrdfError(
                f"<xacro:{_local_name(element)}> is not expanded; run the xacro command first"
            )
    return root


def _namespace(element):
    return element.tag[1:].rpartition("}")[0]


def _local_name(element):
    return element.tag.rpartition("}")[2]


def _needed(element, inside, warnings):
    """A copy of the element with only what dynamics needs, all its values checked."""
    tag = _local_name(element)
    copy = ElementTree.Element(tag)
    where = f"<{tag}>{inside}"
    for attribute, (holds, default) in _ATTRIBUTES[tag].items():
        value = element.get(attribute)
        if value is not None:
            _check_value(value, holds, f"{attribute} of {where}")
            copy.set(attribute, value)
        elif default is _REQUIRED:
            raise UrdfError(f"{where} has no attribute {attribute}; add it")
        elif default is not None:
            warnings.append(f"{where} has no {attribute}: taken as {default}")
            copy.set(attribute, default)
        if attribute == "name":
            where = f'{tag} "{value}"'
    if tag == "origin" and element.get("quat_xyzw") is not None:
        raise UrdfError(f"quat_xyzw of {where} is not supported; write the rotation as rpy")
    for child in _needed_children(element, where, warnings):
        copy.append(_needed(child, f" of {where}" if tag != "robot" else "", warnings))
    return copy


def _needed_children(element, where, warnings):
    """The children that are read: of the URDF's own namespace; where one is meant, the first."""
    kind = "fixed joint" if element.get("type") == "fixed" else _local_name(element)
    expected = _CHILDREN.get(kind, {})
    kept, seen = [], set()
    for child in element:
        tag = _local_name(child)
        if tag not in expected or _namespace(child) != _namespace(element):
            continue
        if tag in seen and tag not in ("link", "joint"):
            warnings.append(f"{where} has more than one <{tag}>: only the first is used")
            continue
        seen.add(tag)
        kept.append(child)
    missing = [tag for tag, required in expected.items() if required and tag not in seen]
    if missing:
        raise UrdfError(f"{where} has no <{missing[0]}>; add it")
    return kept


def _check_value(value, holds, where):
    if "${" in value or "$(" in value:
        raise UrdfError(f"{where} is {value!r}; run the xacro command first")
    if holds is SUPPORTED:
        if value not in SUPPORTED:
            raise UrdfError(f"{where} is {value!r}; supported: {', '.join(SUPPORTED)}")
    elif holds == _TEXT:
        if not value.strip():
            raise UrdfError(f"{where} is empty; give it a value")
    else:
        words = value.split()
        if len(words) != holds:
            raise UrdfError(f"{where} is {value!r}; expected {_numbers(holds)}")
        for word in words:
            _check_number(word, where)


def _check_number(word, where):
    try:
        good = math.isfinite(float(word)) and "_" not in word  # Python alone reads 1_000
    except ValueError:
        good = False
    if not good:
        raise UrdfError(f"{where} has {word!r}; expected a finite number, such as 0.5")


def _numbers(count):
    return "one number" if count == 1 else f"{count} numbers"


# ---------------------------------------------------------------------------- one tree


def _check_one_tree(robot):
    """Check names and how links hang together; return the root link's name."""
    links = _by_name(robot.links, "links")
    joints = _by_name(robot.joints, "joints")
    if not links:
        raise UrdfError(f'robot "{robot.name}" has no links; expected at least one')
    for joint in joints.values():
        _check_ends(joint, links)
    parent_of = _parents(joints.values())
    roots = [name for name in links if name not in parent_of]
    if len(roots) > 1:
        raise UrdfError(
            f"{len(roots)} root links: {_listed(roots)}; "
            "join all but one to the tree with a joint (fixed, if they do not move)"
        )
    _check_no_cycle(links, parent_of)
    return roots[0]


def _by_name(elements, what):
    named = {}
    for element in elements:
        if element.name in named:
            raise UrdfError(f'two {what} are named "{element.name}"; names must differ')
        named[element.name] = element
    return named


def _check_ends(joint, links):
    for end, link in (("parent", joint.parent), ("child", joint.child)):
        if link not in links:
            raise UrdfError(
                f'{end} of joint "{joint.name}" is the unknown link "{link}"; '
                f"there are: {_listed(links)}"
            )


def _parents(joints):
    """The joint above each link that has one."""
    parent_of = {}
    for joint in joints:
        if joint.child in parent_of:
            raise UrdfError(
                f'link "{joint.child}" is the child of two joints, '
                f'"{parent_of[joint.child].name}" and "{joint.name}"; '
                "a URDF is a tree: cut the loop by removing one"
            )
        parent_of[joint.child] = joint
    return parent_of


def _check_no_cycle(links, parent_of):
    """Check that going up from every link ends at the root."""
    good = set()
    for link in links:
        path = {}  # a dict keeps the order and is searched fast
        while link not in good and link in parent_of:
            if link in path:
                cycle = list(path)[list(path).index(link):][::-1]
                raise UrdfError(
                    f"the links {_listed(cycle)} form a cycle; a URDF is a tree: "
                    f'remove one of its joints, such as "{parent_of[link].name}"'
                )
            path[link] = None
            link = parent_of[link].parent
        good.update(path)


def _listed(names, most=10):
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f'"{name}"' for name in names[:most]) + more


# ---------------------------------------------------------------------------- the walk


@dataclass
class _Moving:
    """A moving joint while the tree is walked."""

    name: str
    kind: str
    parent: int
    placement: np.ndarray
    urdf: object = None  # None for the root joint


def _assemble(robot, root, root_joint, mimic, warnings):
    moving, seats, frames = _walk(robot, root, root_joint)
    *inertias, base = _lumped(robot.links, seats, len(moving), warnings)
    mimics = _mimics(robot, moving) if mimic == "project" else [None] * len(moving)
    joints = tuple(
        _joint(joint, inertia, rule, warnings)
        for joint, inertia, rule in zip(moving, inertias, mimics, strict=True)
    )
    _warn_massless(joints, warnings)
    return Tree(robot.name, joints, tuple(frames), base, tuple(warnings))


def _walk(robot, root, root_joint):
    """Go through the tree depth first, children by joint name.

    Returns the moving joints; for each link its seat (the moving joint that carries it, -1 for
    the universe, and the link frame in that joint's frame); and the frames.
    """
    moving, frames, seats = [], [], {root: (-1, np.eye(4))}
    if root_joint is not None:
        if any(joint.name == ROOT_JOINT_NAME for joint in robot.joints):
            raise UrdfError(f'a joint is named "{ROOT_JOINT_NAME}", the name of the root joint')
        moving.append(_Moving(ROOT_JOINT_NAME, root_joint, -1, np.eye(4)))
        frames.append(Frame(ROOT_JOINT_NAME, "joint", 0, np.eye(4)))
        seats[root] = (0, np.eye(4))
    frames.append(Frame(root, "body", *seats[root]))
    for joint in _depth_first(robot, root):
        parent, placed = seats[joint.parent]
        placed = placed @ _placement(joint.origin)
        if joint.type == "fixed":
            seat, kind = (parent, placed), "fixed_joint"
        else:
            seat, kind = (len(moving), np.eye(4)), "joint"
            moving.append(_Moving(joint.name, joint.type, parent, placed, joint))
        seats[joint.child] = seat
        frames += [Frame(joint.name, kind, *seat), Frame(joint.child, "body", *seat)]
    return moving, seats, frames


def _depth_first(robot, root):
    children = {link.name: [] for link in robot.links}
    for joint in sorted(robot.joints, key=lambda joint: joint.name, reverse=True):
        children[joint.parent].append(joint)
    waiting = list(children[root])
    while waiting:
        joint = waiting.pop()
        yield joint
        waiting += children[joint.child]


def _placement(origin):
    """The homogeneous matrix of an <origin>, which may be missing."""
    return np.eye(4) if origin is None else placement(origin.xyz, origin.rpy)


def placement(xyz, rpy):
    """The homogeneous matrix of a translation [m] and fixed-axis angles [rad]."""
    result = np.eye(4)
    result[:3, :3] = _rotation(*rpy)
    result[:3, 3] = xyz
    return result


def _rotation(roll, pitch, yaw):
    cr, sr = math.cos(roll), math.sin(roll)
    cp, sp = math.cos(pitch), math.sin(pitch)
    cy, sy = math.cos(yaw), math.sin(yaw)
    return np.array([
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ])


def _joint(joint, inertia, rule, warnings):
    lower, upper, velocity, effort = _limits(joint, warnings)
    return Joint(
        joint.name, joint.kind, joint.parent, joint.placement, _axis(joint, warnings),
        inertia, rule, lower, upper, velocity, effort,
    )


def _axis(joint, warnings):
    has_input = None if joint.urdf is None else joint.urdf.axis
    axis = np.array([1.0, 0.0, 0.0] if has_input is None else has_input)
    if joint.kind == "floating":
        return np.array([1.0, 0.0, 0.0])
    if joint.kind == "planar":
        if has_input is not None and (axis[0] or axis[1] or axis[2] <= 0):
            warnings.append(
                f'axis of planar joint "{joint.name}" is {_plain(axis)} and is not used: the joint '
                "moves in the x-y plane of its frame; rotate its origin instead, and set 0 0 1"
            )
        return np.array([0.0, 0.0, 1.0])
    largest = np.abs(axis).max()
    if largest == 0.0:
        raise UrdfError(
            f'axis of joint "{joint.name}" is zero; give it a direction, such as 0 0 1'
        )
    axis /= largest  # so that neither very small nor very large numbers spoil the norm
    return axis / np.linalg.norm(axis)


def _plain(vector):
    return " ".join(f"{number:g}" for number in vector)


def _limits(joint, warnings):
    """Lower, upper, velocity and effort limit."""
    limit = None if joint.urdf is None else joint.urdf.limit
    if joint.kind not in ONE_DOF:
        return -math.inf, math.inf, math.inf, math.inf
    if limit is None:
        if joint.kind != "continuous":
            warnings.append(f'{joint.kind} joint "{joint.name}" has no <limit>: taken as unlimited')
        return -math.inf, math.inf, math.inf, math.inf
    if joint.kind == "continuous":
        return -math.inf, math.inf, limit.velocity, limit.effort
    if limit.lower > limit.upper:
        warnings.append(
            f'joint "{joint.name}" has its lower limit {limit.lower:g} above the upper '
            f"{limit.upper:g}: taken as unlimited"
        )
        return -math.inf, math.inf, limit.velocity, limit.effort
    return limit.lower, limit.upper, limit.velocity, limit.effort


# ---------------------------------------------------------------------------- inertias

def _lumped(links, seats, count, warnings):
    """The inertia of all links on each moving joint; after them, of those on the universe."""
    carried = [[] for _ in range(count + 1)]
    for link in links:
        if link.inertial is not None:
            seat, placement = seats[link.name]
            X = SE3.from_homogeneous(placement)
            carried[seat].append(X.act(_link_inertia(link, warnings)))
    return [sum(inertias, Inertia.zero()) for inertias in carried]


def _link_inertia(link, warnings):
    """A link's inertia in the link's frame."""
    inertial = link.inertial
    if inertial.mass < 0.0:
        raise UrdfError(f'mass of link "{link.name}" is {inertial.mass:g}; expected 0 or more')
    if inertial.inertia is None:
        warnings.append(f'link "{link.name}" has no <inertia>: taken as a point mass')
        rotational = np.zeros((3, 3))
    else:
        rotational = np.array(inertial.inertia.to_matrix())
        fault = rotational_fault(rotational)
        if fault:
            warnings.append(f'inertia of link "{link.name}" {fault}')
    X = SE3.from_homogeneous(_placement(inertial.origin))
    return X.act(Inertia(inertial.mass, np.zeros(3), rotational))


def _warn_massless(joints, warnings):
    """Warn of joints whose motion moves no mass: the inertia matrix is singular there.

    A joint is looked at together with the joints that mimic it: one of them with mass is enough.
    """
    inner = {joint.parent for joint in joints}
    heavy = _heavy(joints)
    driven_by = {}
    for index, joint in enumerate(joints):
        nothing = index not in heavy or (index not in inner and _moves_nothing(joint))
        driver = index if joint.mimic is None else joint.mimic.joint
        driven_by.setdefault(driver, []).append(nothing)
    for driver, nothing in driven_by.items():
        if all(nothing):
            warnings.append(
                f'joint "{joints[driver].name}" moves no {_missing(joints[driver])}: the inertia '
                "matrix is singular; give its link an inertia, or the joint an armature"
            )


def _heavy(joints):
    """The joints that carry any inertia, on themselves or further out."""
    heavy = set()
    for index in reversed(range(len(joints))):
        inertia = joints[index].inertia
        if index in heavy or inertia.mass > 0.0 or inertia.rotational.any():
            heavy.update((index, joints[index].parent))
    return heavy


def _moves_nothing(joint):
    """Whether a joint at the end of its branch moves without resistance in some direction."""
    inertia = joint.inertia
    about_origin = np.asarray(inertia)[3:, 3:]
    if joint.kind == "prismatic":
        return inertia.mass == 0.0
    if joint.kind == "planar":
        return inertia.mass == 0.0 or inertia.rotational[2, 2] <= 0.0
    if joint.kind == "floating":
        return inertia.mass == 0.0 or np.linalg.eigvalsh(inertia.rotational)[0] <= 0.0
    return joint.axis @ about_origin @ joint.axis <= 0.0


def _missing(joint):
    if joint.kind == "prismatic" or joint.inertia.mass == 0.0:
        return "mass"
    return "inertia about its axis" if joint.kind in ONE_DOF else "rotational inertia"


# ---------------------------------------------------------------------------- mimics


def _mimics(robot, moving):
    """The rule of each moving joint, None for the independent ones."""
    joints = {joint.name: joint for joint in robot.joints}
    index = {joint.name: number for number, joint in enumerate(moving)}
    rules = {}  # joint name -> (name of its driver, multiplier, offset), chains resolved
    for joint in joints.values():
        _resolve(joint, joints, rules)
    return [_rule(joint, rules, index) for joint in moving]


def _rule(joint, rules, index):
    driver, multiplier, offset = rules.get(joint.name, (joint.name, 1.0, 0.0))
    return None if driver == joint.name else Mimic(index[driver], multiplier, offset)


def _resolve(joint, joints, rules):
    """Follow a joint's mimics up to its driver; put the rule of every joint on the way."""
    chain = {}
    while joint.name not in rules and joint.mimic is not None:
        if joint.name in chain:
            raise UrdfError(f"the joints {_listed(chain)} mimic each other; one must be free")
        chain[joint.name] = joint
        joint = _master(joint, joints)
    driver, multiplier, offset = rules.setdefault(joint.name, (joint.name, 1.0, 0.0))
    for follower in reversed(chain.values()):
        factor = 1.0 if follower.mimic.multiplier is None else follower.mimic.multiplier
        shift = 0.0 if follower.mimic.offset is None else follower.mimic.offset
        multiplier, offset = factor * multiplier, factor * offset + shift
        rules[follower.name] = (driver, multiplier, offset)


def _master(joint, joints):
    """The joint that `joint` mimics."""
    master = joints.get(joint.mimic.joint)
    if joint.type not in ONE_DOF:
        raise UrdfError(
            f'{joint.type} joint "{joint.name}" mimics; only {_listed(ONE_DOF)} joints can'
        )
    if master is None:
        candidates = [other.name for other in joints.values() if other.type in ONE_DOF]
        raise UrdfError(
            f'joint "{joint.name}" mimics the unknown joint "{joint.mimic.joint}"; '
            f'there are: {_listed(candidates)} (mimic="ignore" leaves mimics out)'
        )
    if master is joint:
        raise UrdfError(f'joint "{joint.name}" mimics itself; name another joint')
    if master.type not in ONE_DOF:
        raise UrdfError(
            f'joint "{joint.name}" mimics the {master.type} joint "{master.name}"; '
            f"only {_listed(ONE_DOF)} joints can be mimicked"
        )
    return master
