# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: a moving arm, the dynamics node, and a live table of what the node publishes.

``motion.py`` computes the motion, ``robot.py`` is the process that simulates the robot,
``table.py`` draws the table, and ``run.py`` starts and stops the processes.
"""
