# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a robot, from the bytes of a file to arrays.

`formats` finds topics and messages in bags, `tables` reads columns. `selection` chooses the robot
and the topics, `plan` divides a recording into parts, and `part` collects the states of a part from
its messages. `reading` returns a `Recording` of a bag, a table or columns in memory.
"""
