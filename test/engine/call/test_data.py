# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Data: what it holds, and the memory of large batches."""

import copy
import gc
import pickle
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

import dyn_ros
import peer
from dyn_ros.engine.call import batch, workspace
from dyn_ros.engine.call import data as data_module
from dyn_ros.engine.call.data import BUSY
from dyn_ros.engine.machine_code.declare import JIT

COUNT = 3000  # states whose matrices M count as a large result


def large():
    pair = peer.new_pair("solo12", "floating")
    return pair.model, pair.data, pair.states(COUNT)[0]


def address(array):
    return array.__array_interface__["data"][0]


def test_a_batch_result_that_somebody_holds_is_never_written_over():
    model, data, q = large()
    first = dyn_ros.crba(model, data, q)
    kept, before = first[7:9, 1], first[7:9, 1].copy()
    taken = address(first)
    del first  # a view of it is still there
    second = dyn_ros.crba(model, data, q[::-1])
    assert address(second) != taken
    assert np.array_equal(kept, before)


def test_memory_of_a_large_result_is_taken_again():
    model, data, q = large()
    taken = address(dyn_ros.crba(model, data, q))
    again = dyn_ros.crba(model, data, q[::-1])
    assert address(again) == taken
    peer.close(again[0], dyn_ros.crba(model, data, q[-1]))
    assert type(again) is np.ndarray and again.flags.writeable


def test_memory_of_many_results_goes_back_when_they_go():
    model, data, q = large()
    held = [dyn_ros.crba(model, data, q) for _ in range(100)]
    taken = {address(M) for M in held}
    assert len(taken) == 100
    del held
    assert len(data._buffer_pool._free) < 50
    assert address(dyn_ros.crba(model, data, q)) in taken


def test_memory_that_went_back_is_limited_and_the_last_is_kept(monkeypatch):
    monkeypatch.setattr(workspace, "MAX_FREE_SIZE", 3 << 20)
    pool = workspace.BufferPool()
    held = [pool.array((1 << 17,)) for _ in range(5)]  # 1 MB each
    taken = [address(array) for array in held]
    while held:
        del held[0]
    assert sum(each.nbytes for each in pool._free.values()) == 3 << 20
    held = [pool.array((1 << 17,)) for _ in range(3)]
    assert [address(array) for array in held] == taken[:1:-1]


def test_memory_of_another_size_is_not_taken():
    pool = workspace.BufferPool()
    taken = address(pool.array((1 << 18,)))
    small = pool.array((1 << 17,))
    assert address(small) != taken and address(pool.array((2, 1 << 17))) == taken


