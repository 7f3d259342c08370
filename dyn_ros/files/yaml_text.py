# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""YAML that others write: plain values, within limits of size, depth and aliases."""

from __future__ import annotations

import functools
import re
from collections import Counter
from os import PathLike
from typing import Any

from .reading import read_regular_file

MAX_SIZE = 1_000_000  # bytes
MAX_DEPTH = 30  # mappings and lists inside each other
# Keys and values, where each alias counts as what it stands for. libyaml reads them in 0.3 s; the
# properties of 100 joints are fewer than 3000.
MAX_NODES = 20_000
LENGTH_PER_NODE = 100  # characters; longer texts, which aliases may repeat, count as several values
MAX_NUMBER_LENGTH = 100  # characters; longer integers take a time that grows with the square

# Floats of YAML 1.2, such as 1e-3, which YAML 1.1 reads as strings.
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+\Z")
_TAG_DIRECTIVE = re.compile("^%TAG|[\n\r\x85\u2028\u2029]%TAG")


def read_yaml(path: str | PathLike[str]) -> Any:
    """Return the content of a YAML file in UTF-8.

    Raises an OSError if it is not a regular file, and the ValueErrors of `load_yaml`.
    """
    try:
        text = read_regular_file(path, MAX_SIZE).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected YAML in UTF-8: {error}") from None
    return load_yaml(text)


def load_yaml(text: str) -> Any:
    """Return the content of a YAML document: mappings, lists, strings, numbers, booleans and None.

    Numbers may be written as in YAML 1.1 or 1.2; dates are ``datetime`` objects. Raises a
    ValueError, with the line, if it is not YAML, if a key is repeated or a tag such as
    ``!!python/object`` is used, or if a limit of this module is exceeded.
    """
    import yaml

    if len(text) > MAX_SIZE:
        raise ValueError(f"YAML: expected at most {MAX_SIZE:,} characters, got {len(text):,}")
    if _TAG_DIRECTIVE.search(text):  # the parser compares each with all others
        raise ValueError("YAML: the directive %TAG is not supported; remove it")
    loader_type = _loader_type()
    loader = None
    try:
        _check_events(yaml, yaml.parse(text, Loader=loader_type))
        loader = loader_type(text)
        root = loader.get_single_node()
        if root is None:
            return None
        _count_nodes(root, {})
        return _construct(loader, root)
    except (yaml.YAMLError, OverflowError) as error:  # \UFFFFFFFF overflows without libyaml
        raise ValueError(f"not valid YAML: {error!s:.300}") from None
    finally:
        if loader is not None:
            loader.dispose()


def flatten_ros_parameters(content: Any) -> dict[str, Any]:
    """Return the parameters of all nodes in a file of ROS parameters, by their names with dots.

    A parameter that sections set differently has the value of the last section.
    """
    parameters: dict[str, Any] = {}

    def add_parameters(prefix: str, value: Any) -> None:
        """Add the parameters below a prefix, which ends with a dot."""
        if isinstance(value, dict):
            for key, inner in value.items():
                add_parameters("" if key == "ros__parameters" else f"{prefix}{key}.", inner)
        else:
            parameters[prefix[:-1]] = value

    add_parameters("", content)
    return parameters


@functools.cache
def _loader_type() -> Any:
    """Return the class of the parser, with floats of YAML 1.2; libyaml's if there is one."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, [*"-+.0123456789"])
    return Loader


def _construct(loader: Any, root: Any) -> Any:
    """Return the content of a node; raise a ValueError for a date that does not exist."""
    try:
        return loader.construct_document(root)
    except ValueError as error:
        raise ValueError(f"not valid YAML: {error!s:.300}") from None


def _check_events(yaml: Any, events: Any) -> None:
    """Raise a ValueError for a tag, too many nodes, and collections nested too deeply."""
    depth = count = 0
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            count += 1
            _require_few(count, event.start_mark.line + 1)
        if getattr(event, "tag", None):
            raise ValueError(
                f"YAML: the tag {event.tag!r:.80} in line {event.start_mark.line + 1} is not "
                "supported; remove it"
            )
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(
                    f"YAML: expected at most {MAX_DEPTH} mappings and lists inside each other, "
                    f"got more in line {event.start_mark.line + 1}"
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _count_nodes(node: Any, counts: dict[int, int]) -> int:
    """Return the number of keys and values in a node, and of those that its aliases repeat.

    ``counts`` contains the numbers of collections, by id; 0 while they are counted. Raises a
    ValueError for a repeated key, an alias of itself, a long number, and too many nodes.
    """
    line = node.start_mark.line + 1
    if node.id == "scalar":
        is_number = node.tag.endswith((":int", ":float"))
        if is_number and len(node.value) > MAX_NUMBER_LENGTH:
            raise ValueError(
                f"YAML: the number in line {line} has {len(node.value)} characters; expected at "
                f"most {MAX_NUMBER_LENGTH}"
            )
        return 1 + len(node.value) // LENGTH_PER_NODE
    if id(node) in counts:
        if not counts[id(node)]:
            raise ValueError(f"YAML: the collection in line {line} contains an alias of itself")
        return counts[id(node)]
    counts[id(node)] = 0
    if node.id == "mapping":
        _require_unique_keys(node)
        children = [child for pair in node.value for child in pair]
    else:
        children = node.value
    count = 1
    for child in children:
        count += _count_nodes(child, counts)
        _require_few(count, line)
    counts[id(node)] = count
    return count


def _require_few(count: int, line: int) -> None:
    """Raise a ValueError if there are too many nodes."""
    if count > MAX_NODES:
        raise ValueError(
            f"YAML: expected at most {MAX_NODES:,} keys and values, including aliases, "
            f"got more in line {line}"
        )


def _require_unique_keys(mapping: Any) -> None:
    """Raise a ValueError if a key is repeated; YAML would use the last one."""
    keys = Counter(key.value for key, _ in mapping.value if key.id == "scalar")
    for key, _ in mapping.value:
        if key.id == "scalar" and keys[key.value] > 1:
            raise ValueError(
                f"{key.value!r:.80} is there {keys[key.value]} times, in line "
                f"{key.start_mark.line + 1}; remove all but one"
            )
