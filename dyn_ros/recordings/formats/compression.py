# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compressed chunks, messages and files, and temporary copies of files."""

from __future__ import annotations

import bz2
import errno
import functools
import importlib
import io
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from ...files.limits import Limits
from ...files.reading import open_regular_file

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MAX_TEMPORARY_FILES = 2  # files of a process; older ones are removed
_BLOCK_SIZE = 1 << 20  # bytes
_files: dict[tuple[str, int, int, int], tuple[Any, str]] = {}
folder: str | None = None
"""Folder of temporary files, which are removed when Python ends; None for the system's folder."""


class Damaged(ValueError):
    """Error about content that cannot be read, with the reason."""


class TooLarge(Damaged):
    """Error about content that exceeds a limit."""


def import_package(name: str) -> Any:
    """Import an optional package; the ImportError names the command that installs it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f"recordings compressed with {name.split('.')[0]} require a package: "
            'pip install "dyn_ros[logs]"'
        ) from None


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": lambda: import_package("lz4.frame").LZ4FrameDecompressor(),
    "bz2": bz2.BZ2Decompressor,
}
_COMPRESSIONS = "zstd", *_DECOMPRESSORS


def decompress_chunk(kind: str, compressed: bytes, size: int, is_cut: bool = False) -> bytes:
    """Decompress a chunk (zstd, lz4, bz2, none or empty) to ``size`` bytes.

    With ``is_cut``, the end of the data is missing, and the result may be shorter. Raise `Damaged`
    if it cannot be decompressed, or has another size. Allocates up to ``size`` bytes.
    """
    if kind in ("", "none"):
        return compressed
    if kind not in _COMPRESSIONS:
        raise Damaged(
            f"the compression {kind!r} is unknown; expected {', '.join(_COMPRESSIONS)} or none"
        )
    try:
        content = (
            _decompress_zstd(compressed, size)
            if kind == "zstd"
            else _decompress_to_end(_DECOMPRESSORS[kind](), compressed, size)
        )
    except ImportError:
        raise
    except Exception as error:  # each library has its own classes of errors
        raise Damaged(f"cannot be decompressed: {error}") from None
    if len(content) != size and not is_cut:
        raise Damaged(f"contains {len(content):,} bytes instead of {size:,}")
    return content


def _decompress_zstd(compressed: bytes, size: int) -> bytes:
    """Return up to ``size`` bytes and one, also if the end of the data is missing."""
    reader = import_package("zstandard").ZstdDecompressor().stream_reader(io.BytesIO(compressed))
    content = bytes(reader.read(size))
    return content + bytes(reader.read(1))  # checks the checksum at the end


def _decompress_to_end(decompressor: Any, compressed: bytes, size: int) -> bytes:
    """Return up to ``size`` bytes and one, as the checksum is checked after the last byte."""
    content = bytes(decompressor.decompress(compressed, size))
    if len(content) == size and not decompressor.eof:
        content += decompressor.decompress(b"", 1)
    return content


def decompress_message(compressed: bytes, max_size: int) -> bytes:
    """Decompress a message of a rosbag2 whose messages are compressed.

    Raise `Damaged` if it cannot be decompressed, `TooLarge` if it holds more than ``max_size``
    bytes.
    """
    zstandard = import_package("zstandard")
    try:
        size = zstandard.frame_content_size(compressed)
        if 0 <= size <= min(_BLOCK_SIZE, max_size):  # fast, but allocates the claimed size
            return bytes(_message_decompressor(zstandard).decompress(compressed))
    except zstandard.ZstdError as error:
        raise Damaged(f"cannot be decompressed: {error}") from None
    if size > max_size:
        raise TooLarge
    content = decompress_chunk("zstd", compressed, size if size >= 0 else max_size, size < 0)
    if len(content) > max_size:
        raise TooLarge
    return content


@functools.cache
def _message_decompressor(zstandard: Any) -> Any:
    """Return a decompressor of messages, which is reused."""
    return zstandard.ZstdDecompressor()


def decompressed_file(path: Path, limits: Limits) -> tuple[Path, str]:
    """Return a file, decompressed to a temporary one if it ends with ``.zstd``, and its damage.

    The temporary file has up to ``limits.content_size`` bytes. It is valid until two others have
    been made. The OSError of a full disk names the remedy.
    """
    if not path.name.lower().endswith(".zstd"):
        return path, ""

    def decompress(source: BinaryIO, target: BinaryIO) -> str:
        """Write the content of a compressed file; return its damage, or an empty string."""
        return _decompress_file(source, target, limits)

    return _temporary_file(path, path.with_suffix("").suffix, limits.content_size, decompress)


def beginning_of_file(path: Path, size: int) -> Path:
    """Return a temporary file with the first ``size`` bytes of a file.

    It ends where the file stores no more data: a sparse file can claim any size.
    """

    def copy_beginning(source: BinaryIO, target: BinaryIO) -> str:
        """Copy the stored data to the same places; return no damage."""
        for start, stop in _stored_ranges(source, size):
            source.seek(start)
            target.seek(start)
            while (missing := stop - source.tell()) > 0:
                if not target.write(source.read(min(_BLOCK_SIZE, missing))):
                    break  # the file has become shorter
        return ""

    return _temporary_file(path, path.suffix, size, copy_beginning)[0]


def _stored_ranges(file: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of the first ``size`` bytes that are no holes of a sparse file."""
    stop = 0
    while stop < size:
        try:
            start = os.lseek(file.fileno(), stop, os.SEEK_DATA)
            stop = os.lseek(file.fileno(), start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # no data behind
        if start < size:
            yield start, min(stop, size)


def _temporary_file(
    path: Path, suffix: str, max_size: int, write: Callable[[BinaryIO, BinaryIO], str]
) -> tuple[Path, str]:
    """Return a temporary file, written once in a process, and the damage that ``write`` returns."""
    status = path.stat()
    key = str(path.resolve()), status.st_size, status.st_mtime_ns, max_size
    if key not in _files:
        while len(_files) >= _MAX_TEMPORARY_FILES:
            _files.pop(next(iter(_files)))[0].close()
        target = tempfile.NamedTemporaryFile(prefix="dyn_ros-", suffix=suffix, dir=folder)
        try:
            with open_regular_file(path) as source:
                damage = write(source, cast(BinaryIO, target))
            target.flush()
        except OSError as error:
            target.close()
            raise OSError(
                error.errno,
                f"{path} cannot be copied to the temporary folder: "
                f"{error.strerror}; set TMPDIR to a folder with more space",
                tempfile.gettempdir(),
            ) from None
        _files[key] = target, damage
    file, damage = _files[key]
    return Path(file.name), damage


def _decompress_file(source: BinaryIO, target: BinaryIO, limits: Limits) -> str:
    """Write the content of a compressed file within limits; return its damage, or ""."""
    zstandard = import_package("zstandard")
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    remaining = limits.content_size
    try:
        while block := reader.read(min(_BLOCK_SIZE, remaining + 1)):
            if len(block) > remaining:
                return f"is read to its byte {limits.content_size:,}: {limits.describe_content()}"
            remaining -= target.write(block)
    except zstandard.ZstdError as error:
        return f"cannot be decompressed to its end: {error}"
    return ""
