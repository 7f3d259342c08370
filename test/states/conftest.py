# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Robots of the tests of states."""

from pathlib import Path

import pytest

import dyn_ros

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"


@pytest.fixture(scope="session")
def arm():
    return dyn_ros.Model.from_urdf_file(ARM7)


@pytest.fixture(scope="session")
def floating():
    return dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
