# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""``python -m dyn_ros``: the command."""

import sys

from .command.main import main

if __name__ == "__main__":
    sys.exit(main())
