# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The folder of compiled kernels: its location, its owner, and damaged files."""

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from unittest import mock

import pytest

from dyn_ros.engine.machine_code import cache, compiler
from dyn_ros.engine.machine_code.declare import JIT

ROOT = Path(__file__).resolve().parents[3]
SMALL = """
import warnings
from dyn_ros.engine.machine_code.compiler import Entry
entry = Entry("small", lambda x: int(2.0 * x), "d")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    print([entry.load(), entry.call(4.0), *[str(warning.message) for warning in caught]])
"""
UNSET = {"XDG_CACHE_HOME": "", "DYN_ROS_CACHE_DIR": ""}
STRANGER = 12345
needs_compiler = pytest.mark.skipif(
    not JIT or importlib.util.find_spec("numba") is None, reason="nothing is compiled"
)
needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        text=True,
        capture_output=True,
        env=dict(os.environ, PYTHONPATH=str(ROOT), **environment),
    )
    assert done.returncode == 0, done.stderr
    return ast.literal_eval(done.stdout)


def chosen(**environment):
    """The cache's folder in another environment, and the warnings."""
    with (
        mock.patch.dict(os.environ, environment),
        mock.patch.object(tempfile, "tempdir", None),
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        cache.cache_folder.cache_clear()
        try:
            return [str(cache.cache_folder()), *[str(warning.message) for warning in caught]]
        finally:
            cache.cache_folder.cache_clear()


def root_folder(**environment):
    """Where the folder was made, without a warning."""
    folder, *reported = chosen(**environment)
    assert not reported
    return Path(folder).parent


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The cache's folder of this process, an empty one."""
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(tmp_path / "cache"))
    cache.cache_folder.cache_clear()
    yield cache.cache_folder()
    cache.cache_folder.cache_clear()


def test_what_was_written_is_read(folder):
    assert cache.read_entry("one") is None
    for content in (b"first", b"", bytes(range(256)) * 1000):
        cache.write_entry("one", content)
        assert cache.read_entry("one") == content
    assert cache.read_entry("two") is None
    assert [path.name for path in folder.iterdir()] == ["one"]
    assert (folder / "one").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700


def test_an_entry_is_whole_or_absent(folder):
    cache.write_entry("one", os.urandom(300))
    path = folder / "one"
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert cache.read_entry("one") is None
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.read_entry("one") is None
    path.write_bytes(whole + b"\0")
    assert cache.read_entry("one") is None
    path.write_bytes(whole)
    assert cache.read_entry("one") is not None
    path.rename(folder / "two")
    assert cache.read_entry("two") is None


@pytest.mark.parametrize(
    "place",
    [
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: (path.mkdir(), (path / "file").write_text("")),
        lambda path: path.symlink_to(path.parent / "other"),
    ],
    ids=["folder", "fifo", "link", "full folder", "link to an entry"],
)
def test_what_lies_in_an_entrys_place_is_replaced(folder, place):
    cache.write_entry("other", b"other")
    place(folder / "one")
    assert cache.read_entry("one") is None
    cache.write_entry("one", b"content")
    assert cache.read_entry("one") == b"content" and cache.read_entry("other") == b"other"


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_is_absent(folder, mode):
    cache.write_entry("one", b"content")
    (folder / "one").chmod(mode)
    assert cache.read_entry("one") is None
    cache.write_entry("one", b"content")
    assert cache.read_entry("one") == b"content"


@needs_root
def test_an_entry_that_another_user_owns_is_absent(folder):
    cache.write_entry("one", b"content")
    os.chown(folder / "one", STRANGER, STRANGER)
    assert cache.read_entry("one") is None
    os.chown(folder / "one", 0, 0)
    assert cache.read_entry("one") == b"content"


def test_a_folder_that_is_opened_to_others_later_is_not_read(folder):
    cache.write_entry("one", b"content")
    for opened in (folder, folder.parent):
        opened.chmod(0o770)
        assert cache.read_entry("one") is None
        opened.chmod(0o700)
    assert cache.read_entry("one") == b"content"


def test_what_was_not_used_for_60_days_is_removed(folder):
    cache.write_entry("old", b"content")
    cache.write_entry("used", b"content")
    (folder.parent / "kernels-0123").mkdir()
    (folder.parent / "kernels-0123" / "file").write_text("")
    (folder.parent / "mine").write_text("")
    long_ago = time.time() - 61 * 86400
    for path in (
        folder / "old",
        folder / "used",
        folder.parent / "kernels-0123",
        folder.parent / "mine",
        folder,
    ):
        os.utime(path, (long_ago, long_ago))
    assert cache.read_entry("used") == b"content"
    cache.cache_folder.cache_clear()
    cache.cache_folder()
    assert cache.read_entry("old") is None and cache.read_entry("used") == b"content"
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name, "mine"]


