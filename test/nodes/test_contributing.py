# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The examples for contributors work: an algorithm, a node, a service, a recording format."""

import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
pytest.importorskip("numba", reason="a kernel of a user's own is compiled")

import dyn_ros
from dyn_ros.nodes.base.node_parameters import SPECS
from dyn_ros.nodes.base.service import Service, State
from dyn_ros.nodes.messages import arrays
from dyn_ros.nodes.robot.context import RobotContext
from dyn_ros.srv import GetInverseDynamics

ROOT = Path(__file__).resolve().parents[2]
ARM7 = ROOT / "dyn_ros" / "robots" / "arm7.urdf"
PAGES = [
    page for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md") if page.exists()
]
SNIPPET = re.compile(r"([^\n]+)\n\n```(python|ini)\n(.*?)```", re.DOTALL)
SNIPPETS = [match.groups() for page in PAGES for match in SNIPPET.finditer(page.read_text())]
CHECK = """
import sys, numpy as np, dyn_ros
assert "contributed" in dyn_ros.__file__
model = dyn_ros.Model.from_urdf_file({robot!r})
data, rng = dyn_ros.Data(model), np.random.default_rng(0)
q, v = model.random_configuration(rng), rng.normal(size=model.nv)
a = rng.normal(size=model.nv)
power = dyn_ros.joint_power(model, data, q, v, a)
assert power == data.joint_power
np.testing.assert_allclose(power, dyn_ros.rnea(model, data, q, v, a) @ v, rtol=1e-13)
both = dyn_ros.joint_power(model, data, np.stack([q, -q]), np.stack([v, v]), a)
np.testing.assert_allclose(both[0], power, rtol=1e-13)
sys.path.insert(0, {tests!r})
from dyn_ros.engine.algorithms.dynamics.joint_power import joint_power_kernel
from engine.kernel.test_docstrings import test_a_kernel_documents_what_it_reads_and_writes
test_a_kernel_documents_what_it_reads_and_writes(joint_power_kernel)
"""


@pytest.fixture(scope="module")
def contributed(tmp_path_factory):
    """The package with the files and lines of the page."""
    folder = tmp_path_factory.mktemp("contributed")
    shutil.copytree(
        ROOT / "dyn_ros", folder / "dyn_ros", ignore=shutil.ignore_patterns("__pycache__")
    )
    for text, language, code in SNIPPETS:
        named = re.search(r"`(dyn_ros/\S+\.py)`", text)
        if language == "python" and named:
            file = folder / named[1]
            if file.exists():  # a line where others of its kind are
                place = r"BY_MODULE = {\n" if code.startswith(" ") else r"\n(?=from \.)"
                before, found, after = re.split(f"({place})", file.read_text(), maxsplit=1)
                code = before + found + code + after
            file.write_text(code)
    return folder


def test_the_algorithm_is_there_with_all_that_comes_with_it(contributed):
    result = subprocess.run(
        [sys.executable, "-c", CHECK.format(robot=str(ARM7), tests=str(ROOT / "test"))],
        cwd=contributed,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr


def test_the_node_publishes_the_largest_torque(
    contributed, client, start_process, arm, monkeypatch
):
    from sensor_msgs.msg import JointState

    monkeypatch.chdir(contributed)
    [line] = [code for _, language, code in SNIPPETS if language == "ini"]
    name, module, function = re.fullmatch(r" +(\w+) = ([\w.]+):(\w+)\n", line).groups()
    (contributed / f"{name}.py").write_text(  # the script that setup.cfg makes
        f"from {module} import {function}\nraise SystemExit({function}())\n"
    )
    node = start_process(module=name)
    largest = client.listen(JointState, node.name + "/largest")
    speaker, q = client.speaker(node), np.linspace(0.1, 0.7, 7)
    [answer] = speaker.ask(speaker.message(arm.joint_names, q), largest)
    torque = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q)
    np.testing.assert_allclose(answer.effort, abs(torque).max(), rtol=1e-12)
    client.stop_listening(largest)


def test_the_command_reads_the_format(contributed, tmp_path, arm):
    pyarrow = pytest.importorskip("pyarrow.parquet", reason="no pyarrow: run `make test`")
    from rclpy.serialization import serialize_message
    from sensor_msgs.msg import JointState

    stamps = range(10**9, 2 * 10**9, 10**7)
    with (tmp_path / "recording.cdr").open("wb") as file:
        for stamp in stamps:
            message = JointState(name=arm.joint_names, position=[1e-9 * stamp] * 7)
            message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp, 10**9)
            content = serialize_message(message)
            file.write(struct.pack("<qI", stamp, len(content)) + content)

    def log(path, *options):
        return subprocess.run(
            [sys.executable, "-m", "dyn_ros", "log", path, "--robot", ARM7, *options],
            cwd=contributed,
            capture_output=True,
            text=True,
            timeout=300,
        )

    options = ("--compute", "gravity", "--out", tmp_path / "results")
    result = log(tmp_path / "recording.cdr", *options)
    assert result.returncode == 0, result.stderr
    [path] = (tmp_path / "results").rglob("*.parquet")
    gravity = pyarrow.read_table(path)
    assert gravity["stamp"].to_pylist() == list(stamps)
    q = np.repeat(1e-9 * np.array(stamps)[:, None], 7, axis=1)
    expected = dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q)
    for k, name in enumerate(arm.joint_names):
        np.testing.assert_allclose(
            gravity[f"gravity.{name}"].to_numpy(), expected[:, k], rtol=1e-12, atol=1e-12
        )
    (tmp_path / "cut.cdr").write_bytes((tmp_path / "recording.cdr").read_bytes()[:-1])
    assert "ends in the middle of a message" in log(tmp_path / "cut.cdr").stderr
    assert ".cdr" in log(tmp_path / "missing.cdr").stderr


def test_the_service_answers(arm):
    [code] = [code for _, _, code in SNIPPETS if "def get_gravity" in code]
    names = {
        "dyn_ros": dyn_ros,
        "arrays": arrays,
        "Service": Service,
        "State": State,
        "RobotContext": RobotContext,
        "Any": Any,
        "GetGravity": GetInverseDynamics,
    }  # a type that has the same fields
    exec(code, names)
    [service] = names["provided_services"]
    values = {
        spec.name: spec.default if isinstance(spec.default, (bool, float, str, list)) else []
        for spec in SPECS
    }
    robot, q = RobotContext(ARM7.read_text(), values), np.linspace(0.1, 0.7, 7)
    response = GetInverseDynamics.Response()
    service.answer(robot, None, response, State(q, np.zeros(7), 0, []))
    assert list(response.name) == list(arm.joint_names)
    np.testing.assert_allclose(
        response.effort, dyn_ros.generalized_gravity(arm, dyn_ros.Data(arm), q), rtol=1e-12
    )


def test_every_snippet_has_a_test():
    tested = [
        code
        for before, _, code in SNIPPETS
        if re.search(r"`(dyn_ros/\S+\.py|setup\.cfg)`", before) or "def get_gravity" in code
    ]
    assert (
        len(tested)
        == len(SNIPPETS)
        == sum(
            len(re.findall("^```(?:python|ini)", page.read_text(), re.MULTILINE)) for page in PAGES
        )
    )
