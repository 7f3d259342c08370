# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The number types, in one module with their operations: a float64, or ``LANES`` of them.

A kernel is written once, in ordinary arithmetic. Compiled for a workspace of floats, it
computes one robot state; compiled for a workspace of lanes, it computes ``LANES`` states at
once, with one vector instruction per operation. Without Numba (``NUMBA_DISABLE_JIT=1``), the
same source runs on Python floats.
"""
import ctypes
import math
import operator
from fractions import Fraction

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from .compiler import FLAGS, kernel, overload

LANES = 8


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
    @intrinsic
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


@intrinsic
def _negative(typing, a):
    return lanes(a), lambda context, builder, sig, args: builder.fneg(args[0], flags=FLAGS)


@overload(operator.neg)
def _(a):
    if a == lanes:
        return lambda a: _negative(a)


@intrinsic
def _lift(typing, value, like):
    def codegen(context, builder, sig, args):
        return _as_lanes(context, builder, args[0], sig.args[0])
    return lanes(value, like), codegen


def pointer_to(number, in_python):
    """The function that returns a pointer to the numbers at an address."""
    def pointer(address):
        return ctypes.cast(int(address), ctypes.POINTER(in_python))

    @intrinsic
    def cast(typing, address):
        def codegen(context, builder, sig, args):
            return builder.inttoptr(args[0], context.get_value_type(sig.return_type))
        return types.CPointer(number)(types.intp), codegen

    @overload(pointer)
    def implementation(address):
        return lambda address: cast(address)
    return pointer


integers_at = pointer_to(types.int64, ctypes.c_int64)
floats_at = pointer_to(types.float64, ctypes.c_double)
lanes_at = pointer_to(lanes, ctypes.c_double)


def _in_lane(builder, pointer, i, lane):
    """Pointer to one number of row i of a workspace of lanes."""
    row = builder.bitcast(builder.gep(pointer, [i]), _DOUBLE.as_pointer())
    return builder.gep(row, [lane])


@intrinsic
def load_lane(typing, a, i, lane):
    """Number ``lane`` of row i of a workspace of lanes."""
    def codegen(context, builder, sig, args):
        return builder.load(_in_lane(builder, *args))
    return types.float64(a, types.intp, types.intp), codegen


@intrinsic
def store_lane(typing, a, i, lane, x):
    """Store a number; the counterpart of ``load_lane``."""
    def codegen(context, builder, sig, args):
        builder.store(args[3], _in_lane(builder, *args[:3]))
        return context.get_dummy_value()
    return types.none(a, types.intp, types.intp, types.float64), codegen


def _loader(is_constant):
    @intrinsic
    def load(typing, a, i):
        def codegen(context, builder, sig, args):
            value = builder.load(builder.gep(args[0], [args[1]]))
            value.align = 8
            if is_constant:
                value.set_metadata("invariant.load", builder.module.add_metadata([]))
            return value
        return a.dtype(a, types.intp), codegen
    return load


_load, _constant = _loader(False), _loader(True)


@intrinsic
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


@intrinsic
def _fma(typing, a, b, c):
    return _elementwise("fma", (a, b, c))


@intrinsic
def _all_above(typing, a, b):
    def codegen(context, builder, sig, args):
        x, y = (_as_lanes(context, builder, v, t) for v, t in zip(args, sig.args))
        bits = builder.bitcast(builder.fcmp_ordered(">", x, y), ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(LANES), -1))
    return types.boolean(a, b), codegen


@intrinsic
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


@intrinsic
def _load_simd(typing, a, i, count):
    def codegen(context, builder, sig, args):
        pointer = builder.bitcast(builder.gep(args[0], [args[1]]), _VECTOR.as_pointer())
        return _masked(builder, "load", _VECTOR, [
            pointer, _ALIGN_8, _first(builder, args[2]), ir.Constant(_VECTOR, [0.0] * LANES)])
    return lanes(a, types.intp, types.intp), codegen


@intrinsic
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


@intrinsic
def gather_tile(typing, floats, i, stride, work, k):
    """Copy ``LANES`` floats from i, i + stride, ... to rows k ... of a workspace of lanes."""
    def codegen(context, builder, sig, args):
        _move(builder, _spaced_rows(context, builder, *args[:3]),
              _lane_rows(context, builder, *args[3:]))
        return context.get_dummy_value()
    return types.none(floats, types.intp, types.intp, work, types.intp), codegen


def _scatter_tile(past_caches):
    @intrinsic
    def scatter(typing, work, k, floats, i, stride):
        def codegen(context, builder, sig, args):
            _move(builder, _lane_rows(context, builder, *args[:2]),
                  _spaced_rows(context, builder, *args[2:]), past_caches)
            return context.get_dummy_value()
        return types.none(work, types.intp, floats, types.intp, types.intp), codegen
    return scatter


scatter_tile = _scatter_tile(False)
"""Copy rows k ... of a workspace of lanes to ``LANES`` floats at i, i + stride, ..."""
scatter_tile_past_caches = _scatter_tile(True)
"""The same with nontemporal stores, for results larger than the caches; whole cache lines only."""


@intrinsic
def clear_tile_past_caches(typing, floats, i, stride):
    """Set ``LANES`` floats at i, i + stride, ... to zero with nontemporal stores."""
    def codegen(context, builder, sig, args):
        zeros = [ir.Constant(_VECTOR, [0.0] * LANES)] * LANES
        _store_rows(builder, zeros, _spaced_rows(context, builder, *args), True)
        return context.get_dummy_value()
    return types.none(floats, types.intp, types.intp), codegen


@intrinsic
def transpose_tile(typing, work, i, k, stride):
    """Copy the numbers of one lane in rows i ... of a workspace of lanes to one row.

    Those of lane n go to row k + n stride.
    """
    def codegen(context, builder, sig, args):
        pointer, first, target, distance = args
        one = context.get_constant(types.intp, 1)
        _move(builder, _spaced_rows(context, builder, pointer, first, one),
              _spaced_rows(context, builder, pointer, target, distance))
        return context.get_dummy_value()
    return types.none(work, types.intp, types.intp, types.intp), codegen


# Functions for kernels. In compiled code, arguments such as a are plain pointers, which are free to
# pass; without Numba they are NumPy arrays.

def _in_python(function):
    """Decorator: calls of ``function`` are compiled to what the decorated one returns for types.

    The result is ``function``, which runs without Numba, with the name of the decorated one.
    """
    def register(implementation):
        function.__name__, function.__doc__ = implementation.__name__, implementation.__doc__
        overload(function)(implementation)
        return function
    return register


@_in_python(lambda a, i: a[i])
def load(a, i):
    """Load number i of integers, floats or a workspace, without a bounds check."""
    return lambda a, i: _load(a, i)


@_in_python(lambda a, i, x: operator.setitem(a, i, x))
def store(a, i, x):
    """Store number i; the counterpart of ``load``."""
    return lambda a, i, x: _store(a, i, x)


@_in_python(lambda a, i: a[i])
def constant(a, i):
    """Load number i of constant data, without a bounds check."""
    return lambda a, i: _constant(a, i)


@_in_python(lambda value, like: np.float64(value) if isinstance(like, np.float64) else value)
def lift(value, like):
    """Convert a constant to the number type of ``like``, so that both branches of an if agree."""
    if like == lanes and value != lanes:
        return lambda value, like: _lift(value, like)
    return lambda value, like: value


@_in_python(lambda a, b: bool(np.all(a > b)))
def all_above(a, b):
    """Whether a > b in every lane; false for NaN."""
    if lanes in (a, b):
        return lambda a, b: _all_above(a, b)
    return lambda a, b: a > b


@_in_python(lambda a, b, x, y: x if a > b else y)
def select_above(a, b, x, y):
    """x if a > b, otherwise y, for each lane."""
    if lanes in (a, b, x, y):
        return lambda a, b, x, y: _select_above(a, b, x, y)
    return lambda a, b, x, y: x if a > b else y


@_in_python(lambda a: False)
def holds_lanes(a):
    """Whether the workspace consists of lanes, as for a batch."""
    is_lanes = a.dtype == lanes
    return lambda a: is_lanes


@_in_python(lambda a: 1)
def simd_width(a):
    """Number of adjacent entries processed together: ``LANES`` for one state, 1 for lanes."""
    count = 1 if a.dtype == lanes else LANES
    return lambda a: count


@_in_python(lambda a, i, count: a[i])
def load_simd(a, i, count):
    """Load up to ``count`` of ``simd_width(a)`` numbers of a workspace, from number i on."""
    if a.dtype == lanes:
        return lambda a, i, count: _load(a, i)
    return lambda a, i, count: _load_simd(a, i, count)


@_in_python(lambda a, i, count, x: operator.setitem(a, i, x))
def store_simd(a, i, count, x):
    """Store up to ``count`` numbers; the counterpart of ``load_simd``."""
    if a.dtype == lanes:
        return lambda a, i, count, x: _store(a, i, x)
    return lambda a, i, count, x: _store_simd(a, i, count, x)


def fma(a, b, c):
    """a b + c with a single rounding."""
    rounded = np.float64(a) * b + c
    if not np.isfinite(rounded):
        return rounded
    return np.float64(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


@overload(fma)
def _(a, b, c):
    return lambda a, b, c: _fma(a, b, c)


def _unary(name, function):
    """A function of one number, which is the LLVM intrinsic ``name`` in compiled code."""
    @intrinsic
    def apply(typing, x):
        return _elementwise(name, (x,))

    @overload(function)
    def implementation(x):
        return lambda x: apply(x)
    return function


rint = _unary("rint", lambda x: np.rint(x))         # the nearest integer, as a float
sqrt = _unary("sqrt", lambda x: np.sqrt(x))
fabs = _unary("fabs", lambda x: abs(x))


_SIN = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(1, 10))
_COS = tuple((-1) ** n / math.factorial(2 * n) for n in range(1, 11))
_PI_HIGH, _PI_LOW = 3.141592653589793116, 1.2246467991473532e-16
_FARTHEST = 1e14                                # beyond, k may not be the nearest integer


@kernel
def sincos(x):
    """(sin x, cos x), accurate to 2e-16.

    x = k pi + r with |r| <= pi/2, followed by Taylor series in r^2. NaN if |x| is 1e14 or more.
    """
    k = rint(x * (1.0 / _PI_HIGH))
    r = fma(k, -_PI_LOW, fma(k, -_PI_HIGH, x))
    r = select_above(_FARTHEST * _FARTHEST, x * x, r, math.nan)
    z = r * r
    s = z * _SIN[8]
    for i in range(7, -1, -1):
        s = z * (_SIN[i] + s)
    c = z * _COS[9]
    for i in range(8, -1, -1):
        c = z * (_COS[i] + c)
    half = k * 0.5
    odd = half - rint(half)                        # 0 for even k, +-1/2 for odd k
    sign = 1.0 - 8.0 * (odd * odd)
    return sign * (r + r * s), sign * (1.0 + c)
