# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The operations of ``lanes.py`` and ``raw.py`` in compiled code."""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models, register_model

from ..machine_code.declare import FLAGS
from ..machine_code.lower import intrinsic, overload
from . import lanes as la
from . import raw
from .lanes import LANES, SIMD_WIDTH

_DOUBLE = ir.DoubleType()
_ELEMENTS = {64: _DOUBLE, 32: ir.FloatType()}


class VectorType(types.Type):
    """The Numba type of several numbers of 64 or 32 bits, or of as many dual numbers of an order.

    A dual number of order n is a polynomial in n infinitesimals e1, ..., en with ei ei = 0. It has
    2**n parts, each a vector: part m is the coefficient of the product of those ei for which m has
    bit i - 1. Arithmetic with x + e1 dx yields derivatives in the direction dx in part 1, and with
    x + e1 dx + e2 dy second derivatives in part 3. See Griewank and Walther (2008), chapter 13.
    """

    def __init__(self, count: int, order: int = 0, bits: int = 64) -> None:
        super().__init__(name=f"float{bits}x{count}" + f"-dual{order}" * (order > 0))
        self.count, self.order, self.bits = count, order, bits

    @property
    def nparts(self) -> int:
        """Return the number of vectors that a number consists of."""
        return int(2**self.order)

    @property
    def vector(self) -> Any:
        """Return the LLVM type of one part."""
        return ir.VectorType(self.element, self.count)

    @property
    def element(self) -> Any:
        """Return the LLVM type of one number of a part."""
        return _ELEMENTS[self.bits]

    @property
    def llvm_type(self) -> Any:
        """Return the LLVM type of a number."""
        return ir.ArrayType(self.vector, self.nparts) if self.order else self.vector


lanes = VectorType(LANES)  # a number of as many states
lanes32 = VectorType(la.LANES32, bits=32)
_simd = VectorType(SIMD_WIDTH)  # adjacent numbers of one state


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """The LLVM type of a ``VectorType``."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, fe_type.llvm_type)


def _vector(*kinds: Any) -> Any:
    """Return the type of the vectors among numbers, or None."""
    return next((ty for ty in kinds if isinstance(ty, VectorType)), None)


def _parts(context: Any, builder: Any, value: Any, ty: Any, number: Any) -> list[Any]:
    """Return the parts of a value of type ``ty`` as one of type ``number``; None is zero."""
    if ty != number:
        value = context.cast(builder, value, ty, types.float64)
        if number.bits == 32:
            value = builder.fptrunc(value, number.element)
        return [_splat(builder, value, number.count)] + [None] * (number.nparts - 1)
    if not number.order:
        return [value]
    return [builder.extract_value(value, m) for m in range(number.nparts)]


def _all_parts(context: Any, builder: Any, sig: Any, args: Any) -> list[list[Any]]:
    """Return the parts of all arguments, of which at least one is a vector."""
    number = _vector(*sig.args)
    return [_parts(context, builder, x, ty, number) for x, ty in zip(args, sig.args)]


def _joined(builder: Any, parts: list[Any], number: Any) -> Any:
    """Return the number with some parts."""
    if not number.order:
        return parts[0]
    value = ir.Constant(number.llvm_type, ir.Undefined)
    zero = ir.Constant(number.vector, [0.0] * number.count)
    for m, part in enumerate(parts):
        value = builder.insert_value(value, zero if part is None else part, m)
    return value


def _subsets(m: int) -> list[int]:
    """Return the numbers whose bits are among those of m, in ascending order."""
    return [s for s in range(m + 1) if s & m == s]


def _product_sum(builder: Any, start: Any, a: list[Any], b: list[Any], pairs: Any) -> Any:
    """Return start + the products a[i] b[j] of pairs (i, j); None is zero."""
    total = start
    for i, j in pairs:
        if a[i] is not None and b[j] is not None:
            term = builder.fmul(a[i], b[j], flags=FLAGS)
            total = term if total is None else builder.fadd(total, term, flags=FLAGS)
    return total


def _sum_of_parts(builder: Any, a: list[Any], b: list[Any]) -> list[Any]:
    return [
        y if x is None else x if y is None else builder.fadd(x, y, flags=FLAGS)
        for x, y in zip(a, b)
    ]


def _difference_of_parts(builder: Any, a: list[Any], b: list[Any]) -> list[Any]:
    return [
        x
        if y is None
        else builder.fneg(y, flags=FLAGS)
        if x is None
        else builder.fsub(x, y, flags=FLAGS)
        for x, y in zip(a, b)
    ]


def _product_of_parts(builder: Any, a: list[Any], b: list[Any]) -> list[Any]:
    return [
        _product_sum(builder, None, a, b, [(s, m ^ s) for s in _subsets(m)]) for m in range(len(a))
    ]


def _quotient_of_parts(builder: Any, a: list[Any], b: list[Any]) -> list[Any]:
    """Return the parts of y = a / b, from those of y b = a."""
    y: list[Any] = []
    for m, x in enumerate(a):
        rest = _product_sum(builder, None, y, b, [(s, m ^ s) for s in _subsets(m)[:-1]])
        (x,) = _difference_of_parts(builder, [x], [rest])
        y.append(None if x is None else builder.fdiv(x, b[0], flags=FLAGS))
    return y


def _is_number(ty: Any) -> Any:
    """Return True for the types of vectors and numbers."""
    return isinstance(ty, (VectorType, types.Float, types.Integer))


def _splat(builder: Any, x: Any, count: int) -> Any:
    """Return the vector with ``count`` numbers x."""
    undefined = ir.Constant(ir.VectorType(x.type, count), ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), count), [0] * count)
    return builder.shuffle_vector(first, undefined, everywhere)


def _convert(context: Any, builder: Any, value: Any, ty: Any, number: Any) -> Any:
    """Return a value of type ``ty`` as a float or vector, of type ``number``."""
    if ty == number:
        return value
    if _vector(number):
        return _joined(builder, _parts(context, builder, value, ty, number), number)
    return context.cast(builder, value, ty, number if number == types.float32 else types.float64)


def _binary(op: Any, combine: Any) -> Any:
    """Implement an operator of which an operand is a vector, by a function of the parts."""

    @numba_intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        number = _vector(a, b)

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x, y = _all_parts(context, builder, sig, args)
            return _joined(builder, combine(builder, x, y), number)

        return number(a, b), codegen

    @overload(op)
    def implementation(a, b):
        if _vector(a, b) and _is_number(a) and _is_number(b):
            return lambda a, b: apply(a, b)


for _op, _combine in (
    (operator.add, _sum_of_parts),
    (operator.sub, _difference_of_parts),
    (operator.mul, _product_of_parts),
    (operator.truediv, _quotient_of_parts),
):
    _binary(_op, _combine)


@numba_intrinsic
def _negative(typing: Any, a: Any) -> Any:
    """Return -a."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        (x,) = _all_parts(context, builder, sig, args)
        return _joined(builder, _difference_of_parts(builder, [None] * a.nparts, x), a)

    return a(a), codegen


