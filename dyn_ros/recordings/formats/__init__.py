# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of recordings, one module for each format.

`sources` opens recordings and reads their spans, whatever their format. A format is a module with a
``FORMAT``, see `spans.Format`, and a line in ``SUFFIXES_BY_MODULE``, so that it is imported only
when such a file is opened.
"""

from pathlib import Path

SUFFIXES_BY_MODULE = {
    "mcap_file": (".mcap", ".mcap.zstd"),
    "sqlite_file": (".db3", ".db3.zstd"),
    "ros1_file": (".bag", ".bag.active"),
    "table_file": (".csv", ".parquet"),
}
"""Suffixes of files by the module that reads them."""

SUFFIXES = tuple(suffix for suffixes in SUFFIXES_BY_MODULE.values() for suffix in suffixes)
SUFFIX_LIST = ", ".join(suffix for suffix in SUFFIXES if suffix.count(".") == 1)
"""Suffixes in help texts, without suffixes of compressed files and of files still written."""

ROSBAG2_SUFFIXES = (*SUFFIXES_BY_MODULE["mcap_file"], *SUFFIXES_BY_MODULE["sqlite_file"])
"""Suffixes of files in the folder of a rosbag2."""


def recording_suffix(name: str) -> str | None:
    """Return the longest recording suffix of a file name, in lower case, or None."""
    return max(
        (suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), key=len, default=None
    )


def is_table(path: Path) -> bool:
    """Return True if a recording is a table."""
    return path.suffix.lower() in SUFFIXES_BY_MODULE["table_file"]
