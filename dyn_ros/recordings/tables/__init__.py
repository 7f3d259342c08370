# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, with a column for each signal of each joint: CSV, Parquet and columns in memory.

`files` reads columns, `columns` finds those of a robot by their names, `renaming` those that have
names of their own, `rows` finds the rows that can be used.
"""
