# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Declaration of algorithms: ``@algorithm`` makes a public function of a kernel.

An algorithm consists of a kernel (one argument, a ``KernelArgs``), its input fields, its result
fields, and the other public fields that it writes to ``Data``. All other fields that the kernel
refers to are scratch: each algorithm has its own memory for them, so that no call can read the
intermediate results of another algorithm.

A public function without a body, such as ``rnea``, passes its arguments to a ``Call`` of the
extension (``machine_code/one_state.c``, ``small_batch.c``). This runs the compiled entry that
``Data`` holds for the function; in the first call, for large batches and threads, and for arguments
that it does not accept as they are, it calls ``Caller`` (``caller.py``), which validates and
prepares. See docs/architecture.md.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, ParamSpec, Protocol, TypeVar, cast

import numpy as np

from ..kernel.fields import FIELDS, OPTIONS, Field, Option, Q, fields_among
from ..kernel.names import short_repr
from ..kernel.packing import report_small_pivot
from ..kernel.validation import as_array, require_equal, require_valid
from ..machine_code import library
from ..machine_code.compiler import Entry
from ..machine_code.declare import JIT
from ..machine_code.reach import find_references, walk_functions
from ..model.model import Model
from . import entries, singular
from .batch_rows import DOUBLE, SINGLE, Precision
from .caller import BatchOptions, Caller
from .data import Data

ALGORITHMS: dict[str, Algorithm] = {}
PUBLIC: list[str] = []
"""Names of the functions and classes that algorithms define for ``dyn_ros``."""
_log = logging.getLogger("dyn_ros")


def _find_declarations(function: FunctionType) -> tuple[Any, Any]:
    """Return the functions, and the fields and options, that a function itself refers to."""
    return _cached_declarations(function, len(function.__globals__))


@functools.cache
def _cached_declarations(function: FunctionType, _: int) -> tuple[Any, Any]:
    """Find declarations once for each number of global variables: it grows during the import."""
    functions, constants = find_references(function)
    values = constants.values()
    options = {value for value in values if isinstance(value, Option)}
    return functions, (fields_among(values), options)


class Program:
    """A kernel with the fields that it refers to, and its entries for one state and for lanes."""

    def __init__(self, name: str, kernel: Callable[..., Any], inputs: Sequence[Field]) -> None:
        self.name, self.kernel = name, kernel
        self.fields, self.options, self.can_fail = _read_description(
            library.program_description(name) if JIT else None
        ) or find_fields_and_options(kernel, inputs)
        self.one = Entry(f"{name}-one", entries.make_state_entry(kernel))
        self.lanes = Entry(f"{name}-lanes", entries.make_lanes_entry(kernel))

    @functools.cached_property
    def lanes32(self) -> Entry:
        """The entry for lanes in single precision."""
        return Entry(
            f"{self.name}-float32-lanes",
            entries.make_lanes_entry(self.kernel, SINGLE.lanes_at, SINGLE.floats_at),
        )

    def entry_for(self, precision: Precision) -> Entry:
        """Return the entry for lanes of a precision."""
        return self.lanes if precision is DOUBLE else self.lanes32

    def description(self) -> tuple[list[Field], list[Option], bool]:
        """Return the fields, options and ``can_fail`` for a library, which saves the analysis."""
        return sorted(self.fields), sorted(self.options), self.can_fail


def _read_description(description: Any) -> tuple[set[Field], set[Option], bool] | None:
    """Return a program's fields and options, and whether it may fail; None if not described."""
    if description is None:
        return None
    fields, options, can_fail = description
    return {FIELDS[n] for n in fields}, {OPTIONS[n] for n in options}, can_fail


def find_fields_and_options(
    kernel: Callable[..., Any], inputs: Sequence[Field]
) -> tuple[set[Field], set[Option], bool]:
    """Return the fields and options that a kernel refers to, and whether it may fail."""
    reached = dict(walk_functions(_find_declarations, kernel, *entries.ALWAYS))
    fields = set(inputs).union(*(fields for fields, _ in reached.values()))
    options = set().union(*(options for _, options in reached.values()))
    return fields, options, report_small_pivot in reached


