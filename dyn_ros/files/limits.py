# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Limits of what is read from a recording, so that small files cannot fill memory or disk."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

MAX_CHUNK_SIZE = 64_000_000
"""Default of the largest size of a chunk [bytes, uncompressed].

Reading one takes up to five times its size. Programs write chunks of about 1 MB, or of one message
if that is larger.
"""

MAX_EXPANSION = 400
"""Largest size of content relative to the file, without what `_FREE_CHUNKS` may hold.

Compressed with zstd, ``joint_states`` of 30 joints that stand still have 100 times the size, and
their ``dynamic_joint_states`` with three interfaces 195 times.
"""

_FREE_CHUNKS = 4
"""Chunks of the largest size that a file may contain whatever its own size."""


def describe_chunk(size: float, limit: float) -> str:
    """Return a sentence on a chunk that is too large; sizes in bytes."""
    return (
        f"it holds {size:,.0f} bytes, more than the limit of {limit:,.0f}; pass max_chunk_size= to "
        "read it"
    )


class Limits(NamedTuple):
    """Limits of what is read from a file.

    Attributes
    ----------
    chunk_size : int
        Size of a chunk, a message, or a row [bytes, uncompressed].
    content_size : int
        Size of all chunks [bytes, uncompressed].
    """

    chunk_size: int
    content_size: int

    @classmethod
    def of_file(cls, path: Path, max_chunk_size: float = MAX_CHUNK_SIZE) -> Limits:
        """Return the limits of a file; the limit of all chunks depends on its size."""
        chunk_size = int(max_chunk_size)
        return cls(chunk_size, _FREE_CHUNKS * chunk_size + MAX_EXPANSION * path.stat().st_size)

    def describe_chunk(self, size: int) -> str:
        """Return a sentence on a chunk that is too large."""
        return describe_chunk(size, self.chunk_size)

    def describe_content(self) -> str:
        """Return a sentence on a file whose content is too large."""
        return (
            f"its content is larger than the limit of {self.content_size:,} bytes for a file of "
            "this size; pass max_chunk_size= with a larger number of bytes to read more"
        )
