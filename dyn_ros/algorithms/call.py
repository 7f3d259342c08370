# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From Python to a kernel and back: what every algorithm shares.

An algorithm is a kernel (one argument, a ``KernelArgs``), the inputs that it reads and the results
that it leaves. ``Algorithm`` compiles it twice. The first serves one state: compiled code
looks at the caller's objects, and where each is a plain float64 array of the right length
with finite numbers it copies them in and runs. Anything else is left to Python, which
converts what it can and says what is wrong with the rest. The second serves a batch, eight
states at a time, on any number of threads.
"""
import ctypes
import logging
import math
from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, unbox

from ..model import layout
from ..model.data import Data
from ..model.inputs import as_array, require_sound
from ..model.joints import turn_joints
from ..model.layout import (
    GIVEN,
    MAX_CONSTRAINTS,
    NCONSTRAINTS,
    NUNIT,
    STATUS,
    UNIT_LIST,
    WHERE,
    KernelArgs,
    is_open,
    nconstraints,
    offset,
)
from ..spatial.compiler import JIT, Entry, kernel
from ..spatial.lanes import (
    LANES,
    all_above,
    finish_stores,
    floats_at,
    gather_tile,
    integers_at,
    lanes_at,
    load,
    load_lane,
    scatter_tile,
    scatter_tile_past_caches,
    store,
    store_lane,
)
from ..spatial.lie import UNIT_TOLERANCE

ALGORITHMS: dict[str, "Algorithm"] = {}
_REFUSED = -1
_NOTHING = np.zeros((0, 0))         # the batch of an input that was not given
_PAST_CACHES = 1 << 22      # numbers: results of this size leave the caches before it is read
_log = logging.getLogger("dyn_ros")


# --- a caller's object, seen by its address

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
def _address_of(typing, thing):
    return types.intp(thing), lambda context, builder, sig, args: args[0]


# Data._links
_MODEL, _NONE, _NDARRAY, _FLOAT64, _INTS, _CONSTANTS, _WORK = range(7)
# Where the items of a tuple start, in words of 8 bytes; 4 since CPython 3.14
_SENTINEL = object(), object()
_ITEMS = 3 if (ctypes.c_int64 * 4).from_address(id(_SENTINEL))[3] == id(_SENTINEL[0]) else 4
# The head of every NumPy array since 1.0 (PyArrayObject_fields), in words of 8 bytes
_TYPE, _DATA, _NDIM, _SHAPE, _DTYPE, _ARRAY_FLAGS = 1, 2, 3, 4, 7, 8
_CONTIGUOUS_ALIGNED = 0x0101


def _require_known_layout():
    """Arrays must lie in memory as compiled code reads them."""
    array = np.zeros((2, 3))
    words = (ctypes.c_int64 * 9).from_address(id(array))
    shape = (ctypes.c_int64 * 2).from_address(words[_SHAPE])
    items = (ctypes.c_int64 * 2).from_address(id(_SENTINEL) + 8 * _ITEMS)
    if not (tuple(items) == tuple(map(id, _SENTINEL))
            and words[_TYPE] == id(np.ndarray) and words[_DATA] == array.ctypes.data
            and words[_NDIM] & 0xFFFFFFFF == 2 and tuple(shape) == (2, 3)
            and words[_DTYPE] == id(np.dtype(np.float64))
            and words[_ARRAY_FLAGS] & _CONTIGUOUS_ALIGNED == _CONTIGUOUS_ALIGNED):
        raise ImportError("this Python keeps NumPy arrays in a form that dyn_ros does not know; "
                          "take 64-bit CPython, or set NUMBA_DISABLE_JIT=1 (slow)")


if JIT:
    _require_known_layout()


@kernel
def _take(links, r, address, field, width, heads):
    """Copy one input into the work space; False where Python has to look at it."""
    if address == load(links, _NONE):
        return True
    head = integers_at(address)
    if (load(head, _TYPE) != load(links, _NDARRAY) or load(head, _DTYPE) != load(links, _FLOAT64)
            or load(head, _ARRAY_FLAGS) & _CONTIGUOUS_ALIGNED != _CONTIGUOUS_ALIGNED):
        return False
    size = load(r.ints, layout.SIZE + field)
    ndim = load(head, _NDIM) & 0xFFFFFFFF
    shape = integers_at(load(head, _SHAPE))
    if heads > 0:
        if ndim != 1 + (heads > 1) or (heads > 1 and load(shape, 0) != heads):
            return False
        length = load(shape, ndim - 1)
        if length > MAX_CONSTRAINTS or (nconstraints(r) >= 0 and length != nconstraints(r)):
            return False
        store(r.ints, NCONSTRAINTS, length)
        size = heads * length
    elif width > 0:
        if ndim != 2 or load(shape, 0) * width != size or load(shape, 1) != width:
            return False
    elif ndim != 1 or load(shape, 0) != size:
        return False
    source = floats_at(load(head, _DATA))
    start = offset(r, field)
    doubt = 0.0
    for k in range(size):
        x = load(source, k)
        store(r.work, start + k, x)
        doubt += x * 0.0
    store(r.ints, GIVEN, load(r.ints, GIVEN) | 1 << field)
    return doubt == 0.0


@kernel
def _quaternions_are_unit(r, field):
    """Whether every quaternion in a field like q has length one, in every lane."""
    start = offset(r, field)
    for n in range(load(r.ints, NUNIT)):
        k = start + load(r.ints, load(r.ints, UNIT_LIST) + n)
        x, y, z, w = (load(r.work, k), load(r.work, k + 1), load(r.work, k + 2),
                      load(r.work, k + 3))
        e = x * x + y * y + z * z + w * w - 1.0
        if not all_above(UNIT_TOLERANCE * UNIT_TOLERANCE, e * e):
            return False
    return True


@kernel
def _is_finite(r, start, count):
    """Whether numbers of the work space are finite, in every lane."""
    doubt = 0.0 * load(r.work, start)
    for k in range(start + 1, start + count):
        doubt = doubt + 0.0 * load(r.work, k)
    return all_above(1.0, doubt)


@kernel
def _gather(source, first, count, r, start):
    """Rows first ... of a batch into the lanes; the last one again where there are too few."""
    columns = source.shape[1]
    if count == LANES and columns >= LANES:
        for k in range(0, columns - LANES, LANES):
            gather_tile(source, first, k, r.work, start + k)
        gather_tile(source, first, columns - LANES, r.work, start + columns - LANES)
        return
    for lane in range(LANES):
        for k in range(columns):
            store_lane(r.work, start + k, lane, source[first + min(lane, count - 1), k])


@kernel
def _scatter(r, squares, target, first, count, past_caches):
    """The lanes into rows first ... of a batch; with what lies behind where rows are padded."""
    columns = target.shape[1]
    if count < LANES or columns < LANES:
        for n in range(len(squares)):
            start = max(min(LANES * n, columns - LANES), 0)
            for lane in range(count):
                for k in range(min(LANES, columns)):
                    target[first + lane, start + k] = load_lane(r.work, squares[n] + k, lane)
    elif past_caches and columns % LANES == 0 and target.ctypes.data % (8 * LANES) == 0:
        for n in range(len(squares)):
            scatter_tile_past_caches(r.work, squares[n], target, first, LANES * n)
    else:
        for n in range(len(squares)):
            scatter_tile(r.work, squares[n], target, first, min(LANES * n, columns - LANES))


def _one_state(run, fields, optional):
    """The compiled call for one state: from the caller's objects to the kernel."""
    fields = tuple(fields)
    widths, heads = tuple(_width(f) for f in fields), tuple(_heads(f) for f in fields)
    configurations = tuple(_is_configuration(f) for f in fields)
    required = sum(1 << f for f in fields if f not in optional)

    def one(address, model, where, inputs):
        links = integers_at(address)
        r = KernelArgs(integers_at(load(links, _INTS)), floats_at(load(links, _CONSTANTS)),
                       floats_at(load(links, _WORK)))
        store(r.ints, GIVEN, 0)
        store(r.ints, STATUS, 0)
        store(r.ints, WHERE, where)
        store(r.ints, NCONSTRAINTS, -1)
        if _address_of(model) != load(links, _MODEL):
            return _REFUSED
        things = integers_at(_address_of(inputs))
        for n in range(len(fields)):
            if not _take(links, r, load(things, _ITEMS + n), fields[n], widths[n], heads[n]):
                return _REFUSED
            if configurations[n] and not _quaternions_are_unit(r, fields[n]):
                return _REFUSED
        if load(r.ints, GIVEN) & required != required:
            return _REFUSED
        turn_joints(r)
        run(r)
        return load(r.ints, STATUS)
    return one