class Algorithm:
    """A kernel that can be called for one state or a batch.

    The kernel takes a ``KernelArgs``, reads the ``inputs``, which are in the order of the
    arguments, and stores the ``results``, which are returned: one array or number, or a tuple. For
    a batch, results declared with ``summed`` are sums over its states; others have a row for each
    state. The kernel calls ``report_small_pivot`` if a joint may make the result singular.

    ``optional`` inputs can be None; the kernel checks ``has_input``. ``also_writes`` are other
    public fields that it writes. ``options`` are integers that the public function passes in
    addition to arrays, packed into one: the last one has the lowest bits. ``mimic_kernel`` is
    the kernel for models with mimic joints; ``others`` are entries that ``precompile`` compiles as
    well. With ``needs_double``, a ``Data`` of float32 computes it in float64. A ValueError is
    raised if the kernel never refers to a declared field, or reads another option.
    """

    def __init__(
        self,
        name: str,
        kernel: Callable[..., Any],
        inputs: Sequence[Field],
        results: Sequence[Field],
        optional: Sequence[Field] = (),
        also_writes: Sequence[Field] = (),
        options: Sequence[Option] = (),
        mimic_kernel: Callable[..., Any] | None = None,
        others: Sequence[Entry] = (),
        needs_double: bool = False,
    ) -> None:
        self.name, self._others, self.needs_double = name, tuple(others), needs_double
        self.inputs, self.results, self.optional, self.also_writes = (
            _require_distinct(name, what, fields, Field)
            for what, fields in (
                ("inputs", inputs),
                ("results", results),
                ("optional", optional),
                ("also_writes", also_writes),
            )
        )
        self.options = _require_distinct(name, "options", options, Option)
        self._check_names()
        self._arguments = [(f.name.lstrip("_"), f.shape, f in optional) for f in inputs]
        plain = Program(name, kernel, self.inputs)
        self._programs = {False: plain, True: plain}
        if mimic_kernel:
            self._programs[True] = Program(f"{name}-mimic", mimic_kernel, self.inputs)
        for program in self.programs:
            self._check_declaration(program)
        ALGORITHMS[name] = self

    def _check_names(self) -> None:
        if self.name in ALGORITHMS:
            raise ValueError(
                f"an algorithm named {self.name!r} exists already; choose another name"
            )
        not_inputs = [f for f in self.optional if f not in self.inputs]
        if not_inputs:
            raise ValueError(
                f"{self.name}: optional inputs must be inputs; add "
                f"{_join_names(not_inputs)} to inputs"
            )
        if any(option.bits == 0 for option in self.options[1:]):
            raise ValueError(
                f"{self.name}: only the first option can have bits=0; declare the "
                "number of bits of the others"
            )

    def _check_declaration(self, program: Program) -> None:
        declared = {*self.results, *self.also_writes}
        never = [f.name for f in sorted(declared - program.fields)]
        if never:
            raise ValueError(
                f"{self.name}: its kernel never refers to {', '.join(never)}; write "
                "them in the kernel, or remove them from results and also_writes"
            )
        unknown = [option.name for option in sorted(program.options - set(self.options))]
        if unknown:
            raise ValueError(
                f"{self.name}: its kernel reads the options {', '.join(unknown)}; "
                "add them to options"
            )

    @property
    def programs(self) -> list[Program]:
        """The programs of the algorithm: one, or two if models with mimic joints have their own."""
        return list(dict.fromkeys(self._programs.values()))

    def program(self, model: Model) -> Program:
        """Return the program for a model."""
        return self._programs[model._has_mimic_joints]

    def entries(self, batch: bool, mimic: Any) -> list[Entry]:
        """Return the entries for one state, with ``batch`` also for batches.

        With ``mimic``, they include the entries for models with mimic joints.
        """
        programs = self.programs if mimic else [self._programs[False]]
        calls = [
            entry
            for program in programs
            for entry in ((program.one, program.lanes) if batch else (program.one,))
        ]
        return [*calls, *((DOUBLE.gather, DOUBLE.scatter) if batch else ()), *self._others]

    def make_call(
        self, results: Sequence[Field] | None = None, make: Callable[..., Any] | None = None
    ) -> Callable[..., Any]:
        """Return the function that the public function calls: ``(model, data, threads, *inputs)``.

        With options, it is ``(model, data, threads, selector, *inputs)``. ``results`` are the
        fields to return and to write to ``Data``; by default all, and the other fields that the
        algorithm writes. ``make`` converts the tuple of results, for example to a named tuple; by
        default, it is returned as it is, or the result itself if there is only one.
        """
        call, call_with_options = Caller(self, results, make).make_functions()
        return call_with_options if self.options else call

    # --- the arguments

    def validate_arguments(
        self, model: Model, data: Any, values: Sequence[Any]
    ) -> tuple[int | None, list[Any], int]:
        """Validate the arguments of a call; TypeError or ValueError if they do not fit.

        Returns the number of states (None for a single one), the inputs as arrays, all
        with or all without a leading axis, and the number of constraints.
        """
        if not isinstance(data, Data):
            raise TypeError(f"data: expected dyn_ros.Data(model), got {type(data).__name__}")
        if data.model is not model:
            raise ValueError(
                f"data: created for {data.model!r}, but called with the model "
                f"{short_repr(model)}; create a dyn_ros.Data(model) for each model"
            )
        if len(values) != len(self.inputs):
            selector = "a selector and " if self.options else ""
            raise TypeError(
                f"{self.name}: its caller expects model, data, threads, {selector}"
                f"{len(self.inputs)} inputs, got {len(values)} inputs"
            )
        values, sizes, lengths = list(values), {}, {}
        dtype = data._precision.dtype
        for n, (name, axes, optional) in enumerate(self._arguments):
            if values[n] is None and optional:
                continue
            values[n], batched = as_array(model, name, axes, values[n], dtype)
            if not (batched and JIT):  # compiled code checks the numbers of a batch
                require_valid(model, name, axes, values[n])
            if batched:
                sizes[name] = len(values[n])
            if axes[-1:] == ("constraints",):
                lengths[name] = values[n].shape[-1]
        require_equal("expected the same number of constraints in each argument", lengths)
        constraints = max(lengths.values(), default=0)
        if not sizes:
            return None, values, constraints
        require_equal("batch: expected the same number of states in each argument", sizes)
        size = next(iter(sizes.values()))
        return (
            size,
            [
                x
                if x is None or name in sizes
                else np.ascontiguousarray(np.broadcast_to(x, (size, *x.shape)))
                for (name, _, _), x in zip(self._arguments, values)
            ],
            constraints,
        )

    def require_valid(self, model: Model, values: Sequence[Any]) -> None:
        """Raise a ValueError that names the number that compiled code rejected."""
        for (name, axes, _), value in zip(self._arguments, values):
            require_valid(model, name, axes, value)

    def raise_if_singular(self, model: Model, values: Sequence[Any]) -> None:
        """Raise a LinAlgError if a pivot that the kernel reported is zero; see singular.py."""
        singular.raise_if_singular(self.name, model, values[self.inputs.index(Q)])

    def announce(self) -> None:
        """Log the start of a compilation."""
        announce_compilation(self.name)


