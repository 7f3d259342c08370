# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The browser view of a robot, on viser; the node that feeds it is ``nodes/viewer_node.py``.

``visuals.py`` reads shapes and meshes out of a robot description, ``scene.py`` draws the robot,
``markers.py`` the markers of nodes, ``panel.py`` the sliders, numbers and plots, ``hand.py`` moves
the joints as a hand on the sliders does, ``page.py`` serves it all. No ROS here: messages are
looked at, never imported.
"""
