# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compile algorithms ahead of their first call."""
from collections.abc import Callable, Sequence

from .algorithm import ALGORITHMS


def precompile(names: Sequence[str] | None = None, batch: bool = True,
               progress: Callable[[int, int, str], object] | None = None,
               coupled: bool = True) -> list[str]:
    """Compile algorithms into the cache, so that no later call has to wait for it.

    Parameters
    ----------
    names : sequence of str, optional
        Names of public functions, such as ``"crba"``; all where it is not given.
    batch : bool
        Compile the calls for batches too.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before each call, of one state or of batches, is
        compiled or taken from the cache and, with name ``""``, at the end.
    coupled : bool
        Compile the kernels for models with mimic joints too, where they have kernels of their
        own.

    Returns
    -------
    list of str
        The names that had to be compiled; empty where the cache held them all.

    Raises
    ------
    ValueError
        For a name that is no algorithm; lists those there are.
    """
    chosen = list(ALGORITHMS if names is None else names)
    unknown = set(chosen) - set(ALGORITHMS)
    if unknown:
        raise ValueError(f"no algorithm named {', '.join(sorted(unknown))}; there are: "
                         + ", ".join(sorted(ALGORITHMS)))
    todo = [(name, entry) for name in chosen
            for entry in ALGORITHMS[name].entries(batch, coupled)]
    compiled = []
    for done, (name, entry) in enumerate(todo):
        if progress:
            progress(done, len(todo), name)
        if entry.load() and name not in compiled:
            compiled.append(name)
    if progress:
        progress(len(todo), len(todo), "")
    return compiled