def test_where_the_folder_is(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    assert root_folder(**dict(UNSET, HOME=str(home))) == home / ".cache" / "dyn_ros"
    xdg = tmp_path / "xdg"
    assert root_folder(**dict(UNSET, XDG_CACHE_HOME=str(xdg))) == xdg / "dyn_ros"
    named = tmp_path / "named"
    assert root_folder(**dict(UNSET, DYN_ROS_CACHE_DIR=str(named))) == named
    link = tmp_path / "link"
    link.symlink_to(named)
    assert root_folder(**dict(UNSET, DYN_ROS_CACHE_DIR=str(link))) == named


def test_a_folder_that_cannot_be_made_is_left(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    home = tmp_path / "home"
    home.mkdir()
    expected = home / ".cache" / "dyn_ros"
    for named in (blocked, blocked / "below", Path("/proc/dyn_ros")):
        assert (
            root_folder(DYN_ROS_CACHE_DIR=str(named), XDG_CACHE_HOME="", HOME=str(home)) == expected
        )


def test_a_folder_that_is_read_only_is_left(tmp_path, monkeypatch):
    named = tmp_path / "named"
    named.mkdir(mode=0o500)
    monkeypatch.setenv("DYN_ROS_CACHE_DIR", str(named))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    access = os.access  # which is always true for root
    monkeypatch.setattr(os, "access", lambda path, mode: path != named and access(path, mode))
    assert cache._private_root() == tmp_path / "dyn_ros"


def test_a_file_in_the_place_of_the_folder_is_left(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder.rmdir()
    folder.write_text("")
    cache.cache_folder.cache_clear()
    with pytest.warns(RuntimeWarning, match="dyn_ros keeps compiled code in"):
        assert cache.cache_folder().parent.parent == tmp_path
    assert folder.is_file()
    cache.write_entry("one", b"content")
    assert cache.read_entry("one") == b"content"


def test_another_process_may_make_the_folder_at_the_same_time(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir(mode=0o700)
    monkeypatch.setattr(os.path, "lexists", lambda path: False)  # not there just now
    assert cache._make_private(tmp_path / "folder") == tmp_path / "folder"


@pytest.mark.parametrize("home", ["~", "/nonexistent/home", "/proc/home", ""])
def test_a_home_that_is_not_known_or_cannot_be_written_is_left(tmp_path, home):
    """Without a home folder, ~ is not expanded; no folder of that name may be created."""
    if home == "/nonexistent/home" and os.getuid() == 0:
        home = "/proc/1/home"  # root could make the other one
    found = root_folder(
        HOME=home,
        XDG_CACHE_HOME="" if home else "relative",
        DYN_ROS_CACHE_DIR="",
        TMPDIR=str(tmp_path),
    )
    assert found == tmp_path / f"dyn_ros-{os.getuid()}"


def test_a_temporary_folder_that_others_can_write_to_is_left(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    unset = dict(UNSET, HOME=str(blocked), TMPDIR=str(tmp_path))
    shared = tmp_path / f"dyn_ros-{os.getuid()}"
    assert root_folder(**unset) == shared
    assert shared.stat().st_mode & 0o777 == 0o700
    shared.chmod(0o777)
    folder, warning = chosen(**unset)
    assert Path(folder).parent.parent == tmp_path and Path(folder).parent != shared
    assert str(shared) in warning and "chmod go-w" in warning
    shutil.rmtree(shared)
    shared.symlink_to(tmp_path)
    assert root_folder(**unset) not in (shared, tmp_path)


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda folder: folder.chmod(0o777), "chmod go-w"),
        (lambda folder: (folder.rmdir(), folder.write_text("")), "is not a folder"),
    ],
)
def test_a_folder_of_versions_that_cannot_be_used_is_reported(tmp_path, spoil, words):
    """Each start compiles everything again."""
    named, temporary = tmp_path / "named", tmp_path / "temporary"
    temporary.mkdir()
    environment = {"DYN_ROS_CACHE_DIR": str(named), "TMPDIR": str(temporary)}
    (folder,) = chosen(**environment)
    spoil(Path(folder))
    other, warning = chosen(**environment)
    assert Path(other).is_relative_to(temporary)
    assert other in warning and folder in warning and words in warning


VARIABLES = {"DYN_ROS_CACHE_DIR": "", "XDG_CACHE_HOME": "dyn_ros", "HOME": ".cache/dyn_ros"}


def refused(tmp_path, variable, bad):
    """The folder taken, and the warning that names the bad one."""
    own = tmp_path / "own"
    environment = dict(UNSET, HOME=str(own), TMPDIR=str(own))
    environment[variable] = str(tmp_path / "named")
    own.mkdir(exist_ok=True)
    folder, warning = chosen(**environment)
    assert Path(folder).is_relative_to(own)
    assert str(bad) in warning and folder.rsplit("/", 1)[0] in warning
    return warning


@pytest.mark.parametrize("variable", VARIABLES)
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(tmp_path, variable, mode):
    bad = tmp_path / "named" / VARIABLES[variable]
    bad.mkdir(parents=True)
    bad.chmod(mode)
    assert "chmod go-w" in refused(tmp_path, variable, bad)


@pytest.mark.parametrize("variable", VARIABLES)
def test_a_folder_that_others_may_replace_is_refused(tmp_path, variable):
    bad = tmp_path / "named"
    (bad / VARIABLES[variable] / "inside").mkdir(parents=True)
    bad.chmod(0o777)
    assert "chmod go-w" in refused(tmp_path, variable, bad)
    if variable != "DYN_ROS_CACHE_DIR":
        bad.chmod(0o1777)  # as /tmp: nobody replaces what belongs to others
        found = root_folder(**dict(UNSET, **{variable: str(bad)}))
        assert found == bad / VARIABLES[variable]


@needs_root
@pytest.mark.parametrize("variable", VARIABLES)
def test_a_folder_of_another_user_is_refused_by_root_too(tmp_path, variable):
    bad = tmp_path / "named" / VARIABLES[variable]
    bad.mkdir(parents=True)
    os.chown(bad, STRANGER, STRANGER)
    assert f"user {STRANGER}" in refused(tmp_path, variable, bad)


@needs_root
def test_a_folder_that_another_user_may_replace_is_refused(tmp_path):
    bad = tmp_path / "named"
    (bad / "dyn_ros").mkdir(parents=True)
    os.chown(bad, STRANGER, STRANGER)
    assert f"user {STRANGER}" in refused(tmp_path, "XDG_CACHE_HOME", bad)


@needs_root
def test_a_link_of_another_user_leads_nowhere_else(tmp_path):
    """Who owns the link could point it elsewhere later; the folder that it led to is used."""
    named, target = tmp_path / "named", tmp_path / "target"
    target.mkdir()
    os.chown(target, STRANGER, STRANGER)
    named.symlink_to(target)
    assert f"user {STRANGER}" in refused(tmp_path, "DYN_ROS_CACHE_DIR", target)


@needs_root
@needs_compiler
def test_planted_code_is_not_run(tmp_path):
    """Whole files, with the right digest, in a folder that others may write to."""
    planted = tmp_path / "planted"
    code = """
from dyn_ros.engine.machine_code import cache, compiler
evil = compiler.Entry("small", lambda x: -1, "d").code_for(compiler.library.best_target())
entry = compiler.Entry("small", lambda x: int(2.0 * x), "d")
cache.write_entry(entry.file_name(), evil)
print([entry.load(), entry.call(4.0)])
"""
    assert run(code, DYN_ROS_CACHE_DIR=str(planted), HOME=str(tmp_path)) == [False, -1]
    assert list(planted.rglob("small-*"))
    for path in (planted, *planted.rglob("*")):
        os.chown(path, STRANGER, STRANGER)
    compiled, result, warning = run(SMALL, DYN_ROS_CACHE_DIR=str(planted), HOME=str(tmp_path))
    assert compiled and result == 8 and str(planted) in warning


def code_files(folder):
    """The files with machine code of the entry "small"; another one has LLVM's representation."""
    return [path for path in folder.rglob("small-*") if not path.name.startswith("small-llvm-")]


@needs_compiler
def test_damage_is_mended_by_the_entry_that_finds_it(folder, monkeypatch):
    monkeypatch.setattr(compiler, "ENTRIES", {})

    def loaded():
        entry = compiler.Entry("small", lambda x: int(2.0 * x), "d")
        return [entry.load(), entry.call(4.0)]

    assert loaded() == [True, 8.0]
    assert loaded() == [False, 8.0]
    (path,) = code_files(folder)
    whole = path.read_bytes()
    for n in (20, len(whole) // 3, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n] + bytes([whole[n] ^ 4]) + whole[n + 1 :])
        assert loaded() == [True, 8.0]
        assert loaded() == [False, 8.0]
    path.unlink()
    path.mkdir()
    assert loaded() == [True, 8.0]
    assert loaded() == [False, 8.0]


@needs_compiler
def test_a_full_disk_costs_the_cache_alone(tmp_path):
    limit = "import resource, sys\nsys.dont_write_bytecode = True\n"
    code = limit + "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n" + SMALL
    compiled, result, warning = run(code, DYN_ROS_CACHE_DIR=str(tmp_path))
    assert compiled and result == 8.0
    assert "small" in warning and "compiled again in the next process" in warning
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert run(SMALL, DYN_ROS_CACHE_DIR=str(tmp_path)) == [True, 8.0]
    assert len(code_files(tmp_path)) == 1


@needs_compiler
def test_several_processes_at_once(tmp_path):
    environment = dict(os.environ, PYTHONPATH=str(ROOT), DYN_ROS_CACHE_DIR=str(tmp_path / "cache"))
    started = [
        subprocess.Popen(
            [sys.executable, "-c", SMALL],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            env=environment,
        )
        for _ in range(4)
    ]
    for process in started:
        assert ast.literal_eval(process.communicate()[0])[1:] == [8.0]
        assert process.returncode == 0
    assert len(code_files(tmp_path / "cache")) == 1
    assert len([path for path in (tmp_path / "cache").rglob("*") if path.is_file()]) == 2
    assert run(SMALL, DYN_ROS_CACHE_DIR=str(tmp_path / "cache")) == [False, 8.0]
