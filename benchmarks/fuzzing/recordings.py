# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Damaged recordings of all formats."""

import math
import sys
import warnings

import dyn_ros
import dyn_ros.logs

from .descriptions import ROOT
from .mutations import mutate_bytes, mutate_text

sys.path.insert(0, str(ROOT / "test"))
from logs.recorded import START, JointState, Odometry, Sent, write_bag1, write_bag2, write_mcap

COUNT = 12  # messages


def messages(model):
    """Yield joint states and odometry, and the description at the start."""
    names = model.joint_names
    for k in range(COUNT):
        stamp = START + 10_000_000 * k
        values = [math.sin(0.1 * k + i) for i in range(len(names))]
        yield Sent("/joint_states", stamp, JointState(names, values, values, values, stamp))
        if k % 4 == 0:
            pose = (0.1 * k, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
            yield Sent("/odom", stamp, Odometry(pose, [0.1] * 6, stamp))


class Target:
    """Reads a damaged recording."""

    TIMEOUT = 10.0  # s of processor time
    DOCUMENTED_ERRORS = (ValueError, OSError)

    def __init__(self, folder):
        self.folder = folder
        self.model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros/robots/arm7.urdf")
        sent = list(messages(self.model))
        self.recordings = []  # suffix, content
        for options in (
            {"compression": "none"},
            {"compression": "zstd", "chunk_size": 2_000},
            {"compression": "lz4"},
            {"compression": "none", "chunked": False},
            {"compression": "none", "indexed": False, "chunk_size": 500},
        ):
            self.add(".mcap", write_mcap(folder / "recording.mcap", sent, **options))
        for compression in ("none", "lz4", "bz2"):
            path = folder / f"{compression}.bag"
            self.add(".bag", write_bag1(path, sent, compression=compression))
        for k, compression in enumerate(("none", "message", "file")):
            bag = write_bag2(folder / f"bag{k}", sent, compression=compression)
            file = next(path for path in bag.iterdir() if ".db3" in path.name)
            self.add(".db3.zstd" if compression == "file" else ".db3", file)
        self.add_tables()

    def add(self, suffix, path):
        self.recordings.append((suffix, path.read_bytes()))

    def add_tables(self):
        """Add the same joint states as CSV and Parquet."""
        import pyarrow
        from pyarrow import parquet

        columns = {"time": [0.01 * k for k in range(COUNT)]}
        for name in self.model.joint_names:
            for signal in ("position", "velocity", "effort"):
                columns[f"{signal}.{name}"] = [0.1 * k for k in range(COUNT)]
        lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values()))]
        path = self.folder / "table.csv"
        path.write_text("\n".join(lines))
        self.add(".csv", path)
        path = self.folder / "table.parquet"
        for compression in ("none", "zstd"):
            parquet.write_table(pyarrow.table(columns), path, compression=compression)
            self.add(".parquet", path)

    def run(self, rng):
        suffix, content = rng.choice(self.recordings)
        if suffix == ".csv" and rng.random() < 0.8:
            content = mutate_text(rng, content.decode()).encode("utf-8", "surrogatepass")
        else:
            content = mutate_bytes(rng, content, [content])
        path = self.folder / f"damaged{suffix}"
        path.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dyn_ros.logs.read(path, self.model if rng.random() < 0.8 else None)
