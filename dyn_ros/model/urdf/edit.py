# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Changes in the text of a description: attributes and elements, with all else kept as it is.

Positions are those of bytes in UTF-8.
"""
from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from xml.parsers import expat

_NAME = re.compile(rb"[^\s/>=]+")
_ATTRIBUTE = re.compile(rb"\s+([^\s/>=]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_LINE = re.compile(rb"(?:\r\n|\n|\r)[ \t]*\Z")
_STEP = b"  "


@dataclass
class Element:
    """An element and where it is in the text.

    Attributes
    ----------
    namespace, tag : str
    attributes : dict of str to str
        Those without a namespace.
    start, inside : int
        Positions of its start tag and of the end of this tag.
    parent : Element or None
    children : list of Element
    close, end : int
        Positions of its end tag and of the end of this tag; those of the end of the start tag if
        the element is empty, ``<.../>``.
    """

    namespace: str
    tag: str
    attributes: dict[str, str]
    start: int
    inside: int
    parent: Element | None
    children: list[Element] = field(default_factory=list)
    close: int = 0
    end: int = 0

    def all(self, tag: str) -> list[Element]:
        """The children with this name, in the namespace of the element."""
        return [child for child in self.children
                if child.tag == tag and child.namespace == self.namespace]

    def first(self, tag: str) -> Element | None:
        """The first of them, or None."""
        return next(iter(self.all(tag)), None)


class New(NamedTuple):
    """An element to be inserted; its children have no children."""

    tag: str
    attributes: Mapping[str, str]
    children: Sequence[New] = ()


class Editor:
    """The text of a description, its elements, and the changes to it."""

    def __init__(self, text: str) -> None:
        self._data = text.encode()
        self._edits: list[tuple[int, int, bytes]] = []
        self._open: list[Element] = []
        parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler = lambda name, attributes: self._start(
            parser.CurrentByteIndex, name, attributes)
        parser.EndElementHandler = lambda name: self._end(parser.CurrentByteIndex)
        parser.Parse(self._data, True)

    def _start(self, start, name, attributes):
        namespace, _, tag = name.rpartition(" ")
        inside = self._start_tag_end(start)
        parent = self._open[-1] if self._open else None
        element = Element(namespace, tag, attributes, start, inside, parent)
        if parent is None:
            self.root = element
        else:
            parent.children.append(element)
        self._open.append(element)

    def _end(self, position):
        element = self._open.pop()
        if self._is_empty(element):
            element.close = element.end = element.inside
        else:
            element.close = position
            element.end = self._data.index(b">", position) + 1

    def _is_empty(self, element):
        return self._data[element.inside - 2:element.inside] == b"/>"

    def _start_tag_end(self, start):
        return self._data.index(b">", self._attributes_end(start)) + 1

    def _attributes_end(self, start):
        position = self._after_name(start)
        while found := _ATTRIBUTE.match(self._data, position):
            position = found.end()
        return position

    def _after_name(self, start):
        name = _NAME.match(self._data, start + 1)
        assert name is not None
        return name.end()

    def _prefix(self, element):
        """The namespace prefix of an element with its colon, or nothing."""
        name = self._data[element.start + 1:self._after_name(element.start)]
        return name[:name.find(b":") + 1]

    # --- changes

    def set(self, element: Element, attribute: str, value: str) -> None:
        """Replace the value of an attribute, or append the attribute."""
        position = self._after_name(element.start)
        while found := _ATTRIBUTE.match(self._data, position):
            position = found.end()
            if found[1] == attribute.encode():
                self._edits.append((found.start(2) + 1, found.end(2) - 1, value.encode()))
                return
        self._edits.append((position, position, f' {attribute}="{value}"'.encode()))

    def insert(self, parent: Element, new: New, last: bool = False) -> None:
        """Insert an element as the first child or the last one, on a line like its siblings."""
        line, step = self._layout(parent)
        prefix = self._prefix(parent)
        text = line + _text(new, prefix, line, step)
        if self._is_empty(parent):
            name = self._data[parent.start + 1:self._after_name(parent.start)]
            closing = self._line_before(parent.start) if line else b""
            slash = self._data.rindex(b"/", parent.start, parent.inside)
            self._edits.append((slash, slash + 1, b""))
            self._edits.append((parent.inside, parent.inside,
                                text + closing + b"</" + name + b">"))
            return
        at = parent.children[-1].end if last and parent.children else parent.inside
        if not parent.children and line and not self._line_before(parent.close):
            text += self._line_before(parent.start)
        self._edits.append((at, at, text))

    def _layout(self, parent):
        """The line break and indentation of the children, and the additional one per level."""
        own = self._line_before(parent.start)
        above = self._line_before(parent.parent.start) if parent.parent else b""
        above = above or own.rstrip(b" \t")
        step = own[len(above):] if own.startswith(above) else b""
        if parent.children:
            line = self._line_before(parent.children[0].start)
            if own and line.startswith(own) and len(line) > len(own):
                step = line[len(own):]
            return line, step or _STEP
        return (own + (step or _STEP) if own else b""), step or _STEP

    def _line_before(self, position):
        """The line break and indentation before a position; nothing if something else is."""
        found = _LINE.search(self._data, max(0, self._data.rfind(b"\n", 0, position) - 1), position)
        return found[0] if found else b""

    def text(self) -> str:
        """The text with all changes."""
        pieces, position = [], 0
        for start, end, replacement in sorted(self._edits, key=lambda edit: edit[:2]):
            pieces += [self._data[position:start], replacement]
            position = end
        return b"".join([*pieces, self._data[position:]]).decode()


def _text(new, prefix, line, step):
    name = prefix + new.tag.encode()
    attributes = b"".join(f' {key}="{value}"'.encode() for key, value in new.attributes.items())
    if not new.children:
        return b"<" + name + attributes + b"/>"
    inner = line + step if line else b""
    children = b"".join(inner + _text(child, prefix, inner, step) for child in new.children)
    return b"<" + name + attributes + b">" + children + line + b"</" + name + b">"
