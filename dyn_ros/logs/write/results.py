# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders of results, one for each recording, and the parts of it that are finished.

``_manifest.json`` contains the recording and the options, ``_parts.jsonl`` a line for each finished
part: its report. Readers of Parquet datasets ignore names that start with "_".
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from ...engine.kernel.names import shorten
from ...files.json_text import load_json
from ...files.reading import read_regular_file
from ...files.writing import write_whole_file
from ...recordings.formats import SUFFIXES

_MANIFEST, _REPORTS, _LOCK = "_manifest.json", "_parts.jsonl", "_lock"
_RESULT_FILE = re.compile(r"part-\d{6,}\.\w+|metadata\.yaml|_manifest\.json|_parts\.jsonl")
_TEMPORARY_FILE = re.compile(r"\..+\.tmp")  # remains if a process is killed while it writes
_MAX_MANIFEST_SIZE = 10_000_000  # bytes; options name each joint and each column
_MAX_REPORTS_SIZE = 500_000_000  # bytes; 1 kB for a part of a minute are 350 days
_REPORT_KEYS = {"part", "file", "messages", "states", "rejected", "problems", "notes", "summary"}
FOLDER_PREFIXES = {"parquet": "recording=", "mcap": ""}


class RecordingStat(NamedTuple):
    """Path and state of the files of a recording, by which a change of it is recognized."""

    path: str  # absolute
    size: int  # bytes, of all files
    modified: int  # ns, of the latest change

    @classmethod
    def of_path(cls, path: Path) -> RecordingStat:
        """Return the status of a file, or of the files of a folder; size 0 if unreadable."""
        try:
            files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
            stats = [file.stat() for file in files]
        except OSError:
            stats = []
        return cls(
            os.path.abspath(path),
            sum(status.st_size for status in stats),
            max((status.st_mtime_ns for status in stats), default=0),
        )


