# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The call for one state in the extension: what it takes itself, and what it leaves to Python."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call.algorithm import ALGORITHMS
from dyn_ros.engine.call.caller import Caller
from dyn_ros.engine.machine_code import extension
from dyn_ros.engine.machine_code.declare import JIT

pytestmark = pytest.mark.skipif(not JIT, reason="Python makes every call")


class Own(np.ndarray):
    """A subclass, which may mean anything by its numbers."""


def watched(name, make=None):
    """A call of an algorithm, and a list of those that it leaves to Python."""
    algorithm = ALGORITHMS[name]
    caller = Caller(algorithm, None, make)
    checked, left = caller._validate_and_run, []

    def watch(*given):
        left.append(given)
        return checked(*given)

    caller._validate_and_run = watch
    return caller.make_functions()[bool(algorithm.options)], left


def ready(name, make=None):
    """The same after a first call, of a new robot with its state."""
    call, left = watched(name, make)
    pair = peer.new_pair("panda")
    q, v, a, _ = pair.state(1)
    return call, left, (pair.model, pair.data, 1), (q, v, a, pair.wrenches(1))


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def misaligned(x):
    memory = np.zeros(x.nbytes + 1, np.uint8)[1:]
    found = memory.view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


TAKEN = {
    "as it is": lambda x: x,
    "every second": lambda x: np.repeat(x, 2)[::2],
    "backward": lambda x: x[::-1].copy()[::-1],
    "a column": lambda x: np.column_stack([x, x])[:, 1],
    "read-only": read_only,
    "a view": lambda x: np.tile(x, 2)[: len(x)],
    "Fortran order, one axis": np.asfortranarray,
    "native byte order by name": lambda x: x.astype("<f8" if sys.byteorder == "little" else ">f8"),
}
LEFT = {
    "list": list,
    "tuple": tuple,
    "float32": lambda x: np.round(x, 1).astype(np.float32),
    "integers": lambda x: np.ones(len(x), int),
    "booleans": lambda x: np.ones(len(x), bool),
    "other byte order": lambda x: x.astype(x.dtype.newbyteorder()),
    "a subclass": lambda x: x.view(Own),
    "misaligned": misaligned,
}


@pytest.mark.parametrize("change", TAKEN.values(), ids=list(TAKEN))
def test_plain_arrays_are_taken(change):
    call, left, given, (q, v, a, _) = ready("rnea")
    expected = call(*given, q, v, a, None).copy()
    for values in ((change(q), v, a), (q, change(v), a), (q, v, change(a))):
        given[1].tau[...] = np.nan
        assert call(*given, *values, None) is given[1].tau
        assert np.array_equal(given[1].tau, expected)
    assert len(left) == 1


@pytest.mark.parametrize(
    "change",
    [np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: x[::-1].copy()[::-1]],
    ids=["Fortran order", "some columns", "backward"],
)
def test_matrices_with_any_strides_are_taken(change):
    call, left, given, (*values, f) = ready("rnea")
    expected = call(*given, *values, f).copy()
    changed = change(f)
    assert not changed.flags.c_contiguous and np.array_equal(changed, f)
    assert np.array_equal(call(*given, *values, changed), expected) and len(left) == 1
    for index in np.ndindex(f.shape):
        wrong = change(f)
        wrong[index] = np.nan
        with pytest.raises(ValueError, match="f_ext"):
            call(*given, *values, wrong)


@pytest.mark.parametrize("change", LEFT.values(), ids=list(LEFT))
def test_what_is_converted_is_left_to_python(change):
    call, left, given, (q, v, a, _) = ready("rnea")
    call(*given, q, v, a, None)
    for n in range(3):
        values = [q, v, a]
        values[n] = change(values[n])
        found = call(*given, *values, None).copy()
        assert len(left) == n + 2 and left[-1][4][n] is values[n]
        plain = [np.array(x, float) for x in values]
        assert np.array_equal(found, call(*given, *plain, None))
        assert len(left) == n + 2


