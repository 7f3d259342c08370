# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The end of a DDS participant, which Fast DDS may wait for forever."""

import time

QUIET = 5.0  # seconds


def end_participant(node):
    """Destroy the last node of a context and shut the context down.

    First it waits until no other node is left in the domain, at most `QUIET` seconds:
    `DomainParticipant::set_listener` of Fast DDS 2.14 and 3.2 never returns if another participant
    ends at the same time. Two of four processes that made and ended participants hung within 100.
    """
    end = time.monotonic() + QUIET
    while len(node.get_node_names()) > 1 and time.monotonic() < end:
        time.sleep(0.02)
    context = node.context
    node.destroy_node()
    context.try_shutdown()
