# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The worked example of docs/vereshchagin.md: which torques hold a tool still."""

import importlib.util
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[4] / "docs" / "hold_tip.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("hold_tip", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(example):
    return {sent: example.simulate(sent) for sent in example.SENT}


def distance(tips):
    return np.linalg.norm(tips - tips[0], axis=1).max()


def test_constraint_generalized_forces_meet_beta(results):
    _, tips, missed = results["constraint_generalized_forces"]
    assert missed < 1e-10
    assert distance(tips) < 1e-9


def test_the_arm_moves_while_its_tool_stays(example):
    """The push drives the elbow round, so that there is something to hold against."""
    arm = example.Arm("constraint_generalized_forces")
    ddq = arm.acceleration(example.PUSHED[0], example.POSTURE, np.zeros(7))
    assert np.abs(ddq).max() > 1.0


def test_constraint_torques_do_not(results):
    _, tips, missed = results["constraint_torques"]
    assert missed > 1.0
    assert distance(tips) > 0.05


def drawn(svg):
    """The numbers of all lines."""
    lines = [
        element.get("points")
        for element in ElementTree.fromstring(svg).iter()
        if element.tag.endswith("polyline")
    ]
    return np.array(re.findall(r"-?[\d.]+", " ".join(lines)), float)


def test_the_figure_shows_this(example, results):
    shown, now = drawn(example.FIGURE.read_text()), drawn(example.figure(results))
    assert shown.shape == now.shape
    assert np.abs(shown - now).max() < 1.0  # of 760 pixels
