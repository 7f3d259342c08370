# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Data: the results of the algorithms by name, and their workspace."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from ..kernel.fields import FIELDS, Field, public_view
from ..kernel.names import join_names, short_repr
from ..kernel.types import Array
from ..machine_code.declare import JIT
from ..machine_code.extension import native
from ..model.model import Model
from .batch_rows import DOUBLE, SINGLE, Precision
from .worker_threads import WorkerThreads
from .workspace import BufferPool, new_field

NO_OWNER = 0  # in place of a thread's identifier
BUSY = -1
"""The owner while compiled code runs without the GIL: no other call is accepted."""
_changing_owner = threading.RLock()  # a signal handler may call while it is held


def _renew_lock() -> None:
    """In a forked process no thread of the parent will release it."""
    global _changing_owner
    _changing_owner = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


if JIT and not TYPE_CHECKING:
    _Base = native().DataBase
else:

    class _Base:
        """The part of a Data that the extension reads."""

        _owner: int  # the identifier of a thread
        _prepared: list[Any]  # its calls for one state, by number of the caller, or None
        _prepared_batches: list[Any]  # its calls for small batches, likewise

        def __init__(self) -> None:
            self._owner, self._prepared, self._prepared_batches = NO_OWNER, [], []


class _Unallocated:
    """A public field that no call has needed yet: zeros, placements are identities."""

    def __init__(self, field: Field) -> None:
        self._field = field
        self.__doc__ = field.doc

    def __get__(self, data: Any, owner: type) -> Any:
        if data is None:
            return self
        data._array(self._field)
        return data.__dict__[self._field.name]  # hides this descriptor from now on


def _declare_attributes() -> None:
    """Give ``Data`` an attribute for each public field that has been declared."""
    for field in FIELDS:
        if field.is_public and field.name not in vars(Data):
            setattr(Data, field.name, _Unallocated(field))