def test_the_description_that_copies_share_cannot_be_changed():
    model = peer.new_pair("panda").model
    for each in (model, copy.copy(model), pickle.loads(pickle.dumps(model))):
        for array in (
            each.tree.joints[1].placement,
            each.tree.joints[1].axis,
            each.tree.frames[1].placement,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0


def test_a_large_result_outlives_its_data_and_pickles():
    model, data, q = large()
    M = dyn_ros.crba(model, data, q)
    expected = M[5].copy()
    del data
    assert np.array_equal(pickle.loads(pickle.dumps(M))[5], expected)
    assert np.array_equal(copy.deepcopy(M)[5], expected)
    assert np.array_equal(M[5], expected)


def test_placements_are_placements_before_any_call():
    pair = peer.new_pair("solo12", "floating")
    assert np.array_equal(pair.data.oMi, np.tile(np.eye(4), (pair.model.njoints, 1, 1)))
    assert len(pair.data.oMf) == len(pair.model.frame_names)


def test_model_and_data_that_are_copied_together_stay_together():
    pair = peer.new_pair("solo12", "floating")
    q = pair.state(1)[0]
    expected = dyn_ros.crba(pair.model, pair.data, q).copy()
    for both in ((pair.model, pair.data), (pair.data, pair.model)):
        for copied in (copy.deepcopy(both), pickle.loads(pickle.dumps(both))):
            model, data = sorted(copied, key=lambda each: isinstance(each, dyn_ros.Data))
            assert np.array_equal(dyn_ros.crba(model, data, q), expected)


def test_what_was_computed_survives_copies():
    pair = peer.new_pair("solo12", "floating")
    q = pair.state(1)[0]
    J = dyn_ros.joint_jacobians(pair.model, pair.data, q)
    for other in (
        copy.copy(pair.data),
        copy.deepcopy(pair.data),
        pickle.loads(pickle.dumps(pair.data)),
    ):
        assert np.array_equal(other.J, J) and not np.shares_memory(other.J, J)
        dyn_ros.joint_jacobians(other.model, other, pair.state(2)[0])
        assert not np.array_equal(other.J, J)


def test_a_field_that_only_the_pickling_version_had_is_left_out():
    pair = peer.new_pair("panda")
    M = dyn_ros.crba(pair.model, pair.data, pair.state(1)[0])
    restore, (model, arrays, dtype) = pair.data.__reduce__()
    other = restore(model, {"of_another_version": (np.zeros(3), (3,)), **arrays}, dtype)
    assert np.array_equal(other.M, M) and not hasattr(other, "of_another_version")


def test_results_can_be_set_but_not_replaced():
    pair = peer.new_pair("solo12", "floating")
    data, tau = pair.data, pair.data.tau
    with pytest.raises(AttributeError, match=r"data\.tau\[\.\.\.\] = values"):
        data.tau = np.ones(pair.model.nv)
    with pytest.raises(AttributeError, match=r"data\.kinetic_energy\[\.\.\.\] = values"):
        data.kinetic_energy = 1.0
    with pytest.raises(AttributeError, match=r"for the other model"):
        data.model = copy.deepcopy(pair.model)
    data.tau[...] = 1.0
    data.tau += 1.0
    data.kinetic_energy[...] = 3.0
    assert data.tau is tau and np.array_equal(tau, np.full(pair.model.nv, 2.0))
    assert data.kinetic_energy == 3.0


def test_a_result_that_no_cache_holds_is_that_of_its_parts():
    pair = peer.new_pair("talos_reduced", "floating")
    model, data, q = pair.model, pair.data, pair.states(5900)[0]
    large = dyn_ros.crba(model, data, q, threads=2)
    assert large.size > 1 << 23
    assert large.flags.writeable and address(large) % 64 == 0 and address(large[1]) % 64 == 0
    for rows in (slice(0, 9), slice(2944, 2960), slice(-13, None)):
        assert np.array_equal(large[rows], dyn_ros.crba(model, data, q[rows]))
    assert not dyn_ros.crba(model, data, q[0])[np.all(large == 0.0, axis=0)].any()


@pytest.mark.parametrize(
    "robot, root_joint", [("talos_reduced", "floating"), ("solo12", "planar"), ("panda", None)]
)
def test_a_result_in_memory_of_another_one_is_that_of_each_state(robot, root_joint):
    pair = peer.new_pair(robot, root_joint, "ignore")
    model, data, (q, v, a, _) = pair.model, pair.data, pair.states(40)
    for compute in (dyn_ros.rnea_derivatives, dyn_ros.rnea_second_order_derivatives):
        for result in compute(model, data, q, v, a):
            result[:] = np.nan
        del result
        together = compute(model, data, q, v, a)
        for n in (0, 17, 39):
            for all_, one in zip(together, compute(model, dyn_ros.Data(model), q[n], v[n], a[n])):
                peer.close(all_[n], one)


def test_results_that_no_cache_holds_together_are_those_of_their_parts():
    pair = peer.new_pair("talos_reduced", "floating")
    model, data, (q, v, a, _) = pair.model, pair.data, pair.states(1000)
    together = dyn_ros.rnea_derivatives(model, data, q, v, a)
    assert max(each.size for each in together) < 1 << 22 < sum(each.size for each in together)
    for rows in (slice(0, 9), slice(496, 512), slice(-13, None)):
        for all_, some in zip(
            together, dyn_ros.rnea_derivatives(model, data, q[rows], v[rows], a[rows])
        ):
            assert np.array_equal(all_[rows], some)


ONE_BIG = """
import numpy as np
import dyn_ros
links = "".join(f'<link name="l{k}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
                'ixy="0" ixz="0" iyz="0"/></inertial></link>' for k in range(257))
joints = "".join(f'<joint name="j{k:03}" type="continuous"><parent link="l{k // 2}"/>'
                 f'<child link="l{k + 1}"/><origin xyz="0 0 1"/><axis xyz="0 {k % 2} '
                 f'{1 - k % 2}"/></joint>' for k in range(256))
model = dyn_ros.Model.from_urdf(f'<robot name="tree">{links}{joints}</robot>')
data, rng = dyn_ros.Data(model), np.random.default_rng(0)
q, v = rng.normal(size=(2, 63, model.nv))
found = dyn_ros.all_terms(model, data, q, v)
assert found.M.size < 1 << 22 < sum(each.size for each in found) and found.nle.nbytes < 1 << 17
for name, all_, one in zip(found._fields, found, dyn_ros.all_terms(model, data, q[62], v[62])):
    assert np.allclose(all_[62], one, rtol=1e-10, atol=1e-10 * np.abs(one).max()), name
"""


def test_small_results_beside_one_that_no_cache_holds():
    """They are not aligned, so they are not stored past the caches."""
    subprocess.run(
        [sys.executable, "-c", ONE_BIG], check=True, timeout=300, cwd=Path(peer.__file__).parent
    )


# --- threads


def worker_threads():
    return [thread for thread in threading.enumerate() if "dyn_ros-batch" in thread.name]


@pytest.mark.skipif(not JIT, reason="without a compiler there is one thread")
def test_threads_wait_for_the_next_batch_and_end_with_their_data():
    model, data, q = large()
    others = worker_threads()
    kept = set()
    for threads in (3, 3, 2, 3):
        dyn_ros.crba(model, data, q, threads=threads)
        now = set(worker_threads()).difference(others)
        assert kept <= now and len(now) == 2
        kept = now
    del data
    for thread in kept:
        thread.join(10.0)
        assert not thread.is_alive()


FORKED = """
import os, sys
import numpy as np
import dyn_ros, peer
pair = peer.new_pair("solo12", "floating")
q = pair.states(100)[0]
expected = dyn_ros.crba(pair.model, pair.data, q, threads=2).copy()
child = os.fork()
same = np.array_equal(expected, dyn_ros.crba(pair.model, pair.data, q, threads=2))
if not child:
    os._exit(not same)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not same)
"""


def test_a_forked_process_has_threads_of_its_own():
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        check=True,
        timeout=60,
        cwd=Path(peer.__file__).parent,
    )


