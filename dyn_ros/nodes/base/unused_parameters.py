# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters in files and arguments that no node uses, which rclpy ignores without a message."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...engine.kernel.names import join_names, similar_names
from ...files.yaml_text import read_yaml
from .lifecycle import BaseNode
from .rclpy_internals import parameter_overrides

PACKAGE_NODES = ("dyn_ros", "dynamics", "centroidal", "vereshchagin", "observer", "viewer")
_QOS_PREFIX = "qos_overrides."  # declared when a topic is subscribed to
_FILE_OPTION = "--params-file"
_ALL_NODES = "/**"  # the section for the nodes of all processes


def warn_of_unused_parameters(nodes: Sequence[BaseNode], arguments: Sequence[str]) -> None:
    """Log parameters that no node of the process has, and sections of files for no node.

    ``arguments`` are the command-line arguments of the process.
    """
    names = [node.get_fully_qualified_name() for node in nodes]
    files = [file for option, file in itertools.pairwise(arguments) if option == _FILE_OPTION]
    for text in (*unknown_parameters(nodes), *unused_sections(files, names)):
        nodes[0].get_logger().warning(text)


def unknown_parameters(nodes: Sequence[BaseNode]) -> Iterator[str]:
    """Yield a text for each parameter that is set for nodes, but that none of them has.

    A parameter that is set for all nodes of a process needs to exist in one of them only.
    """
    nodes_of_parameter: dict[str, list[BaseNode]] = {}
    for node in nodes:
        for name in parameter_overrides(node):
            nodes_of_parameter.setdefault(name, []).append(node)
    for name, users in nodes_of_parameter.items():
        if name.startswith(_QOS_PREFIX) or any(node.has_parameter(name) for node in users):
            continue
        owners = [node for node in nodes if node.has_parameter(name)]
        similar = similar_names(name, {spec for node in users for spec in node.parameters.specs})
        remedy = ""
        if owners:
            remedy = f"; set it for {join_names(_names(owners))}"
        elif similar:
            remedy = f"; did you mean {' or '.join(similar)}?"
        yield f"{name!r} is no parameter of {join_names(_names(users))}, and ignored{remedy}"


def unused_sections(files: Iterable[str], nodes: Sequence[str]) -> Iterator[str]:
    """Yield a text for each section of parameter files that seems to be for one of the nodes.

    Files may also have sections for nodes of other processes. Therefore, sections are reported
    whose names resemble a node without a section, or if no section is for any of the ``nodes``,
    which are fully qualified names.
    """
    for file in files:
        sections = list(_section_names(_read_yaml(file)))
        unused = [
            section for section in sections if not any(_matches(section, node) for node in nodes)
        ]
        has_section_for_a_node = any(
            _matches(section, node) for section in sections for node in nodes
        )
        nodes_without_section = [
            node
            for node in nodes
            if not any(_matches(section, node) for section in sections if section != _ALL_NODES)
        ]
        misspelt = {
            section: [f"{node.rpartition('/')[0]}/{name}" for name in similar]
            for section in unused
            for node in nodes_without_section
            if (title := section.rpartition("/")[2]) not in PACKAGE_NODES
            and (similar := similar_names(title, [node.rpartition("/")[2]]))
        }
        for section, similar in misspelt.items():
            yield (
                f"{file}: the section {section!r} is for no node of this process; did you mean "
                f"{similar[0]!r}?"
            )
        other_nodes = {*PACKAGE_NODES} - {node.rpartition("/")[2] for node in nodes}
        if (
            not misspelt
            and not has_section_for_a_node
            and not other_nodes.issuperset(section.rpartition("/")[2] for section in unused)
        ):
            yield (f"{file}: no section is for {join_names(nodes)}; it has {join_names(unused)}")


def _names(nodes: Iterable[BaseNode]) -> list[str]:
    """Return the fully qualified names of nodes."""
    return [node.get_fully_qualified_name() for node in nodes]


def _read_yaml(file: str) -> Any:
    """Return the content of a file that rclpy has read; None if it is not plain YAML."""
    try:
        return read_yaml(file)
    except (OSError, ValueError):
        return None


def _section_names(content: Any, prefix: str = "") -> Iterator[str]:
    """Yield the names of the nodes in a parameter file, with namespaces."""
    if not isinstance(content, Mapping):
        return
    for key, value in content.items():
        if key == "ros__parameters":
            yield prefix
        else:
            yield from _section_names(value, f"{prefix}/{str(key).strip('/')}")


def _matches(section: str, node: str) -> bool:
    """Return True if a section, with the wildcards * and **, is for a node."""
    pattern = re.escape(section).replace(r"/\*\*", "(/.+)?").replace(r"\*", "[^/]+")
    return re.fullmatch(pattern, node) is not None
