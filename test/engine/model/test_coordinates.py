# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Facts about coordinates and links."""

from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.engine.model.coordinates import (
    has_single_coordinate,
    independent_joint_indices,
    is_linear,
    joint_slices,
    single_coordinate_joints,
    velocity_joints,
)

ROBOTS = Path(__file__).resolve().parents[2] / "robots"
MODELS = {
    root_joint: dyn_ros.Model.from_urdf_file(ROBOTS / "every_joint.urdf", root_joint)
    for root_joint in (None, "floating", "planar")
}


@pytest.fixture(params=MODELS)
def model(request):
    return MODELS[request.param]


def test_velocities_have_the_unit_of_their_name(model):
    """A name ends with linear_ or angular_ and an axis, unless the joint has one coordinate."""
    expected = []
    for name, joint in zip(model.velocity_names, velocity_joints(model)):
        suffix = name.removeprefix(model.joint_names[joint])
        kind = model.tree.joints[joint].kind
        expected.append(suffix.startswith("/linear_") or kind == "prismatic")
    assert is_linear(model).tolist() == expected
    assert 0 < sum(expected) < model.nv


def test_names_of_joints_do_not_count():
    link = "<link name='{}'><inertial><mass value='1'/></inertial></link>"
    text = (
        "<robot name='r'>" + "".join(map(link.format, "abc")) + "<joint name='j/linear_x' "
        "type='continuous'><parent link='a'/><child link='b'/></joint><joint name='k/angular_x' "
        "type='prismatic'><parent link='b'/><child link='c'/></joint></robot>"
    )
    assert is_linear(dyn_ros.Model.from_urdf(text)).tolist() == [False, True]


def test_joints_and_their_coordinates(model):
    mimic = {joint.name for joint in model.tree.joints if joint.mimic}
    assert mimic and set(independent_joint_indices(model)) == set(model.joint_names) - mimic
    assert [slices.name for slices in joint_slices(model)] == list(independent_joint_indices(model))
    assert all(model.joint_index(name) == i for name, i in independent_joint_indices(model).items())
    assert single_coordinate_joints(model) == {
        name: i for name, i in independent_joint_indices(model).items() if model.nvs[i] == 1
    }
    rows = [model.idx_v[i] for i in single_coordinate_joints(model).values()]
    assert np.flatnonzero(has_single_coordinate(model)).tolist() == rows
    for slices in joint_slices(model):
        names = model.velocity_names[slices.v]
        assert all(name.startswith(slices.name) for name in names)
        assert {model.joint_names[i] for i in velocity_joints(model)[slices.v]} == {slices.name}


def test_a_spherical_joint_has_angles_only():
    arm = MODELS[None]
    model = arm.append(arm, arm.tree.root_link, joint="spherical", name="ball", prefix="b/")
    ball = next(slices for slices in joint_slices(model) if slices.kind == "spherical")
    assert not is_linear(model)[ball.v].any() and not has_single_coordinate(model)[ball.v].any()
    assert ball.q.stop - ball.q.start == 4 and "ball" not in single_coordinate_joints(model)


def test_links(model):
    tree = model.tree
    assert [link.kind for link in tree.links] == ["body"] * len(model.urdf_robot.links)
    assert tree.root_link == model.urdf_robot.get_root()
    connected = {joint.name: joint.child for joint in model.urdf_robot.joints}
    connected["root_joint"] = tree.root_link
    assert tree.body_links == [connected[name] for name in model.joint_names]
    grouped = [link.name for links in tree.links_of_joint.values() for link in links]
    assert sorted(grouped) == sorted(link.name for link in tree.links)
    assert all(link.parent == i for i, links in tree.links_of_joint.items() for link in links)
