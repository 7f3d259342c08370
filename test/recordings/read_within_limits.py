# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read a recording (argv[1]) of a robot (argv[2]) in a process with limits of its resources.

Prints the number of states, what is wrong with the recording, and the largest memory [bytes].
"""

import json
import resource
import sys
from pathlib import Path

import dyn_ros

CPU_TIME = 30  # s
FILE_SIZE = 1_000_000_000  # bytes of a file in the temporary folder
ADDRESS_SPACE = 6_000_000_000  # bytes

resource.setrlimit(resource.RLIMIT_CPU, (CPU_TIME, CPU_TIME))
resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
path, robot, *limit = sys.argv[1:]
options = {"max_chunk_size": float(limit[0])} if limit else {}
count = 0
try:
    recording = dyn_ros.logs.read(path, dyn_ros.Model.from_urdf_file(robot), **options)
    count, message = len(recording), "; ".join(recording.problems)
except (ValueError, OSError) as error:
    message = str(error)
status = Path("/proc/self/status").read_text()  # getrusage includes the parent before exec
memory = 1024 * int(status.partition("VmHWM:")[2].split()[0])
print(json.dumps([count, message, memory]))
