# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The end of a DDS participant, which Fast DDS may wait for forever."""

import time

MAX_WAIT = 5.0  # seconds


def wait_until_alone(node):
    """Wait until no other node is left in the domain, at most `MAX_WAIT` seconds.

    To be called before the last node of a context ends, and with it its DDS participant:
    `DomainParticipant::set_listener` of Fast DDS 2.14 and 3.2 never returns if another participant
    ends at the same time. Two of four processes that made and ended participants hung within 100.
    """
    end = time.monotonic() + MAX_WAIT
    while len(node.get_node_names()) > 1 and time.monotonic() < end:
        time.sleep(0.02)
