# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Access to serialized data in compiled functions: little-endian integers at any byte."""
import ctypes

from numba import types
from numba.extending import intrinsic

from .compiler import overload
from .lanes import pointer_to

bytes_at = pointer_to(types.uint8, ctypes.c_uint8)


@intrinsic
def _bytes_of(typing, content):
    def codegen(context, builder, sig, args):
        return context.make_helper(builder, sig.args[0], args[0]).data
    return types.CPointer(types.uint8)(content), codegen


def bytes_of(content):
    """Pointer to the bytes of a ``bytes`` object."""
    return ctypes.cast(content, ctypes.POINTER(ctypes.c_uint8))


@overload(bytes_of)
def _(content):
    return lambda content: _bytes_of(content)


def _loader(number):
    """The function that loads the integer which begins at byte i, as an int64."""
    size, signed = number.bitwidth // 8, number.signed

    def load(a, i):
        return int.from_bytes(bytes(a[i:i + size]), "little", signed=signed)

    @intrinsic
    def load_compiled(typing, a, i):
        def codegen(context, builder, sig, args):
            place = builder.gep(args[0], [args[1]])
            kind = context.get_value_type(number)
            value = builder.load(builder.bitcast(place, kind.as_pointer()))
            value.align = 1
            wide = context.get_value_type(types.int64)
            return value if kind == wide else builder.zext(value, wide)
        return types.int64(a, types.intp), codegen

    @overload(load)
    def _(a, i):
        return lambda a, i: load_compiled(a, i)
    return load


load8, load16, load32, load64 = map(
    _loader, (types.uint8, types.uint16, types.uint32, types.int64))
