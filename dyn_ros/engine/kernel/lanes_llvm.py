# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The operations of ``lanes.py`` and ``raw.py`` in compiled code."""

import operator
from typing import Any

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


class VectorType(types.Type):
    """The Numba type of several float64 numbers."""

    def __init__(self, count: int) -> None:
        super().__init__(name=f"float64x{count}")
        self.count = count


lanes = VectorType(LANES)  # a number of as many states
_simd = VectorType(SIMD_WIDTH)  # adjacent numbers of one state
_DOUBLE = ir.DoubleType()
_LANES, _SIMD = ir.VectorType(_DOUBLE, LANES), ir.VectorType(_DOUBLE, SIMD_WIDTH)


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """The LLVM type of a ``VectorType``."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.VectorType(_DOUBLE, fe_type.count))


def _vector(*kinds: Any) -> Any:
    """Return the type of the vectors among numbers, or None."""
    return next((ty for ty in kinds if isinstance(ty, VectorType)), None)


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
    value = context.cast(builder, value, ty, types.float64)
    return _splat(builder, value, number.count) if _vector(number) else value


def _convert_all(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return arguments as vectors if some of them are, otherwise as floats."""
    number = _vector(*sig.args) or types.float64
    return [_convert(context, builder, v, t, number) for v, t in zip(args, sig.args)]


def _binary(op: Any, instruction: str) -> Any:
    """Implement an operator of which an operand is a vector by an LLVM instruction."""

    @numba_intrinsic
    def apply(typing: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            x, y = _convert_all(context, builder, sig, args)
            return getattr(builder, instruction)(x, y, flags=FLAGS)

        return _vector(a, b)(a, b), codegen

    @overload(op)
    def implementation(a, b):
        if _vector(a, b) and _is_number(a) and _is_number(b):
            return lambda a, b: apply(a, b)


for _op, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _binary(_op, _instruction)


@numba_intrinsic
def _negative(typing: Any, a: Any) -> Any:
    """Return -a."""
    return a(a), lambda context, builder, sig, args: builder.fneg(args[0], flags=FLAGS)


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
pointer_to(la.lanes_at, lanes)


def _in_lane(builder: Any, pointer: Any, i: Any, lane: Any) -> Any:
    """Return a pointer to the number of one state in number i of a workspace of lanes."""
    first = builder.bitcast(builder.gep(pointer, [i]), _DOUBLE.as_pointer())
    return builder.gep(first, [lane])


@intrinsic(la.load_lane)
def _(typing: Any, a: Any, i: Any, lane: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_in_lane(builder, *args))

    return types.float64(a, types.intp, types.intp), codegen


@intrinsic(la.store_lane)
def _(typing: Any, a: Any, i: Any, lane: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[3], _in_lane(builder, *args[:3]))
        return context.get_dummy_value()

    return types.none(a, types.intp, types.intp, types.float64), codegen


def _loader(function: Any, is_constant: bool) -> Any:
    """Implement a function that loads number i; constant numbers can be loaded once."""

    @intrinsic(function)
    def load(typing: Any, a: Any, i: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            value = builder.load(builder.gep(args[0], [args[1]]), align=8)
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
        builder.store(value, builder.gep(args[0], [args[1]]), align=8)
        return context.get_dummy_value()

    return types.none(a, types.intp, x if number == lanes else number), codegen


def _elementwise(name: str, types_of_arguments: Any) -> Any:
    """Return typing and code of the LLVM intrinsic ``llvm.NAME`` for floats and vectors."""
    number = _vector(*types_of_arguments) or types.float64
    suffix = f"v{number.count}f64" if _vector(number) else "f64"

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        ty, args = context.get_value_type(number), _convert_all(context, builder, sig, args)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ty, [ty] * len(args)), f"llvm.{name}.{suffix}"
        )
        return builder.call(function, args)

    return number(*types_of_arguments), codegen


@intrinsic(la.fma)
def _(typing: Any, a: Any, b: Any, c: Any) -> Any:
    return _elementwise("fma", (a, b, c))


@numba_intrinsic
def _all_above(typing: Any, a: Any, b: Any) -> Any:
    """Return True if a > b in all lanes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = _convert_all(context, builder, sig, args)
        bits = builder.bitcast(builder.fcmp_ordered(">", x, y), ir.IntType(x.type.count))
        return builder.icmp_unsigned("==", bits, ir.Constant(bits.type, -1))

    return types.boolean(a, b), codegen


@numba_intrinsic
def _select_above(typing: Any, a: Any, b: Any, x: Any, y: Any) -> Any:
    """Return x in the lanes with a > b, y in the others."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b, x, y = _convert_all(context, builder, sig, args)
        return builder.select(builder.fcmp_ordered(">", a, b), x, y)

    return _vector(a, b, x, y)(a, b, x, y), codegen


def _first(builder: Any, count: int) -> Any:
    """Return the mask of the first ``count`` of ``SIMD_WIDTH`` numbers."""
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), SIMD_WIDTH), list(range(SIMD_WIDTH)))
    return builder.icmp_signed("<", numbers, _splat(builder, count, SIMD_WIDTH))


def _masked(builder: Any, name: str, result: Any, args: Any) -> Any:
    """Call an intrinsic that reads or writes some of ``SIMD_WIDTH`` adjacent numbers."""
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(result, [arg.type for arg in args]),
        f"llvm.masked.{name}.v{SIMD_WIDTH}f64.p0",
    )
    return builder.call(function, args)


_ALIGN_8 = ir.Constant(ir.IntType(32), 8)


