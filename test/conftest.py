# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Keeps the tests apart from every other ROS graph, and lets them run without ROS.

Nothing leaves this machine, each test process (and what it starts) has a DDS domain and a log
folder of its own, and both are settled before anything imports rclpy. Modules of this folder,
such as the peer harness, are importable from every test.

A run of all tests first compiles all functions, in parallel. With pytest-xdist and
`-n 2 --dist loadgroup`, one process runs the tests that use ROS, and one those in a browser.
"""
import gc
import importlib.util
import os
import random
import signal
import socket
import sys
import tempfile
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
USE_ROS = ("demo", "nodes", "viewer/test_browser.py")

if importlib.util.find_spec("dyn_ros") is None:     # no `make setup`: the engine from its sources
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
for name in ("LINES", "COLUMNS"):       # readline exports them; children may have another terminal
    os.environ.pop(name, None)

# Ctrl-C is ignored in what a script starts in the background, and in all that this starts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def other_domain():
    """A domain that no test process has as its own, for what must not meet the other tests."""
    domain, claim = claim_domain()
    yield domain
    claim.close()


@pytest.hookimpl(tryfirst=True)             # before pytest-xdist starts its processes
def pytest_sessionstart(session):
    """Compile all functions, in several processes, if all tests are going to run."""
    config = session.config
    runs_all = TESTS in [Path(argument).resolve() for argument in config.args]
    if not runs_all or config.option.collectonly or hasattr(config, "workerinput"):
        return
    import dyn_ros
    from dyn_ros.logs.kernels import KERNELS
    from dyn_ros.nodes.repeated_kernel import TAKE
    announced = []

    def progress(done, total, name):
        if name and not announced:
            announced.append(name)
            print(f"compiling {total - done} of {total} functions, which takes a few minutes")

    dyn_ros.precompile(progress=progress, more=(*KERNELS, TAKE))


def pytest_collection_modifyitems(config, items):
    """Have pytest-xdist run a group of tests in one process: those of a file, or that use ROS."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        place = item.path.relative_to(TESTS)
        uses_ros = any(place.is_relative_to(one) for one in USE_ROS)
        item.add_marker(pytest.mark.xdist_group(
            "ros" if uses_ros else "browser" if "browser" in item.fixturenames
            else item.path.stem))


def pytest_collection_finish():
    """Leave the tests out of garbage collection, which looks at all of them for 0.35 s."""
    gc.collect()
    gc.freeze()
