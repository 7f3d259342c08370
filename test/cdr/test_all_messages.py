# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""All messages of ROS and of this package, with random contents, against rclpy and rosbags."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")
pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
pytest.importorskip("rosbags", reason="no packages for recordings: run `make test`")
from rclpy.serialization import deserialize_message, serialize_message
from rosbags import typesys

from dyn_ros.cdr.definition import (
    DTYPES,
    SEQUENCE,
    SINGLE,
    STRING,
    class_definition,
    parse_definition,
)
from dyn_ros.cdr.field_ranges import COUNT, LENGTH, STAMP, TIME, FieldFinder
from dyn_ros.cdr.template import Template

SHARE = Path(sys.prefix) / "share"
OURS = Path(__file__).resolve().parents[2] / "msg"
PACKAGES = (
    "builtin_interfaces",
    "diagnostic_msgs",
    "dyn_ros",
    "geometry_msgs",
    "nav_msgs",
    "rcl_interfaces",
    "sensor_msgs",
    "std_msgs",
    "trajectory_msgs",
    "visualization_msgs",
)


def classes():
    """All classes of messages by their names."""
    for package in PACKAGES:
        module = importlib.import_module(f"{package}.msg")
        for name, kind in sorted(vars(module).items()):
            if hasattr(kind, "get_fields_and_field_types"):
                yield f"{package}/{name}", kind


CLASSES = dict(classes())
every_class = pytest.mark.parametrize("name", CLASSES)


def text_of(name):
    """The definition in the package of a message."""
    package, kind = name.split("/")
    folder = OURS if package == "dyn_ros" else SHARE / package / "msg"
    return (folder / f"{kind}.msg").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store():
    """What rosbags knows."""
    found = typesys.get_typestore(typesys.Stores.ROS2_JAZZY)
    for name in CLASSES:
        kind = name.replace("/", "/msg/")
        if kind not in found.types:
            found.register(typesys.get_types_from_msg(text_of(name), kind))
    return found


def drawn(definition, kind, rng):
    """A random message as an object with its fields."""
    fields = {}
    for name, element, size in definition.types[kind]:
        most = 1 if element.endswith("Range") else 3  # of parameters: bounded
        count = {SINGLE: 1, SEQUENCE: int(rng.integers(most + 1))}.get(size, size)
        values = [drawn_element(definition, element, rng) for _ in range(count)]
        fields[name] = values[0] if size == SINGLE else values
    return SimpleNamespace(**fields)


def drawn_element(definition, kind, rng):
    if kind == STRING:
        return "".join(rng.choice(list("ab/é€ "), int(rng.integers(9))))
    if kind == "bool":
        return bool(rng.integers(2))
    if kind.startswith("float"):
        return float(DTYPES[kind].type(rng.normal()))
    if kind in DTYPES:
        limits = np.iinfo(DTYPES[kind])
        return int(rng.integers(limits.min, limits.max, dtype=DTYPES[kind], endpoint=True))
    return drawn(definition, kind, rng)


def fill(message, definition, kind, values):
    """Set the fields of a message of rclpy."""
    for name, element, size in definition.types[kind]:
        value = getattr(values, name)
        if element == "byte":
            value = bytes([value]) if size == SINGLE else [bytes([each]) for each in value]
        elif element not in (*DTYPES, STRING):
            made = [CLASSES[element]() for _ in ([value] if size == SINGLE else value)]
            for inner, content in zip(made, [value] if size == SINGLE else value):
                fill(inner, definition, element, content)
            value = made[0] if size == SINGLE else made
        setattr(message, name, value)
    return message


def of_rosbags(store, definition, kind, values):
    """A message of rosbags."""
    fields = {}
    for name, element, size in definition.types[kind]:
        value = getattr(values, name)
        if element == "byte" and size == SINGLE:  # has a sign there
            fields[name] = value - 256 if value > 127 else value
        elif element in DTYPES:
            fields[name] = (
                value
                if size == SINGLE
                else np.array(value, bool if element == "bool" else DTYPES[element])
            )
        elif element == STRING:
            fields[name] = value
        elif size == SINGLE:
            fields[name] = of_rosbags(store, definition, element, value)
        else:
            fields[name] = [of_rosbags(store, definition, element, each) for each in value]
    if not fields:
        fields["structure_needs_at_least_one_member"] = 0
    return store.types[kind.replace("/", "/msg/")](**fields)


