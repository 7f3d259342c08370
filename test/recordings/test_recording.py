# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings as arrays, and in parts."""

import dataclasses
import datetime
import functools
import itertools
import pickle
from pathlib import Path

import numpy as np
import pytest
from logs import recorded
from logs.recorded import JointState, Odometry, Sent
from states.test_streams import one_by_one, stream

import dyn_ros
from dyn_ros.cdr.decode import Messages
from dyn_ros.recordings.formats import mcap_file
from dyn_ros.recordings.formats.sources import open_source
from dyn_ros.recordings.formats.spans import Span
from dyn_ros.recordings.options import ReadOptions
from dyn_ros.recordings.part import read_in_log_time_order, read_part
from dyn_ros.recordings.plan import WARM_UP, divide_part, whole_part
from dyn_ros.recordings.reading import read, read_table
from dyn_ros.recordings.recording import rate_mask
from dyn_ros.recordings.selection import select_part
from dyn_ros.states.joint_states import Reception, Rejected
from dyn_ros.states.messages import MessageCollector

ROBOTS = Path(dyn_ros.__file__).parent / "robots"
ARM7 = ROBOTS / "arm7.urdf"
START = recorded.START
MS = 1_000_000
SECOND = 1000 * MS
POSE = (1.0, 2.0, 3.0, 0.0, 0.0, 0.0, 1.0)


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf_file(ARM7)


@pytest.fixture(autouse=True)
def small_spans(monkeypatch):
    """Each chunk of a small recording is a span, as in a large one."""
    monkeypatch.setattr(mcap_file, "_SPAN_SIZE", 0)


def motion(names, count, *, start=START, period=MS, topic="/joint_states", late=100_000):
    """Yield messages of one publisher."""
    for k in range(count):
        stamp = start + k * period
        x = 1e-9 * (stamp - START) + np.arange(len(names))
        yield Sent(
            topic,
            stamp + late,
            JointState(
                names,
                np.sin(x).tolist(),
                np.cos(x).tolist(),
                (2.0 * np.cos(3.0 * x)).tolist(),
                stamp,
            ),
        )


def merge_by_log_time(*streams):
    """Return the messages of several publishers in order of log time."""
    return sorted((each for stream in streams for each in stream), key=lambda each: each.log_time)


def node_states(model, messages):
    """Return stamps, q, v and efforts that the nodes' collector makes of messages."""
    node, states = MessageCollector(model, 0.5), []
    node.collect_quantities(["effort"])
    for _, _, message in sorted(messages, key=lambda item: item.log_time):
        try:
            reception = (
                node.receive_odometry(message.pose, message.twist, message.stamp)
                if isinstance(message, Odometry)
                else node.receive_joint_states(
                    message.names, message.position, message.velocity, message.effort, message.stamp
                )
            )
        except Rejected:
            continue
        if reception is Reception.NEW_STATE:
            state = node.latest_state()
            states.append((state.stamp, state.q.copy(), state.v.copy(), state.effort.copy()))
    return [np.array(item) for item in zip(*states)]


def assert_same_states(recording, expected):
    """Assert that a recording has these stamps, q, v and efforts."""
    assert len(recording) == len(expected[0])
    for array, expected_array in zip(
        (recording.stamp, recording.q, recording.v, recording.effort), expected
    ):
        np.testing.assert_array_equal(array, expected_array)


# --- whole recordings


@pytest.mark.parametrize("write", [recorded.write_mcap, recorded.write_db3, recorded.write_bag1])
def test_a_recording_as_arrays(tmp_path, arm, write):
    messages = list(motion(arm.joint_names, 50))
    path = write(tmp_path / ("bag.bag" if write is recorded.write_bag1 else "bag.mcap"), messages)
    found = read(path, ARM7)
    assert_same_states(found, node_states(arm, messages))
    assert found.position_names == found.velocity_names == arm.joint_names
    assert found.gaps == () and found.warnings == ()
    assert found.name == "bag" or found.name == "bag.mcap"
    np.testing.assert_allclose(found.time, 1e-9 * found.stamp, rtol=0)
    assert repr(found) == f"Recording({found.name!r}, 50 states, 0.049 s, nq=7, nv=7)"


