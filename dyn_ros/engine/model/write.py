# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Writing of the inertias, damping and friction of a model into its description."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar
from xml.etree.ElementTree import Element

import numpy as np
from numpy.typing import NDArray

from ..kernel.types import Array
from ..spatial.se3 import SE3
from .edit import Editor, NewElement
from .inertia import AssignedInertia
from .model import Model
from .parameters import from_pseudo_inertia, is_physical, pseudo_inertia
from .urdf.lumping import link_inertia
from .urdf.text import UrdfError, child, children, encoding_of, parse_elements
from .urdf.topology import check_one_tree, drivers
from .urdf.tree import MAX_URDF_NUMBER, ONE_DOF, Tree
from .urdf.values import placement_of, read_values

if TYPE_CHECKING:
    from urdf_parser_py import urdf

Text = TypeVar("Text", str, bytes)

_MIN_CHANGE = 1e-14  # relative to the parameters of a body; smaller ones are rounding errors
_TEXT_TOLERANCE = 1e-15  # relative to the largest number of a vector or matrix
_MOMENT_ATTRIBUTES = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
_MOMENT_ENTRIES = ([0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2])  # rows and columns in a matrix


def write_urdf(xml: Text, model: Model, *, payloads: bool = False) -> Text:
    """Write the inertias, damping and friction of a model into the URDF that it was read from.

    Only numbers in <inertial> and <dynamics> change, where the values of the model differ from
    the text; missing elements are inserted. The remaining text stays byte by byte: comments,
    formatting, the order of attributes, and the encoding.

    If several links are fixed to a joint, the first of them that has mass receives the
    difference. If it could not be physical then, but the whole body can, the mass of all links is
    scaled and moved by the same affine map; or each link receives the share of the body that
    corresponds to its mass, if there is no such map. If mimic joints follow a joint, this joint
    receives the difference in damping and friction, in the same way. A model from ``reduced``
    or ``chain`` changes the links and joints that it has; links beyond a locked joint keep their
    inertias, unless the others could not be physical then.

    A URDF has no armature, and no damping and friction of planar and floating joints; these are
    not written.

    Parameters
    ----------
    xml : str or bytes
        The URDF, with xacro expanded.
    model : Model
    payloads : bool
        True: the payloads of the model become part of the links that they are attached to.

    Returns
    -------
    str or bytes
        It has the type of ``xml``. ``Model.from_urdf`` reads the parameters of the model from it,
        within rounding errors. If nothing differs, it is ``xml``.

    Raises
    ------
    UrdfError
        The URDF cannot be used.
    ValueError
        The model has a link or a joint that is not in the text, or parameters that a URDF cannot
        express: a negative mass, a first moment without mass, or damping or friction that is
        negative or not finite.

    Examples
    --------
    >>> text = robot_file.read_text()
    >>> robot = dyn_ros.Model.from_urdf(text)
    >>> dyn_ros.write_urdf(text, robot) == text               # nothing has changed
    True
    >>> robot.inertial_parameters = 1.1 * robot.inertial_parameters
    >>> heavier = dyn_ros.Model.from_urdf(dyn_ros.write_urdf(text, robot))
    >>> bool(np.isclose(heavier.total_mass, 1.1 * model.total_mass))
    True
    """
    if isinstance(xml, bytes):
        encoding = encoding_of(xml)
        if encoding == "utf-16":  # keeps the byte order mark
            encoding = "utf-16-le" if xml.startswith(b"\xff\xfe") else "utf-16-be"
        parse_elements(xml)
        return _written_text(xml.decode(encoding), model, payloads).encode(encoding)
    return _written_text(xml, model, payloads)


def _written_text(xml: str, model: Model, payloads: bool) -> str:
    """Return the URDF text with the inertias and losses of a model."""
    root = parse_elements(xml)
    robot = read_values(root, [])
    check_one_tree(robot)
    text = xml.lstrip("\ufeff \t\r\n")
    editor = Editor(text, root)
    _write_links(editor, root, robot, model, payloads)
    _write_losses(editor, root, robot, model)
    return xml[: len(xml) - len(text)] + editor.text()


# --- inertias


def _elements_by_name(root: Element, tag: str) -> dict[str | None, Element]:
    """Return the children of the root with a tag, by name."""
    return {element.get("name"): element for element in children(root, tag)}


