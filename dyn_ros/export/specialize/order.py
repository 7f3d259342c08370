# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a trace are needed, fused, and in which order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .trace import NotTraceable, Operand, Operation

MOST = 15_000
"""Operations of a function; with more, loops are faster, as measured on x86-64-v4."""
_FEW = 4_000


def depends_on(operation: Operation) -> list[int]:
    """The operations that one reads."""
    if operation[0] == "input":
        return []
    return [x for x in operation[1:] if isinstance(x, int)]


def needed(operations: Sequence[Operation], results: Iterable[Operand]) -> list[int]:
    """The operations that some results depend on, in order."""
    is_needed = bytearray(len(operations))
    for operand in results:
        if isinstance(operand, int):
            is_needed[operand] = 1
    for n in range(len(operations) - 1, -1, -1):
        if is_needed[n]:
            for x in depends_on(operations[n]):
                is_needed[x] = 1
    return [n for n, is_one in enumerate(is_needed) if is_one]


def _users(operations: Sequence[Operation], order: Iterable[int]) -> dict[int, list[int]]:
    users: dict[int, list[int]] = {n: [] for n in order}
    for n in users:
        for x in depends_on(operations[n]):
            users[x].append(n)
    return users


def _fused(operations: Sequence[Operation], results: Sequence[Operand]) -> list[Operation]:
    """Operations in which sums include the products that only sums use.

    Such a product is computed again in each sum: one instruction instead of two, if no other
    operation requires it.
    """
    users = _users(operations, needed(operations, results))
    kept = {x for x in results if isinstance(x, int)}
    free = {
        n
        for n in users
        if operations[n][0] == "mul"
        and n not in kept
        and all(operations[user][0] in ("add", "sub") for user in users[n])
    }
    chosen: dict[int, int] = {}  # for each sum, the product that it includes
    for n in users:
        name, *terms = operations[n]
        products = [x for x in terms if isinstance(x, int) and x in free]
        if name in ("add", "sub") and products and terms[0] != terms[1]:
            chosen[n] = max(products, key=lambda x: (len(users[x]) > 1, x))
    gone = {n for n in free if all(chosen.get(user) == n for user in users[n])}
    new = list(operations)
    for n, product in chosen.items():
        if product in gone:
            name, a, b = operations[n]
            kind = "muladd" if name == "add" else "mulsub" if a == product else "submul"
            new[n] = kind, *operations[product][1:], b if a == product else a
    return new


def ordered(
    operations: Sequence[Operation], results: Sequence[Operand], fuse: bool
) -> tuple[Sequence[Operation], list[int]]:
    """The operations that results depend on, fused, and the order in which to compute them.

    In code that fits into the cache of instructions, operations that are used once are computed
    just before their use, so that fewer numbers wait in registers. The time of larger code is the
    time to fetch it; it is smallest in the order of the kernel.
    """
    if fuse:
        operations = _fused(operations, results)
    order_of_kernel = needed(operations, results)
    if len(order_of_kernel) > MOST:
        raise NotTraceable(
            f"{len(order_of_kernel)} operations without loops are slower than the "
            "function for any robot"
        )
    if len(order_of_kernel) > _FEW:
        return operations, order_of_kernel
    users = _users(operations, order_of_kernel)
    order: dict[int, None] = {}
    for n in users:
        if len(users[n]) != 1:
            _append(operations, n, order)
    return operations, list(order)


def _append(operations: Sequence[Operation], n: int, order: dict[int, None]) -> None:
    """Append an operation after those that it depends on."""
    pending = [n]
    while pending:
        missing = [x for x in depends_on(operations[pending[-1]]) if x not in order]
        if missing:
            pending.append(missing[0])
        else:
            order[pending.pop()] = None
