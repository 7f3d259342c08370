# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Export for JavaScript: a WebAssembly module, its functions with their types, and a web page."""