# --- public functions

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")
Item = TypeVar("Item", bound=Any)


class AlgorithmFunction(Protocol[P, R_co]):
    """A public function; ``call`` runs its algorithm on compiled code.

    ``call(model, data, threads, *inputs)``, or with options ``call(model, data, threads, selector,
    *inputs)``, has the inputs in the order of their declaration.
    """

    algorithm: Algorithm
    call: Callable[..., Any]
    __name__: str
    __code__: Any

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


def public(item: Item) -> Item:
    """Decorator: make a function or a class an attribute of ``dyn_ros``."""
    PUBLIC.append(item.__name__)
    return item


def algorithm(
    kernel: Callable[..., Any],
    inputs: Sequence[Field],
    results: Sequence[Field],
    *,
    selector: Callable[..., int] | int | None = None,
    make: Callable[..., Any] | None = None,
    **declaration: Any,
) -> Callable[[Callable[P, R]], AlgorithmFunction[P, R]]:
    """Decorator: declare an algorithm, and make its function public.

    The algorithm has the name of the function. Kernel, inputs, results and the rest of the
    declaration are passed to ``Algorithm``, ``make`` to ``Algorithm.make_call``.

    The body of a function that has only a docstring is generated: it passes its arguments to the
    algorithm, each to the input of its name. Its options are ``selector``: a number, or a function
    of arguments of the same names. A function that prepares arguments or results has a body, which
    calls ``NAME.call``.
    """

    def declare(function: Callable[P, R]) -> AlgorithmFunction[P, R]:
        declared = Algorithm(function.__name__, kernel, inputs, results, **declaration)
        return _make_public(function, declared, declared.make_call(make=make), selector)

    return declare


