# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Access to undocumented parts of rclpy, which no other module uses.

`test_rclpy_internals.py` tests the features of the nodes that depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from rclpy.lifecycle import LifecycleNode


def state_label(node: LifecycleNode) -> str:
    """Return the state of a node's lifecycle, such as "active".

    A node can ask for its state only by a request to its own service ~/get_state, which nothing
    answers while the node waits for it.
    """
    label: str = node._state_machine.current_state[1]
    return label


def parameter_overrides(node: LifecycleNode) -> list[str]:
    """Return the names of the parameters that files and arguments set for a node.

    rclpy ignores those that are not declared, and has no method that names them.
    """
    return list(node._parameter_overrides)


def answer_invalid_transitions(node: LifecycleNode, reject: Callable[[], object]) -> None:
    """Answer requests for a transition that the current state does not have, and call `reject`.

    In jazzy, the callback of ~/change_state, which a subclass cannot override, raises an exception
    for such a request, and the client would wait forever. The exception has no type of its own and
    is recognized by its text. In kilted, rclpy answers.
    """
    service = node._service_change_state
    change = service.callback

    def change_or_reject(request: Any, response: Any) -> Any:
        try:
            return change(request, response)
        except Exception as error:
            if "Transition is not registered" not in str(error):
                raise
            reject()
            return response

    service.callback = change_or_reject


def defer_responses(service: Any) -> Any:
    """Let callbacks of a service return a `Future` of the response; return the service.

    rclpy's executors pass what the callback returns, with the header of the request, to the
    method `send_response`. Callbacks that are coroutines are the documented way, but its events
    executor cannot run them.
    """
    send = service.send_response

    def send_response(response: Any, header: Any) -> None:
        if isinstance(response, Future):
            response.add_done_callback(lambda done: send(done.result(), header))
        else:
            send(response, header)

    service.send_response = send_response
    return service


def publish_bytes(publisher: Any, data: bytes) -> None:
    """Publish a serialized message.

    `publish` also checks the type and that the publisher is active, which takes a fifth of the
    time. Only active nodes call this function.
    """
    publisher.handle.publish_raw(data)


def subscription_count(publisher: Any) -> int:
    """Return the number of subscriptions to a publisher's topic.

    The publisher's own method takes four times as long, because it protects the publisher from
    being destroyed by another thread; a node has one thread.
    """
    count: int = publisher.handle.get_subscription_count()
    return count
