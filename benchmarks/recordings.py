# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measures `dyn_ros log` on a large MCAP file: time and memory, with one worker and two.

    python benchmarks/recordings.py [--messages 10000000] [--folder FOLDER]

Joint states of the 7-joint arm at 1 kHz, with positions, velocities and efforts, are written to the
folder and removed at the end. Decoding is one process that reads them all into arrays, part by
part; the command computes residuals and writes them as Parquet. Memory is the largest sum of the
proportional set sizes of all processes of a command.
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

from logs.recorded import synthetic_mcap  # noqa: E402

import dyn_ros  # noqa: E402
from dyn_ros.logs.decode import Decoder  # noqa: E402
from dyn_ros.logs.files import open_source, read_span  # noqa: E402

ARM = HERE.parent / "dyn_ros" / "robots" / "arm7.urdf"
MEGABYTE = 1e6
EVERY = 0.1         # s between two looks at the memory


def decode(path: Path) -> float:
    """Read all joint states; return messages per second of processor time."""
    start, count, decoder = time.process_time(), 0, Decoder()
    source = open_source(path)
    for span in source.spans:
        count += len(read_span(path, span, {"/joint_states"}, decoder))
    return count / (time.process_time() - start)


def proportional_size(pid: int) -> int:
    """Memory of a process [bytes]; what it shares with others counts in part."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        line = next(line for line in text.splitlines() if line.startswith("Pss:"))
        return 1024 * int(line.split()[1])
    except (OSError, StopIteration):
        return 0


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        children = []
    return [pid, *(each for child in children for each in family(int(child)))]


def run(path: Path, out: Path, workers: int) -> tuple[float, float]:
    """Run the command; return its time [s] and the largest memory [bytes]."""
    start, most = time.perf_counter(), 0
    command = [sys.executable, "-m", "dyn_ros.cli", "log", str(path), "--compute", "residual",
               "--out", str(out), "--workers", str(workers)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            most = max(most, sum(map(proportional_size, family(process.pid))))
            time.sleep(EVERY)
    if process.returncode:
        raise SystemExit(f"the command failed with exit code {process.returncode}")
    return time.perf_counter() - start, most


def main() -> None:
    """Make the file, and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, help="with room for 20 GB per 100 million messages")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        path = folder / "recording.mcap"
        synthetic_mcap(path, dyn_ros.Model.from_urdf_file(ARM), options.messages,
                       description=ARM.read_text())
        print(f"{options.messages:,} messages, {path.stat().st_size / MEGABYTE:,.0f} MB",
              flush=True)
        print(f"decoded: {decode(path) / 1e6:.2f} million messages per second of processor time",
              flush=True)
        run(path, folder / "first", 1)          # compiles what is not in the cache
        times = {}
        for workers in (1, 2):
            times[workers], most = run(path, folder / f"results{workers}", workers)
            print(f"residuals as Parquet, {workers} workers: {times[workers]:.1f} s, "
                  f"{options.messages / times[workers] / workers / 1e6:.2f} million messages per "
                  f"second and worker, {most / MEGABYTE:.0f} MB", flush=True)
        print(f"two workers: {times[1] / times[2]:.2f} times one")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
