# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that exist completely or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def write_whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file to write that appears under its name once it is complete and on the disk.

    Until then it is named ``.NAME.xxxxxxxx.tmp``, which readers of a folder ignore. After an error
    it is removed, and a previous file of that name remains. Its folder is created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _flush_folder(path.parent)


def _flush_folder(folder: Path) -> None:
    """Write the names in a folder to the disk, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
