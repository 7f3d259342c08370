# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names in messages."""

from pathlib import Path

import pytest

from dyn_ros.engine.kernel.names import (
    join_names,
    name_arguments,
    name_file,
    short_repr,
    shorten,
    similar_names,
    unknown_name,
    without_file,
)


def test_lists_of_names():
    assert join_names("abc") == "a, b, c"
    assert join_names("abc", 3) == "a, b, c"
    assert join_names("abcde", 3) == "a, b, c and 2 more"
    assert join_names(iter("ab"), write=repr) == "'a', 'b'"
    assert join_names([]) == join_names([], 3) == "none"


def test_an_unknown_name_is_abbreviated_and_others_are_listed():
    assert unknown_name("joint", "elbow", ["a", "b"]) == "no joint named 'elbow'; available: a, b"
    assert unknown_name("joint", 5, "abc", 2) == "no joint named 5; available: a, b and 1 more"
    assert len(unknown_name("joint", 500 * "x", ())) < 150


@pytest.mark.parametrize(
    "value",
    [None, 1.5, "it's", b"a", [], [1, "a"], (), (1,), (1, 2), {}, {"a": [1, {2: (3,)}]}, {1, 2}],
)
def test_short_values_are_written_completely(value):
    assert short_repr(value) == repr(value)


def test_values_of_any_size_are_abbreviated():
    deep, endless, aliases = [], [], ["x"] * 10
    for _ in range(100_000):
        deep = [deep]
    endless.append(endless)
    for _ in range(40):
        aliases = [aliases] * 10
    numbers = list(range(100_000))
    for value in (deep, endless, aliases, numbers, 10**100_000, "x" * 1000, {1: numbers}):
        text = short_repr(value)
        assert len(text) == 80 and text.endswith("...")
    assert short_repr(10**400) == "1" + 76 * "0" + "..."
    assert short_repr(numbers, 16) == "[0, 1, 2, 3, ..."
    assert shorten("abcdef", 5) == "ab..." and shorten("abcde", 5) == "abcde"


def test_similar_names():
    assert similar_names("elbov", ["elbow", "knee", "elbow_2"]) == ["elbow", "elbow_2"]
    assert similar_names("elbov", ["elbow", "elbow_2"], 1) == ["elbow"]
    assert similar_names("elbov", ["elbow_2", "knee"], least=0.9) == []


NAMES = {"columns": "--columns", "strict": "strict: true", "gravity": "--gravity"}


@pytest.mark.parametrize(
    "text, expected",
    [
        ("no column; rename it, or set columns=", "no column; rename it, or set --columns"),
        ("no column; rename it, or lock it with lock=", "no column; rename it"),
        ("no column; lock it with lock=, or rename it", "no column; rename it"),
        ("no column; lock it with lock=; record it", "no column; record it"),
        ("rejected because of strict=True: a", "rejected because of strict: true: a"),
        ("rejected because of lock=", "rejected because of lock="),  # a statement, not advice
        ("1 0 0 explains it; use it for model.gravity", "1 0 0 explains it; use it for --gravity"),
        ("no drive; set model.armature", "no drive"),
        ('a; write <limit velocity="3"/>', 'a; write <limit velocity="3"/>'),
        ("model.urdf; a, or b", "model.urdf; a, or b"),
    ],
)
def test_arguments_become_what_readers_can_set(text, expected):
    assert name_arguments(text, lambda name, value: NAMES.get(name, "")) == expected


@pytest.mark.parametrize("name", ["bags/run.mcap", "'bags/run.mcap'", "run.mcap", "run"])
def test_a_message_names_its_file_once(name):
    path = Path("bags/run.mcap")
    assert name_file(path, f"{name}: is empty: 0 bytes") == "bags/run.mcap: is empty: 0 bytes"
    assert without_file(path, f"{name}: is empty") == "is empty"


def test_a_message_about_something_else_is_kept():
    text = "time: there is no column 'time'"
    assert name_file(Path("run.csv"), text) == f"run.csv: {text}"
    assert without_file(Path("run.csv"), "no colon") == "no colon"
