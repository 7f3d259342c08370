# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Public aliases; the model is in ``engine/model``."""
