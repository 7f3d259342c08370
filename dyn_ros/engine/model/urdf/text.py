# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Reading of a file or a text into XML elements, and the error for an unusable description."""

from __future__ import annotations

import codecs
import os
import re
import select
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping
from xml.parsers import expat

from ...kernel.names import join_names

MAX_CHARACTERS = 5_000_000
"""Longer texts are rejected. The largest known descriptions are below 1 MB."""

END_OF_MESSAGE = "\n---\n"
"""Text that `ros2 topic echo` prints behind a description."""

PIPE_TIMEOUT = 30.0
"""Seconds within which a pipe must deliver the whole description; xacro requires a few at most."""

_SIZE_REMEDY = (
    f"at most {MAX_CHARACTERS / 1e6:.0f} million are supported (store meshes in separate files)"
)

XACRO_REMEDY = (
    "expand it with xacro (launch files and the dyn_ros command do so if the name of the file "
    "ends in .xacro)"
)

# XML's prolog: white space, processing instructions and comments, before a DOCTYPE or the root.
_PROLOG_PATTERN = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_CDATA_OR_COMMENT_PATTERN = re.compile(r"<!\[CDATA\[.*?\]\]>|<!--(.*?)-->", re.DOTALL)
_ENCODING_PATTERN = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
# Encodings that only Python has; some take minutes for texts that others decode immediately.
_PYTHON_ENCODINGS = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")


class UrdfError(ValueError):
    """A robot description that cannot be used; the message names the element and the remedy.

    Examples
    --------
    >>> try:
    ...     dyn_ros.Model.from_urdf("<sdf version='1.6'/>")
    ... except dyn_ros.UrdfError as error:
    ...     print(error)
    the root element is <sdf>; expected <robot>
    """


class IncompleteElement(UrdfError):
    """An `element` without an attribute or a child that is required."""

    def __init__(self, text: str, element: ElementTree.Element) -> None:
        super().__init__(text)
        self.element = element


def quoted(names: Iterable[str]) -> str:
    """Format names in quotes for a message, up to ten of them."""
    return join_names(names, 10, '"{}"'.format)


def read_description(path: str | os.PathLike[str], timeout: float = PIPE_TIMEOUT) -> str:
    """Read the text of a file, or of a pipe such as ``<(xacro robot.xacro)`` in a shell.

    Reads at most the largest description that is supported, regardless of the size of the file,
    and decodes it according to its XML declaration. A pipe must be closed within ``timeout``
    seconds. Raises an OSError, or a UrdfError if the text is too long or cannot be decoded.
    """
    deadline = time.monotonic() + timeout
    data = bytearray()
    with open(path, "rb", buffering=0, opener=_open_nonblocking) as file:
        incoming = select.poll()
        incoming.register(file, select.POLLIN)
        while len(data) <= MAX_CHARACTERS:
            if not incoming.poll(1e3 * max(0.0, deadline - time.monotonic())):
                raise UrdfError(
                    f"the pipe delivered {len(data)} characters and was not closed within "
                    f"{timeout:g} s; start the program that writes to it, or read a file"
                )
            chunk = file.read(MAX_CHARACTERS + 1 - len(data))
            if chunk == b"":
                return _decode(bytes(data)).removesuffix(END_OF_MESSAGE)
            data += chunk or b""  # None: another reader took the data
    raise UrdfError(
        f"the description does not end within {MAX_CHARACTERS} characters; {_SIZE_REMEDY}"
    )


def _open_nonblocking(path: str, flags: int) -> int:
    """Open a file for `open`, without waiting for a writer on a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _checked_text(xml: str | bytes) -> str:
    """Return the description as text; raise a UrdfError for its type, size or prolog."""
    if not isinstance(xml, (str, bytes)):
        raise UrdfError(f"expected the URDF as str or bytes, got {type(xml).__name__}")
    if len(xml) > MAX_CHARACTERS:
        raise UrdfError(
            f"the description has {len(xml) / 1e6:.1f} million characters; {_SIZE_REMEDY}"
        )
    text = (xml if isinstance(xml, str) else _decode(xml)).lstrip("\ufeff \t\r\n")
    if not text:
        raise UrdfError("the description is empty; expected URDF, <robot name=...> ... </robot>")
    if not text.startswith("<"):
        raise UrdfError(
            f"not XML: the description starts with {text[:40]!r}; expected URDF text, "
            "<robot name=...> ... </robot> (to read a file, use Model.from_urdf_file)"
        )
    prolog = _PROLOG_PATTERN.match(text)  # may be empty
    if prolog and text.startswith("<!DOCTYPE", prolog.end()):
        raise UrdfError(
            "the description contains a DOCTYPE, which is rejected because it can declare "
            "entities; remove it and write the values explicitly"
        )
    return text


def encoding_of(data: bytes) -> str:
    """Return the encoding of a description, according to its XML declaration."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    declared = _ENCODING_PATTERN.match(data)
    return declared.group(1).decode("ascii") if declared else "utf-8"


