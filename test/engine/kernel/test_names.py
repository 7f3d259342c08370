# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Names in messages."""

from dyn_ros.engine.kernel.names import join_names, similar_names, unknown_name


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


def test_similar_names():
    assert similar_names("elbov", ["elbow", "knee", "elbow_2"]) == ["elbow", "elbow_2"]
    assert similar_names("elbov", ["elbow", "elbow_2"], 1) == ["elbow"]
    assert similar_names("elbov", ["elbow_2", "knee"], least=0.9) == []
