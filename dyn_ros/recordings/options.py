# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Options of a function as one object, which its callers and other processes share."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


def takes(options: type[Any]) -> Callable[[Function], Function]:
    """Show the fields of a dataclass as arguments of a function that passes ``**options`` to it.

    ``help`` lists them in the signature, and, in place of ``**options`` in the docstring, with the
    descriptions in the docstring of the dataclass.
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
        function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        _, _, described = (inspect.getdoc(options) or "").partition("----------\n")
        if documentation := inspect.getdoc(function):
            function.__doc__ = documentation.replace("**options\n", f"{described}\n")
        return function

    return shown
