# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds the package for pip and uv; setup.cfg describes it."""
import tempfile

from setuptools import setup

with tempfile.TemporaryDirectory() as folder:    # nothing of an earlier build is packed
    setup(options={"build": {"build_base": folder}, "egg_info": {"egg_base": folder}})
