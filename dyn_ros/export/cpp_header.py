# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The header for C++17: a class for each function, which owns its workspace and its results."""

from __future__ import annotations

from pathlib import Path

from .. import __version__
from ..engine.kernel.fields import MAX_CONSTRAINTS, Axis, Field, Option
from .functions import Function, table_name
from .header import documentation
from .sources import is_number

_TEMPLATE = Path(__file__).parent / "templates" / "dyn_ros.hpp"
_AXES: dict[Axis, str] = {
    "rows": "model.njoints()",
    "parameters": "10 * model.njoints()",
    "moments": "4 * model.njoints()",
    "placements": "6 * model.njoints()",
}


def header(functions: list[Function]) -> str:
    """``dyn_ros.hpp``."""
    template = _TEMPLATE.read_text(encoding="utf-8")
    return template.replace("@FUNCTIONS@", "\n".join(map(_class, functions))).replace(
        "@VERSION@", __version__
    )


def _class(one: Function) -> str:
    name = "".join(word[:1].upper() + word[1:] for word in one.name.split("_"))
    comment = "".join(f"// {line}".rstrip() + "\n" for line in documentation(one))
    sizes = [_count(known, str(MAX_CONSTRAINTS)) for known in one.results]
    starts = [" + ".join(["results_.numbers()", *sizes[:n]]) for n in range(len(sizes))]
    pointers = "".join(
        f"    {one.result_name(known)}_ = {start};\n" for known, start in zip(one.results, starts)
    )
    members = ", ".join(f"*{one.result_name(known)}_" for known in one.results)
    accessors = "".join(_accessor(one, known) for known in one.results)
    table = next(filter(None, map(table_name, one.parameters)), "")
    rows = "  std::size_t rows_ = 0;\n" if table else ""
    return f"""{comment}class {name} {{
public:
  explicit {name}(const Model &model)
      : model_(&model), work_(dyn_ros_{one.name}_workspace_size(&model.c())),
        results_(sizeof(double) * ({" + ".join(sizes)}))
  {{
    const std::size_t size = dyn_ros_{one.name}_workspace_size(&model.c());
    const int error = dyn_ros_{one.name}_workspace_init(&model.c(), work_.get(), size);
    if (error) throw Error("{one.name}", error);
{pointers}  }}
{_call(one, table)}{accessors}
private:
  const Model *model_;
  detail::Memory work_, results_;
{rows}  double {members};
}};
"""


def _call(one: Function, table: str) -> str:
    """The operator that calls the function."""
    parameters, arguments, checks = [], [], []
    optional = [isinstance(x, Field) and x in one.algorithm.optional for x in one.parameters]
    for n, x in enumerate(one.parameters):
        name = one.parameter_name(x)
        default = " = {}" if all(optional[n:]) else ""
        parameters.append(f"{_type(x)}{name}{default}")
        arguments.append(f"&{name}" if table_name(x) else name)
        if isinstance(x, Field) and not is_number(x):
            arguments[-1] = f"{name}.data()"
            checks.append(f"!detail::fits({name}, {_count(x, f'{table}.rows')})")
    for known in one.results:
        arguments.append(f"{one.result_name(known)}_")
    count = f"    rows_ = static_cast<std::size_t>({table}.rows);\n" if table else ""
    return f"""
  int operator()({", ".join(parameters)}) noexcept
  {{
    const Model &model = *model_;
    if ({" || ".join(checks)}) return DYN_ROS_WRONG_SIZE;
{count}    return dyn_ros_{one.name}(&model.c(), work_.get(), {", ".join(arguments)});
  }}
"""


def _type(known: Field | Option) -> str:
    if isinstance(known, Option):
        return f"const dyn_ros_{table_name(known)} &" if table_name(known) else "int "
    return "double " if is_number(known) else "Numbers "


def _length(axis: Axis, rows: str) -> str:
    if axis == "constraints":
        return f"static_cast<std::size_t>({rows})" if "." in rows else rows
    return _AXES.get(axis) or (f"{axis}u" if isinstance(axis, int) else f"model.{axis}()")


def _count(known: Field, rows: str) -> str:
    """The number of entries of a field."""
    return " * ".join(_length(axis, rows) for axis in known.shape) or "1u"


def _accessor(one: Function, known: Field) -> str:
    """The method that returns a result."""
    name, shape = one.result_name(known), [_length(axis, "rows_") for axis in known.shape]
    kinds = {0: "double", 1: "Numbers", 2: "Matrix", 3: "Matrices"}
    if known.transposed:
        shape[-2:] = shape[-1], shape[-2]
    body = f"*{name}_"
    if shape:
        end = [f"{str(known.transposed).lower()}"] * (len(shape) == 2)
        body = f"{{{', '.join([f'{name}_', *shape, *end])}}}"
    uses_model = any("model." in axis for axis in shape)
    before = "const Model &model = *model_; " if uses_model else ""
    return f"  {kinds[len(shape)]} {name}() const noexcept {{ {before}return {body}; }}\n"
