# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings of a robot, from the bytes of a file to arrays.

`formats` finds topics and messages in bags, `tables` reads columns. `plan` divides a recording into
parts, `selection` chooses the robot and the topics, `part` makes states of messages, and
`recording` has the result, a `Recording`.
"""
