# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures `dyn_ros log` on a large MCAP file: time and memory, with one worker and with two.

    python benchmarks/recordings.py [--messages 10000000] [--folder FOLDER]

Joint states of the 7-joint arm at 1 kHz, with positions, velocities and efforts, are written to the
folder and removed at the end. Decoding is one process that reads them all into arrays, part by
part; the command computes residuals and writes them as Parquet. The shortest of three times counts.
Memory is the largest sum of the proportional set sizes of all processes of a command.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "test")]

from logs.memory import largest_memory  # noqa: E402
from logs.recorded import synthetic_mcap  # noqa: E402

import dyn_ros  # noqa: E402
from dyn_ros.cdr.decode import Decoder  # noqa: E402
from dyn_ros.recordings.formats.sources import open_source, read_span  # noqa: E402

ARM = HERE.parent / "dyn_ros" / "robots" / "arm7.urdf"
BYTES_PER_MEGABYTE = 1e6
REPETITIONS = 3


def measure_decoding(path: Path) -> float:
    """Decode all joint states; return messages per second of processor time."""
    start, count, decoder = time.process_time(), 0, Decoder()
    source = open_source(path)
    for span in source.spans:
        count += len(read_span(path, span, {"/joint_states"}, decoder))
    return count / (time.process_time() - start)


def log_command(path: Path, out: Path, workers: int) -> list[str]:
    """Return the command that computes residuals of a recording."""
    return [
        sys.executable,
        "-m",
        "dyn_ros",
        "log",
        str(path),
        "--compute",
        "residual",
        "--out",
        str(out),
        "--workers",
        str(workers),
    ]


def measure_command(path: Path, out: Path, workers: int) -> float:
    """Run the command; return its time [s]."""
    start = time.perf_counter()
    subprocess.run(log_command(path, out, workers), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Make the file, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="with room for 20 GB per 100 million messages")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        path = folder / "recording.mcap"
        synthetic_mcap(
            path, dyn_ros.Model.from_urdf_file(ARM), options.messages, description=ARM.read_text()
        )
        print(f"{options.messages:,} messages, {path.stat().st_size / BYTES_PER_MEGABYTE:,.0f} MB")
        measure_decoding(path)  # fills the cache of compiled functions
        rate = measure_decoding(path)
        print(f"decoded: {rate / 1e6:.2f} million messages per second of processor time")
        times: dict[int, list[float]] = {1: [], 2: []}
        for repetition in range(REPETITIONS):
            for workers, durations in times.items():
                durations.append(
                    measure_command(path, folder / f"results{repetition}{workers}", workers)
                )
        for workers, durations in times.items():
            print(
                f"residuals as Parquet, {workers} workers: "
                f"{', '.join(f'{duration:.1f}' for duration in durations)} s; "
                f"{options.messages / min(durations) / workers / 1e6:.2f} million messages per "
                "second and worker"
            )
        print(f"two workers: {min(times[1]) / min(times[2]):.2f} times one")
        memory = largest_memory(log_command(path, folder / "memory", 2)).total
        print(f"memory of all processes, 2 workers: {memory / BYTES_PER_MEGABYTE:.0f} MB")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
