# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What of recordings is read; and options of a function as one object.

Its callers and other processes share that object.
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
from ..states.joint_states import STALENESS
from .plan import SIZE, Base

Robot: TypeAlias = "Model | str | os.PathLike[str] | None"
Function = TypeVar("Function", bound=Callable[..., Any])


def takes(options: type[Any]) -> Callable[[Function], Function]:
    """Show the fields of a dataclass as arguments of a function that passes ``**options`` to it.

    Other arguments raise a TypeError. ``help`` lists the fields in the signature, and, in place of
    ``**options`` in the docstring, with the descriptions in the docstring of the dataclass.
    """

    def shown(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [
            parameter
            for parameter in signature.parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        place = next(
            (n for n, one in enumerate(own) if one.kind is inspect.Parameter.KEYWORD_ONLY), len(own)
        )
        own[place:place] = [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=field.type,
            )
            for field in fields(options)
        ]
        signature = signature.replace(parameters=own)

        @functools.wraps(function)
        def checked(*arguments: Any, **named: Any) -> Any:
            for name in named:
                if name not in signature.parameters:
                    raise TypeError(
                        f"{function.__name__}() got an unexpected keyword argument {name!r}"
                    )
            return function(*arguments, **named)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        _, _, described = (inspect.getdoc(options) or "").partition("----------\n")
        if documentation := inspect.getdoc(function):
            checked.__doc__ = documentation.replace("**options\n", f"{described}\n")
        return cast(Function, checked)

    return shown


@dataclass(frozen=True)
class ReadOptions:
    """What to read of each recording, as the arguments of ``read``.

    ``overlap``: seconds before and after each part that are read as well; ``size``: of a part
    [bytes]; ``root_joint``: of the description in the recording; ``columns``: of tables, with other
    names, by path, as ``open_source`` takes them.
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
    size: float = SIZE
    columns: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)
