# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML within limits of size, depth and aliases."""

import pytest

from dyn_ros.files.yaml_text import MAX_DEPTH, load_yaml, read_yaml

NESTED_ALIASES = "\n".join(
    ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    + [f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 10)}]" for k in range(1, 9)]
)


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("", None),
        ("a: [1, 2.5, x, true, null]", {"a": [1, 2.5, "x", True, None]}),
        ("a: &x {gain: 2}\nb: *x\nc: {<<: *x, unit: A}", None),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
        ("'1'", "1"),
        ("[1e-3, -.5E2, 2.e1, '1e3', 1e3x]", [1e-3, -50.0, 20.0, "1e3", "1e3x"]),
        ("%YAML 1.1\n---\na: '%TAG'", {"a": "%TAG"}),
    ],
)
def test_plain_values(text, content):
    value = load_yaml(text)
    if "&x" in text:
        assert value == {"a": {"gain": 2}, "b": {"gain": 2}, "c": {"gain": 2, "unit": "A"}}
    elif content is None and text:
        assert isinstance(value, list)
    else:
        assert value == content


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb: 2\na: 3", "'a' is there 2 times, in line 1"),
        ("c:\n  a: 1\n  a: 3", "'a' is there 2 times, in line 2"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "at most 30 .* inside each other"),
        ("[" * 3000 + "]" * 3000, "inside each other"),
        ("{a: " * 3000 + "}" * 3000, "inside each other"),
        (NESTED_ALIASES, "keys and values, including aliases"),
        ("a: &a [*a]", "alias of itself"),
        ("a: !!python/object:os.system 1", "tag .* in line 1"),
        ("a: !!int ''", "tag"),
        ("a: " + "9" * 5000, "number in line 1 has 5000 characters"),
        ("a: 1" + ":1" * 5000, "number in line 1"),
        ("a: 2001-99-99", "not valid YAML: month"),
        ("a: b: c", "not valid YAML"),
        ("a: \x00", "not valid YAML"),
        ("{[1]: 2}", "not valid YAML"),
        ("- a\n---\n- b", "not valid YAML"),
        ('"\\UFFFFFFFF"', "not valid YAML"),
        ("a: 0x_", "not valid YAML"),
        ("%TAG !a! b\n--- 1", "directive %TAG is not supported"),
        ("".join(f"%TAG !a{k}! x\n" for k in range(60_000)) + "--- a", "directive %TAG"),
        ("- &a '" + 900_000 * "x" + "'\n" + 19_000 * "- *a\n", "including aliases"),
        ("x" * 1_000_001, "at most 1,000,000 characters"),
    ],
)
def test_what_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        load_yaml(text)


def test_many_keys():
    text = "joints:\n" + "".join(f"  joint{k}: 1.0\n" for k in range(9_000))
    assert len(load_yaml(text)["joints"]) == 9_000
    with pytest.raises(ValueError, match="at most 20,000 keys and values.*in line 5"):
        load_yaml(text.replace("1.0", "{gain: 1.0}"))


def test_a_file_that_is_not_utf8(tmp_path):
    path = tmp_path / "drives.yaml"
    path.write_bytes(b"a: \xff")
    with pytest.raises(ValueError, match="in UTF-8"):
        read_yaml(path)
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_yaml(path) == {"a": 1}
