# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Shapes of robot descriptions."""

from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.check.shapes import read_shapes

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


def shapes(body):
    visual, collision, problems = read_shapes(
        f'<robot name="r"><material name="red"><color rgba="1 0 0 0.5"/></material>'
        f'<link name="a">{body}</link></robot>'
    )
    return visual.get("a", []), collision.get("a", []), problems


def test_shapes_of_the_arm():
    visual, collision, problems = read_shapes(ARM.read_text())
    assert not problems
    assert sum(map(len, visual.values())) == ARM.read_text().count("<visual>")
    assert sum(map(len, collision.values())) == ARM.read_text().count("<collision>")
    plate, column = visual["base_link"]
    assert (plate.kind, plate.size, plate.color) == (
        "cylinder",
        (0.09, 0.02),
        (0.20, 0.22, 0.25, 1.0),
    )
    np.testing.assert_array_equal(column.placement[:3, 3], (0, 0, 0.075))


def test_every_kind():
    visual, collision, problems = shapes("""
      <visual><geometry><box size="1 2 3"/></geometry><material name="red"/></visual>
      <visual><origin xyz="1 0 0" rpy="0 0 1.5707963267948966"/>
        <geometry><sphere radius="0.5"/></geometry></visual>
      <visual><geometry><mesh filename="package://p/m.stl" scale="2 2 2"/></geometry></visual>
      <collision><geometry><cylinder radius="1" length="2"/></geometry></collision>""")
    assert not problems
    assert [shape.kind for shape in visual] == ["box", "sphere", "mesh"]
    assert visual[0].size == (1, 2, 3) and visual[0].color == (1, 0, 0, 0.5)
    np.testing.assert_allclose(visual[1].placement @ (1, 0, 0, 1), (1, 1, 0, 1), atol=1e-15)
    assert visual[1].color is None
    assert (visual[2].uri, visual[2].size) == ("package://p/m.stl", (2, 2, 2))
    assert collision[0].size == (1, 2)


@pytest.mark.parametrize(
    "body, words",
    [
        ('<visual><geometry><sphere radius="nan"/></geometry></visual>', ("visual", "'a'", "nan")),
        ('<visual><geometry><sphere radius="-1"/></geometry></visual>', ("negative",)),
        (
            "<visual><geometry><torus/></geometry></visual>",
            ("torus", "box, cylinder, sphere, capsule or mesh"),
        ),
        ("<visual/>", ("no geometry",)),
        (
            '<visual><origin xyz="1 2"/><geometry><sphere radius="1"/></geometry></visual>',
            ("'1 2'",),
        ),
    ],
)
def test_what_cannot_be_read_is_omitted_and_reported(body, words):
    good = '<visual><geometry><sphere radius="1"/></geometry></visual>'
    visual, _, (problem,) = shapes(body + good)
    assert [shape.size for shape in visual] == [(1.0,)]
    assert all(word in problem for word in words)


def test_a_bad_color_loses_the_color_alone():
    visual, _, (problem,) = shapes("""<visual><geometry><sphere radius="1"/></geometry>
      <material name="odd"><color rgba="1 0 zero 1"/></material></visual>""")
    assert visual[0].color is None and "odd" in problem and "zero" in problem
