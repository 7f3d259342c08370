# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings with the faults of real ones: stamps, repeats, gaps, held efforts; and the cutoff."""

import dataclasses
import functools

import numpy as np
import pytest
from identification import faults
from identification.recordings import measure, offsets, perturbed, waves
from identification.robots import load

import dyn_ros
from dyn_ros import Samples
from dyn_ros.identification.motion import numerics, stamps

FREQUENCIES = [0.1, 0.23, 0.4, 0.7]


@functools.cache
def arm():
    return perturbed(load("ur10"), seed=1)


def recorded(time, motion=None, **arguments):
    """The arm at some times, with the noise of encoders and torques."""
    motion = motion or waves(np.zeros(6), 1.2, FREQUENCIES)
    q, v, a = motion(time)
    tau = dyn_ros.rnea(arm(), dyn_ros.Data(arm()), q, v, a)
    return measure(
        arm(),
        time,
        q,
        v,
        a,
        tau,
        **dict(counts=2**19, noise=0.02, offset=offsets(arm()), seed=0) | arguments,
    )


def regular(rate, seconds=20.0):
    return np.arange(round(seconds * rate)) / rate


def error_of_accelerations(samples, recording):
    """RMS, relative to accelerations; rows are found by their torques, whose noise differs."""
    order = np.argsort(recording.tau[:, 0])
    rows = order[np.searchsorted(recording.tau[order, 0], samples.tau[:, 0])]
    assert np.array_equal(recording.tau[rows], samples.tau)
    error = samples.a - recording.exact_a[rows]
    return float(np.sqrt(np.mean(error**2) / np.mean(recording.exact_a**2)))


# --- stamps


@pytest.mark.parametrize("rate, size", [(1000.0, 3e-4), (100.0, 1e-3)])
@pytest.mark.parametrize("cutoff", [5.0, 15.0])
def test_jitter_of_equally_spaced_samples(rate, size, cutoff):
    recording = recorded(regular(rate))
    samples = faults.jittered(recording, size).samples(cutoff=cutoff)
    (warning,) = samples.warnings
    assert "time stamps jitter by" in warning and "they are corrected" in warning
    assert 0.7 * size < 1e-3 * float(warning.split()[4]) < 1.3 * size
    ideal = error_of_accelerations(recording.samples(cutoff=cutoff), recording)
    assert error_of_accelerations(samples, recording) < 1.1 * ideal + 1e-4


def test_jitter_and_repeated_rows():
    recording = recorded(regular(1000.0))
    samples = faults.jittered(faults.with_repeats(recording), 3e-4).samples(cutoff=10.0)
    assert "repeat all numbers of the sample before" in samples.warnings[0]
    assert "time stamps jitter by" in samples.warnings[1]
    assert error_of_accelerations(samples, recording) < 2e-3


@pytest.mark.parametrize("rate, size", [(1000.0, 4e-4), (100.0, 2e-3)])
def test_jitter_of_samples_that_are_not_equally_spaced(monkeypatch, rate, size):
    """The positions of all joints show by how much a row is late."""
    rng = np.random.default_rng(0)
    time = regular(rate) + rng.uniform(-0.3, 0.3, round(20.0 * rate)) / rate
    recording = recorded(time[rng.random(len(time)) > 0.1])
    faulty = faults.jittered(recording, size)
    samples = faulty.samples(cutoff=5.0)
    (warning,) = [text for text in samples.warnings if "time stamps jitter by" in text]
    assert 0.6 * size < 1e-3 * float(warning.split()[4]) < 1.4 * size
    monkeypatch.setattr(stamps, "correct_stamps", lambda *arguments: None)
    uncorrected = faulty.samples(cutoff=5.0)
    errors = [error_of_accelerations(prepared, recording) for prepared in (samples, uncorrected)]
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("rate", [100.0, 500.0])
def test_samples_that_are_not_equally_spaced_stay(rate):
    """Also if all joints move together, and stop at once: no shift explains their deviations."""
    rng = np.random.default_rng(0)
    time = regular(rate) + rng.uniform(-0.3, 0.3, round(20.0 * rate)) / rate

    def together(t):
        path = waves([0.0], 1.2, FREQUENCIES)
        return tuple(rates * np.linspace(0.5, 1.0, 6) for rates in path(t))

    for motion in (None, faults.stopping(together, 12.0)):
        samples = recorded(time, motion).samples(cutoff=8.0)
        assert not [text for text in samples.warnings if "jitter" in text]
        assert np.isin(samples.time, time).all()


