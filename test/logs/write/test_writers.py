# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Files of results, read by other libraries; summaries."""

import errno
import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="no packages for recordings: run `make test`")
pytest.importorskip("mcap", reason="no packages for recordings: run `make test`")

from logs.states import START, model_of, moving
from mcap.reader import make_reader
from pyarrow import dataset, parquet
from rich.console import Console

import dyn_ros
from dyn_ros.logs.quantities import QuantitySettings, compute_quantities
from dyn_ros.logs.write import bag as write_bag
from dyn_ros.logs.write import parquet as write_parquet
from dyn_ros.logs.write.quantity_table import QUANTITIES, Table
from dyn_ros.logs.write.summary import Summary

ROOT = Path(__file__).resolve().parents[3]
TYPES = write_bag.JOINT_STATE, write_bag.ODOMETRY, write_bag.CENTROIDAL, write_bag.NUMBER


@pytest.fixture(scope="module")
def states():
    """States, of some of which velocities or efforts are unknown."""
    states = moving(model_of(), 1.0)
    states.v[500, 2] = np.nan
    states.tau[700, 3] = np.nan
    return states


@pytest.fixture(scope="module")
def table(states):
    return compute_quantities(
        model_of(), states, 0, QUANTITIES, QuantitySettings(thresholds_fixed=(2.0,))
    )


@pytest.fixture(scope="module")
def base_table():
    return compute_quantities(
        model_of(root_joint="floating"),
        moving(model_of(root_joint="floating"), 0.05),
        0,
        ["state", "centroidal", "gravity"],
    )


def test_parquet_is_read_by_others(table, tmp_path):
    folder = tmp_path / "recording=day one"
    for number in range(2):
        write_parquet.write_parquet(table, folder / f"part-{number:06}.parquet")
    assert [path.name for path in sorted(folder.iterdir())] == [
        "part-000000.parquet",
        "part-000001.parquet",
    ]
    arrow_table = parquet.read_table(folder / "part-000000.parquet")
    assert [name for name in arrow_table.column_names if name != "recording"] == list(table.columns)
    for name, values in table.columns.items():
        assert np.array_equal(arrow_table[name].to_numpy(), values, equal_nan=True), name
    schema = parquet.read_schema(folder / "part-000000.parquet")
    assert schema.field("gravity.elbow_pitch").metadata[b"unit"] == b"N m"
    assert schema.field("stamp").metadata[b"unit"] == b"ns"
    assert json.loads(schema.metadata[b"dyn_ros"])["names"] == table.names
    dataset_table = dataset.dataset(tmp_path, partitioning="hive").to_table()
    assert len(dataset_table) == 2 * len(table)
    assert set(dataset_table["recording"].to_pylist()) == {"day one"}


