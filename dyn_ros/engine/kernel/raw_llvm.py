# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The functions of ``raw.py`` in compiled code."""
from numba import types

from . import raw
from .lanes_llvm import pointer_to
from .lower import intrinsic

pointer_to(raw.bytes_at, types.uint8)


def _loader(function, number):
    @intrinsic(function)
    def _(typing, a, i):
        def codegen(context, builder, sig, args):
            place = builder.gep(args[0], [args[1]])
            kind = context.get_value_type(number)
            value = builder.load(builder.bitcast(place, kind.as_pointer()))
            value.align = 1
            wide = context.get_value_type(types.int64)
            return value if kind == wide else builder.zext(value, wide)
        return types.int64(a, types.intp), codegen


_loader(raw.load8, types.uint8)
_loader(raw.load16, types.uint16)
_loader(raw.load32, types.uint32)
_loader(raw.load64, types.int64)
