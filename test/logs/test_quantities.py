# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Quantities of states compared with what the nodes publish for each of them."""

import dataclasses
import math
import pickle

import numpy as np
import pytest
from logs.states import ARM7, START, States, model_of, moving

import dyn_ros
from dyn_ros.logs.quantities import (
    QuantitySettings,
    compute_observer_results,
    compute_quantities,
    required_overlap,
    select_joints,
)
from dyn_ros.logs.write.quantity_table import QUANTITIES

NODE_PARAMETERS = {
    "root_joint": "fixed",
    "gravity": (0.0, 0.0, -9.81),
    "mimic": "project",
    "strict": False,
    "locked_joints": [],
    "include_friction": False,
    "joints": [],
    "armature": [],
    "base_source": "odometry",
    "staleness": 0.5,
    "frame_id": "",
    "world_frame": "",
}
OBSERVER_PARAMETERS = {
    "thresholds.fixed": [],
    "thresholds.per_speed": [],
    "thresholds.at_rest": [],
    "thresholds.relative": 0.05,
    "thresholds.unlimited": 5.0,
    "noise.external": [],
}


def node_values(settings):
    """Return the parameters of the observer node."""
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name not in ("joints", "cutoff", "velocity", "calibrated")
    }
    for name in ("torque", "velocity", "disturbance"):
        values[f"noise.{name}"] = values.pop(f"noise_{name}")
    for name in ("fixed", "per_speed", "at_rest"):
        values[f"thresholds.{name}"] = values.pop(f"thresholds_{name}")
    return {
        **OBSERVER_PARAMETERS,
        **{
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        },
    }


def make_context(**values):
    """Return a robot as the nodes prepare it, with friction."""
    from dyn_ros.nodes.robot.context import RobotContext

    robot = RobotContext(ARM7.read_text(), {**NODE_PARAMETERS, **values})
    model = model_of(root_joint=None if robot.model.nv == 7 else "floating")
    robot.model.damping[:], robot.model.friction[:] = model.damping, model.friction
    robot.collector.collect_quantities(["effort"])
    return robot


def run_node(robot, settings, messages, odometry=()):
    """Process messages as the node does; return states, residual and external efforts."""
    from dyn_ros.nodes.robot.observation import Observation
    from dyn_ros.states.joint_states import Reception, Rejected

    observation = Observation(robot, node_values(settings), lambda text: None)
    rows, residual, external = [], [], []
    for message in messages:
        collect = (
            robot.collector.receive_joint_states
            if len(message) == 5
            else robot.collector.receive_odometry
        )
        try:
            if collect(*message) is not Reception.NEW_STATE:
                continue
        except Rejected:
            continue
        state = robot.collector.latest_state()
        observation.observe(state, True)
        unknown = np.full(robot.model.nv, np.nan)
        residual.append(observation.residual.copy() if observation.residual_valid else unknown)
        external.append(observation.external.copy() if observation.valid else unknown)
        v = np.array(state.raw_velocities)
        names = np.array(
            [robot.model.joint_names[k] for k, nv in enumerate(robot.model.nvs) for _ in range(nv)]
        )
        v[np.isin(names, state.unknown)] = np.nan
        tau = unknown if state.effort is None else state.effort.copy()
        behind = state.stamp - int(robot.collector._reported_stamps.min())
        rows.append((state.stamp, state.stamp, np.array(state.q), v, tau, behind))
    states = States(*(np.array(column) for column in zip(*rows)))
    return states, np.array(residual), np.array(external)


def messages_of(states, names, rng, faults=True):
    """Yield messages with these states, some of which are faulty, lost, or repeated."""
    for stamp, q, v, tau in zip(states.stamp, states.q, states.v, states.tau):
        chance = rng.random() if faults else 1.0
        if chance < 2e-3:
            v = []  # velocities are missing
        elif chance < 4e-3:
            tau = []
        elif chance < 6e-3:
            tau = np.where(np.arange(len(tau)) == 3, np.nan, tau)
        elif chance < 8e-3:
            continue  # lost
        elif chance < 9e-3:
            yield names, q, v, tau, int(stamp)  # twice
        elif chance < 1e-2:
            yield names, q, v, tau, int(stamp) - 3_000_000
        yield names, q, v, tau, int(stamp)


def with_faults(states, rng):
    """Return states with gaps, and a jump of the clock to the past."""
    stamp = states.stamp.copy()
    third = len(stamp) // 3
    stamp[third:] += 300_000_000  # longer than max_gap
    stamp[third + 400 :] += 8_000_000  # five periods, but short
    stamp[third + 500 :] += 40_000_000
    stamp[2 * third :] -= 5_000_000_000
    return states._replace(stamp=stamp, log_time=stamp)


