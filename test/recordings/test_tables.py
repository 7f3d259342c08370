# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables as other tools write them: rows that lack something, and times of all kinds."""

import numpy as np
import pytest

import dyn_ros
from dyn_ros.recordings.reading import read, read_table

pandas = pytest.importorskip("pandas")
pyarrow = pytest.importorskip("pyarrow")

COUNT, EPOCH = 600, 1764300000
JOINTS = dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf").joint_names


@pytest.fixture(scope="module")
def arm():
    return dyn_ros.Model.from_urdf_file("dyn_ros/robots/arm7.urdf")


@pytest.fixture
def table():
    time = 0.005 * np.arange(COUNT)
    waves = np.sin(time[:, None] * np.arange(1.0, 8.0)).round(6)
    signals = ("position", "velocity", "effort")
    return pandas.DataFrame(
        {"time": time}
        | {f"{signal}.{name}": waves[:, k] for signal in signals for k, name in enumerate(JOINTS)}
    )


def write(table, path):
    """Write a table to a file, by its suffix; return the path."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path)
    return path


def with_time(table, time):
    return table.assign(time=time)


def seconds(table):
    return table.time.to_numpy()


# --- rows that lack something


def merged(table):
    """Another topic with stamps of its own, as PlotJuggler merges it: half of the rows."""
    other = pandas.DataFrame({"time": table.time + 0.002, "/imu/x": 0.1})
    return pandas.concat([table, other]).sort_values("time")


def blank(rows, *columns):
    def change(table):
        table.loc[table.index[rows], list(columns)] = np.nan
        return table

    return change


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ""])
@pytest.mark.parametrize(
    "change, kept, warning",
    [
        (
            merged,
            np.arange(COUNT),
            "left out 600 of 1200 rows that are blank in the column 'position.shoulder_yaw' and 13 "
            "more columns: the first is 1, counted from 0",
        ),
        (
            blank(slice(100, 131), "effort.elbow_pitch"),
            np.r_[0:100, 131:COUNT],
            "left out 31 of 600 rows that are blank in the column 'effort.elbow_pitch': 100 to "
            "130, counted from 0",
        ),
        (
            blank([7, 9], "time", "position.wrist_roll"),
            np.setdiff1d(np.arange(COUNT), [7, 9]),
            "left out 2 of 600 rows that are blank in the column 'position.wrist_roll' and 1 more "
            "columns: the first is 7, counted from 0",
        ),
        (blank(slice(3, 9), "velocity.elbow_pitch"), np.arange(COUNT), None),
    ],
)
def test_rows_that_lack_a_number_are_left_out(arm, table, tmp_path, suffix, change, kept, warning):
    expected = read_table(arm, table.copy())
    changed = change(table)
    source = write(changed, tmp_path / f"a{suffix}") if suffix else changed
    found = read_table(arm, source)
    np.testing.assert_array_equal(found.q, expected.q[kept])
    np.testing.assert_array_equal(found.effort, expected.effort[kept])
    assert found.warnings == (() if warning is None else (warning,))


def test_states_of_rows_that_lack_something(arm, table, tmp_path):
    path = write(merged(table), tmp_path / "merged.csv")
    found = read(path, arm)
    assert len(found) == COUNT and found.warnings == (
        "left out 600 rows that are blank in the column 'position.shoulder_yaw' and 6 more columns",
    )
    blank([4, 5], *table.columns)(table)
    blank([300], "position.elbow_pitch")(table)  # not held: the row has no state
    blank([50], "effort.elbow_pitch")(table)
    found = read(write(table, tmp_path / "a.csv"), arm)
    assert len(found) == COUNT - 3 and found.warnings[0] == (
        "left out 2 rows that are blank in the column 'time'"
    )
    assert not np.isclose(found.time, 1.5).any()
    k = JOINTS.index("elbow_pitch")
    assert np.isnan(found.effort).sum() == 1 and np.isnan(found.effort[48, k])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ""])
def test_a_blank_column_counts_as_absent(arm, table, tmp_path, suffix):
    table["effort.wrist_roll"] = np.nan
    source = write(table, tmp_path / f"a{suffix}") if suffix else table
    with pytest.raises(ValueError, match=r"'effort.wrist_roll' \(its column is blank\)"):
        read_table(arm, source)


def test_columns_that_begin_late_are_not_blank(arm, table, tmp_path):
    frame = pandas.concat([table] * 60, ignore_index=True)
    frame["time"] = 0.005 * np.arange(len(frame))
    blank(slice(0, 500), "effort.elbow_pitch")(frame)
    blank(slice(0, 34000), "effort.wrist_roll")(frame)
    frame["velocity.wrist_roll"] = np.nan
    path = write(frame, tmp_path / "a.csv")
    found = read_table(arm, path)
    np.testing.assert_allclose(found.time, frame.time[34000:], rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"lacks 1 columns .*'velocity.wrist_roll' \(its column"):
        read_table(arm, path, velocity=True)


def test_no_row_is_complete(arm, table):
    blank(slice(0, None, 2), "effort.elbow_pitch")(table)
    blank(slice(1, None, 2), "position.elbow_pitch")(table)
    with pytest.raises(ValueError, match="no row with numbers in all columns.*interpolate"):
        read_table(arm, table)


def test_cells_without_a_number(arm, table, tmp_path):
    path = write(table, tmp_path / "a.csv")
    lines = path.read_text().splitlines()
    for row, cell in ((10, ""), (12, "NULL"), (14, '""'), (16, " "), (18, "None")):
        cells = lines[row + 1].split(",")
        cells[row], cells[row + 1] = cell, ""
        lines[row + 1] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")
    found = read_table(arm, path, velocity=True)
    kept = np.setdiff1d(np.arange(COUNT), [10, 12, 14, 16, 18])
    np.testing.assert_array_equal(found.time, seconds(table)[kept])
    assert read(path, arm).warnings == ()


# --- times


def split(table):
    nanoseconds = np.round(1e9 * seconds(table)).astype(np.int64)
    return table.drop(columns="time").assign(
        sec=EPOCH + nanoseconds // 10**9, nanosec=nanoseconds % 10**9
    )


def epoch(unit):
    return lambda table: with_time(
        table, np.round((EPOCH + seconds(table)) * unit).astype(np.int64)
    )


def dates(table):
    return with_time(
        table,
        pandas.to_datetime(np.round(1e6 * (EPOCH + seconds(table))).astype(np.int64), unit="us"),
    )


def durations(table):
    return with_time(table, pandas.to_timedelta(np.round(1e6 * seconds(table)), unit="us"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ""])
@pytest.mark.parametrize(
    "change, start, unit",
    [
        (epoch(1e3), EPOCH, "ms"),
        (epoch(1e6), EPOCH, "us"),
        (epoch(1e9), EPOCH, "ns"),
        (split, EPOCH, ""),
        (dates, EPOCH, ""),
        (lambda table: with_time(table, dates(table).time.dt.tz_localize("UTC")), EPOCH, ""),
        (
            lambda table: with_time(table, dates(table).time.astype(str) + "+01:00"),
            EPOCH - 3600,
            "",
        ),
        (durations, 0, ""),
        (lambda table: dates(table).rename(columns={"time": "when"}), EPOCH, ""),
        (lambda table: table.assign(time_ms=1e3 * table.time).drop(columns="time"), 0, ""),
    ],
)
def test_times_of_every_kind(arm, table, tmp_path, suffix, change, start, unit):
    expected = start + seconds(table)
    changed = change(table)
    source = write(changed, tmp_path / f"a{suffix}") if suffix else changed
    recordings = [read_table(arm, source)]
    if suffix:
        recordings.append(read(source, arm))
    for found in recordings:
        np.testing.assert_allclose(found.time, expected, rtol=0, atol=3e-7)
        words = f"which are read as {unit} since 1970: 2025-11-28"
        assert [words in text for text in found.warnings] == ([True] if unit else [])


def test_an_index_of_dates(arm, table):
    found = read_table(arm, dates(table).set_index("time"))
    np.testing.assert_allclose(found.time, EPOCH + seconds(table), rtol=0, atol=3e-7)
    found = read_table(arm, pyarrow.Table.from_pandas(dates(table)))
    np.testing.assert_allclose(found.time, EPOCH + seconds(table), rtol=0, atol=3e-7)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize(
    "change, words",
    [
        (lambda time: 1e3 * time, "got 0, 5, 10, 5 s apart.*'time_ms'"),
        (lambda time: 1e6 * time, "got 0, 5000, 10000, 5000 s apart.*'time_ms'"),
        (lambda time: 0.0 * time, "got 0 s in all 600 rows of the column 'time'"),
        (lambda time: (EPOCH + time).astype(np.float32), "got 17643000.. s in all 600 rows"),
        (lambda time: time.round(1), "569 of 600 rows that repeat a stamp.*write more digits"),
    ],
)
def test_stamps_that_cannot_be_read_are_named(arm, table, tmp_path, suffix, change, words):
    path = write(with_time(table, change(seconds(table))), tmp_path / f"a{suffix}")
    for reader in (lambda: read_table(arm, path), lambda: read(path, arm)):
        with pytest.raises(ValueError, match=words):
            reader()


# --- exports of other tools


def rows_of_messages(table, names, stamp):
    for row in table.to_numpy():
        yield ",".join([*stamp(row[0]), "base", *names, *map(repr, row[1:].tolist())])


def test_messages_that_ros_printed(arm, table, tmp_path):
    expected = EPOCH + seconds(table)
    echo, rostopic = tmp_path / "echo.csv", tmp_path / "rostopic.csv"
    lines = rows_of_messages(
        table, JOINTS, lambda t: (str(EPOCH + int(t)), str(round(1e9 * (t % 1.0))))
    )
    echo.write_text("\n".join(lines) + "\n")
    signals = [
        f"field.{s}{k}" for s in ("name", "position", "velocity", "effort") for k in range(7)
    ]
    names = ["%time", "field.header.stamp", "field.header.frame_id", *signals]
    lines = rows_of_messages(table, JOINTS, lambda t: ("0", str(EPOCH * 10**9 + round(1e9 * t))))
    rostopic.write_text("\n".join([",".join(names), *lines]) + "\n")
    for path in (echo, rostopic):
        for found in (read_table(arm, path), read(path, arm)):
            np.testing.assert_allclose(found.time, expected, rtol=0, atol=3e-7)
            np.testing.assert_array_equal(found.q, table.filter(like="position"))
            np.testing.assert_array_equal(found.effort, table.filter(like="effort"))
        path.write_text(path.read_text().replace("elbow_pitch,forearm_roll", "a,b", 2))
        path.write_text(path.read_text().replace("a,b", "elbow_pitch,forearm_roll", 1))
        with pytest.raises(ValueError, match="expected the joints .* got others in row 1 of data"):
            read_table(arm, path)


def lists(table, signal):
    return list(table.filter(like=signal).to_numpy())


def test_columns_of_lists(arm, table, tmp_path):
    path = write(
        pandas.DataFrame(
            {
                "time": table.time,
                "name": [list(JOINTS)] * COUNT,
                "position": lists(table, "position"),
                "effort": lists(table, "effort"),
            }
        ),
        tmp_path / "a.parquet",
    )
    for found in (read_table(arm, path), read(path, arm)):
        np.testing.assert_array_equal(found.q, table.filter(like="position"))
        np.testing.assert_array_equal(found.effort, table.filter(like="effort"))
    frame = pandas.DataFrame(
        {
            "timestamp": table.time,
            "observation.state": lists(table, "position"),
            "observation.effort": lists(table, "effort"),
        }
    )
    path = write(frame, tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"columns=, such as position=observation.state.\{\}"):
        read_table(arm, path)
    columns = {"position": "observation.state.{}", "effort": "observation.effort.{}"}
    found = read_table(arm, path, columns=columns)
    np.testing.assert_array_equal(found.q, table.filter(like="position"))


def test_spaces_between_columns(arm, table, tmp_path):
    path = tmp_path / "a.csv"
    table.to_csv(path, index=False, sep=" ")
    for reader in (lambda: read_table(arm, path), lambda: read(path, arm)):
        with pytest.raises(ValueError, match="got spaces in the first line; convert .* sed"):
            reader()


# --- names of several levels


def test_columns_with_levels_of_pandas(arm, table, tmp_path):
    expected = read_table(arm, table)
    levels = [tuple(name.split(".")) if "." in name else (name, "") for name in table.columns]
    with_levels = table.set_axis(pandas.MultiIndex.from_tuples(levels), axis=1)
    path = write(with_levels, tmp_path / "levels.parquet")
    with_dates = with_levels.assign(time=pandas.to_datetime(1e9 * (EPOCH + table.time)))
    for source in (with_levels, path, write(with_dates, tmp_path / "dates.parquet")):
        found = read_table(arm, source)
        assert np.array_equal(found.q, expected.q) and np.array_equal(found.effort, expected.effort)
    assert np.array_equal(read(path, arm).v, table.filter(like="velocity").to_numpy())


def test_a_message_with_long_names_of_columns_is_short(tmp_path, table):
    renamed = table.set_axis([f"{k}{400 * 'a'}" for k in range(table.shape[1])], axis=1)
    with pytest.raises(ValueError, match=r"expected a column 'time' .* and 12 more;") as error:
        read(write(renamed, tmp_path / "table.csv"))
    assert len(str(error.value)) < 3000
