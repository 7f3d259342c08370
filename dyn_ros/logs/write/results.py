# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Folders of results, one for each recording: what they contain, and what is finished.

``_manifest.json`` states the recording and the options, ``_parts.jsonl`` has a line for each
finished part. Names that start with "_" are ignored by what reads Parquet datasets.
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

from ...recordings.formats import SUFFIXES
from .atomic import whole_file

_MANIFEST, _PARTS, _LOCK = "_manifest.json", "_parts.jsonl", "_lock"
_OURS = re.compile(r"part-\d{6,}\.\w+|metadata\.yaml|_manifest\.json|_parts\.jsonl")
_STOPPED = re.compile(r"\..+\.tmp")  # what a process that was killed leaves
_FACTS = {"part", "file", "messages", "states", "rejected", "problems", "notes", "summary"}
PREFIXES = {"parquet": "recording=", "mcap": ""}


class Origin(NamedTuple):
    """A recording: absolute path, size of all its files [bytes], latest change [ns]."""

    path: str
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> Origin:
        """Look at a file, or at the files of a folder; one that cannot be seen has no size."""
        try:
            files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
            states = [file.stat() for file in files]
        except OSError:
            states = []
        return cls(
            os.path.abspath(path),
            sum(status.st_size for status in states),
            max((status.st_mtime_ns for status in states), default=0),
        )


class Folder:
    """The results of one recording; ``options`` are what they depend on, as JSON has it."""

    def __init__(self, path: Path, origin: Origin, options: Mapping[str, Any]) -> None:
        self.path, self.origin = path, origin
        self.options: dict[str, Any] = json.loads(json.dumps(options))

    def open(self, overwrite: bool) -> dict[int, dict[str, Any]]:
        """Prepare the folder; return what is known of finished parts, by their numbers.

        Results of a recording that has changed since, and with ``overwrite`` all of them, are
        removed. A ValueError if the folder contains results of other options, or files of something
        else.
        """
        self.sweep()
        known = _read(self.path / _MANIFEST)
        if known is None and not overwrite and (strange := self._files(_OURS)):
            raise ValueError(
                f"{self.path}: contains {strange[0].name!r} but no valid {_MANIFEST}; "
                "pass another folder, or --overwrite to replace its results"
            )
        same = known is not None and known["source"] == self.origin._asdict()
        if known is not None and same and not overwrite:
            self._require_same(known["options"])
            return _read_parts(self.path / _PARTS, self.path)
        for file in self._files(_OURS):
            file.unlink()
        manifest = {"source": self.origin._asdict(), "options": self.options}
        with whole_file(self.path / _MANIFEST) as manifest_file:
            manifest_file.write(json.dumps(manifest, indent=2).encode() + b"\n")
        return {}

    def sweep(self) -> None:
        """Remove what a process that was ended while it wrote has left."""
        for file in self._files(_STOPPED):
            file.unlink(missing_ok=True)

    def _files(self, pattern: re.Pattern[str]) -> list[Path]:
        if not self.path.is_dir():
            return []
        return sorted(file for file in self.path.iterdir() if pattern.fullmatch(file.name))

    def _require_same(self, before: Mapping[str, Any]) -> None:
        different = [
            f"{name} was {_shown(before.get(name))}, now {_shown(self.options.get(name))}"
            for name in dict.fromkeys([*before, *self.options])
            if before.get(name) != self.options.get(name)
        ]
        if different:
            raise ValueError(
                f"{self.path}: computed with other options: {'; '.join(different)}; "
                "pass another folder, or --overwrite to compute the results again"
            )

    def file(self, number: int, suffix: str) -> Path:
        return self.path / f"part-{number:06d}.{suffix}"

    def add(self, number: int, facts: Mapping[str, Any]) -> None:
        with (self.path / _PARTS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": number, **facts}) + "\n")


def _shown(value: Any) -> str:
    return "not given" if value is None else json.dumps(value)


def _read(path: Path) -> dict[str, Any] | None:
    """Read a manifest; None if there is none, or none that was finished."""
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        is_one = set(manifest["source"]) == set(Origin._fields) and isinstance(
            manifest["options"], dict
        )
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError):
        return None
    return manifest if is_one else None


def _read_parts(path: Path, folder: Path) -> dict[int, dict[str, Any]]:
    """The parts whose lines and files are there; of several lines of a part, the last one."""
    parts: dict[int, dict[str, Any]] = {}
    if not path.exists():
        return parts
    _remove_cut_line(path)
    for line in path.read_bytes().splitlines():
        facts = _line(line)
        if facts is not None and (facts["file"] is None or (folder / facts["file"]).exists()):
            parts[facts.pop("part")] = facts
    return parts


def _line(line: bytes) -> dict[str, Any] | None:
    try:
        facts = json.loads(line)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and facts.keys() >= _FACTS else None


def _remove_cut_line(path: Path) -> None:
    """Remove an incomplete line at the end: the process or the machine stopped there."""
    with path.open("r+b") as file:
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)


@contextmanager
def alone(out: Path) -> Iterator[None]:
    """Keep other processes of this machine from writing to a folder until the block ends.

    A ValueError if another process does.
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


def folders(paths: Sequence[Path], out: Path, kind: str) -> list[Path]:
    """The folder of the results of each recording.

    It has the name of the recording; where another recording has this name, the folders above it
    come first. A recording keeps the folder that it has.
    """
    prefix = PREFIXES[kind]
    known: dict[str, Path] = {}
    if out.is_dir():
        for folder in sorted(out.iterdir()):
            manifest = _read(folder / _MANIFEST)
            if manifest is not None and folder.name.startswith(prefix):
                known[manifest["source"]["path"]] = folder
    taken = {folder.name for folder in known.values()}
    chosen = []
    for path in paths:
        whole = os.path.abspath(path)
        if whole not in known:
            name = next(name for name in _names(Path(whole)) if prefix + name not in taken)
            known[whole] = out / (prefix + name)
            taken.add(prefix + name)
        chosen.append(known[whole])
    return chosen


def _names(path: Path) -> Iterable[str]:
    """Names of a recording: its own, then with the folders above it, then with a number."""
    own = name_of(path)
    for count in range(len(path.parts) - 1):
        above = path.parts[len(path.parts) - 1 - count : -1]
        yield quote("_".join([*above, own]), safe=" ,+@")
    for count in itertools.count(2):
        yield quote(f"{own}_{count}", safe=" ,+@")


def name_of(path: Path) -> str:
    """The name of a recording, without the suffixes of its format."""
    name = path.name
    while True:
        shorter = name
        for suffix in SUFFIXES:
            shorter = shorter.removesuffix(suffix)
        if shorter == name or not shorter:
            return name
        name = shorter
