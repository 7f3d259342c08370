# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an inertia that somebody wrote."""
import numpy as np

LARGEST = 1e30
"""kg, m, kg m^2: larger numbers are rejected. Products of several such do not overflow."""

# What it may miss physics by: rounding in the text, as a part of its largest moment, and moments
# too small to matter, kg m^2.
_ROUNDING = 1e-6
_NOTHING = 1e-15


def rotational_fault(rotational):
    """What keeps a matrix from being a body's inertia about its com, or an empty string."""
    low, middle, high = np.linalg.eigvalsh(rotational)
    allowed = _ROUNDING * max(abs(low), abs(high)) + _NOTHING
    if low < -allowed:
        return ("is not positive semidefinite: "
                f"its smallest principal moment is {low:.3g} kg m^2")
    if high - middle - low > allowed:
        return ("breaks the triangle inequality: its largest principal "
                f"moment {high:.3g} kg m^2 exceeds the sum of the others by "
                f"{high - middle - low:.3g} kg m^2")
    return ""
