# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure of a tree of joints, as tuples of indices; a parent precedes its children."""


def children(parents):
    """The children of each joint."""
    found: list[list[int]] = [[] for _ in parents]
    for i, parent in enumerate(parents):
        if parent >= 0:
            found[parent].append(i)
    return tuple(map(tuple, found))


def supports(parents):
    """The joints from the root to each joint, which is the last one."""
    found: list[tuple[int, ...]] = []
    for i, parent in enumerate(parents):
        found.append((*found[parent], i) if parent >= 0 else (i,))
    return tuple(found)


def subtrees(parents):
    """Each joint and its descendants, in ascending order."""
    found = [[i] for i in range(len(parents))]
    for i, path in enumerate(supports(parents)):
        for ancestor in path[:-1]:
            found[ancestor].append(i)
    return tuple(map(tuple, found))
