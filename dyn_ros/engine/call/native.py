# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compiled code around a kernel: from the arrays of a caller to the workspace and back.

The call for one state reads the objects that the caller passes: if all are contiguous float64
arrays of the right length with finite numbers, it copies them and runs the kernel. Otherwise it
rejects them, and Python handles the call. The call for a batch runs the kernel on ``LANES`` states
at a time.
"""
import ctypes
import math
import warnings

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from ..kernel import lanes as la
from ..kernel import layout as ly
from ..kernel.compiler import JIT, kernel
from ..kernel.fields import EMPTY, MAX_CONSTRAINTS
from ..kernel.joints import compute_sines
from ..kernel.lie import UNIT_TOLERANCE

REJECTED = -1
_PAST_CACHES = 1 << 20      # numbers: larger results do not stay in the caches until they are read


# --- a caller's object, by its address

class _ObjectType(types.Type):
    def __init__(self):
        super().__init__(name="python_object_address")


_object = _ObjectType()


@register_model(_ObjectType)
class _ObjectModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, manager[types.intp].get_value_type())


@unbox(_ObjectType)
def _unbox_object(typ, obj, c):
    return NativeValue(c.builder.ptrtoint(obj, c.context.get_value_type(types.intp)))


@intrinsic
def _address_of(typing, item):
    return types.intp(item), lambda context, builder, sig, args: args[0]


@intrinsic
def _thread_identifier(typing):
    """``threading.get_ident()``."""
    def codegen(context, builder, sig, args):
        long = context.get_value_type(types.intp)
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(long, []), "PyThread_get_thread_ident")
        return builder.call(function, [])
    return types.intp(), codegen


# The links of a call: addresses that its compiled code reads
(_MODEL, _NONE, _NDARRAY, _FLOAT64, _INTS, _FLOATS, _TABLE, _WORK, _OWNER) = range(9)
# Where the items of a tuple start, in words of 8 bytes; 4 since CPython 3.14
_SENTINEL = object(), object()
_ITEMS = 3 if (ctypes.c_int64 * 4).from_address(id(_SENTINEL))[3] == id(_SENTINEL[0]) else 4
# The head of every NumPy array since 1.0 (PyArrayObject_fields), in words of 8 bytes
_TYPE, _DATA, _NDIM, _SHAPE, _DTYPE, _ARRAY_FLAGS = 1, 2, 3, 4, 7, 8
_CONTIGUOUS_ALIGNED = 0x0101


def links(data, workspace):
    """The addresses that the call for one state reads."""
    return np.array([
        id(data.model), id(None), id(np.ndarray), id(np.dtype(np.float64)),
        data.model._ints.ctypes.data, data.model._floats.ctypes.data,
        workspace.table.ctypes.data, workspace.work.ctypes.data, data._owner.ctypes.data])


def _objects_are_as_known():
    """Whether tuples and arrays have the memory layout that compiled code assumes."""
    array = np.zeros((2, 3))
    words = (ctypes.c_int64 * 9).from_address(id(array))
    shape = (ctypes.c_int64 * 2).from_address(words[_SHAPE])
    items = (ctypes.c_int64 * 2).from_address(id(_SENTINEL) + 8 * _ITEMS)
    return (tuple(items) == tuple(map(id, _SENTINEL))
            and words[_TYPE] == id(np.ndarray) and words[_DATA] == array.ctypes.data
            and words[_NDIM] & 0xFFFFFFFF == 2 and tuple(shape) == (2, 3)
            and words[_DTYPE] == id(np.dtype(np.float64))
            and words[_ARRAY_FLAGS] & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED)


READS_OBJECTS = JIT and _objects_are_as_known()
"""Whether compiled code reads a caller's objects; otherwise Python copies the numbers."""
if JIT and not READS_OBJECTS:
    warnings.warn("dyn_ros does not know the memory layout of objects in this version of Python or "
                  "NumPy: each call takes about 20 us longer; supported are CPython 3.10 to 3.14 "
                  "with NumPy 1.26 or 2", RuntimeWarning, stacklevel=2)