def test_two_publishers_are_merged_as_in_a_node(tmp_path, arm):
    messages = merge_by_log_time(
        motion(arm.joint_names[4:], 80),
        motion(arm.joint_names[:4], 80, late=300_000),
        motion(["gripper"], 20, period=5 * MS),
    )
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), arm)
    assert_same_states(found, node_states(arm, messages))
    assert len(found) == 80
    assert found.warnings == ("ignored joints that the robot does not have: gripper",)


def test_the_description_in_the_recording(tmp_path, arm):
    messages = [Sent("/robot_description", START, ARM7.read_text()), *motion(arm.joint_names, 5)]
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages))
    assert found.model.name == arm.name and len(found) == 5
    broken = [Sent("/robot_description", START, "<robot"), *motion(arm.joint_names, 5)]
    path = recorded.write_mcap(tmp_path / "b.mcap", broken)
    with pytest.raises(ValueError, match="b: the description in the recording cannot be used: "):
        read(path)


def test_without_a_robot_the_names_are_columns(tmp_path):
    messages = merge_by_log_time(motion(["b", "a"], 10), motion(["c"], 10))
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages))
    assert found.model is None
    assert found.position_names == ("b", "a", "c")
    assert len(found) == 10
    with pytest.raises(ValueError, match="expected a model, as the recording has no description"):
        found.to_samples()
    assert read(tmp_path / "a.mcap", joints=["a"]).position_names == ("a",)
    with pytest.raises(ValueError, match="joints: a has no joint 'd'; available: b, a, c"):
        read(tmp_path / "a.mcap", joints=["d"])


def test_another_robot_is_an_error_that_names_the_joints_of_both(tmp_path, arm):
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(["x1", "x2"], 10))
    with pytest.raises(
        ValueError,
        match="a: no joint of the robot is in the recording; the robot "
        "has .*elbow_pitch.*; the recording has x1, x2",
    ):
        read(path, arm)


def test_topics(tmp_path, arm):
    messages = merge_by_log_time(
        motion(arm.joint_names, 5, topic="/left/joint_states"),
        motion(arm.joint_names, 5, topic="/right/joint_states"),
        motion(arm.joint_names, 5, topic="/other"),
    )
    path = recorded.write_mcap(tmp_path / "a.mcap", messages)
    with pytest.raises(
        ValueError,
        match="/left/joint_states and /right/joint_states both report the joint .*pass topics=",
    ):
        read(path, arm)
    assert_same_states(
        read(path, arm, topics="/other"),
        node_states(arm, [each for each in messages if each.topic == "/other"]),
    )
    with pytest.raises(
        ValueError,
        match="topics: no readable topic '/nothing'; available: "
        "/left/joint_states, /other, /right/joint_states",
    ):
        read(path, arm, topics=["/nothing"])
    other = recorded.write_mcap(tmp_path / "b.mcap", motion(arm.joint_names, 5, topic="/other"))
    with pytest.raises(ValueError, match="no readable topic named joint_states of .*it has /other"):
        read(other, arm)


def test_topics_without_joint_states_are_listed_with_types(tmp_path, arm):
    messages = [recorded.Sent("/rosout", recorded.START, "text")]
    path = recorded.write_mcap(tmp_path / "a.mcap", messages)
    with pytest.raises(ValueError, match=r"its topics are /rosout \(std_msgs/msg/String\)$"):
        read(path, arm)


@pytest.mark.parametrize("suffix", [".mcap", ".db3", ".bag", ".csv", ".parquet"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, arm, suffix):
    path = tmp_path / f"empty{suffix}"
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"empty{suffix}: is empty: 0 bytes$"):
        read(path, arm)


def test_two_topics_of_different_joints_are_one_robot(tmp_path, arm):
    messages = merge_by_log_time(
        motion(arm.joint_names[:3], 20, topic="/arm/joint_states"),
        motion(arm.joint_names[3:], 20, topic="/wrist/joint_states"),
    )
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), arm)
    assert_same_states(found, node_states(arm, messages))
    assert len(found) == 20


