# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parquet files of quantities."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ... import __version__
from ...files.writing import write_whole_file
from .quantity_table import Table

if TYPE_CHECKING:
    import pyarrow

_COMPRESSION_LEVEL = 1  # zstd; higher levels take longer and save little: most digits are noise
_ROW_GROUP_SIZE = 1 << 17  # rows


def to_arrow(table: Table) -> pyarrow.Table:
    """Return a table of pyarrow.

    The metadata of each field contain its unit. The metadata of the table contain, under "dyn_ros",
    the names of the joints, the frames and the version, as JSON.
    """
    arrow = import_pyarrow()
    fields = [
        arrow.field(
            name,
            arrow.from_numpy_dtype(values.dtype),
            nullable=False,
            metadata={"unit": table.units.get(name, "")},
        )
        for name, values in table.columns.items()
    ]
    metadata = {
        "version": __version__,
        "names": table.names,
        "position_names": table.position_names,
        "frame": table.frame,
        "world": table.world,
    }
    schema = arrow.schema(fields, metadata={"dyn_ros": json.dumps(metadata)})
    arrays = [_arrow_array(arrow, values) for values in table.columns.values()]
    return arrow.table(arrays, schema=schema)


def _arrow_array(arrow: Any, values: NDArray[Any]) -> pyarrow.Array:
    """Return an array of pyarrow that shares the memory of ``values``.

    ``arrow.array`` would import pandas, which takes a quarter of a second.
    """
    buffer = arrow.py_buffer(np.ascontiguousarray(values))
    return arrow.Array.from_buffers(
        arrow.from_numpy_dtype(values.dtype), len(values), [None, buffer]
    )


def write_parquet(table: Table, path: str | Path) -> None:
    """Write a Parquet file, completely or not at all."""
    arrow_table = to_arrow(table)
    from pyarrow import parquet

    with write_whole_file(Path(path), create_folder=True) as file:
        parquet.write_table(
            arrow_table,
            file,
            compression="zstd",
            compression_level=_COMPRESSION_LEVEL,
            use_dictionary=False,
            row_group_size=_ROW_GROUP_SIZE,
        )


def import_pyarrow() -> Any:
    """Return the module pyarrow; raise an ImportError that names the command that installs it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError('tables require pyarrow: pip install "dyn_ros[logs]"') from None
    return pyarrow
