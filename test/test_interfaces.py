# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The texts of messages and services: one vocabulary, and a comment on each field."""

import re
from pathlib import Path

import pytest

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
PATHS = sorted([*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv")])
FIELD = re.compile(r"^([\w/]+(?:\[\d*\])?) +(\w+)( *= *\S+)?( *#.*)?$")
OTHERS = {
    "ddq",
    "a",
    "v",
    "q",
    "tau",
    "torque",
    "torques",
    "accelerations",
    "velocities",
    "positions",
    "efforts",
}
DERIVATIVE = re.compile(r"d2?[a-z]+_d[a-z]+|[a-z]_partial_d[a-z]+")


def fields(path):
    """The type, name and comment of each field; comments on the next lines are part of it."""
    found = []
    for line in path.read_text().splitlines():
        if line.startswith("#") or line == "---" or line.lstrip().startswith("#") or not line:
            continue
        match = FIELD.match(line)
        assert match, line
        found.append((match[1], match[2], match[4] or ""))
    return found


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_fields_are_documented_and_have_the_names_of_all(path):
    assert max(map(len, path.read_text().splitlines())) <= 120
    for kind, name, comment in fields(path):
        assert name not in OTHERS
        assert comment or (kind, name) in {
            ("bool", "success"),
            ("uint32", "rows"),
            ("uint32", "cols"),
            ("uint32[3]", "shape"),
            ("ConstrainedDynamics", "solution"),
        }, (kind, name)


def test_derivatives_have_the_names_of_the_engine():
    names = {name for path in PATHS for _, name, _ in fields(path) if DERIVATIVE.fullmatch(name)}
    model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    engine = {*dir(dyn_ros.Data(model)), "ddq_dtau"}  # a result that is data.Minv
    assert {"ddq_dq", "d2ddq_dtaudq", "dhdot_da", "a_partial_dv"} < names
    assert names - engine == {"dtau_da"}  # the matrix M
