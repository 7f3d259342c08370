# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Report of an identification, one HTML page that opens without a network."""

from .html_report import require_packages as require_packages
from .html_report import summary as summary
from .html_report import write_report as write_report

__all__ = ["require_packages", "summary", "write_report"]