def assert_agree(values, expected):
    """Require that values differ by 1e-12 of the largest, and are unknown in the same places."""
    assert (np.isnan(values) == np.isnan(expected)).all()
    assert np.isfinite(expected).any()
    scale = np.nanmax(np.abs(expected))
    assert np.nanmax(np.abs(values - expected)) <= 1e-12 * max(scale, 1.0)


SETTINGS = [
    QuantitySettings(),
    QuantitySettings(method="direct"),
    QuantitySettings(method="kalman"),
    QuantitySettings(
        method="kalman", noise_torque=(0.3,), noise_velocity=(0.002,) * 7, noise_disturbance=(4.0,)
    ),
    QuantitySettings(effort_delay=0.0043),
    QuantitySettings(effort_delay=-0.0026),
    QuantitySettings(smoothing=0.0),
    QuantitySettings(friction=False, friction_velocity=0.05, gain=60.0, smoothing=200.0),
    QuantitySettings(
        joint_gains=(50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 110.0),
        max_gap=0.05,
        effort_constant=(1.0, -2.0, 3.0, 0.5, 1.0, 1.0, 0.1),
    ),
]


@pytest.mark.parametrize("settings", SETTINGS, ids=range(len(SETTINGS)))
def test_observer_as_the_node(settings):
    robot, rng = make_context(), np.random.default_rng(1)
    planned = with_faults(moving(robot.model, 3.0, jitter=0.2), rng)
    states, residual, external = run_node(robot, settings, messages_of(planned, robot.names, rng))
    results = compute_observer_results(robot.model, states, settings, ["residual", "external"])
    assert_agree(results["residual"], residual)
    assert_agree(results["external"], external)
    table = compute_quantities(robot.model, states, 0, ["residual"], settings)
    assert list(table.columns)[2:] == [f"residual.{name}" for name in robot.names]
    assert (
        np.stack(list(table.columns.values())[2:], axis=1)[100:] == results["residual"][100:]
    ).all(where=~np.isnan(results["residual"][100:]))


def test_efforts_and_velocities_that_cannot_be_measurements():
    robot, rng = make_context(), np.random.default_rng(1)
    planned = moving(robot.model, 1.0)
    planned.tau[300, 3], planned.v[600, 2] = 1e11, -1e8
    states, residual, external = run_node(
        robot, QuantitySettings(), messages_of(planned, robot.names, rng, faults=False)
    )
    results = compute_observer_results(
        robot.model, states, QuantitySettings(), ["residual", "external"]
    )
    assert_agree(results["residual"], residual)
    assert_agree(results["external"], external)
    assert np.nanmax(np.abs(external)) < 1e3
    assert np.isnan(external[300:370]).all()
    assert np.isnan(external[600:670]).all()