def test_topics_that_turn_out_to_overlap_late_are_an_error(tmp_path, arm):
    messages = merge_by_log_time(
        motion(arm.joint_names, 300, topic="/left/joint_states"),
        motion(["x"], 300, topic="/right/joint_states"),
        motion(arm.joint_names[:1], 1, start=START + SECOND, topic="/right/joint_states"),
    )
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=2000)
    with pytest.raises(ValueError, match="both report the joint"):
        read(path, arm)


@pytest.mark.parametrize("root_joint", ["floating", "planar"])
def test_a_moving_base_from_odometry(tmp_path, root_joint):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint=root_joint)
    root = next(frame.name for frame in model.tree.frames if frame.kind == "body")
    base = [
        Sent(
            "/odom",
            START + k * MS + 7,
            Odometry(
                (0.1 * k, 0.0, 0.0, 0.0, 0.0, np.sin(0.1 * k), np.cos(0.1 * k)),
                [0.1 * k] * 6,
                START + k * MS,
                child=root,
            ),
        )
        for k in range(30)
    ]
    messages = merge_by_log_time(base, motion(model.joint_names[1:], 30))
    path = recorded.write_mcap(tmp_path / "a.mcap", messages)
    assert_same_states(read(path, ARM7, root_joint=root_joint), node_states(model, messages))
    fixed = read(path, model, base=(POSE, [0.0] * 6))
    np.testing.assert_array_equal(fixed.q[:, :3], np.tile(fixed.q[0, :3], (len(fixed), 1)))
    joints = read(path, model, joints=["root_joint", model.joint_names[3]])
    assert joints.position_names == (*model.position_names[: model.nqs[0]], model.joint_names[3])
    assert joints.q.shape[1] == model.nqs[0] + 1 and joints.v.shape[1] == model.nvs[0] + 1
    nothing = recorded.write_mcap(tmp_path / "b.mcap", motion(model.joint_names[1:], 3))
    with pytest.raises(ValueError, match="no odometry, which the moving base"):
        read(nothing, model)
    several = recorded.write_mcap(
        tmp_path / "c.mcap", [*messages, base[0]._replace(topic="/slam/odometry")]
    )
    with pytest.raises(ValueError, match="several odometries, /odom, /slam/odometry"):
        read(several, model)
    assert_same_states(read(several, model, odometry="/odom"), node_states(model, messages))


WORLD_AND_BASE = """<robot name="walker"><link name="world"/>
  <joint name="free" type="{}"><parent link="world"/><child link="base"/></joint>
  <link name="base"/>
  <joint name="hip" type="continuous"><parent link="base"/><child link="leg"/></joint>
  <link name="leg"><inertial><mass value="1"/>
    <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
</robot>"""


@pytest.mark.parametrize("kind", ["floating", "planar"])
@pytest.mark.parametrize("table", [False, True])
def test_a_moving_base_within_the_description_is_refused_as_by_nodes(tmp_path, kind, table):
    model = dyn_ros.Model.from_urdf(WORLD_AND_BASE.format(kind))
    source = recorded.write_mcap(tmp_path / "a.mcap", motion(["hip"], 30))
    if table:
        source = tmp_path / "a.csv"
        source.write_text("time,position.hip,effort.hip\n0,0,0\n0.1,0,0\n")
    with pytest.raises(
        ValueError,
        match=f"joint 'free' is {kind}, and no joint state reports its position; remove it and "
        rf"what is above it \(world\), and set root_joint=\"{kind}\"",
    ):
        read(source, model)


def test_samples_may_have_the_columns_of_a_moving_base_within_the_description():
    model = dyn_ros.Model.from_urdf(WORLD_AND_BASE.format("planar"))
    table = {f"position.{name}": [k, k] for k, name in enumerate(model.position_names)}
    table |= {"time": [0.0, 0.1], "effort.hip": [0.0, 0.0]}
    np.testing.assert_array_equal(read_table(model, table).q, [[0.0, 1.0, 2.0, 3.0]] * 2)
    del table["position.free/x"]
    with pytest.raises(ValueError, match="joint 'free' is planar.* set root_joint=.planar"):
        read_table(model, table)