def test_pandas_reads_a_folder_of_results(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    write_parquet.write_parquet(table, tmp_path / "recording=a" / "part-000000.parquet")
    frame = pandas.read_parquet(tmp_path)
    assert np.allclose(frame["power.total"], table.columns["power.total"], equal_nan=True)


@pytest.mark.parametrize("write", [write_parquet.write_parquet, write_bag.write_mcap])
def test_a_full_disk_leaves_nothing_but_what_was_complete(write, table, tmp_path, monkeypatch):
    path = tmp_path / "part"
    write(table, path)
    before = path.read_bytes()

    def raise_no_space(number):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", raise_no_space)
    with pytest.raises(OSError, match="No space left"):
        write(table, path)
    assert [file.name for file in tmp_path.iterdir()] == ["part"]
    assert path.read_bytes() == before


def test_what_is_not_installed_is_named(table, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "mcap.writer", None)
    with pytest.raises(ImportError, match=r'pip install "dyn_ros\[logs\]"'):
        write_parquet.write_parquet(table, tmp_path / "a")
    with pytest.raises(ImportError, match=r'pip install "dyn_ros\[logs\]"'):
        write_bag.write_mcap(table, tmp_path / "b")
    assert not list(tmp_path.iterdir())


def write_two_files(table, folder):
    """A bag of two files with the same rows, an hour apart."""
    write_bag.write_mcap(table, folder / "part-000000.mcap")
    later = dict(table.columns, stamp=table.columns["stamp"] + 3_600_000_000_000)
    write_bag.write_mcap(
        Table(
            later,
            table.log_time + 3_600_000_000_000,
            table.units,
            table.names,
            table.position_names,
            table.frame,
            table.world,
            table.base,
        ),
        folder / "part-000001.mcap",
    )
    write_bag.write_metadata(folder)
    return folder


def expected_counts(table):
    """Number of messages of each topic."""
    names, columns = table.names, table.columns
    counts = {"/joint_states": len(table), "/centroidal/state": len(table)}
    for quantity, topic in write_bag._EFFORT_TOPICS.items():
        values = np.stack([columns[f"{quantity}.{name}"] for name in names])
        counts[topic] = int((~np.isnan(values).any(axis=0)).sum())
    for name, topic in write_bag._NUMBER_TOPICS.items():
        counts[topic] = int((~np.isnan(columns[name])).sum())
    return counts


def test_rosbags_reads_the_bag(table, tmp_path):
    rosbag2 = pytest.importorskip("rosbags.rosbag2")
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    store = get_typestore(Stores.ROS2_JAZZY)
    store.register(
        get_types_from_msg((ROOT / "msg" / "CentroidalState.msg").read_text(), write_bag.CENTROIDAL)
    )
    with rosbag2.Reader(write_two_files(table, tmp_path / "day")) as bag:
        counts = {connection.topic: connection.msgcount for connection in bag.connections}
        assert counts == {topic: 2 * count for topic, count in expected_counts(table).items()}
        assert bag.start_time == START
        messages = {}
        for connection, time, raw in bag.messages():
            message = store.deserialize_cdr(raw, connection.msgtype)
            messages.setdefault(connection.topic, []).append((time, message))
    assert_messages(messages, table, 2)


def assert_messages(messages, table, repetitions):
    """Compare messages with columns."""
    columns = table.columns
    stamps = columns["stamp"].tolist()
    for topic, quantity in {
        topic: name for name, topic in write_bag._EFFORT_TOPICS.items()
    }.items():
        values = np.stack([columns[f"{quantity}.{name}"] for name in table.names], axis=1)
        rows = np.flatnonzero(~np.isnan(values).any(axis=1))
        assert len(messages[topic]) == repetitions * len(rows)
        for row, (time, message) in zip(rows, messages[topic]):
            stamp = message.header.stamp
            assert stamp.sec * 10**9 + stamp.nanosec == stamps[row] == time
            assert message.header.frame_id == table.frame
            assert list(message.name) == table.names
            assert len(message.position) == len(message.velocity) == 0
            assert (np.array(message.effort) == values[row]).all()
    for row, (_, message) in zip(range(len(table)), messages["/joint_states"]):
        assert (
            np.array(message.position) == [columns[f"position.{name}"][row] for name in table.names]
        ).all()
        assert len(message.velocity) == (0 if row == 500 else 7)
        assert len(message.effort) == (0 if row == 700 else 7)
    for row, (_, message) in zip(range(len(table)), messages["/centroidal/state"]):
        assert message.mass == message.locked_inertia.m == columns["mass"][row]
        assert message.com.y == message.locked_inertia.com.y == columns["com.y"][row]
        assert message.locked_inertia.iyz == columns["locked_inertia.iyz"][row]
        assert message.velocity_valid == (row != 500)
        assert not message.rates_valid
        assert np.isnan(message.angular_momentum_rate.z)
        np.testing.assert_equal(message.angular_momentum.z, columns["angular_momentum.z"][row])
        np.testing.assert_equal(message.com_velocity.x, columns["com_velocity.x"][row])
    assert messages["/dynamics/energy/total"][3][1].data == columns["energy.total"][3]


def test_mcap_ros2_decodes_with_the_definitions_in_the_file(table, base_table, tmp_path):
    decoder = pytest.importorskip("mcap_ros2.decoder")
    write_bag.write_mcap(table, tmp_path / "a.mcap")
    messages, previous_time = {}, 0
    with open(tmp_path / "a.mcap", "rb") as file:
        for _, channel, record, message in make_reader(
            file, decoder_factories=[decoder.DecoderFactory()]
        ).iter_decoded_messages(log_time_order=False):
            assert record.log_time >= previous_time
            previous_time = record.log_time
            messages.setdefault(channel.topic, []).append((record.log_time, message))
    assert_messages(messages, table, 1)
    write_bag.write_mcap(base_table, tmp_path / "b.mcap")
    with open(tmp_path / "b.mcap", "rb") as file:
        messages_of_base = [
            message
            for _, _, _, message in make_reader(
                file, decoder_factories=[decoder.DecoderFactory()]
            ).iter_decoded_messages(["/odom"])
        ]
    columns = base_table.columns
    assert len(messages_of_base) == len(base_table)
    for row, message in enumerate(messages_of_base):
        assert (message.header.frame_id, message.child_frame_id) == ("world", base_table.frame)
        assert message.pose.pose.position.z == columns["position.root_joint/z"][row]
        assert message.pose.pose.orientation.w == columns["position.root_joint/qw"][row]
        assert message.twist.twist.angular.y == columns["velocity.root_joint/angular_y"][row]
        assert not any(message.twist.covariance)


def test_ros_reads_the_messages(table, base_table, tmp_path):
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
    from nav_msgs.msg import Odometry
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import JointState
    from std_msgs.msg import Float64

    from dyn_ros.msg import CentroidalState

    types = dict(zip(TYPES, (JointState, Odometry, CentroidalState, Float64)))
    messages = {}
    for name, part in (("a", table), ("b", base_table)):
        write_bag.write_mcap(part, tmp_path / name)
        with open(tmp_path / name, "rb") as file:
            for schema, channel, record in make_reader(file).iter_messages():
                message = deserialize_message(record.data, types[schema.name])
                messages.setdefault((name, channel.topic), []).append((record.log_time, message))
    assert_messages(
        {
            topic: topic_messages
            for (name, topic), topic_messages in messages.items()
            if name == "a"
        },
        table,
        1,
    )
    assert (
        messages["b", "/odom"][0][1].pose.pose.orientation.x
        == base_table.columns["position.root_joint/qx"][0]
    )


def definition_lines(text):
    """The lines of a definition, without comments."""
    lines = [re.sub(r"\s+", " ", line.split("#")[0]).strip() for line in text.splitlines()]
    return [line for line in lines if line]


def test_the_definition_is_that_of_the_package():
    assert definition_lines((ROOT / "msg" / "CentroidalState.msg").read_text()) == definition_lines(
        write_bag.CENTROIDAL_FIELDS
    )


def test_planar_base_and_selected_joints(tmp_path):
    decoder = pytest.importorskip("mcap_ros2.decoder")
    model = dyn_ros.Model.from_urdf_file(
        Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf", root_joint="planar"
    )
    states = moving(model, 0.02)
    write_bag.write_mcap(compute_quantities(model, states, 0, ["state"]), tmp_path / "a")
    with open(tmp_path / "a", "rb") as file:
        message = next(
            message
            for _, _, _, message in make_reader(
                file, decoder_factories=[decoder.DecoderFactory()]
            ).iter_decoded_messages(["/odom"])
        )
    rotation = message.pose.pose.orientation
    assert np.isclose(2.0 * np.arctan2(rotation.z, rotation.w), states.q[0, 2])
    assert message.twist.twist.angular.z == states.v[0, 2]
    assert message.twist.twist.linear.y == states.v[0, 1]


def test_a_quantity_that_is_never_known(table, tmp_path):
    """Such as the residual of a recording without efforts."""
    unknown = {
        name: np.full_like(values, np.nan) if name.startswith("residual.") else values
        for name, values in table.columns.items()
    }
    write_bag.write_mcap(replace(table, columns=unknown), tmp_path / "part.mcap")
    with open(tmp_path / "part.mcap", "rb") as file:
        topics = {channel.topic for _, channel, _ in make_reader(file).iter_messages()}
    assert "/dynamics/gravity" in topics and "/observer/residual" not in topics


def test_nothing_to_write(table, tmp_path):
    empty = compute_quantities(
        model_of(), moving(model_of(), 0.1).rows(slice(0, 0)), 0, ["state", "gravity"]
    )
    write_parquet.write_parquet(empty, tmp_path / "a.parquet")
    assert len(parquet.read_table(tmp_path / "a.parquet")) == 0
    write_bag.write_mcap(empty, tmp_path / "a.mcap")
    write_bag.write_metadata(tmp_path)
    assert "relative_file_paths: []" in (tmp_path / "metadata.yaml").read_text()


def test_a_summary_of_parts_is_that_of_the_whole(states):
    model = model_of()
    parts = [
        compute_quantities(model, states.rows(rows), 0, ["power", "gravity"])
        for rows in (slice(0, 400), slice(400, 1000))
    ]
    expected = Summary.of_table(compute_quantities(model, states, 0, ["power", "gravity"]))
    total = sum(map(Summary.of_table, parts), Summary())
    assert total.rows == expected.rows == 1000
    for name, column in expected.columns.items():
        assert total.columns[name].count == column.count
        assert np.isclose(total.columns[name].rms, column.rms, rtol=1e-14)
        assert (total.columns[name].lowest, total.columns[name].highest, column.unit) == (
            column.lowest,
            column.highest,
            total.columns[name].unit,
        )
    assert expected.columns["power.total"].count == 998
    values = compute_quantities(model, states, 0, ["gravity"]).columns["gravity.elbow_pitch"]
    assert np.isclose(expected.columns["gravity.elbow_pitch"].rms, np.sqrt(np.mean(values**2)))
    assert Summary.from_dict(json.loads(json.dumps(expected.to_dict()))) == expected
    unknown = Summary.of_table(compute_quantities(model, moving(model, 0.01), 0, ["residual"]))
    assert "Infinity" not in json.dumps(unknown.to_dict())
    assert Summary.from_dict(unknown.to_dict()) == unknown


def test_the_summary_in_a_terminal(table):
    console = Console(width=100, record=True, file=open(os.devnull, "w"))
    console.print(Summary.of_table(table).to_rich())
    text = console.export_text()
    assert "residual.elbow_pitch" in text and "99.9 %" in text and "kg m2/s" in text
    console.print(Summary().to_rich())
