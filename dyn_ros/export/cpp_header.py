# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""C++17 header: for each function, a class that owns its workspace and its results."""

from __future__ import annotations

from pathlib import Path

from .. import __version__
from ..engine.kernel.fields import MAX_CONSTRAINTS, Axis, Field, Option
from .c_header import documentation_lines
from .c_sources import is_number
from .functions import Function, structure_name

_TEMPLATE = Path(__file__).parent / "templates" / "dyn_ros.hpp"
_AXES: dict[Axis, str] = {
    "rows": "model.njoints()",
    "parameters": "10 * model.njoints()",
    "moments": "4 * model.njoints()",
    "placements": "6 * model.njoints()",
}


def cpp_header_text(functions: list[Function]) -> str:
    """Return the text of ``dyn_ros.hpp``."""
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.replace("@FUNCTIONS@", "\n".join(map(_function_class, functions))).replace(
        "@VERSION@", __version__
    )


def _function_class(function: Function) -> str:
    """Return the class that calls a function."""
    name = "".join(word[:1].upper() + word[1:] for word in function.name.split("_"))
    comment = "".join(f"// {line}".rstrip() + "\n" for line in documentation_lines(function))
    sizes = [_entry_count(result, str(MAX_CONSTRAINTS)) for result in function.results]
    starts = [" + ".join(["results_.numbers()", *sizes[:n]]) for n in range(len(sizes))]
    members = [f"{function.result_name(result)}_" for result in function.results]
    pointers = "".join(f"    {member} = {start};\n" for member, start in zip(members, starts))
    pointer_list = ", ".join(f"*{member}" for member in members)
    accessors = "".join(_result_method(function, result) for result in function.results)
    structure = next(filter(None, map(structure_name, function.parameters)), "")
    rows = "  std::size_t rows_ = 0;\n" if structure else ""
    return f"""{comment}class {name} {{
public:
  explicit {name}(const Model &model)
      : model_(&model), work_(dyn_ros_{function.name}_workspace_size(&model.c())),
        results_(sizeof(double) * ({" + ".join(sizes)}))
  {{
    const std::size_t size = dyn_ros_{function.name}_workspace_size(&model.c());
    const int error = dyn_ros_{function.name}_workspace_init(&model.c(), work_.get(), size);
    if (error) throw Error("{function.name}", error);
{pointers}  }}
{_call_operator(function, structure)}{accessors}
private:
  const Model *model_;
  detail::Memory work_, results_;
{rows}  double {pointer_list};
}};
"""


def _call_operator(function: Function, structure: str) -> str:
    """Return the operator that calls the function; ``structure`` has the number of rows, if any."""
    declarations, arguments, checks = [], [], []
    optional = function.algorithm.optional
    is_optional = [isinstance(x, Field) and x in optional for x in function.parameters]
    for n, parameter in enumerate(function.parameters):
        name = function.parameter_name(parameter)
        default = " = {}" if all(is_optional[n:]) else ""
        declarations.append(f"{_cpp_type(parameter)}{name}{default}")
        arguments.append(f"&{name}" if structure_name(parameter) else name)
        if isinstance(parameter, Field) and not is_number(parameter):
            arguments[-1] = f"{name}.data()"
            count = _entry_count(parameter, f"{structure}.rows")
            checks.append(f"!detail::fits({name}, {count})")
    for result in function.results:
        arguments.append(f"{function.result_name(result)}_")
    set_rows = f"    rows_ = static_cast<std::size_t>({structure}.rows);\n" if structure else ""
    return f"""
  int operator()({", ".join(declarations)}) noexcept
  {{
    const Model &model = *model_;
    if ({" || ".join(checks)}) return DYN_ROS_WRONG_SIZE;
{set_rows}    return dyn_ros_{function.name}(&model.c(), work_.get(), {", ".join(arguments)});
  }}
"""


def _cpp_type(parameter: Field | Option) -> str:
    """Return the C++ type of a parameter, with the space or ampersand before its name."""
    if isinstance(parameter, Option):
        structure = structure_name(parameter)
        return f"const dyn_ros_{structure} &" if structure else "int "
    return "double " if is_number(parameter) else "Numbers "


def _axis_length(axis: Axis, rows: str) -> str:
    """Return the length of an axis in C++; ``rows`` is the number of constraints."""
    if axis == "constraints":
        return f"static_cast<std::size_t>({rows})" if "." in rows else rows
    return _AXES.get(axis) or (f"{axis}u" if isinstance(axis, int) else f"model.{axis}()")


def _entry_count(field: Field, rows: str) -> str:
    """Return the number of entries of a field as an expression of C++."""
    return " * ".join(_axis_length(axis, rows) for axis in field.shape) or "1u"


def _result_method(function: Function, result: Field) -> str:
    """Return the method that returns a result."""
    name, shape = (
        function.result_name(result),
        [_axis_length(axis, "rows_") for axis in result.shape],
    )
    types = {0: "double", 1: "Numbers", 2: "Matrix", 3: "Matrices"}
    if result.transposed:
        shape[-2:] = shape[-1], shape[-2]
    body = f"*{name}_"
    if shape:
        is_transposed = [str(result.transposed).lower()] * (len(shape) == 2)
        body = f"{{{', '.join([f'{name}_', *shape, *is_transposed])}}}"
    uses_model = any("model." in axis for axis in shape)
    model = "const Model &model = *model_; " if uses_model else ""
    return f"  {types[len(shape)]} {name}() const noexcept {{ {model}return {body}; }}\n"