def test_a_spherical_joint_is_refused(tmp_path, arm):
    model = arm.append(arm, "tool", joint="spherical", name="ball", prefix="second/")
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(model.joint_names, 30))
    with pytest.raises(ValueError, match="joint 'ball' is spherical and not the base, and no mess"):
        read(path, model)


def test_an_interval(tmp_path, arm):
    messages = list(motion(arm.joint_names, 2000, late=0))
    path = recorded.write_mcap(tmp_path / "a.mcap", messages)
    whole = read(path, arm)
    start = datetime.datetime.fromtimestamp(START // SECOND + 1, datetime.timezone.utc)
    for since, until in (
        ("+1", "+1.5"),
        ("+ 1 s", "+1.5s"),
        (f"{START // SECOND + 1}", "+1.5"),
        (START // SECOND + 1, START / SECOND + 1.5),
        (start, "+1.5"),
        (start.replace(tzinfo=None).isoformat(), "+1.5"),
        (start.isoformat().replace("+00:00", "Z"), "+1.5"),
    ):
        found = read(path, arm, since=since, until=until)
        np.testing.assert_array_equal(found.stamp, whole.stamp[1000:1500])
    assert len(read(path, arm, since="+5")) == 0
    assert len(read(path, arm, until="+0.0105")) == 11
    with pytest.raises(ValueError, match="since: expected seconds .* got 'noon'"):
        read(path, arm, since="noon")
    with pytest.raises(ValueError, match="expected an interval, got '.2' to '.1'"):
        read(path, arm, since="+2", until="+1")


def test_a_lower_rate_keeps_states(tmp_path, arm):
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names, 2000))
    whole, few = read(path, arm), read(path, arm, rate=100.0)
    assert len(few) == 200
    np.testing.assert_array_equal(few.q, whole.q[::10])
    with pytest.raises(ValueError, match="rate: expected states a second"):
        read(path, arm, rate=0.0)


def test_what_is_wrong_is_a_warning(tmp_path, arm):
    names = arm.joint_names
    messages = [
        *motion(names, 100),
        *motion(names, 50, start=START + 10 * SECOND),
        *motion(names, 20, start=START + 5 * SECOND),
    ]
    messages = [each._replace(log_time=START + k) for k, each in enumerate(messages)]
    bad = messages[5].message._replace(position=[np.nan] * 7)
    messages[5] = messages[5]._replace(message=bad)
    messages[7] = messages[7]._replace(message=messages[7].message._replace(velocity=[1.0]))
    messages[9] = messages[9]._replace(
        message=messages[9].message._replace(stamp=messages[6].message.stamp)
    )
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), arm)
    assert (
        len(found) == 167
    )  # one without positions, one with a wrong length, one with a late stamp
    text = "\n".join(found.warnings)
    assert "1 messages in which a position is NaN, the first at" in text
    assert "7 names, but 7 positions, 1 velocities and 7 efforts" in text
    assert "its stamp is 0.002 s older than the last one of these joints" in text
    assert "1 messages with stamps that jumped back" in text
    assert len(found.gaps) == 2
    np.testing.assert_allclose(np.diff(found.gaps, axis=1).ravel(), [9.901, -5.049], rtol=1e-4)


@pytest.mark.parametrize("known", [0, 3])
def test_nan_is_unknown(tmp_path, arm, known):
    """An interface that the hardware lacks is NaN, for all joints or some of them."""

    def lacking(numbers):
        return [*numbers[:known], *[np.nan] * (7 - known)]

    whole = list(motion(arm.joint_names, 20))
    messages = [
        each._replace(
            message=each.message._replace(
                velocity=lacking(each.message.velocity), effort=lacking(each.message.effort)
            )
        )
        for each in whole
    ]
    found = read(recorded.write_mcap(tmp_path / "nan.mcap", messages), arm)
    expected = read(recorded.write_mcap(tmp_path / "whole.mcap", whole), arm)
    assert found.warnings == () and len(found) == 20
    np.testing.assert_array_equal(found.q, expected.q)
    for array, all_known in ((found.v, expected.v), (found.effort, expected.effort)):
        np.testing.assert_array_equal(array[:, :known], all_known[:, :known])
        assert np.isnan(array[:, known:]).all()


