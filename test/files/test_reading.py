# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files that may be anything: a pipe, a device, or larger than the memory."""

import os
import socket

import pytest

from dyn_ros.files.reading import open_regular_file, read_regular_file


def test_a_file_within_its_limit(tmp_path):
    path = tmp_path / "drives.yaml"
    path.write_bytes(b"12345678")
    assert read_regular_file(path, 8) == b"12345678"
    with pytest.raises(ValueError, match="more than 7 bytes"):
        read_regular_file(path, 7)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "socket"])
def test_what_is_no_regular_file_is_named_at_once(tmp_path, kind):
    path = tmp_path / "it"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.fspath(path))
    else:
        path.symlink_to("/dev/zero")
    for _ in range(2):  # its descriptor is closed
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match=f"a {kind}" if kind != "socket" else "No such device"):
            open_regular_file(path)
        assert len(os.listdir("/proc/self/fd")) == before
