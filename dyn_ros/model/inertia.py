# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Validation of inertias from descriptions and payloads."""
import numpy as np

LARGEST = 1e30
"""kg, m, kg m^2: larger numbers are rejected, so that products of several do not overflow."""

# Tolerances of the validation: rounding in the text, relative to the largest moment, and
# negligible moments, kg m^2.
_ROUNDING = 1e-6
_NOTHING = 1e-15


def rotational_fault(rotational):
    """Return why a matrix is not the inertia of a body about its com, or an empty string."""
    low, middle, high = np.linalg.eigvalsh(rotational)
    allowed = _ROUNDING * max(abs(low), abs(high)) + _NOTHING
    if low < -allowed:
        return ("is not positive semidefinite: "
                f"its smallest principal moment is {low:.3g} kg m^2")
    if high - middle - low > allowed:
        return ("violates the triangle inequality: its largest principal "
                f"moment {high:.3g} kg m^2 exceeds the sum of the others by "
                f"{high - middle - low:.3g} kg m^2")
    return ""