def test_a_position_of_nan_is_named(tmp_path, arm):
    messages = [
        each._replace(message=each.message._replace(position=[*each.message.position[:6], np.nan]))
        for each in motion(arm.joint_names, 20)
    ]
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), arm)
    last = arm.joint_names[-1]
    nan, incomplete = found.warnings
    assert nan.startswith("20 messages in which a position is NaN") and f"{last} = nan" in nan
    assert incomplete.startswith(f"no complete state: the position of {last} is unknown")


def test_no_complete_state_is_a_warning(tmp_path, arm):
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names[:5], 10))
    found = read(path, arm)
    assert len(found) == 0
    (text,) = found.warnings
    assert text.startswith(f"no complete state: the position of {arm.joint_names[5]}, ")


def test_an_empty_recording_has_no_states(tmp_path, arm):
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names, 3))
    found = read(path, arm, since="+10")
    assert len(found) == 0 and repr(found) == "Recording('a', 0 states, 0 s, nq=7, nv=7)"
    assert found.q.shape == (0, 7)


def test_tables(tmp_path, arm):
    pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names, 30))
    found = read(path, arm)
    table, frame = found.to_arrow(), found.to_pandas()
    assert table.column_names == list(frame.columns) == list(found.columns())
    assert table.column_names[:2] == ["time", "stamp"]
    elbow = arm.joint_names[3]
    np.testing.assert_array_equal(frame[f"effort.{elbow}"], found.effort[:, 3])
    np.testing.assert_array_equal(table["stamp"].to_numpy(), found.stamp)
    some = found.take(slice(10, 20))
    assert len(some) == 10 and some.q.base is not None
    assert len(found.take(found.time > found.time[10])) == 19


def test_samples_are_those_of_the_arrays(tmp_path, arm):
    messages = list(motion(arm.joint_names, 3000))
    messages[100] = messages[100]._replace(message=messages[100].message._replace(effort=[]))
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), arm)
    assert np.isnan(found.effort[100]).all()
    samples = found.to_samples(cutoff=10.0)
    rows = np.delete(np.arange(3000), 100)
    expected = dyn_ros.Samples.from_arrays(
        arm, 1e-9 * (found.stamp[rows] - START), found.q[rows], found.effort[rows], cutoff=10.0
    )
    for name in ("q", "v", "a", "tau"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))
    assert "dropped 1 states without the efforts of all joints" in samples.warnings
    with pytest.raises(ValueError, match="recording: expected the positions"):
        read(tmp_path / "a.mcap", arm, joints=arm.joint_names[:2]).to_samples()


def test_progress_ends_at_the_whole(tmp_path, arm):
    path = recorded.write_mcap(
        tmp_path / "a.mcap", motion(arm.joint_names, 1000), chunk_size=20_000
    )
    calls = []
    read(path, arm, progress=lambda *of: calls.append(of))
    assert len(calls) > 5 and calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


# --- parts


def read_in_parts(path, options, size):
    """Return pickled parts of a recording, and each one read with and without overlap."""
    planned = pickle.loads(pickle.dumps(divide_part(select_part(open_source(path), options), size)))
    parts = [read_part(part) for part in planned]
    return planned, parts, [each.thinned(None) for each in parts]


def read_at_once(path, options):
    """Return a recording read as one part."""
    return read_part(divide_part(select_part(open_source(path), options), np.inf)[0])


def assert_parts_equal_whole(path, robot, size, expected_parts, **options):
    request = ReadOptions(robot, **options)
    whole = read(path, robot, **options)
    planned_parts, parts, recordings = read_in_parts(path, request, size)
    assert len(planned_parts) >= expected_parts
    for name in ("stamp", "q", "v", "effort"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(part, name) for part in recordings]), getattr(whole, name)
        )
    rejected_counts = {}
    for part in parts:
        for reason, note in part.rejected.items():
            rejected_counts[reason] = rejected_counts.get(reason, 0) + note.messages
    single_part = read_at_once(path, request)
    assert rejected_counts == {
        reason: note.messages for reason, note in single_part.rejected.items()
    }
    assert sum(part.messages for part in parts) == single_part.messages
    return planned_parts, parts