FORKED_DURING_A_CALL = """
import os, signal, sys, threading
import dyn_ros, peer
from dyn_ros.engine.call import data as data_module

pair, other = peer.new_pair("panda"), peer.new_pair("panda")
q = pair.state(1)[0]
held, end = threading.Event(), threading.Event()

def hold():
    with data_module._changing_owner:
        held.set()
        end.wait()

threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(20)                    # ends a child that waits for the lock
    dyn_ros.generalized_gravity(pair.model, pair.data, q)
    with data_module._changing_owner:   # as in a signal handler
        dyn_ros.generalized_gravity(other.model, other.data, q)
    os._exit(0)
status = os.waitpid(child, 0)[1]
end.set()
sys.exit(status != 0)
"""


def test_a_process_that_is_forked_during_a_call_of_another_thread_can_call():
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED_DURING_A_CALL],
        check=True,
        timeout=60,
        cwd=Path(peer.__file__).parent,
    )


FORKED_WHILE_COMPILING = """
import os, signal, sys, threading, time
import numpy as np
import dyn_ros, peer
from dyn_ros.engine.machine_code import compiler
pair = peer.new_pair("double_pendulum")

def compile():
    with compiler._lock:
        started.set()
        time.sleep(0.5)

started, compiling = threading.Event(), threading.Thread(target=compile)
compiling.start()
started.wait()
child = os.fork()
signal.alarm(30)
M = dyn_ros.crba(pair.model, pair.data, pair.state(1)[0])
if not child:
    os._exit(not np.isfinite(M).all())
compiling.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_process_that_is_forked_while_a_thread_compiles_can_compile():
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED_WHILE_COMPILING],
        check=True,
        timeout=60,
        cwd=Path(peer.__file__).parent,
    )


def test_no_part_of_a_batch_that_was_interrupted_runs_on():
    _, data, _ = large()
    ended = []

    def part(start):
        if start == 0:
            raise KeyboardInterrupt
        time.sleep(0.2)
        ended.append(start)

    with pytest.raises(KeyboardInterrupt):
        data._threads.share(part, range(0, 16, 8))
    done = list(ended)
    time.sleep(0.3)
    assert ended == done
    assert data._threads.share(lambda start: start, range(0, 16, 8)) == [0, 8]


def test_no_part_of_a_batch_that_was_interrupted_twice_runs_on():
    _, data, _ = large()
    ended, has_begun = [], threading.Event()

    def part(start):
        if start == 0:
            has_begun.wait(10.0)
            raise KeyboardInterrupt
        has_begun.set()
        time.sleep(0.1)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
        ended.append(start)

    with pytest.raises(KeyboardInterrupt):
        data._threads.share(part, range(0, 16, 8))
    assert data._threads.share(lambda start: list(ended), range(0, 16, 8)) == [[8], [8]]


INTERRUPTED = """
import faulthandler, random, signal, time
from dyn_ros.engine.call.worker_threads import WorkerThreads
faulthandler.dump_traceback_later(30.0, exit=True)
threads, end, interruptions = WorkerThreads(), time.monotonic() + 5.0, 0
signal.signal(signal.SIGALRM, signal.default_int_handler)
while time.monotonic() < end:
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 1e-4))
            threads.share(lambda start: start, range(0, 24, 8))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    except KeyboardInterrupt:
        interruptions += 1
