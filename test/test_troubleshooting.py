# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The messages that docs/troubleshooting.md explains are messages of the code."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
QUOTED = [
    line
    for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def texts(tree):
    """The strings in a source, as they are put together; what is filled in is a NUL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{[^{}]*\}", "\0", node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                each.value if isinstance(each, ast.Constant) else "\0" for each in node.values
            )
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            parts = [list(texts(each)) for each in (node.left, node.right)]
            if all(parts):
                yield "\0".join(part[0] for part in parts)


@functools.cache
def texts_of_the_package():
    return [
        text
        for file in sorted((ROOT / "dyn_ros").rglob("*.py"))
        for text in texts(ast.parse(file.read_text()))
    ]


def is_said(line):
    """Whether some text of the sources has the line's words, with what is filled in between."""
    words = [word.strip() for word in line.split("...") if word.strip()]
    pattern = re.compile(".*".join(map(re.escape, words)), re.DOTALL)
    return any(pattern.search(text) for text in texts_of_the_package())


@pytest.mark.parametrize("line", QUOTED)
def test_the_code_says_it(line):
    assert len(re.findall(r"[a-z]", line)) >= 8
    assert is_said(line)


def test_what_is_not_in_the_code_is_found_out():
    assert is_said("waiting for the position of ...")
    assert not is_said("waiting for the positions of ...")
    assert not is_said("the position of ... waiting for")
    assert len(QUOTED) > 20
