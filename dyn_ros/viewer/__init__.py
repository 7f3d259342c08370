# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The browser view of a robot, based on viser.

``session.py`` is a page with a robot; it receives states, torques and markers, and asks an `Actor`
for what users do: the node ``nodes/viewer_node.py``, for example. ``visuals.py`` converts meshes of
a robot description for the browser. ``scene.py`` draws the robot, ``markers.py`` the markers that
nodes publish, ``touch.py`` what touches the robot, and ``panel.py`` the sliders, numbers and plots.
``follower.py`` makes joints follow the sliders, and ``page.py`` serves the page.
``inertia_picture.py`` draws the inertias that ``dyn_ros check`` examines. The package is
independent of ROS: it reads fields of messages, but imports message types only to check types.
"""
