# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts in a recording: when external efforts exceed their thresholds, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array

PAUSE = 0.5
"""External efforts below their thresholds for so long end a contact [s]."""


class Contact(NamedTuple):
    """A time in which external efforts exceed their thresholds."""

    start: float  # [s]
    stop: float  # [s]
    efforts: dict[str, float]  # the largest one of each joint that exceeds its threshold [N m, N]
    ratio: float  # the largest one relative to its threshold

    def __str__(self) -> str:
        """Return the times and efforts."""
        efforts = ", ".join(f"{name} {effort:.3g}" for name, effort in self.efforts.items())
        return f"{self.start:.2f} to {self.stop:.2f} s: {efforts}"


def contacts_in(time: Array, external: Array, limits: Array, names: Sequence[str]) -> list[Contact]:
    """The contacts in samples in order of time; external efforts and limits are (n, nv)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(np.abs(external) / limits, nan=0.0, posinf=np.inf)
    rows = np.flatnonzero((ratio > 1.0).any(axis=1))
    found: list[Contact] = []
    if not len(rows):
        return found
    for part in np.split(rows, 1 + np.flatnonzero(np.diff(time[rows]) > PAUSE)):
        largest = ratio[part].argmax(axis=0)
        efforts = {
            names[k]: float(external[part[row], k])
            for k, row in enumerate(largest)
            if ratio[part[row], k] > 1.0
        }
        found.append(
            Contact(float(time[part[0]]), float(time[part[-1]]), efforts, float(ratio[part].max()))
        )
    return found


def joined(contacts: Iterable[Contact]) -> list[Contact]:
    """Contacts in order of time, those with a short pause between them as one."""
    found: list[Contact] = []
    for contact in sorted(contacts, key=lambda one: one.start):
        if not found or contact.start - found[-1].stop > PAUSE:
            found.append(contact)
            continue
        last = found[-1]
        efforts = dict(last.efforts)
        for name, effort in contact.efforts.items():
            efforts[name] = max(effort, efforts.get(name, 0.0), key=abs)
        found[-1] = Contact(
            last.start, max(last.stop, contact.stop), efforts, max(last.ratio, contact.ratio)
        )
    return found