@numba_intrinsic
def _load_simd(typing: Any, a: Any, i: Any, count: Any) -> Any:
    """Load a SIMD vector from number i on; after ``count`` numbers, it is zero."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), _SIMD.as_pointer())
        return _masked(
            builder,
            "load",
            _SIMD,
            [pointer, _ALIGN_8, _first(builder, args[2]), ir.Constant(_SIMD, [0.0] * SIMD_WIDTH)],
        )

    return _simd(a, types.intp, types.intp), codegen


@numba_intrinsic
def _store_simd(typing: Any, a: Any, i: Any, count: Any, x: Any) -> Any:
    """Store the first ``count`` numbers of a SIMD vector from number i on."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), _SIMD.as_pointer())
        _masked(
            builder,
            "store",
            ir.VoidType(),
            [
                _convert(context, builder, args[3], sig.args[3], _simd),
                pointer,
                _ALIGN_8,
                _first(builder, args[2]),
            ],
        )
        return context.get_dummy_value()

    return types.none(a, types.intp, types.intp, x), codegen


def _transposed(builder: Any, block: Any) -> Any:
    """Transpose ``LANES`` vectors by swapping blocks of increasing size."""
    block, distance = list(block), 1
    while distance < LANES:
        for n in range(LANES):
            if not n & distance:
                pair = block[n], block[n | distance]
                masks = (
                    [p if not p & distance else LANES + (p ^ distance) for p in range(LANES)],
                    [p | distance if not p & distance else LANES + p for p in range(LANES)],
                )
                for target, mask in zip((n, n | distance), masks):
                    block[target] = builder.shuffle_vector(
                        *pair, ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask)
                    )
        distance *= 2
    return block


def _lane_pointers(context: Any, builder: Any, pointer: Any, i: Any, stride: Any = None) -> Any:
    """Yield pointers to ``LANES`` vectors, at numbers i, i + stride, ... of an array.

    In a workspace of lanes, each number is such a vector.
    """
    stride = stride or context.get_constant(types.intp, 1)
    for lane in range(LANES):
        distance = builder.mul(stride, context.get_constant(types.intp, lane))
        number = builder.gep(pointer, [builder.add(i, distance)])
        yield builder.bitcast(number, _LANES.as_pointer())


def _store_lanes(builder: Any, values: Any, targets: Any, past_caches: Any) -> Any:
    """Store vectors at pointers, which must be aligned to vectors with ``past_caches``."""
    for pointer, value in zip(targets, values):
        stored = builder.store(value, pointer, align=8 * LANES if past_caches else 8)
        if past_caches:
            is_nontemporal = ir.Constant(ir.IntType(32), 1)
            stored.set_metadata("nontemporal", builder.module.add_metadata([is_nontemporal]))


def _move(builder: Any, sources: Any, targets: Any, past_caches: Any = False) -> Any:
    """Load vectors at pointers, and store their transpose at others."""
    block = [builder.load(pointer, align=8) for pointer in sources]
    _store_lanes(builder, _transposed(builder, block), targets, past_caches)


@intrinsic(la.gather_tile)
def _(typing: Any, floats: Any, i: Any, stride: Any, work: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _move(
            builder,
            _lane_pointers(context, builder, *args[:3]),
            _lane_pointers(context, builder, *args[3:]),
        )
        return context.get_dummy_value()

    return types.none(floats, types.intp, types.intp, work, types.intp), codegen


def _scatter_tile(function: Any, past_caches: Any) -> Any:
    """Implement a function that stores the transpose of a tile of a workspace of lanes."""

    @intrinsic(function)
    def _(typing: Any, work: Any, k: Any, floats: Any, i: Any, stride: Any) -> Any:
        def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            _move(
                builder,
                _lane_pointers(context, builder, *args[:2]),
                _lane_pointers(context, builder, *args[2:]),
                past_caches,
            )
            return context.get_dummy_value()

        return types.none(work, types.intp, floats, types.intp, types.intp), codegen


_scatter_tile(la.scatter_tile, past_caches=False)
_scatter_tile(la.scatter_tile_past_caches, past_caches=True)


@intrinsic(la.clear_tile_past_caches)
def _(typing: Any, floats: Any, i: Any, stride: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zeros = [ir.Constant(_LANES, [0.0] * LANES)] * LANES
        _store_lanes(builder, zeros, _lane_pointers(context, builder, *args), True)
        return context.get_dummy_value()

    return types.none(floats, types.intp, types.intp), codegen


@intrinsic(la.transpose_tile)
def _(typing: Any, work: Any, i: Any, k: Any, stride: Any) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer, first, *target = args
        _move(
            builder,
            _lane_pointers(context, builder, pointer, first),
            _lane_pointers(context, builder, pointer, *target),
        )
        return context.get_dummy_value()

    return types.none(work, types.intp, types.intp, types.intp), codegen


@overload(la.lift)
def _(value, like):
    if _vector(like) and not _vector(value):
        return lambda value, like: _lift(value, like)
    return lambda value, like: value


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
    is_lanes = a.dtype == lanes
    return lambda a: is_lanes


@overload(la.simd_width)
def _(a):
    count = 1 if a.dtype == lanes else SIMD_WIDTH
    return lambda a: count


@overload(la.load_simd)
def _(a, i, count):
    if a.dtype == lanes:
        return lambda a, i, count: _load(a, i)
    return lambda a, i, count: _load_simd(a, i, count)


@overload(la.store_simd)
def _(a, i, count, x):
    if a.dtype == lanes:
        return lambda a, i, count, x: _store(a, i, x)
    return lambda a, i, count, x: _store_simd(a, i, count, x)


def _unary(function: Any, name: str) -> Any:
    """Implement a function of one number by an LLVM intrinsic."""

    @intrinsic(function)
    def _(typing: Any, x: Any) -> Any:
        return _elementwise(name, (x,))


_unary(la.rint, "rint")
_unary(la.sqrt, "sqrt")
_unary(la.fabs, "fabs")


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
