# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Paths that programs must not wait for, nor read without end."""

import os

KINDS = ("pipe", "device", "folder", "loop", "missing", "long", "null", "bytes", "large")


def make_path(kind, folder):
    """Return a path of a kind, in a folder."""
    path = os.path.join(folder, f"{kind}.yaml")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        return "/dev/zero"
    elif kind == "folder":
        os.mkdir(path)
    elif kind == "loop":
        os.symlink(path, path)
    elif kind == "long":
        return "d" * 10_000
    elif kind == "null":
        return path + "\0"
    elif kind == "bytes":
        with open(os.fsencode(path) + b"\xff", "wb") as file:
            file.write(b"\xff" * 100)
        return os.fsdecode(os.fsencode(path) + b"\xff")
    elif kind == "large":
        with open(path, "wb") as file:
            file.truncate(5_000_000_000)
    return path