@pytest.mark.parametrize(
    "wrong, error",
    [
        (None, ValueError),
        (3.0, ValueError),
        ("q", ValueError),
        (np.array(3.0), ValueError),
        (np.zeros(0), ValueError),
        (np.zeros((1, 2, 8)), ValueError),
        (np.zeros(9), ValueError),
        (np.full(8, np.nan), ValueError),
        (np.full(8, -np.inf), ValueError),
        (np.zeros(8, complex), ValueError),
        (np.array([None] * 8), ValueError),
        (10**400, ValueError),
        (object(), ValueError),
    ],
)
def test_wrong_values_are_left_to_python(wrong, error):
    call, left, given, (q, v, a, _) = ready("rnea")
    expected = call(*given, q, v, a, None).copy()
    for values in ((wrong, v, a), (q, wrong, a), (q, v, wrong)):
        with pytest.raises(error):
            call(*given, *values, None)
    assert len(left) == 4
    assert np.array_equal(call(*given, q, v, a, None), expected) and len(left) == 4


def test_one_number_that_is_not_finite_is_found_everywhere():
    call, left, given, (q, v, a, f) = ready("rnea")
    expected = call(*given, q, v, a, f).copy()
    for x in (q, v, a, f):
        for k in range(x.size):
            kept, x.flat[k] = x.flat[k], (np.nan, np.inf, -np.inf)[k % 3]
            with pytest.raises(ValueError, match="expected finite"):
                call(*given, q, v, a, f)
            x.flat[k] = kept
    largest = np.finfo(float).max
    for extreme in (largest, -largest, 5e-324, -0.0):
        call(*given, q, v, np.full_like(a, extreme), f)
    assert np.array_equal(call(*given, q, v, a, f), expected)
    assert len(left) == 1 + q.size + v.size + a.size + f.size


def test_matrices_need_their_shape():
    call, left, given, (q, v, a, f) = ready("rnea")
    expected = call(*given, q, v, a, f).copy()
    assert np.array_equal(call(*given, q, v, a, f), expected) and len(left) == 1
    for wrong in (f.T.copy(), f.ravel(), f[:-1].copy(), f[:, :5].copy()):
        with pytest.raises(ValueError, match="f_ext: expected shape"):
            call(*given, q, v, a, wrong)
    without = call(*given, q, v, a, None)
    assert not np.allclose(without, expected) and len(left) == 5


def test_quaternions_are_checked():
    call, left = watched("crba")
    pair = peer.new_pair("solo12", "floating")
    q = pair.state(1)[0]
    expected = call(pair.model, pair.data, 1, q).copy()
    assert np.array_equal(call(pair.model, pair.data, 1, q), expected) and len(left) == 1
    for error, is_taken in ((0.9e-6, True), (-0.9e-6, True), (1.1e-6, False), (-1.1e-6, False)):
        near = q.copy()
        near[3:7] *= np.sqrt((1.0 + error) / (q[3:7] @ q[3:7]))
        if is_taken:
            call(pair.model, pair.data, 1, near)
        else:
            with pytest.raises(ValueError, match="unit quaternion"):
                call(pair.model, pair.data, 1, near)
    assert len(left) == 3
    left.clear()
    for scale in (1.0 + 1e-5, 0.0, -2.0):
        wrong = q.copy()
        wrong[3:7] *= scale
        with pytest.raises(ValueError, match="unit quaternion"):
            call(pair.model, pair.data, 1, wrong)
    wrong = q.copy()
    wrong[3:7] *= -1.0  # the same rotation
    peer.close(call(pair.model, pair.data, 1, wrong), expected)
    assert len(left) == 3