assert interruptions > 100
assert threads.share(lambda start: start, range(0, 24, 8)) == [0, 8, 16]
"""


def test_ctrl_c_at_any_instruction_blocks_no_later_batch_and_no_exit():
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_error_of_a_part_is_raised_once_all_parts_have_ended():
    _, data, _ = large()
    ended = []

    def part(start):
        if start == 8:
            raise ZeroDivisionError
        time.sleep(0.1)
        ended.append(start)

    with pytest.raises(ZeroDivisionError):
        data._threads.share(part, range(0, 16, 8))
    assert ended == [0]
    assert data._threads.share(lambda start: start, range(0, 16, 8)) == [0, 8]


def test_a_batch_needs_no_thread(monkeypatch):
    """Where the system allows no more."""

    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    pair = peer.new_pair("solo12", "floating")
    q = pair.states(100)[0]
    assert np.array_equal(
        dyn_ros.crba(pair.model, pair.data, q, threads=3), dyn_ros.crba(pair.model, pair.data, q)
    )


@pytest.mark.skipif(not JIT, reason="without a compiler there are no parts")
def test_a_part_of_a_batch_that_runs_on_keeps_its_table_of_constraints(monkeypatch):
    """After a second Ctrl-C the caller and its Data may be gone."""
    pair, parts = peer.new_pair("panda"), []
    data, (q, v, _, _) = pair.data, pair.states(16)

    def interrupted(data, size, threads, run):
        parts.append(run)
        raise KeyboardInterrupt

    monkeypatch.setattr(batch, "run_in_threads", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dyn_ros.vereshchagin(pair.model, data, q, v, np.eye(6), np.zeros(6), "panda_hand")
    tables = [weakref.ref(table.numbers) for table in data._packed_constraints.values()]
    data._packed_constraints.clear()
    gc.collect()
    assert [table() is not None for table in tables] == [True]
    assert parts[0](0, 0, 16) == 0


# --- one thread at a time


def in_thread(work):
    """What ``work`` returns or raises in a thread of its own."""
    found = []

    def run():
        try:
            found.append(work())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, name="another")
    thread.start()
    thread.join()
    return found[0]


def gravity(pair, count=None):
    q = pair.state(1)[0] if count is None else pair.states(count)[0]
    return dyn_ros.generalized_gravity(pair.model, pair.data, q, threads=2).copy()


@pytest.mark.parametrize("count", [None, 20], ids=["one", "batch"])
def test_a_second_thread_gets_an_error_until_the_first_one_releases(count):
    pair = peer.new_pair("solo12", "floating")
    expected = gravity(pair, count)
    for _ in range(2):  # by the checked path, and by the compiled one
        error = in_thread(lambda: gravity(pair, count))
        assert isinstance(error, RuntimeError)
        assert "belongs to thread 'MainThread'" in str(error) and "'another'" in str(error)
    assert np.array_equal(gravity(pair, count), expected)
    pair.data.release()
    assert np.array_equal(in_thread(lambda: gravity(pair, count)), expected)


def test_a_data_whose_thread_has_ended_is_free():
    pair = peer.new_pair("solo12", "floating")
    expected = in_thread(lambda: gravity(pair))
    assert np.array_equal(gravity(pair), expected)
    assert isinstance(in_thread(pair.data.release), RuntimeError)


def test_a_call_in_the_midst_of_a_batch_gets_an_error():
    pair = peer.new_pair("solo12", "floating")
    gravity(pair)

    def call():
        for count in (None, 20):
            with pytest.raises(RuntimeError, match="in use by a batch"):
                gravity(pair, count)
            assert isinstance(in_thread(lambda count=count: gravity(pair, count)), RuntimeError)

    pair.data._run_busy(call)
    gravity(pair, 20)


def test_a_batch_that_was_interrupted_anywhere_leaves_its_data_usable():
    pair = peer.new_pair("solo12", "floating")
    expected = gravity(pair)
    pair.data._claim(BUSY)  # as if Ctrl-C had come right before or after the batch
    assert isinstance(in_thread(lambda: gravity(pair)), RuntimeError)
    assert np.array_equal(gravity(pair, 20), gravity(pair, 20))
    pair.data._claim(BUSY)
    assert np.array_equal(gravity(pair), expected)


@pytest.mark.skipif(not JIT, reason="no part runs on without a compiler")
def test_an_interrupted_batch_leaves_its_memory_to_parts_that_run_on(monkeypatch):
    pair = peer.new_pair("solo12", "floating")
    expected = gravity(pair, 20)
    ((*before,),) = pair.data._batch_spaces.values()
    pair.data._prepared_batches.clear()  # short batches run in one thread from the second call on
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(batch, "run_in_threads", lambda *_: signal.raise_signal(signal.SIGINT))
        gravity(pair, 20)
    assert np.array_equal(gravity(pair, 20), expected)
    ((*after,),) = pair.data._batch_spaces.values()
    assert len(before) == 2 and not set(before) & set(after)


def test_a_batch_of_another_data_does_not_make_an_interrupted_one_busy():
    pair, other = (peer.new_pair("solo12", "floating") for _ in range(2))
    expected = gravity(pair)
    pair.data._claim(BUSY)  # as if Ctrl-C had come right before the batch
    assert np.array_equal(other.data._run_busy(lambda: gravity(pair)), expected)


def test_a_signal_handler_can_call_while_another_data_changes_its_owner():
    pair, other = (peer.new_pair("solo12", "floating") for _ in range(2))
    expected = gravity(other)
    gravity(pair)
    with data_module._changing_owner:
        assert np.array_equal(gravity(other), expected)
        gravity(other, 20)


def test_the_owner_changes_in_one_thread_at_a_time():
    pair = peer.new_pair("solo12", "floating")
    with data_module._changing_owner:
        thread = threading.Thread(target=gravity, args=[pair])
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()


def test_threads_compute_after_an_interruption():
    _, data, _ = large()

    def interrupted(start):
        if start == 0:
            raise KeyboardInterrupt

    def thread_of_part(start):
        time.sleep(0.2)
        return threading.get_ident()

    data._threads.share(lambda start: start, range(0, 16, 8))
    with pytest.raises(KeyboardInterrupt):
        data._threads.share(interrupted, range(0, 16, 8))
    assert len(set(data._threads.share(thread_of_part, range(0, 16, 8)))) == 2


@pytest.mark.skipif(not JIT, reason="nothing is compiled, and nothing runs without the GIL")
def test_a_data_that_is_released_during_a_call_gives_an_error():
    """As a signal handler may do."""
    pair = peer.new_pair("solo12", "floating")
    pair.data._claim = lambda owner: None
    with pytest.raises(RuntimeError, match="data was released during the call"):
        gravity(pair)


TWO_THREADS = """
import sys, threading, time
import numpy as np
import dyn_ros, peer
pair = peer.new_pair("panda")
model, data = pair.model, pair.data
q, v, a, tau = pair.states(200)
alpha, beta = np.eye(6)[:, :3], np.zeros(3)
tip = "panda_hand"
own = dyn_ros.Data(model)
rnea = dyn_ros.rnea(model, own, q[0], v[0], a[0]).copy()
nu = dyn_ros.vereshchagin(model, own, q, v, alpha, beta, tip).nu
errors, wrong, end = [], [], time.monotonic() + 3.0

