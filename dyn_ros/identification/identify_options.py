# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Options of an identification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..engine.kernel.names import short_repr
from ..engine.kernel.types import ArrayLike
from .friction_terms import OPTIONAL_TERMS
from .link_hulls import Shapes


@dataclass(frozen=True, eq=False)
class IdentifyOptions:
    """Options of ``dyn_ros.identify``, validated as far as no model is needed.

    Attributes
    ----------
    armature : bool
        Estimate the rotor inertia of each joint with one coordinate whose effort is not measured
        on the link side; there it is 0.
    friction : bool
        Estimate damping, Coulomb friction and a constant offset of each such joint.
    stribeck : float or (nv,) array_like, optional
        Also estimate friction that decreases with velocity, F exp(-(v / stribeck)^2) sign(v)
        [rad/s, m/s]. F has any sign.
    friction_terms : sequence of str, optional
        Further terms of friction that may be chosen, of "stribeck", "root_friction",
        "load_friction" and "friction_distance", as in ``Drives``; by default all. A joint has a
        term if it lowers the error of torques that were held out. The sign of velocities becomes
        a ramp or a hyperbolic tangent by the same criterion, and a ramp where it is only noise,
        below ten times the noise of velocities. Widths, distances and velocities of terms are
        estimated, and intervals contain their errors. A warning names joints with another form
        of friction that errs as little.
    motor_constants : float or (nv,) array_like, optional
        Torque per unit of measured effort, if efforts are not torques but currents, for example;
        of either sign. Multiplies the gains of ``model.drives``.
    noise : float or (nv,) array_like, optional
        Standard deviation of the noise of each measured torque [N m, N]. Estimated by default.
    regularization : float
        Weight of the divergence from the description, in units of the log-likelihood.
    huber : float or None
        Residuals above this multiple of the noise count linearly, not squared (Huber 1964); normal
        noise exceeds 5 in one of two million samples. None: all count squared.
    held_out : float
        Fraction of the samples that a first estimate does not use, in a few whole stretches.
        ``Identification.joints`` has its errors on them. The result is then estimated from all
        samples. Both have the same terms of friction, which are chosen with all samples.
    seed : int
        Seed of the choice of held-out samples.
    threads : int
        Number of threads.
    contact_dimension : int
        Dimension of contact forces: 3, a force at the origin of the frame; 6, also a
        moment. Contact forces need not be known; the equations that they affect are combined so
        that they cancel.
    shapes : dict of str to (n, 3) array_like, optional
        Points [m] whose convex hull contains the mass of a link, by the name of the link, as
        ``link_shapes`` returns them. The mass of a body remains within the hull of its links; it
        has no bounds if a link is missing, or carries a payload.
    """

    armature: bool = True
    friction: bool = True
    stribeck: ArrayLike | None = None
    friction_terms: Sequence[str] | None = None
    motor_constants: ArrayLike | None = None
    noise: ArrayLike | None = None
    regularization: float = 1.0
    huber: float | None = 5.0
    held_out: float = 0.2
    seed: int = 0
    threads: int = 1
    contact_dimension: int = 3
    shapes: Shapes | None = None

    def __post_init__(self) -> None:
        for name, value in (("regularization", self.regularization), ("huber", self.huber)):
            if value is not None and not 0.0 < value < np.inf:
                raise ValueError(f"{name}: expected a positive number, got {short_repr(value)}")
        if not 0.0 < self.held_out < 0.9:
            raise ValueError(
                f"held_out: expected a fraction between 0 and 0.9, got {short_repr(self.held_out)}"
            )
        if self.contact_dimension not in (3, 6):
            raise ValueError(
                f"contact_dimension: expected 3 or 6, got {short_repr(self.contact_dimension)}"
            )
        terms = self.friction_terms
        if isinstance(terms, str) or not set(terms or ()) <= set(OPTIONAL_TERMS):
            raise ValueError(
                f"friction_terms: expected some of {', '.join(OPTIONAL_TERMS)}, got "
                f"{short_repr(terms)}"
            )

    @property
    def allowed_terms(self) -> Sequence[str]:
        """Terms of friction that may be chosen."""
        if not self.friction:
            return ()
        return OPTIONAL_TERMS if self.friction_terms is None else tuple(self.friction_terms)

    def for_velocities(self, rows: np.ndarray, count: int) -> IdentifyOptions:
        """Return options for the velocities in ``rows`` of ``count``, such as unlocked joints."""
        return replace(
            self,
            **{
                name: np.asarray(value)[rows]
                for name in ("stribeck", "motor_constants", "noise")
                if np.shape(value := getattr(self, name)) == (count,)
            },
        )
