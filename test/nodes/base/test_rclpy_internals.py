# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Undocumented parts of rclpy that nodes use; a failure says what breaks."""

import contextlib
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="no ROS: run `make test`")

from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.executors import SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode
from rclpy.serialization import serialize_message
from std_msgs.msg import String
from std_srvs.srv import Trigger

from dyn_ros.nodes.base import rclpy_internals

EXECUTORS = [SingleThreadedExecutor]
with contextlib.suppress(ImportError):
    from rclpy.experimental import EventsExecutor

    EXECUTORS.append(EventsExecutor)


@pytest.fixture
def node(client):
    node = LifecycleNode("internals", namespace="/test_rclpy_internals", context=client.context)
    yield node
    node.destroy_node()


@pytest.fixture
def spin(node):
    """Spin the node until something is true."""
    executor = SingleThreadedExecutor(context=node.context)
    executor.add_node(node)

    def spin(is_done):
        for _ in range(500):
            if is_done():
                return True
            executor.spin_once(0.02)
        return False

    yield spin
    executor.shutdown()


def test_a_node_knows_the_state_of_its_lifecycle(node):
    why = "diagnostics cannot show the lifecycle state: LifecycleNode._state_machine has changed"
    assert hasattr(node, "_state_machine"), why
    assert rclpy_internals.state_label(node) == "unconfigured", why
    node.trigger_configure()
    assert rclpy_internals.state_label(node) == "inactive", why


def test_parameters_that_are_set_but_not_declared_are_known(client):
    arguments = ["--ros-args", "-p", "gravty:=1.0"]
    node = LifecycleNode("internals", context=client.context, cli_args=arguments)
    try:
        why = "misspelt parameters are not reported: Node._parameter_overrides has changed"
        assert rclpy_internals.parameter_overrides(node) == ["gravty"], why
    finally:
        node.destroy_node()


def test_invalid_transitions_are_answered(node, spin):
    why = (
        "a client of ~/change_state waits forever for the answer to an invalid transition: "
        "LifecycleNode._service_change_state or the text of the exception has changed"
    )
    assert callable(getattr(getattr(node, "_service_change_state", None), "callback", None)), why
    client = node.create_client(ChangeState, "~/change_state")
    request = ChangeState.Request()
    request.transition.id = Transition.TRANSITION_ACTIVATE  # not configured yet
    rejected, expected = [], []
    try:
        node._service_change_state.callback(request, ChangeState.Response())
    except Exception:  # of jazzy; kilted answers
        expected = [True]
    rclpy_internals.answer_invalid_transitions(node, lambda: rejected.append(True))
    answer = client.call_async(request)
    assert spin(answer.done) and rejected == expected, why
    assert not answer.result().success, why
    request.transition.id = Transition.TRANSITION_CONFIGURE
    answer = client.call_async(request)
    assert spin(answer.done) and answer.result().success and rejected == expected, why


@pytest.mark.parametrize("kind", EXECUTORS)
def test_a_response_can_be_sent_later(node, kind):
    why = (
        "services that answer later (weighing a payload, thresholds) never answer: executors "
        "no longer call Service.send_response of the object"
    )
    pending = Future()
    service = node.create_service(Trigger, "~/later", lambda request, response: pending)
    assert callable(getattr(service, "send_response", None)), why
    rclpy_internals.defer_responses(service)
    client = node.create_client(Trigger, "~/later")
    executor = kind(context=node.context)
    executor.add_node(node)
    answer = client.call_async(Trigger.Request())
    for _ in range(25):
        executor.spin_once(0.02)
    assert not answer.done(), why
    pending.set_result(Trigger.Response(success=True, message="later"))
    for _ in range(250):
        if answer.done():
            break
        executor.spin_once(0.02)
    assert answer.done() and answer.result().message == "later", why
    executor.shutdown()


def test_bytes_are_published_and_subscriptions_counted_by_the_handle(node, spin):
    why = (
        "outputs are not published, or not only when somebody subscribes: "
        "Publisher.handle no longer has publish_raw or get_subscription_count"
    )
    node.trigger_configure()
    publisher = node.create_lifecycle_publisher(String, "~/text", 10)
    node.trigger_activate()
    handle = getattr(publisher, "handle", None)
    for name in ("publish_raw", "get_subscription_count"):
        assert callable(getattr(handle, name, None)), why
    assert rclpy_internals.subscription_count(publisher) == 0, why
    received = []
    node.create_subscription(String, "~/text", received.append, 10)
    assert spin(lambda: rclpy_internals.subscription_count(publisher) == 1), why
    assert publisher.get_subscription_count() == 1
    rclpy_internals.publish_bytes(publisher, serialize_message(String(data="a text")))
    assert spin(lambda: received) and received[0].data == "a text", why


def test_other_errors_of_a_transition_are_raised():
    def change(request, response):
        raise RuntimeError("another error")

    node = SimpleNamespace(_service_change_state=SimpleNamespace(callback=change))
    rclpy_internals.answer_invalid_transitions(node, lambda: pytest.fail("not rejected"))
    with pytest.raises(RuntimeError, match="another error"):
        node._service_change_state.callback(None, None)
