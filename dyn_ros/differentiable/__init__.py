# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Differentiable dynamics, written once for the arrays of torch and of JAX.

    operations.py   what the engine computes, with derivatives: rnea, aba, crba, ...
    rules.py        their derivatives, as calls of operations
    library.py      what a library of arrays has to offer
    functions.py    the public functions, which call operations
    kinematics.py   frames, momentum and energy, as array expressions of the joint placements
    contacts.py     contact dynamics, likewise
    motion.py       configurations moved along a velocity

``dyn_ros.torch`` and ``dyn_ros.jax`` bind them to their library.
"""