@pytest.mark.parametrize("factor", [1e154, -1e200])
def test_absurd_stamps_make_no_long_messages(tmp_path, factor):
    recording = recorded(regular(100.0, 5.0))
    stamps = np.repeat(recording.time[::2], 2) * factor
    path = tmp_path / "absurd.csv"
    dyn_ros.recordings.tables.columns.write_columns(path, recording.table() | {"time": stamps})
    with pytest.raises(ValueError, match="time: expected stamps") as error:
        Samples.from_table(arm(), path)
    assert len(str(error.value)) < 200
    broken = recording.tau.copy()
    broken[7, 2] = np.inf
    with pytest.raises(ValueError, match="tau: expected finite") as error:
        Samples.from_arrays(arm(), stamps, recording.q, broken)
    assert len(str(error.value)) < 200


@pytest.mark.parametrize("name", ["q", "tau"])
def test_numbers_that_no_robot_measures_are_located(name):
    recording = recorded(regular(100.0, 5.0))
    getattr(recording, name)[203, 1] = -1.6e184
    with pytest.raises(
        ValueError,
        match=rf"{name}: expected finite numbers below 1e\+12, got "
        rf"-1.6e\+184 in {name}\[203, 1\].*at time 2.030000 s",
    ):
        recording.samples()


def test_corrupt_rows_at_the_ends_are_left_out():
    """Files may begin with what was in the memory of the recorder, and end within a row."""
    recording = recorded(regular(100.0, 5.0))
    expected = faults.rows_of(recording, np.arange(9, 490)).samples(cutoff=8.0)
    recording.q[1:9] = 253.0
    recording.time[3], recording.tau[8, 1], recording.time[490] = -1.6e184, -np.inf, np.inf
    samples = recording.samples(cutoff=8.0)
    for name in ("time", "q", "v", "tau"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))
    assert [text.partition(",")[0] for text in samples.warnings[:2]] == [
        "left out rows 0 to 8",
        "left out rows 490 to 499",
    ]


@pytest.mark.parametrize("rows", [[0, 1, 2, 7], [497, 499], [203], [5, 300]])
@pytest.mark.parametrize("name", ["q", "tau", "v", "time"])
def test_rows_with_unknown_numbers_are_left_out_wherever_they_are(name, rows):
    recording = recorded(regular(100.0, 5.0))
    arrays = {"time": recording.time, "q": recording.q, "tau": recording.tau}
    arrays["v"] = recording.exact_v.copy()
    remaining = {key: np.delete(array, rows, axis=0) for key, array in arrays.items()}
    arrays[name][(rows, 1) if name != "time" else rows] = np.nan
    samples = Samples.from_arrays(arm(), **arrays, cutoff=8.0)
    expected = Samples.from_arrays(arm(), **remaining, cutoff=8.0)
    for key in ("time", "q", "v", "a", "tau"):
        np.testing.assert_array_equal(getattr(samples, key), getattr(expected, key))
    column = "time" if name == "time" else f"{name}.{arm().velocity_names[1]}"
    warning = f"left out {len(rows)} of 500 rows that are blank in the column '{column}'"
    assert warning in samples.warnings[0]


def test_unknown_and_corrupt_rows_have_their_numbers():
    recording = recorded(regular(100.0, 5.0))
    recording.q[4] = 1e20
    recording.tau[10:12, 3] = np.nan
    warnings = recording.samples(cutoff=8.0).warnings
    assert warnings[0].startswith("left out rows 0 to 4, ")
    assert warnings[1].endswith(": 10 to 11, counted from 0")
    recording.tau[100, 2] = np.inf
    with pytest.raises(ValueError, match=r"got inf in tau\[100, 2\]"):
        recording.samples()


