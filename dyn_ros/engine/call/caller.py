# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The call of an algorithm: from the caller's arguments to compiled code and to its results."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..kernel.fields import Field, public_view
from ..kernel.joints import compute_sines
from ..kernel.names import short_repr
from ..kernel.packing import HAS_INPUT, NCONSTRAINTS, OPTION, STATUS, KernelArgs
from ..kernel.types import Array
from ..machine_code import extension
from ..machine_code.declare import JIT
from ..model.model import Model
from . import batch, entries, robot_library
from .batch_rows import DOUBLE, REJECTED, SINGLE
from .data import Data
from .workspace import Workspace

MAX_PREPARED_CALLS = 256  # number in each Data
_numbers = itertools.count()


class BatchOptions(NamedTuple):
    """Passed to a call in place of ``threads`` if the caller has arrays for the results."""

    threads: Any
    out: Any


class _StateCall(NamedTuple):
    """The parts of a Data that the calls of one algorithm for one state use."""

    program: Any  # a Program
    workspace: Workspace
    public_arrays: dict[Field, Array]  # arrays in Data
    results: Any  # returned, unless they differ between calls
    finish: Callable[[], Any] | None  # returns the results if they differ between calls
    prepared: Any  # the extension's object


class Caller:
    """One way of calling an algorithm: which results it returns and writes to ``Data``."""

    def __init__(
        self, algorithm: Any, results: Sequence[Field] | None, make: Callable[..., Any] | None
    ) -> None:
        self._algorithm, self._make = algorithm, make or _one_or_all
        self._number = next(_numbers)
        self._is_made = make is not None
        self._has_sums = any(f.summed for f in algorithm.results)
        self._results = algorithm.results if results is None else tuple(results)
        self._public_fields = [
            f for f in (*self._results, *(() if results else algorithm.also_writes)) if f.is_public
        ]

    def make_functions(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return the call without options, and the one with options, packed into an integer."""
        run = self._validate_and_run
        if JIT:
            new = extension.native().Call
            return new(self._number, run, False), new(self._number, run, True)

        def call(model: Model, data: Data, threads: int, *inputs: Any) -> Any:
            return run(model, data, threads, 0, inputs)

        def call_with_options(
            model: Model, data: Data, threads: int, selector: int, *inputs: Any
        ) -> Any:
            return run(model, data, threads, selector, inputs)

        return call, call_with_options

    def _validate_and_run(
        self, model: Model, data: Data, threads: int, selector: int, inputs: tuple[Any, ...]
    ) -> Any:
        """Validate the arguments and run, for one state or a batch; return the results.

        The extension calls this in the first call, for large batches, and if it does not accept the
        arguments.
        """
        algorithm, out = self._algorithm, None
        if isinstance(threads, BatchOptions):
            threads, out = threads
        size, values, constraints = algorithm.validate_arguments(model, data, inputs)
        if size is None and out is not None:
            raise ValueError(
                "out: only for batches, since results of a single state are arrays of data; "
                "copy them"
            )
        if size is None and data._precision is DOUBLE:
            data._claim(threading.get_ident())
            return self._run_one(data, selector, values, constraints)
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ValueError(
                f"threads: expected a whole number of at least 1, got {short_repr(threads)}"
            )
        if data._precision is SINGLE:
            return self._run_single_precision(
                data, selector, values, constraints, size, int(threads), out
            )
        given = self._given_results(data, out, size, values, constraints)
        if size <= (limit := self._max_single_states(data)):
            data._claim(threading.get_ident())
            arrays = self._run_single_states(data, selector, values, constraints, size, given)
            if size and limit < sys.maxsize:
                self._prepare_batch(data, constraints)
            return self._make([arrays[f] for f in self._results])
        run = self._run_batch if JIT else self._run_each
        arrays = data._run_busy(
            lambda: run(data, selector, values, constraints, size, int(threads), given)
        )
        if JIT and size:
            self._prepare_batch(data, constraints)
        return self._make([arrays[f] for f in self._results])

    # --- one state

    def _run_one(self, data: Data, selector: int, values: Sequence[Any], constraints: int) -> Any:
        """Run on validated arrays."""
        ready = data._state_calls.get(self) or self._prepare(data)
        if JIT:
            status = self._run_compiled(data, ready, selector, values)
        else:
            status = self._interpret(data.model, ready, selector, values, constraints)
            for f, array in ready.public_arrays.items():
                array[...] = ready.workspace[f]
        if status:
            self._algorithm.raise_if_singular(data.model, values)
        return ready.results if ready.finish is None else ready.finish()

    def _run_compiled(
        self, data: Data, ready: _StateCall, selector: int, values: Sequence[Any]
    ) -> int:
        """Run the machine code, which the next call finds; return the status."""
        algorithm = self._algorithm
        status = ready.prepared.run(data, data.model, selector, tuple(values))
        if status == REJECTED:  # something has changed since they were checked
            algorithm.require_valid(data.model, values)
            raise RuntimeError(
                f"{algorithm.name}: data was released during the call; release it afterwards"
            )
        prepared = data._prepared
        prepared += [None] * (self._number + 1 - len(prepared))
        prepared[self._number] = ready.prepared
        return status

    def _interpret(
        self,
        model: Model,
        ready: _StateCall,
        selector: int,
        values: Sequence[Any],
        constraints: int,
    ) -> int:
        """Run the kernel in Python; return the status."""
        workspace = ready.workspace
        self._copy_inputs(workspace, selector, values, constraints)
        r = KernelArgs(model._ints, workspace.call_ints, model._floats, workspace.work)
        with np.errstate(all="ignore"):  # compiled code does not warn either
            compute_sines(r)
            ready.program.kernel(r)
        return int(workspace.call_ints[STATUS])

    def _prepare(self, data: Data) -> _StateCall:
        """Allocate the memory for the calls for one state."""
        if len(data._state_calls) >= MAX_PREPARED_CALLS:  # one for each choice of results
            data._state_calls.clear()
            data._max_single_states.clear()
            data._prepared.clear()
            data._prepared_batches.clear()
        program = self._algorithm.program(data.model)
        public_arrays = {f: data._array(f) for f in self._public_fields}
        workspace = Workspace(
            data.model, program.fields, public_arrays=public_arrays if JIT else None
        )
        views = tuple(
            getattr(data, f.name)
            if f.is_public and not f.is_open
            else public_view(data.model, f, workspace[f])
            for f in self._results
        )
        results, finish = _one_or_all(views), self._finisher(data, views, workspace)
        prepared = None
        if JIT:
            code = robot_library.find_code(self._algorithm, data.model)
            if not code:
                program.one.load(self._algorithm.announce)
                code = program.one.address
            prepared = entries.prepare_call(self._algorithm, data, workspace, code, results, finish)
        ready = data._state_calls[self] = _StateCall(
            program, workspace, public_arrays, results, finish, prepared
        )
        return ready

    def _finisher(
        self, data: Data, views: tuple[Any, ...], workspace: Workspace
    ) -> Callable[[], Any] | None:
        """Return the function that creates the results for one state; None if these are the arrays.

        It converts numbers to floats, and gives open fields their size in the call.
        """
        numbers, make = [f.shape == () for f in self._results], self._make
        if any(f.is_open for f in (*self._results, *self._public_fields)):
            return self._open_finisher(data, views, workspace)
        if not (self._is_made or any(numbers)):
            return None
        if len(views) == 1 and not self._is_made:
            return views[0].item
        return lambda: make(
            [view.item() if number else view for view, number in zip(views, numbers)]
        )

    def _open_finisher(
        self, data: Data, views: tuple[Any, ...], workspace: Workspace
    ) -> Callable[[], Any]:
        """Return the function that creates the results if some have an axis of variable length."""
        integers: Any = workspace.call_ints
        call_ints, model, make = memoryview(integers), data.model, self._make
        numbers, sizes = [f.shape == () for f in self._results], {}
        target = weakref.ref(data)  # data holds this function

        def views_of_size(length: int) -> tuple[dict[str, Array], Any]:
            public = {
                f: public_view(model, f, workspace[f], length)
                for f in self._public_fields
                if f.is_open
            }
            sized = [
                view
                if not f.is_open
                else public[f]
                if f in public
                else public_view(model, f, workspace[f], length)
                for f, view in zip(self._results, views)
            ]
            named = {f.name: view for f, view in public.items()}
            return named, sized if any(numbers) or self._is_made else make(sized)

        def results() -> Any:
            length = call_ints[NCONSTRAINTS]
            if length not in sizes:
                sizes[length] = views_of_size(length)
            public, result = sizes[length]
            target().__dict__.update(public)
            return result

        if not (any(numbers) or self._is_made):
            return results
        return lambda: make(
            [view.item() if number else view for view, number in zip(results(), numbers)]
        )

    def _copy_inputs(
        self, workspace: Workspace, selector: int, values: Sequence[Any], constraints: int
    ) -> None:
        """Copy the inputs as the compiled call does with the caller's objects."""
        call_ints = workspace.call_ints
        call_ints[STATUS], call_ints[NCONSTRAINTS] = 0, constraints
        for option, shift, mask in entries.option_shifts(self._algorithm.options):
            call_ints[OPTION + option] = selector >> shift & mask
        for f, value in zip(self._algorithm.inputs, values):
            call_ints[HAS_INPUT + f] = value is not None
            if value is not None:
                start = workspace.offset(f)
                workspace.work[start : start + value.size] = value.ravel()

    # --- a batch

    def _run_single_precision(
        self,
        data: Data,
        selector: int,
        values: Sequence[Any],
        constraints: int,
        size: int | None,
        threads: int,
        out: Any,
    ) -> Any:
        """Run on validated arrays of float32; results of a single state are new arrays, too."""
        nstates = 1 if size is None else size
        if size is None:
            values = [None if value is None else value[None] for value in values]
        given = self._given_results(data, out, nstates, values, constraints)
        in_double = self._algorithm.needs_double or not JIT
        run = self._run_in_double if in_double else self._run_batch
        arrays = data._run_busy(
            lambda: run(data, selector, values, constraints, nstates, threads, given)
        )
        if nstates and not in_double:
            self._prepare_batch(data, constraints)
        if size is None:
            arrays = {f: array if f.summed else array[0] for f, array in arrays.items()}
            arrays = {f: x.item() if f.shape == () else x for f, x in arrays.items()}
        return self._make([arrays[f] for f in self._results])

    def _run_in_double(
        self,
        data: Data,
        selector: int,
        values: Sequence[Any],
        constraints: int,
        size: int,
        threads: int,
        given: dict[Field, batch.Result],
    ) -> dict[Field, Array]:
        """Run on arrays of float32 in float64; return arrays of float32 by field."""
        run = self._run_batch if JIT else self._run_each
        values = [None if value is None else value.astype(np.float64) for value in values]
        computed = run(data._double_data(), selector, values, constraints, size, threads, {})
        arrays = {}
        for f, array in computed.items():
            target = given[f].array if f in given else np.empty(array.shape, data._precision.dtype)
            target[...] = array
            arrays[f] = target
        return arrays

    def _given_results(
        self, data: Data, out: Any, size: int, values: Sequence[Any], constraints: int
    ) -> dict[Field, batch.Result]:
        """Return the arrays of the caller for results; ValueError if they cannot be used."""
        if out is None:
            return {}
        names = (f.name.lstrip("_") for f in self._algorithm.inputs)
        inputs = dict(zip(names, values))
        return batch.given_results(
            data.model, self._results, out, size, constraints, inputs, data._precision.dtype
        )

    def _prepare_batch(self, data: Data, constraints: int) -> None:
        """Let the extension run the next batches with small results.

        Not if results are sums, or if one is returned twice.
        """
        prepared = data._prepared_batches
        previous_call = prepared[self._number] if self._number < len(prepared) else None
        if previous_call is not None and previous_call.constraints == constraints:
            return
        if self._has_sums or len(set(self._results)) < len(self._results):
            return
        if sum(call is not None for call in prepared) >= MAX_PREPARED_CALLS:
            prepared.clear()
            data._max_single_states.clear()
        prepared += [None] * (self._number + 1 - len(prepared))
        make = self._make if self._is_made else None
        algorithm = self._algorithm
        spaces = data._batch_spaces.setdefault(algorithm, [])
        if not spaces:
            self._load_lanes(data)
            spaces.append(batch.BatchSpace(data.model, algorithm, data._precision))
        single, limit = None, -1
        if data._precision is DOUBLE:
            single, limit = self._single_states(data), self._max_single_states(data)
        prepared[self._number] = spaces[0].prepare(
            algorithm, self._results, make, constraints, single, limit
        )

    def _single_states(self, data: Data) -> batch.SingleStates:
        """Return the memory for batches that run on one state after the other."""
        algorithm, model = self._algorithm, data.model
        if algorithm not in data._single_states:
            program = algorithm.program(model)
            code = robot_library.find_code(algorithm, model)
            if not code:
                program.one.load(algorithm.announce)
                code = program.one.address
            workspace = Workspace(model, program.fields)
            prepared = entries.prepare_call(algorithm, data, workspace, code, None, None)
            data._single_states[algorithm] = batch.SingleStates(workspace, prepared)
        return data._single_states[algorithm]

    def _max_single_states(self, data: Data) -> int:
        """Return the largest number of states of a batch that run one after the other."""
        if self._has_sums or not JIT:
            return -1
        if self not in data._max_single_states:
            workspace = self._single_states(data).workspace
            limit = batch.max_single_states(workspace, self._results)
            data._max_single_states[self] = limit
        return data._max_single_states[self]

    def _run_single_states(
        self,
        data: Data,
        selector: int,
        values: Sequence[Any],
        constraints: int,
        size: int,
        given: dict[Field, batch.Result],
    ) -> dict[Field, Array]:
        """Run on one state after the other, as the extension does for few states."""
        algorithm, model, single = self._algorithm, data.model, self._single_states(data)
        results = self._results_in_memory(data, size, constraints, given)
        arrays = {f: result.array for f, result in results.items()}
        is_singular = False
        for n in range(size):
            state = tuple(None if x is None else x[n] for x in values)
            status = single.prepared.run(data, model, selector, state)
            if status == REJECTED:
                algorithm.require_valid(model, values)  # raises
                raise RuntimeError(
                    f"{algorithm.name}: data was released during the call; release it afterwards"
                )
            is_singular |= status != 0
            for f, array in arrays.items():
                array[n] = public_view(model, f, single.workspace[f], constraints)
        if is_singular:
            algorithm.raise_if_singular(model, values)
        return arrays

    def _results_in_memory(
        self, data: Data, size: int, constraints: int, given: dict[Field, batch.Result]
    ) -> dict[Field, batch.Result]:
        """Return the memory of all results, new unless it is given."""
        return {
            f: given.get(f) or batch.new_result(data, f, size, constraints) for f in self._results
        }

    def _load_lanes(self, data: Data) -> None:
        """Load the machine code of batches."""
        algorithm, precision = self._algorithm, data._precision
        algorithm.program(data.model).entry_for(precision).load(algorithm.announce)
        precision.gather.load()
        precision.scatter.load()

    def _run_batch(
        self,
        data: Data,
        selector: int,
        values: Sequence[Any],
        constraints: int,
        size: int,
        threads: int,
        given: dict[Field, batch.Result],
    ) -> dict[Field, Array]:
        """Run on validated arrays with leading axes; return arrays by field, new unless given."""
        algorithm, model = self._algorithm, data.model
        precision = data._precision
        self._load_lanes(data)
        results = self._results_in_memory(data, size, constraints, given)
        arrays = {f: result.array for f, result in results.items()}
        stored = [results.get(f, batch.NO_RESULT) for f in algorithm.results]
        outputs = tuple(result.rows for result in stored)
        shapes = [result.transposed_shape for result in stored]
        inputs = tuple(batch.as_rows(value) for value in values)
        sums = [f for f in arrays if f.summed]
        spaces = data._batch_spaces.setdefault(algorithm, [])
        while len(spaces) < threads and len(spaces) * precision.lanes < size:
            spaces.append(batch.BatchSpace(model, algorithm, precision))

        def run(thread: int, start: int, stop: int) -> Any:
            space = spaces[thread]
            space.pass_arguments(selector, inputs, outputs, shapes)
            return space.add_up(start, stop, sums) if sums else space.run(start, stop)

        try:
            states = batch.run_in_threads(data, size, threads, run)
        except BaseException:  # Ctrl-C: a part still running keeps its memory
            data._batch_spaces.pop(algorithm, None)
            data._prepared_batches.clear()
            raise
        if REJECTED in states:
            algorithm.require_valid(model, values)  # raises
            raise AssertionError(f"{algorithm.name}: compiled code rejected valid numbers")
        if any(states) and precision is SINGLE:
            return self._run_in_double(data, selector, values, constraints, size, threads, given)
        if any(states):
            algorithm.raise_if_singular(model, values)
        for f in sums:
            for space in spaces[: len(states)]:
                arrays[f][...] += space.totals[f]
        return arrays

    def _run_each(
        self,
        data: Data,
        selector: int,
        values: Sequence[Any],
        constraints: int,
        size: int,
        threads: int,
        given: dict[Field, batch.Result],
    ) -> dict[Field, Array]:
        """Run a batch without the compiler: one state after the other."""
        model = data.model
        results = self._results_in_memory(data, size, constraints, given)
        arrays = {f: result.array for f, result in results.items()}
        ready = data._state_calls.get(self) or self._prepare(data)
        for n in range(size):
            state = [None if x is None else x[n] for x in values]
            if self._interpret(model, ready, selector, state, constraints):
                self._algorithm.raise_if_singular(model, state)
            for f, array in arrays.items():
                value = public_view(model, f, ready.workspace[f], constraints)
                if f.summed:
                    array += value
                else:
                    array[n] = value
        return arrays


def _one_or_all(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