def test_the_number_of_constraints_is_open_but_the_same():
    pair = peer.new_pair("panda")
    q, v, *_ = pair.state(1)
    for count in (3, 1, 6, 0, 2):
        alpha, beta = np.eye(6)[:, :count].copy(), np.arange(1.0 * count)
        motion = dyn_ros.vereshchagin(pair.model, pair.data, q, v, alpha, beta, "panda_hand")
        again = dyn_ros.vereshchagin(pair.model, pair.data, q, v, alpha, beta, "panda_hand")
        assert motion.nu.shape == (count,) and again.nu is motion.nu
        nu = motion.nu.copy()
        alpha = np.eye(6)[:, :count]  # not contiguous
        motion = dyn_ros.vereshchagin(pair.model, pair.data, q, v, alpha, beta, "panda_hand")
        assert np.array_equal(motion.nu, nu)
        with pytest.raises(ValueError, match="same number of constraints"):
            dyn_ros.vereshchagin(
                pair.model, pair.data, q, v, alpha, np.zeros(count + 1), "panda_hand"
            )


# --- the other arguments


def test_selectors():
    call, left = watched("frame_velocity")
    pair = peer.new_pair("panda")
    q, v, *_ = pair.state(1)
    given = pair.model, pair.data, 1
    world = call(*given, 5 << 2, q, v).copy()
    for same in (np.int64(20), np.uint8(20), type("Int", (int,), {})(20)):
        pair.data.frame_velocity[...] = np.nan
        assert np.array_equal(call(*given, same, q, v), world)
    assert len(left) == 1
    assert not np.allclose(call(*given, True, q, v), world) and len(left) == 1
    for wrong in ("20", 20.0, None, q):
        with pytest.raises(TypeError):
            call(*given, wrong, q, v)
    for wrong in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(OverflowError):
            call(*given, wrong, q, v)


class Interrupting:
    def __init__(self, error):
        self._error = error

    def __index__(self):
        raise self._error


def test_errors_of_a_selector_are_those_of_its_conversion():
    call, _ = watched("frame_velocity")
    pair = peer.pair("panda")
    for error in (KeyboardInterrupt, MemoryError, ZeroDivisionError):
        with pytest.raises(error):
            call(pair.model, pair.data, 1, Interrupting(error()), *pair.state(1)[:2])


def test_wrong_models_and_data():
    call, left, (model, data, _), (q, v, a, _) = ready("rnea")
    call(model, data, 1, q, v, a, None)
    other = peer.new_pair("panda")
    for wrong in (None, 3, dyn_ros.Data, object(), model, np.zeros(3)):
        with pytest.raises(TypeError, match="data: expected"):
            call(model, wrong, 1, q, v, a, None)
    for wrong in (None, data, other.model):
        with pytest.raises(ValueError, match="create a dyn_ros.Data"):
            call(wrong, data, 1, q, v, a, None)
    assert len(left) == 10


def test_the_number_of_arguments():
    call, _, given, (q, v, a, _) = ready("rnea")
    call(*given, q, v, a, None)
    for values in ((), (q, v, a), (q, v, a, None, None)):
        with pytest.raises(TypeError, match=f"got {len(values)} inputs"):
            call(*given, *values)
    with_selector, _ = watched("frame_velocity")
    for each, count in ((call, 3), (with_selector, 4)):
        for n in range(count):
            with pytest.raises(TypeError, match=f"expected model, data, .*, got {n} arguments"):
                each(*(*given, 0)[:n])
        with pytest.raises(TypeError, match="takes no keyword arguments, got 'threads'"):
            each(given[0], given[1], threads=1)


# --- what it returns, and what happens meanwhile


def test_the_results_may_be_made_by_a_function_that_calls_again():
    deep = []

    def make(results):
        if len(deep) < 50:
            deep.append(results)
            return call(*given, q, v, a, None)
        return "made"

    call, left, given, (q, v, a, _) = ready("rnea", make)
    assert call(*given, q, v, a, None) == "made" and len(deep) == 50
    assert call(*given, q, v, a, None) == "made" and len(left) == 1


def test_an_error_of_that_function_is_raised():
    def make(results):
        raise KeyError(len(results))

    call, _, given, (q, v, a, _) = ready("rnea", make)
    for _ in range(3):
        with pytest.raises(KeyError, match="1"):
            call(*given, q, v, a, None)