def _write_links(
    editor: Editor, root: Element, robot: urdf.Robot, model: Model, payloads: bool
) -> None:
    """Write the inertias of links, and of bodies that have changed, to their elements."""
    elements = _elements_by_name(root, "link")
    links = {link.name: link for link in robot.links}
    child_links = {joint.child for joint in robot.joints if joint.type != "fixed"}
    bodies: dict[int, list[int]] = {}
    for i, frame in enumerate(model.tree.frames):
        if frame.kind == "body":
            if frame.name not in links:
                raise ValueError(
                    f"model: its link {frame.name!r} is not in the description; pass "
                    "the URDF that the model was read from"
                )
            bodies.setdefault(frame.parent, []).append(i)
    for joint, frames in bodies.items():
        names = [model.tree.frames[i].name for i in frames]
        old_parameters = [link_inertia(links[name], []).dynamic_parameters() for name in names]
        for name, parameters in _changed_links(
            model, joint, frames, old_parameters, payloads, child_links
        ):
            _write_inertial(editor, elements[name], links[name].inertial, parameters)


def _changed_links(
    model: Model,
    joint: int,
    frames: Sequence[int],
    old_parameters: Sequence[Array],
    payloads: bool,
    child_links: Container[str],
) -> list[tuple[str, Array]]:
    """Return names and parameters, in their frames, of the links of a body that change.

    ``child_links`` are the links that joints move, locked joints included.
    """
    tree = model.tree
    placements = [SE3.from_homogeneous(tree.frames[i].placement) for i in frames]
    new_parameters = [tree.frames[i].inertia.dynamic_parameters() for i in frames]
    if payloads:
        for payload in model._payloads.values():
            if payload.frame in frames:
                k = frames.index(payload.frame)
                new_parameters[k] = (
                    new_parameters[k]
                    + placements[k].act_inverse(payload.inertia).dynamic_parameters()
                )
    scales = _group_sizes(np.abs([*old_parameters, *new_parameters]).max(0))
    changed_indices = [
        k
        for k in range(len(frames))
        if (np.abs(new_parameters[k] - old_parameters[k]) > _MIN_CHANGE * scales).any()
    ]
    if any(not is_physical(new_parameters[k], boundary=True) for k in changed_indices):
        is_bolted = _bolted_links(tree, frames, child_links)
        new_parameters, changed_indices = _distributed_body(
            tree,
            joint,
            frames,
            placements,
            old_parameters,
            new_parameters,
            changed_indices,
            is_bolted,
        )
    return [(tree.frames[frames[k]].name, new_parameters[k]) for k in changed_indices]


def _group_sizes(parameters: Array) -> Array:
    """Return the largest mass, first moment and moment of inertia, at the index of each."""
    m, h, moment = parameters[0], parameters[1:4].max(), parameters[4:].max()
    return np.array([m, *[h] * 3, *[moment] * 6])


def _bolted_links(
    tree: Tree, frames: Sequence[int], child_links: Container[str]
) -> NDArray[np.bool_]:
    """Return True for each link that is fixed to the first one without a locked joint between."""
    is_bolted = [True]
    for i in frames[1:]:
        parent = tree.frames[tree.frames[i].parent_frame].parent_frame
        is_bolted.append(
            tree.frames[i].name not in child_links
            and parent in frames
            and is_bolted[frames.index(parent)]
        )
    return np.array(is_bolted)


def _distributed_body(
    tree: Tree,
    joint: int,
    frames: Sequence[int],
    placements: Sequence[SE3],
    old_parameters: Sequence[Array],
    new_parameters: list[Array],
    changed_indices: list[int],
    is_bolted: NDArray[np.bool_],
) -> tuple[list[Array], list[int]]:
    """Distribute the body over its links, if it can be physical then.

    Links beyond locked joints take part only if the remaining ones could not be physical. Returns
    the parameters of all links, and the indices of those that change.
    """
    old_placed = np.array(
        [_moved_parameters(X, link) for X, link in zip(placements, old_parameters)]
    )
    total = np.sum(
        [_moved_parameters(X, link) for X, link in zip(placements, new_parameters)], axis=0
    )
    bolted_total = total - old_placed[~is_bolted].sum(0)
    if (
        not is_bolted.all()
        and old_placed[is_bolted, 0].any()
        and is_physical(bolted_total, boundary=True)
    ):
        total = bolted_total
    else:
        is_bolted = np.ones(len(frames), bool)
    if is_physical(total, boundary=True) or not all(
        map(_is_expressible, (new_parameters[k] for k in changed_indices))
    ):
        shares = _distributed_parameters(old_placed * is_bolted[:, None], total)
        new_parameters = [
            _moved_parameters(X.inverse(), share) if takes_part else link
            for X, share, takes_part, link in zip(placements, shares, is_bolted, old_parameters)
        ]
        changed_indices = [
            k for k in range(len(frames)) if (new_parameters[k] != old_parameters[k]).any()
        ]
    for k in changed_indices:
        if not _is_expressible(new_parameters[k]):
            name = tree.joints[joint].name if joint >= 0 else "universe"
            raise ValueError(
                f"model: the body of joint {name!r} has mass {total[0]:.6g} kg and first moment "
                f"{total[1:4].tolist()} kg m, which a URDF cannot express; estimate parameters "
                "that are physical (model.is_physical), or assign others to this body"
            )
    return new_parameters, changed_indices