def test_a_signal_that_is_never_known_is_an_error():
    recording = recorded(regular(100.0, 5.0))
    recording.tau[:, 2] = np.nan
    with pytest.raises(ValueError, match=r"the recording has no row .* 'tau\..*' in 500"):
        recording.samples()


@pytest.mark.parametrize("rate", [500.0, 1000.0])
def test_stamps_in_milliseconds_are_reported(rate):
    recording = recorded(regular(rate))
    samples = dataclasses.replace(recording, time=1e3 * recording.time).samples()
    expected = f"the sampling period is {1e3 / rate:g} s; if time stamps are in ms"
    assert any(expected in text for text in samples.warnings)


# --- rows


@pytest.mark.parametrize(
    "signal, rows, jump",
    [("q", [1200], 0.05), ("q", [1200], 55.0), ("q", [1200, 1201], -1.0), ("tau", [1200], 5e4)],
)
def test_numbers_that_jump_and_jump_back_are_dropped(signal, rows, jump):
    recording = recorded(regular(125.0))
    expected = faults.rows_of(recording, np.delete(np.arange(2500), rows)).samples(cutoff=5.0)
    getattr(recording, signal)[rows, 1] += jump
    samples = recording.samples(cutoff=5.0)
    for name in ("time", "q", "v", "a", "tau"):
        np.testing.assert_array_equal(getattr(samples, name), getattr(expected, name))
    (warning,) = samples.warnings
    assert f"dropped {len(rows)} samples with a position or effort that jumps" in warning
    assert "shoulder_lift_joint: " in warning and "the first at 9.600000 s" in warning


def test_a_robot_that_mostly_rests_has_no_glitches():
    recording = recorded(regular(100.0, 10.0), noise=0.05)
    noise = np.random.default_rng(0).standard_normal((60000, 6))
    time = np.append(recording.time, 10.0 + regular(100.0, 600.0))
    q = np.append(recording.q, np.tile(recording.q[-1], (60000, 1)), axis=0)
    tau = np.append(
        recording.tau, recording.tau[-1] + 0.001 * recording.tau.std(axis=0) * noise, axis=0
    )
    warnings = Samples.from_arrays(arm(), time, q, tau, cutoff=8.0).warnings
    assert not [text for text in warnings if "jumps back" in text]


@pytest.mark.parametrize(
    "fault",
    [
        faults.jittered,
        faults.with_gaps,
        faults.with_repeats,
        faults.with_presliding,
        functools.partial(faults.with_coarse_efforts, step=1.0, held=4),
        functools.partial(faults.with_coarse_efforts, step=30.0),
    ],
)
@pytest.mark.parametrize(
    "rate, counts, noise", [(100.0, 2**12, 0.1), (1000.0, 2**19, 0.01), (1000.0, None, 0.0)]
)
def test_motions_and_torques_do_not_jump_and_jump_back(fault, rate, counts, noise):
    motion = faults.stopping(waves(np.zeros(6), 1.2, FREQUENCIES), 15.0, 0.02)
    recording = recorded(regular(rate), motion, counts=counts, noise=noise)
    assert not [text for text in fault(recording).samples().warnings if "jumps back" in text]


def test_rows_that_repeat_in_a_motion_are_dropped():
    recording = recorded(regular(1000.0))
    faulty = faults.with_repeats(recording, 0.05)
    count = int((np.diff(faulty.tau[:, 0]) == 0.0).sum())
    samples = faulty.samples()
    assert samples.warnings[0].startswith(f"dropped {count} samples that repeat all numbers of")
    assert (np.diff(samples.tau[:, 0]) != 0.0).all()
    assert error_of_accelerations(samples, recording) < 0.02


def test_a_robot_at_rest_repeats_itself():
    still = np.zeros((500, 6))
    samples = Samples.from_arrays(arm(), regular(100.0, 5.0), still + 0.3, still + 5.0)
    assert not [text for text in samples.warnings if "repeat" in text]


