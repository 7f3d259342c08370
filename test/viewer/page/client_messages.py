# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""What a browser sends to the page."""

CAMERA = {
    "type": "ViewerCameraMessage",
    "wxyz": [1, 0, 0, 0],
    "position": [1, 0, 0],
    "fov": 1.0,
    "near": 0.1,
    "far": 9.0,
    "image_height": 9,
    "image_width": 9,
    "look_at": [0, 0, 0],
    "up_direction": [0, 0, 1],
}
