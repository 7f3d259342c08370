# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""placeholder."""
def scan(path): raise NotImplementedError
def read(path, place, topics, decoder): raise NotImplementedError
