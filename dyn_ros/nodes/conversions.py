"""Between ROS messages and numpy. Messages are made once, then filled in place: see `numbers`."""
import array

import numpy as np
from sensor_msgs.msg import JointState

from dyn_ros.spatial.lie import matrix_quaternion


def numbers(message, field, size):
    """Give a float64[] field `size` numbers, and return them as an ndarray that writes into it.

    Filling that array costs far less than assigning to the field, which checks or copies.
    """
    setattr(message, field, array.array("d", bytes(8 * size)))
    return np.frombuffer(getattr(message, field))


def matrix(message, rows, cols):
    """Size a dyn_ros/Matrix; return its numbers as an ndarray (rows, cols) that writes into it."""
    message.rows, message.cols = rows, cols
    return numbers(message, "data", rows * cols).reshape(rows, cols)


def named(message_type, robot):
    """A new message with header and name[], for the rows that `robot` publishes."""
    message = message_type()
    message.header.frame_id = robot.frame_id
    message.name = robot.names
    return message


def joint_effort(robot):
    """A JointState for torques: the message, and its effort as an ndarray that writes into it."""
    message = named(JointState, robot)
    return message, numbers(message, "effort", len(robot.names))


def nanoseconds(stamp):
    """Of a builtin_interfaces/Time."""
    return stamp.sec * 1_000_000_000 + stamp.nanosec


def set_vector(vector, x, y, z):
    """Set the three numbers of a geometry_msgs/Vector3 or Point."""
    vector.x, vector.y, vector.z = x, y, z


def pose_numbers(pose):
    """(x, y, z, qx, qy, qz, qw) of a geometry_msgs/Pose."""
    p, q = pose.position, pose.orientation
    return p.x, p.y, p.z, q.x, q.y, q.z, q.w


def set_pose(pose, placement):
    """Fill a geometry_msgs/Pose from a homogeneous matrix (4, 4)."""
    p, q = pose.position, pose.orientation
    p.x, p.y, p.z = placement[:3, 3]
    q.x, q.y, q.z, q.w = matrix_quaternion(placement[:3, :3])


def set_twist(twist, motion):
    """Fill a geometry_msgs/Twist or Accel from (linear, angular), six numbers."""
    v, w = twist.linear, twist.angular
    v.x, v.y, v.z, w.x, w.y, w.z = motion


def twist_numbers(twist):
    """(linear, angular), six numbers, of a geometry_msgs/Twist."""
    v, w = twist.linear, twist.angular
    return v.x, v.y, v.z, w.x, w.y, w.z
