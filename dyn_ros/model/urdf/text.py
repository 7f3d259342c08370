# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""From a file or a text to XML elements, of which nothing is checked but that it is a URDF's."""
from __future__ import annotations

import codecs
import os
import re
import select
import time
import xml.etree.ElementTree as ElementTree

from .error import UrdfError

MAX_CHARACTERS = 5_000_000
"""A longer text is rejected. The largest robots known are below 1 MB; meshes belong in files."""

PIPE_TIMEOUT = 30.0
"""Seconds in which a pipe has to bring a description to its end; xacro takes a few at most."""

_MOST = (f"at most {MAX_CHARACTERS / 1e6:.0f} million are read "
         "(meshes belong in files of their own)")

# XML's prolog: white space, processing instructions and comments, before a DOCTYPE or the root.
_PROLOG = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->)*", re.DOTALL)
_DECLARED_ENCODING = re.compile(rb"""^\s*<\?xml[^>]*?encoding\s*=\s*["']([A-Za-z0-9._-]+)["']""")
# Of Python alone; some take minutes for what others decode at once.
_PYTHONS_OWN = ("idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape")


def read_description(path: str | os.PathLike[str], timeout: float = PIPE_TIMEOUT) -> str:
    """The text of a file, or of a pipe such as the shell makes of ``<(xacro robot.xacro)``.

    No more than the largest description is read, however large the file is.

    Parameters
    ----------
    path : str or path-like
    timeout : float
        Seconds in which a pipe has to come to its end.

    Returns
    -------
    str
        Decoded as its XML declaration says.

    Raises
    ------
    OSError
        The file cannot be read.
    UrdfError
        It is too long, cannot be decoded, or is a pipe that did not come to its end.
    """
    deadline = time.monotonic() + timeout
    data = bytearray()
    with open(path, "rb", buffering=0, opener=_open_at_once) as file:
        incoming = select.poll()
        incoming.register(file, select.POLLIN)
        while len(data) <= MAX_CHARACTERS:
            if not incoming.poll(1e3 * max(0.0, deadline - time.monotonic())):
                raise UrdfError(
                    f"the pipe has brought {len(data)} characters and no end within {timeout:g} s; "
                    "start the program that writes to it, or read a file"
                )
            part = file.read(MAX_CHARACTERS + 1 - len(data))
            if part == b"":
                return _decode(bytes(data))
            data += part or b""         # None: another reader was faster
    raise UrdfError(f"the description does not end within {MAX_CHARACTERS} characters; {_MOST}")


def _open_at_once(path, flags):
    """For `open`: does not wait until somebody writes to a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _text(xml):
    """The description as text, its size and its prolog checked before any parser sees it."""
    if not isinstance(xml, (str, bytes)):
        raise UrdfError(f"expected the URDF as str or bytes, got {type(xml).__name__}")
    if len(xml) > MAX_CHARACTERS:
        raise UrdfError(f"the description has {len(xml) / 1e6:.1f} million characters; {_MOST}")
    text = (xml if isinstance(xml, str) else _decode(xml)).lstrip("\ufeff \t\r\n")
    if not text:
        raise UrdfError("the description is empty; expected URDF, <robot name=...> ... </robot>")
    if not text.startswith("<"):
        raise UrdfError(
            f"not XML: the description starts with {text[:40]!r}; expected URDF text, "
            "<robot name=...> ... </robot> (to read a file, use Model.from_urdf_file)"
        )
    if text.startswith("<!DOCTYPE", _PROLOG.match(text).end()):
        raise UrdfError(
            "the description has a DOCTYPE, which is refused because it can declare entities; "
            "remove it and write the values out"
        )
    return text


def _decode(data):
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        declared = _DECLARED_ENCODING.match(data)
        encoding = declared.group(1).decode("ascii") if declared else "utf-8"
    try:
        if codecs.lookup(encoding).name.replace("_", "-") in _PYTHONS_OWN:
            raise LookupError("no encoding of XML")
        return data.decode(encoding)
    except (LookupError, UnicodeError) as error:
        raise UrdfError(
            f"the description cannot be decoded as {encoding}: {error}; "
            "save it as UTF-8 or correct the encoding in its XML declaration"
        ) from None


def parse_elements(xml: str | bytes) -> ElementTree.Element:
    """The XML of a description, of which nothing is checked but that it is a URDF's.

    Parameters
    ----------
    xml : str or bytes

    Returns
    -------
    xml.etree.ElementTree.Element

    Raises
    ------
    UrdfError
        It is not well-formed, or too long, or has a DOCTYPE.
    """
    return _parse_xml(_text(xml))


def _parse_xml(text):
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        hint = "; expand xacro files with the xacro command first" if "prefix" in str(error) else ""
        raise UrdfError(f"not well-formed XML: {error}{hint}") from None
    except (ValueError, UnicodeError) as error:
        raise UrdfError(f"not well-formed XML: {error}") from None
    if local_name(root) != "robot":
        raise UrdfError(f"the root element is <{local_name(root)}>; a URDF's is <robot>")
    for element in root.iter():
        if namespace(element).rstrip("/").endswith("xacro"):
            raise UrdfError(
                f"<xacro:{local_name(element)}> is not expanded; run the xacro command first"
            )
    return root


def children(element: ElementTree.Element, tag: str) -> list[ElementTree.Element]:
    """The children of a name, those of other namespaces left out."""
    return [child for child in element
            if local_name(child) == tag and namespace(child) == namespace(element)]


def namespace(element):
    """The namespace of an element, or an empty string."""
    return element.tag[1:].rpartition("}")[0]


def local_name(element):
    """The element's name without its namespace."""
    return element.tag.rpartition("}")[2]
