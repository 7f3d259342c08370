# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Recordings that a model cannot explain, with known causes: which one is named."""
import dataclasses
import re

import numpy as np
import pytest
from identification.recordings import perturbed, record, waves
from identification.robots import load

import dyn_ros


def recorded(seed=0, **drives):
    true = perturbed(load("ur10"), seed=seed)
    true.drives = true.drives.with_values(**drives)
    motion = waves(np.zeros(6), 1.2, [0.1, 0.23, 0.41], seed)
    return record(true, motion, noise=0.01, rate=250.0, seed=seed)


def warnings(recording, tau=None, **options):
    """What is said about joints whose errors are more than noise."""
    if tau is not None:
        recording = dataclasses.replace(recording, tau=tau)
    model = load("ur10")
    found = dyn_ros.identify(model, recording.samples(model), **options)
    return [text for text in found.warnings if "more than the noise" in text]


@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_explains_the_torques_has_no_cause(seed):
    assert warnings(recorded(seed)) == []


@pytest.mark.parametrize("late, word", [(12, "late"), (-12, "early")])
def test_efforts_of_other_times(late, word):
    recording = recorded()
    tau = np.roll(recording.tau, late // 4, axis=0)         # at 250 samples per second
    found = [text for text in warnings(recording, tau) if word in text]
    assert len(found) >= 2
    for text in found:
        assert abs(float(re.search(r"delay: (\S+)", text)[1]) - 1e-3 * late) < 2e-3


def test_efforts_that_were_filtered():
    from scipy.signal import butter, lfilter
    recording = recorded()
    tau = lfilter(*butter(1, 5.0, fs=250.0), recording.tau, axis=0)      # 32 ms late
    found = warnings(recording, tau)
    delays = [float(x) for x in re.findall(r"delay: (\S+)", "; ".join(found))]
    assert delays and max(np.abs(np.array(delays) - 0.032)) < 0.008
    assert "declare the delay of the other joints first" in "; ".join(found)


def test_friction_that_depends_on_the_load():
    recording = recorded(load_friction=[0.0, 0.1, 0.1, 0.0, 0.0, 0.0])
    found = warnings(recording, friction_terms=[])
    assert sorted(re.findall(r": (\S+)_joint .*friction of 0.1 times the load", "\n".join(found))
                  ) == ["elbow", "shoulder_lift"]
    assert warnings(recording) == []


@pytest.mark.parametrize("factor", [-1.0, 0.1])
def test_a_gain_that_does_not_fit_the_other_joints(factor):
    recording = recorded()
    tau = recording.tau * np.where(np.arange(6) == 2, factor, 1.0)
    found = [text for text in warnings(recording, tau) if "elbow_joint" in text]
    assert len(found) == 1 and "unit" in found[0] and "sign" in found[0]