def test_parts_are_the_whole(tmp_path, arm):
    messages = list(motion(arm.joint_names, 6000))
    rng = np.random.default_rng(0)
    for k in rng.integers(6000, size=200):
        message = messages[k].message
        change = [
            dict(stamp=message.stamp - 3 * MS),
            dict(velocity=[]),
            dict(effort=[]),
            dict(position=[np.nan] * 7),
        ][k % 4]
        messages[k] = messages[k]._replace(message=message._replace(**change))
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_000)
    planned_parts, parts = assert_parts_equal_whole(path, arm, 100_000, 15)
    assert all(part.leading_count > 900 for part in parts[6:])
    assert [part.number for part in planned_parts] == list(range(len(planned_parts)))
    assert all(
        previous.stop == following.start
        for previous, following in itertools.pairwise(planned_parts)
    )


@pytest.mark.parametrize("late", [100_000, 400_000, 700_000])
def test_parts_of_two_publishers_have_the_latest_values(tmp_path, arm, late):
    """Which message completes a state depends on those before; its values do not."""
    messages = merge_by_log_time(
        motion(arm.joint_names[3:], 4000, late=300_000),
        motion(arm.joint_names[:3], 4000, late=late),
        motion(arm.joint_names[1:4], 1333, period=3 * MS, late=500_000),
    )
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_007)
    wanted = ReadOptions(arm)
    assert_same_states(read(path, arm), node_states(arm, messages))
    whole, (planned, parts, _) = read_at_once(path, wanted), read_in_parts(path, wanted, 90_000)
    assert len(planned) >= 10
    assert sum(part.messages for part in parts) == whole.messages
    times = np.concatenate([part.states_in_interval.log_time for part in parts])
    q = np.concatenate([part.states_in_interval.q for part in parts])
    assert (np.diff(times) >= 0).all() and abs(
        len(times) - len(whole.states_in_interval.stamp)
    ) <= len(planned)
    for k, name in enumerate(arm.joint_names):
        sent = [each for each in messages if name in each.message.names]
        values = np.array([each.message.position[each.message.names.index(name)] for each in sent])
        latest = np.searchsorted([each.log_time for each in sent], times, side="right") - 1
        np.testing.assert_array_equal(q[:, k], values[latest])


def test_a_seldom_publisher_does_not_matter(tmp_path, arm):
    """Rounds do not remember it, as the other publisher reports every joint."""
    messages = merge_by_log_time(
        motion(arm.joint_names, 6000, late=300_000),
        motion(arm.joint_names[:3], 60, period=97 * MS, late=600_000),
    )
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_007)
    assert_parts_equal_whole(path, arm, 200_000, 5)


def test_parts_with_odometry_are_the_whole(tmp_path):
    model = dyn_ros.Model.from_urdf_file(ARM7, root_joint="floating")
    root = next(frame.name for frame in model.tree.frames if frame.kind == "body")
    base = [
        Sent(
            "/odom",
            START + 3 * k * MS + 7,
            Odometry(POSE, [0.001 * k] * 6, START + 3 * k * MS, child=root),
        )
        for k in range(1000)
    ]
    messages = merge_by_log_time(base, motion(model.joint_names[1:], 3000))
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_007)
    assert_parts_equal_whole(path, model, 90_000, 8)


def test_an_interval_is_a_part_of_the_whole(tmp_path, arm):
    """Except for which of two publishers completes a state."""
    messages = merge_by_log_time(
        motion(arm.joint_names[3:], 4000, late=300_000),
        motion(arm.joint_names[:3], 4000, late=600_000),
    )
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_007)
    whole = read(path, arm)
    for since in ("+2.0001", "+2.0004", "+2.0007"):
        found = read(path, arm, since=since, until="+3")
        first = np.searchsorted(whole.stamp, found.stamp[0])
        assert abs(len(found) - 1000) <= 1
        np.testing.assert_allclose(found.q, whole.q[first : first + len(found)], atol=1.01e-3)


