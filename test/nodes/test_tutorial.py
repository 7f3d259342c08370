# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The tutorial, followed step by step: its files, commands and keys, in terminals."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")

from sensor_msgs.msg import JointState

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
TIMEOUT = 180.0  # seconds; the first start on a machine compiles
VENV = Path(sys.prefix)
KEYS = {"Enter": "\n", "p, Enter": "p\n", "Ctrl-C": "\x03"}
STEP = re.compile(
    r"""
    ^Save\ this\ as\ `(?P<file>\S+)`\ in\ `(?P<folder>\S+)`:\n\n```python\n(?P<code>.*?)```$
  | ^Terminals?\ (?P<terminals>[\d, ]+):\n\n(?P<commands>(?:\ {4}[^\n]*\n)+)
  | [Ii]n\ terminal\ (?P<terminal>\d),\ press\ \*\*(?P<key>.+?)\*\*
  | ^```text\n(?P<shown>.*?)```$""",
    re.MULTILINE | re.DOTALL | re.VERBOSE,
)


class Terminal:
    """A shell with a screen and a keyboard."""

    def __init__(self, home):
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in ("PATH", "ROS_DOMAIN_ID", "LANG")
        }
        environment.update(
            HOME=str(home),
            PS1="$ ",
            TERM="dumb",
            XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        )
        self._keyboard, screen = pty.openpty()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=ROOT,
            env=environment,
            stdin=screen,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(screen)
        self._shown = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        try:
            while data := os.read(self._keyboard, 4096):
                self._shown += data
        except OSError:  # the shell has ended
            pass

    def type(self, text):
        """Press keys; what is shown counts from here."""
        self.since = len(self._shown)
        os.write(self._keyboard, text.encode())

    def lines(self):
        """Return the whole lines shown since the last key."""
        text = self._shown[self.since :].decode(errors="replace")
        return text.replace("\r", "").split("\n")[:-1]

    def screen(self):
        return self._shown.decode(errors="replace")

    def command(self, command):
        """Type a command; one that does not go on is waited for."""
        if VENV.name == ".venv-kilted":  # the same with the other distribution
            command = command.replace(".venv-jazzy", ".venv-kilted")
            command = re.sub(r"^make setup$", "make setup ROS=kilted", command)
        if command.split()[0] not in ("make", "mkdir", "source", "export", "cd"):
            self.type(command + "\n")
            return
        self.type(command + "; echo ended: $?\n")
        wait(
            lambda: [line for line in self.lines() if re.fullmatch(r"ended: \d+", line)],
            self.screen,
        )
        assert "ended: 0" in self.lines(), self.screen()

    def wait_for(self, expected, terminals):
        """Wait until these lines are shown; on a timeout, show all `terminals`."""
        wait(
            lambda: shows(self.lines(), expected),
            lambda: (
                f"expected {expected}\n\n"
                + "\n\n".join(f"terminal {n}:\n{each.screen()}" for n, each in terminals.items())
            ),
        )

    def close(self):
        """End what runs here, and the shell."""
        os.write(self._keyboard, b"\x03")
        time.sleep(0.2)
        os.write(self._keyboard, b"\x03\nexit\n")
        try:
            self._shell.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
            raise
        finally:
            self._reader.join(5)
            os.close(self._keyboard)
        assert "Traceback" not in self.screen()


def wait(ready, what):
    end = time.monotonic() + TIMEOUT
    while not ready():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


NUMBER = re.compile(r"-?\d+\.\d+")


def alike(line, expected):
    """Return True if a line has the expected content; numbers may be 5 % or 0.15 away."""
    pattern = "(-?\\d+\\.\\d+)".join(map(re.escape, NUMBER.split(expected.removesuffix("..."))))
    match = re.search(pattern, line)
    return bool(match) and all(
        abs(float(x) - float(y)) <= max(0.15, 0.05 * abs(float(y)))
        for x, y in zip(match.groups(), NUMBER.findall(expected))
    )


def shows(lines, expected):
    """Return True if lines contain the expected ones in their order."""
    lines = iter(lines)
    return all(any(alike(line, each) for line in lines) for each in expected)


