# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters that fit a robot or do not; no ROS needed."""

from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.engine.machine_code.extension import native
from dyn_ros.nodes.robot.context import RobotContext, SettingError

ARM7 = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
VALUES = {
    "root_joint": "fixed",
    "gravity": [0.0, 0.0, -9.81],
    "mimic": "project",
    "strict": False,
    "joints": [],
    "armature": [],
    "locked_joints": [],
    "include_friction": False,
    "frame_id": "",
    "world_frame": "",
    "staleness": 0.5,
    "base_source": "odometry",
    "base_pose": [0.0] * 6 + [1.0],
    "base_twist": [0.0] * 6,
}
LOOSE_PART = """<robot name="loose">
  <link name="base"/>
  <joint name="turn" type="continuous"><parent link="base"/><child link="arm"/></joint>
  <link name="arm"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="loose" type="floating"><parent link="arm"/><child link="ball"/></joint>
  <link name="ball"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


@pytest.fixture(scope="module")
def floating():
    return dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")


def test_a_robot_whose_state_no_message_reports_is_rejected():
    with pytest.raises(ValueError, match="joint 'loose' is floating and not the base"):
        RobotContext(LOOSE_PART, VALUES)


@pytest.mark.parametrize("kind", ["floating", "planar"])
@pytest.mark.parametrize("root_joint", ["fixed", "floating"])
def test_a_moving_base_within_the_description_is_rejected_with_a_remedy(kind, root_joint):
    description = LOOSE_PART.replace('"turn" type="continuous"', f'"free" type="{kind}"')
    description = description.replace('"loose" type="floating"', '"loose" type="continuous"')
    with pytest.raises(
        ValueError,
        match=f"joint 'free' is {kind}, and no joint state .*; remove it and what is above it "
        rf"\(base\), and set root_joint=\"{kind}\"",
    ):
        RobotContext(description, {**VALUES, "root_joint": root_joint, "locked_joints": ["free"]})
    dyn_ros.Model.from_urdf(description)


def test_a_loose_part_beside_the_robot_is_not_its_base():
    description = LOOSE_PART.replace('parent link="arm"', 'parent link="base"')
    with pytest.raises(ValueError, match="'loose' is floating and not the base.*remove it"):
        RobotContext(description, VALUES)


def test_a_robot_publishes_what_joints_picks(floating):
    values = {
        **VALUES,
        "root_joint": "floating",
        "joints": ["wrist_pitch", "root_joint"],
        "armature": [7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    }
    robot = RobotContext(ARM7.read_text(), values)
    assert robot.names == ["wrist_pitch", *floating.velocity_names[:6]]
    assert robot.position_names[:2] == ["wrist_pitch", "root_joint/x"]
    q, v = np.arange(floating.nq), np.arange(floating.nv)
    wrist = floating.joint_index("wrist_pitch")
    assert list(q[robot.position_rows]) == [floating.idx_q[wrist], 0, 1, 2, 3, 4, 5, 6]
    rows = list(v[robot.rows])
    assert rows == [floating.idx_v[wrist], 0, 1, 2, 3, 4, 5]
    M = np.arange(floating.nv**2).reshape(floating.nv, floating.nv)
    np.testing.assert_array_equal(M[robot.block], M[rows][:, rows])
    np.testing.assert_array_equal(robot.model.armature[rows], values["armature"])
    assert robot.frame_id == robot.root_link == "base_link"


@pytest.mark.parametrize(
    "values, why",
    [
        ({"joints": ["nobody"]}, "joints: there is no joint 'nobody'; available: shoulder_yaw, "),
        ({"joints": ["elbow_pitch", "elbow_pitch"]}, "joints: duplicate names in"),
        ({"armature": [1.0]}, "armature: expected 7 numbers, one for each of shoulder_yaw, "),
        ({"armature": [0.0] * 6 + [-1.0]}, "armature: expected numbers >= 0"),
        (
            {"root_joint": "floating", "base_source": "parameter", "base_pose": [0.0] * 7},
            "base_pose, base_twist: the norm of the base's quaternion is 0",
        ),
    ],
)
def test_a_parameter_that_does_not_fit_the_robot_is_rejected(values, why):
    with pytest.raises(SettingError, match=why):
        RobotContext(ARM7.read_text(), {**VALUES, **values})


@pytest.mark.parametrize(
    "name, why",
    [
        ("absent.so", "absent.so: there is no such file"),
        ("", "there is no such file"),
        ("text.so", "text.so: no shared library for this machine"),
        ("part.so", "part.so: the file is incomplete"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_a_wrong_parameter(tmp_path, name, why):
    (tmp_path / "text.so").write_text("no library")
    (tmp_path / "part.so").write_bytes(Path(native().__file__).read_bytes()[:5000])
    with pytest.raises(SettingError, match=f"native_library: .*{why}"):
        RobotContext(ARM7.read_text(), {**VALUES, "native_library": str(tmp_path / name)})