@overload(operator.neg)
def _(a):
    if _vector(a):
        return lambda a: _negative(a)


@numba_intrinsic
def _lift(typing: Any, value: Any, like: Any) -> Any:
    """Return a number as a vector of the type of ``like``."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _convert(context, builder, args[0], sig.args[0], like)

    return like(value, like), codegen


def pointer_to(function: Any, number: Any) -> Any:
    """Implement the function that returns a pointer to the numbers at an address."""

    @intrinsic(function)
    def _(typing: Any, address: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

        return types.CPointer(number)(types.intp), codegen


pointer_to(la.integers_at, types.int64)
pointer_to(la.floats_at, types.float64)
pointer_to(la.floats32_at, types.float32)
pointer_to(la.lanes_at, lanes)
pointer_to(la.lanes32_at, lanes32)
for _order, _dual_numbers_at in enumerate(la.DUAL_NUMBERS_AT, start=1):
    pointer_to(_dual_numbers_at, VectorType(LANES, _order))


def _in_lane(builder: Any, number: Any, pointer: Any, i: Any, lane: Any) -> Any:
    """Return a pointer to the number of one state in number i of a workspace of lanes."""
    element = number.element if _vector(number) else _DOUBLE
    first = builder.bitcast(builder.gep(pointer, [i]), element.as_pointer())
    return builder.gep(first, [lane])


@intrinsic(la.load_lane)
def _(typing: Any, a: Any, i: Any, lane: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = builder.load(_in_lane(builder, a.dtype, *args))
        return value if value.type == _DOUBLE else builder.fpext(value, _DOUBLE)

    return types.float64(a, types.intp, types.intp), codegen


@intrinsic(la.store_lane)
def _(typing: Any, a: Any, i: Any, lane: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _in_lane(builder, a.dtype, *args[:3])
        element = pointer.type.pointee
        value = args[3] if element == _DOUBLE else builder.fptrunc(args[3], element)
        builder.store(value, pointer)
        return context.get_dummy_value()

    return types.none(a, types.intp, types.intp, types.float64), codegen


def _alignment(number: Any) -> int:
    """Return the alignment of a number of an array [bytes]."""
    return 4 if getattr(number, "bits", 64) == 32 or number == types.float32 else 8


def _loader(function: Any, is_constant: bool) -> Any:
    """Implement a function that loads number i; constant numbers can be loaded once."""

    @intrinsic(function)
    def load(typing: Any, a: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.gep(args[0], [args[1]]), align=_alignment(a.dtype))
            if is_constant:
                value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value

        return a.dtype(a, types.intp), codegen

    return load


_load = _loader(la.load, is_constant=False)
_loader(la.constant, is_constant=True)


@intrinsic(la.store)
def _store(typing: Any, a: Any, i: Any, x: Any) -> Any:
    """Store a number, in lanes as a vector."""
    number = a.dtype

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = _convert(context, builder, args[2], sig.args[2], number)
        builder.store(value, builder.gep(args[0], [args[1]]), align=_alignment(number))
        return context.get_dummy_value()

    is_converted = _vector(number) or number == types.float32
    return types.none(a, types.intp, x if is_converted else number), codegen


def _call_intrinsic(builder: Any, name: str, *args: Any) -> Any:
    """Call the LLVM intrinsic ``llvm.NAME`` for floats or vectors."""
    ty = args[0].type
    bits = 32 if getattr(ty, "element", ty) == _ELEMENTS[32] else 64
    suffix = f"v{ty.count}f{bits}" if isinstance(ty, ir.VectorType) else "f64"
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ty, [ty] * len(args)), f"llvm.{name}.{suffix}"
    )
    return builder.call(function, args)


@intrinsic(la.fma)
def _(typing: Any, a: Any, b: Any, c: Any) -> Any:
    number = _vector(a, b, c) or types.float64

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not _vector(number):
            return _call_intrinsic(
                builder,
                "fma",
                *[_convert(context, builder, *x, number) for x in zip(args, sig.args)],
            )
        x, y, z = _all_parts(context, builder, sig, args)
        value = _call_intrinsic(builder, "fma", x[0], y[0], z[0])
        rest = _sum_of_parts(builder, _product_of_parts(builder, x, y)[1:], z[1:])
        return _joined(builder, [value, *rest], number)

    return number(a, b, c), codegen


@numba_intrinsic
def _all_above(typing: Any, a: Any, b: Any) -> Any:
    """Return True if a > b in all lanes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = (parts[0] for parts in _all_parts(context, builder, sig, args))
        bits = builder.bitcast(builder.fcmp_ordered(">", x, y), ir.IntType(x.type.count))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))

    return types.boolean(a, b), codegen