def follow(home):
    """Follow the tutorial; yield the terminal with the expected output at each step."""
    terminals, said = {}, 0
    with ExitStack() as stack:

        def terminal(number):
            if number not in terminals:
                terminals[number] = Terminal(home)
                stack.callback(terminals[number].close)
            return terminals[number]

        for step in STEP.finditer(TUTORIAL):
            if step["file"]:
                folder = Path(step["folder"].replace("~", str(home)))
                (folder / step["file"]).write_text(step["code"])
            elif step["commands"]:
                for number in step["terminals"].split(", "):
                    for command in step["commands"].splitlines():
                        terminal(number).command(command.strip())
            elif step["key"]:
                terminal(step["terminal"]).type(KEYS[step["key"]])
            else:
                said_before = TUTORIAL[said : step.start()]
                looked_at = terminal(re.findall(r"[Tt]erminal (\d)", said_before)[-1])
                said = step.end()
                looked_at.wait_for(step["shown"].splitlines(), terminals)
                yield looked_at


def heights(terminal, count):
    """Return at least `count` heights of the tool printed while the brakes are off."""

    def printed():
        return [
            float(height)
            for height in re.findall(r"tool (\S+) m high, brakes off", "\n".join(terminal.lines()))
        ]

    wait(lambda: len(printed()) >= count, terminal.screen)
    return printed()


@pytest.mark.skipif(VENV.parent != ROOT, reason="its way is the one without a ROS installation")
def test_the_arm_falls_without_its_controller_and_holds_with_it(tmp_path):
    looks = follow(tmp_path)
    arm = next(looks)

    next(looks)  # brakes off, no controller
    assert min(heights(arm, 3)) < -0.2
    assert abs(settled(arm) - 0.01) < 0.05

    next(looks)  # lifted back
    next(looks)  # dynamics_node
    assert next(looks) is arm  # the controller speaks

    assert next(looks) is arm  # brakes off, with the controller
    assert all(abs(height - 0.39) < 0.021 for height in heights(arm, 7))

    assert next(looks) is arm  # pushed
    settled_height = settled(arm)
    assert settled_height > 0.39 + 0.3
    before = len(heights(arm, 5))
    assert still([settled_height, *heights(arm, before + 4)[before:]])

    assert next(looks) is arm  # the controller ended
    assert min(heights(arm, 3)) < settled_height - 0.5
    assert abs(settled(arm) - 0.01) < 0.05
    assert list(looks) == []  # all ended by Ctrl-C


def settled(terminal):
    """Wait until the tool hardly moves for two seconds; return its height."""
    wait(lambda: still(heights(terminal, 5)[-5:]), terminal.screen)
    return heights(terminal, 5)[-1]


def still(heights):
    return max(heights) - min(heights) < 0.021


SHUT_DOWN_WHILE_PUBLISHING = """
import runpy
import sys

import rclpy
from rclpy.publisher import Publisher

publish = Publisher.publish


def shut_down_and_publish(self, message):
    if self.topic_name == "/effort_controller/commands":
        rclpy.try_shutdown()
    publish(self, message)


Publisher.publish = shut_down_and_publish
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_ctrl_c_during_a_callback_ends_the_controller_quietly(client, tmp_path):
    [code] = [step["code"] for step in STEP.finditer(TUTORIAL) if step["file"] == "hold.py"]
    (tmp_path / "hold.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, "-c", SHUT_DOWN_WHILE_PUBLISHING, str(tmp_path / "hold.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    publisher = client.publisher(JointState, "/dynamics/gravity")
    client.wait(
        lambda: process.poll() is not None,
        "hold.py does not end",
        again=lambda: publisher.publish(JointState(effort=[1.0])),
    )
    assert (process.returncode, process.communicate()[0]) == (0, "")


def test_nothing_of_the_tutorial_is_left_out():
    """Each block is a step that is followed, or a command that test_commands.py looks at."""
    followed = [step.group() for step in STEP.finditer(TUTORIAL)]
    assert sum("```" in step for step in followed) == TUTORIAL.count("```") // 2
    assert all(key in KEYS for key in re.findall(r"press \*\*(.+?)\*\*", TUTORIAL))
    for command in re.findall(
        r"^ {4}(\S.*)$", re.sub(r"```.*?```", "", TUTORIAL, flags=re.DOTALL), re.MULTILINE
    ):
        assert command.startswith("ros2 ") or any(command in step for step in followed)
