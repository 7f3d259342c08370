# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings: finding them, opening them, and reading their spans."""
from __future__ import annotations

import glob
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from . import mcap_file, ros1_file, sqlite_file
from .compression import ZSTD_MAGIC, Damaged, decompress_message, decompressed_file
from .decode import Decoder, Messages
from .source import (
    CDR,
    JOINT_STATE,
    ODOMETRY,
    ROS1,
    STRING,
    TABLE,
    CodeOf,
    Format,
    Raw,
    Scan,
    Span,
    Topic,
    merged,
)

_FORMATS = {".mcap": Format(mcap_file.scan, mcap_file.load),
            ".db3": Format(sqlite_file.scan, sqlite_file.load),
            ".bag": Format(ros1_file.scan, ros1_file.load),
            ".bag.active": Format(ros1_file.scan, ros1_file.load)}
_TABLES = (".csv", ".parquet")
_ROSBAG2 = (".mcap", ".db3", ".mcap.zstd", ".db3.zstd")
_PACKED = ".zstd"
SUFFIXES = (".bag.active", ".mcap.zstd", ".db3.zstd", ".mcap", ".db3", ".bag", *_TABLES)
"""Ends of the names of recordings."""

_METADATA = "metadata.yaml"
_MANIFEST = "_manifest.json"        # in a folder of results
_DECODABLE = (CDR, ROS1, TABLE)


@dataclass(frozen=True)
class Source:
    """A recording that can be read in parts. It can be pickled.

    Attributes
    ----------
    path : Path
        A file, or the folder of a rosbag2.
    name : str
        Of the file without its suffix, or of the folder.
    topics : tuple of Topic
    spans : tuple of Span
        By their start; they may overlap in time.
    damage : str
        What is wrong with the file and what can be read nevertheless, or "".
    """

    path: Path
    name: str
    topics: tuple[Topic, ...]
    spans: tuple[Span, ...]
    damage: str = ""

    def messages(self, span: Span, topics: Collection[str], decoder: Decoder) -> Messages:
        """Read the joint states and odometry of a span, see ``read_span``."""
        return read_span(self.path, span, topics, decoder)

    def description(self) -> str | None:
        """Return the robot description: the first text on a topic of that name, or None.

        Raises
        ------
        OSError
            The file cannot be read.
        """
        names = {topic.name for topic in self.topics
                 if topic.type == STRING and topic.name.endswith("robot_description")
                 and topic.encoding in (CDR, ROS1)}
        for span in self.spans if names else ():
            text = _first_text(self.path, span, names)
            if text is not None:
                return text
        return None


def _first_text(path: Path, span: Span, names: set[str]) -> str | None:
    def code_of(name: str, kind: str, encoding: str) -> int | None:
        is_text = name in names and kind == STRING
        return {CDR: 0, ROS1: 2}.get(encoding) if is_text else None

    raw = _load(path, span, code_of)
    for code, _, offset, length in raw.rows[np.argsort(raw.rows[:, 1], kind="stable")].tolist():
        data = raw.content[offset:offset + length].tobytes()
        if code == 0:
            order: Any = "little" if data[1:2] == b"\x01" else "big"
            text = data[8:8 + int.from_bytes(data[4:8], order)]
        else:
            text = data[4:4 + int.from_bytes(data[:4], "little")]
        if text.strip(b"\0"):
            return text.rstrip(b"\0").decode("utf-8", "replace")
    return None


# --- finding

