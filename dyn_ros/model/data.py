# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Data: the work space of one state, and every result in it by name."""
import math
import os
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..spatial.lanes import LANES
from . import layout
from .types import Array, Model

_ALIGNMENT = 64                                     # bytes: one row of lanes
_LARGE, _KEPT = 1 << 17, 1 << 30                    # bytes: of one result, of all that are free
_MOST = 32                                          # free memories: what a few calls take


def _aligned(new, count):
    """Numbers from ``new``, np.empty or np.zeros, that start at a whole row of lanes."""
    buffer = new(count + _ALIGNMENT // 8)
    start = (-buffer.ctypes.data % _ALIGNMENT) // 8
    return buffer[start:start + count]


def _axes(model, shape):
    sizes = {"nq": model.nq, "nv": model.nv, "njoints": model.njoints,
             "rows": model.njoints + 1, "ncolumns": model._ncolumns,
             "nframes": len(model.frame_names), "constraints": layout.MAX_CONSTRAINTS,
             "padded": -(-model.nv // LANES) * LANES}
    return tuple(sizes.get(axis, axis) for axis in shape)


def _integers(model):
    """The packed integers of a model, and the size of its work space."""
    quaternions, frames = model._unit_quaternions, model._frame_parents
    tables = [*model._tree_table.ravel(), *model._velocity_tree.ravel(), *quaternions, *frames]
    ints = np.concatenate([np.zeros(layout.TREE, np.int64), np.array(tables, np.int64)])
    ints[layout.NJOINTS], ints[layout.NQ], ints[layout.NV] = model.njoints, model.nq, model.nv
    ints[layout.NALLCOLUMNS], ints[layout.NFRAMES] = model._ncolumns, len(frames)
    ints[layout.COUPLED] = any(joint.mimic for joint in model.tree.joints)
    ints[layout.NUNIT] = len(quaternions)
    ints[layout.FRAME_LIST] = len(ints) - len(frames)
    ints[layout.UNIT_LIST] = ints[layout.FRAME_LIST] - len(quaternions)
    end = 0
    for number, known in enumerate(layout.FIELDS):
        size = math.prod(_axes(model, known.shape))
        ints[layout.OFFSET + number], ints[layout.SIZE + number] = end, size
        end += size
    return ints, end + LANES                        # what a kernel may read behind a last row


def _views(model, ints, work):
    """(field, its part of a work space in its own shape) for each field."""
    for number, known in enumerate(layout.FIELDS):
        start, size = ints[layout.OFFSET + number], ints[layout.SIZE + number]
        shape = _axes(model, known.shape)
        yield known, work[start:start + size].reshape(shape + work.shape[1:])


def _new_work(model, ints, shape):
    """A work space in which every placement is the identity and all else zero."""
    work = _aligned(np.zeros, math.prod(shape)).reshape(shape)
    for known, view in _views(model, ints, work):
        if known.shape[-2:] == (4, 4):
            axis = len(known.shape) - 2
            for k in range(4):
                view[(slice(None),) * axis + (k, k)] = 1.0
    return work


def _along_tree(model, axes):
    """Whether velocities are, two by two, on a common way to the root; an axis for each."""
    k, (_, end) = np.arange(model.nv), model._velocity_tree
    before = (k[:, None] <= k) & (k < end[:, None])
    pairs = before | before.T
    return pairs if axes == 2 else pairs[:, :, None] & pairs[:, None, :] & pairs


class _Loan:
    """Memory that an array lies in; goes back when the last view of it is gone."""

    def __init__(self, memory, shape, free):
        self._memory, self._free = memory, free
        self.__array_interface__ = {"shape": shape, "typestr": "<f8", "version": 3,
                                    "data": (memory.ctypes.data, False)}

    def __del__(self):
        self._free[id(self._memory)] = self._memory
        kept = 0
        for number, (key, memory) in enumerate(reversed(list(self._free.items()))):
            kept += memory.nbytes
            if number >= _MOST or kept > _KEPT:
                self._free.pop(key, None)


class _Rooms:
    """New arrays for large results, in memory of earlier ones that nobody holds any more.

    Fresh memory costs as much as the numbers in it: the system has to clear it. The last views
    may go in any thread, also in the midst of ``array``: what is free is only ever changed by
    one step of the interpreter.
    """

    def __init__(self):
        self._free = {}                             # by identity, the latest last

    def array(self, shape):
        """An array of float64 with arbitrary numbers in it; a large one is aligned."""
        count = math.prod(shape)
        if 8 * count < _LARGE:
            return np.empty(shape)
        memory = self._taken(count)
        if memory is None:
            memory = _aligned(np.empty, count)
        return np.asarray(_Loan(memory, shape, self._free))

    def _taken(self, count):
        """Free memory of that many numbers, or None."""
        for key, memory in reversed(list(self._free.items())):
            if memory.size == count and self._free.pop(key, None) is not None:
                return memory
        return None


class Data:
    """Room for the results of one model, filled by the algorithms.

    A result is an array that belongs to ``Data``: the next call writes over it, so copy what
    must stay. One ``Data`` serves one thread at a time. Rows of joints leave the universe out.

    Parameters
    ----------
    model : Model
        The model whose results it holds.
    """

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Array: ...
    else:
        def __setattr__(self, name, value):
            """``data.tau += 1`` leaves the array in place; another one would stay as it is."""
            present = self.__dict__.get(name, value)
            if present is not value and name == "model":
                raise AttributeError("data.model cannot be replaced: make dyn_ros.Data of the "
                                     "other model")
            if (present is not value and isinstance(present, np.ndarray)
                    and any(known.name == name for known in layout.FIELDS)):
                raise AttributeError(f"data.{name} cannot be replaced, as algorithms write "
                                     f"into it: set its numbers, data.{name}[...] = values")
            object.__setattr__(self, name, value)

    def __init__(self, model: Model) -> None:
        self.model = model
        self._ints, self._size = _integers(model)
        self._work = _new_work(model, self._ints, (self._size,))
        for known, view in _views(model, self._ints, self._work):
            if known.shape[:1] == ("rows",):
                view = view[1:]
            setattr(self, known.name, view.swapaxes(-1, -2) if known.transposed else view)
        self._links = np.array([
            id(model), id(None), id(np.ndarray), id(np.dtype(np.float64)),
            self._ints.ctypes.data, model._floats.ctypes.data, self._work.ctypes.data])
        self._address = self._links.ctypes.data
        self._batch: list[tuple[NDArray[np.int64], Array, tuple[int, int]]] = []
        self._pool: tuple = 0, 0, None              # process, number of threads, the threads
        self._parts: list[Future] = []              # what they work at
        self._rooms = _Rooms()
        self._squares: dict = {}
        self._told: dict = {}                       # tables whose address travels with a call

    def _squares_of(self, field, columns):
        """Where the squares of ``LANES`` numbers lie in the work space that fill a batch's rows.

        The last one ends with its row. Those that the tree leaves empty are read where zeros
        lie, which are in the caches.
        """
        if (field, columns) not in self._squares:
            known = layout.FIELDS[field]
            first = np.minimum(np.arange(0, columns, LANES), max(columns - LANES, 0))
            squares = self._ints[layout.OFFSET + field] + first
            if known.shape[:1] == ("rows",):        # without the universe
                squares += math.prod(known.shape[1:])
            if known.sparse:
                full = np.zeros(columns + LANES, bool)
                tree = _along_tree(self.model, len(known.shape))
                full[:tree.size] = tree.ravel()
                empty = ~full[first[:, None] + np.arange(LANES)].any(axis=1)
                squares[empty] = self._ints[layout.OFFSET + layout.ZEROS]
            self._squares[field, columns] = squares
        return self._squares[field, columns]

    def _batch_space(self, thread):
        """Addresses of one thread's integers and work space, which serve all batches."""
        while len(self._batch) <= thread:
            ints = self._ints.copy()
            work = _new_work(self.model, ints, (self._size, LANES))
            self._batch.append((ints, work, (ints.ctypes.data, work.ctypes.data)))
        return self._batch[thread][-1]

    def _threads(self, count):
        """At least that many threads, which wait for work.

        They are kept for the next batch: a new one begins on the processor that starts it and
        costs a short batch more than it brings. A forked process has none of its parent's.
        """
        if self._pool[0] != os.getpid():
            self._pool, self._parts = (os.getpid(), 0, None), []
        self._end_parts()
        if self._pool[1] < count:
            self._pool = os.getpid(), count, ThreadPoolExecutor(count)
        return self._pool[2]

    def _end_parts(self):
        """Wait for what still runs of an interrupted batch; another Ctrl-C may end the waiting."""
        if self._parts:
            for part in self._parts:
                part.cancel()
            wait(self._parts)

    def _share(self, part, starts):
        """What ``part`` gives for each start: the first here, each other in a thread of its own."""
        threads = self._threads(len(starts) - 1)
        for n in range(len(starts)):
            self._batch_space(n)                    # one thread alone may add to the list
        try:
            self._parts = [threads.submit(part, start) for start in starts[1:]]
            results = [part(starts[0])] + [other.result() for other in self._parts]
        except BaseException:                       # Ctrl-C: no part may run on in the next batch
            self._end_parts()
            raise
        self._parts = []
        return results

    def __reduce__(self):
        return _restored, (self.model, self._work.copy())

    def __deepcopy__(self, memo):
        """For the same model, unless what is copied holds the model and Data is met behind it."""
        return _restored(memo.setdefault(id(self.model), self.model), self._work)

    __copy__ = None

    def __repr__(self) -> str:
        names = [known.name for known in layout.FIELDS if not known.name.startswith("_")]
        return f"Data({self.model!r}; {', '.join(names)})"


def _restored(model, work):
    data = Data(model)
    data._work[:] = work
    return data
