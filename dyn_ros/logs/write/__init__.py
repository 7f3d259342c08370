# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of results: tables of quantities as Parquet and MCAP, their folders, and plots."""