@pytest.mark.parametrize("publishers, size", [(1, 2e5), (2, math.inf)])
def test_parts_of_a_recording_as_the_node(publishers, size, tmp_path):
    """From the file to the columns; in several parts, if one publisher reports all joints."""
    pytest.importorskip("mcap", reason="no packages for recordings: run `make test`")
    from logs.recorded import JointState, Sent, write_mcap

    from dyn_ros.recordings.formats.sources import open_source
    from dyn_ros.recordings.options import ReadOptions
    from dyn_ros.recordings.part import read_part
    from dyn_ros.recordings.plan import divide_part
    from dyn_ros.recordings.selection import select_part

    robot, rng, settings = (
        make_context(),
        np.random.default_rng(3),
        QuantitySettings(effort_delay=0.002),
    )
    planned = with_faults(moving(robot.model, 9.0, jitter=0.2), rng)
    full_messages = list(messages_of(planned, robot.names, rng))
    messages = (
        full_messages
        if publishers == 1
        else [
            (names[part], q[part], v[part], tau[part], stamp)
            for names, q, v, tau, stamp in full_messages
            for part in (slice(0, 3), slice(3, 7))
        ]
    )
    sent = [
        Sent("/joint_states", START + k * 1_000_000 // publishers, JointState(*message))
        for k, message in enumerate(messages)
    ]
    path = write_mcap(tmp_path / "a.mcap", sent, chunk_size=1 << 16)
    states, residual, external = run_node(robot, settings, messages)

    quantities = ["gravity", "residual", "external"]
    chosen = select_part(open_source(path), ReadOptions(robot.model))
    parts = divide_part(chosen, size, required_overlap(quantities, settings))
    assert len(parts) >= 4 or size == math.inf
    tables = []
    for planned in parts:
        part = read_part(planned)
        tables.append(
            compute_quantities(
                robot.model,
                part.states,
                part.leading_count,
                quantities,
                settings,
                part.trailing_count,
            )
        )
    columns = {
        name: np.concatenate([table.columns[name] for table in tables])
        for name in tables[0].columns
    }
    assert (columns["stamp"] == states.stamp).all()
    for quantity, expected in (("residual", residual), ("external", external)):
        assert_agree(
            np.stack([columns[f"{quantity}.{name}"] for name in robot.names], axis=1), expected
        )


def test_joints_of_two_publishers_one_of_which_lags():
    robot, rng = make_context(), np.random.default_rng(2)
    names, planned = robot.names, moving(robot.model, 2.0)

    def messages():
        for stamp, q, v, tau in zip(planned.stamp.tolist(), *planned[2:5]):
            yield names[:4], q[:4], v[:4], tau[:4], stamp
            since = stamp - START
            if not 600_000_000 < since < 950_000_000:  # less than staleness, more than max_gap
                yield names[4:], q[4:], v[4:], tau[4:], stamp - int(rng.integers(0, 2000))

    states, residual, external = run_node(robot, QuantitySettings(), messages())
    assert states.behind.max() > 200_000_000
    results = compute_observer_results(
        robot.model, states, QuantitySettings(), ["residual", "external"]
    )
    assert_agree(results["residual"], residual)
    assert_agree(results["external"], external)


def test_a_base_that_moves():
    robot = make_context(root_joint="floating")
    planned = moving(robot.model, 1.0, rate=500.0)
    names = robot.names[6:]

    def messages():
        for stamp, q, v, tau in zip(planned.stamp.tolist(), *planned[2:5]):
            yield q[:7], v[:6], stamp
            yield names, q[7:], v[6:], tau[6:], stamp

    for settings in (QuantitySettings(), QuantitySettings(effort_delay=0.005)):
        states, residual, external = run_node(robot, settings, messages())
        results = compute_observer_results(robot.model, states, settings, ["residual", "external"])
        assert_agree(results["residual"], residual)
        assert_agree(results["external"], external)
        robot = make_context(root_joint="floating")


def test_terms_and_the_whole_robot_as_the_nodes():
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    from dyn_ros.nodes.robot.context import DynamicsTerms
    from dyn_ros.nodes.robot.ground import composite_body
    from dyn_ros.states.joint_states import State

    for root_joint in ("fixed", "floating"):
        robot = make_context(root_joint=root_joint)
        states = moving(robot.model, 0.5)
        states.v[7] = np.nan
        table = compute_quantities(
            robot.model, states, 0, ["gravity", "nle", "centroidal", "energy"]
        )
        reads = "g", "nle", "com", "Ig", "hg", "kinetic_energy", "potential_energy"
        for k in [0, 7, *range(20, 500, 37)]:
            has_velocity = k != 7
            state = State(states.q[k], states.v[k], unknown=() if has_velocity else ("all",))
            robot.compute_terms(state, reads)
            terms = DynamicsTerms(robot.data, reads)
            composite = composite_body(robot, state, terms)
            momentum = composite.momentum if has_velocity else [np.nan] * 6
            inertia = composite.body.matrix()
            expected = {
                **dict(zip([f"gravity.{name}" for name in robot.names], terms.g)),
                **dict(
                    zip(
                        [f"nle.{name}" for name in robot.names],
                        terms.nle if has_velocity else [np.nan] * robot.model.nv,
                    )
                ),
                "mass": composite.body.mass,
                **dict(zip(("com.x", "com.y", "com.z"), composite.body.com)),
                **{f"linear_momentum.{axis}": momentum[i] for i, axis in enumerate("xyz")},
                **{
                    f"com_velocity.{axis}": momentum[i] / composite.body.mass
                    for i, axis in enumerate("xyz")
                },
                **{f"angular_momentum.{axis}": momentum[3 + i] for i, axis in enumerate("xyz")},
                "locked_inertia.ixx": inertia[0, 0],
                "locked_inertia.ixy": inertia[0, 1],
                "locked_inertia.ixz": inertia[0, 2],
                "locked_inertia.iyy": inertia[1, 1],
                "locked_inertia.iyz": inertia[1, 2],
                "locked_inertia.izz": inertia[2, 2],
                "energy.potential": terms.potential_energy,
                "energy.kinetic": terms.kinetic_energy if has_velocity else np.nan,
                "energy.total": (
                    terms.kinetic_energy + terms.potential_energy if has_velocity else np.nan
                ),
            }
            assert list(table.columns)[2:] == [name for name in table.columns if name in expected]
            for name, value in expected.items():
                np.testing.assert_allclose(
                    table.columns[name][k], value, rtol=1e-12, atol=1e-12, err_msg=name
                )


def test_torque_is_the_inverse_dynamics_of_the_motion():
    model = model_of(friction=False)
    states = moving(model, 6.0, jitter=0.1)
    phase = 1.5 * np.arange(1, 8) ** 0.5
    a = -0.4 * phase**2 * np.sin(phase * 1e-9 * (states.stamp - START)[:, None])
    expected = dyn_ros.rnea(model, dyn_ros.Data(model), states.q, states.v, a)
    table = compute_quantities(model, states, 0, ["torque"])
    torque = np.stack(list(table.columns.values())[2:], axis=1)
    assert np.isnan(torque[:200]).all() and np.isnan(torque[-200:]).all()
    assert not np.isnan(torque[201:-201]).any()
    assert np.abs(torque - expected)[1500:-1500].max() < 1e-4 * np.abs(expected).max()


def test_torque_is_unknown_near_gaps():
    model = model_of()
    states = moving(model, 3.0)
    states.stamp[1500:] += 1_000_000_000
    torque = compute_quantities(model, states, 0, ["torque"]).columns["torque.elbow_pitch"]
    assert np.isnan(torque[1300:1700]).all()
    assert np.isfinite(torque[201:1299]).all() and np.isfinite(torque[1701:2799]).all()
    short = compute_quantities(model, states.rows(slice(0, 300)), 0, ["torque"])
    assert np.isnan(short.columns["torque.elbow_pitch"]).all()


@pytest.mark.parametrize(
    "settings, delay, quantities",
    [
        (QuantitySettings(), 0.0, QUANTITIES),
        (QuantitySettings(effort_delay=0.0031), 0.0, QUANTITIES),
        (QuantitySettings(gain=40.0, smoothing=0.0), 0.0, QUANTITIES),
        (QuantitySettings(gain=100.0, smoothing=0.0), 0.5, ["residual", "external"]),
    ],
)
def test_a_part_gives_the_numbers_of_the_whole(settings, delay, quantities):
    model = model_of()
    model.drives = model.drives.with_values(delay=delay)
    settings = dataclasses.replace(settings, thresholds_fixed=(2.0,))
    states = moving(model, 8.0, jitter=0.3)
    table = compute_quantities(model, states, 0, quantities, settings)
    before, after = required_overlap(quantities, settings, model)
    start, stop = 3000, 5000
    warm = start - np.searchsorted(states.stamp, states.stamp[start] - round(before * 1e9))
    after_count = np.searchsorted(states.stamp, states.stamp[stop] + round(after * 1e9)) - stop
    part = compute_quantities(
        model,
        states.rows(slice(start - warm, stop + after_count)),
        warm,
        quantities,
        settings,
        after_count,
    )
    assert len(part) == stop - start
    for name, values in part.columns.items():
        expected = table.columns[name][start:stop]
        scale = max(np.abs(expected).max(), 1.0)
        tolerance = 1e-6 if name.startswith("torque") else 1e-12
        assert np.abs(values - expected).max() <= tolerance * scale, name


def test_power_and_state():
    model = model_of()
    states = moving(model, 0.1)
    states.tau[3, 2] = np.nan
    columns = compute_quantities(
        model, states, 0, ["power", "state"], QuantitySettings(effort_constant=(2.0,))
    ).columns
    name = model.velocity_names[1]
    assert (columns[f"effort.{name}"] == states.tau[:, 1]).all()
    assert np.allclose(
        columns[f"power.{name}"], 2.0 * states.tau[:, 1] * states.v[:, 1], rtol=1e-14
    )
    assert np.isnan(columns["power.total"][3])
    assert np.isfinite(np.delete(columns["power.total"], 3)).all()
    assert list(columns)[2] == f"position.{model.position_names[0]}"


def test_selected_joints():
    model = model_of()
    states = moving(model, 1.0)
    joints = model.joint_names[4], model.joint_names[1]
    table = compute_quantities(
        model, states, 0, ["state", "residual"], QuantitySettings(joints=joints)
    )
    assert table.names == list(joints)
    all_joints = compute_quantities(model, states, 0, ["residual"])
    assert np.array_equal(
        table.columns[f"residual.{joints[0]}"],
        all_joints.columns[f"residual.{joints[0]}"],
        equal_nan=True,
    )
    gains = QuantitySettings(joints=joints, joint_gains=(50.0, 60.0))
    assert np.isfinite(
        compute_quantities(model, states, 0, ["external"], gains).columns[f"external.{joints[1]}"][
            -1
        ]
    )


def test_no_states():
    model = model_of()
    states = moving(model, 0.1).rows(slice(0, 0))
    table = compute_quantities(
        model, states, 0, QUANTITIES, QuantitySettings(thresholds_fixed=(2.0,))
    )
    assert len(table) == 0
    assert all(len(column) == 0 for column in table.columns.values())
    assert set(table.units) == set(table.columns)


def test_settings_are_those_of_the_node():
    pytest.importorskip("rclpy", reason="no ROS: run `make test`")
    pytest.importorskip("dyn_ros.msg", reason="the messages are not built: run `make test`")
    from dyn_ros.nodes.observer_node import SPECS

    defaults = {spec.name: spec.default for spec in SPECS}
    for name, value in node_values(QuantitySettings()).items():
        if name in OBSERVER_PARAMETERS or isinstance(value, list):
            assert name in defaults
        else:
            assert defaults[name] == value
    assert pickle.loads(pickle.dumps(QuantitySettings(gain=3.0))) == QuantitySettings(gain=3.0)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"gain": 0.0}, "gain: expected more than 0"),
        ({"method": "best"}, "method: expected one of"),
        ({"smoothing": -1.0}, "smoothing: expected at least 0"),
        ({"cutoff": np.nan}, "cutoff: expected finite"),
        ({"joint_gains": (1.0, 0.0)}, "joint_gains: expected more than 0"),
    ],
)
def test_wrong_settings(wrong, message):
    with pytest.raises(ValueError, match=message):
        QuantitySettings(**wrong)