def _distributed_parameters(links: Array, total: Array) -> Array:
    """Return links (n, 10) with this total: one affine map moves their mass, if there is one."""
    current_total = links.sum(0)
    if (
        is_physical(current_total)
        and is_physical(total)
        and np.all(is_physical(links, boundary=True))
    ):
        A = _upper_factor(total) @ np.linalg.inv(_upper_factor(current_total))
        return from_pseudo_inertia(A @ pseudo_inertia(links) @ A.T)
    masses = links[:, 0]
    shares = masses / masses.sum() if masses.sum() > 0.0 else np.eye(len(masses))[0]
    return shares[:, None] * total


def _upper_factor(body: Array) -> Array:
    """Compute the upper triangular factor U of a pseudo-inertia U U'."""
    return np.asarray(np.linalg.cholesky(pseudo_inertia(body)[::-1, ::-1])[::-1, ::-1], np.float64)


def _is_expressible(parameters: Array) -> bool:
    """Return True if a center of mass exists: the mass is positive, or all is zero."""
    return bool(parameters[0] > 0.0 or (parameters[0] == 0.0 and not parameters[1:4].any()))


def _moved_parameters(X: SE3, parameters: Array) -> Array:
    """Return parameters in the frame in which X is placed; they need not be physical."""
    return X.act(AssignedInertia.from_array(parameters)).dynamic_parameters()


def _write_inertial(
    editor: Editor, link: Element, inertial: urdf.Inertial | None, parameters: Array
) -> None:
    """Write the parameters of a body into the element of its link; ``inertial`` is its record."""
    body = AssignedInertia.from_array(parameters)
    m, com, about_com = body.mass, body.com, body.rotational
    size = max(np.abs(parameters[4:]).max(), np.abs(about_com).max())
    if inertial is None:
        editor.insert(
            link,
            NewElement(
                "inertial",
                {},
                (
                    NewElement("origin", {"xyz": _text_of_vector(com), "rpy": "0 0 0"}),
                    NewElement("mass", {"value": _text_of_number(m, m)}),
                    NewElement("inertia", _moment_attributes(about_com, size)),
                ),
            ),
        )
        return
    element = children(link, "inertial")[0]
    _set_numbers(editor, children(element, "mass")[0], {"value": [m]}, m)
    if m or inertial.origin is not None:
        _write_origin(editor, element, com)
        R = placement_of(inertial)[:3, :3]
        about_com = R.T @ about_com @ R
    if inertial.inertia is not None:
        _set_numbers(
            editor,
            children(element, "inertia")[0],
            {name: [value] for name, value in zip(_MOMENT_ATTRIBUTES, about_com[_MOMENT_ENTRIES])},
            size,
        )
    elif np.abs(about_com).max() > _MIN_CHANGE * size:
        editor.insert(
            element, NewElement("inertia", _moment_attributes(about_com, size)), last=True
        )


def _write_origin(editor: Editor, inertial: Element, com: Array) -> None:
    """Write the center of mass to the origin of an <inertial>; insert it if necessary."""
    origin = child(inertial, "origin")
    if origin is not None:
        _set_numbers(editor, origin, {"xyz": com}, np.abs(com).max())
    elif com.any():
        editor.insert(inertial, NewElement("origin", {"xyz": _text_of_vector(com), "rpy": "0 0 0"}))


def _moment_attributes(matrix: Array, size: float) -> dict[str, str]:
    """Return the attributes of <inertia>, with the digits that ``size`` requires."""
    return {
        name: _text_of_number(value, size)
        for name, value in zip(_MOMENT_ATTRIBUTES, matrix[_MOMENT_ENTRIES])
    }


# --- damping and friction


