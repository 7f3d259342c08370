# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo's arm: seven joints in series, with the inertias of its shapes."""

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import dyn_ros

URDF = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
ROOT = ET.parse(URDF).getroot()
LINKS = ROOT.findall("link")
MOVING = [joint for joint in ROOT.findall("joint") if joint.get("type") != "fixed"]


def numbers(text):
    return np.array([float(word) for word in text.split()])


def stated_inertia(link):
    """Mass, center of mass and inertia about it, as the link's <inertial> says."""
    inertial = link.find("inertial")
    entries = inertial.find("inertia").attrib
    matrix = np.array(
        [[float(entries["i" + "".join(sorted(row + column))]) for column in "xyz"] for row in "xyz"]
    )
    return (
        float(inertial.find("mass").get("value")),
        numbers(inertial.find("origin").get("xyz")),
        matrix,
    )


def solid_inertia(link, mass):
    """Center of mass and inertia of the link's collision cylinders, with uniform density."""
    solids = []
    for collision in link.findall("collision"):
        origin, cylinder = collision.find("origin"), collision.find("geometry/cylinder")
        radius, length = float(cylinder.get("radius")), float(cylinder.get("length"))
        roll, pitch, yaw = numbers(origin.get("rpy", "0 0 0"))
        assert pitch == yaw == 0
        axis = np.array([0, -np.sin(roll), np.cos(roll)])
        solids.append((radius, length, axis, numbers(origin.get("xyz"))))
    volumes = np.array([radius**2 * length for radius, length, _, _ in solids])
    masses = mass * volumes / volumes.sum()
    com = sum(m * center for m, (_, _, _, center) in zip(masses, solids)) / mass
    inertia = np.zeros((3, 3))
    for m, (radius, length, axis, center) in zip(masses, solids):
        across, along = m * (3 * radius**2 + length**2) / 12, m * radius**2 / 2
        arm = center - com
        inertia += across * np.eye(3) + (along - across) * np.outer(axis, axis)
        inertia += m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return com, inertia


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.get("name"))
def test_inertia_is_that_of_the_links_solids(link):
    mass, com, inertia = stated_inertia(link)
    solid_com, solid = solid_inertia(link, mass)
    np.testing.assert_allclose(com, solid_com, rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(inertia, solid, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.get("name"))
def test_inertia_is_physical(link):
    mass, _, inertia = stated_inertia(link)
    smallest, middle, largest = np.linalg.eigvalsh(inertia)
    assert mass > 0
    assert smallest > 0
    assert smallest + middle > largest


def test_mass_and_reach():
    assert sum(stated_inertia(link)[0] for link in LINKS) == pytest.approx(18.0)
    beyond_shoulder = ROOT.findall("joint")[2:]
    reach = sum(numbers(joint.find("origin").get("xyz"))[2] for joint in beyond_shoulder)
    assert reach == pytest.approx(0.905)


def test_chain_of_seven_that_ends_at_the_tool():
    joints = ROOT.findall("joint")
    children = [joint.find("child").get("link") for joint in joints]
    assert [joint.find("parent").get("link") for joint in joints] == ["base_link", *children[:-1]]
    assert children[-1] == "tool"
    assert len(MOVING) == 7
    assert joints[-1].get("type") == "fixed"


@pytest.mark.parametrize("joint", MOVING, ids=lambda joint: joint.get("name"))
def test_every_joint_has_limits(joint):
    limit = {key: float(value) for key, value in joint.find("limit").attrib.items()}
    assert limit["lower"] < 0 < limit["upper"]
    assert 1 < limit["velocity"] < 5
    assert 10 < limit["effort"] < 200


def test_pinocchio_reads_it():
    pin = pytest.importorskip("pinocchio", reason="Pinocchio (PyPI: pin) is not installed")
    model = pin.buildModelFromUrdf(str(URDF))
    assert (model.nq, model.nv) == (7, 7)
    assert list(model.names)[1:] == [joint.get("name") for joint in MOVING]
    moving_mass = sum(inertia.mass for inertia in list(model.inertias)[1:])
    assert moving_mass == pytest.approx(18.0 - stated_inertia(LINKS[0])[0])
    stretched = np.array([0, np.pi / 2, 0, 0, 0, 0, 0])
    torque = pin.computeGeneralizedGravity(model, model.createData(), stretched)
    assert np.all(np.abs(torque) < 0.6 * model.effortLimit)
