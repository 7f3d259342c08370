# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Efforts of drives that reach a limit."""

from pathlib import Path

import numpy as np
import pytest

import dyn_ros
from dyn_ros.identification.motion.saturation import find_saturated_efforts

ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
TIME = np.arange(0.0, 20.0, 0.005)
JOINT = "shoulder_pitch"


def wave(noise=0.05):
    """Positions and efforts (B, 1) of a joint."""
    q = np.sin(TIME)[:, None]
    random = np.random.default_rng(0)
    return q, 10.0 * q + np.sin(7.0 * TIME)[:, None] + noise * random.normal(size=q.shape)


@pytest.mark.parametrize(
    "lower, upper, values", [(-8, 8, [8, -8]), (-np.inf, 8, [8]), (-8, np.inf, [-8])]
)
def test_clipped_efforts_are_found(lower, upper, values):
    q, effort = wave()
    clipped = np.clip(effort, lower, upper)
    is_saturated, found = find_saturated_efforts(q, clipped)
    assert found == [values]
    assert np.array_equal(is_saturated, effort != clipped)


def rounded(q, effort):
    return q, np.round(effort)


def held(q, effort):
    return q, effort[np.arange(len(effort)) // 20 * 20]


def coarse_currents(q, effort):
    return q, np.round(effort / 4.0) * 4.0


def one_sided(q, effort):  # magnitudes, which are 0 while a drive is off
    return q, np.where(q > 0.0, effort + 10.0, 0.0)


def rest(q, effort):  # without noise, in the pose with the largest effort
    q = np.minimum(q, 0.5)
    return q, 10.0 * q


def constant(q, effort):
    return q, np.full_like(q, 5.0)


def square(q, effort):  # Coulomb friction and inertia without noise
    return q, 5.0 * np.sign(effort)


@pytest.mark.parametrize(
    "change", [rounded, held, coarse_currents, one_sided, rest, constant, square]
)
def test_other_efforts_are_not_saturated(change):
    is_saturated, values = find_saturated_efforts(*change(*wave()))
    assert values == [[]] and not is_saturated.any()


@pytest.fixture(scope="module")
def motion():
    """The model of an arm, and a recording with friction and noise as a table."""
    model = dyn_ros.Model.from_urdf_file(ARM)
    random = np.random.default_rng(1)
    phase, rate = random.uniform(0.0, 6.0, (2, 7, 4))
    angle = (0.2 + 0.1 * rate) * TIME[:, None, None] * np.arange(1, 5) + phase
    factor = (0.2 + 0.1 * rate) * np.arange(1, 5)
    q = (0.4 * np.sin(angle)).sum(axis=2)
    v = (0.4 * factor * np.cos(angle)).sum(axis=2)
    a = (-0.4 * factor**2 * np.sin(angle)).sum(axis=2)
    tau = dyn_ros.rnea(model, dyn_ros.Data(model), q, v, a) + 0.8 * v + 0.6 * np.sign(v)
    tau += 0.05 * random.normal(size=tau.shape)
    q += 1e-5 * random.normal(size=q.shape)
    table = {"time": TIME}
    for k, name in enumerate(model.joint_names):
        table |= {f"position.{name}": q[:, k], f"effort.{name}": tau[:, k]}
    return model, table


def clip(table, limit):
    return {**table, f"effort.{JOINT}": np.clip(table[f"effort.{JOINT}"], -limit, limit)}


def test_saturated_samples_are_named_and_not_used(motion):
    model, table = motion
    limit = float(np.quantile(np.abs(table[f"effort.{JOINT}"]), 0.7))
    samples = dyn_ros.Samples.from_table(model, clip(table, limit))
    [text] = [text for text in samples.warnings if "saturated" in text]
    assert text.startswith(f"the effort of joint '{JOINT}' is saturated: it stays at ")
    assert f"{limit:.6g}" in text and "in 30 % of the samples, which are not used" in text
    whole = dyn_ros.Samples.from_table(model, table)
    assert len(samples) < 0.8 * len(whole)
    assert np.abs(samples.tau[:, model.joint_names.index(JOINT)]).max() < limit
    assert not any("saturated" in text for text in whole.warnings)


def test_identification_blames_nothing_else(motion):
    model, table = motion
    limit = float(np.quantile(np.abs(table[f"effort.{JOINT}"]), 0.7))
    samples = dyn_ros.Samples.from_table(model, clip(table, limit))
    result = dyn_ros.identify(model, samples, friction_terms=())
    assert not any("sign" in text or "unit" in text for text in result.warnings)
    k = model.joint_names.index(JOINT)
    assert result.joints[k].after < 0.1  # N m; with the clipped samples, it is several N m
    assert abs(result.identified.friction[k] - 0.6) < 0.05


def test_saturation_in_all_samples_is_an_error(motion):
    model, table = motion
    effort, limit = table[f"effort.{JOINT}"], np.median(table[f"effort.{JOINT}"])
    other = np.where(effort < limit, 9.0, 8.0 + np.random.default_rng(0).random(len(TIME)))
    table = {**table, f"effort.{JOINT}": np.minimum(effort, limit), "effort.wrist_roll": other}
    with pytest.raises(ValueError, match=f"effort of joint '{JOINT}' is saturated.*'wrist_roll'"):
        dyn_ros.Samples.from_table(model, table)
