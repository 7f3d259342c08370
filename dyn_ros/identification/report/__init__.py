# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A report of an identification: one HTML page that opens without a network."""

from .page import summary as summary
from .page import write_report as write_report

__all__ = ["summary", "write_report"]
