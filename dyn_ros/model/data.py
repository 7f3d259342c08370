"""Data: the work space of one state, and every result in it by name."""
import math

import numpy as np

from ..spatial.lanes import LANES
from . import layout

_ALIGNMENT = 64                                     # bytes: one row of lanes


def aligned_zeros(count):
    """Zeros that start at a whole row of lanes."""
    spare = _ALIGNMENT // 8
    buffer = np.zeros(count + spare)
    start = (-buffer.ctypes.data % _ALIGNMENT) // 8
    return buffer[start:start + count]


def _axes(model, shape):
    sizes = {"nq": model.nq, "nv": model.nv, "njoints": model.njoints,
             "rows": model.njoints + 1, "ncolumns": model._ncolumns}
    return tuple(sizes.get(axis, axis) for axis in shape)


def _integers(model):
    """The packed integers of a model, and the size of its work space."""
    tables = [*model._tree_table.ravel(), *model._velocity_parents, *model._unit_quaternions]
    ints = np.concatenate([np.zeros(layout.TREE, np.int64), np.array(tables, np.int64)])
    ints[layout.NJOINTS], ints[layout.NQ], ints[layout.NV] = model.njoints, model.nq, model.nv
    ints[layout.COUPLED] = any(joint.mimic for joint in model.tree.joints)
    ints[layout.NUNIT] = len(model._unit_quaternions)
    ints[layout.UNIT_LIST] = len(ints) - len(model._unit_quaternions)
    end = 0
    for number, known in enumerate(layout.FIELDS):
        size = math.prod(_axes(model, known.shape))
        ints[layout.OFFSET + number], ints[layout.SIZE + number] = end, size
        end += size
    return ints, end


class Data:
    """Room for the results of one model, filled by the algorithms.

    A result is an array that belongs to ``Data``: the next call writes over it, so copy what
    must stay. One ``Data`` serves one thread at a time. Rows of joints leave the universe out.

    Parameters
    ----------
    model : Model
        The model whose results it holds.
    """

    def __init__(self, model):
        self.model = model
        self._ints, self._size = _integers(model)
        self._work = aligned_zeros(self._size)
        for number, known in enumerate(layout.FIELDS):
            start = self._ints[layout.OFFSET + number]
            shape = _axes(model, known.shape)
            view = self._work[start:start + math.prod(shape)].reshape(shape)
            setattr(self, known.name, view[1:] if known.shape[:1] == ("rows",) else view)
        self._links = np.array([
            id(model), id(None), id(np.ndarray), id(np.dtype(np.float64)),
            self._ints.ctypes.data, model._floats.ctypes.data, self._work.ctypes.data])
        self._address = self._links.ctypes.data
        self._batch = []

    def _batch_space(self, thread):
        """Integers and work space of one thread of a batch, kept for the next batch."""
        while len(self._batch) <= thread:
            work = aligned_zeros(self._size * LANES).reshape(self._size, LANES)
            self._batch.append((self._ints.copy(), work))
        return self._batch[thread]

    def __reduce__(self):
        return _restored, (self.model, self._work.copy())

    def __deepcopy__(self, memo):
        return _restored(self.model, self._work)

    __copy__ = None

    def __repr__(self):
        names = [known.name for known in layout.FIELDS if not known.name.startswith("_")]
        return f"Data({self.model!r}; {', '.join(names)})"


def _restored(model, work):
    data = Data(model)
    data._work[:] = work
    return data
