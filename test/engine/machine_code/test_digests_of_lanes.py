# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The digests of machine code, which targets with different numbers of lanes must not share."""

import json
import os
import subprocess
import sys

import pytest

from dyn_ros.engine.machine_code.declare import JIT
from dyn_ros.engine.machine_code.targets import TARGETS, best_target

PROGRAM = """
import json
from dyn_ros.command.build import ENTRIES
entries = ENTRIES.values()
print(json.dumps({entry.name: entry.digest for entry in entries}))
"""


def digests(target):
    environment = {**os.environ, "DYN_ROS_LIBRARY": "none", "DYN_ROS_TARGET": target}
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)


@pytest.mark.skipif(not JIT or "x86" not in best_target(), reason="one number of lanes")
def test_digests_of_lanes_depend_on_their_number():
    few, many = digests("x86-64-v2"), digests("x86-64-v3")
    assert TARGETS["x86-64-v2"].lanes != TARGETS["x86-64-v3"].lanes
    lanes = [name for name in many if name.endswith("-lanes")]
    assert len(lanes) > 100
    assert not [name for name in lanes if few[name] == many[name]]