def test_states_after_a_part(tmp_path, arm):
    path = recorded.write_mcap(
        tmp_path / "a.mcap", motion(arm.joint_names, 6000), chunk_size=30_000
    )
    whole = read(path, arm)
    part = divide_part(select_part(open_source(path), ReadOptions(arm)), 300_000, (0.2, 0.1))[2]
    found = read_part(part)
    assert found.trailing_count == 100 and found.leading_count == 1000 * WARM_UP
    first = int(np.searchsorted(whole.stamp, found.states_in_interval.stamp[0]))
    np.testing.assert_array_equal(
        found.states.stamp,
        whole.stamp[first - 1000 : first + len(found.states_in_interval.stamp) + 100],
    )
    everything = dataclasses.replace(found, leading_count=0, trailing_count=0)
    assert len(everything) == len(everything.q) == len(found.states.stamp)


def test_thinned_parts_are_the_thinned_whole(tmp_path, arm):
    path = recorded.write_mcap(
        tmp_path / "a.mcap", motion(arm.joint_names, 6000), chunk_size=30_000
    )
    whole = read(path, arm, rate=30.0)
    parts = [
        read_part(part).thinned(30.0)
        for part in divide_part(select_part(open_source(path), ReadOptions(arm)), 100_000)
    ]
    np.testing.assert_array_equal(np.concatenate([each.stamp for each in parts]), whole.stamp)
    assert len(whole) == pytest.approx(180, abs=2)


class Spans:
    """A source of spans alone."""

    def __init__(self, *spans):
        self.path, self.name, self.spans = Path("a.mcap"), "a", tuple(spans)


def plan_spans(spans, staleness=0.5, until=None, **options):
    part = dataclasses.replace(whole_part(Spans(*spans), until=until), staleness=staleness)
    return divide_part(part, **options)


def test_a_plan_cuts_at_the_starts_of_spans():
    spans = [Span(k * SECOND, (k + 1) * SECOND, 10, (k,)) for k in range(10)]
    parts = plan_spans(spans, size=30, overlap=(1.5, 0.25))
    assert [part.start for part in parts] == [0, 3 * SECOND, 6 * SECOND, 9 * SECOND]
    assert [part.stop for part in parts] == [3 * SECOND, 6 * SECOND, 9 * SECOND, 10 * SECOND + 1]
    assert [part.size for part in parts] == [30, 30, 30, 10]
    assert [span.place[0] for span in parts[1].spans] == [1, 2, 3, 4, 5, 6]
    assert parts[1].read_start == 1.5 * SECOND and parts[1].read_stop == 6.25 * SECOND
    assert plan_spans(spans, size=30)[2].read_start == 5 * SECOND  # the warm-up
    assert plan_spans(spans, 2.0, size=30)[2].read_start == 2 * SECOND  # twice the staleness
    assert plan_spans([]) == []
    assert [part.size for part in plan_spans(spans, until="+4.5", size=30)] == [30, 20]
    simultaneous_spans = [Span(0, SECOND, 10, (k,)) for k in range(5)]
    assert len(plan_spans(simultaneous_spans, size=10)) == 1


def make_messages(parts, span):
    times = np.array(parts[span.place[0]], np.int64)
    count = len(times)
    return Messages(
        np.zeros(count, np.int32),
        np.zeros(count, np.int32),
        times,
        times,
        np.tile(np.array([1, 0, 0], np.int32), (count, 1)),
        np.arange(count),
        times.astype(float),
    )


def test_messages_of_overlapping_spans_are_in_order():
    rng = np.random.default_rng(0)
    for _ in range(100):
        parts = [np.sort(rng.integers(0, 60, size=rng.integers(1, 30)) + 20 * k) for k in range(6)]
        parts.sort(key=lambda times: times[0])
        spans = [Span(int(times[0]), int(times[-1]), 1, (k,)) for k, times in enumerate(parts)]
        blocks = list(read_in_log_time_order(spans, functools.partial(make_messages, parts)))
        found = np.concatenate([block.log_time for block in blocks])
        np.testing.assert_array_equal(found, np.sort(np.concatenate(parts)))
        numbers = np.concatenate([block.numbers[block.start] for block in blocks])
        np.testing.assert_array_equal(numbers, found)
        assert max(len(block.numbers) for block in blocks) <= sum(map(len, parts))


