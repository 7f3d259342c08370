# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables, with a column for each signal of each joint: CSV, Parquet and columns in memory.

`files` reads columns, `columns` finds the columns of a robot by their names, `renaming` those with
other names, and `row_selection` the rows that can be used.
"""