@numba_intrinsic
def _select_above(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x in the lanes with a > b, y in the others."""
    number = _vector(a, b, x, y)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        p, q, x, y = _all_parts(context, builder, sig, args)
        return _joined(
            builder, _selected(builder, builder.fcmp_ordered(">", p[0], q[0]), x, y), number
        )

    return number(a, b, x, y), codegen


def _selected(builder: Any, is_first: Any, x: list[Any], y: list[Any]) -> list[Any]:
    """Return the parts of x in the lanes of a mask, those of y in the others."""
    zero = ir.Constant(x[0].type, [0.0] * x[0].type.count)
    return [
        None
        if p is q is None
        else builder.select(is_first, zero if p is None else p, zero if q is None else q)
        for p, q in zip(x, y)
    ]


def _first(builder: Any, count: int, width: int) -> Any:
    """Return the mask of the first ``count`` of ``width`` numbers."""
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), width), list(range(width)))
    return builder.icmp_signed("<", numbers, _splat(builder, count, width))


def _masked(builder: Any, name: str, number: Any, result: Any, args: Any) -> Any:
    """Call an intrinsic that reads or writes some adjacent numbers of a SIMD vector."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(result, [arg.type for arg in args]),
        f"llvm.masked.{name}.v{number.count}f{number.bits}.p0",
    )
    return builder.call(function, args)


def _simd_of(a: Any) -> Any:
    """Return the type of a SIMD vector of an array of floats."""
    return lanes32 if a.dtype == types.float32 else _simd


