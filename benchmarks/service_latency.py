# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the latency of a Jacobian request, compared with an empty service, in one run.

A client sends successive requests for the 7-joint arm and measures the time until the response. In
turns of one second, the response comes from

- a node whose service of type dyn_ros/GetJacobian returns an empty response (with the events
  executor, as in dynamics_node, and with rclpy.spin, as in most nodes),
- `~/get_jacobian` of dynamics_node, with joint states at 100 Hz: for the latest state, for a state
  in the request, and with the time variation.

    python benchmarks/service_latency.py [--rounds 5]
"""

import argparse
import os
import subprocess
import sys
import time

from node_latency import ARM7, SPIN, quantile, start_node

EMPTY_SERVICE = (
    """
import sys
import rclpy
from dyn_ros.srv import GetJacobian

rclpy.init()
node = rclpy.create_node("empty", namespace=sys.argv[1])
node.create_service(GetJacobian, "~/get_jacobian", lambda request, response: response)
"""
    + SPIN
)


def start_empty(namespace, executor):
    return subprocess.Popen([sys.executable, "-c", EMPTY_SERVICE, namespace, executor])


class Client:
    """Client that calls services and measures the response times."""

    def __init__(self, kind, message):
        import rclpy
        from sensor_msgs.msg import JointState

        rclpy.init()
        self.kind = kind
        self.node = rclpy.create_node("service_latency_client")
        self.executor = rclpy.executors.SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.clients = {}
        publisher = self.node.create_publisher(JointState, "/node/joint_states", 10)
        self.node.create_timer(0.01, lambda: publisher.publish(message))

    def call(self, name, request):
        """Return the response and the response time [us]."""
        start = time.perf_counter()
        future = self.clients[name].call_async(request)
        while not future.done():
            self.executor.spin_once(1.0)
            assert time.perf_counter() < start + 10.0, f"{name}: no answer"
        return future.result(), 1e6 * (time.perf_counter() - start)

    def connect(self, name):
        self.clients[name] = self.node.create_client(self.kind, name)
        assert self.clients[name].wait_for_service(60.0), f"{name}: no such service"
        end = time.perf_counter() + 1.0  # until both processes have matched the service
        while time.perf_counter() < end:
            self.executor.spin_once(0.1)

    def times(self, name, request, seconds):
        """Return the response times [us] and the last response."""
        durations, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end:
            answer, duration = self.call(name, request)
            durations.append(duration)
        return durations, answer


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="seconds for each kind of response")
    options = parser.parse_args(argv)
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ.setdefault("ROS_DOMAIN_ID", str(1 + os.getpid() % 100))

    import array

    from sensor_msgs.msg import JointState

    import dyn_ros
    from dyn_ros.msg import RobotState
    from dyn_ros.nodes.dynamics_node import DynamicsNode
    from dyn_ros.srv import GetJacobian

    dyn_ros.precompile(list(DynamicsNode.kernels), batch=False)
    model = dyn_ros.Model.from_urdf_file(ARM7)
    position, velocity = array.array("d", [0.1] * model.nq), array.array("d", [0.2] * model.nv)
    message = JointState(name=list(model.joint_names), position=position, velocity=velocity)
    state = RobotState(name=list(model.joint_names), position=position, velocity=velocity)
    latest_state = GetJacobian.Request(frame="tool", reference_frame=2)
    state_in_request = GetJacobian.Request(frame="tool", reference_frame=2, state=state)
    time_variation = GetJacobian.Request(frame="tool", reference_frame=2, time_variation=True)
    calls = {
        "empty": ("/empty/empty/get_jacobian", latest_state),
        "empty, state in the request": ("/empty/empty/get_jacobian", state_in_request),
        "empty, rclpy.spin": ("/empty_spin/empty/get_jacobian", latest_state),
        "latest state": ("/node/dynamics/get_jacobian", latest_state),
        "with time variation": ("/node/dynamics/get_jacobian", time_variation),
        "state in the request": ("/node/dynamics/get_jacobian", state_in_request),
    }
    processes = [
        start_empty("/empty", "events"),
        start_empty("/empty_spin", "single"),
        start_node("/node", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL),
    ]
    try:
        client = Client(GetJacobian, message)
        for name, _ in calls.values():
            if name not in client.clients:
                client.connect(name)
        times = {call: [] for call in calls}
        for _ in range(options.rounds):
            for call, (name, request) in calls.items():
                client.call(name, request)
                new_times, answer = client.times(name, request, 1.0)
                assert answer.success != call.startswith("empty"), answer.message
                times[call] += new_times
    finally:
        for process in processes:
            process.terminate()
            process.wait()
    empty_time = quantile(times["empty"], 0.5)
    print(
        f"{'GetJacobian, response time [us]':34}{'p50':>8}{'p99':>8}{'to empty':>10}   "
        f"{model.njoints} joints"
    )
    for call in calls:
        p50, p99 = quantile(times[call], 0.5), quantile(times[call], 0.99)
        print(f"{call:34}{p50:8.0f}{p99:8.0f}{p50 / empty_time:10.2f}")


if __name__ == "__main__":
    main()