def test_a_function_that_forgets_what_it_runs_on():
    """The memory of a call lives until it returns."""

    def make(results):
        given[1]._prepared.clear()
        given[1]._state_calls.clear()
        gc.collect()
        return results[0].copy()

    call, left, given, (q, v, a, _) = ready("rnea", make)
    expected = dyn_ros.rnea(*given[:2], q, v, a).copy()
    for _ in range(5):
        assert np.array_equal(call(*given, q, v, a, None), expected)
    assert len(left) == 5


def test_references():
    call, left, given, (q, v, a, f) = ready("rnea")
    energy, also_left = watched("kinetic_energy")
    bad = np.full_like(a, np.nan)
    objects = (*given[:2], q, v, a, f, bad, call(*given, q, v, a, f), call)

    def use():
        call(*given, q, v, a, f)
        energy(*given, q, v)
        with pytest.raises(ValueError):
            call(*given, q, v, bad, None)
        left.clear()
        also_left.clear()

    use()
    before = [sys.getrefcount(each) for each in objects]
    for _ in range(500):
        use()
    gc.collect()
    assert [sys.getrefcount(each) for each in objects] == before


def test_a_data_goes_with_what_is_prepared_for_it():
    call, left, given, (q, v, a, _) = ready("rnea")
    model, data = given[0], dyn_ros.Data(given[0])
    call(model, data, 1, q, v, a, None)
    data.itself = data
    dead = weakref.ref(data)
    del data
    left.clear()
    assert dead() is not None
    gc.collect()
    assert dead() is None


def test_another_thread_is_left_to_python():
    call, left, given, (q, v, a, _) = ready("rnea")
    expected = call(*given, q, v, a, None).copy()
    errors = []

    def use():
        try:
            call(*given, q, v, a, None)
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=use, name="second")
    thread.start()
    thread.join()
    assert len(left) == 2 and "was called from thread 'second'" in errors[0]
    given[1].release()
    thread = threading.Thread(target=lambda: call(*given, q, v, a, None))
    thread.start()
    thread.join()
    assert len(left) == 3
    assert np.array_equal(call(*given, q, v, a, None), expected) and len(left) == 4


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="the system has no timers")
def test_a_signal_handler_may_call():
    call, _, given, (q, v, a, _) = ready("rnea")
    expected, other = call(*given, q, v, a, None).copy(), 2.0 * a
    handled = []

    def handle(number, frame):
        handled.append(call(*given, q, v, other, None)[0])

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0005)
    try:
        while len(handled) < 100:
            count = len(handled)
            found = call(*given, q, v, a, None).copy()
            assert np.array_equal(found, expected) or len(handled) > count
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(handled)) == 1 and handled[0] != expected[0]


def test_prepared_calls_are_checked():
    prepared, pair = extension.native().Prepared, peer.pair("panda")
    rows = [np.zeros((1, n), np.int64) for n in (9, 7, 3)]
    made = prepared(pair.model, None, 1, None, *rows)
    assert made.results == 1 and made.finish is None
    for n in range(3):
        for wrong in (rows[n].astype(float), rows[n][0], rows[n][:, :-1].copy(), None, rows[n].T):
            given = [*rows[:n], wrong, *rows[n + 1 :]]
            with pytest.raises(ValueError, match="expected a contiguous array of int64"):
                prepared(pair.model, None, 1, None, *given)
    for wrong in (
        (None, pair.model, 0, ()),
        (pair.data, pair.model, 0, []),
        (pair.data, pair.model, "0", ()),
        (pair.data, pair.model, 0),
    ):
        with pytest.raises(TypeError):
            made.run(*wrong)
    assert made.run(dyn_ros.Data(pair.model), pair.model, 0, ()) == -1


def test_python_alone_needs_no_extension():
    code = (
        "import numpy as np, dyn_ros\nfrom dyn_ros.engine.machine_code import extension\n"
        'xml = \'<robot name="a"><link name="b"/></robot>\'\n'
        "model = dyn_ros.Model.from_urdf(xml, 'planar')\n"
        "dyn_ros.rnea(model, dyn_ros.Data(model), *np.zeros((3, 3)))\n"
        "assert not extension.native.cache_info().currsize"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