@numba_intrinsic
def _load_simd(typing: Any, a: Any, i: Any, count: Any) -> Any:
    """Load a SIMD vector from number i on; after ``count`` numbers, it is zero."""
    number = _simd_of(a)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), number.vector.as_pointer())
        mask = _first(builder, args[2], number.count)
        zeros = ir.Constant(number.vector, [0.0] * number.count)
        alignment = ir.Constant(ir.IntType(32), number.bits // 8)
        return _masked(builder, "load", number, number.vector, [pointer, alignment, mask, zeros])

    return number(a, types.intp, types.intp), codegen


@numba_intrinsic
def _store_simd(typing: Any, a: Any, i: Any, count: Any, x: Any) -> Any:
    """Store the first ``count`` numbers of a SIMD vector from number i on."""
    number = _simd_of(a)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), number.vector.as_pointer())
        value = _convert(context, builder, args[3], sig.args[3], number)
        mask = _first(builder, args[2], number.count)
        alignment = ir.Constant(ir.IntType(32), number.bits // 8)
        _masked(builder, "store", number, ir.VoidType(), [value, pointer, alignment, mask])
        return context.get_dummy_value()

    return types.none(a, types.intp, types.intp, x), codegen


def _shuffled(builder: Any, a: Any, b: Any, places: Any) -> Any:
    """Return the numbers at some places of two vectors, one after the other."""
    mask = ir.Constant(ir.VectorType(ir.IntType(32), len(places)), list(places))
    return builder.shuffle_vector(a, b, mask)


def _transposed(builder: Any, block: Any) -> Any:
    """Transpose squares side by side in vectors, by swapping blocks of increasing size."""
    block, distance = list(block), 1
    length = block[0].type.count
    while distance < len(block):
        for n in range(len(block)):
            if not n & distance:
                pair = block[n], block[n | distance]
                places = (
                    [p if not p & distance else length + (p ^ distance) for p in range(length)],
                    [p | distance if not p & distance else length + p for p in range(length)],
                )
                for target, source in zip((n, n | distance), places):
                    block[target] = _shuffled(builder, *pair, source)
        distance *= 2
    return block


def _tile_type(number: Any) -> Any:
    """Return the type of the vectors of a tile, for the type of the numbers of an array."""
    return _vector(number) or (lanes32 if number == types.float32 else lanes)


def _lane_pointers(
    context: Any, builder: Any, number: Any, pointer: Any, i: Any, stride: Any = None
) -> Any:
    """Yield pointers to the vectors of a tile, at numbers i, i + stride, ... of an array.

    In a workspace of lanes of type ``number``, each number is such a vector.
    """
    stride = stride or context.get_constant(types.intp, 1)
    for lane in range(number.count):
        distance = builder.mul(stride, context.get_constant(types.intp, lane))
        place = builder.gep(pointer, [builder.add(i, distance)])
        yield builder.bitcast(place, number.vector.as_pointer())


def _store_lanes(builder: Any, values: Any, targets: Any, past_caches: Any) -> Any:
    """Store vectors at pointers, which must be aligned to vectors with ``past_caches``."""
    for pointer, value in zip(targets, values):
        size = value.type.count * (4 if value.type.element == _ELEMENTS[32] else 8)
        stored = builder.store(value, pointer, align=size if past_caches else 4)
        if past_caches:
            is_nontemporal = ir.Constant(ir.IntType(32), 1)
            stored.set_metadata("nontemporal", builder.module.add_metadata([is_nontemporal]))


def _move(builder: Any, sources: Any, targets: Any, past_caches: Any = False) -> Any:
    """Load vectors at pointers, and store their transpose at others."""
    block = [builder.load(pointer, align=4) for pointer in sources]
    _store_lanes(builder, _transposed(builder, block), targets, past_caches)


@intrinsic(la.gather_tile)
def _(typing: Any, floats: Any, i: Any, stride: Any, work: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _tile_type(work.dtype)
        _move(
            builder,
            _lane_pointers(context, builder, number, *args[:3]),
            _lane_pointers(context, builder, number, *args[3:]),
        )
        return context.get_dummy_value()

    return types.none(floats, types.intp, types.intp, work, types.intp), codegen


def _row_pointers(context: Any, builder: Any, row: Any, lanes_count: int, args: Any) -> Any:
    """Yield pointers to adjacent rows of some type, one for each lane, the last one repeated."""
    pointer, start, columns, count = args
    last = builder.sub(count, context.get_constant(types.intp, 1))
    for number in range(lanes_count):
        lane = context.get_constant(types.intp, number)
        lane = builder.select(builder.icmp_signed("<", lane, last), lane, last)
        place = builder.gep(pointer, [builder.add(start, builder.mul(lane, columns))])
        yield builder.bitcast(place, row.vector.as_pointer())


def _for_row_types(builder: Any, number: Any, columns: Any, copy: Any) -> None:
    """Emit ``copy`` for rows of half as many numbers as there are lanes, and for longer ones."""
    half = number.count // 2
    is_half = builder.icmp_signed("<=", columns, ir.Constant(columns.type, half))
    with builder.if_else(is_half) as (then, otherwise):
        with then:
            copy(VectorType(half, 0, number.bits))
        with otherwise:
            copy(VectorType(number.count, 0, number.bits))


@intrinsic(la.gather_short_rows)
def _(typing: Any, floats: Any, i: Any, columns: Any, count: Any, work: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _tile_type(work.dtype)
        *rows, work_pointer, first = args
        columns = args[2]

        def copy(row: Any) -> None:
            mask = _first(builder, columns, row.count)
            zeros = ir.Constant(row.vector, [0.0] * row.count)
            alignment = ir.Constant(ir.IntType(32), number.bits // 8)
            block = [
                _masked(builder, "load", row, row.vector, [pointer, alignment, mask, zeros])
                for pointer in _row_pointers(context, builder, row, number.count, rows)
            ]
            if row.count < number.count:
                block = [
                    _shuffled(builder, *pair, range(number.count))
                    for pair in zip(block, block[row.count :])
                ]
            block = _transposed(builder, block)
            last = builder.sub(columns, context.get_constant(types.intp, 1))
            for column in reversed(range(row.count)):  # rows after the last one are overwritten
                n = context.get_constant(types.intp, column)
                n = builder.select(builder.icmp_signed("<", n, last), n, last)
                target = builder.gep(work_pointer, [builder.add(first, n)])
                target = builder.bitcast(target, number.vector.as_pointer())
                builder.store(block[column], target, align=4)

        _for_row_types(builder, number, columns, copy)
        return context.get_dummy_value()

    return types.none(floats, types.intp, types.intp, types.intp, work, types.intp), codegen


@intrinsic(la.scatter_short_rows)
def _(typing: Any, work: Any, k: Any, floats: Any, i: Any, columns: Any, count: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _tile_type(work.dtype)
        work_pointer, first, *rows = args
        columns = args[4]

        def copy(row: Any) -> None:
            sources = _lane_pointers(context, builder, number, work_pointer, first)
            block = [builder.load(next(sources), align=4) for _ in range(row.count)]
            block = _transposed(builder, block)
            mask = _first(builder, columns, row.count)
            alignment = ir.Constant(ir.IntType(32), number.bits // 8)
            targets = _row_pointers(context, builder, row, number.count, rows)
            stores = [
                (pointer, _shuffled(builder, block[lane % row.count], block[0], places))
                for lane, pointer in enumerate(targets)
                for places in [range(lane - lane % row.count, lane - lane % row.count + row.count)]
            ]
            for pointer, value in reversed(stores):  # the last row is overwritten by its lane
                _masked(builder, "store", row, ir.VoidType(), [value, pointer, alignment, mask])

        _for_row_types(builder, number, columns, copy)
        return context.get_dummy_value()

    return types.none(work, types.intp, floats, types.intp, types.intp, types.intp), codegen


def _scatter_tile(function: Any, past_caches: Any) -> Any:
    """Implement a function that stores the transpose of a tile of a workspace of lanes."""

    @intrinsic(function)
    def _(typing: Any, work: Any, k: Any, floats: Any, i: Any, stride: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            number = _tile_type(work.dtype)
            _move(
                builder,
                _lane_pointers(context, builder, number, *args[:2]),
                _lane_pointers(context, builder, number, *args[2:]),
                past_caches,
            )
            return context.get_dummy_value()

        return types.none(work, types.intp, floats, types.intp, types.intp), codegen


_scatter_tile(la.scatter_tile, past_caches=False)
_scatter_tile(la.scatter_tile_past_caches, past_caches=True)


@intrinsic(la.clear_tile_past_caches)
def _(typing: Any, floats: Any, i: Any, stride: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        number = _tile_type(floats.dtype)
        zeros = [ir.Constant(number.vector, [0.0] * number.count)] * number.count
        _store_lanes(builder, zeros, _lane_pointers(context, builder, number, *args), True)
        return context.get_dummy_value()

    return types.none(floats, types.intp, types.intp), codegen


@intrinsic(la.transpose_tile)
def _(typing: Any, work: Any, i: Any, k: Any, stride: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer, first, *target = args
        number = _tile_type(work.dtype)
        _move(
            builder,
            _lane_pointers(context, builder, number, pointer, first),
            _lane_pointers(context, builder, number, pointer, *target),
        )
        return context.get_dummy_value()

    return types.none(work, types.intp, types.intp, types.intp), codegen


@overload(la.lift)
def _(value, like):
    if _vector(like) and not _vector(value):
        return lambda value, like: _lift(value, like)
    if like == types.float32:
        return lambda value, like: np.float32(value)
    return lambda value, like: value


@overload(la.split_pi)
def _(like):
    parts = la.PI32 if _vector(like) and like.bits == 32 else la.PI
    return lambda like: parts


@overload(la.all_above)
def _(a, b):
    if _vector(a, b):
        return lambda a, b: _all_above(a, b)
    return lambda a, b: a > b


@overload(la.select_above)
def _(a, b, x, y):
    if _vector(a, b, x, y):
        return lambda a, b, x, y: _select_above(a, b, x, y)
    return lambda a, b, x, y: x if a > b else y


@overload(la.holds_lanes)
def _(a):
    is_lanes = _vector(a.dtype) is not None
    return lambda a: is_lanes


@overload(la.simd_width)
def _(a):
    count = 1 if _vector(a.dtype) else SIMD_WIDTH
    return lambda a: count


@overload(la.load_simd)
def _(a, i, count):
    if _vector(a.dtype):
        return lambda a, i, count: _load(a, i)
    return lambda a, i, count: _load_simd(a, i, count)


@overload(la.store_simd)
def _(a, i, count, x):
    if _vector(a.dtype):
        return lambda a, i, count, x: _store(a, i, x)
    return lambda a, i, count, x: _store_simd(a, i, count, x)


def _unary(function: Any, name: str, complete: Any) -> Any:
    """Implement a function of one number by an LLVM intrinsic.

    ``complete`` returns all parts of the result, from those of x and the first one.
    """

    @intrinsic(function)
    def _(typing: Any, x: Any) -> Any:
        number = _vector(x) or types.float64

        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if not _vector(number):
                value = _convert(context, builder, args[0], sig.args[0], number)
                return _call_intrinsic(builder, name, value)
            (parts,) = _all_parts(context, builder, sig, args)
            first = _call_intrinsic(builder, name, parts[0])
            return _joined(builder, complete(builder, parts, first), number)

        return number(x), codegen


def _complete_root(builder: Any, x: list[Any], first: Any) -> list[Any]:
    """Return the parts of the square root y of x, from those of y y = x."""
    y = [first]
    for m in range(1, len(x)):
        pairs = [(s, m ^ s) for s in _subsets(m)[1:-1]]
        rest = _product_sum(builder, None, y, y, pairs)
        (difference,) = _difference_of_parts(builder, [x[m]], [rest])
        twice = builder.fadd(first, first, flags=FLAGS)
        y.append(difference and builder.fdiv(difference, twice, flags=FLAGS))
    return y


def _complete_absolute(builder: Any, x: list[Any], first: Any) -> list[Any]:
    """Return the parts of |x|; where x is 0, its derivatives are those of -x."""
    zero = ir.Constant(first.type, [0.0] * first.type.count)
    opposite = _difference_of_parts(builder, [None] * len(x), x)
    selected = _selected(builder, builder.fcmp_ordered(">", x[0], zero), x, opposite)
    return [first, *selected[1:]]


_unary(la.rint, "rint", lambda builder, x, first: [first] + [None] * (len(x) - 1))
_unary(la.sqrt, "sqrt", _complete_root)
_unary(la.fabs, "fabs", _complete_absolute)


pointer_to(raw.bytes_at, types.uint8)


def _integer_loader(function: Any, number: Any) -> Any:
    """Implement a function that loads an integer at any byte as an int64."""

    @intrinsic(function)
    def _(typing: Any, a: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            place = builder.gep(args[0], [args[1]])
            kind = context.get_value_type(number)
            value = builder.load(builder.bitcast(place, kind.as_pointer()))
            value.align = 1
            wide = context.get_value_type(types.int64)
            return value if kind == wide else builder.zext(value, wide)

        return types.int64(a, types.intp), codegen


_integer_loader(raw.load8, types.uint8)
_integer_loader(raw.load16, types.uint16)
_integer_loader(raw.load32, types.uint32)
_integer_loader(raw.load64, types.int64)
