# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure of a tree of joints, as tuples of indices; a parent precedes its children."""


def children(parents):
    """The children of each joint."""
    below: list[list[int]] = [[] for _ in parents]
    for i, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(i)
    return tuple(map(tuple, below))


def supports(parents):
    """The joints from the root to each joint, which is the last one."""
    paths: list[tuple[int, ...]] = []
    for i, parent in enumerate(parents):
        paths.append((*paths[parent], i) if parent >= 0 else (i,))
    return tuple(paths)


def subtrees(parents):
    """Each joint and its descendants, in ascending order."""
    below: list[list[int]] = [[] for _ in parents]
    for i, path in enumerate(supports(parents)):
        for ancestor in path:
            below[ancestor].append(i)
    return tuple(map(tuple, below))