def test_settings_that_do_not_fit():
    model = model_of()
    states = moving(model, 0.1)
    with pytest.raises(ValueError, match="expected some of state, gravity.*got 'grav'"):
        compute_quantities(model, states, 0, ["grav"])
    with pytest.raises(ValueError, match="got none"):
        compute_quantities(model, states, 0, [])
    with pytest.raises(ValueError, match="effort_constant: expected one number, or 7"):
        compute_quantities(
            model, states, 0, ["residual"], QuantitySettings(effort_constant=(1.0, 2.0))
        )
    with pytest.raises(ValueError, match="joints: 'nose' is no joint of the robot; available: "):
        select_joints(model, ["nose"])
    with pytest.raises(ValueError, match="each name once"):
        select_joints(model, [model.joint_names[0]] * 2)


def test_efforts_in_the_units_of_drives():
    """Currents of either sign, compensated gravity, offsets and load friction have no effect."""
    clean, model = model_of(), model_of()
    clean.damping, clean.friction = np.zeros((2, 7))
    states, data = moving(clean), dyn_ros.Data(model)
    gain = np.where(np.arange(7) % 2, -9.0, 12.0)
    compensated = np.arange(7) == 1
    model.drives = dyn_ros.Drives.of(
        7,
        unit=("N m",) + ("A",) * 6,
        gain=gain,
        is_compensated=compensated,
        load_friction=0.1,
        offset=np.linspace(-2.0, 2.0, 7),
        delay=0.003,
    )
    torque = states.tau + dyn_ros.joint_friction(model, states.v, states.tau)
    effort = (torque - compensated * dyn_ros.generalized_gravity(model, data, states.q)) / gain
    delayed = states._replace(tau=np.vstack([effort[:3], effort[:-3]]))
    quantities = ["residual", "external", "torque", "power", "state"]
    expected = compute_quantities(clean, states, 0, quantities)
    result = compute_quantities(model, delayed, 0, quantities)
    for name in clean.velocity_names:
        np.testing.assert_allclose(
            result.columns[f"torque.{name}"], expected.columns[f"torque.{name}"]
        )
        for quantity in ("residual", "external"):
            column = f"{quantity}.{name}"
            values, expected_values = result.columns[column], expected.columns[column]
            np.testing.assert_allclose(values[500:], expected_values[497:-3], atol=1e-6)
    name = model.velocity_names[1]
    np.testing.assert_allclose(
        result.columns[f"power.{name}"][3:], torque[:-3, 1] * states.v[3:, 1], rtol=1e-2, atol=1e-1
    )
    assert result.units[f"effort.{name}"] == "A" and expected.units[f"effort.{name}"] == "N m"
    np.testing.assert_array_equal(result.columns[f"effort.{name}"], delayed.tau[:, 1])
