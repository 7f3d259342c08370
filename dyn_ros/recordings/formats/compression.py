# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compressed chunks, messages and files, and temporary copies of files."""

from __future__ import annotations

import bz2
import functools
import importlib
import io
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from .spans import MAX_CHUNK

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_KEPT = 2  # temporary files that a process keeps
_BLOCK = 1 << 20  # bytes
_files: dict[tuple[str, int, int], tuple[Any, str]] = {}
folder: str | None = None
"""Folder of the temporary files. None: that of the system; they are removed when Python ends."""


class Damaged(ValueError):
    """A part of a file that cannot be read; the text states the reason."""


def _require(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise ImportError(
            f"recordings compressed with {name.split('.')[0]} require a package: "
            'pip install "dyn_ros[logs]"'
        ) from None


_DECOMPRESSORS: dict[str, Callable[[], Any]] = {
    "lz4": lambda: _require("lz4.frame").LZ4FrameDecompressor(),
    "bz2": bz2.BZ2Decompressor,
}
_KINDS = "zstd", *_DECOMPRESSORS


def decompress(kind: str, packed: bytes, size: int, is_cut: bool = False) -> bytes:
    """Decompress a chunk (zstd, lz4, bz2, none or empty) to a result of a ``size``.

    With ``is_cut``, the end of the data is missing, and what precedes it is returned. `Damaged` if
    it cannot be decompressed, or not to this size.
    """
    if size > MAX_CHUNK:
        raise Damaged(f"claims to contain {size:,} bytes, more than {MAX_CHUNK:,}")
    if kind in ("", "none"):
        return packed
    if kind not in _KINDS:
        raise Damaged(f"the compression {kind!r} is unknown; expected {', '.join(_KINDS)} or none")
    try:
        content = (
            _zstd(packed, size) if kind == "zstd" else _to_end(_DECOMPRESSORS[kind](), packed, size)
        )
    except ImportError:
        raise
    except Exception as error:  # each library has its own classes of errors
        raise Damaged(f"cannot be decompressed: {error}") from None
    if len(content) != size and not is_cut:
        raise Damaged(f"contains {len(content):,} bytes instead of {size:,}")
    return content


def _zstd(packed: bytes, size: int) -> bytes:
    """Up to so many bytes, also if the end is missing."""
    reader = _require("zstandard").ZstdDecompressor().stream_reader(io.BytesIO(packed))
    content = bytes(reader.read(size))
    return content + bytes(reader.read(1))  # checks the checksum at the end


def _to_end(decompressor: Any, packed: bytes, size: int) -> bytes:
    """Up to so many bytes and one; the checksum at the end is checked behind the last byte."""
    content = bytes(decompressor.decompress(packed, size))
    if len(content) == size and not decompressor.eof:
        content += decompressor.decompress(b"", 1)
    return content


def decompress_message(packed: bytes) -> bytes:
    """Decompress a message of a rosbag2 whose messages are compressed."""
    zstandard = _require("zstandard")
    try:
        size = zstandard.frame_content_size(packed)
        if 0 <= size <= _BLOCK:  # fast, but allocates what the message claims to contain
            return bytes(_decompressor(zstandard).decompress(packed))
    except zstandard.ZstdError as error:
        raise Damaged(f"cannot be decompressed: {error}") from None
    return decompress("zstd", packed, size if size >= 0 else MAX_CHUNK, size < 0)


@functools.cache
def _decompressor(zstandard: Any) -> Any:
    return zstandard.ZstdDecompressor()


def decompressed_file(path: Path) -> tuple[Path, str]:
    """A file, or a temporary one with the content of one that ends with ``.zstd``; what is wrong.

    It is valid until two others have been made. The OSError of a full disk names the remedy.
    """
    if not path.name.lower().endswith(".zstd"):
        return path, ""
    return _temporary(path, path.with_suffix("").suffix, _decompress_file)


def beginning_of_file(path: Path, size: int) -> Path:
    """A temporary file with so many bytes of the beginning of another one."""

    def copy(source: BinaryIO, target: BinaryIO) -> str:
        left = size
        while left and (block := source.read(min(_BLOCK, left))):
            left -= target.write(block)
        return ""

    return _temporary(path, path.suffix, copy)[0]


def _temporary(
    path: Path, suffix: str, write: Callable[[BinaryIO, BinaryIO], str]
) -> tuple[Path, str]:
    """A temporary file that is made once in a process, and what was found when it was written."""
    status = path.stat()
    key = str(path.resolve()), status.st_size, status.st_mtime_ns
    if key not in _files:
        while len(_files) >= _KEPT:
            _files.pop(next(iter(_files)))[0].close()
        target = tempfile.NamedTemporaryFile(prefix="dyn_ros-", suffix=suffix, dir=folder)
        try:
            with open(path, "rb") as source:
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


def _decompress_file(source: BinaryIO, target: BinaryIO) -> str:
    zstandard = _require("zstandard")
    reader = zstandard.ZstdDecompressor().stream_reader(source, read_across_frames=True)
    try:
        shutil.copyfileobj(reader, target, _BLOCK)
    except zstandard.ZstdError as error:
        return f"cannot be decompressed to its end: {error}"
    return ""
