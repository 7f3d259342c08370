# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The legend of the markers that the nodes publish: groups, colors and explanations."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LegendEntry:
    """A family of markers, as the page lists and explains it.

    `family` is the namespace of the markers up to its first slash, `group` the title under which it
    is listed. `color` is the default of the node's parameter `markers.<family>.color`, as in CSS
    without alpha.
    """

    family: str
    group: str
    color: str
    explanation: str
    starts_visible: bool = False


TEXT_SUFFIXES = ("numbers", "labels")
LEGEND_NAMESPACE = "legend"
TORQUES, MOTION = "Torques", "Center of mass and momentum"
INERTIA, MANIPULABILITY = "Inertia", "Manipulability"
CONSTRAINTS, FORCES, GROUND = "Constraints", "Forces and contacts", "Ground"

LEGEND = (
    LegendEntry(
        "torque",
        TORQUES,
        "#f08c00",
        "Torque of each joint, about its axis; longer and redder near the joint's limit.",
        starts_visible=True,
    ),
    LegendEntry(
        "external_effort",
        TORQUES,
        "#1ba1ff",
        "Torque that the environment exerts on each joint, relative to the threshold of a "
        "collision; red beyond it.",
    ),
    LegendEntry(
        "com", MOTION, "#1f5bff", "Center of mass of the whole robot.", starts_visible=True
    ),
    LegendEntry(
        "com_projection", MOTION, "#00a0c6", "Point of the ground below the center of mass."
    ),
    LegendEntry(
        "subtree_com",
        MOTION,
        "#c287f2",
        "Center of mass of what each joint carries; the volume is proportional to the mass.",
    ),
    LegendEntry(
        "linear_momentum",
        MOTION,
        "#12a33a",
        "Linear momentum, the mass times the velocity of the center of mass.",
    ),
    LegendEntry(
        "angular_momentum",
        MOTION,
        "#a32245",
        "Angular momentum about the center of mass, along its axis.",
    ),
    LegendEntry(
        "inertia",
        INERTIA,
        "#9b2ffe",
        "Each link as the homogeneous body with the same mass and inertia.",
    ),
    LegendEntry(
        "locked_inertia",
        INERTIA,
        "#2855bc",
        "The whole robot, with its joints locked, as one homogeneous body.",
    ),
    LegendEntry(
        "velocity_ellipsoid",
        MANIPULABILITY,
        "#00ae9c",
        "How fast the joints can move a frame in each direction.",
    ),
    LegendEntry(
        "force_ellipsoid",
        MANIPULABILITY,
        "#ff6000",
        "How hard the joints can push with a frame in each direction.",
    ),
    LegendEntry(
        "constraint",
        CONSTRAINTS,
        "#823c7e",
        "Directions along and about which a frame is held.",
    ),
    LegendEntry(
        "constraint_force",
        CONSTRAINTS,
        "#993a00",
        "Forces and moments with which the constraints hold their frames.",
    ),
    LegendEntry(
        "wrench",
        FORCES,
        "#d6189a",
        "Forces (straight) and moments (curved) that act on the robot, as received.",
    ),
    LegendEntry(
        "external_wrench",
        FORCES,
        "#a08100",
        "Force and moment at the tip that explain the external torques.",
    ),
    LegendEntry(
        "contact",
        FORCES,
        "#ff0064",
        "Force of the contact that the observer has found, on its line of action.",
    ),
    LegendEntry(
        "contact_force",
        GROUND,
        "#ff7b66",
        "Force of the ground on each foot, relative to the robot's weight.",
    ),
    LegendEntry(
        "friction_cone",
        GROUND,
        "#85a900",
        "Forces inside the cone do not make the foot slip; red if it slips.",
    ),
    LegendEntry(
        "support_polygon",
        GROUND,
        "#1e6832",
        "Area of the ground between the feet that stand.",
    ),
    LegendEntry(
        "center_of_pressure",
        GROUND,
        "#9528b4",
        "Point where the resultant force of the ground acts.",
    ),
    LegendEntry(
        "zmp",
        GROUND,
        "#e2869e",
        "Zero moment point, where the resultant force has to act at this acceleration.",
    ),
)
"""All families, in the order of the page; families of one group follow each other."""

LEGEND_BY_FAMILY = {entry.family: entry for entry in LEGEND}


def is_shown_at_first(family: str) -> bool:
    """Return True if a page shows a family of markers at first, as it does unknown families."""
    return family not in LEGEND_BY_FAMILY or LEGEND_BY_FAMILY[family].starts_visible


def is_text_for_rviz(namespace: str) -> bool:
    """Return True if markers of a namespace are texts, which a page shows in its panels."""
    family, _, suffix = namespace.partition("/")
    is_text = family in LEGEND_BY_FAMILY and suffix in TEXT_SUFFIXES
    return is_text or namespace == LEGEND_NAMESPACE
