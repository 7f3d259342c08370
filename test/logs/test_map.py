# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``dyn_ros.logs.map`` and ``dyn_ros.logs.identify``, in processes of this machine."""

import operator
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("mcap", reason="mcap is not installed: run `make test`")

from logs import part_functions as functions
from logs import recorded

import dyn_ros
from dyn_ros import logs

MODEL = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
COUNT = 200_000  # messages, in three parts


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return recorded.synthetic_mcap(tmp_path_factory.mktemp("bag") / "run.mcap", MODEL, COUNT)


def test_each_part(bag):
    progress = []
    results = list(
        logs.map(
            functions.count_states,
            bag,
            robot=MODEL,
            workers=2,
            progress=lambda fraction, name: progress.append(fraction),
        )
    )
    assert sorted(result.number for result in results) == [0, 1, 2]
    assert sum(result.value for result in results) == COUNT
    assert {(result.path, result.error) for result in results} == {(str(bag), None)}
    assert progress == sorted(progress) and progress[-1] == pytest.approx(1.0)


def test_a_sum_does_not_depend_on_the_workers(bag):
    sums = [
        logs.map(
            functions.sum_of_squares,
            [bag],
            robot=MODEL,
            workers=workers,
            reduce=operator.add,
            joints=["elbow_pitch"],
            rate=100.0,
        )
        for workers in (1, 2)
    ]
    assert sums[0].tobytes() == sums[1].tobytes()
    recording = logs.read(bag, MODEL, joints=["elbow_pitch"], rate=100.0)
    np.testing.assert_allclose(sums[0], (recording.q**2).sum(axis=0), rtol=1e-12)


def test_a_recording_that_cannot_be_read(bag, tmp_path):
    broken = tmp_path / "broken.mcap"
    broken.write_bytes(b"nothing")
    results = list(logs.map(functions.count_states, [bag, broken], robot=MODEL, workers=1))
    assert sum(result.value or 0 for result in results) == COUNT
    failed = [result for result in results if result.error is not None]
    assert [(result.path, result.number, result.value) for result in failed] == [
        (str(broken), None, None)
    ]
    with pytest.warns(RuntimeWarning, match=r"1 parts or recordings are left out: .*broken.mcap"):
        assert (
            logs.map(
                functions.count_states, [bag, broken], robot=MODEL, workers=1, reduce=operator.add
            )
            == COUNT
        )
    with pytest.raises(ValueError, match=r"no value to combine: .*broken.mcap"):
        logs.map(functions.count_states, broken, robot=MODEL, workers=1, reduce=operator.add)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(function=lambda part: 1), "function: cannot be sent to other processes"),
        (dict(function=3), "expected a function of a Recording, got 3"),
        (dict(recordings="missing.mcap"), "missing.mcap"),
        (dict(rate=-1.0), "rate: expected states a second"),
        (dict(workers=2, scheduler="tcp://127.0.0.1:1"), "expected None with a scheduler"),
        (dict(workers=0), "workers: expected at least 1, got 0"),
        (dict(workers=100_000_000), "workers: expected at most [0-9]+ for [0-9]+ processor cores"),
    ],
)
def test_errors(bag, arguments, words):
    arguments = dict(function=functions.count_states, recordings=bag, robot=MODEL) | arguments
    with pytest.raises(ValueError, match=words):
        next(logs.map(**arguments))


def test_a_script_without_its_guard(bag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from dyn_ros import logs\ndef one(part):\n    return 1\n"
        f"print(list(logs.map(one, {str(bag)!r}, workers=1)))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "below `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]


def test_identify_in_parts_and_in_memory(bag):
    memory, parts = (
        logs.identify(MODEL, bag, cutoff=10.0, friction=False, armature=False, workers=workers)
        for workers in (None, 2)
    )
    assert abs(memory.size - parts.size) <= 4 + 2 * parts.size // 1000
    is_determined = [excitation != "not" for excitation in memory.base.excitation]
    deviations = (parts.base.estimate - memory.base.estimate) / memory.base.deviation
    assert np.abs(deviations[is_determined]).max() < 0.5


def test_import_needs_no_extras():
    code = (
        "import sys, dyn_ros\nassert 'dyn_ros.logs' not in sys.modules\ndyn_ros.logs.read\n"
        "print([name for name in sys.modules if name in ('pyarrow', 'mcap', 'zstandard', 'lz4',"
        " 'distributed', 'dask', 'plotly', 'matplotlib', 'pandas', 'rclpy')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[]\n", done.stderr
