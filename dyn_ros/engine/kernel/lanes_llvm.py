# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The operations of ``lanes.py`` and ``raw.py`` in compiled code."""
import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import models, register_model

from ..machine_code.declare import FLAGS
from ..machine_code.lower import intrinsic, overload
from . import lanes as la
from . import raw
from .lanes import LANES


class LanesType(types.Type):
    """The Numba type of ``LANES`` float64 numbers."""

    def __init__(self):
        super().__init__(name=f"float64x{LANES}")


lanes = LanesType()
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _is_number(ty):
    return ty == lanes or isinstance(ty, (types.Float, types.Integer))


def _splat(builder, x):
    undefined = ir.Constant(ir.VectorType(x.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, x, ir.Constant(ir.IntType(32), 0))
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, everywhere)


def _as_lanes(context, builder, value, ty):
    if ty == lanes:
        return value
    return _splat(builder, context.cast(builder, value, ty, types.float64))


def _binary(op, instruction):
    @numba_intrinsic
    def apply(typing, a, b):
        def codegen(context, builder, sig, args):
            x, y = (_as_lanes(context, builder, v, t) for v, t in zip(args, sig.args))
            return getattr(builder, instruction)(x, y, flags=FLAGS)
        return lanes(a, b), codegen

    @overload(op)
    def implementation(a, b):
        if lanes in (a, b) and _is_number(a) and _is_number(b):
            return lambda a, b: apply(a, b)


for _op, _instruction in ((operator.add, "fadd"), (operator.sub, "fsub"),
                          (operator.mul, "fmul"), (operator.truediv, "fdiv")):
    _binary(_op, _instruction)


@numba_intrinsic
def _negative(typing, a):
    return lanes(a), lambda context, builder, sig, args: builder.fneg(args[0], flags=FLAGS)


@overload(operator.neg)
def _(a):
    if a == lanes:
        return lambda a: _negative(a)


@numba_intrinsic
def _lift(typing, value, like):
    def codegen(context, builder, sig, args):
        return _as_lanes(context, builder, args[0], sig.args[0])
    return lanes(value, like), codegen


def pointer_to(function, number):
    """Implement the function that returns a pointer to the numbers at an address."""
    @intrinsic(function)
    def _(typing, address):
        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))
        return types.CPointer(number)(types.intp), codegen


pointer_to(la.integers_at, types.int64)
pointer_to(la.floats_at, types.float64)
pointer_to(la.lanes_at, lanes)


def _in_lane(builder, pointer, i, lane):
    """Pointer to one number of row i of a workspace of lanes."""
    row = builder.bitcast(builder.gep(pointer, [i]), _DOUBLE.as_pointer())
    return builder.gep(row, [lane])


@intrinsic(la.load_lane)
def _(typing, a, i, lane):
    def codegen(context, builder, sig, args):
        return builder.load(_in_lane(builder, *args))
    return types.float64(a, types.intp, types.intp), codegen


@intrinsic(la.store_lane)
def _(typing, a, i, lane, x):
    def codegen(context, builder, sig, args):
        builder.store(args[3], _in_lane(builder, *args[:3]))
        return context.get_dummy_value()
    return types.none(a, types.intp, types.intp, types.float64), codegen


def _loader(function, is_constant):
    @intrinsic(function)
    def load(typing, a, i):
        def codegen(context, builder, sig, args):
            value = builder.load(builder.gep(args[0], [args[1]]))
            value.align = 8
            if is_constant:
                value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value
        return a.dtype(a, types.intp), codegen
    return load


_load = _loader(la.load, is_constant=False)
_loader(la.constant, is_constant=True)


@intrinsic(la.store)
def _store(typing, a, i, x):
    number = a.dtype

    def codegen(context, builder, sig, args):
        value = args[2]
        if number == lanes:
            value = _as_lanes(context, builder, value, sig.args[2])
        builder.store(value, builder.gep(args[0], [args[1]])).align = 8
        return context.get_dummy_value()
    return types.none(a, types.intp, x if number == lanes else number), codegen


def _elementwise(name, types_of_arguments):
    """Typing and code of the LLVM intrinsic ``llvm.NAME`` for either number type."""
    number = lanes if lanes in types_of_arguments else types.float64

    def codegen(context, builder, sig, args):
        if number == lanes:
            ty, suffix = _VECTOR, f"v{LANES}f64"
            args = [_as_lanes(context, builder, x, t) for x, t in zip(args, sig.args)]
        else:
            ty, suffix = _DOUBLE, "f64"
            args = [context.cast(builder, x, t, number) for x, t in zip(args, sig.args)]
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ty, [ty] * len(args)), f"llvm.{name}.{suffix}")
        return builder.call(function, args)
    return number(*types_of_arguments), codegen


@intrinsic(la.fma)
def _(typing, a, b, c):
    return _elementwise("fma", (a, b, c))


@numba_intrinsic
def _all_above(typing, a, b):
    def codegen(context, builder, sig, args):
        x, y = (_as_lanes(context, builder, v, t) for v, t in zip(args, sig.args))
        bits = builder.bitcast(builder.fcmp_ordered(">", x, y), ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(LANES), -1))
    return types.boolean(a, b), codegen


@numba_intrinsic
def _select_above(typing, a, b, x, y):
    def codegen(context, builder, sig, args):
        a, b, x, y = (_as_lanes(context, builder, v, t) for v, t in zip(args, sig.args))
        return builder.select(builder.fcmp_ordered(">", a, b), x, y)
    return lanes(a, b, x, y), codegen


def _first(builder, count):
    """Mask of the first ``count`` of ``LANES`` numbers."""
    numbers = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))
    return builder.icmp_signed("<", numbers, _splat(builder, count))


