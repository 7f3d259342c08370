# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries as arguments, and results in those libraries."""

import re

import numpy as np
import pytest

import dyn_ros
import peer

CPU, CUDA, METAL = 1, 2, 8  # devices of DLPack


class Exported:
    """An array that only supports DLPack, as if it were in the memory of a device."""

    def __init__(self, array, device=CPU):
        self.array, self.device = np.asarray(array), device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device, 0


class Converted:
    """An array that only supports ``__array__``."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class Refused(Exported):
    """A tensor that its library does not convert."""

    def __dlpack__(self, **options):
        raise BufferError("a tensor that requires a gradient;\n  use tensor.detach()")


@pytest.fixture(scope="module")
def panda():
    return peer.new_pair("panda")


@pytest.mark.parametrize("other", [Exported, Converted])
@pytest.mark.parametrize("count", [None, 9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_arrays_with_dlpack_or_array(panda, other, count, dtype):
    q, v, a, _ = panda.state(1) if count is None else panda.states(count)
    v = (10.0 * v).astype(dtype)
    expected = dyn_ros.rnea(panda.model, panda.data, q, v, a).copy()
    exported = dyn_ros.rnea(panda.model, panda.data, other(q), other(v), other(a))
    assert np.array_equal(exported, expected)
    assert np.array_equal(dyn_ros.rnea(panda.model, panda.data, q, other(v), a), expected)


def test_properties_of_a_model(panda):
    panda.model.armature = Exported(np.full(panda.model.nv, 0.5))
    assert (panda.model.armature == 0.5).all()
    with pytest.raises(ValueError, match="armature: expected .*, got a Exported: .* to the CPU"):
        panda.model.armature = Exported(np.full(panda.model.nv, 0.5), CUDA)
    panda.model.armature = np.zeros(panda.model.nv)


@pytest.mark.parametrize("device", [CUDA, METAL])
def test_arrays_on_a_device(panda, device):
    q, v, a, _ = panda.state(1)
    text = (
        f"v: expected shape ({panda.model.nv},), or (B, {panda.model.nv}) for a batch, got a "
        "Exported: its numbers are on a device; copy them to the CPU, for example with x.cpu() or "
        "jax.device_get(x)"
    )
    with pytest.raises(ValueError, match=re.escape(text)):
        dyn_ros.rnea(panda.model, panda.data, q, Exported(v, device), a)


def test_arrays_that_their_library_does_not_convert(panda):
    q, v, a, _ = panda.state(1)
    text = "v: expected .*, got a Refused: a tensor that requires a gradient; use tensor.detach()"
    with pytest.raises(ValueError, match=text):
        dyn_ros.rnea(panda.model, panda.data, q, Refused(v), a)


def test_results_without_a_copy(panda):
    q, v, a, _ = panda.states(9)
    for result in dyn_ros.rnea_derivatives(panda.model, panda.data, q, v, a):
        other = np.from_dlpack(result)
        assert np.shares_memory(other, result) and np.array_equal(other, result)


def test_torch(panda):
    torch = pytest.importorskip("torch")
    arrays = panda.states(9)[:3]
    expected = dyn_ros.rnea(panda.model, panda.data, *arrays)
    found = dyn_ros.rnea(panda.model, panda.data, *map(torch.from_numpy, arrays))
    shared = torch.from_dlpack(found)
    assert np.array_equal(shared, expected) and shared.data_ptr() == found.ctypes.data
    with pytest.raises(ValueError, match=r"q: .* got a Tensor: .*detach\(\)"):
        dyn_ros.crba(panda.model, panda.data, torch.from_numpy(arrays[0]).requires_grad_())


def test_jax(panda):
    jax = pytest.importorskip("jax")
    arrays = [array.astype(np.float32) for array in panda.states(9)[:3]]
    expected = dyn_ros.rnea(panda.model, panda.data, *arrays)
    found = dyn_ros.rnea(panda.model, panda.data, *map(jax.numpy.asarray, arrays))
    assert np.array_equal(found, expected)
    assert np.allclose(jax.numpy.from_dlpack(found), expected)
