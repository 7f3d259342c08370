# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Search for recordings, opening of recordings, and reading of their spans."""

from __future__ import annotations

import functools
import glob
import importlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from os import PathLike
from os.path import realpath
from pathlib import Path

from ...cdr.decode import CDR, KINDS, ROS1, Decoder, Messages
from ...engine.kernel.names import shorten
from ...files.limits import MAX_CHUNK_SIZE, Limits
from ...files.reading import open_regular_file, read_regular_file
from ..tables.files import import_pyarrow
from . import ROSBAG2_SUFFIXES, SUFFIXES, SUFFIXES_BY_MODULE, recording_suffix
from .compression import import_package
from .spans import DECODABLE, STRING_TYPE, Format, Source, Span, Topic, merge_topics

_METADATA = "metadata.yaml"
_MAX_METADATA_SIZE = 16_000_000  # bytes; with 10,000 files, metadata have 4 MB
_MAX_LISTED_FILES = 100_000
_FILE_LIST = re.compile(
    r"^[ \t]*relative_file_paths:[ \t]*\r?\n((?:[ \t]*-[ \t].*\n?)+)", re.MULTILINE
)
_MANIFEST = "_manifest.json"  # present in folders of results


def find_format(path: Path) -> Format:
    """Return the format of a file by its suffix; raise a ValueError for other suffixes."""
    suffix = recording_suffix(path.name)
    if suffix is None:
        raise ValueError(
            f"{str(path)!r}: expected a file that ends with {', '.join(SUFFIXES)}, or "
            "the folder of a rosbag2"
        )
    module = next(name for name, suffixes in SUFFIXES_BY_MODULE.items() if suffix in suffixes)
    format: Format = importlib.import_module(f".{module}", __package__).FORMAT
    return format


# --- finding