class Data(_Base):
    """Results of the algorithms for one model.

    A result is an array owned by ``Data``, which the next call overwrites: copy it to keep it. An
    algorithm only writes the fields named in its docstring. Memory is allocated by the first call
    that needs it. Rows of joints exclude the universe.

    A ``Data`` belongs to the first thread that calls with it, until that thread ends or calls
    ``release``; calls from other threads raise a RuntimeError. Create one for each thread.

    Parameters
    ----------
    model : Model
        The model that the results belong to.
    dtype : np.float64 or np.float32
        Type of inputs and results. With float32, calls return new arrays also for a single state,
        and this object keeps none. Batches compute twice as many states at once. Functions that
        need double precision use it: see docs/engine.md.

    Raises
    ------
    TypeError
        ``model`` is not a Model.
    ValueError
        Another ``dtype``.

    Examples
    --------
    >>> data = dyn_ros.Data(model)
    >>> M = dyn_ros.crba(model, data, q)
    >>> M is data.M                                           # copy it to keep it
    True
    """

    model: Model
    _constants: Array  # the model's floats, read by address
    _arrays: dict[Field, Array]  # public fields
    _state_calls: dict[Any, Any]  # caller -> memory of its calls for one state
    _batch_spaces: dict[Any, list]  # algorithm -> memory of each thread
    _single_states: dict[Any, Any]  # algorithm -> memory for batches of few states
    _max_single_states: dict[Any, int]  # caller -> the largest number of these
    _packed_constraints: dict[tuple, Any]  # arguments -> integers of contacts or constraints
    _last_packed: tuple[tuple, Any]  # contacts and settings, compared without hashing; result
    _precision: Precision
    _in_double: Data | None  # for functions that need double precision
    _busy_thread: int  # the one that computes, or last computed, a batch
    _threads: WorkerThreads
    _buffer_pool: BufferPool

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Array: ...
    else:

        def __setattr__(self, name: str, value: object) -> None:
            """Accept ``data.tau += 1``, which keeps the array; algorithms write to no other."""
            if name == "model" and value is not self.model:
                raise AttributeError(
                    "data.model cannot be replaced; create a dyn_ros.Data(model) "
                    "for the other model"
                )
            if isinstance(vars(Data).get(name), _Unallocated) and value is not getattr(self, name):
                raise AttributeError(
                    f"data.{name} cannot be replaced, because algorithms write "
                    f"to it; set its numbers with data.{name}[...] = values"
                )
            object.__setattr__(self, name, value)

        def __delattr__(self, name: str) -> None:
            if name == "model" or isinstance(vars(Data).get(name), _Unallocated):
                raise AttributeError(f"data.{name} cannot be deleted, as algorithms write into it")
            object.__delattr__(self, name)

    def __init__(self, model: Model, dtype: DTypeLike = np.float64) -> None:
        if not isinstance(model, Model):
            raise TypeError(
                f"model: expected a dyn_ros.Model, got {type(model).__name__}: "
                f"{short_repr(model)}; create one with dyn_ros.Model.from_urdf_file(path)"
            )
        if "model" in self.__dict__:
            raise TypeError(f"{short_repr(self)} is already initialized; create another Data")
        super().__init__()
        _declare_attributes()
        self.__dict__.update(
            _precision=_find_precision(dtype),
            _in_double=None,
            model=model,
            _constants=model._floats,
            _arrays={},
            _state_calls={},
            _batch_spaces={},
            _single_states={},
            _max_single_states={},
            _packed_constraints={},
            _last_packed=((), None),
            _busy_thread=0,
            _threads=WorkerThreads(),
            _buffer_pool=BufferPool(),
        )

    def _array(self, field: Field) -> Array:
        """Return the array of a public field, including the universe."""
        if field not in self._arrays:
            _declare_attributes()
            array = new_field(self.model, field)
            self._arrays[field] = array
            self.__dict__[field.name] = public_view(self.model, field, array)
        return self._arrays[field]

    def _publish(self, field: Field, constraints: int) -> Array:
        """Set the attribute of an open field to its view for a number of constraints."""
        view = public_view(self.model, field, self._arrays[field], constraints)
        self.__dict__[field.name] = view
        return view

    def _double_data(self) -> Data:
        """Return the Data for what needs double precision."""
        data = self._in_double
        if data is None:
            data = self.__dict__["_in_double"] = Data(self.model)
        return data

    # --- one thread at a time

    def release(self) -> None:
        """Allow another thread to use this Data.

        Raises
        ------
        RuntimeError
            Another thread owns it.
        """
        self._claim(NO_OWNER)

    def _claim(self, new_owner: int) -> None:
        """Become the owner, or set ``new_owner``; RuntimeError if another thread owns it."""
        with _changing_owner:
            owner = self._owner
            if owner == BUSY and not self._is_busy():
                owner = self._busy_thread  # Ctrl-C before ownership was returned
            if owner < BUSY and -owner not in sys._current_frames():
                owner = NO_OWNER  # forked while another thread ran a small batch
            if owner <= BUSY:
                raise RuntimeError(
                    "data: in use by a batch; create another dyn_ros.Data(model) for this call"
                )
            if owner not in (NO_OWNER, threading.get_ident()) and owner in sys._current_frames():
                name = next(
                    (thread.name for thread in threading.enumerate() if thread.ident == owner),
                    str(owner),
                )
                raise RuntimeError(
                    f"data: belongs to thread {name!r}, which used it first, and was called from "
                    f"thread {threading.current_thread().name!r}; create a dyn_ros.Data(model) for "
                    "each thread, or call data.release() in the owning thread"
                )
            if new_owner == BUSY:
                self._busy_thread = threading.get_ident()
            object.__setattr__(self, "_owner", new_owner)

    def _run_busy(self, work: Callable[[], Any]) -> Any:
        """Return ``work()``; in the meantime, calls from all threads are rejected."""
        self._claim(BUSY)
        try:
            return self._work(work)
        finally:
            object.__setattr__(self, "_owner", threading.get_ident())

    def _work(self, work: Callable[[], Any]) -> Any:
        return work()

    def _is_busy(self) -> bool:
        """Return True if the thread that claimed it for a batch is in ``_work``."""
        frame = sys._current_frames().get(self._busy_thread)
        while frame:
            if frame.f_code is Data._work.__code__ and frame.f_locals.get("self") is self:
                return True
            frame = frame.f_back
        return False

    # --- copies

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.model, self._arrays_by_name(), self._precision.dtype.name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Data:
        """Copy the results. The copy shares the model, unless the model has been copied as well."""
        model = memo.setdefault(id(self.model), self.model)
        return _restored(model, self._arrays_by_name(), self._precision.dtype.name)

    def _arrays_by_name(self) -> dict[str, tuple[Array, tuple[int, ...]]]:
        return {
            field.name: (array, getattr(self, field.name).shape)
            for field, array in self._arrays.items()
        }

    def __repr__(self) -> str:
        if self._precision is SINGLE:
            return f"Data({self.model!r}, dtype=float32)"
        names = (field.name for field in self._arrays)
        return f"Data({self.model!r}; computed: {join_names(names, most=5)})"


def _find_precision(dtype: DTypeLike) -> Precision:
    """Return the precision of a type; raise a ValueError if it is not one of two."""
    with contextlib.suppress(TypeError):
        for precision in (DOUBLE, SINGLE):
            if np.dtype(dtype) == precision.dtype:
                return precision
    raise ValueError(f"dtype: expected np.float64 or np.float32, got {short_repr(dtype)}")


def _restored(
    model: Model, arrays: dict[str, tuple[Array, tuple[int, ...]]], dtype: str = "float64"
) -> Data:
    """Return a new Data with copies of the arrays, whose public views have the given shapes."""
    data = Data(model, dtype)
    for name, (array, shape) in arrays.items():
        field = next((field for field in FIELDS if field.name == name), None)
        if field is not None:  # otherwise a pickle of another version
            data._array(field)[...] = array
            if field.is_open:
                data._publish(field, shape[field.shape.index("constraints")])
    return data