@kernel
def _copy_input(known, r, address, field, width, heads):
    """Copy one input into the workspace; return False if Python must handle it."""
    la.store(r.table, ly.HAS_INPUT + field, 0)
    if address == la.load(known, _NONE):
        return True
    head = la.integers_at(address)
    if (la.load(head, _TYPE) != la.load(known, _NDARRAY)
        or la.load(head, _DTYPE) != la.load(known, _FLOAT64)
        or la.load(head, _ARRAY_FLAGS) & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED):
        return False
    count = ly.size(r, field)
    ndim = la.load(head, _NDIM) & 0xFFFFFFFF
    shape = la.integers_at(la.load(head, _SHAPE))
    if heads > 0:
        if ndim != 1 + (heads > 1) or (heads > 1 and la.load(shape, 0) != heads):
            return False
        length = la.load(shape, ndim - 1)
        if length > MAX_CONSTRAINTS or (ly.nconstraints(r) >= 0 and length != ly.nconstraints(r)):
            return False
        la.store(r.table, ly.NCONSTRAINTS, length)
        count = heads * length
    elif width > 0:
        if ndim != 2 or la.load(shape, 0) * width != count or la.load(shape, 1) != width:
            return False
    elif ndim != 1 or la.load(shape, 0) != count:
        return False
    source, start = la.floats_at(la.load(head, _DATA)), ly.offset(r, field)
    for k in range(0, count, la.LANES):
        x = la.load_simd(source, k, count - k)
        if not (la.all_above(math.inf, x) and la.all_above(x, -math.inf)):
            return False
        la.store_simd(r.work, start + k, count - k, x)
    la.store(r.table, ly.HAS_INPUT + field, 1)
    return True


@kernel
def _quaternions_are_unit(r, field):
    """Whether every quaternion in a field like q is unit, in every lane."""
    start = ly.offset(r, field)
    for n in range(la.load(r.ints, ly.NUNIT)):
        k = start + la.load(r.ints, la.load(r.ints, ly.UNIT_LIST) + n)
        x, y, z, w = (la.load(r.work, k), la.load(r.work, k + 1), la.load(r.work, k + 2),
                      la.load(r.work, k + 3))
        e = x * x + y * y + z * z + w * w - 1.0
        if not la.all_above(UNIT_TOLERANCE * UNIT_TOLERANCE, e * e):
            return False
    return True


@kernel
def _is_finite(r, start, count):
    """Whether the numbers in a part of the workspace are finite, in every lane."""
    for k in range(start, start + count):
        x = la.load(r.work, k)
        if not (la.all_above(math.inf, x) and la.all_above(x, -math.inf)):
            return False
    return True


@kernel
def _gather(source, first, count, r, start):
    """Load rows of a batch into the lanes, repeating the last row if necessary."""
    columns = source.shape[1]
    if count == la.LANES and columns >= la.LANES:
        for k in range(0, columns - la.LANES, la.LANES):
            la.gather_tile(source, first, k, r.work, start + k)
        la.gather_tile(source, first, columns - la.LANES, r.work, start + columns - la.LANES)
        return
    for lane in range(la.LANES):
        for k in range(columns):
            la.store_lane(r.work, start + k, lane, source[first + min(lane, count - 1), k])


@kernel
def _scatter(r, tiles, target, first, count, past_caches):
    """Store the lanes in rows of a batch, including padding."""
    columns = target.shape[1]
    if count < la.LANES or columns < la.LANES:
        for n in range(len(tiles)):
            start = max(min(la.LANES * n, columns - la.LANES), 0)
            for lane in range(count):
                for k in range(min(la.LANES, columns)):
                    target[first + lane, start + k] = la.load_lane(r.work, tiles[n] + k, lane)
    elif past_caches and columns % la.LANES == 0 and target.ctypes.data % (8 * la.LANES) == 0:
        for n in range(len(tiles)):
            if tiles[n] == ly.offset(r, EMPTY):
                la.clear_tile_past_caches(target, first, la.LANES * n)
            else:
                la.scatter_tile_past_caches(r.work, tiles[n], target, first, la.LANES * n)
    else:
        for n in range(len(tiles)):
            la.scatter_tile(r.work, tiles[n], target, first, min(la.LANES * n, columns - la.LANES))


@kernel
def _set_options(r, selector, options, shifts, masks):
    for n in range(len(options)):
        la.store(r.table, ly.OPTION + options[n], (selector >> shifts[n]) & masks[n])


@kernel
def _kernel_arguments(known):
    return ly.KernelArgs(
        la.integers_at(la.load(known, _INTS)), la.integers_at(la.load(known, _TABLE)),
        la.floats_at(la.load(known, _FLOATS)), la.floats_at(la.load(known, _WORK)))


# --- the calls of an algorithm

def _width(field):
    """Columns of an input that is a matrix; 0 for a vector."""
    return field.shape[1] if len(field.shape) == 2 and not field.is_open else 0


def _heads(field):
    """Rows of an input with a variable last axis, 1 for a vector; 0 for other inputs."""
    return math.prod(field.shape[:-1]) if field.is_open else 0


