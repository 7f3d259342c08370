# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Serialized messages without rclpy's conversion, which costs more than the dynamics.

`JointStateReader` reads joint states from their bytes; `Template` writes numbers into the bytes of
a message. Both compare what they find with what rclpy reads before they rely on a layout. The
reader ignores padding, whose bytes rclpy does not initialize: they differ between messages of the
same publisher. Only plain little-endian CDR is read and written in this way.
"""
from __future__ import annotations

import array
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from rclpy.serialization import deserialize_message, serialize_message
from sensor_msgs.msg import JointState

from .cdr_parser import HEADER, MAX_LAYOUTS, PLAIN, Parser, deserialized

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]

_STAMP = struct.Struct("<iI")
_DTYPES: dict[str, np.dtype[Any]] = {
    "double": np.dtype("<f8"), "float": np.dtype("<f4"),
    "int32": np.dtype("<i4")}
_TIMES = ("builtin_interfaces/Time", "builtin_interfaces/Duration")


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


class Layout:
    """All messages of some frame_id, names, and numbers of positions, velocities and efforts."""

    def __init__(self, data: bytes, name: tuple[str, ...]) -> None:
        parser = Parser(data)
        parser.variable(_STAMP.size, 4)
        parser.constants()                              # frame_id
        parser.count()
        for _ in name:
            parser.constants()
        blocks = [parser.variables(8, 8) for _ in range(3)]
        self.name = name
        self.struct = parser.layout()
        self.constant = self.struct.unpack_from(data)   # everything but stamp, padding, numbers
        self.spans, self.image = parser.spans, data     # where that is, and in which message
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
        self.latest: Layout | None = None       # of the latest message; None: rclpy has read it
        self._layouts: list[Layout] = []
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
                self.latest = layout
                return layout.fields(data)
        self.latest = None
        return self._read_typed(data)

    def _read_typed(self, data: bytes) -> JointStateFields:
        message = deserialized(data, JointState, "sensor_msgs/JointState")
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
        if not data.startswith(PLAIN):
            return
        try:
            layout = Layout(data, fields.name)
            found = layout.fields(data)
        except (struct.error, ValueError):
            return
        if found.stamp == fields.stamp and all(
                ours.tobytes() == theirs.tobytes()
                for ours, theirs in zip(found[2:], fields[2:])):
            if len(self._layouts) >= MAX_LAYOUTS:
                self._layouts.clear()
            self._layouts.append(layout)


class Template:
    """The bytes of a message, whose stamp and numbers are written in place.

    rclpy serializes the message once. Everything else in it, such as names and the lengths of
    sequences, is constant: another value needs a new template.

    Parameters
    ----------
    message : ROS message
        Its fields float64, float64[] and float64[N], and sequences of vectors such as
        geometry_msgs/Point, become writable, also those of messages in it. So do float32 and
        int32, if at least two of them are contiguous. Times and durations, and sequences of other
        messages, are constant. The message is copied.
    counts : sequence of int, optional
        If given, the only field of the message is a sequence of messages, and the template
        contains message i of this sequence counts[i] times in a row. The numbers of these
        messages become writable, and the stamps of their headers.

    Raises
    ------
    ValueError
        The numbers cannot be located in the serialized message.
    """

    def __init__(self, message: Any, counts: Sequence[int] | None = None) -> None:
        self._type = type(message)
        copy = deserialize_message(serialize_message(message), self._type)
        parts = [_Part(copy)] if counts is None else _repeated(copy, counts)
        self._blocks = [block for part in parts for block in part.blocks]

        marks = [part.mark() for part in parts]
        # Four bytes more than the message, so that its doubles are aligned in memory.
        self._buffer = bytearray(HEADER) + serialize_message(copy)
        self._bytes = memoryview(self._buffer)[HEADER:]
        self._locate(parts, marks)
        self._leaves = _by_path(self._blocks)
        self._targets: dict[str, tuple[Numbers, npt.NDArray[np.intp]]] = {}

        if counts is None:
            self._check(parts[0])
        for part in parts:
            self._put(part, part.original)
        self._stamps = [at for part in parts for at in part.stamps]

    def _locate(self, parts: list[_Part], marks: list[_Values]) -> None:
        """Find the marks of all parts, which are serialized one after the other."""
        begin = 0
        for part, (numbers, stamp) in zip(parts, marks):
            for block, values in zip(part.blocks, numbers):
                block.starts = self._find(
                    values.tobytes(), begin, part.count, block.path, block.dtype.itemsize)
            part.stamps = self._find(stamp, begin, part.count, "header.stamp", 4)
            begin = max([begin, *part.stamps,
                         *(start for block in part.blocks for start in block.starts[-1:])])

    def _find(self, values: bytes, begin: int, count: int, path: str, alignment: int) -> list[int]:
        """Where these bytes start in the buffer, from `begin` on; nowhere if there are none."""
        starts = []
        for _ in range(count if values else 0):
            at = self._buffer.find(values, begin)
            if at < 0 or at % alignment:
                raise self._error(path)
            starts.append(at)
            begin = at + len(values)
        return starts

    def _check(self, part: _Part) -> None:
        """Raise a ValueError unless rclpy reads what is written."""
        numbers, stamp = marks = part.mark()
        self._put(part, marks)
        read = _Part(deserialize_message(self.to_bytes(), self._type)).original
        for block, ours, theirs in zip(part.blocks, numbers, read.numbers):
            if not np.array_equal(ours, theirs):
                raise self._error(block.path)
        if stamp != read.stamp:
            raise self._error("header.stamp")

    def _put(self, part: _Part, values: _Values) -> None:
        for block, numbers in zip(part.blocks, values.numbers):
            for start in block.starts:
                self._view(block.dtype, start, block.size)[:] = numbers
        for start in part.stamps:
            self._buffer[start:start + _STAMP.size] = values.stamp

    def _view(self, dtype: np.dtype[Any], start: int, size: int) -> Numbers:
        return np.frombuffer(self._buffer, dtype, size, start)

    def _error(self, path: str) -> ValueError:
        return ValueError(f"{self._name()}: {path} is not in the serialized message as aligned "
                          "little-endian numbers; publish the message itself instead")

    def _name(self) -> str:
        return f"{self._type.__module__.split('.')[0]}/{self._type.__name__}"

    def array(self, path: str) -> Numbers:
        """The numbers of a field, as an array that writes into the message.

        Parameters
        ----------
        path : str
            A field, such as "effort" or "inertia.data"; or a message in this one, such as "com",
            for all its numbers.

        Returns
        -------
        ndarray (n,)
            Of size 1 for a single number.

        Raises
        ------
        ValueError
            The field has no numbers, has others between them, or is in a repeated message.
        """
        dtype, starts, size = self._numbers(path)
        if len(starts) > 1:
            raise ValueError(f"{self._name()}: {path!r} is in a message that is repeated "
                             f"{len(starts)} times; use `write` for all of them")
        return self._view(dtype, starts[0] if starts else 0, size)

    def write(self, path: str, values: npt.ArrayLike) -> None:
        """Write the numbers of a field of a message that is repeated.

        Parameters
        ----------
        path : str
            As for `array`, such as "markers.2.pose" for all repetitions of message 2.
        values : (counts[i], n) array_like
            Or what broadcasts to this shape.

        Raises
        ------
        ValueError
            As for `array`, or the shape of the values does not fit.
        """
        target = self._targets.get(path)
        if target is None:
            dtype, starts, size = self._numbers(path)
            every = self._view(dtype, 0, len(self._buffer) // dtype.itemsize)
            index = np.array(starts, np.intp)[:, None] // dtype.itemsize + np.arange(size)
            target = self._targets[path] = every, index
        every, index = target
        every[index] = values

    def _numbers(self, path: str) -> tuple[np.dtype[Any], list[int], int]:
        """The type of the numbers of a field, where each repetition starts, and their count."""
        leaves = self._leaves.get(path)
        if not leaves:
            known = ", ".join(leaf.path for block in self._blocks for leaf in block.leaves)
            raise ValueError(f"{self._name()}: {path!r} has no writable numbers; expected one of "
                             f"{known or 'no field'}, or a message with these")
        block, first = next((each for each in leaves if each[1].size), leaves[0])
        if any(leaf.size and each is not block for each, leaf in leaves):
            raise ValueError(f"{self._name()}: the numbers of {path!r} are not contiguous; "
                             "request those of its fields one by one")
        starts = [start + first.offset * block.dtype.itemsize for start in block.starts]
        return block.dtype, starts, sum(leaf.size for _, leaf in leaves)

    def set_stamp(self, nanoseconds: int) -> None:
        """Set header.stamp [ns]; ValueError if there is none, or if it cannot hold this time.

        With `counts`, sets that of all messages in the sequence.
        """
        if not self._stamps:
            raise ValueError(f"{self._name()}: no header, and therefore no stamp to set")
        sec, nanosec = divmod(nanoseconds, 1_000_000_000)
        if not -1 << 31 <= sec < 1 << 31:
            raise ValueError(f"stamp of {sec} s; expected -2**31 to 2**31 - 1")
        for at in self._stamps:
            _STAMP.pack_into(self._buffer, at, sec, nanosec)

    def to_bytes(self) -> bytes:
        """The serialized message, for `publish`."""
        return bytes(self._bytes)


@dataclass
class _Leaf:
    """A field of a message that contains numbers of one type."""

    path: str
    owner: Any
    field: str
    kind: str
    dtype: np.dtype[Any]
    size: int = 0
    offset: int = 0         # in numbers, from the start of its block

    def get(self) -> Numbers:
        value = getattr(self.owner, self.field)
        if "/" in self.kind:
            value = [_components(each) for each in value]
        return np.array(value, self.dtype).reshape(-1)

    def set(self, values: Numbers) -> None:
        if "/" in self.kind:
            _set_components(getattr(self.owner, self.field), values.tolist())
        elif self.kind in _DTYPES:
            setattr(self.owner, self.field, values[0].item())
        elif self.kind.startswith("sequence"):
            setattr(self.owner, self.field, array.array("d", values))
        else:
            setattr(self.owner, self.field, values)


def _components(vector: Any) -> list[float]:
    return [getattr(vector, name) for name in vector.get_fields_and_field_types()]


def _set_components(vectors: Any, values: list[float]) -> None:
    """Set all fields of messages whose fields are float64."""
    numbers = iter(values)
    for vector in vectors:
        for name in vector.get_fields_and_field_types():
            setattr(vector, name, next(numbers))


@dataclass(eq=False)
class _Block:
    """Fields with numbers of one type that are contiguous in the serialized message.

    Attributes
    ----------
    starts : list of int
        Where the numbers of each repetition are, in the buffer.
    """

    leaves: list[_Leaf]
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        numbers = [leaf.get() for leaf in self.leaves]
        self.original = np.concatenate(numbers)
        self.size = len(self.original)
        self.dtype, self.path = self.leaves[0].dtype, self.leaves[0].path
        offset = 0
        for leaf, values in zip(self.leaves, numbers):
            leaf.offset, leaf.size = offset, len(values)
            offset += leaf.size

    def mark(self, random: np.random.Generator) -> Numbers:
        """Set all numbers to random ones; return them."""
        values = (random.random(self.size) if self.dtype.kind == "f"
                  else random.integers(1 << 30, size=self.size)).astype(self.dtype)
        for leaf in self.leaves:
            leaf.set(values[leaf.offset:leaf.offset + leaf.size])
        return values


class _Values(NamedTuple):
    """The numbers of all blocks of a message, and its serialized stamp, empty if it has none."""

    numbers: list[Numbers]
    stamp: bytes


class _Part:
    """A message that occurs `count` times in a row, and its numbers.

    Attributes
    ----------
    stamps : list of int
        Where the stamp of its header is, in the buffer, for each repetition.
    original : _Values
    """

    def __init__(self, message: Any, path: str = "", count: int = 1) -> None:
        self.count = count
        self.blocks = list(_blocks(message, path))
        self.stamps: list[int] = []
        self._stamp = getattr(getattr(message, "header", None), "stamp", None)
        self.original = self._values([block.original for block in self.blocks])

    def mark(self) -> _Values:
        """Set all numbers, and the stamp, to random ones; return them."""
        random = np.random.default_rng()
        if self._stamp:
            self._stamp.sec, self._stamp.nanosec = random.integers(1 << 24, 1 << 29, 2).tolist()
        return self._values([block.mark(random) for block in self.blocks])

    def _values(self, numbers: list[Numbers]) -> _Values:
        stamp = self._stamp
        return _Values(numbers, _STAMP.pack(stamp.sec, stamp.nanosec) if stamp else b"")


def _repeated(message: Any, counts: Sequence[int]) -> list[_Part]:
    """Repeat each message in the only field of a message."""
    [name] = message.get_fields_and_field_types()
    messages = getattr(message, name)
    if len(counts) != len(messages):
        raise ValueError(f"counts: expected {len(messages)} numbers, one for each message in "
                         f"{name}, but got {len(counts)}")
    setattr(message, name, [each for each, count in zip(messages, counts) for _ in range(count)])
    return [_Part(each, f"{name}.{i}.", count)
            for i, (each, count) in enumerate(zip(messages, counts))]


def _blocks(message: Any, path: str) -> Iterator[_Block]:
    """The blocks of a message, in the order of serialization."""
    leaves: list[_Leaf] = []
    for leaf in (*_leaves(message, path), None):
        if leaves and (leaf is None or leaf.kind.startswith("sequence")
                       or leaf.dtype != leaves[0].dtype):
            block = _Block(leaves)
            if block.dtype.itemsize == 8 or block.size > 1:     # else too short to be found
                yield block
            leaves = []
        if leaf:
            leaves.append(leaf)


def _leaves(message: Any, path: str) -> Iterator[_Leaf | None]:
    """The numeric fields of a message and of messages in it, and None for each other field."""
    for name, kind in message.get_fields_and_field_types().items():
        value = getattr(message, name)
        if kind in _TIMES:
            yield None
        elif hasattr(value, "get_fields_and_field_types"):
            yield from _leaves(value, f"{path}{name}.")
        elif dtype := _dtype(kind, value):
            yield _Leaf(path + name, message, name, kind, dtype)
        else:
            yield None


def _dtype(kind: str, value: Any) -> np.dtype[Any] | None:
    """The type of the numbers in a field; None if they are constant."""
    if kind.startswith("sequence<") and "/" in kind:
        kinds = set(value[0].get_fields_and_field_types().values()) if value else set()
        return _DTYPES["double"] if kinds == {"double"} else None
    if kind.startswith(("double[", "sequence<double")):
        return _DTYPES["double"]
    return _DTYPES.get(kind)


def _by_path(blocks: list[_Block]) -> dict[str, list[tuple[_Block, _Leaf]]]:
    """The numeric fields by their paths, and by the paths of the messages that contain them."""
    found: dict[str, list[tuple[_Block, _Leaf]]] = {}
    for block in blocks:
        for leaf in block.leaves:
            path = leaf.path
            while path:
                found.setdefault(path, []).append((block, leaf))
                path = path.rpartition(".")[0]
    return found