def flat(definition, kind, values):
    """What a message contains, in order: numbers, strings, lengths of sequences."""
    if not definition.types[kind]:
        yield 0
    for name, element, size in definition.types[kind]:
        value = getattr(values, name)
        if size == SEQUENCE:
            yield len(value)
        for each in [value] if size == SINGLE else value:
            if element in (*DTYPES, STRING):
                yield each
            else:
                yield from flat(definition, element, each)


def read(items, body):
    """What the items of a message contain, in order."""
    for item in items:
        content = body[item.start : item.start + item.size]
        if item.type == STRING:
            yield content[COUNT.size : -1].decode()
        elif item.type == LENGTH:
            yield from COUNT.unpack(content)
        elif item.type == TIME:
            yield from STAMP.unpack(content)
        else:
            yield from np.frombuffer(content, DTYPES[item.type]).tolist()


@every_class
def test_a_text_and_a_class_give_the_same_definition(name):
    definition = class_definition(CLASSES[name])
    others = [f"MSG: {kind}\n{text_of(kind)}" for kind in definition.types if kind != name]
    text = f"\n{'=' * 80}\n".join([text_of(name), *others])
    parsed = parse_definition(name.replace("/", "/msg/"), text)
    same = {"char": "uint8"}  # in classes
    assert (parsed.name, set(parsed.types)) == (name, set(definition.types))
    for kind, fields in parsed.types.items():
        assert [field._replace(type=same.get(field.type, field.type)) for field in fields] == list(
            definition.types[kind]
        )


@every_class
def test_random_messages(name, store):
    rng = np.random.default_rng(len(name))
    definition = class_definition(CLASSES[name])
    for _ in range(5):
        values = drawn(definition, name, rng)
        message = fill(CLASSES[name](), definition, name, values)
        data = Template(values, definition=definition).to_bytes()
        assert data == Template(message).to_bytes()
        assert deserialize_message(data, CLASSES[name]) == message
        assert data == bytes(
            store.serialize_cdr(
                of_rosbags(store, definition, name, values), name.replace("/", "/msg/")
            )
        )
        for finder in (FieldFinder(definition), FieldFinder(definition, each_field=True)):
            for content in (data, serialize_message(message)):  # with any padding
                items = finder.find(content[4:])
                assert list(read(items, content[4:])) == list(flat(definition, name, values))
            stops = [0, *(item.start + item.size for item in items)]
            assert all(stop <= item.start < stop + 8 for stop, item in zip(stops, items))
            assert stops[-1] == len(data) - 4


@every_class
def test_bytes_that_are_cut_or_changed(name):
    """A ValueError, or items within the bytes."""
    rng = np.random.default_rng(len(name))
    definition = class_definition(CLASSES[name])
    body = Template(drawn(definition, name, rng), definition=definition).to_bytes()[4:]
    finder = FieldFinder(definition)
    for size in {*range(min(len(body), 40)), *rng.integers(len(body), size=10).tolist()}:
        with pytest.raises(ValueError, match="the message ends before its last field"):
            finder.find(body[:size])
    for _ in range(30):
        changed = bytearray(body)
        for at in rng.integers(len(body), size=3):
            changed[at] = rng.choice([0, 1, 2, 127, 128, 255])
        try:
            items = finder.find(changed)
        except ValueError:
            continue
        assert all(item.start >= 0 and item.start + item.size <= len(body) for item in items)


@pytest.mark.parametrize(
    "text, reason",
    [
        ("wstring name", "no definition of the type a/wstring"),
        ("Point position", "no definition of the type a/Point"),
        ("float64[ x", "cannot read"),
        ("float64", "cannot read"),
    ],
)
def test_definitions_that_cannot_be_read(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_definition("a/B", text)


def test_lines_of_definitions():
    definition = parse_definition(
        "a/msg/B",
        """# a comment
uint8 FIRST=1      # constants
string TEXT = "x"
string<=5 bounded  # a comment = not a constant
float64[<=3] few
string<=2[<=3] names
float32[2] pair [1.0, 2.0]
   int8\tvalue 3
c/msg/D inner
D[] own
================================================================================
MSG: c/msg/D
================================================================================
MSG: a/D
bool flag true
""",
    )
    assert [tuple(field) for field in definition.types["a/B"]] == [
        ("bounded", "string", SINGLE),
        ("few", "float64", SEQUENCE),
        ("names", "string", SEQUENCE),
        ("pair", "float32", 2),
        ("value", "int8", SINGLE),
        ("inner", "c/D", SINGLE),
        ("own", "a/D", SEQUENCE),
    ]
    assert definition.types["c/D"] == () and definition.types["a/D"][0][:2] == ("flag", "bool")
    assert definition.numbers["a/D"] == ("bool", 1) and "a/B" not in definition.numbers
