# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compilation of algorithms before their first call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence

from ..kernel.names import join_names
from ..machine_code.compiler import Entry
from ..machine_code.declare import JIT
from ..machine_code.workers import compile_in_processes, worker_count
from .algorithm import ALGORITHMS


def precompile(
    names: Sequence[str] | None = None,
    batch: bool = True,
    progress: Callable[[int, int, str], object] | None = None,
    coupled: bool = True,
    more: Iterable[Entry] = (),
    load: bool = True,
) -> list[str]:
    """Compile algorithms into the cache, so that later calls do not wait.

    Several processes compile at once, one for each processor.

    Parameters
    ----------
    names : sequence of str, optional
        Names of public functions, such as ``"crba"``. Default: all.
    batch : bool
        Also compile the calls for batches.
    progress : callable, optional
        Called as ``progress(done, total, name)`` before each call, for one state or for batches,
        is compiled and, with the name ``""``, at the end.
    coupled : bool
        Also compile the separate kernels that some algorithms have for models with mimic joints.
    more : iterable of Entry
        Other compiled functions, such as ``dyn_ros.logs.kernels.KERNELS``.
    load : bool
        Also load cached functions into this process. Otherwise, the first call loads them, which
        takes some milliseconds.

    Returns
    -------
    list of str
        The names that had to be compiled; empty if the cache contained all of them.

    Raises
    ------
    ValueError
        An unknown algorithm (lists the valid ones).

    Examples
    --------
    Compile only the functions that a controller calls, without batches:

    >>> compiled = dyn_ros.precompile(["rnea", "crba"], batch=False, coupled=False)
    >>> set(compiled) <= {"rnea", "crba"}                     # empty if they were in the cache
    True
    """
    chosen = list(ALGORITHMS if names is None else names)
    unknown = set(chosen) - set(ALGORITHMS)
    if unknown:
        raise ValueError(
            f"no algorithm named {join_names(sorted(unknown))}; "
            f"available: {join_names(sorted(ALGORITHMS))}"
        )
    todo = {entry: name for name in chosen for entry in ALGORITHMS[name].entries(batch, coupled)}
    todo |= {entry: entry.name for entry in more}
    missing = [entry for entry in todo if not (entry.call or entry.is_cached())] if JIT else []
    # Processes start at both ends; calls for batches share no compiled functions with the others.
    missing.sort(
        key={
            program.lanes for algorithm in ALGORITHMS.values() for program in algorithm.programs
        }.__contains__
    )
    compiled = set()
    begun = len(todo) - len(missing)

    def starting(entry: Entry) -> None:
        nonlocal begun
        if progress:
            progress(begun, len(todo), todo[entry])
        begun += 1

    if len(missing) > 1 and worker_count() > 1:
        compiled |= compile_in_processes(missing, starting=starting)
        begun = len(todo) - len(missing) + len(compiled)
    for entry in todo if load else missing:
        if entry.load(functools.partial(starting, entry)):
            compiled.add(entry.name)
    if progress:
        progress(len(todo), len(todo), "")
    return [
        name
        for name in dict.fromkeys(todo.values())
        if any(entry.name in compiled for entry, owner in todo.items() if owner == name)
    ]
