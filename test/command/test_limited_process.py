# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Calls in a process with limits, and xacro files that would exceed them."""

import os

import pytest

from dyn_ros.command import arguments, main
from dyn_ros.command.limited_process import LimitError, call_within_limits

LIMITS = {"memory": 200_000_000, "processor_time": 1}


def fail(text):
    raise ValueError(text)


def spin():
    while True:
        pass


def test_results_and_exceptions_are_passed_on():
    assert call_within_limits(sorted, "cab", **LIMITS) == ["a", "b", "c"]
    assert call_within_limits(os.getpid, **LIMITS) != os.getpid()
    with pytest.raises(ValueError, match="a reason"):
        call_within_limits(fail, "a reason", **LIMITS)


def test_limits():
    with pytest.raises(LimitError, match="more than 200 MB of memory"):
        call_within_limits(bytes, 1 << 32, **LIMITS)
    with pytest.raises(LimitError, match="more than 1 s of processor time"):
        call_within_limits(spin, **LIMITS)
    with pytest.raises(LimitError, match="more than 1 s of processor time"):
        call_within_limits(pow, 9, 9**9, **LIMITS)


ROBOT = '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro">{}</robot>'
MACROS = "".join(
    f'<xacro:macro name="m{k}">{10 * f"<xacro:m{k - 1}/>"}</xacro:macro>' for k in range(1, 8)
)
PROGRAMS = {
    "${'a' * 4000000000}": "800 MB of memory",
    "${9**9**9}": "2 s of processor time",
}


@pytest.mark.parametrize("expression", PROGRAMS)
def test_expressions_of_xacro(tmp_path, monkeypatch, capsys, expression):
    pytest.importorskip("xacro")
    monkeypatch.setattr(arguments, "_XACRO_TIME", 2)
    path = tmp_path / "robot.urdf.xacro"
    path.write_text(ROBOT.format(f'<link name="{expression}"/>'))
    assert main.main(["info", str(path)]) == 2
    error = capsys.readouterr().err
    assert f"xacro: it takes more than {PROGRAMS[expression]}" in error and str(path) in error


def test_macros_of_xacro_that_multiply(tmp_path, monkeypatch, capsys):
    pytest.importorskip("xacro")
    monkeypatch.setattr(arguments, "_XACRO_TIME", 2)
    path = tmp_path / "robot.urdf.xacro"
    macros = '<xacro:macro name="m0"><link name="l"/></xacro:macro>' + MACROS
    path.write_text(ROBOT.format(macros + "<xacro:m7/>"))
    assert main.main(["info", str(path)]) == 2
    assert "xacro: it takes more than" in capsys.readouterr().err