def _suffix(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def discover(paths: Iterable[str | PathLike[str]]) -> list[Path]:
    """Find recordings.

    Parameters
    ----------
    paths : iterable of str or PathLike
        Files; folders of a rosbag2, with a metadata.yaml, each of which is one recording; other
        folders, for all recordings below them; patterns such as ``bags/2024-*/*.mcap``.

    Returns
    -------
    list of Path
        Sorted, each once.

    Raises
    ------
    ValueError
        One of the paths does not exist or leads to no recording; names it.
    """
    if isinstance(paths, (str, PathLike)):
        paths = [paths]
    found: set[Path] = set()
    for path in paths:
        found.update(_discover(str(path)))
    return sorted(found)


def _discover(text: str) -> list[Path]:
    path = Path(text).expanduser()
    expected = f"expected a file that ends with {', '.join(SUFFIXES)}, or a folder with recordings"
    if path.exists():
        found = list(_below(path))
        if not found:
            raise ValueError(f"{text!r} is no recording: {expected}")
        return found
    if not glob.has_magic(text):
        raise ValueError(f"{text!r} does not exist: {expected}, or a pattern")
    found = [each for match in glob.glob(str(path), recursive=True) for each in _below(Path(match))]
    if not found:
        raise ValueError(f"no recording matches the pattern {text!r}: {expected}")
    return found


def _below(path: Path) -> Iterator[Path]:
    """The recording at a path, or those below a folder."""
    if path.name == _METADATA:
        yield path.parent
    elif path.is_dir():
        if (path / _METADATA).is_file():
            yield path
        elif not (path / _MANIFEST).exists():
            for each in sorted(path.iterdir()):
                if not each.name.startswith((".", "_")):
                    yield from _below(each)
    elif _suffix(path):
        yield path


# --- opening

def open_source(path: str | PathLike[str]) -> Source:
    """Open a recording: find its topics and spans.

    Parameters
    ----------
    path : str or PathLike
        One of those that ``discover`` returns.

    Returns
    -------
    Source

    Raises
    ------
    ValueError
        It is no recording, or nothing of it can be read.
    OSError
        The file does not exist or cannot be read.
    ImportError
        A package is missing for this kind of file; names the command that installs it.
    """
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    suffix = _suffix(path)
    if suffix is None:
        raise ValueError(f"{str(path)!r}: expected a file that ends with {', '.join(SUFFIXES)}, or "
                         "the folder of a rosbag2")
    name = path.name[:-len(suffix)]
    found = _scan(path)
    return Source(path, name, found.topics, _sorted(_placed("", found)),
                  _joined(found.damage, found.topics))


def _open_folder(path: Path) -> Source:
    """Open a rosbag2, which may have several files."""
    names, damage = _files_of(path)
    topics: list[Topic] = []
    spans: list[Span] = []
    errors: list[Exception] = []
    for name in names:
        try:
            found = _scan(path / name)
        except (ValueError, OSError) as error:
            errors.append(error)
            damage.append(str(error))
            continue
        topics += found.topics
        spans += _placed(name, found)
        if found.damage:
            damage.append(f"{name} {found.damage}")
    if errors and len(errors) == len(names):
        raise errors[0]
    return Source(path, path.resolve().name, merged(topics), _sorted(spans),
                  _joined("; ".join(damage), tuple(topics)))


def _files_of(path: Path) -> tuple[list[str], list[str]]:
    """Files of a rosbag2 in the order of its metadata, and what is missing."""
    metadata = path / _METADATA
    text = metadata.read_text(encoding="utf-8", errors="replace") if metadata.is_file() else ""
    listed = re.search(r"^\s*relative_file_paths:\s*\n((?:\s*-\s.*\n?)+)", text, re.MULTILINE)
    names, damage = [], []
    for line in listed[1].splitlines() if listed else ():
        name = line.strip()[1:].strip().strip("'\"")
        existing = [each for each in (name, Path(name).name) if (path / each).is_file()]
        if not existing:
            damage.append(f"{name} is missing, which its {_METADATA} lists")
        elif _suffix(path / existing[0]):
            names.append(existing[0])
    if not names:
        names = sorted(each.name for each in path.iterdir()
                       if each.is_file() and _suffix(each) in _ROSBAG2)
        if len(names) > 1 and not metadata.is_file():
            raise ValueError(f"{str(path)!r}: contains {len(names)} recordings and no {_METADATA}, "
                             "which joins the files of a rosbag2; pass one of them, such as "
                             f"{names[0]}")
    if not names:
        raise ValueError(f"{str(path)!r}: there is no file of a rosbag2 in this folder; expected "
                         "one recording"
                         + "".join(f"; {text}" for text in damage))
    return names, damage


def _scan(path: Path) -> Scan:
    suffix = _suffix(path) or ""
    if suffix in _TABLES:
        from . import table_file  # needs SciPy
        return table_file.scan(path)
    if not suffix.endswith(_PACKED):
        return _FORMATS[suffix].scan(path)
    plain, damage = decompressed_file(path)
    found = _FORMATS[suffix[:-len(_PACKED)]].scan(plain)
    return found._replace(damage="; ".join(filter(None, (damage, found.damage))))


def _placed(name: str, found: Scan) -> list[Span]:
    """Spans that know the file of a folder that they are in."""
    return [span._replace(place=(name, span.place)) for span in found.spans]


def _sorted(spans: list[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans, key=lambda span: span.start))


def _joined(damage: str, topics: tuple[Topic, ...]) -> str:
    """Damage, and topics of joint states or odometry that cannot be decoded."""
    unknown = [f"the encoding {topic.encoding!r} of {topic.name} cannot be decoded, expected "
               f"{CDR!r} or {ROS1!r}" for topic in topics
               if topic.type in (JOINT_STATE, ODOMETRY) and topic.encoding not in _DECODABLE]
    return "; ".join(filter(None, (damage, *unknown)))


# --- reading

def read_span(path: Path, span: Span, topics: Collection[str], decoder: Decoder) -> Messages:
    """Read the joint states and odometry of a span.

    Parameters
    ----------
    path : Path
        Of the recording.
    span : Span
        One of its spans.
    topics : collection of str
        Names of the topics to read.
    decoder : Decoder
        Keeps the names of joints, and what could not be decoded.

    Returns
    -------
    Messages
        In order of log time; those with equal log times in the order of the file.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    name, place = span.place
    if (_suffix(path / name) or "") in _TABLES:
        from . import table_file
        return table_file.read(path / name, place, topics, decoder)

    def code_of(name: str, kind: str, encoding: str) -> int | None:
        return decoder.code(name, kind, encoding) if name in topics else None

    return decoder.decode(_load(path, span, code_of))


def _load(path: Path, span: Span, code_of: CodeOf) -> Raw:
    """Serialized messages of a span."""
    name, place = span.place
    file = path / name
    suffix = _suffix(file) or ""
    if suffix.endswith(_PACKED):
        file, suffix = decompressed_file(file)[0], suffix[:-len(_PACKED)]
    return _unpacked(_FORMATS[suffix].load(file, place, code_of))


def _unpacked(raw: Raw) -> Raw:
    """The messages, decompressed if they are compressed one by one."""
    index, content = raw.rows, raw.content
    offsets = index[index[:, 3] >= len(ZSTD_MAGIC), 2]
    is_packed = np.ones(len(offsets), bool)
    for k, byte in enumerate(ZSTD_MAGIC):
        is_packed &= content[offsets + k] == byte
    if not is_packed.any():
        return raw
    index, position = index.copy(), 0
    parts: list[bytes] = []
    problems = list(raw.problems)
    keep = np.ones(len(index), bool)
    for row, (_, _, offset, length) in enumerate(index.tolist()):
        part = content[offset:offset + length].tobytes()
        if part.startswith(ZSTD_MAGIC):
            try:
                part = decompress_message(part)
            except Damaged as error:
                problems.append(f"a message {error}")
                keep[row] = False
                continue
        index[row, 2:] = position, len(part)
        position += len(part)
        parts.append(part)
    return Raw(np.frombuffer(b"".join(parts), np.uint8), index[keep], tuple(problems))
