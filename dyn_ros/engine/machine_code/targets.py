# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Processors that machine code is generated for, WebAssembly, and the processor of this machine.

``DYN_ROS_TARGET`` names another target than the best one for this processor, for example to compile
for another processor.
"""

import functools
import os
from typing import NamedTuple

from .extension import native


class Target(NamedTuple):
    """A kind of processor, as LLVM describes it.

    ``lanes`` is the number of states that batches compute side by side. Eight floats take four
    registers of 128 bits, so that kernels run out of them. With four floats, batches take 0.88 of
    the time on x86-64-v2 (geometric mean of all functions). Code for aarch64 was not timed: it has
    0.93 of the instructions and 0.46 of the stack accesses for each state. WebAssembly is exported
    for single states only.

    With ``masked_as_select``, a masked load or store of a row accesses all of its registers, and
    selects among the numbers; LLVM would expand each into a branch for each number.
    """

    triple: str
    cpu: str
    features: str = ""
    lanes: int = 8
    has_fma: bool = True
    reloc: str = "pic"
    masked_as_select: bool = False


_X86, _ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
_WASM_FEATURES = "+bulk-memory,+mutable-globals,+nontrapping-fptoint,+sign-ext"
# The targets of an architecture, from the least to the best one.
TARGETS = {
    "x86-64-v2": Target(_X86, "x86-64-v2", lanes=4, has_fma=False),
    "x86-64-v3": Target(_X86, "x86-64-v3"),
    "x86-64-v4": Target(_X86, "x86-64-v4", "-prefer-256-bit"),
    "aarch64": Target(_ARM, "generic", "+reserve-x18", lanes=4),  # macOS uses x18
}
_WASM = Target(
    "wasm32-unknown-unknown",
    "mvp",
    _WASM_FEATURES,
    has_fma=False,
    reloc="static",
    masked_as_select=True,
)
# Only `dyn_ros export` uses these. SIMD is in Chrome 91, Firefox 89, Safari 16.4 and later.
WEB_TARGETS = {
    "wasm32": _WASM._replace(features=f"{_WASM_FEATURES},+simd128"),
    "wasm32-without-simd": _WASM,
}


def find_target(name: str) -> Target:
    """Return the target of a name."""
    return (TARGETS | WEB_TARGETS)[name]


@functools.cache
def best_target() -> str:
    """Return ``DYN_ROS_TARGET``, or the best target for this processor, "" if there is none."""
    configured = os.environ.get("DYN_ROS_TARGET")
    if configured and configured not in TARGETS:
        raise ValueError(
            f"DYN_ROS_TARGET: no target {configured!r}; available: {', '.join(TARGETS)}"
        )
    return configured or native().level()


def same_architecture(target: str) -> list[str]:
    """Return all targets of the architecture of a target, from the least to the best one."""
    return [
        name
        for name, candidate in TARGETS.items()
        if target in TARGETS and candidate.triple == TARGETS[target].triple
    ] or [target]


def no_higher(target: str) -> list[str]:
    """Return the targets whose code the processors of a target can run, from the best one down."""
    names = same_architecture(target)
    return names[names.index(target) :: -1]
