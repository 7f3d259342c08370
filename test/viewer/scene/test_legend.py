# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The catalog of markers: complete, with the nodes' colors that differ visibly."""

import itertools

import numpy as np
import pytest

from dyn_ros.viewer.scene.legend import LEGEND, LEGEND_BY_FAMILY, is_shown_at_first

LIGHT, DARK = "#e9edf2", "#20252e"  # backgrounds
CONTRAST = 2.1  # least ratio of luminances
DIFFERENCE = 25.0  # least distance in CIE Lab


def rgb(color):
    return np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0


def linear(color):
    c = rgb(color)
    return np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)


def luminance(color):
    return linear(color) @ [0.2126, 0.7152, 0.0722]


def lab(color):
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = to_xyz @ linear(color) / to_xyz.sum(axis=1)
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16.0 / 116.0)
    return np.array([116.0 * f[1] - 16.0, 500.0 * (f[0] - f[1]), 200.0 * (f[1] - f[2])])


def published():
    """Families of the nodes, with the default of their color."""
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    from dyn_ros.nodes.markers.centroidal_markers import CENTROIDAL, CONTACT
    from dyn_ros.nodes.markers.dynamics_markers import DYNAMICS
    from dyn_ros.nodes.markers.observer_markers import OBSERVER
    from dyn_ros.nodes.markers.vereshchagin_markers import VERESHCHAGIN

    return {
        entry.name: {spec.name.split(".")[-1]: spec.default for spec in entry.specs}["color"]
        for entry in (*DYNAMICS, *CENTROIDAL, *VERESHCHAGIN, *CONTACT, *OBSERVER)
    }


def test_every_family_that_nodes_publish_is_listed_once():
    assert sorted(published()) == sorted(entry.family for entry in LEGEND)


def test_the_colors_are_those_of_the_nodes():
    for family, color in published().items():
        np.testing.assert_allclose(
            color[:3], rgb(LEGEND_BY_FAMILY[family].color), atol=0.006, err_msg=family
        )


def test_groups_are_contiguous():
    assert len(list(itertools.groupby(LEGEND, lambda entry: entry.group))) == len(
        {entry.group for entry in LEGEND}
    )


def test_two_families_and_unknown_ones_are_shown_at_first():
    assert [entry.family for entry in LEGEND if entry.starts_visible] == ["torque", "com"]
    assert is_shown_at_first("com") and not is_shown_at_first("inertia")
    assert is_shown_at_first("obstacles")


def test_colors_differ():
    for a, b in itertools.combinations(LEGEND, 2):
        assert np.linalg.norm(lab(a.color) - lab(b.color)) >= DIFFERENCE, (a.family, b.family)


@pytest.mark.parametrize("background", [LIGHT, DARK])
def test_colors_stand_out_from_light_and_dark(background):
    for entry in LEGEND:
        pair = sorted([luminance(entry.color), luminance(background)])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= CONTRAST, entry.family


def test_explanations_are_sentences():
    assert all(
        entry.explanation[0].isupper() and entry.explanation.endswith(".") for entry in LEGEND
    )
