# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Read recordings in processes with limits of their resources, forked to save their imports.

A line of standard input has, as JSON, the path of a recording, the path of a robot's description,
options of `dyn_ros.logs.read`, and a folder for temporary files. For each, a line of standard
output has the number of states, what is wrong with the recording, and the largest memory [bytes];
or the status of a process that ended without a result.
"""

import json
import os
import resource
import sys
import tempfile
from pathlib import Path

import lz4.frame  # noqa: F401
import mcap.reader  # noqa: F401
import pyarrow.csv  # noqa: F401
import pyarrow.parquet  # noqa: F401
import zstandard  # noqa: F401

import dyn_ros
from dyn_ros.recordings.formats import mcap_file, ros1_file, sqlite_file, table_file  # noqa: F401

CPU_TIME = 30  # s
FILE_SIZE = 1_000_000_000  # bytes of a file in the temporary folder
ADDRESS_SPACE = 6_000_000_000  # bytes


def read(path, robot, options, folder):
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_TIME, CPU_TIME))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    tempfile.tempdir = folder
    count = 0
    try:
        recording = dyn_ros.logs.read(path, dyn_ros.Model.from_urdf_file(robot), **options)
        count, message = len(recording), "; ".join(recording.problems)
    except (ValueError, OSError) as error:
        message = str(error)
    status = Path("/proc/self/status").read_text()  # getrusage includes the parent before fork
    memory = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps([count, message, memory]), flush=True)


for line in sys.stdin:
    child = os.fork()
    if not child:
        read(*json.loads(line))
        break
    _, status = os.waitpid(child, 0)
    if status:
        print(json.dumps(status), flush=True)
