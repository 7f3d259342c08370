# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Generalized ufuncs of functions of the engine, for Dask and xarray."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..engine.call.algorithm import ALGORITHMS
from ..engine.call.data import Data
from ..engine.kernel.fields import axis_lengths
from ..engine.kernel.types import Array
from ..engine.kernel.validation import require_model
from ..engine.model import Model

_DIMENSION_NAMES = {"nq": "q", "nv": "v"}

Shape = tuple[str | int, ...]


def gufunc(
    function: Callable[..., Any],
    model: Model,
    *,
    inputs: Sequence[str] | None = None,
    **options: Any,
) -> GeneralizedUfunc:
    """Make a generalized ufunc of a function of the engine, for Dask and xarray.

    It can be pickled, and each thread that calls it has its own ``Data``. Pass its ``signature``
    and ``output_dtypes`` to ``dask.array.apply_gufunc``, and if the result has axes that no input
    has, its ``output_sizes``. ``xarray.apply_ufunc`` accepts it directly.

    Parameters
    ----------
    function : callable
        Function of the engine, such as ``dyn_ros.rnea``.
    model : Model
    inputs : sequence of str, optional
        Names of the arguments that are arrays, in their order. By default, the arguments that the
        function requires.
    **options
        Other arguments, such as ``frame="tool"``.

    Returns
    -------
    GeneralizedUfunc
        Function of arrays whose last axes are the core dimensions of its ``signature``.

    Raises
    ------
    TypeError
        ``model`` is not a model.
    ValueError
        ``function`` is not a function of the engine for single states, or an argument is unknown.

    Examples
    --------
    Time steps of several robots, with two leading axes:

    >>> rnea = dyn_ros.logs.gufunc(dyn_ros.rnea, model)
    >>> rnea.signature
    '(q),(v),(v)->(v)'
    >>> rnea(np.zeros((3, 10, 7)), np.zeros((3, 10, 7)), np.zeros((3, 10, 7))).shape
    (3, 10, 7)
    """
    return GeneralizedUfunc(function, require_model(model), inputs, options)