class ResultFolder:
    """The results of one recording.

    ``options`` are the options that the results depend on, as JSON can represent them.
    """

    def __init__(self, path: Path, recording: RecordingStat, options: Mapping[str, Any]) -> None:
        self.path, self.recording = path, recording
        self.options: dict[str, Any] = json.loads(json.dumps(options))

    def open(self, overwrite: bool) -> dict[int, dict[str, Any]]:
        """Prepare the folder; return the reports on finished parts, by their numbers.

        Results of a recording that has changed since, and with ``overwrite`` all results, are
        removed. Raise a ValueError if the folder contains results of other options, or result files
        without a manifest.
        """
        self.remove_temporary_files()
        manifest = _read_manifest(self.path / _MANIFEST)
        if manifest is None:
            if not overwrite and (unexpected := self._files_that_match(_RESULT_FILE)):
                raise ValueError(
                    f"{self.path}: contains {unexpected[0].name!r} but no valid {_MANIFEST}; "
                    "pass another folder, or overwrite=True to replace its results"
                )
        elif not overwrite and manifest["source"] == self.recording._asdict():
            self._require_equal_options(manifest["options"])
            return _read_reports(self.path / _REPORTS, self.path)
        for file in self._files_that_match(_RESULT_FILE):
            file.unlink()
        manifest = {"source": self.recording._asdict(), "options": self.options}
        with write_whole_file(self.path / _MANIFEST, create_folder=True) as manifest_file:
            manifest_file.write(json.dumps(manifest, indent=2).encode() + b"\n")
        return {}

    def remove_temporary_files(self) -> None:
        """Remove incomplete files of processes that were killed while they wrote."""
        for file in self._files_that_match(_TEMPORARY_FILE):
            file.unlink(missing_ok=True)

    def _files_that_match(self, pattern: re.Pattern[str]) -> list[Path]:
        """Return the files of the folder whose names match a pattern."""
        if not self.path.is_dir():
            return []
        return sorted(file for file in self.path.iterdir() if pattern.fullmatch(file.name))

    def _require_equal_options(self, previous_options: Mapping[str, Any]) -> None:
        """Raise a ValueError if the results were computed with other options."""
        changes = [
            f"{name} was {_format_option(previous)}, now {_format_option(current)}"
            for name in dict.fromkeys([*previous_options, *self.options])
            if (previous := previous_options.get(name)) != (current := self.options.get(name))
        ]
        if changes:
            raise ValueError(
                f"{self.path}: computed with other options: {'; '.join(changes)}; "
                "pass another folder, or overwrite=True to compute the results again"
            )

    def file(self, number: int, suffix: str) -> Path:
        """Return the path of the results of a part."""
        return self.path / f"part-{number:06d}.{suffix}"

    def add(self, number: int, report: Mapping[str, Any]) -> None:
        """Note that a part is finished; ``report`` is what JSON can represent."""
        with (self.path / _REPORTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": number, **report}) + "\n")


def _format_option(value: Any) -> str:
    """Return the value of an option for a message."""
    return "not given" if value is None else shorten(json.dumps(value))


def _read_manifest(path: Path) -> dict[str, Any] | None:
    """Return the content of a manifest; None if there is none, or it is not valid."""
    try:
        manifest = load_json(read_regular_file(path, _MAX_MANIFEST_SIZE))
        source = manifest["source"]
        is_valid = (
            set(source) == set(RecordingStat._fields)
            and isinstance(source["path"], str)
            and isinstance(manifest["options"], dict)
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return manifest if is_valid else None


def _read_reports(path: Path, folder: Path) -> dict[int, dict[str, Any]]:
    """Return the reports on parts whose result files exist, by number; the last of each part."""
    reports: dict[int, dict[str, Any]] = {}
    if not path.exists():
        return reports
    content = read_regular_file(path, _MAX_REPORTS_SIZE)
    _remove_incomplete_line(path, content)
    for line in content.splitlines():
        report = _parse_report(line)
        if report is not None and (report["file"] is None or (folder / report["file"]).exists()):
            reports[report.pop("part")] = report
    return reports


def _parse_report(line: bytes) -> dict[str, Any] | None:
    """Return the report on a part; None if the line is not valid."""
    try:
        report = load_json(line)
    except ValueError:
        return None
    is_valid = (
        isinstance(report, dict)
        and report.keys() >= _REPORT_KEYS
        and isinstance(report["part"], int)
        and isinstance(report["file"], str | None)
    )
    return report if is_valid else None


def _remove_incomplete_line(path: Path, content: bytes) -> None:
    """Remove an incomplete line at the end: the process or the machine stopped there."""
    os.truncate(path, content.rfind(b"\n") + 1)


@contextmanager
def lock_folder(out: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing to a folder until the block ends.

    Raise a ValueError if another process writes to it.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{out}: another process writes to this folder; wait until it has "
                "finished, or pass another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        yield


def result_folders(paths: Sequence[Path], out: Path, kind: str) -> list[Path]:
    """Return the folder of the results of each recording.

    It has the name of the recording; where another recording has this name, the folders above it
    come first. A recording keeps the folder that it has.
    """
    prefix = FOLDER_PREFIXES[kind]
    folder_of: dict[str, Path] = {}  # absolute path of recording: folder
    if out.is_dir():
        for folder in sorted(out.iterdir()):
            manifest = _read_manifest(folder / _MANIFEST)
            if manifest is not None and folder.name.startswith(prefix):
                folder_of[manifest["source"]["path"]] = folder
    used_names = {folder.name for folder in folder_of.values()}
    absolute_paths = [os.path.abspath(path) for path in paths]
    for path in absolute_paths:
        if path not in folder_of:
            names = (prefix + name for name in _candidate_names(Path(path)))
            name = next(name for name in names if name not in used_names)
            folder_of[path] = out / name
            used_names.add(name)
    return [folder_of[path] for path in absolute_paths]


def _candidate_names(path: Path) -> Iterable[str]:
    """Yield the name of a recording, names that begin with folders above it, and with a number."""
    name = recording_name(path)
    for depth in range(len(path.parts) - 1):
        folders = path.parts[len(path.parts) - 1 - depth : -1]
        yield quote(os.fsencode("_".join([*folders, name])), safe=" ,+@")
    for number in itertools.count(2):
        yield quote(os.fsencode(f"{name}_{number}"), safe=" ,+@")


def recording_name(path: Path) -> str:
    """Return the name of a recording without the suffixes of its format."""
    name = path.name
    while True:
        shorter = name
        for suffix in SUFFIXES:
            shorter = shorter.removesuffix(suffix)
        if shorter == name or not shorter:
            return name
        name = shorter