def packing(options):
    """Slots, shifts and masks to extract options from a selector, lowest bits last."""
    if not options:
        return (0,), (0,), (0,)                     # compiled code cannot type an empty tuple
    shifts = tuple(sum(later.bits for later in options[n + 1:]) for n in range(len(options)))
    masks = tuple((1 << option.bits) - 1 if option.bits else -1 for option in options)
    return tuple(options), shifts, masks


def for_objects(run, inputs, optional, options):
    """The call for one state that reads the caller's objects: (links, model, selector, inputs)."""
    fields, (chosen, shifts, masks) = tuple(inputs), packing(options)
    widths, heads = tuple(_width(f) for f in fields), tuple(_heads(f) for f in fields)
    configurations = tuple(f.shape == ("nq",) for f in fields)
    is_required = tuple(f not in optional for f in fields)

    def call(address, model, selector, values):
        known = la.integers_at(address)
        r = _kernel_arguments(known)
        if (la.load(la.integers_at(la.load(known, _OWNER)), 0) != _thread_identifier()
            or _address_of(model) != la.load(known, _MODEL)):
            return REJECTED
        la.store(r.table, ly.STATUS, 0)
        la.store(r.table, ly.NCONSTRAINTS, -1)
        _set_options(r, selector, chosen, shifts, masks)
        items = la.integers_at(_address_of(values))
        for n in range(len(fields)):
            if not _copy_input(known, r, la.load(items, _ITEMS + n), fields[n], widths[n],
                               heads[n]):
                return REJECTED
            if is_required[n] and la.load(r.table, ly.HAS_INPUT + fields[n]) == 0:
                return REJECTED
            if configurations[n] and not _quaternions_are_unit(r, fields[n]):
                return REJECTED
        compute_sines(r)
        run(r)
        return la.load(r.table, ly.STATUS)
    return call


def for_workspace(run):
    """The call for one state whose inputs are already in the workspace: (links)."""
    def call(address):
        known = la.integers_at(address)
        r = _kernel_arguments(known)
        compute_sines(r)
        run(r)
        return la.load(r.table, ly.STATUS)
    return call


def for_batch(run, inputs, options):
    """The call for a batch, from row ``start`` to row ``stop``."""
    fields, (chosen, shifts, masks) = tuple(inputs), packing(options)
    configurations = tuple(f.shape == ("nq",) for f in fields)
    heads = tuple(_heads(f) for f in fields)

    def call(ints, table, floats, work, selector, arrays, tiles, outputs, start, stop):
        r = ly.KernelArgs(la.integers_at(ints), la.integers_at(table), la.floats_at(floats),
                          la.lanes_at(work))
        la.store(r.table, ly.STATUS, 0)
        la.store(r.table, ly.NCONSTRAINTS, 0)
        _set_options(r, selector, chosen, shifts, masks)
        for n in range(len(arrays)):
            la.store(r.table, ly.HAS_INPUT + fields[n], arrays[n].shape[1] > 0)
            if heads[n] > 0 and arrays[n].shape[1] > 0:
                la.store(r.table, ly.NCONSTRAINTS, arrays[n].shape[1] // heads[n])
        total = 0
        for n in range(len(outputs)):
            total += outputs[n].size
        past_caches = total >= _PAST_CACHES
        for first in range(start, stop, la.LANES):
            count = min(la.LANES, stop - first)
            for n in range(len(arrays)):
                columns = arrays[n].shape[1]
                if columns > 0:
                    _gather(arrays[n], first, count, r, ly.offset(r, fields[n]))
                    if not _is_finite(r, ly.offset(r, fields[n]), columns) or (
                        configurations[n] and not _quaternions_are_unit(r, fields[n])):
                        return REJECTED
            run(r)
            for n in range(len(outputs)):
                _scatter(r, tiles[n], outputs[n], first, count, past_caches)
        la.finish_stores()
        return la.load(r.table, ly.STATUS)
    return call


_MATRICES = types.Array(types.float64, 2, "C")
OBJECTS_SIGNATURE = types.int64(types.int64, _object, types.int64, _object)
WORKSPACE_SIGNATURE = types.int64(types.int64)


def batch_signature(inputs, results):
    """The types of ``for_batch``'s arguments."""
    return types.int64(
        types.int64, types.int64, types.int64, types.int64, types.int64,
        types.UniTuple(_MATRICES, len(inputs)),
        types.UniTuple(types.Array(types.int64, 1, "C"), len(results)),
        types.UniTuple(_MATRICES, len(results)), types.int64, types.int64)


ALWAYS = (compute_sines,)
"""Kernels that every call runs in addition to that of the algorithm."""
