# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Options of reading, and functions that accept options as keyword arguments.

Options of a function are one dataclass, which its callers and other processes share.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from ..engine.model.model import Model, RootJoint
from ..engine.model.moments import Moment
from ..files.limits import MAX_CHUNK_SIZE
from ..states.joint_states import STALENESS
from .plan import PART_SIZE, Base

Robot: TypeAlias = "Model | str | os.PathLike[str] | None"
Function = TypeVar("Function", bound=Callable[..., Any])


def accept_options(options: type[Any]) -> Callable[[Function], Function]:
    """Return a decorator that shows the fields of a dataclass in place of ``**options``.

    The function passes ``**options`` to the dataclass. Other arguments raise a TypeError. ``help``
    lists the fields in the signature, and their descriptions from the docstring of the dataclass in
    place of ``**options``.
    """

    def decorate(function: Function) -> Function:
        """Return the function with the fields in its signature and docstring."""
        signature = inspect.signature(function)
        parameters = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        index = next(
            (
                n
                for n, parameter in enumerate(parameters)
                if parameter.kind is inspect.Parameter.KEYWORD_ONLY
            ),
            len(parameters),
        )
        parameters[index:index] = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field.type,
            )
            for field in fields(options)
        ]
        signature = signature.replace(parameters=parameters)

        @functools.wraps(function)
        def call_checked(*arguments: Any, **keywords: Any) -> Any:
            """Call the function; raise a TypeError for a keyword that is not in the signature."""
            for name in keywords:
                if name not in signature.parameters:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    )
            return function(*arguments, **keywords)

        call_checked.__signature__ = signature  # type: ignore[attr-defined]
        _, _, descriptions = (inspect.getdoc(options) or "").partition("----------\n")
        if documentation := inspect.getdoc(function):
            call_checked.__doc__ = documentation.replace("**options\n", f"{descriptions}\n")
        return cast(Function, call_checked)

    return decorate


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading recordings, as the arguments of ``read``, and of dividing them into parts.

    ``root_joint`` applies to the description in the recording. ``overlap`` is the time before and
    after each part that is read as well [s], ``size`` the size of a part [bytes]. ``columns`` has
    the columns of each table with other names, by path, as for ``open_source``.
    """

    robot: Robot = None
    topics: str | Iterable[str] | None = None
    odometry: str | None = None
    joints: Sequence[str] = ()
    since: Moment | None = None
    until: Moment | None = None
    staleness: float = STALENESS
    root_joint: RootJoint = None
    base: Base | None = None
    overlap: tuple[float, float] = (0.0, 0.0)
    size: float = PART_SIZE
    columns: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)
    max_chunk_size: float = MAX_CHUNK_SIZE
