# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings: finding them, opening them, and reading their spans."""

from __future__ import annotations

import glob
import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from os import PathLike
from os.path import realpath
from pathlib import Path

from ...cdr.decode import CDR, JOINT_STATE, ODOMETRY, ROS1, Decoder, Messages
from . import IN_ROSBAG2, SUFFIXES, SUFFIXES_OF, suffix_of
from .spans import DECODABLE, STRING, Format, Source, Span, Topic, merged

_METADATA = "metadata.yaml"
_MANIFEST = "_manifest.json"  # in a folder of results


def format_of(path: Path) -> Format:
    """What reads a file; a ValueError if nothing does."""
    suffix = suffix_of(path.name)
    if suffix is None:
        raise ValueError(
            f"{str(path)!r}: expected a file that ends with {', '.join(SUFFIXES)}, or "
            "the folder of a rosbag2"
        )
    module = next(name for name, suffixes in SUFFIXES_OF.items() if suffix in suffixes)
    reader: Format = importlib.import_module(f".{module}", __package__).FORMAT
    return reader


# --- finding


def discover(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """Find recordings: sorted, each once, whatever links lead to it.

    Paths are files; folders of a rosbag2, with a metadata.yaml, each of which is one recording;
    other folders, for all recordings below them; patterns such as ``bags/2024-*/*.mcap``. A
    ValueError names one that does not exist or leads to no recording.
    """
    if isinstance(paths, (str, PathLike)):
        paths = [paths]
    recordings: dict[str, Path] = {}
    for path in paths:
        for recording in _discover(str(path)):
            recordings.setdefault(realpath(recording), recording)
    return sorted(recordings.values())


def _discover(text: str) -> list[Path]:
    path = Path(text).expanduser()
    expected = f"expected a file that ends with {', '.join(SUFFIXES)}, or a folder with recordings"
    if path.exists():
        recordings = list(_below(path))
        if not recordings:
            raise ValueError(f"{text!r} is no recording: {expected}")
        return recordings
    if not glob.has_magic(text):
        raise ValueError(f"{text!r} does not exist: {expected}, or a pattern")
    recordings = [
        recording
        for match in glob.glob(str(path), recursive=True)
        for recording in _below(Path(match))
    ]
    if not recordings:
        raise ValueError(f"no recording matches the pattern {text!r}: {expected}")
    return recordings


def _below(path: Path, above: tuple[str, ...] = ()) -> Iterator[Path]:
    """The recording at a path, or those below a folder that is none of those above it."""
    if path.name == _METADATA:
        yield path.parent
    elif path.is_dir():
        if (path / _METADATA).is_file():
            yield path
        elif not (path / _MANIFEST).exists() and realpath(path) not in above:
            for entry in sorted(path.iterdir()):
                if not entry.name.startswith((".", "_")):
                    yield from _below(entry, (*above, realpath(path)))
    elif suffix_of(path.name):
        yield path


# --- opening


def open_source(path: str | PathLike[str], columns: Mapping[str, str] | None = None) -> Source:
    """Open a recording, one of those that ``discover`` returns: find its topics and spans.

    ``columns`` of a table have other names, see ``tables.renaming``. A ValueError if it is
    no recording, or nothing of it can be read; an ImportError names the command that installs a
    package for this kind of file.
    """
    path = Path(path)
    if path.is_dir():
        return _open_folder(path)
    source = _scan_table(path, columns) if columns else format_of(path).scan(path)
    return Source(
        source.topics,
        _sorted(_placed("", source)),
        _joined(source.damage, source.topics),
        path,
        path.name[: -len(suffix_of(path.name) or "")],
    )


def _scan_table(path: Path, columns: Mapping[str, str]) -> Source:
    from . import table_file

    return table_file.scan(path, columns)


def _open_folder(path: Path) -> Source:
    """Open a rosbag2, which may have several files."""
    names, damage = _files_of(path)
    topics: list[Topic] = []
    spans: list[Span] = []
    errors: list[Exception] = []
    for name in names:
        try:
            scan = format_of(path / name).scan(path / name)
        except (ValueError, OSError) as error:
            errors.append(error)
            damage.append(str(error))
            continue
        topics += scan.topics
        spans += _placed(name, scan)
        if scan.damage:
            damage.append(f"{name} {scan.damage}")
    if errors and len(errors) == len(names):
        raise errors[0]
    return Source(
        merged(topics),
        _sorted(spans),
        _joined("; ".join(damage), tuple(topics)),
        path,
        path.resolve().name,
    )


def _files_of(path: Path) -> tuple[list[str], list[str]]:
    """Files of a rosbag2 in the order of its metadata, and what is missing."""
    metadata = path / _METADATA
    text = metadata.read_text(encoding="utf-8", errors="replace") if metadata.is_file() else ""
    listed = re.search(r"^\s*relative_file_paths:\s*\n((?:\s*-\s.*\n?)+)", text, re.MULTILINE)
    names, damage = [], []
    for line in listed[1].splitlines() if listed else ():
        name = line.strip()[1:].strip().strip("'\"")
        existing = [place for place in (name, Path(name).name) if (path / place).is_file()]
        if not existing:
            damage.append(f"{name} is missing, which its {_METADATA} lists")
        elif suffix_of(existing[0]):
            names.append(existing[0])
    if not names:
        names = sorted(
            entry.name
            for entry in path.iterdir()
            if entry.is_file() and suffix_of(entry.name) in IN_ROSBAG2
        )
        if len(names) > 1 and not metadata.is_file():
            raise ValueError(
                f"{str(path)!r}: contains {len(names)} recordings and no {_METADATA}, "
                "which joins the files of a rosbag2; pass one of them, such as "
                f"{names[0]}"
            )
    if not names:
        raise ValueError(
            f"{str(path)!r}: there is no file of a rosbag2 in this folder; expected "
            "one recording" + "".join(f"; {text}" for text in damage)
        )
    return names, damage


def _placed(name: str, source: Source) -> list[Span]:
    return [span._replace(place=(name, span.place)) for span in source.spans]


def _sorted(spans: list[Span]) -> tuple[Span, ...]:
    return tuple(sorted(spans, key=lambda span: span.start))


def _joined(damage: str, topics: tuple[Topic, ...]) -> str:
    """Damage, and topics of joint states or odometry that cannot be decoded."""
    unknown = [
        f"the encoding {topic.encoding!r} of {topic.name} cannot be decoded, expected "
        f"{CDR!r} or {ROS1!r}"
        for topic in topics
        if topic.type in (JOINT_STATE, ODOMETRY) and topic.encoding not in DECODABLE
    ]
    return "; ".join(filter(None, (damage, *unknown)))


# --- reading


def read_span(path: Path, span: Span, topics: Collection[str], decoder: Decoder) -> Messages:
    """Read the joint states and odometry of a span of a recording, in order of log time.

    Those with equal log times are in the order of the file. The decoder keeps the names of joints,
    and what could not be decoded.
    """
    name, place = span.place
    return format_of(path / name).read(path / name, place, topics, decoder)


def description(source: Source) -> str | None:
    """Return the robot description: the first text on a topic of that name, or None."""
    names = {
        topic.name
        for topic in source.topics
        if topic.type == STRING
        and topic.name.endswith("robot_description")
        and topic.encoding in (CDR, ROS1)
    }
    for span in source.spans if names else ():
        name, place = span.place
        text = format_of(source.path / name).text(source.path / name, place, names)
        if text is not None:
            return text
    return None
