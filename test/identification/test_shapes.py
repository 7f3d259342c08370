# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The mass of links remains within their shapes, if it can."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest
from identification.recordings import record, waves

import dyn_ros
from dyn_ros.check.hulls import Hull
from dyn_ros.identification.link_hulls import move_into_shapes, shape_bounds

ARM = Path("dyn_ros/robots/arm7.urdf")


@pytest.fixture(scope="module")
def model():
    return dyn_ros.Model.from_urdf_file(ARM)


@pytest.fixture(scope="module")
def shapes():
    return dyn_ros.link_shapes(ARM.read_text())


def hulls(model, shapes):
    """The hulls of the links of each joint, in its frame."""
    points = [[] for _ in range(model.njoints)]
    for frame in model.tree.frames:
        if frame.kind == "body" and frame.parent >= 0:
            X = frame.placement
            points[frame.parent].append(shapes[frame.name] @ X[:3, :3].T + X[:3, 3])
    return [Hull(np.vstack(corners)) for corners in points]


def shifted(bodies, x):
    """Bodies that are moved along x."""
    X = np.eye(4)
    X[0, 3] = x
    return dyn_ros.from_pseudo_inertia(X @ dyn_ros.pseudo_inertia(bodies) @ X.T)


def filled(model, shapes, seed):
    """A robot with friction whose bodies are point masses within the shapes."""
    rng = np.random.default_rng(seed)
    true, bodies = copy.copy(model), []
    for hull, mass in zip(hulls(model, shapes), model.inertial_parameters[:, 0]):
        points = np.column_stack(
            [rng.dirichlet(np.full(len(hull.points), 0.4), 12) @ hull.points, np.ones(12)]
        )
        masses = mass * rng.uniform(0.7, 1.3) * rng.dirichlet(np.ones(12))
        bodies.append(dyn_ros.from_pseudo_inertia(points.T * masses @ points))
    true.inertial_parameters = bodies
    true.friction, true.damping = np.full(model.nv, 0.3), np.full(model.nv, 0.2)
    true.armature = np.full(model.nv, 0.05)
    return true


def recorded(true, seed, size=1.0, seconds=20.0, noise=0.03):
    motion = waves(np.zeros(7), size, [0.1, 0.2, 0.4, 0.7], seed)
    motion.time = np.array([0.0, seconds])
    return record(true, motion, noise=noise, seed=seed)


def outside(model, shapes):
    """Distances of the centers of mass from the hulls [m]."""
    return [
        hull.distance(body[1:4] / body[0])
        for hull, body in zip(hulls(model, shapes), model.inertial_parameters)
    ]


def test_bounds_hold_for_all_mass_within_the_shapes(model, shapes):
    bounds = shape_bounds(model, shapes)
    for seed in range(5):
        assert (bounds.rows @ filled(model, shapes, seed).inertial_parameters.ravel() > 0.0).all()
    far = np.array(model.inertial_parameters)
    far[3] = shifted(far[3], 0.5)
    wide = np.array(model.inertial_parameters)
    wide[3, [4, 6, 9]] += wide[3, 0]
    for bodies in (far, wide):
        broken = bounds.bound_joints[bounds.rows @ bodies.ravel() < 0.0]
        assert broken.size and (broken == 3).all()
        moved = move_into_shapes(bodies, bounds)
        assert (bounds.rows @ moved.ravel() > 0.0).all()
        assert np.array_equal(np.delete(moved, 3, 0), np.delete(bodies, 3, 0))
        assert dyn_ros.is_physical(moved).all()


def test_shapes_do_not_bias(model, shapes):
    true = filled(model, shapes, 1)
    recording, unseen = recorded(true, 1), recorded(true, 2)
    noise = (unseen.tau - unseen.exact_tau).std(axis=0)
    result = dyn_ros.identify(model, recording.samples(model), shapes=shapes)
    for joint, sigma in zip(result.errors(unseen.samples(model)), noise):
        assert joint.after < 1.02 * sigma
    assert not result.warnings


def test_centers_of_mass_remain_in_their_links(model, shapes):
    """The description and a short, noisy recording would place them elsewhere."""
    described, gains = copy.copy(model), []
    described.inertial_parameters = shifted(model.inertial_parameters, 0.1)
    for seed in range(4):
        true = filled(model, shapes, seed)
        samples = recorded(true, seed, size=0.3, seconds=8.0, noise=0.3).samples(model)
        free, bounded = (
            dyn_ros.identify(described, samples, shapes=link_shapes)
            for link_shapes in (None, shapes)
        )
        assert max(outside(free.identified, shapes)) > 0.02
        assert max(outside(bounded.identified, shapes)) < 0.002
        unseen = recorded(true, 100 + seed).exact_samples()
        gains.append(
            np.log(
                [
                    joint.after / bounded_joint.after
                    for joint, bounded_joint in zip(free.errors(unseen), bounded.errors(unseen))
                ]
            ).mean()
        )
    assert np.mean(gains) > 0.03


def test_a_tool_that_the_description_lacks_has_no_bounds(model, shapes):
    true = filled(model, shapes, 0)
    true.set_payload("box", "tool", 1.5, [0.0, 0.05, 0.2], 0.002 * np.eye(3))
    recording = recorded(true, 0)
    result = dyn_ros.identify(model, recording.samples(model), shapes=shapes)
    assert "the bodies of wrist_roll are outside the shapes" in result.warnings[0]
    noise = (recording.tau - recording.exact_tau).std(axis=0)
    for joint, sigma in zip(result.joints, noise):
        assert joint.after < 1.05 * sigma
    model = copy.copy(model)
    model.set_payload("box", "tool", 1.5, [0.0, 0.05, 0.2], 0.002 * np.eye(3))
    assert 6 not in shape_bounds(model, shapes).bound_joints


def test_a_link_whose_mesh_is_missing_has_no_bounds(model):
    before, link, after = ARM.read_text().partition('<link name="elbow_link">')
    elbow, end, tail = after.partition("</link>")
    elbow = re.sub("<cylinder[^>]*>", '<mesh filename="package://none/elbow.stl"/>', elbow)
    shapes = dyn_ros.link_shapes(before + link + elbow + end + tail)
    assert "elbow_link" not in shapes and "forearm_link" in shapes
    assert sorted({*shape_bounds(model, shapes).bound_joints}) == [0, 1, 3, 4, 5, 6]
    assert not len(shape_bounds(model, {}).rows)
