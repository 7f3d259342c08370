# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: an arm that moves, the real dynamics node, and a live table of what it says.

``motion.py`` moves joints, ``robot.py`` is the process that stands for the robot, ``table.py``
draws, ``run.py`` starts the processes and ends them.
"""
