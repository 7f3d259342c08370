# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""An algorithm: what it reads and writes, and the public function that calls it.

An algorithm consists of a kernel (one argument, a ``KernelArgs``), its input fields, its result
fields, and the other public fields that it writes to ``Data``. All other fields that the kernel
refers to are scratch: each algorithm has its own memory for them, so that no call can read the
intermediate results of another algorithm.
"""
import functools
import itertools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.data import Data
from ..model.fields import Field, Option, Q, fields_among, public_view
from ..model.inputs import as_array, require_valid
from ..model.joints import compute_sines
from ..model.layout import HAS_INPUT, NCONSTRAINTS, OPTION, STATUS, KernelArgs
from ..model.types import Array
from ..model.workspace import Workspace
from ..spatial.compiler import JIT, Entry
from ..spatial.lanes import LANES
from ..spatial.reach import references, walk
from . import batch, native, singular

ALGORITHMS: dict[str, "Algorithm"] = {}
_log = logging.getLogger("dyn_ros")


def _references(function):
    return _declarations(function, len(function.__globals__))


@functools.cache
def _declarations(function, _):
    """The functions, and the fields and options, that a function itself refers to.

    The number of its global variables grows while its module is imported.
    """
    functions, constants = references(function)
    values = constants.values()
    return functions, (fields_among(values), {each for each in values if isinstance(each, Option)})


class Program:
    """A kernel with the fields that it refers to, and its compiled calls."""

    def __init__(self, name, kernel, inputs, results, optional, options):
        self.kernel = kernel
        found = [own for _, own in walk(_references, kernel, *native.ALWAYS)]
        self.fields = set(inputs).union(*(fields for fields, _ in found))
        self.options = set().union(*(options for _, options in found))
        if native.READS_OBJECTS:
            one = native.for_objects(kernel, inputs, optional, options)
            self.one = Entry(f"{name}-one", one, native.OBJECTS_SIGNATURE, nogil=False)
        else:
            self.one = Entry(f"{name}-one", native.for_workspace(kernel),
                             native.WORKSPACE_SIGNATURE, nogil=False)
        self.batch = Entry(f"{name}-batch", native.for_batch(kernel, inputs, options),
                           native.batch_signature(inputs, results), nogil=True)


class Algorithm:
    """A kernel that can be called for one state or a batch.

    Parameters
    ----------
    name : str
        Name of the public function that calls it.
    kernel : kernel
        Takes a ``KernelArgs``, reads the inputs and stores the results; calls ``fail`` if a joint
        may make the result singular.
    inputs : sequence of Field
        Fields passed by the caller, in the order of the arguments.
    results : sequence of Field
        Fields that are returned: one array or number, or a tuple of them. For a batch, those
        declared with ``summed`` are sums over its states; others have a row for each state.
    optional : sequence of Field
        Inputs that can be None; the kernel checks ``has_input``.
    leaves : sequence of Field
        Other public fields that it writes.
    options : sequence of Option
        Integers that the public function passes in addition to arrays, packed into one integer:
        the last one has the lowest bits.
    coupled : kernel, optional
        Kernel for models whose mimic joints couple branches of the tree.
    others : sequence of Entry
        Other compiled functions of the same file, which ``precompile`` compiles as well.

    Raises
    ------
    ValueError
        The kernel never refers to a declared field, or reads an option that is not declared.
    """

    def __init__(self, name, kernel, inputs, results, optional=(), leaves=(), options=(),
                 coupled=None, others=()):
        self.name, self._others = name, tuple(others)
        self.inputs, self.results, self.optional, self.leaves = (
            _declared(name, what, fields, Field) for what, fields in (
                ("inputs", inputs), ("results", results), ("optional", optional),
                ("leaves", leaves)))
        self.options = _declared(name, "options", options, Option)
        self._check_names()
        self._arguments = [(f.name.lstrip("_"), f.shape, f in optional) for f in inputs]
        declared = self.inputs, self.results, self.optional, self.options
        plain = Program(name, kernel, *declared)
        self._programs = {False: plain, True: plain}
        if coupled:
            self._programs[True] = Program(f"{name}-coupled", coupled, *declared)
        for program in self.programs:
            self._check_declaration(program)
        ALGORITHMS[name] = self

    def _check_names(self):
        if self.name in ALGORITHMS:
            raise ValueError(f"an algorithm named {self.name!r} exists already; choose another "
                             "name")
        others = [f for f in self.optional if f not in self.inputs]
        if others:
            raise ValueError(f"{self.name}: optional inputs must be inputs; add {_names(others)} "
                             "to inputs")
        if any(each.bits == 0 for each in self.options[1:]):
            raise ValueError(f"{self.name}: only the first option can have bits=0; declare the "
                             "number of bits of the others")

    def _check_declaration(self, program):
        declared = {*self.results, *self.leaves}
        never = [f.name for f in sorted(declared - program.fields)]
        if never:
            raise ValueError(f"{self.name}: its kernel never refers to {', '.join(never)}; write "
                             "them in the kernel, or remove them from results and leaves")
        unknown = [each.name for each in sorted(program.options - set(self.options))]
        if unknown:
            raise ValueError(f"{self.name}: its kernel reads the options {', '.join(unknown)}; "
                             "add them to options")

    @property
    def programs(self):
        """The programs of the algorithm: one, or two if coupled models have their own kernel."""
        return list(dict.fromkeys(self._programs.values()))

    def program(self, model):
        """The program for a model."""
        return self._programs[model._is_coupled]

    def entries(self, batch, coupled):
        """The calls for one state; with ``batch`` also those for batches, with ``coupled`` also
        those for models with mimic joints.
        """
        programs = self.programs if coupled else [self._programs[False]]
        calls = [entry for program in programs
                 for entry in ((program.one, program.batch) if batch else (program.one,))]
        return [*calls, *self._others]

    def caller(self, results=None, make=None):
        """The function that the public function calls: ``(model, data, threads, *inputs)``.

        With options, it is ``(model, data, threads, selector, *inputs)``.

        Parameters
        ----------
        results : sequence of Field, optional
            The results to return and to write to ``Data``, if the caller can choose. Default: all,
            and the other fields that the algorithm writes.
        make : callable, optional
            Converts the tuple of results to the returned value, such as a named tuple. Default:
            the tuple, or the result itself if there is only one.
        """
        call, call_with_options = _Caller(self, results, make).functions()
        return call_with_options if self.options else call

    # -- the arguments

    def checked(self, model, data, values):
        """Validate the arguments.

        Returns the number of states (None for a single one), the inputs as float64 arrays, all
        with or all without a leading axis, and the number of constraints.
        """
        if not isinstance(data, Data):
            raise TypeError(f"data: expected dyn_ros.Data(model), got {type(data).__name__}")
        if data.model is not model:
            raise ValueError(f"data: created for {data.model!r}, but called with the model "
                             f"{model!r}; create a dyn_ros.Data(model) for each model")
        if len(values) != len(self.inputs):
            selector = "a selector and " if self.options else ""
            raise TypeError(f"{self.name}: its caller expects model, data, threads, {selector}"
                            f"{len(self.inputs)} inputs, got {len(values)} inputs")
        values, sizes, lengths = list(values), {}, {}
        for n, (name, axes, optional) in enumerate(self._arguments):
            if values[n] is None and optional:
                continue
            values[n], batched = as_array(model, name, axes, values[n])
            if not (batched and JIT):               # compiled code checks the numbers of a batch
                require_valid(model, name, axes, values[n])
            if batched:
                sizes[name] = len(values[n])
            if axes[-1:] == ("constraints",):
                lengths[name] = values[n].shape[-1]
        _require_equal("expected the same number of constraints in each argument", lengths)
        constraints = max(lengths.values(), default=0)
        if not sizes:
            return None, values, constraints
        _require_equal("batch: expected the same number of states in each argument", sizes)
        size = next(iter(sizes.values()))
        return size, [x if x is None or name in sizes
                      else np.ascontiguousarray(np.broadcast_to(x, (size, *x.shape)))
                      for (name, _, _), x in zip(self._arguments, values)], constraints

    def require_valid(self, model, values):
        """Raise a ValueError that names the number that compiled code rejected."""
        for (name, axes, _), value in zip(self._arguments, values):
            require_valid(model, name, axes, value)

    def raise_if_singular(self, model, values):
        """Raise a LinAlgError if a pivot that the kernel reported is zero; see singular.py."""
        singular.raise_if_singular(self.name, model, values[self.inputs.index(Q)])

    def announce(self):
        """Log the start of a compilation."""
        announce_compilation(self.name)


def announce_compilation(name):
    """Log the start of the compilation of a function."""
    _log.warning("dyn_ros: compiling %s, once for this machine; run `dyn_ros precompile` to "
                 "compile everything in advance", name)


def compiled(entry):
    """The machine code of an entry; without the compiler, its function."""
    entry.load(lambda: announce_compilation(entry.name))
    return entry.call or entry.function


def _declared(name, what, items, kind):
    """Items as a tuple; TypeError or ValueError if they are not distinct fields or options."""
    if isinstance(items, kind) or not all(isinstance(each, kind) for each in items):
        raise TypeError(f"{name}: {what}: expected a tuple of {kind.__name__}, such as (A,), got "
                        f"{items!r:.80}")
    if len(set(items)) < len(items):
        raise ValueError(f"{name}: {what}: expected distinct items, got {_names(items)}")
    return tuple(items)


def _names(items):
    return ", ".join(each.name for each in items)


class _Ready(NamedTuple):
    """The parts of a Data that the calls for one state use."""

    program: Program
    workspace: Workspace
    links: NDArray[np.int64]
    address: int                        # of the links
    published: dict[Field, Array]
    results: Any                        # what is returned
    finish: Callable[[], Any] | None    # a function that returns it, if it differs between calls


class _Caller:
    """One way of calling an algorithm: which results it returns and writes to ``Data``."""

    def __init__(self, algorithm, results, make):
        self._algorithm, self._make = algorithm, make or _one_or_all
        self._number = next(_numbers)
        self._is_made = make is not None
        self._results = algorithm.results if results is None else tuple(results)
        self._published = [f for f in (*self._results, *(() if results else algorithm.leaves))
                           if f.is_public]

    def functions(self):
        """The call without options, and the one with options, packed into an integer.

        Both hold the memory that compiled code uses: another call may take it from ``data``.
        """
        checked, number = self._call_checked, self._number
        not_ready = AttributeError, IndexError, TypeError   # not a Data; not prepared yet

        def call(model, data, threads, *inputs):
            try:
                one, address, results, finish, _memory = data._prepared[number]
                status = one(address, model, 0, inputs)
            except not_ready:
                return checked(model, data, threads, 0, inputs)
            if status != 0:
                return checked(model, data, threads, 0, inputs)
            return results if finish is None else finish()

        def call_with_options(model, data, threads, selector, *inputs):
            try:
                one, address, results, finish, _memory = data._prepared[number]
                status = one(address, model, selector, inputs)
            except not_ready:
                return checked(model, data, threads, selector, inputs)
            if status != 0:
                return checked(model, data, threads, selector, inputs)
            return results if finish is None else finish()

        return call, call_with_options

    def _call_checked(self, model, data, threads, selector, inputs):
        algorithm = self._algorithm
        size, values, constraints = algorithm.checked(model, data, inputs)
        if size is None:
            data._claim(threading.get_ident())
            return self._run_one(data, selector, values, constraints)
        if not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ValueError(f"threads: expected a whole number of at least 1, got {threads!r}")
        run = self._run_batch if JIT else self._run_each
        found = data._run_busy(
            lambda: run(data, selector, values, constraints, size, int(threads)))
        return self._make([found[algorithm.results.index(f)] for f in self._results])

    # -- one state

    def _run_one(self, data, selector, values, constraints):
        """Run on validated arrays."""
        ready = data._ready.get(self) or self._prepare(data)
        status = self._execute(data, ready, selector, values, constraints)
        if status == native.REJECTED:                # something has changed since they were checked
            self._algorithm.require_valid(data.model, values)
            raise RuntimeError(f"{self._algorithm.name}: data was released during the call; "
                               "release it afterwards")
        if native.READS_OBJECTS:
            prepared = data._prepared
            prepared += [None] * (self._number + 1 - len(prepared))
            prepared[self._number] = (ready.program.one.call, ready.address, ready.results,
                                      ready.finish, ready)
        if not JIT:
            for f, array in ready.published.items():
                array[...] = ready.workspace[f]
        if status:
            self._algorithm.raise_if_singular(data.model, values)
        return ready.results if ready.finish is None else ready.finish()

    def _execute(self, data, ready, selector, values, constraints):
        """Run the kernel; return its status."""
        model, program, workspace = data.model, ready.program, ready.workspace
        program.one.load(self._algorithm.announce)
        if native.READS_OBJECTS:
            return program.one.call(ready.address, model, selector, tuple(values))
        self._copy_inputs(workspace, selector, values, constraints)
        if JIT:
            return program.one.call(ready.address)
        r = KernelArgs(model._ints, workspace.table, model._floats, workspace.work)
        with np.errstate(all="ignore"):             # compiled code does not warn either
            compute_sines(r)
            program.kernel(r)
        return int(workspace.table[STATUS])

    def _prepare(self, data):
        """Allocate the memory for the calls for one state."""
        if len(data._ready) >= _MOST_READY:         # one for each choice of results
            data._ready.clear()
            data._prepared.clear()
        program = self._algorithm.program(data.model)
        published = {f: data._array(f) for f in self._published}
        workspace = Workspace(data.model, program.fields, published=published if JIT else None)
        views = tuple(getattr(data, f.name) if f.is_public and not f.is_open
                      else public_view(data.model, f, workspace[f]) for f in self._results)
        links = native.links(data, workspace)
        ready = data._ready[self] = _Ready(
            program, workspace, links, links.ctypes.data, published, _one_or_all(views),
            self._finisher(data, views, workspace))
        return ready

    def _finisher(self, data, views, workspace):
        """The function that creates the results for one state; None if these are the arrays.

        It converts numbers to floats, and gives open fields their size in the call.
        """
        numbers, make = [f.shape == () for f in self._results], self._make
        if any(f.is_open for f in (*self._results, *self._published)):
            return self._open_finisher(data, views, workspace)
        if not (self._is_made or any(numbers)):
            return None
        if len(views) == 1 and not self._is_made:
            return views[0].item
        return lambda: make([view.item() if number else view
                             for view, number in zip(views, numbers)])

    def _open_finisher(self, data, views, workspace):
        table, model, make = memoryview(workspace.table), data.model, self._make
        numbers, sizes = [f.shape == () for f in self._results], {}
        target = weakref.ref(data)                  # which holds this function

        def views_of_size(length):
            public = {f: public_view(model, f, workspace[f], length)
                      for f in self._published if f.is_open}
            found = [view if not f.is_open else public[f] if f in public
                     else public_view(model, f, workspace[f], length)
                     for f, view in zip(self._results, views)]
            named = {f.name: view for f, view in public.items()}
            return named, found if any(numbers) or self._is_made else make(found)

        def results():
            length = table[NCONSTRAINTS]
            if length not in sizes:
                sizes[length] = views_of_size(length)
            public, found = sizes[length]
            target().__dict__.update(public)
            return found

        if not (any(numbers) or self._is_made):
            return results
        return lambda: make([view.item() if number else view
                             for view, number in zip(results(), numbers)])

    def _copy_inputs(self, workspace, selector, values, constraints):
        """Copy the inputs as the compiled call does with the caller's objects."""
        table = workspace.table
        table[STATUS], table[NCONSTRAINTS] = 0, constraints
        for each, shift, mask in zip(*native.packing(self._algorithm.options)):
            table[OPTION + each] = selector >> shift & mask
        for f, value in zip(self._algorithm.inputs, values):
            table[HAS_INPUT + f] = value is not None
            if value is not None:
                start = workspace.offset(f)
                workspace.work[start:start + value.size] = value.ravel()

    # -- a batch

    def _run_batch(self, data, selector, values, constraints, size, threads):
        """Run on validated arrays with leading axes; return new arrays."""
        algorithm, model = self._algorithm, data.model
        program = algorithm.program(model)
        program.batch.load(algorithm.announce)
        outputs, found = zip(*[batch.new_result(data, f, size, constraints)
                               for f in algorithm.results])
        inputs = tuple(batch.as_rows(value) for value in values)
        sums = [f for f in algorithm.results if f.summed]
        spaces = data._batch_spaces.setdefault(algorithm, [])
        while len(spaces) < threads and len(spaces) * LANES < size:
            spaces.append(batch.BatchSpace(model, program.fields))

        def run(thread, start, stop):
            space = spaces[thread]
            tiles = tuple(space.tile_offsets(f, rows.shape[1])
                          for f, rows in zip(algorithm.results, outputs))
            call = functools.partial(program.batch.call, *space.addresses, selector, inputs,
                                     tiles, outputs)
            return space.add_up(call, start, stop, sums) if sums else call(start, stop)

        try:
            states = batch.in_parts(data, size, threads, run)
        except BaseException:                       # Ctrl-C: a part still running keeps its memory
            data._batch_spaces.pop(algorithm, None)
            raise
        if native.REJECTED in states:
            algorithm.require_valid(model, values)  # which raises
            raise AssertionError(f"{algorithm.name}: compiled code rejected valid numbers")
        if any(states):
            algorithm.raise_if_singular(model, values)
        for f in sums:
            for space in spaces[:len(states)]:
                found[algorithm.results.index(f)][...] += space.totals[f]
        return found

    def _run_each(self, data, selector, values, constraints, size, threads):
        """A batch without the compiler: one state after the other."""
        model = data.model
        found = [batch.new_result(data, f, size, constraints)[1]
                 for f in self._algorithm.results]
        ready = data._ready.get(self) or self._prepare(data)
        for n in range(size):
            state = [None if x is None else x[n] for x in values]
            if self._execute(data, ready, selector, state, constraints):
                self._algorithm.raise_if_singular(model, state)
            for output, f in zip(found, self._algorithm.results):
                value = public_view(model, f, ready.workspace[f], constraints)
                if f.summed:
                    output += value
                else:
                    output[n] = value
        return found


def _require_equal(expected, numbers):
    """Raise a ValueError if the numbers, by argument name, differ."""
    if len(set(numbers.values())) > 1:
        raise ValueError(f"{expected}, got "
                         + ", ".join(f"{name}: {n}" for name, n in numbers.items()))


_MOST_READY = 256
_numbers = itertools.count()


def _one_or_all(results):
    return results[0] if len(results) == 1 else tuple(results)