@pytest.mark.parametrize("held", [4, 10])
def test_held_efforts_are_used_once(held):
    recording = recorded(regular(500.0))
    samples = faults.with_coarse_efforts(recording, held=held).samples()
    (warning,) = samples.warnings
    assert warning.startswith(f"{100.0 - 100.0 / held:.0f} % of the samples repeat the efforts")
    assert np.allclose(np.diff(samples.time), held / 500.0)
    rows = np.searchsorted(recording.time, samples.time)
    assert np.array_equal(samples.tau, recording.tau[rows])
    assert error_of_accelerations(samples, recording) < 1e-3


def test_rounded_efforts_are_not_held():
    faulty = faults.with_coarse_efforts(recorded(regular(500.0)), step=1.0)
    assert faulty.samples().weight.min() == 1.0


# --- joints that are published less often


def published_less_often(recording, joints=(4, 5), period=10):
    """Return a recording in which joints repeat, with rows of their own, and their new rows."""
    rows = np.arange(len(recording.time))
    held, others = rows // period * period, np.where(rows % period == 0, rows - 1, rows)
    q, tau = recording.q[np.maximum(others, 0)], recording.tau[np.maximum(others, 0)]
    q[:, joints], tau[:, joints] = recording.q[held][:, joints], recording.tau[held][:, joints]
    return dataclasses.replace(recording, q=q, tau=tau), rows % period == 0


@pytest.mark.parametrize("rate, period", [(1000.0, 10), (200.0, 10), (200.0, 3)])
def test_joints_that_are_published_less_often_are_used_once(rate, period):
    recording, is_new = published_less_often(recorded(regular(rate)), period=period)
    samples = recording.samples(cutoff=4.0)
    rows = np.searchsorted(recording.time, samples.time)
    assert np.array_equal(samples.repeats[:, 4], ~is_new[rows])
    assert np.array_equal(samples.repeats[:, 0], is_new[rows])
    error = samples.v - recording.exact_v[rows]
    assert np.sqrt(np.mean(error**2) / np.mean(recording.exact_v**2)) < 5e-3
    (warning,) = (text for text in samples.warnings if "less often" in text)
    names = arm().velocity_names
    assert all(names[k] in warning for k in (4, 5)) and names[0] not in warning


