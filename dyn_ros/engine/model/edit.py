# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes of attributes and elements in the text of a description; the remaining text stays.

Positions are offsets of bytes in UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree.ElementTree import Element
from xml.parsers import expat

from .urdf.text import hide_double_hyphens

_NAME_PATTERN = re.compile(rb"[^\s/>=]+")
_ATTRIBUTE_PATTERN = re.compile(rb"\s+([^\s/>=]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_LINE_PATTERN = re.compile(rb"(?:\r\n|\n|\r)[ \t]*\Z")
_DEFAULT_INDENTATION = b"  "


@dataclass
class _ElementSpan:
    """Positions of an element in the text.

    The content is between the start tag and the end tag. For an empty element, ``<.../>``, its
    limits and ``end`` are the end of the only tag.
    """

    parent: _ElementSpan | None
    start: int
    content_start: int
    content_end: int = 0
    end: int = 0


class NewElement(NamedTuple):
    """An element to be inserted; its children have no children."""

    tag: str
    attributes: Mapping[str, str]
    children: Sequence[NewElement] = ()


class Editor:
    """The text of a description, and the changes to it; ``root`` is its root element."""

    def __init__(self, text: str, root: Element) -> None:
        self._data = text.encode()
        self._edits: list[tuple[int, int, bytes]] = []
        self._spans: dict[Element, _ElementSpan] = {}
        elements = root.iter()
        open_spans: list[_ElementSpan] = []

        def start(name: str, attributes: Mapping[str, str]) -> None:
            position = parser.CurrentByteIndex
            parent = open_spans[-1] if open_spans else None
            span = _ElementSpan(parent, position, self._start_tag_end(position))
            self._spans[next(elements)] = span
            open_spans.append(span)

        def end(name: str) -> None:
            span = open_spans.pop()
            if self._is_empty(span):
                span.content_end = span.end = span.content_start
            else:
                span.content_end = parser.CurrentByteIndex
                span.end = self._data.index(b">", span.content_end) + 1

        parser = expat.ParserCreate("utf-8")
        parser.StartElementHandler, parser.EndElementHandler = start, end
        parser.Parse(hide_double_hyphens(text).encode(), True)

    def _is_empty(self, span: _ElementSpan) -> bool:
        return self._data[span.content_start - 2 : span.content_start] == b"/>"

    def _start_tag_end(self, start: int) -> int:
        position = self._tag_name(start).end()
        for attribute in self._attributes(start):
            position = attribute.end()
        return self._data.index(b">", position) + 1

    def _tag_name(self, start: int) -> re.Match[bytes]:
        match = _NAME_PATTERN.match(self._data, start + 1)
        assert match
        return match

    def _attributes(self, start: int) -> Iterator[re.Match[bytes]]:
        """Yield matches of the attributes in a start tag: their names and quoted values."""
        position = self._tag_name(start).end()
        while attribute := _ATTRIBUTE_PATTERN.match(self._data, position):
            yield attribute
            position = attribute.end()

    # --- changes

    def set(self, element: Element, name: str, value: str) -> None:
        """Replace the value of an attribute, or append the attribute."""
        start = self._spans[element].start
        position = self._tag_name(start).end()
        for attribute in self._attributes(start):
            if attribute[1] == name.encode():
                self._edits.append((attribute.start(2) + 1, attribute.end(2) - 1, value.encode()))
                return
            position = attribute.end()
        self._edits.append((position, position, f' {name}="{value}"'.encode()))

    def insert(self, parent: Element, element: NewElement, last: bool = False) -> None:
        """Insert an element as the first child or the last one, on a line like its siblings."""
        span, children = self._spans[parent], [self._spans[child] for child in parent]
        line, step = self._indentation(span, children)
        name = self._tag_name(span.start)[0]
        prefix = name[: name.find(b":") + 1]
        text = line + _element_text(element, prefix, line, step)
        if self._is_empty(span):
            closing = self._line_break_before(span.start) if line else b""
            slash = self._data.rindex(b"/", span.start, span.content_start)
            self._edits.append((slash, slash + 1, b""))
            self._edits.append(
                (span.content_start, span.content_start, text + closing + b"</" + name + b">")
            )
            return
        position = children[-1].end if last and children else span.content_start
        if not children and line and not self._line_break_before(span.content_end):
            text += self._line_break_before(span.start)
        self._edits.append((position, position, text))

    def _indentation(
        self, span: _ElementSpan, children: Sequence[_ElementSpan]
    ) -> tuple[bytes, bytes]:
        """Return the line break and indentation of children, and the additional one per level."""
        own_line = self._line_break_before(span.start)
        parent_line = self._line_break_before(span.parent.start) if span.parent else b""
        parent_line = parent_line or own_line.rstrip(b" \t")
        step = own_line[len(parent_line) :] if own_line.startswith(parent_line) else b""
        if children:
            line = self._line_break_before(children[0].start)
            if own_line and line.startswith(own_line) and len(line) > len(own_line):
                step = line[len(own_line) :]
            return line, step or _DEFAULT_INDENTATION
        step = step or _DEFAULT_INDENTATION
        return (own_line + step if own_line else b""), step

    def _line_break_before(self, position: int) -> bytes:
        """Return the line break and indentation before a position; empty if there is more text."""
        line = _LINE_PATTERN.search(
            self._data, max(0, self._data.rfind(b"\n", 0, position) - 1), position
        )
        return line[0] if line else b""

    def text(self) -> str:
        """Return the text with all changes."""
        pieces, position = [], 0
        for start, end, replacement in sorted(self._edits, key=lambda edit: edit[:2]):
            pieces += [self._data[position:start], replacement]
            position = end
        return b"".join([*pieces, self._data[position:]]).decode()


def _element_text(element: NewElement, prefix: bytes, line: bytes, step: bytes) -> bytes:
    """Return the text of a new element, whose children are each on a line of their own."""
    name = prefix + element.tag.encode()
    attributes = b"".join(f' {key}="{value}"'.encode() for key, value in element.attributes.items())
    if not element.children:
        return b"<" + name + attributes + b"/>"
    inner = line + step if line else b""
    children = b"".join(
        inner + _element_text(child, prefix, inner, step) for child in element.children
    )
    return b"<" + name + attributes + b">" + children + line + b"</" + name + b">"
