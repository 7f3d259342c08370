# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contacts in a recording: the intervals in which external efforts exceed their thresholds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..engine.kernel.types import Array

MIN_PAUSE = 0.5
"""Time below the thresholds that ends a contact [s]."""


class ContactInterval(NamedTuple):
    """An interval in which external efforts exceed their thresholds."""

    start: float  # [s]
    stop: float  # [s]
    efforts: dict[str, float]  # largest effort of each joint above its threshold [N m, N]
    ratio: float  # largest effort relative to its threshold

    def __str__(self) -> str:
        """Return the times and efforts."""
        efforts = ", ".join(f"{name} {effort:.3g}" for name, effort in self.efforts.items())
        return f"{self.start:.2f} to {self.stop:.2f} s: {efforts}"


def find_contact_intervals(
    time: Array, external: Array, limits: Array, names: Sequence[str]
) -> list[ContactInterval]:
    """Return the contacts in samples in order of time.

    External efforts and limits are (n, nv), times (n,) [s]; ``names`` are of the nv velocities.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.nan_to_num(np.abs(external) / limits, nan=0.0, posinf=np.inf)
    exceeding_rows = np.flatnonzero((ratio > 1.0).any(axis=1))
    contacts: list[ContactInterval] = []
    if not len(exceeding_rows):
        return contacts
    pauses = np.flatnonzero(np.diff(time[exceeding_rows]) > MIN_PAUSE)
    for rows in np.split(exceeding_rows, 1 + pauses):
        peak_rows = rows[ratio[rows].argmax(axis=0)]
        efforts = {
            names[k]: float(external[row, k])
            for k, row in enumerate(peak_rows)
            if ratio[row, k] > 1.0
        }
        start, stop = float(time[rows[0]]), float(time[rows[-1]])
        contacts.append(ContactInterval(start, stop, efforts, float(ratio[rows].max())))
    return contacts


def merge_contact_intervals(contacts: Iterable[ContactInterval]) -> list[ContactInterval]:
    """Return contacts in order of time, with those merged that a short pause separates."""
    merged: list[ContactInterval] = []
    for contact in sorted(contacts, key=lambda contact: contact.start):
        if not merged or contact.start - merged[-1].stop > MIN_PAUSE:
            merged.append(contact)
            continue
        last = merged[-1]
        efforts = dict(last.efforts)
        for name, effort in contact.efforts.items():
            efforts[name] = max(effort, efforts.get(name, 0.0), key=abs)
        merged[-1] = ContactInterval(
            last.start, max(last.stop, contact.stop), efforts, max(last.ratio, contact.ratio)
        )
    return merged
