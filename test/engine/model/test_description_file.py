# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""read_description: files and pipes of every kind, none of them read beyond the limit."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hostile_paths import KINDS, make_path

import dyn_ros
from dyn_ros.engine.model.urdf import (
    MAX_CHARACTERS,
    UrdfError,
    read_description,
    read_description_file,
)

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
TEXT = ARM7.read_text(encoding="utf-8")


@pytest.fixture
def pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def write_later(path, *parts):
    """Write to a pipe from a thread, with a pause before each part."""

    def write():
        time.sleep(0.1)
        with open(path, "w", encoding="utf-8") as file:
            for part in parts:
                time.sleep(0.1)
                file.write(part)
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    return writer


def test_a_file():
    assert read_description(ARM7) == read_description(str(ARM7)) == TEXT
    assert dyn_ros.Model.from_urdf_file(ARM7).name == "arm7"


def test_a_message_that_ros2_topic_echo_has_printed(tmp_path):
    path = tmp_path / "robot.urdf"
    path.write_text(TEXT + "\n---\n")
    assert dyn_ros.Model.from_urdf_file(path).name == "arm7"


def test_a_file_is_decoded_as_it_declares(tmp_path):
    path = tmp_path / "robot.urdf"
    text = '<?xml version="1.0" encoding="iso-8859-1"?><robot name="Größe"><link name="a"/></robot>'
    path.write_bytes(text.encode("iso-8859-1"))
    assert read_description(path) == text
    assert dyn_ros.Model.from_urdf_file(path).name == "Größe"
    path.write_bytes(b"\xff" + TEXT.encode())
    with pytest.raises(UrdfError, match="cannot be decoded as utf-8"):
        read_description(path)


def test_a_pipe_that_is_written_in_parts(pipe):
    writer = write_later(pipe, TEXT[:1000], TEXT[1000:])
    assert read_description(pipe) == TEXT
    writer.join()


def test_the_pipe_of_a_shell():
    code = (
        "import sys, dyn_ros.engine.model.urdf as urdf; "
        "sys.stdout.write(urdf.read_description(sys.argv[1]))"
    )
    command = f"{sys.executable} -c '{code}' <(sleep 0.2; cat {ARM7})"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (result.stdout, result.stderr) == (TEXT, "")


@pytest.mark.parametrize("written, count", [(b"", 0), (b"<robot>", 7)])
def test_a_pipe_without_an_end(pipe, written, count):
    """Nobody writes, or somebody writes a part and keeps the pipe open."""
    if written:
        keep = os.open(pipe, os.O_RDWR)
        os.write(keep, written)
    begin = time.monotonic()
    expected = f"delivered {count} characters and was not closed within 0.3 s; start"
    with pytest.raises(UrdfError, match=expected):
        read_description(pipe, timeout=0.3)
    assert time.monotonic() - begin > 0.25
    if written:
        os.close(keep)


def test_a_named_pipe_that_no_program_opens(pipe):
    with pytest.raises(UrdfError, match="delivered 0 characters .* within 2 s; start"):
        dyn_ros.Model.from_urdf_file(pipe)


def test_a_slow_writer_of_a_named_pipe(pipe):
    """It opens the pipe, as a shell does, and writes after more time than it had to open it."""
    code = "import time; time.sleep(2.5); print('<robot/>', end='')"
    writer = subprocess.Popen(["bash", "-c", f'{sys.executable} -c "{code}" > {pipe}'])
    assert read_description(pipe) == "<robot/>"
    assert writer.wait() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_path_that_is_no_regular_file(tmp_path, kind):
    path = make_path(kind, tmp_path)
    with pytest.raises((OSError, ValueError)):
        read_description_file(path)
    assert read_description_file(ARM7) == TEXT


@pytest.mark.parametrize("text", ["<!--", "<![CDATA[", "<a><!-- - --", "<?", "<!-- -->"])
def test_many_unfinished_elements(text):
    with pytest.raises(UrdfError, match="not well-formed"):
        dyn_ros.Model.from_urdf("<robot>" + text * 100_000)


LIMITED = """
import resource
import dyn_ros
room = 100_000_000 + 1024 * int(open("/proc/self/statm").read().split()[0]) * 4
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    dyn_ros.Model.from_urdf_file({path!r})
except dyn_ros.UrdfError as error:
    print(error)
"""


@pytest.mark.parametrize("kind", ["file", "zeros"])
def test_no_more_is_read_than_the_limit(kind, tmp_path):
    """In a process with less memory than the whole file."""
    path = tmp_path / "large.urdf"
    with open(path, "wb") as file:
        file.truncate(1_000_000_000)
    path = path if kind == "file" else "/dev/zero"
    result = subprocess.run(
        [sys.executable, "-c", LIMITED.format(path=str(path))], capture_output=True, text=True
    )
    assert result.stdout.startswith("the description does not end within 5000000 characters; at m")
    assert result.stderr == ""


def test_the_limit_itself(tmp_path):
    path = tmp_path / "robot.urdf"
    xml = '<robot name="r"><link name="a"/></robot>'
    path.write_text(xml.ljust(MAX_CHARACTERS))
    assert dyn_ros.Model.from_urdf_file(path).name == "r"
    path.write_text(xml.ljust(MAX_CHARACTERS + 1))
    with pytest.raises(UrdfError, match="does not end within 5000000 characters"):
        dyn_ros.Model.from_urdf_file(path)


@pytest.mark.parametrize("path, error", [("", IsADirectoryError), ("none", FileNotFoundError)])
def test_no_file(path, error, tmp_path):
    with pytest.raises(error, match=str(tmp_path)):
        read_description(tmp_path / path)
