# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The browser view of a robot, based on viser; ``session.py`` is a page with a robot.

Independent of ROS: it reads fields of messages, but imports message types only to check types.
"""