@pytest.mark.parametrize("rate, kept", [(1e9, 100), (250.0, 25), (1.0, 1)])
def test_thinned(rate, kept):
    stamps = 5 * SECOND + np.arange(100) * MS
    assert rate_mask(stamps, rate).sum() == kept
    assert rate_mask(stamps, None).all()


# --- what is damaged, empty or in tables


def test_a_cut_recording_has_the_states_before_the_cut(tmp_path, arm):
    messages = list(motion(arm.joint_names, 2000))
    path = recorded.write_mcap(tmp_path / "a.mcap", messages, chunk_size=30_000)
    whole, content = read(path, arm), path.read_bytes()
    rng = np.random.default_rng(0)
    for size in rng.integers(len(content) // 10, int(0.9 * len(content)), size=10):
        cut = tmp_path / "cut.mcap"
        cut.write_bytes(content[:size])
        found = read(cut, arm)
        assert 0 < len(found) < 2000
        np.testing.assert_array_equal(found.q, whole.q[: len(found)])
        assert any("can be read" in text for text in found.warnings)


def test_wrong_times_of_chunks_are_reported(tmp_path, arm):
    path = recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names, 100))
    source = open_source(path)
    (part,) = divide_part(select_part(source, ReadOptions(arm)))
    (span,) = part.spans
    wrong = dataclasses.replace(part, spans=(span._replace(stop=span.stop - 10 * MS),))
    found = read_part(wrong)
    assert found.problems == (
        "messages outside the times that the file states for their "
        "chunk, which may be lost (10 times)",
    )


def test_a_robot_without_joints(tmp_path):
    model = dyn_ros.Model.from_urdf('<robot name="r"><link name="a"/></robot>')
    found = read(recorded.write_mcap(tmp_path / "a.mcap", motion(["x"], 5)), model)
    assert len(found) == 0 and found.q.shape == (0, 0)


def test_a_base_alone(tmp_path):
    model = dyn_ros.Model.from_urdf('<robot name="r"><link name="a"/></robot>', "floating")
    messages = merge_by_log_time(
        motion(["x"], 5),
        [
            Sent("/odom", START + k * MS, Odometry(POSE, [0.1] * 6, START + k * MS, child="a"))
            for k in range(9)
        ],
    )
    found = read(recorded.write_mcap(tmp_path / "a.mcap", messages), model)
    assert len(found) == 9 and found.position_names == model.position_names


def test_columns_are_a_table_that_can_be_read(tmp_path, arm):
    pandas = pytest.importorskip("pandas")
    whole = read(recorded.write_mcap(tmp_path / "a.mcap", motion(arm.joint_names, 500)), arm)
    frame = pandas.DataFrame(whole.columns())
    frame.to_csv(tmp_path / "table.csv", index=False)
    found = read(tmp_path / "table.csv", arm)
    assert len(found) == 500
    np.testing.assert_array_equal(found.q, whole.q)
    np.testing.assert_array_equal(found.effort, whole.effort)
    np.testing.assert_allclose(found.stamp, whole.stamp, atol=300, rtol=0)


@pytest.mark.filterwarnings("ignore:overflow encountered in dot")
@pytest.mark.parametrize(
    "write, name",
    [(recorded.write_mcap, "a.mcap"), (recorded.write_db3, "a"), (recorded.write_bag1, "a.bag")],
)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_streams_in_files(tmp_path, arm, write, name, seed):
    """Late, repeated and jumping stamps, other lengths, names of other robots, NaN."""
    rng = np.random.default_rng(seed)
    events = stream(rng, arm.joint_names, 600, False)
    path = write(
        tmp_path / name,
        [Sent("/joint_states", START + k, JointState(*event)) for k, event in enumerate(events)],
    )
    expected, rejected, notices = one_by_one(arm, events)
    found = read_at_once(path, ReadOptions(arm))
    np.testing.assert_array_equal(found.states.log_time - START, expected.log_time)
    for one, other in zip(found.states[1:], expected[1:]):
        np.testing.assert_array_equal(one, other)
    assert len(found.states.stamp) > 50
    assert sum(note.messages for note in found.rejected.values()) == len(rejected)
    assert (found.resets.messages if found.resets else 0) == len(notices)