def find_recordings(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> list[Path]:
    """Return the paths of recordings, sorted, each once even if several links lead to it.

    Paths are files; folders of a rosbag2, with a metadata.yaml, each of which is one recording;
    other folders, for all recordings below them; patterns such as ``bags/2024-*/*.mcap``. Raise a
    ValueError for a path that does not exist or leads to no recording.
    """
    if isinstance(paths, (str, PathLike)):
        paths = [paths]
    recordings: dict[str, Path] = {}
    for path in paths:
        for recording in _find_path_recordings(str(path)):
            recordings.setdefault(realpath(recording), recording)
    return sorted(recordings.values())


def _find_path_recordings(text: str) -> list[Path]:
    """Return the recordings of a path or pattern."""
    path = Path(os.path.expanduser(text))
    expected = f"expected a file that ends with {', '.join(SUFFIXES)}, or a folder with recordings"
    if not text:
        raise ValueError(f"a path is empty: {expected}")
    if os.path.exists(path):
        recordings = list(_recordings_below(path))
        if not recordings:
            raise ValueError(f"{text!r} is no recording: {expected}")
        return recordings
    if not glob.has_magic(text):
        raise ValueError(f"{text!r} does not exist: {expected}, or a pattern")
    recordings = [
        recording
        for match in glob.glob(str(path), recursive=True)
        for recording in _recordings_below(Path(match))
    ]
    if not recordings:
        raise ValueError(f"no recording matches the pattern {text!r}: {expected}")
    return recordings


def _recordings_below(path: Path) -> Iterator[Path]:
    """Yield the recording at a path, or all below a folder; each folder is read once."""
    pending, read_folders = [path], set()
    while pending:
        path = pending.pop()
        if path.name == _METADATA:
            yield path.parent
        elif os.path.isdir(path):
            if os.path.isfile(path / _METADATA):
                yield path
            elif not os.path.exists(path / _MANIFEST):
                status = path.stat()
                folder = status.st_dev, status.st_ino  # links may lead to it by many paths
                if folder not in read_folders:
                    read_folders.add(folder)
                    entries = sorted(path.iterdir(), reverse=True)
                    pending += [entry for entry in entries if not entry.name.startswith((".", "_"))]
        elif recording_suffix(path.name):
            yield path


def require_packages(
    paths: Iterable[Path], table_suffixes: Collection[str] = SUFFIXES_BY_MODULE["table_file"]
) -> None:
    """Raise an ImportError if a package for recordings of such names is not installed.

    Tables with ``table_suffixes`` are read with pyarrow.
    """
    for suffix in {Path(path.name.lower()).suffix for path in paths}:
        if suffix in table_suffixes:
            import_pyarrow()
        elif suffix == ".zstd":
            import_package("zstandard")


# --- opening


def open_source(
    path: str | PathLike[str],
    columns: Mapping[str, str] | None = None,
    max_chunk_size: float = MAX_CHUNK_SIZE,
) -> Source:
    """Open a recording that ``find_recordings`` returns: find its topics and spans.

    ``columns`` are columns of a table with other names, see ``tables.renaming``;
    ``max_chunk_size`` is the largest size of a chunk [bytes]. Raise a ValueError if it is no
    recording or nothing can be read; an OSError if it is no regular file; an ImportError with the
    command that installs a package for this format.
    """
    path = Path(path)
    if not max_chunk_size > 0.0:
        raise ValueError(f"max_chunk_size: expected more than 0 bytes, got {max_chunk_size!r}")
    if path.is_dir():
        return _open_folder(path, max_chunk_size)
    scan = _table_scan(columns) if columns else find_format(path).scan
    open_regular_file(path).close()
    source = scan(path, Limits.of_file(path, max_chunk_size))
    return Source(
        source.topics,
        _sort_spans(_add_file_name("", source)),
        _describe_damage(source.damage, source.topics),
        path,
        path.name[: -len(recording_suffix(path.name) or "")],
    )


def _table_scan(columns: Mapping[str, str]) -> Callable[[Path, Limits], Source]:
    """Return a function that scans a table with other names of columns."""
    from . import table_file

    return functools.partial(table_file.scan_table, renamed=columns)


def _open_folder(path: Path, max_chunk_size: float) -> Source:
    """Open a rosbag2, which may have several files."""
    names, damage = _list_files(path)
    topics: list[Topic] = []
    spans: list[Span] = []
    errors: list[Exception] = []
    for name in names:
        try:
            limits = Limits.of_file(path / name, max_chunk_size)
            scan = find_format(path / name).scan(path / name, limits)
        except (ValueError, OSError) as error:
            errors.append(error)
            damage.append(str(error))
            continue
        topics += scan.topics
        spans += _add_file_name(name, scan)
        if scan.damage:
            damage.append(f"{name} {scan.damage}")
    if errors and len(errors) == len(names):
        raise errors[0]
    return Source(
        merge_topics(topics),
        _sort_spans(spans),
        _describe_damage("; ".join(damage), tuple(topics)),
        path,
        path.resolve().name,
    )


def _list_files(path: Path) -> tuple[list[str], list[str]]:
    """Return the files of a rosbag2 in the order of its metadata, and sentences on missing ones."""
    metadata = path / _METADATA
    text = ""
    names, damage = [], []
    if metadata.is_file():
        try:
            text = read_regular_file(metadata, _MAX_METADATA_SIZE).decode("utf-8", "replace")
        except ValueError as error:
            damage.append(f"{_METADATA} is not read: {error}")
    file_list = _FILE_LIST.search(text)
    missing_names: list[str] = []
    lines = file_list[1].splitlines() if file_list else []
    for line in lines[:_MAX_LISTED_FILES]:
        name = line.strip()[1:].strip().strip("'\"")
        existing = [file for file in (name, Path(name).name) if os.path.isfile(path / file)]
        if not existing:
            missing_names.append(name)
        elif recording_suffix(existing[0]):
            names.append(existing[0])
    names = list(dict.fromkeys(names))
    if missing_names:
        damage.append(f"{shorten(missing_names[0])} is missing, which its {_METADATA} lists")
    if len(missing_names) > 1:
        damage.append(f"so are {len(missing_names) - 1} others")
    if len(lines) > _MAX_LISTED_FILES:
        damage.append(
            f"its {_METADATA} lists more than {_MAX_LISTED_FILES:,} files; others are not read"
        )
    if not names:
        names = sorted(
            entry.name
            for entry in path.iterdir()
            if entry.is_file() and recording_suffix(entry.name) in ROSBAG2_SUFFIXES
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


def _add_file_name(name: str, source: Source) -> list[Span]:
    """Return the spans of a file, with its name in their places."""
    return [span._replace(place=(name, span.place)) for span in source.spans]


def _sort_spans(spans: list[Span]) -> tuple[Span, ...]:
    """Return spans in order of their start."""
    return tuple(sorted(spans, key=lambda span: span.start))


def _describe_damage(damage: str, topics: tuple[Topic, ...]) -> str:
    """Return a sentence on damage, and on joint states and odometry that cannot be decoded."""
    undecodable = [
        f"the encoding {topic.encoding!r} of {topic.name} cannot be decoded, expected "
        f"{CDR!r} or {ROS1!r}"
        for topic in topics
        if topic.encoding not in DECODABLE and any(topic.type == kind for kind, _ in KINDS)
    ]
    return "; ".join(filter(None, (damage, *undecodable)))


# --- reading


def read_span(path: Path, span: Span, topics: Collection[str], decoder: Decoder) -> Messages:
    """Read the joint states and odometry of a span of a recording, in order of log time.

    Messages with equal log times are in the order of the file. The decoder collects the names of
    joints, and reports what cannot be decoded.
    """
    file_name, place = span.place
    file = path / file_name
    return find_format(file).read_messages(file, place, topics, decoder)


def find_robot_description(source: Source) -> str | None:
    """Return the first text on a topic named robot_description, or None."""
    names = {
        topic.name
        for topic in source.topics
        if topic.type == STRING_TYPE
        and topic.name.endswith("robot_description")
        and topic.encoding in (CDR, ROS1)
    }
    for span in source.spans if names else ():
        file_name, place = span.place
        file = source.path / file_name
        text = find_format(file).read_text(file, place, names)
        if text is not None:
            return text
    return None