def _each_state(run, fields):
    """The compiled call for a batch, from row ``start`` to row ``stop``."""
    fields = tuple(fields)
    configurations = tuple(_is_configuration(f) for f in fields)
    heads = tuple(_heads(f) for f in fields)

    def each(ints, constants, work, where, inputs, squares, outputs, start, stop):
        r = KernelArgs(integers_at(ints), floats_at(constants), lanes_at(work))
        store(r.ints, GIVEN, 0)
        store(r.ints, STATUS, 0)
        store(r.ints, WHERE, where)
        store(r.ints, NCONSTRAINTS, 0)
        for n in range(len(inputs)):
            if inputs[n].shape[1] > 0:
                store(r.ints, GIVEN, load(r.ints, GIVEN) | 1 << fields[n])
            if heads[n] > 0 and inputs[n].shape[1] > 0:
                store(r.ints, NCONSTRAINTS, inputs[n].shape[1] // heads[n])
        size = 0
        for n in range(len(outputs)):
            size += outputs[n].size
        past_caches = size >= _PAST_CACHES
        for first in range(start, stop, LANES):
            count = min(LANES, stop - first)
            for n in range(len(inputs)):
                size = inputs[n].shape[1]
                if size > 0:
                    _gather(inputs[n], first, count, r, offset(r, fields[n]))
                    if not _is_finite(r, offset(r, fields[n]), size) or (
                            configurations[n] and not _quaternions_are_unit(r, fields[n])):
                        return _REFUSED
            run(r)
            if load(r.ints, STATUS) != 0:
                return load(r.ints, STATUS)
            for n in range(len(outputs)):
                _scatter(r, squares[n], outputs[n], first, count, past_caches)
        finish_stores()
        return 0
    return each


# --- an algorithm

def _width(field):
    """Columns of an input that is a matrix; 0 for a vector."""
    shape = layout.FIELDS[field].shape
    return shape[1] if len(shape) == 2 and not is_open(field) else 0


def _heads(field):
    """Rows of an input whose last axis is open, 1 for a vector; 0 for other inputs."""
    return math.prod(layout.FIELDS[field].shape[:-1]) if is_open(field) else 0


def _is_configuration(field):
    return layout.FIELDS[field].shape == ("nq",)


def getter(fields):
    """Gives one state's results: views of Data's arrays, floats for its numbers."""
    get = attrgetter(*[layout.FIELDS[f].name for f in fields])
    numbers = [layout.FIELDS[f].shape == () for f in fields]
    if not any(numbers):
        return get
    if len(numbers) == 1:
        return lambda data: float(get(data))
    return lambda data: tuple([float(x) if number else x
                               for x, number in zip(get(data), numbers)])


class Algorithm:
    """A kernel that can be called on one state or on a batch.

    Parameters
    ----------
    name : str
        Name of the public function that calls it.
    run : kernel
        Takes a ``KernelArgs``, reads the inputs and leaves the results; says ``fail`` where a joint
        makes the result singular.
    inputs : sequence of int
        Fields that the caller gives, in the order of the arguments.
    results : sequence of int
        Fields that it returns: one array or number, or a tuple of them.
    optional : sequence of int
        Inputs that may be None; the kernel asks ``has_input``.
    """

    def __init__(self, name, run, inputs, results, optional=()):
        self.name, self.inputs, self.results = name, tuple(inputs), tuple(results)
        self._arguments = [(layout.FIELDS[f].name.lstrip("_"), layout.FIELDS[f].shape,
                            f in optional) for f in inputs]
        matrices = types.Array(types.float64, 2, "C")
        self._one = Entry(f"{name}-one", _one_state(run, self.inputs, optional),
                          types.int64(types.int64, _object, types.int64, _object), nogil=False)
        each = _each_state(run, self.inputs)
        self._each = Entry(f"{name}-each", each, types.int64(
            types.int64, types.int64, types.int64, types.int64,
            types.UniTuple(matrices, len(inputs)),
            types.UniTuple(types.Array(types.int64, 1, "C"), len(results)),
            types.UniTuple(matrices, len(results)),
            types.int64, types.int64), nogil=True)
        self._run = run
        ALGORITHMS[name] = self

    def compile(self, batch, before_compiling=None):
        """Make the call for one state, or for a batch, ready; True where it was compiled."""
        entry = self._each if batch else self._one
        return entry.load(before_compiling)

    def caller(self, results=None):
        """What the public function calls: ``(model, data, threads, where, *inputs)``.

        ``results(data)`` gives one state's results; if it is not told, all.
        """
        results, one = results or getter(self.results), None

        def call(model, data, threads, where, *inputs):
            nonlocal one
            try:
                if one(data._address, model, where, inputs) == 0:
                    return results(data)
            except (AttributeError, TypeError):     # not a Data; not compiled yet
                pass
            size, values = self._checked(model, data, inputs)
            if size is not None:
                return self._run_batch(data, where, values, size, threads)
            self._run_one(data, where, values)
            one = self._one.call
            return results(data)

        return call

    def _announce(self):
        _log.warning("dyn_ros: compiling %s for this machine, once; `dyn_ros precompile` "
                     "compiles everything ahead", self.name)

    def _run_one(self, data, where, values):
        """Run on checked arrays."""
        if JIT:
            self.compile(False, self._announce)
            status = self._one.call(data._address, data.model, where, tuple(values))
        else:
            status = self._run_without_compiler(data, where, values)
        self._raise_where_singular(data.model, status)

    def _run_without_compiler(self, data, where, values):
        ints, work = data._ints, data._work
        ints[GIVEN] = ints[STATUS] = 0
        ints[WHERE] = where
        for field, value in zip(self.inputs, values):
            if value is not None:
                start = ints[layout.OFFSET + field]
                work[start:start + value.size] = value.ravel()
                ints[GIVEN] |= 1 << field
        r = KernelArgs(ints, data.model._floats, work)
        turn_joints(r)
        self._run(r)
        return ints[STATUS]

    def _run_batch(self, data, where, values, size, threads):
        """Run on checked arrays that each have a leading axis; new arrays come back."""
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ValueError(f"threads: expected a whole number of at least 1, got {threads!r}")
        outputs, found = zip(*[self._new_output(data, f, size) for f in self.results])
        if not JIT:
            for n in range(size):
                self._run_one(data, where,
                              [None if value is None else value[n] for value in values])
                for output, f in zip(found, self.results):
                    output[n] = self._view(data, f)
            return found[0] if len(found) == 1 else found
        self.compile(True, self._announce)
        inputs = tuple([_NOTHING if value is None else _as_rows(value) for value in values])
        squares = tuple([data._squares_of(f, rows.shape[1])
                         for f, rows in zip(self.results, outputs)])
        constants = int(data._links[_CONSTANTS])
        step = -(-size // threads // LANES) * LANES or LANES
        starts = range(0, size, step)

        def part(start):
            ints, work = data._batch_space(start // step)
            return self._each.call(ints, constants, work, where, inputs, squares, outputs,
                                   start, min(start + step, size))

        states = data._share(part, starts) if len(starts) > 1 else [part(n) for n in starts]
        if _REFUSED in states:
            for (name, axes, _), value in zip(self._arguments, values):
                require_sound(data.model, name, axes, value)
        self._raise_where_singular(data.model, max(states, default=0))
        return found[0] if len(found) == 1 else found

    def _view(self, data, field):
        """One state's result; of an open axis as much as this call has."""
        view = getattr(data, layout.FIELDS[field].name)
        return view[..., :data._ints[NCONSTRAINTS]] if is_open(field) else view

    def _new_output(self, data, field, size):
        """Room for a batch's results: one row for each state, and the view that people get.

        Long rows are padded to whole lines of the caches.
        """
        view, transposed = self._view(data, field), layout.FIELDS[field].transposed
        shape = (view.swapaxes(-1, -2) if transposed else view).shape
        count = math.prod(shape)
        padded = -(-count // LANES) * LANES if count >= LANES * LANES else count
        rows = data._rooms.array((size, padded))
        found = rows[:, :count].reshape(size, *shape)
        return rows, found.swapaxes(-1, -2) if transposed else found

    def _raise_where_singular(self, model, status):
        if status:
            raise np.linalg.LinAlgError(
                f"{self.name}: {model.velocity_names[status - 1]!r} moves no inertia, so its "
                "acceleration is not determined; give the link that it moves a mass and an "
                "inertia, or set model.armature for it")

    def _checked(self, model, data, values):
        """How many states, or None for a single one, and the inputs as float64 arrays, all with
        a leading axis or none; or an error.
        """
        if not isinstance(data, Data):
            raise TypeError(f"data: expected dyn_ros.Data(model), got {type(data).__name__}")
        if data.model is not model:
            raise ValueError(f"data: made for {data.model!r}, which is not the model given, "
                             f"{model!r}; make dyn_ros.Data(model) once for each model")
        values, sizes, lengths = list(values), {}, {}
        for n, (name, axes, optional) in enumerate(self._arguments):
            if values[n] is None and optional:
                continue
            values[n], batched = as_array(model, name, axes, values[n])
            if not (batched and JIT):               # compiled code looks at a batch's numbers
                require_sound(model, name, axes, values[n])
            if batched:
                sizes[name] = len(values[n])
            if axes[-1:] == ("constraints",):
                lengths[name] = values[n].shape[-1]
        _require_equal("expected the same number of constraints in each argument", lengths)
        data._ints[NCONSTRAINTS] = max(lengths.values(), default=0)
        if not sizes:
            return None, values
        _require_equal("batch: expected the same number of states in each argument", sizes)
        size = next(iter(sizes.values()))
        return size, [x if x is None or name in sizes
                      else np.ascontiguousarray(np.broadcast_to(x, (size, *x.shape)))
                      for (name, _, _), x in zip(self._arguments, values)]


def _require_equal(expected, numbers):
    """ValueError where arguments differ in a number; by their names."""
    if len(set(numbers.values())) > 1:
        raise ValueError(f"{expected}, got "
                         + ", ".join(f"{name}: {n}" for name, n in numbers.items()))


def _as_rows(batch):
    """A batch of matrices as a batch of rows."""
    return batch if batch.ndim == 2 else batch.reshape(len(batch), math.prod(batch.shape[1:]))


def precompile(names: Sequence[str] | None = None, batch: bool = True,
               progress: Callable[[int, int, str], object] | None = None) -> list[str]:
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
    todo = [(ALGORITHMS[name], lanes) for name in chosen
            for lanes in ((False, True) if batch else (False,))]
    compiled = []
    for done, (algorithm, lanes) in enumerate(todo):
        if progress:
            progress(done, len(todo), algorithm.name)
        if algorithm.compile(lanes) and algorithm.name not in compiled:
            compiled.append(algorithm.name)
    if progress:
        progress(len(todo), len(todo), "")
    return compiled