def variant(
    of: AlgorithmFunction[..., Any],
    selector: Callable[..., int] | int,
    own_results: bool = False,
) -> Callable[[Callable[P, R]], AlgorithmFunction[P, R]]:
    """Decorator: make a function public that runs another function's algorithm.

    With ``own_results``, it has arrays of its own for a single state.
    """

    def declare(function: Callable[P, R]) -> AlgorithmFunction[P, R]:
        call = of.algorithm.make_call() if own_results else of.call
        return _make_public(function, of.algorithm, call, selector)

    return declare


def _make_public(
    function: Callable[P, R],
    declared: Algorithm,
    call: Callable[..., Any],
    selector: Callable[..., int] | int | None,
) -> AlgorithmFunction[P, R]:
    """Make a function public; without a body, make the one that calls the algorithm."""
    if function.__code__.co_code in _EMPTY_BODIES:
        function = _make_calling_function(function, declared, call, selector)
    published = cast(AlgorithmFunction[P, R], public(function))
    published.algorithm, published.call = declared, call
    return published


def _docstring_only() -> None:
    """Do nothing."""


# The bytecode of a function without statements, with and without a docstring
_EMPTY_BODIES = {_docstring_only.__code__.co_code, (lambda: None).__code__.co_code}


def _make_calling_function(
    function: Callable[P, R],
    declared: Algorithm,
    call: Callable[..., Any],
    selector: Callable[..., int] | int | None,
) -> Callable[P, R]:
    """Return a function with the same arguments that passes them to an algorithm.

    It is compiled from source: the arguments of a call are passed once, without a tuple of them.
    """
    namespace: dict[str, Any] = {"_call": call, "_selector": selector, "_with_out": BatchOptions}
    names, parameters = inspect.signature(function).parameters, []
    for parameter in names.values():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        default = ""
        if parameter.default is not parameter.empty:
            default = f"=_{parameter.name}"
            namespace[f"_{parameter.name}"] = parameter.default
        parameters.append(parameter.name + default)
    inputs = [field.name.lstrip("_") for field in declared.inputs]
    selected: list[str] = []
    if callable(selector):
        for parameter in inspect.signature(selector).parameters.values():
            if parameter.name in names or parameter.default is parameter.empty:
                selected.append(parameter.name)
    absent = [name for name in (*inputs, *selected) if name not in names]
    if absent:
        raise ValueError(
            f"{function.__name__}: expected arguments named as the inputs and as what the selector "
            f"takes; add {', '.join(absent)}, or give the function a body"
        )
    arguments = ["model", "data", "threads"]
    if "out" in names:
        arguments[-1] += " if out is None else _with_out(threads, out)"
    if selector is not None:
        arguments.append(f"_selector({', '.join(selected)})" if callable(selector) else "_selector")
    arguments += inputs
    source = f"def {function.__name__}({', '.join(parameters)}):\n"
    exec(f"{source}    return _call({', '.join(arguments)})", namespace)
    calling = namespace[function.__name__]
    calling.__code__ = calling.__code__.replace(
        co_filename=function.__code__.co_filename,
        co_firstlineno=function.__code__.co_firstlineno,
    )
    return cast(Callable[P, R], functools.update_wrapper(calling, function))


def announce_compilation(name: str) -> None:
    """Log the start of the compilation of a function."""
    _log.warning(
        "dyn_ros: compiling %s, once for this machine; run `dyn_ros precompile` to "
        "compile everything in advance",
        name,
    )


def load_function(entry: Entry) -> Callable[..., Any]:
    """Return the function that runs an entry; compile or load its code first if necessary."""
    entry.load(lambda: announce_compilation(entry.name))
    return entry.call


def _require_distinct(name: str, what: str, items: Any, kind: type) -> tuple[Any, ...]:
    """Return items as a tuple; TypeError or ValueError unless they are distinct, of a kind."""
    if isinstance(items, kind) or not all(isinstance(item, kind) for item in items):
        raise TypeError(
            f"{name}: {what}: expected a tuple of {kind.__name__}, such as (A,), got "
            f"{short_repr(items)}"
        )
    if len(set(items)) < len(items):
        raise ValueError(f"{name}: {what}: expected distinct items, got {_join_names(items)}")
    return tuple(items)


def _join_names(items: Any) -> str:
    return ", ".join(item.name for item in items)