class GeneralizedUfunc:
    """A function of the engine for arrays with any number of leading axes; see ``gufunc``.

    Attributes
    ----------
    signature : str
        Core dimensions of the inputs and results, such as "(q),(v),(v)->(v)".
    output_sizes : dict
        Sizes of the dimensions that no input has, by name.
    output_dtypes : tuple of type
        ``float`` for each result.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        model: Model,
        inputs: Sequence[str] | None,
        options: dict[str, Any],
    ) -> None:
        self._function, self._model, self._options = function, model, options
        self.__name__ = getattr(function, "__name__", repr(function))
        self._thread_local = threading.local()
        self._names = _input_names(self.__name__, function, inputs, options)
        shapes = [_input_shape(self.__name__, name) for name in self._names]
        self._input_shapes = [axis_lengths(model, shape) for shape in shapes]
        result = self._call(
            [
                model.neutral() if shape == ("nq",) else np.zeros(size)
                for shape, size in zip(shapes, self._input_shapes)
            ]
        )
        self._has_one_result = not isinstance(result, tuple)
        self._result_shapes = [np.shape(array) for array in _as_tuple(result)]
        axes = _result_axes(model, self.__name__, self._result_shapes)
        inputs_signature, results_signature = (
            ",".join(map(_core_dimensions, shape_list)) for shape_list in (shapes, axes)
        )
        self.signature = f"{inputs_signature}->{results_signature}"
        input_axes = {axis for shape in shapes for axis in shape}
        self.output_sizes = {
            _dimension_name(axis): size
            for names, shape in zip(axes, self._result_shapes)
            for axis, size in zip(names, shape)
            if axis not in input_axes
        }
        self.output_dtypes = (float,) * len(self._result_shapes)

    def __reduce__(self) -> tuple[Any, ...]:  # without the Data of threads
        return GeneralizedUfunc, (self._function, self._model, self._names, self._options)

    def __repr__(self) -> str:
        return f"gufunc({self.__name__}, {self._model.name!r}): {self.signature}"

    def __call__(self, *arrays: ArrayLike) -> Any:
        """Compute the function; leading axes are broadcast.

        Parameters
        ----------
        *arrays : array_like
            Inputs whose last axes are the core dimensions of ``signature``.

        Returns
        -------
        ndarray or tuple of ndarray

        Raises
        ------
        ValueError
            The number of arrays or their shapes are wrong, or the function raises it.
        """
        if len(arrays) != len(self._input_shapes):
            raise ValueError(
                f"{self.__name__}: expected {len(self._input_shapes)} arrays, "
                f"{', '.join(self._names)}, got {len(arrays)}"
            )
        input_arrays = [np.asarray(array) for array in arrays]
        leading = np.broadcast_shapes(
            *(
                array.shape[: max(array.ndim - len(core), 0)]
                for array, core in zip(input_arrays, self._input_shapes)
            )
        )
        if leading:
            input_arrays = [
                _flatten_leading(array, leading, len(core))
                for array, core in zip(input_arrays, self._input_shapes)
            ]
        results = [
            np.reshape(result, leading + shape) if leading else np.array(result)
            for result, shape in zip(_as_tuple(self._call(input_arrays)), self._result_shapes)
        ]
        return results[0] if self._has_one_result else tuple(results)

    def _call(self, arrays: Sequence[Array]) -> Any:
        """Call the function for arrays with at most one leading axis."""
        if not hasattr(self._thread_local, "data"):
            self._thread_local.data = Data(self._model)
        return self._function(
            self._model, self._thread_local.data, **dict(zip(self._names, arrays)), **self._options
        )


def _as_tuple(result: Any) -> tuple[Any, ...]:
    """Return one or several results as a plain tuple."""
    return tuple(result) if isinstance(result, tuple) else (result,)


def _flatten_leading(array: Array, leading: tuple[int, ...], core: int) -> Array:
    """Broadcast the leading axes of an array, and merge them to one."""
    shape = array.shape[array.ndim - core :]
    return np.ascontiguousarray(np.broadcast_to(array, leading + shape)).reshape(-1, *shape)


def _input_names(
    name: str, function: Callable[..., Any], inputs: Sequence[str] | None, options: dict[str, Any]
) -> tuple[str, ...]:
    """Return the names of the arguments that are arrays."""
    try:
        parameters = dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = {}
    if list(parameters)[:2] != ["model", "data"]:
        raise ValueError(
            f"function: expected a function of the engine, such as dyn_ros.rnea, got {name}"
        )
    engine_parameters = list(parameters.values())[2:]
    unknown = [key for key in (*options, *(inputs or ())) if key not in list(parameters)[2:]]
    if unknown:
        raise ValueError(
            f"{name}: has no argument {unknown[0]!r}; it has "
            f"{', '.join(parameter.name for parameter in engine_parameters)}"
        )
    if inputs is not None:
        return tuple(inputs)
    return tuple(
        parameter.name
        for parameter in engine_parameters
        if parameter.default is parameter.empty and parameter.name not in options
    )


def _input_shape(name: str, argument: str) -> Shape:
    """Return the axes of an argument of a function, from its algorithm or else from any other."""
    algorithms = [ALGORITHMS[name]] if name in ALGORITHMS else []
    for algorithm in (*algorithms, *ALGORITHMS.values()):
        for field in algorithm.inputs:
            if field.name.lstrip("_") == argument and not (field.is_open or field.summed):
                shape: Shape = field.shape
                return shape
    raise ValueError(
        f"{name}: the argument {argument!r} is not an array with a row for each "
        f"state; pass it as an option, {argument}=..."
    )


def _result_axes(model: Model, name: str, shapes: Sequence[tuple[int, ...]]) -> list[Shape]:
    """Return the axes of the results: names if the algorithm declares them, otherwise sizes."""
    fields = ALGORITHMS[name].results if name in ALGORITHMS else ()
    declared = [field.shape[::-1] if field.transposed else field.shape for field in fields]
    sizes = [axis_lengths(model, shape) for shape in declared]
    return declared if sizes == list(shapes) else list(shapes)


def _dimension_name(axis: str | int) -> str:
    """Return the name of a core dimension, from the name or length of an axis."""
    return _DIMENSION_NAMES.get(str(axis), str(axis))


def _core_dimensions(shape: Shape) -> str:
    """Return the core dimensions of an array as in a signature, such as "(q)"."""
    return f"({','.join(map(_dimension_name, shape))})"
