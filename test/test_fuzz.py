# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The first inputs of the benchmark that damages everything dyn_ros reads."""

import subprocess
import sys
from pathlib import Path

import pytest

FUZZ = Path(__file__).resolve().parents[1] / "benchmarks" / "fuzz.py"
TARGETS = ("descriptions", "calls", "messages", "recordings", "drives", "parameters")


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_input_is_a_clear_error(target):
    process = subprocess.run(
        [sys.executable, FUZZ, target, "--count", "1000", "--processes", "1"],
        capture_output=True,
        text=True,
        timeout=300.0,
    )
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]
    assert f"{target}, seed 0: 1000 inputs" in process.stdout