def work(seed):
    n = 0
    while time.monotonic() < end:
        n += 1
        try:
            found = dyn_ros.vereshchagin(model, data, q, v, alpha, beta, tip,
                                         tolerance=1e-12 + 1e-18 * n + 1e-22 * seed, threads=2)
            tau = dyn_ros.rnea(model, data, q[0], v[0], a[0])
            if not (np.array_equal(found.nu, nu) and np.array_equal(tau, rnea)):
                wrong.append(n)
        except Exception as error:
            errors.append(error)

threads = [threading.Thread(target=work, args=[seed]) for seed in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert not wrong
assert errors and all(type(error) is RuntimeError and "data: " in str(error) for error in errors)
"""


def test_two_threads_that_share_a_data_get_errors_and_no_wrong_number():
    subprocess.run(
        [sys.executable, "-c", TWO_THREADS], check=True, timeout=300, cwd=Path(peer.__file__).parent
    )


class Calling:
    """An argument that calls with the same Data while it is converted."""

    def __init__(self, values, call):
        self._values, self._call = values, call

    def __array__(self, dtype=None, copy=None):
        self._call()
        return np.array(self._values)


def test_a_call_survives_what_its_arguments_call():
    pair = peer.new_pair("panda")
    model, data, (q, v, _, _) = pair.model, pair.data, pair.state(1)
    given, tip, alpha = (model, data, q, v), "panda_hand", np.eye(6)[:, :3]
    expected = dyn_ros.vereshchagin(*given, alpha, [1.0, 2.0, 3.0], tip, tolerance=1e-13).nu.copy()

    def disturb():
        for n in range(70):  # more tables than a Data keeps
            dyn_ros.vereshchagin(*given, alpha[:, :2], [0.0, 0.0], tip, tolerance=1e-9 * n)

    beta = Calling([1.0, 2.0, 3.0], disturb)
    found = dyn_ros.vereshchagin(*given, alpha, beta, tip, tolerance=1e-13)
    assert found.nu.shape == (3,) and np.array_equal(found.nu, expected)


# --- models and copies of them


def test_copies_of_a_model_share_nothing():
    pair = peer.new_pair("panda")
    expected = gravity(pair)
    for copied in (copy.copy(pair.model), copy.deepcopy(pair.model)):
        copied.set_payload("cup", "panda_hand", 3.0, [0, 0, 0.1], 0.01 * np.eye(3))
        copied.gravity = [1.0, 2.0, 3.0]
        copied.armature[:] = 1.0
        assert np.array_equal(gravity(pair), expected)
        assert not pair.model.payloads and not pair.model.armature.any()


def test_a_model_is_initialized_once():
    pair = peer.new_pair("panda")
    expected = gravity(pair)
    expected_error = r"Model\('panda'.*\) is already initialized; create another"
    with pytest.raises(TypeError, match=expected_error):
        pair.model.__init__(peer.pair("solo12").model.tree)
    assert np.array_equal(gravity(pair), expected)


def test_a_data_is_initialized_once():
    pair = peer.new_pair("panda")
    with pytest.raises(TypeError, match="already initialized; create another Data"):
        pair.data.__init__(peer.pair("ur5").model)
    with pytest.raises(AttributeError, match=r"data\.M cannot be deleted"):
        del pair.data.M


@pytest.mark.parametrize("wrong", [3, None, "panda.urdf"])
def test_data_is_made_for_a_model(wrong):
    with pytest.raises(TypeError, match=r"model: expected a dyn_ros.Model, got (int|None|str)"):
        dyn_ros.Data(wrong)


def test_every_public_field_is_there_before_any_call():
    pair = peer.new_pair("solo12", "floating")
    data = dyn_ros.Data(pair.model)
    assert {"M", "tau", "oMf", "ddq"} <= set(dir(data))
    assert data.M.shape == (18, 18) and not data.M.any() and data.M is data.M
    with pytest.raises(AttributeError, match="no attribute 'mass_matrix'"):
        data.mass_matrix  # noqa: B018
    data.mine = np.zeros(3)
    data.mine = np.ones(3)


# --- memory

CHAIN = """
import resource
import numpy as np
import dyn_ros
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
links = "".join(f'<link name="l{k}"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" '
                'ixy="0" ixz="0" iyz="0"/></inertial></link>' for k in range(COUNT + 1))
joints = "".join(f'<joint name="j{k:04}" type="continuous"><parent link="l{k}"/>'
                 f'<child link="l{k + 1}"/><origin xyz="0 0 1"/><axis xyz="0 {k % 2} '
                 f'{1 - k % 2}"/></joint>' for k in range(COUNT))
model = dyn_ros.Model.from_urdf(f'<robot name="chain">{links}{joints}</robot>')
data, rng = dyn_ros.Data(model), np.random.default_rng(0)
q, v, a = rng.normal(size=(3, model.nv))
tau = dyn_ros.rnea(model, data, q, v, a).copy()
M = dyn_ros.crba(model, data, q)
nle = dyn_ros.nonlinear_effects(model, data, q, v)
scale = np.abs(M) @ np.abs(a) + np.abs(nle)
assert np.all(np.abs(M @ a + nle - tau) < 1e-11 * scale)
ddq = dyn_ros.aba(model, data, q, v, tau)
assert np.all(np.abs(M @ ddq + nle - tau) < 1e-9 * scale)
dq, dv, dM = dyn_ros.rnea_derivatives(model, data, q, v, a)
assert np.array_equal(dM, dM.T) and np.isfinite(dq).all() and np.isfinite(dv).all()
e = 1e-6 * rng.normal(size=model.nv)
change = dyn_ros.rnea(model, data, q, v + e, a).copy()
change -= dyn_ros.rnea(model, data, q, v - e, a)
assert np.abs(change - 2.0 * dv @ e).max() < 1e-6 * np.abs(2.0 * dv @ e).max()
"""


def test_a_chain_of_1000_joints_fits_into_2_gb():
    count = 1000 if JIT else 30
    subprocess.run(
        [sys.executable, "-c", CHAIN.replace("COUNT", str(count))],
        check=True,
        timeout=300,
        cwd=Path(peer.__file__).parent,
    )


def test_repr_names_a_few_computed_results():
    pair = peer.new_pair("panda")
    assert repr(pair.data) == f"Data({pair.model!r}; computed: none)"
    dyn_ros.crba(pair.model, pair.data, pair.state(1)[0])
    assert repr(pair.data).endswith("; computed: M)")
    dyn_ros.all_terms(pair.model, pair.data, *pair.state(1)[:2])
    assert len(repr(pair.data)) < 200 and " and " in repr(pair.data)
