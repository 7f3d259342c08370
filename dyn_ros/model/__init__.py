# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Contains public aliases; the model is in ``engine/model``."""
