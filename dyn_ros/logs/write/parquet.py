# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of quantities as Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import __version__
from .atomic import whole_file
from .quantity_table import Table

if TYPE_CHECKING:
    import pyarrow

LEVEL = 1  # of zstd: higher ones take longer and save little, as most digits are noise
_GROUP = 1 << 17


def to_arrow(table: Table) -> pyarrow.Table:
    """The same table of pyarrow.

    The metadata of each field contain its unit; those of the table, under "dyn_ros", the names of
    the joints, the frames and the version, as JSON.
    """
    arrow = pyarrow_module()
    fields = [
        arrow.field(
            name,
            arrow.from_numpy_dtype(values.dtype),
            nullable=False,
            metadata={"unit": table.units.get(name, "")},
        )
        for name, values in table.columns.items()
    ]
    about = {
        "version": __version__,
        "names": table.names,
        "position_names": table.position_names,
        "frame": table.frame,
        "world": table.world,
    }
    schema = arrow.schema(fields, metadata={"dyn_ros": json.dumps(about)})
    return arrow.table([_column(arrow, values) for values in table.columns.values()], schema=schema)


def _column(arrow: Any, values: NDArray[Any]) -> pyarrow.Array:
    """A column without a copy; arrow.array imports pandas, which takes a quarter of a second."""
    buffer = arrow.py_buffer(np.ascontiguousarray(values))
    return arrow.Array.from_buffers(
        arrow.from_numpy_dtype(values.dtype), len(values), [None, buffer]
    )


def write(table: Table, path: str | Path) -> None:
    """Write a Parquet file, completely or not at all."""
    content = to_arrow(table)
    from pyarrow import parquet

    with whole_file(Path(path)) as file:
        parquet.write_table(
            content,
            file,
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=False,
            row_group_size=_GROUP,
        )


def pyarrow_module() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError('tables require pyarrow: pip install "dyn_ros[logs]"') from None
    return pyarrow