def _masked(builder, name, result, args):
    """Call an intrinsic that reads or writes some of ``LANES`` adjacent numbers."""
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(result, [arg.type for arg in args]),
        f"llvm.masked.{name}.v{LANES}f64.p0")
    return builder.call(function, args)


_ALIGN_8 = ir.Constant(ir.IntType(32), 8)


@numba_intrinsic
def _load_simd(typing, a, i, count):
    def codegen(context, builder, sig, args):
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        return _masked(builder, "load", _VECTOR, [
            pointer, _ALIGN_8, _first(builder, args[2]), ir.Constant(_VECTOR, [0.0] * LANES)])
    return lanes(a, types.intp, types.intp), codegen


@numba_intrinsic
def _store_simd(typing, a, i, count, x):
    def codegen(context, builder, sig, args):
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        _masked(builder, "store", ir.VoidType(), [
            _as_lanes(context, builder, args[3], sig.args[3]), pointer, _ALIGN_8,
            _first(builder, args[2])])
        return context.get_dummy_value()
    return types.none(a, types.intp, types.intp, x), codegen


def _transposed(builder, block):
    """Transpose ``LANES`` vectors by swapping blocks of increasing size."""
    block, distance = list(block), 1
    while distance < LANES:
        for n in range(LANES):
            if not n & distance:
                pair = block[n], block[n | distance]
                masks = ([p if not p & distance else LANES + (p ^ distance)
                          for p in range(LANES)],
                         [p | distance if not p & distance else LANES + p
                          for p in range(LANES)])
                for target, mask in zip((n, n | distance), masks):
                    block[target] = builder.shuffle_vector(
                        *pair, ir.Constant(ir.VectorType(ir.IntType(32), LANES), mask))
        distance *= 2
    return block


def _lane_rows(context, builder, pointer, i):
    for lane in range(LANES):
        yield builder.gep(pointer, [builder.add(i, context.get_constant(types.intp, lane))])


def _spaced_rows(context, builder, pointer, i, stride):
    """Pointers to numbers i, i + stride, ...; of lanes, to every ``stride``-th row."""
    for lane in range(LANES):
        distance = builder.mul(stride, context.get_constant(types.intp, lane))
        row = builder.gep(pointer, [builder.add(i, distance)])
        yield builder.bitcast(row, _VECTOR.as_pointer())


def _store_rows(builder, values, targets, past_caches):
    for pointer, value in zip(targets, values):
        stored = builder.store(value, pointer)
        stored.align = 8 * LANES if past_caches else 8
        if past_caches:
            one = ir.Constant(ir.IntType(32), 1)
            stored.set_metadata("nontemporal", builder.module.add_metadata([one]))


def _move(builder, sources, targets, past_caches=False):
    block = []
    for pointer in sources:
        block.append(builder.load(pointer))
        block[-1].align = 8
    _store_rows(builder, _transposed(builder, block), targets, past_caches)


@intrinsic(la.gather_tile)
def _(typing, floats, i, stride, work, k):
    def codegen(context, builder, sig, args):
        _move(builder, _spaced_rows(context, builder, *args[:3]),
              _lane_rows(context, builder, *args[3:]))
        return context.get_dummy_value()
    return types.none(floats, types.intp, types.intp, work, types.intp), codegen


def _scatter_tile(function, past_caches):
    @intrinsic(function)
    def _(typing, work, k, floats, i, stride):
        def codegen(context, builder, sig, args):
            _move(builder, _lane_rows(context, builder, *args[:2]),
                  _spaced_rows(context, builder, *args[2:]), past_caches)
            return context.get_dummy_value()
        return types.none(work, types.intp, floats, types.intp, types.intp), codegen


_scatter_tile(la.scatter_tile, past_caches=False)
_scatter_tile(la.scatter_tile_past_caches, past_caches=True)


@intrinsic(la.clear_tile_past_caches)
def _(typing, floats, i, stride):
    def codegen(context, builder, sig, args):
        zeros = [ir.Constant(_VECTOR, [0.0] * LANES)] * LANES
        _store_rows(builder, zeros, _spaced_rows(context, builder, *args), True)
        return context.get_dummy_value()
    return types.none(floats, types.intp, types.intp), codegen


@intrinsic(la.transpose_tile)
def _(typing, work, i, k, stride):
    def codegen(context, builder, sig, args):
        pointer, first, target, distance = args
        one = context.get_constant(types.intp, 1)
        _move(builder, _spaced_rows(context, builder, pointer, first, one),
              _spaced_rows(context, builder, pointer, target, distance))
        return context.get_dummy_value()
    return types.none(work, types.intp, types.intp, types.intp), codegen


@overload(la.lift)
def _(value, like):
    if like == lanes and value != lanes:
        return lambda value, like: _lift(value, like)
    return lambda value, like: value


@overload(la.all_above)
def _(a, b):
    if lanes in (a, b):
        return lambda a, b: _all_above(a, b)
    return lambda a, b: a > b


@overload(la.select_above)
def _(a, b, x, y):
    if lanes in (a, b, x, y):
        return lambda a, b, x, y: _select_above(a, b, x, y)
    return lambda a, b, x, y: x if a > b else y


@overload(la.holds_lanes)
def _(a):
    is_lanes = a.dtype == lanes
    return lambda a: is_lanes


@overload(la.simd_width)
def _(a):
    count = 1 if a.dtype == lanes else LANES
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


def _unary(function, name):
    @intrinsic(function)
    def _(typing, x):
        return _elementwise(name, (x,))


_unary(la.rint, "rint")
_unary(la.sqrt, "sqrt")
_unary(la.fabs, "fabs")


pointer_to(raw.bytes_at, types.uint8)


def _integer_loader(function, number):
    @intrinsic(function)
    def _(typing, a, i):
        def codegen(context, builder, sig, args):
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
