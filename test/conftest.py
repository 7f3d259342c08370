# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the tests apart from every other ROS graph, and lets them run without ROS.

Nothing leaves this machine, each test process (and what it starts) has a DDS domain and a log
folder of its own, and both are settled before anything imports rclpy. Modules of this folder,
such as the peer harness, are importable from every test.

A run of all tests first compiles all functions, in parallel. With pytest-xdist, one process begins
with the tests of the nodes, and one with those in a browser and of the demo, one after the other.
"""

import faulthandler
import functools
import gc
import importlib.util
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
LONGEST = ["nodes", "live"]  # groups of tests
HANGS, RENEWED = 600.0, 30.0  # seconds
# Tests that --quick leaves out: they start processes or a browser, or identify whole robots.
SLOW = re.compile(
    r"/(demo|export|identification|logs|observer)/|browser|/nodes/(base/)?test_|/nodes/services/"
    r"|/nodes/markers/|/command/test_(?!arguments|options)|/drives/test_causes|/machine_code/test_c"
    r"|test_(docs|site|examples|launch_examples|package|troubleshooting|types|migration)|/call/test_data"
    r"|_reader\.py|test_excitation_message"
)

if importlib.util.find_spec("dyn_ros") is None:  # no `make setup`: the engine from its sources
    sys.path.append(str(TESTS.parent))


def claim_domain():
    """Return a domain from 1 to 100 that no other test process has, and what holds the claim.

    The claim is a bound TCP port, which the system frees however the process ends. It is one of
    those that DDS keeps for the domain over UDP, so that no other program is likely to have it.
    """
    for domain in random.sample(range(1, 101), 100):
        claim = socket.socket()
        try:
            claim.bind(("127.0.0.1", 7400 + 250 * domain))
        except OSError:
            claim.close()
        else:
            return domain, claim
    raise RuntimeError("other test processes hold all DDS domains from 1 to 100")


_domain, _claim = claim_domain()
_logs = tempfile.TemporaryDirectory(prefix="dyn_ros-test-logs-")
os.environ["ROS_DOMAIN_ID"] = str(_domain)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ["ROS_LOG_DIR"] = _logs.name
os.environ.pop("ROS_STATIC_PEERS", None)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads of two processes wait for each other
for name in ("LINES", "COLUMNS"):  # readline exports them; children may have another terminal
    os.environ.pop(name, None)

# Ctrl-C is ignored in what a script starts in the background, and in all that this starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


class Watch:
    """Ends the process of a test that hangs, and prints the stacks of all its threads.

    Pytest-xdist reports the test as failed and goes on in another process. It is rare: threads of
    Fast DDS can wait for each other when a publisher is created.

    The option of pytest starts a thread for each test and waits for its end, which takes
    milliseconds if other processes are busy. This is renewed at most every `RENEWED` seconds.
    """

    def __init__(self):
        self._stderr = os.dup(2)
        self._renew = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        if time.monotonic() > self._renew:
            self._renew = time.monotonic() + RENEWED
            faulthandler.dump_traceback_later(HANGS, exit=True, file=self._stderr)

    def pytest_exception_interact(self):
        self._renew = 0.0  # pytest has stopped it

    def pytest_sessionfinish(self):
        faulthandler.cancel_dump_traceback_later()


def pytest_configure(config):
    config.pluginmanager.register(Watch())
    config.addinivalue_line("markers", "long: runs only with --long")


@pytest.fixture(scope="module")
def other_domain():
    """A domain that no test process has as its own, for what must not meet the other tests."""
    domain, claim = claim_domain()
    yield domain
    claim.close()


@pytest.fixture
def one_start(monkeypatch):
    """Let `dyn_ros excite` improve one random motion in place of three."""
    from dyn_ros import identification

    search = functools.partial(identification.excite, starts=1)
    monkeypatch.setattr(identification, "excite", search)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist starts its processes
def pytest_sessionstart(session):
    """Compile all functions, in several processes, if all tests are going to run."""
    config = session.config
    runs_all = TESTS in [Path(argument).resolve() for argument in config.args]
    if (
        not runs_all
        or config.option.quick
        or config.option.collectonly
        or hasattr(config, "workerinput")
    ):
        return
    import dyn_ros
    from dyn_ros.logs.kernels import KERNELS

    announced = []

    def progress(done, total, name):
        if name and not announced:
            announced.append(name)
            print(f"compiling {total - done} of {total} functions, which takes a few minutes")

    dyn_ros.precompile(progress=progress, more=KERNELS)


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help="run one case of each test, and none that starts processes or takes seconds",
    )
    parser.addoption("--long", action="store_true", help="also run cases that take minutes in all")


def keep(config, items, is_kept):
    """Deselect all other tests."""
    config.hook.pytest_deselected(items=[item for item in items if not is_kept(item)])
    items[:] = [item for item in items if is_kept(item)]


def pytest_collection_modifyitems(config, items):
    """The longest groups are first, so that no process waits for one of them at the end."""
    order = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(group(item.nodeid), len(order)))
    if not config.option.long:
        keep(config, items, lambda item: not any(item.iter_markers("long")))
    if config.option.quick:
        functions = {}
        for item in items:
            if not SLOW.search(item.nodeid.split("::")[0]):
                functions.setdefault(item.nodeid.split("[")[0], item)
        chosen = set(functions.values())
        keep(config, items, chosen.__contains__)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Have pytest-xdist run a group of tests in one process.

    Its marks of groups have no effect with pytest 9.2, whose node ids cannot be changed.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class Groups(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return group(nodeid)

    return Groups(config, log)


def group(nodeid):
    """The group of a test: those of the nodes, those that run a demo or a browser, or a file."""
    file = nodeid.split("::")[0]
    if "/nodes/" in file:
        return "nodes"
    return "live" if "/demo/" in file or "browser" in file else file


def pytest_collection_finish():
    """Leave the tests out of garbage collection, which looks at all of them for 0.35 s."""
    gc.collect()
    gc.freeze()
