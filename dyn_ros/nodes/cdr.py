# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages without rclpy's conversion, which costs more than the dynamics.

`JointStateReader` reads joint states from their bytes; `Template` writes numbers into the bytes of
a message. Both compare what they find with what rclpy reads before they rely on a layout. The
reader ignores padding, whose bytes rclpy does not initialize: they differ between messages of the
same publisher. Only plain little-endian CDR is read and written in this way.
"""
import array
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

Floats = npt.NDArray[np.float64]

MAX_LAYOUTS = 32        # bounds the memory and the search if a publisher never repeats its names
HEADER = 4              # bytes before the body: the encapsulation; the body is aligned to 8
_PLAIN = b"\0\1\0\0"    # encapsulation of plain CDR, little endian, without options
_STAMP = struct.Struct("<iI")
_COUNT = struct.Struct("<I")


class JointStateFields(NamedTuple):
    """What a JointState contains.

    Attributes
    ----------
    stamp : int
        [ns].
    name : tuple of str
        The same object for each message with these names.
    position, velocity, effort : ndarray
        As received: of any length, and not necessarily finite. May be read-only.
    """

    stamp: int
    name: tuple[str, ...]
    position: Floats
    velocity: Floats
    effort: Floats


class _Layout:
    """All messages of some frame_id, names, and numbers of positions, velocities and efforts."""

    def __init__(self, data: bytes, name: tuple[str, ...]) -> None:
        parser = _Parser(data)
        parser.string()                                 # frame_id
        parser.count()
        for _ in name:
            parser.string()
        blocks = [parser.numbers() for _ in range(3)]
        self.name = name
        self.struct = struct.Struct("".join(parser.form))
        self.constant = self.struct.unpack_from(data)   # everything but stamp, padding, numbers
        used = [(start, stop) for start, stop in blocks if start < stop] or [(0, 0)]
        self.start, self.stop = used[0][0], used[-1][1]
        self.position, self.velocity, self.effort = (
            slice((start - self.start) // 8, (stop - self.start) // 8) if start < stop
            else slice(0, 0) for start, stop in blocks)

    def fields(self, data: bytes) -> JointStateFields:
        """The fields of a message of this layout."""
        sec, nanosec = _STAMP.unpack_from(data, HEADER)
        numbers = np.frombuffer(data[self.start:self.stop])     # a copy: doubles are aligned
        return JointStateFields(sec * 1_000_000_000 + nanosec, self.name, numbers[self.position],
                                numbers[self.velocity], numbers[self.effort])


class JointStateReader:
    """Reads serialized sensor_msgs/JointState, as a subscription with `raw=True` receives them.

    A message whose layout is known is read from its bytes. rclpy reads every other one: the first
    of a layout, and those with an encapsulation other than plain little-endian CDR.
    """

    def __init__(self) -> None:
        self._layouts: list[_Layout] = []
        self._names: dict[tuple[str, ...], tuple[str, ...]] = {}

    def read(self, data: bytes) -> JointStateFields:
        """The fields of a serialized message.

        Parameters
        ----------
        data : bytes
            The message, including its encapsulation.

        Returns
        -------
        JointStateFields
            What rclpy would read.

        Raises
        ------
        ValueError
            The bytes are not a JointState.
        """
        size = len(data)
        for layout in self._layouts:
            if size >= layout.struct.size and layout.struct.unpack_from(data) == layout.constant:
                return layout.fields(data)
        return self._read_typed(data)

    def _read_typed(self, data: bytes) -> JointStateFields:
        try:
            message = deserialize_message(data, JointState)
        except Exception as error:      # whatever an RMW implementation raises
            raise ValueError(f"cannot deserialize {len(data)} bytes ({data[:16].hex(' ')} ...) as "
                             "sensor_msgs/JointState: its publisher may use another version of "
                             f"this type ({error})") from error
        stamp = message.header.stamp
        fields = JointStateFields(
            stamp.sec * 1_000_000_000 + stamp.nanosec, self._name(tuple(message.name)),
            np.array(message.position), np.array(message.velocity), np.array(message.effort))
        self._remember(data, fields)
        return fields

    def _name(self, name: tuple[str, ...]) -> tuple[str, ...]:
        """The tuple with these names that was returned before, if there is one."""
        if len(self._names) >= MAX_LAYOUTS and name not in self._names:
            self._names.clear()
        return self._names.setdefault(name, name)

    def _remember(self, data: bytes, fields: JointStateFields) -> None:
        """Keep the layout of a message, if the bytes read in it are what rclpy read."""
        if not data.startswith(_PLAIN):
            return
        try:
            layout = _Layout(data, fields.name)
            found = layout.fields(data)
        except (struct.error, ValueError):
            return
        if found.stamp == fields.stamp and all(
                ours.tobytes() == theirs.tobytes()
                for ours, theirs in zip(found[2:], fields[2:])):
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts.append(layout)


class _Parser:
    """Walks through a serialized JointState; raises struct.error if the data ends before.

    Attributes
    ----------
    form : list of str
        The struct format of the constant bytes up to here.
    """

    def __init__(self, data: bytes) -> None:
        self.form = [f"<{HEADER}s{_STAMP.size}x"]
        self._data = data
        self._at = HEADER + _STAMP.size

    def count(self) -> int:
        """The length of a sequence."""
        count = self._next_count()
        self._advance("I", _COUNT.size)
        return count

    def string(self) -> None:
        """A string, with its length."""
        size = _COUNT.size + self._next_count()
        self._advance(f"{size}s", size)

    def numbers(self) -> tuple[int, int]:
        """A float64[], with its length; return where its numbers start and stop."""
        size = 8 * self.count()
        if size:
            self._align(8)
            self._advance(f"{size}x", size)
        return self._at - size, self._at

    def _next_count(self) -> int:
        self._align(4)
        return int(_COUNT.unpack_from(self._data, self._at)[0])

    def _align(self, size: int) -> None:
        padding = (HEADER - self._at) % size
        self._advance(f"{padding}x", padding)

    def _advance(self, form: str, size: int) -> None:
        self.form.append(form)
        self._at += size


class Template:
    """The bytes of a message, whose stamp and float64 fields are written in place.

    rclpy serializes the message once. Everything else in it, such as names and the lengths of
    sequences, is constant: another value needs a new template.

    Parameters
    ----------
    message : ROS message
        Its fields float64, float64[] and float64[N], also those of messages in it, become
        writable. Sequences of messages are constant. The message is copied.

    Raises
    ------
    ValueError
        The numbers cannot be located in the serialized message.
    """

    def __init__(self, message: Any) -> None:
        self._type = type(message)
        copy = deserialize_message(serialize_message(message), self._type)
        leaves = list(_leaves(copy))
        original = [leaf.get() for leaf in leaves]
        stamp = _stamp(copy)
        original_stamp = _STAMP.pack(stamp.sec, stamp.nanosec) if stamp else b""

        marks, mark = _mark(leaves, stamp)
        # Four bytes more than the message, so that its doubles are aligned in memory.
        self._buffer = bytearray(HEADER) + serialize_message(copy)
        self._bytes = memoryview(self._buffer)[HEADER:]
        self._blocks = {leaf.path: (self._find(values.tobytes(), leaf.path, 8), len(values))
                        for leaf, values in zip(leaves, marks)}
        self._stamp = self._find(mark, "header.stamp", 4) if stamp else None

        marks, mark = _mark(leaves, stamp)
        self._write(marks, mark)
        self._check(marks, mark)
        self._write(original, original_stamp)

    def _find(self, values: bytes, path: str, alignment: int) -> int:
        """Where these bytes start in the buffer."""
        at = self._buffer.find(values) if values else 0
        if at < 0 or at % alignment:
            raise self._error(path)
        return at

    def _write(self, values: list[Floats], stamp: bytes) -> None:
        for path, new in zip(self._blocks, values):
            self.array(path)[:] = new
        if self._stamp is not None:
            self._buffer[self._stamp:self._stamp + _STAMP.size] = stamp

    def _check(self, values: list[Floats], stamp: bytes) -> None:
        """Raise a ValueError unless rclpy reads these numbers and this stamp."""
        message = deserialize_message(self.to_bytes(), self._type)
        for leaf, expected in zip(_leaves(message), values):
            if not np.array_equal(leaf.get(), expected):
                raise self._error(leaf.path)
        read = _stamp(message)
        if read and _STAMP.pack(read.sec, read.nanosec) != stamp:
            raise self._error("header.stamp")

    def _error(self, path: str) -> ValueError:
        return ValueError(f"{self._name()}: {path} is not in the serialized message as aligned "
                          "little-endian numbers; publish the message itself instead")

    def _name(self) -> str:
        return f"{self._type.__module__.split('.')[0]}/{self._type.__name__}"

    def array(self, path: str) -> Floats:
        """The numbers of a field, as an array that writes into the message.

        Parameters
        ----------
        path : str
            A field, such as "effort" or "inertia.data"; or a message in this one, such as "com",
            for all its float64 numbers.

        Returns
        -------
        ndarray (n,)
            Of size 1 for a float64.

        Raises
        ------
        ValueError
            The field has no float64 numbers, or has others between them.
        """
        blocks = [block for each, block in self._blocks.items()
                  if f"{each}.".startswith(f"{path}.")]
        if not blocks:
            raise ValueError(f"{self._name()}: {path!r} has no float64 numbers; expected one of "
                             f"{', '.join(self._blocks) or 'no field'}, or a message with these")
        blocks = [(start, size) for start, size in blocks if size]
        start = end = blocks[0][0] if blocks else 0
        for at, size in blocks:
            if at != end:
                raise ValueError(f"{self._name()}: the numbers of {path!r} are not contiguous; "
                                 "request those of its fields one by one")
            end += 8 * size
        return np.frombuffer(self._buffer, count=(end - start) // 8, offset=start)

    def set_stamp(self, nanoseconds: int) -> None:
        """Set header.stamp [ns]; ValueError if there is none, or if it cannot hold this time."""
        if self._stamp is None:
            raise ValueError(f"{self._name()}: no header, and therefore no stamp to set")
        sec, nanosec = divmod(nanoseconds, 1_000_000_000)
        if not -1 << 31 <= sec < 1 << 31:
            raise ValueError(f"stamp of {sec} s; expected -2**31 to 2**31 - 1")
        _STAMP.pack_into(self._buffer, self._stamp, sec, nanosec)

    def to_bytes(self) -> bytes:
        """The serialized message, for `publish`."""
        return bytes(self._bytes)


@dataclass
class _Leaf:
    """A float64, float64[] or float64[N] field of a message."""

    path: str
    owner: Any
    field: str
    kind: str

    def get(self) -> Floats:
        return np.array(getattr(self.owner, self.field), float).reshape(-1)

    def set(self, values: Floats) -> None:
        value: Any = values
        if self.kind == "double":
            value = float(values[0])
        elif self.kind.startswith("sequence"):
            value = array.array("d", values)
        setattr(self.owner, self.field, value)


def _leaves(message: Any, prefix: str = "") -> Iterator[_Leaf]:
    """The float64 fields of a message and of messages in it, in the order of serialization."""
    for field, kind in message.get_fields_and_field_types().items():
        value = getattr(message, field)
        if kind == "double" or kind.startswith(("double[", "sequence<double")):
            yield _Leaf(prefix + field, message, field, kind)
        elif hasattr(value, "get_fields_and_field_types"):
            yield from _leaves(value, f"{prefix}{field}.")


def _stamp(message: Any) -> Any:
    """The stamp of a message's header; None without a header."""
    return getattr(getattr(message, "header", None), "stamp", None)


def _mark(leaves: list[_Leaf], stamp: Any) -> tuple[list[Floats], bytes]:
    """Set all numbers, and the stamp, to random ones; return them."""
    random = np.random.default_rng()
    marks = [random.random(len(leaf.get())) for leaf in leaves]
    for leaf, values in zip(leaves, marks):
        leaf.set(values)
    if not stamp:
        return marks, b""
    stamp.sec, stamp.nanosec = (int(i) for i in random.integers(1 << 24, 1 << 29, 2))
    return marks, _STAMP.pack(stamp.sec, stamp.nanosec)