def _write_losses(editor: Editor, root: Element, robot: urdf.Robot, model: Model) -> None:
    """Write damping and friction of joints to their <dynamics>."""
    elements = _elements_by_name(root, "joint")
    joints = {joint.name: joint for joint in robot.joints}
    followers = _find_followers(robot, model)
    for i, joint in enumerate(model.tree.joints):
        if (
            i == 0
            and joint.parent < 0
            and model.tree.frames[0].kind == "joint"
            and (joint.name not in joints)
        ):
            continue  # the root joint is not in the description
        if joint.name not in joints:
            raise ValueError(
                f"model: its joint {joint.name!r} is not in the description; pass "
                "the URDF that the model was read from"
            )
        if joint.mimic is None and joint.kind in ONE_DOF:
            ratios = {joint.name: 1.0, **followers.get(joint.name, {})}
            _write_driven(
                editor,
                [(elements[name], joints[name]) for name in ratios],
                np.array([*ratios.values()]),
                {
                    "damping": float(model.damping[model.idx_v[i]]),
                    "friction": float(model.friction[model.idx_v[i]]),
                },
            )


def _write_driven(
    editor: Editor,
    joints: Sequence[tuple[Element, urdf.Joint]],
    ratios: Array,
    losses: Mapping[str, float],
) -> None:
    """Write the losses of a joint to it and to the joints that follow it with these ratios.

    ``joints`` are their elements and records.
    """
    changes: list[dict[str, str]] = [{} for _ in joints]
    for attribute, weights in (("damping", ratios**2), ("friction", np.abs(ratios))):
        value = losses[attribute]
        if not 0.0 <= value <= MAX_URDF_NUMBER:
            raise ValueError(
                f"model: joint {joints[0][1].name!r} has the {attribute} {value:g}, "
                "which a URDF cannot express; assign a number from 0 to "
                f"{MAX_URDF_NUMBER:g} to model.{attribute}"
            )
        old_values = np.array([_loss_of_joint(joint, attribute) for _, joint in joints])
        for change, old_value, new_value in zip(
            changes, old_values, _shared_loss(old_values, weights, value)
        ):
            if new_value != old_value:
                change[attribute] = _text_of_number(new_value)
    for (element, joint), change in zip(joints, changes):
        if change and joint.dynamics is None:
            editor.insert(element, NewElement("dynamics", change), last=True)
        elif change:
            for attribute, text in change.items():
                editor.set(children(element, "dynamics")[0], attribute, text)


def _loss_of_joint(joint: urdf.Joint, attribute: str) -> float:
    """Return damping or friction of a joint in the description, 0 by default."""
    return 0.0 if joint.dynamics is None else getattr(joint.dynamics, attribute)


def _find_followers(robot: urdf.Robot, model: Model) -> dict[str, dict[str, float]]:
    """Return the multipliers of the joints that follow each joint, by its name and theirs.

    There are none if the model ignores mimic joints.
    """
    try:
        rules = drivers(robot)
    except UrdfError:  # the model was read with mimic="ignore"
        return {}
    names = {joint.name: joint for joint in model.tree.joints}
    if any(
        name in names and names[name].mimic is None and driver in names
        for name, (driver, _) in rules.items()
    ):
        return {}
    followers: dict[str, dict[str, float]] = {}
    for name, (driver, multiplier) in rules.items():
        followers.setdefault(driver, {})[name] = multiplier
    return followers


def _shared_loss(old_values: Array, weights: Array, value: float) -> Array:
    """Return numbers of a joint and its followers whose weighted sum is the value.

    Only the first number changes; if it would have to be negative, all change in proportion.
    """
    total = weights @ old_values
    if abs(value - total) <= _MIN_CHANGE * total:
        return old_values
    first_value = value - weights[1:] @ old_values[1:]
    return (
        np.array([first_value, *old_values[1:]])
        if first_value >= 0.0
        else old_values * (value / total)
    )


# --- numbers


def _set_numbers(
    editor: Editor, element: Element, values: Mapping[str, Sequence[float] | Array], size: float
) -> None:
    """Set numbers that differ from the text by more than rounding errors of their size."""
    for attribute, numbers in values.items():
        text = element.get(attribute)
        words = ["0"] * len(numbers) if text is None else text.split()
        new_words = [
            word
            if abs(float(word) - number) <= _TEXT_TOLERANCE * size
            else _text_of_number(number, size)
            for word, number in zip(words, numbers)
        ]
        if new_words != words:
            editor.set(element, attribute, " ".join(new_words))


def _text_of_vector(numbers: Array) -> str:
    size = np.abs(numbers).max()
    return " ".join(_text_of_number(number, size) for number in numbers)


def _text_of_number(value: float, size: float = 0.0) -> str:
    """Return the shortest text of this number, or of one within a rounding error of the size."""
    value = float(value)
    for digits in range(12, 17):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded - value) <= _TEXT_TOLERANCE * size:
            value = rounded
            break
    if abs(value) <= _TEXT_TOLERANCE * size:
        value = 0.0
    return repr(value + 0.0).removesuffix(".0")  # no -0
