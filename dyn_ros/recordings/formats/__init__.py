# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of recordings, one module for each kind.

A new kind is a module with a ``FORMAT``, see `spans.Format`, and a line in the table below. It is
imported when the first such file is opened.
"""

from pathlib import Path

SUFFIXES_OF = {
    "mcap_file": (".mcap", ".mcap.zstd"),
    "sqlite_file": (".db3", ".db3.zstd"),
    "ros1_file": (".bag", ".bag.active"),
    "table_file": (".csv", ".parquet"),
}
"""Ends of the names of files, by the module that reads them."""

SUFFIXES = tuple(suffix for suffixes in SUFFIXES_OF.values() for suffix in suffixes)
LISTED = ", ".join(suffix for suffix in SUFFIXES if suffix.count(".") == 1)
"""For people: without those of files that are compressed or still written."""

IN_ROSBAG2 = (*SUFFIXES_OF["mcap_file"], *SUFFIXES_OF["sqlite_file"])
"""Ends of the names of files in the folder of a rosbag2."""


def suffix_of(name: str) -> str | None:
    """The longest end of a name that is one of a recording, in lower case."""
    return max(
        (suffix for suffix in SUFFIXES if name.lower().endswith(suffix)), key=len, default=None
    )


def is_table(path: Path) -> bool:
    """Whether a recording is a table."""
    return path.suffix.lower() in SUFFIXES_OF["table_file"]
