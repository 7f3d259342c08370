# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that exist completely or not at all."""

import errno
import os
import threading

import pytest

from dyn_ros.files.writing import write_whole_file, write_whole_text


def test_a_file_appears_with_its_last_byte(tmp_path):
    path = tmp_path / "motion.csv"
    with write_whole_file(path) as file:
        file.write(b"time\n")
        assert not path.exists()
    assert path.read_bytes() == b"time\n"
    assert os.listdir(path.parent) == ["motion.csv"]


def test_folders_are_created_on_request_and_removed_after_an_error(tmp_path):
    path = tmp_path / "results" / "arm" / "motion.csv"
    with pytest.raises(FileNotFoundError, match=str(path)), write_whole_file(path):
        pass
    with pytest.raises(RuntimeError), write_whole_file(path, create_folder=True):
        raise RuntimeError
    assert os.listdir(tmp_path) == []
    with write_whole_file(path, create_folder=True) as file:
        file.write(b"time")
    assert path.read_bytes() == b"time"


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "motion.csv"
    path.write_text("before")
    with pytest.raises(RuntimeError), write_whole_file(path) as file:
        file.write(b"after")
        raise RuntimeError
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["motion.csv"]


def test_a_link_and_the_permissions_of_a_file_remain(tmp_path):
    path, link = tmp_path / "motion.csv", tmp_path / "link.csv"
    path.write_text("before")
    path.chmod(0o640)
    link.symlink_to(path)
    write_whole_text(link, "after")
    assert link.is_symlink() and path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    with pytest.raises(OSError, match="/dev/full") as raised:
        write_whole_text("/dev/full", "after")
    assert raised.value.errno == errno.ENOSPC

    path = tmp_path / "motion.csv"
    with pytest.raises(OSError, match=r"No space.*motion\.csv"), write_whole_file(path) as file:
        file.write(b"1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os.listdir(tmp_path) == []


def test_a_folder_and_a_file_that_cannot_be_created(tmp_path):
    with pytest.raises(IsADirectoryError, match="directory"):
        write_whole_text(tmp_path, "after")
    name = "n" * 300
    with pytest.raises(OSError, match="too long") as raised:
        write_whole_text(tmp_path / name, "after")
    assert name in str(raised.value)


def test_a_pipe_is_written_to(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    write_whole_text(pipe, "after")
    reader.join(10.0)
    assert received == ["after"]
