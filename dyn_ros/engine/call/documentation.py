# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What the docstrings of all algorithms say about arguments of the same name, written once."""
import inspect
import re
from collections.abc import Callable
from typing import Any

# By name: the type, and what the argument is. One whose default is None is optional.
_ARGUMENTS = {
    "model": ("Model", ""),
    "data": ("Data", "Created for this model. Holds the results of a single state until the next "
                     "call;\nthose of a batch are new arrays with a leading batch axis."),
    "frame": ("str or int", "Name or index of a frame: link, joint or fixed joint."),
    "joint": ("str or int", "Name or index of a joint."),
    "reference_frame": (
        "ReferenceFrame",
        "WORLD: expressed in the world, at the world's origin. LOCAL: expressed in the frame, at "
        "its\norigin. LOCAL_WORLD_ALIGNED: expressed in the world, at the frame's origin."),
    "q": ("(nq,) or (B, nq) array_like", "Configuration [rad, m]."),
    "v": ("(nv,) or (B, nv) array_like",
          "Velocity [rad/s, m/s]; for floating, planar and spherical joints, in their frame."),
    "a": ("(nv,) or (B, nv) array_like", "Acceleration [rad/s2, m/s2]."),
    "tau": ("(nv,) or (B, nv) array_like", "Joint torques and forces [N m, N]."),
    "b": ("(nv,) or (B, nv) array_like", "The vector."),
    "f_ext": (
        "(njoints, 6) or (B, njoints, 6) array_like",
        "External wrench (force, moment) on each joint's body, at the origin of the joint frame "
        "and\nexpressed in it [N, N m]. ``Model.external_forces`` converts wrenches on any frame."),
    "contacts": ("sequence of Contact",
                 "At most 36 rows, 3 or 6 for each contact; of distinct names."),
    "threads": ("int", "Number of threads for a batch."),
}
_ZERO_BY_DEFAULT = ("v", "a")
_ERRORS = {"ValueError": """\
Wrong shape or dtype, a number that is not finite, or a quaternion that is not unit; names
the argument, the expected and the actual value.""", "numpy.linalg.LinAlgError": """\
The inertia matrix is singular; names the first joint from the tips that moves no inertia."""}
_UNKNOWN = """\
Wrong shape or dtype, a number that is not finite, a quaternion that is not unit, or an
unknown {} or reference frame (lists the valid ones); names the argument, the expected
and the actual value."""
_SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "Examples")
_SECTION = re.compile(rf"\n\n({'|'.join(_SECTIONS)})\n-+\n")


def _entry(name: str, optional: bool) -> str:
    """The entry of an argument in the section "Parameters"."""
    kind, text = _ARGUMENTS[name]
    if optional:
        kind += ", optional"
        text += "\nZero by default." if name in _ZERO_BY_DEFAULT else ""
    return "\n    ".join([f"{name} : {kind}", *text.splitlines()])


def _error(line: str, following: list[str], arguments: tuple[str, ...]) -> str:
    """A line of the section "Raises"; the name of an error without a text gets the shared one."""
    if line not in _ERRORS or following and following[0].startswith(" "):
        return line
    kind = next((name for name in ("frame", "joint") if name in arguments), None)
    text = _UNKNOWN.format(kind) if kind and line == "ValueError" else _ERRORS[line]
    return "\n    ".join([line, *text.splitlines()])


def complete(function: Callable[..., Any]) -> None:
    """Add the arguments and errors that the docstring of an algorithm leaves out.

    Entries of its own replace those of the same arguments.
    """
    if not function.__doc__:            # python -OO
        return
    summary, *rest = _SECTION.split(inspect.cleandoc(function.__doc__))
    sections = dict(zip(rest[::2], rest[1::2]))
    entries = {name: entry
               for entry in re.split(r"\n(?=\S)", sections.get("Parameters", "")) if entry
               for name in entry.partition(" : ")[0].split(", ")}
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    positional = dict(zip(names[code.co_argcount - len(defaults):], defaults))
    for name in names:
        if name in _ARGUMENTS and name not in entries:
            entries[name] = _entry(name, positional.get(name, ...) is None)
    ordered = dict.fromkeys(entries[name] for name in names if name in entries)
    sections["Parameters"] = "\n".join(ordered)
    errors = sections.get("Raises", "").splitlines()
    if "ValueError" not in errors:
        errors.insert(0, "ValueError")
    sections["Raises"] = "\n".join(_error(line, errors[n + 1:n + 2], names)
                                  for n, line in enumerate(errors))
    text = "".join(f"\n\n{title}\n{'-' * len(title)}\n{sections[title]}"
                   for title in _SECTIONS if title in sections)
    function.__doc__ = f"{summary}{text}\n"
