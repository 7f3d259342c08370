# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Order in which to compute the operations of a trace that results depend on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .trace import NotTraceable, Operand, Operation

MAX_OPERATIONS = 15_000
"""Operations of a function; with more, loops are faster, as measured on x86-64-v4."""
_MAX_CACHED_OPERATIONS = 4_000
"""Operations whose code fits into the instruction cache; see ``schedule_operations``."""


def find_dependencies(operation: Operation) -> list[int]:
    """Return the operations whose results an operation reads."""
    if operation[0] == "input":
        return []
    return [x for x in operation[1:] if isinstance(x, int)]


def find_needed_operations(
    operations: Sequence[Operation], results: Iterable[Operand]
) -> list[int]:
    """Return the operations that results depend on, in order."""
    is_needed = bytearray(len(operations))
    for operand in results:
        if isinstance(operand, int):
            is_needed[operand] = 1
    for n in range(len(operations) - 1, -1, -1):
        if is_needed[n]:
            for x in find_dependencies(operations[n]):
                is_needed[x] = 1
    return [n for n, flag in enumerate(is_needed) if flag]


def _find_users(operations: Sequence[Operation], order: Iterable[int]) -> dict[int, list[int]]:
    """Return the operations that read the result of each operation."""
    users: dict[int, list[int]] = {n: [] for n in order}
    for n in users:
        for x in find_dependencies(operations[n]):
            users[x].append(n)
    return users


def _fuse_products(operations: Sequence[Operation], results: Sequence[Operand]) -> list[Operation]:
    """Return operations in which sums include the products that only sums use.

    Such a product is computed again in each sum: one instruction instead of two, if no other
    operation requires it.
    """
    users = _find_users(operations, find_needed_operations(operations, results))
    result_operations = {x for x in results if isinstance(x, int)}
    fusible = {
        n
        for n in users
        if operations[n][0] == "mul"
        and n not in result_operations
        and all(operations[user][0] in ("add", "sub") for user in users[n])
    }
    product_of_sum: dict[int, int] = {}
    for n in users:
        name, *terms = operations[n]
        products = [x for x in terms if isinstance(x, int) and x in fusible]
        if name in ("add", "sub") and products and terms[0] != terms[1]:
            product_of_sum[n] = max(products, key=lambda x: (len(users[x]) > 1, x))
    fused = {n for n in fusible if all(product_of_sum.get(user) == n for user in users[n])}
    new_operations = list(operations)
    for n, product in product_of_sum.items():
        if product in fused:
            name, a, b = operations[n]
            kind = "muladd" if name == "add" else "mulsub" if a == product else "submul"
            summand = b if a == product else a
            new_operations[n] = kind, *operations[product][1:], summand
    return new_operations


def schedule_operations(
    operations: Sequence[Operation], results: Sequence[Operand], fuse: bool
) -> tuple[Sequence[Operation], list[int]]:
    """Return the operations, with ``fuse`` fused ones, and the order of those that results need.

    Raise NotTraceable if they are so many that loops are faster.

    In code that fits into the instruction cache, operations that are used once are computed just
    before their use, so that fewer numbers wait in registers. The time of larger code is the time
    to fetch it, which is shortest in the order of the kernel.
    """
    if fuse:
        operations = _fuse_products(operations, results)
    kernel_order = find_needed_operations(operations, results)
    if len(kernel_order) > MAX_OPERATIONS:
        raise NotTraceable(
            f"{len(kernel_order)} operations without loops are slower than the "
            "function for any robot"
        )
    if len(kernel_order) > _MAX_CACHED_OPERATIONS:
        return operations, kernel_order
    users = _find_users(operations, kernel_order)
    order: dict[int, None] = {}
    for n in users:
        if len(users[n]) != 1:
            _append_with_operands(operations, n, order)
    return operations, list(order)


def _append_with_operands(operations: Sequence[Operation], n: int, order: dict[int, None]) -> None:
    """Append an operation after those that it depends on."""
    pending = [n]
    while pending:
        missing = [x for x in find_dependencies(operations[pending[-1]]) if x not in order]
        if missing:
            pending.append(missing[0])
        else:
            order[pending.pop()] = None
