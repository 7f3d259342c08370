# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Sizes that a Parquet file states of its columns and pages.

pyarrow ends the process if a column that is damaged is asked for its size: the exception of its
C++ library is not caught. It checks neither how many bytes nor how many values a page claims before
it allocates them. So both are read here, from the footer and from the headers of the pages, which
are structs in the compact protocol of Thrift.
"""

from __future__ import annotations

import os
import struct
from os import PathLike
from typing import Any, NamedTuple

from ...files.reading import open_regular_file

_MAGIC = b"PAR1"
_TRAILER_SIZE = 8  # bytes: size of the footer and magic
_MAX_FOOTER_SIZE = 16_000_000  # bytes; 1000 row groups of 100 columns have 12.5 MB, read in 5 s
_HEADER_SIZES = (1 << 9, 1 << 16, 1 << 22)  # bytes that are read of a page's header, tried in turn
_MAX_NESTING = 16  # structs and lists inside each other; footers have 6

Struct = dict[int, Any]
"""Values of a struct of Thrift by the numbers of their fields."""


class ColumnSize(NamedTuple):
    """Column of a row group, as the footer states it.

    Attributes
    ----------
    path : str
        Names of the column and of its levels, joined by dots.
    value_count : int
        Number of values, including missing ones.
    compressed_size, size : int
        Sizes of its pages in the file and uncompressed [bytes].
    offset : int
        Place of its first page in the file [bytes].
    has_range : bool
        True if it contains its smallest and largest value.
    """

    path: str
    value_count: int
    compressed_size: int
    size: int
    offset: int
    has_range: bool

    @classmethod
    def from_struct(cls, chunk: Struct) -> ColumnSize:
        """Return the column of a struct ColumnChunk."""
        column = chunk[3]
        statistics = column.get(12, {}).keys()
        return cls(
            b".".join(column[3]).decode("utf-8", "surrogateescape"),
            _require_count(column[5]),
            _require_count(column[7]),
            _require_count(column[6]),
            min(_require_count(column[k]) for k in (9, 11) if column.get(k)),
            {1, 2} <= statistics or {5, 6} <= statistics,
        )


class RowGroup(NamedTuple):
    """Row group, as the footer states it: the number of its rows, and its columns."""

    row_count: int
    columns: list[ColumnSize]


class PagesSize(NamedTuple):
    """Pages of a column, as their headers state them.

    Attributes
    ----------
    size : int
        Uncompressed size of all pages [bytes].
    value_count : int
        Number of values, including missing ones.
    """

    size: int
    value_count: int


def read_row_groups(path: str | PathLike[str]) -> list[RowGroup]:
    """Return the row groups of a Parquet file; raise a ValueError if its footer is damaged."""
    with open_regular_file(path) as file:
        end = file.seek(0, os.SEEK_END) - _TRAILER_SIZE
        file.seek(max(end, 0))
        size, magic = struct.unpack("<I4s", file.read(_TRAILER_SIZE).ljust(_TRAILER_SIZE))
        if magic != _MAGIC:
            raise ValueError("its footer is encrypted, or it is no Parquet file")
        if size > min(end, _MAX_FOOTER_SIZE):
            raise ValueError(
                f"its footer has {size:,} bytes; the limit is {_MAX_FOOTER_SIZE:,} and the size of "
                "the file"
            )
        file.seek(end - size)
        footer = file.read(size)
    try:
        return [
            RowGroup(
                _require_count(group[3]), [ColumnSize.from_struct(chunk) for chunk in group[1]]
            )
            for group in _CompactReader(footer).read_struct().get(4, ())
        ]
    except (IndexError, KeyError, TypeError, ValueError, AttributeError):
        raise ValueError("its footer is damaged, or its columns are encrypted") from None


def read_pages_size(path: str | PathLike[str], column: ColumnSize) -> PagesSize:
    """Return the size of the pages of a column; raise a ValueError if a header is damaged."""
    size = value_count = 0
    position, end = column.offset, column.offset + column.compressed_size
    with open_regular_file(path) as file:
        while position < end:
            header, header_size = _read_page_header(file.fileno(), position)
            data_header = header.get(5) or header.get(8) or {1: 0}  # a dictionary has no values
            try:
                size += _require_count(header[2])
                value_count += _require_count(data_header[1])
                position += header_size + _require_count(header[3])
            except (IndexError, KeyError, TypeError, ValueError):
                raise _damaged_page(position) from None
    return PagesSize(size, value_count)


def _read_page_header(descriptor: int, position: int) -> tuple[Struct, int]:
    """Return a struct PageHeader and its size [bytes]."""
    for size in _HEADER_SIZES:
        reader = _CompactReader(os.pread(descriptor, size, position))
        try:
            return reader.read_struct(), reader.position
        except IndexError:
            continue
        except ValueError:
            break
    raise _damaged_page(position)


def _require_count(value: Any) -> int:
    """Return a size, a place or a number of values; raise a ValueError for other values."""
    if not isinstance(value, int) or not 0 <= value < 1 << 62:
        raise ValueError(f"expected a number of bytes, rows or values, got {value!r:.40}")
    return value


def _damaged_page(position: int) -> ValueError:
    return ValueError(f"the page at byte {position:,} is damaged")


class _CompactReader:
    """Reads structs in the compact protocol of Thrift.

    An IndexError is raised at the end of the bytes, and a ValueError for bytes that are no struct.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._depth = 0
        self.position = 0

    def read_struct(self) -> Struct:
        """Return a struct."""
        fields: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return fields

    def _byte(self) -> int:
        value = self._data[self.position]
        self.position += 1
        return value

    def _bytes(self, size: int) -> bytes:
        self.position += size
        if self.position > len(self._data):
            raise IndexError("the bytes end")
        return self._data[self.position - size : self.position]

    def _unsigned(self) -> int:
        """Return an integer of variable length."""
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an integer has more than 64 bits")
        return value | byte << shift

    def _integer(self) -> int:
        """Return an integer of variable length with a sign."""
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _value(self, kind: int) -> Any:
        """Return a value of a type."""
        if kind in (4, 5, 6):
            return self._integer()
        if kind == 8:
            return self._bytes(self._unsigned())
        if kind in (1, 2, 3):  # also a truth value in a list
            return self._byte()
        if kind == 7:
            return struct.unpack("<d", self._bytes(8))[0]
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise ValueError(f"structs are nested deeper than {_MAX_NESTING}")
        value = self._collection(kind)
        self._depth -= 1
        return value

    def _collection(self, kind: int) -> Any:
        """Return a struct, a list, a set, or a map as its keys and values."""
        if kind == 12:
            return self.read_struct()
        if kind in (9, 10):
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            return [self._value(head & 15) for _ in range(count)]
        if kind == 11:
            count = self._unsigned()
            kinds = self._byte() if count else 0
            return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(count)]
        raise ValueError(f"unknown type {kind}")
