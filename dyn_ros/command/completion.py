# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Scripts that complete the arguments of ``dyn_ros`` in a shell, without running it."""
from __future__ import annotations

import argparse
from collections.abc import Iterator

from .arguments import UsageError

_FOLDERS = ("FOLDER",)
_FILES = ("FILE", "RECORDING")


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script for a shell: "bash", "zsh" or "fish".

    A `UsageError` if shtab, which writes it, is not installed.
    """
    try:
        import shtab
    except ImportError as error:
        raise UsageError('completion requires shtab: pip install "dyn_ros[completion]"') from error
    for action in _actions(parser):
        name = str(action.metavar or "").partition(".")[0]
        if name in _FILES:
            action.complete = shtab.FILE            # type: ignore[attr-defined]
        elif name in _FOLDERS:
            action.complete = shtab.DIRECTORY       # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of a command and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
