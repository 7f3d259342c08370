# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""C program that calls exported functions with numbers from a file, and compares the results.

For each state of each function, the file has the arguments and the expected results. Each
array begins with its length, -1 for NULL.
"""

import struct
from pathlib import Path

import numpy as np

from dyn_ros.engine.kernel.fields import Field
from dyn_ros.export.c_sources import is_number
from dyn_ros.export.functions import find_functions, function_names, structure_name

PRELUDE = Path(__file__).with_name("caller.c").read_text()


def program(names=None):
    """Return the source of the program, which calls the named functions, or all."""
    functions = find_functions(names)
    tested_names = [function.name for function in functions]
    calls = "\n".join(_test_source(function) for function in functions)
    rows = "\n".join(
        f'  {{"{name}", {f"test_{name}" if name in tested_names else "NULL"}}},'
        for name in function_names()
    )
    return PRELUDE.replace("@CALLS@", calls).replace("@ROWS@", rows)


def _test_source(function):
    """Return the C function that tests an exported function."""
    lines, names = [], []
    for n, x in enumerate(function.parameters):
        if is_number(x):
            lines.append(f"    double a{n} = *next(&p);")
        elif isinstance(x, Field):
            lines.append(f"    const double *a{n} = next(&p);")
        elif kind := structure_name(x):
            lines.append(
                f"    dyn_ros_{kind} t{n}; require(read_{kind}(&t{n}, &p)); "
                f"const dyn_ros_{kind} *a{n} = &t{n};"
            )
        else:
            lines.append(f"    int a{n} = (int)*next(&p);")
        lines[-1] += f"  /* {function.parameter_name(x)} */"
        names.append(f"a{n}")
    results = [f"out[{n}]" for n in range(len(function.results))]
    return (
        f"static double test_{function.name}(const double *p, int n)\n"
        "{\n  double worst = 0.0;\n"
        f"  size_t size = dyn_ros_{function.name}_workspace_size(&model);\n"
        "  void *work = allocate(size);\n"
        f"  require(dyn_ros_{function.name}_workspace_init(&model, work, size));\n"
        "  for (; n > 0; n--) {\n" + "\n".join(lines) + "\n"
        f"    require(dyn_ros_{function.name}(&model, work, {', '.join(names + results)}));\n"
        f"    worst = compare(&p, {len(function.results)}, worst);\n"
        "  }\n  return worst;\n}\n"
    )


def pack(arrays):
    """Return arrays as bytes for the file, each with its length; None is NULL."""
    parts = []
    for array in arrays:
        if array is None:
            parts.append(struct.pack("<d", -1.0))
        else:
            flat = np.ascontiguousarray(array, float).ravel()
            parts.append(struct.pack("<d", flat.size) + flat.tobytes())
    return b"".join(parts)
