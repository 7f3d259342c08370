# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""If compiled code cannot read the objects of this Python, Python copies the numbers."""
import subprocess
import sys
from pathlib import Path

import pytest

import peer
from dyn_ros.engine.kernel.compiler import JIT

# A layout that is not the known one: the type of arrays is not where it was.
UNKNOWN = """
import warnings
import numpy as np, numba
real = np.ndarray
np.ndarray = type("ndarray", (real,), {})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import dyn_ros.engine.call.native as native
np.ndarray = real
assert not native.READS_OBJECTS
(warning,) = [str(each.message) for each in caught if "memory layout" in str(each.message)]
assert "each call takes about 20 us longer" in warning
"""
CALLS = """
import dyn_ros, peer
pair = peer.new_pair("panda")
model, data = pair.model, pair.data
q, v, a, tau = pair.state(1)
f_ext = pair.wrenches(1)
peer.close(dyn_ros.rnea(model, data, q, v, a), pair.rnea(q, v, a))
peer.close(dyn_ros.rnea(model, data, q, v, a, f_ext), pair.rnea(q, v, a, f_ext))
peer.close(dyn_ros.rnea(model, data, q, v, a), pair.rnea(q, v, a))
assert dyn_ros.rnea(model, data, q, v, a) is data.tau
assert dyn_ros.rnea(model, data, list(q), v, a) is data.tau
ddq = dyn_ros.aba(model, data, q, v, tau).copy()
peer.close(dyn_ros.rnea(model, data, q, v, ddq), tau)
J = dyn_ros.frame_jacobian(model, data, q, "panda_hand", 1)
assert J is data.frame_jacobian and np.isfinite(J).all()
motion = dyn_ros.vereshchagin(model, data, q, v, np.eye(6)[:, :2], [0.1, 0.2], "panda_hand")
assert motion.nu.shape == (2,) and motion.rank == 2
many = dyn_ros.rnea(model, data, np.tile(q, (9, 1)), v, a)
peer.close(many[8], dyn_ros.rnea(model, data, q, v, a))


def error_of(name, model, data, *inputs):
    try:
        getattr(dyn_ros, name)(model, data, *inputs)
    except ValueError as error:                 # LinAlgError, too
        return str(error)
    return ""


assert "a: expected shape" in error_of("rnea", model, data, q, v, a[:-1])
assert "a: expected finite" in error_of("rnea", model, data, q, v, np.full(model.nv, np.nan))
solo = peer.new_pair("solo12", "floating").model
assert "unit quaternion" in error_of("crba", solo, dyn_ros.Data(solo), 1.1 * solo.neutral())
"""
STATUS = """
from dyn_ros.engine.call import singular
model.armature = np.full(model.nv, -10.0)
assert "armature is negative" in error_of("aba", model, data, q, v, tau)
model.armature = np.zeros(model.nv)
singular.raise_if_singular = None            # is not asked any more
peer.close(dyn_ros.aba(model, data, q, v, tau), ddq)
"""


@pytest.mark.skipif(not JIT, reason="nothing is compiled")
def test_an_unknown_layout_costs_time_alone():
    done = subprocess.run([sys.executable, "-c", UNKNOWN + CALLS + STATUS], capture_output=True,
                          text=True, timeout=300, cwd=Path(peer.__file__).parent)
    assert done.returncode == 0, done.stderr