def _decode(data: bytes) -> str:
    """Decode a description; raise a UrdfError if its encoding is unknown or wrong."""
    encoding = encoding_of(data)
    try:
        if codecs.lookup(encoding).name.replace("_", "-") in _PYTHON_ENCODINGS:
            raise LookupError("not an encoding of XML")
        return data.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise UrdfError(
            f"the description cannot be decoded as {encoding}: {error}; "
            "save it as UTF-8 or correct the encoding in its XML declaration"
        ) from None


def parse_elements(xml: str | bytes) -> ElementTree.Element:
    """Parse the XML of a description; only checks that it is a URDF.

    Undeclared prefixes and comments with two hyphens are accepted, as by urdfdom.
    """
    root = _parse_leniently(_checked_text(xml))
    if local_name(root) != "robot":
        raise UrdfError(f"the root element is <{local_name(root)}>; expected <robot>")
    for element in root.iter():
        if namespace(element).rstrip("/").endswith("xacro"):
            raise UrdfError(f"<xacro:{local_name(element)}> is not expanded; {XACRO_REMEDY}")
    return root


def _parse_leniently(text: str) -> ElementTree.Element:
    """Return the root element; raise a UrdfError if the text is not XML that urdfdom reads."""
    try:
        try:
            return ElementTree.fromstring(text)
        except ElementTree.ParseError:
            return ElementTree.fromstring(_declare_prefixes(hide_double_hyphens(text)))
    except (ElementTree.ParseError, ValueError) as error:
        raise UrdfError(f"not well-formed XML: {error}") from None


def hide_double_hyphens(text: str) -> str:
    """Replace the hyphens in comments by spaces, since XML forbids two in a row.

    All other characters keep their positions.
    """
    return _CDATA_OR_COMMENT_PATTERN.sub(
        lambda match: match[0] if match[1] is None else f"<!--{match[1].replace('-', ' ')}-->", text
    )


def _declare_prefixes(text: str) -> str:
    """Declare all prefixes that the root does not; the name of each is its namespace."""
    prefixes: set[str] = set()
    root_tags: list[tuple[int, str]] = []  # position in bytes, and name
    declared_prefixes = {"xml", "xmlns"}

    def start(name: str, attributes: Mapping[str, str]) -> None:
        if not root_tags:
            root_tags.append((parser.CurrentByteIndex, name))
            declared_prefixes.update(
                attribute[6:] for attribute in attributes if attribute.startswith("xmlns:")
            )
        prefixes.update(word.partition(":")[0] for word in (name, *attributes) if ":" in word)

    data = text.encode()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = start
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        return text
    position, name = root_tags[0]
    end = position + 1 + len(name.encode())
    declarations = "".join(
        f' xmlns:{prefix}="{prefix}"' for prefix in sorted(prefixes - declared_prefixes)
    )
    return (data[:end] + declarations.encode() + data[end:]).decode()


def place_of(element: ElementTree.Element, root: ElementTree.Element, xml: object) -> str:
    """Return where an element is, for a message: its line, if there is a text, and a neighbor."""
    places = []
    if isinstance(xml, (str, bytes)):
        places.append(f"line {_line_of(element, root, xml)} of the URDF")
    parent = next((parent for parent in root.iter() if element in parent), None)
    siblings = [] if parent is None else list(parent)
    index = siblings.index(element) if siblings else 0
    named = [("after", sibling) for sibling in reversed(siblings[:index])]
    named += [("before", sibling) for sibling in siblings[index + 1 :]]
    for side, sibling in named:
        if name := sibling.get("name"):
            places.append(f'{side} {local_name(sibling)} "{name}"')
            break
    return ", ".join(places)


def _line_of(element: ElementTree.Element, root: ElementTree.Element, xml: str | bytes) -> int:
    """Return the line of an element in the text that it was parsed from."""
    lines: list[int] = []
    text, decoded = _checked_text(xml), xml if isinstance(xml, str) else _decode(xml)
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler = lambda *_: lines.append(parser.CurrentLineNumber)
    parser.Parse(hide_double_hyphens(text).encode(), True)
    removed_lines = decoded[: len(decoded) - len(text)].count("\n")
    return removed_lines + lines[list(root.iter()).index(element)]


def children(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    """Return the children with a name, in the namespace of the element."""
    return [
        child
        for child in element
        if local_name(child) == tag and namespace(child) == namespace(element)
    ]


def namespace(element: ElementTree.Element) -> str:
    """Return the namespace of an element, or an empty string."""
    return element.tag[1:].rpartition("}")[0]


def local_name(element: ElementTree.Element) -> str:
    """Return the element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def child(element: ElementTree.Element, tag: str) -> ElementTree.Element | None:
    """Return the first child with a name, or None; see ``children``."""
    return next(iter(children(element, tag)), None)
