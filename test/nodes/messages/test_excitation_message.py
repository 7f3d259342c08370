# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of excite() as ROS messages."""

import numpy as np
import pytest
import yaml

import dyn_ros
from dyn_ros.identification import excite

trajectory_msgs = pytest.importorskip("trajectory_msgs.msg", reason="no ROS: run `make test`")


def message(kind, values):
    """A message from a dict, as ``ros2 topic pub`` makes one: setters check the types."""
    made = kind()
    for name, value in values.items():
        field = getattr(made, name)
        if isinstance(value, dict):
            value = message(type(field), value)
        elif name == "points":
            value = [message(trajectory_msgs.JointTrajectoryPoint, one) for one in value]
        setattr(made, name, value)
    return made


@pytest.fixture(scope="module")
def motion():
    model = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")
    return excite(model, starts=1, harmonics=3, period=5.0, duration=5.0)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_file_is_a_joint_trajectory(motion, tmp_path, suffix):
    rclpy_serialization = pytest.importorskip("rclpy.serialization")
    motion.write(tmp_path / f"motion{suffix}", rate=20.0)
    read = message(
        trajectory_msgs.JointTrajectory, yaml.safe_load((tmp_path / f"motion{suffix}").read_text())
    )
    copy = rclpy_serialization.deserialize_message(
        rclpy_serialization.serialize_message(read), trajectory_msgs.JointTrajectory
    )
    assert copy == read
    assert tuple(copy.joint_names) == motion.model.velocity_names
    last = copy.points[-1]
    assert (last.time_from_start.sec, last.time_from_start.nanosec, len(copy.points)) == (5, 0, 101)
    assert np.allclose(last.positions, motion.q[-1], atol=1e-6, rtol=0.0)
    assert not any(last.velocities) and not any(last.accelerations)
