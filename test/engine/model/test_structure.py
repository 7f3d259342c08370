# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure of the tree of joints: Pinocchio's, identities, M's zeros."""

import copy
import pickle

import numpy as np
import pytest

import dyn_ros
import peer

EVERY = peer.robots(root_joints=(None, "floating", "planar"))


def numbers(indices):
    """Pinocchio's indices of joints without the universe."""
    return tuple(int(i) - 1 for i in indices if i)


@EVERY
def test_structure_is_pinocchios(robot, root_joint):
    model, pin = (pair := peer.pair(robot, root_joint)).model, pair.pin
    assert model.parents == tuple(int(i) - 1 for i in list(pin.parents)[1:])
    for mine, theirs in (
        (model.children, pin.children),
        (model.supports, pin.supports),
        (model.subtrees, pin.subtrees),
    ):
        assert mine == tuple(map(numbers, list(theirs)[1:]))


@EVERY
def test_row_parents_are_pinocchios(robot, root_joint):
    pair = peer.pair(robot, root_joint, "ignore")
    assert pair.model.row_parents == tuple(pair.pin_data.parents_fromRow)


@EVERY
def test_inertia_matrix_is_sparse_along_row_parents(robot, root_joint):
    pair = peer.pair(robot, root_joint)
    M = dyn_ros.crba(pair.model, pair.data, pair.state()[0])
    related = np.eye(pair.model.nv, dtype=bool)
    for k, parent in enumerate(pair.model.row_parents):
        assert -1 <= parent < k
        if parent >= 0:
            related[k] |= related[parent]
    assert not M[~(related | related.T)].any()


def test_a_line_of_velocities_with_mimic_joints():
    model = peer.pair("every_joint").model
    assert model.row_parents == tuple(range(-1, model.nv - 1))


@pytest.mark.parametrize(
    "copied", [copy.copy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
def test_copies_have_the_structure(copied):
    model = peer.new_pair("ball_joints").model
    other = copied(model)
    for name in ("parents", "children", "supports", "subtrees", "row_parents"):
        assert isinstance(getattr(model, name), tuple)
        assert getattr(other, name) == getattr(model, name)


def test_a_robot_without_joints():
    model = dyn_ros.Model.from_urdf('<robot name="r"><link name="a"/></robot>')
    assert (model.parents, model.children, model.supports, model.subtrees, model.row_parents) == (
        (),
    ) * 5


def test_notebooks_show_a_table_of_the_joints():
    model = dyn_ros.Model.from_urdf(
        """<robot name="a &amp; b"><link name="base"/>
        <joint name="turn" type="continuous"><parent link="base"/><child link="one"/></joint>
        <link name="one"/><joint name="slide" type="prismatic"><parent link="one"/>
        <child link="two"/><limit lower="-0.25" upper="1.5" effort="1" velocity="1"/></joint>
        <link name="two"><inertial><mass value="2"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""
    )
    table = model._repr_html_()
    assert "<caption>a &amp; b: nq = 2, nv = 2, 2 kg moving" in table
    assert "<td>turn</td><td>continuous</td><td></td><td></td><td>0</td>" in table
    assert "<td>slide</td><td>prismatic</td><td>-0.25</td><td>1.5</td><td>2</td>" in table
