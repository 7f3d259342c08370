# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Access to serialized data in compiled functions: little-endian numbers at any byte."""
import ctypes
import struct

from numba import types
from numba.extending import intrinsic

from .compiler import overload
from .lanes import _pointer_to

_bytes_at = _pointer_to(types.uint8)


def _loader(number):
    """Intrinsic that reads an unsigned integer which may begin at any byte."""
    @intrinsic
    def load(typing, a, i):
        def codegen(context, builder, sig, args):
            place = builder.gep(args[0], [args[1]])
            kind = context.get_value_type(number)
            value = builder.load(builder.bitcast(place, kind.as_pointer()))
            value.align = 1
            wide = context.get_value_type(types.int64)
            return value if kind == wide else builder.zext(value, wide)
        return types.int64(a, types.intp), codegen
    return load


@intrinsic
def _bytes_of(typing, content):
    def codegen(context, builder, sig, args):
        return context.make_helper(builder, sig.args[0], args[0]).data
    return types.CPointer(types.uint8)(content), codegen


@intrinsic
def _as_float(typing, bits):
    def codegen(context, builder, sig, args):
        return builder.bitcast(args[0], context.get_value_type(types.float64))
    return types.float64(bits), codegen


_load8, _load16, _load32, _load64 = map(
    _loader, (types.uint8, types.uint16, types.uint32, types.uint64))


# These bodies run without Numba.

def bytes_at(address):
    """Pointer to the bytes at an address."""
    return ctypes.cast(int(address), ctypes.POINTER(ctypes.c_uint8))


def bytes_of(content):
    """Pointer to the bytes of a ``bytes`` object."""
    return ctypes.cast(content, ctypes.POINTER(ctypes.c_uint8))


def load8(a, i):
    """Byte i."""
    return a[i]


def load16(a, i):
    """Unsigned 16-bit integer that begins at byte i."""
    return int.from_bytes(bytes(a[i:i + 2]), "little")


def load32(a, i):
    """Unsigned 32-bit integer that begins at byte i."""
    return int.from_bytes(bytes(a[i:i + 4]), "little")


def load64(a, i):
    """Signed 64-bit integer that begins at byte i."""
    return int.from_bytes(bytes(a[i:i + 8]), "little", signed=True)


def load_float(a, i):
    """Float64 that begins at byte i."""
    return struct.unpack("<d", bytes(a[i:i + 8]))[0]


@overload(bytes_at)
def _(address):
    return lambda address: _bytes_at(address)


@overload(bytes_of)
def _(content):
    return lambda content: _bytes_of(content)


@overload(load8)
def _(a, i):
    return lambda a, i: _load8(a, i)


@overload(load16)
def _(a, i):
    return lambda a, i: _load16(a, i)


@overload(load32)
def _(a, i):
    return lambda a, i: _load32(a, i)


@overload(load64)
def _(a, i):
    return lambda a, i: _load64(a, i)


@overload(load_float)
def _(a, i):
    return lambda a, i: _as_float(_load64(a, i))