@pytest.mark.parametrize("period", [3, 10, 28])
def test_joints_that_are_published_at_irregular_intervals_are_used_once(period):
    """Both ends of an interval deviate by up to 40 % of it, and fall on a row of the others."""
    recording = recorded(regular(200.0, 30.0))
    rows = np.arange(len(recording.time))
    ends = (np.arange(len(rows) // period) + 0.5) * period
    ends += period * np.random.default_rng(0).uniform(-0.4, 0.4, len(ends))
    new_rows = np.unique(np.append(0, ends.astype(int)))
    held = new_rows[np.searchsorted(new_rows, rows, side="right") - 1]
    q, tau = recording.q.copy(), recording.tau.copy()
    q[:, 4:], tau[:, 4:] = q[held, 4:], tau[held, 4:]
    samples = dataclasses.replace(recording, q=q, tau=tau).samples(cutoff=4.0)
    used_rows = np.searchsorted(recording.time, samples.time)
    assert np.array_equal(samples.repeats[:, 4], held[used_rows] != used_rows)
    assert not samples.repeats[:, :4].any()


def test_velocities_of_joints_that_are_published_less_often():
    recording, _ = published_less_often(recorded(regular(200.0)))
    v = recording.exact_v.copy()
    v[:, 4:] = v[np.arange(len(v)) // 10 * 10, 4:]
    samples = recording.samples(cutoff=4.0, v=v)
    rows = np.searchsorted(recording.time, samples.time)
    assert np.abs(samples.v - recording.exact_v[rows])[:, 4:].max() < 0.02


@pytest.mark.parametrize("counts", [2**10, 2**13])
def test_joints_with_rounded_positions_and_efforts_do_not_repeat(counts):
    recording = recorded(regular(500.0), counts=counts)
    tau = 0.5 * np.round(recording.tau / 0.5)
    assert dataclasses.replace(recording, tau=tau).samples(cutoff=4.0).repeats is None


def test_samples_with_and_without_repeated_torques_are_joined():
    recording = recorded(regular(200.0))
    often, rarely = recording.samples(), published_less_often(recording)[0].samples()
    joined = Samples.concatenate([often, rarely])
    assert not joined.repeats[: len(often)].any()
    assert np.array_equal(joined.repeats[len(often) :], rarely.repeats)
    assert Samples.concatenate([often, often]).repeats is None
    model, locked = dyn_ros.lock_joints(arm(), joined, {arm().joint_names[5]: None})
    assert locked.repeats.shape == locked.tau.shape == (len(joined), model.nv)


def test_noise_of_joints_that_are_published_less_often():
    recording = recorded(regular(200.0, 30.0))
    expected = dyn_ros.identify(arm(), recording.samples())
    result = dyn_ros.identify(arm(), published_less_often(recording)[0].samples())
    for joint, reference in zip(result.joints, expected.joints):
        assert joint.noise == pytest.approx(reference.noise, rel=0.2)
        assert joint.after < 1.2 * reference.after


def test_evenly_spaced_samples_keep_new_values():
    is_new = np.arange(30_000)[:, None] % [1, 10] == [0, 9]
    rows = np.arange(30_000)[numerics.evenly_spaced(30_000, 15_000, ~is_new)]
    assert is_new[rows].mean(axis=0) == pytest.approx([1.0, 0.1], rel=0.1)
    assert numerics.evenly_spaced(30_000, 15_000) == slice(None, None, 3)


def test_second_differences_of_columns_with_gaps():
    x = np.array([[0.0, 1.0], [1.0, np.nan], [4.0, 2.0], [9.0, np.nan], [16.0, 5.0]])
    differences = numerics.second_differences(x)
    assert differences[:, 0].tolist() == [2.0, 2.0, 2.0]
    assert differences[0, 1] == 2.0 and np.isnan(differences[1:, 1]).all()


# --- gaps


def test_gaps_that_are_short_for_the_filter_are_bridged():
    recording = recorded(regular(1000.0))
    faulty = faults.with_gaps(recording, count=20)
    slow, fast = faulty.samples(cutoff=4.0), faulty.samples(cutoff=20.0)
    assert slow.warnings == () and slow.segment.max() == 0
    assert "20 gaps, the largest of 0.009 s" in fast.warnings[0] and fast.segment.max() > 10
    assert len(slow) > 0.94 * len(recording.time)
    ideal = error_of_accelerations(recording.samples(cutoff=4.0), recording)
    assert error_of_accelerations(slow, recording) < 1.1 * ideal + 1e-4


# --- cutoff


def with_ripple(recording, size=2e-5, hertz=13.0):
    """Positions that an encoder measures with an error which is no motion, in a band."""
    rng = np.random.default_rng(3)
    phase = 2.0 * np.pi * hertz * recording.time[:, None] + rng.uniform(0.0, 6.0, 6)
    return dataclasses.replace(recording, q=recording.q + size * np.sin(phase))


def test_torques_choose_the_cutoff_if_spectra_do_not_know_what_is_motion():
    recording = recorded(regular(500.0, 40.0), noise=0.005)
    faulty = with_ripple(recording, 1e-4)
    samples = faulty.samples()
    assert "chosen by torque errors" in samples.filter
    assert 2.0 * FREQUENCIES[-1] < samples.cutoff < 10.0
    with_fixed_cutoff = faulty.samples(cutoff=20.0)
    assert error_of_accelerations(samples, recording) < 0.3 * error_of_accelerations(
        with_fixed_cutoff, recording
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_without_such_errors_spectra_choose(noise, seed):
    motion = waves(np.zeros(6), 1.2, FREQUENCIES, seed)
    samples = recorded(regular(250.0), motion, noise=noise, seed=seed).samples()
    assert "chosen from their spectra" in samples.filter


# --- intervals of tables


@pytest.mark.parametrize(
    "since, until, first, last",
    [
        ("+5", None, 5.0, 19.99),
        (None, "+5", 0.0, 4.99),
        ("+2.5", "+7", 2.5, 6.99),
        (1.7e9 + 4.0, 1.7e9 + 8.0, 4.0, 7.99),
        ("2023-11-14T22:13:24", None, 4.0, 19.99),
    ],
)
def test_an_interval_of_a_table(tmp_path, since, until, first, last):
    recording = recorded(
        1.7e9 + regular(100.0), lambda t: waves(np.zeros(6), 1.2, FREQUENCIES)(t - 1.7e9)
    )
    path = tmp_path / "table.csv"
    dyn_ros.recordings.tables.columns.write_columns(path, recording.table())
    samples = Samples.from_table(arm(), path, cutoff=5.0, since=since, until=until)
    settled = 0.4
    assert samples.time[0] - 1.7e9 == pytest.approx(first + settled, abs=0.011)
    assert samples.time[-1] - 1.7e9 == pytest.approx(last - settled, abs=0.011)


def test_an_interval_without_samples_is_an_error():
    table = recorded(regular(100.0, 5.0)).table()
    with pytest.raises(
        ValueError,
        match=r"no sample is in this interval, got '\+9999' to None; "
        r"the stamps are 0.000000 to 4.990000 s",
    ):
        Samples.from_table(arm(), table, since="+9999")
    with pytest.raises(ValueError, match="since, until: expected an interval"):
        Samples.from_table(arm(), table, since="+3", until="+2")


# --- jumps


def test_whole_turns_are_removed():
    recording = recorded(regular(200.0))
    expected = recording.samples(cutoff=5.0)
    q = recording.q.copy()
    q[1500:, 2] += 2.0 * np.pi
    q[2500:, [2, 5]] -= 2.0 * np.pi
    samples = dataclasses.replace(recording, q=q).samples(cutoff=5.0)
    assert np.allclose(samples.v, expected.v, atol=1e-9)
    assert np.allclose(samples.a, expected.a, atol=1e-6)
    (warning,) = set(samples.warnings) - set(expected.warnings)
    assert "jumps by whole turns at 7.500000 s" in warning and "by 6.28 rad" in warning


def test_joined_recordings_are_split():
    first = recorded(regular(200.0, 10.0))
    second = recorded(regular(200.0, 10.0), waves(np.full(6, 0.8), 1.2, FREQUENCIES))
    joined = dataclasses.replace(
        first,
        time=regular(200.0),
        q=np.concatenate([first.q, second.q]),
        tau=np.concatenate([first.tau, second.tau]),
    )
    samples = joined.samples(cutoff=5.0)
    expected = [recording.samples(cutoff=5.0) for recording in (first, second)]
    assert np.array_equal(samples.segment, np.repeat([0, 1], [len(part) for part in expected]))
    assert np.allclose(samples.a, np.concatenate([part.a for part in expected]), atol=1e-9)
    (warning,) = samples.warnings
    assert "jumps at 10.000000 s" in warning and "split" in warning


@pytest.mark.parametrize("count", [3, 20])
def test_rows_of_a_glitch_are_left_out(count):
    recording = recorded(regular(200.0))
    q = recording.q.copy()
    q[2000 : 2000 + count, 3] += 1.0
    samples = dataclasses.replace(recording, q=q).samples(cutoff=5.0)
    assert not np.isin(recording.time[2000 : 2000 + count], samples.time).any()
    assert error_of_accelerations(samples, recording) < 1e-2
    assert any("jumps and jumps back at 10.000000 s" in text for text in samples.warnings)


def test_jumps_with_given_velocities_and_accelerations():
    recording = recorded(regular(200.0))
    q = recording.exact_q.copy()
    q[1000:1020, 1] += 1.0
    q[2000:, 3] += 1.0
    samples = Samples.from_arrays(
        arm(), recording.time, q, recording.tau, recording.exact_v, recording.exact_a
    )
    assert len(samples) == len(q) - 20
    assert samples.segment[[0, -1]].tolist() == [0, samples.segment.max()]
    assert np.flatnonzero(np.diff(samples.segment)).tolist()[-1] == 2000 - 20 - 1
