# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The command ``dyn_ros payload``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..files.writing import write_whole_text
from . import arguments, recording_arguments
from .arguments import Commands, UsageError, report_errors
from .failures import UNUSABLE_EXIT_CODE

if TYPE_CHECKING:
    from ..identification import PayloadEstimate

_DEFAULT_NAME = "estimated"  # as in ~/estimate_payload


def add_payload(commands: Commands) -> None:
    """Add the command ``payload``."""
    text = "Weigh what a robot carries, from recordings with it."
    command = arguments.add_command(commands, "payload", _run_payload, text)
    arguments.add_robot(command)
    arguments.add_drives(command)
    arguments.add_recordings(command)
    command.add_argument(
        "--load-frame",
        required=True,
        metavar="FRAME",
        help="frame of the link that carries the load; the result is expressed in it",
    )
    command.add_argument(
        "-o",
        "--output",
        type=arguments.yaml_file,
        metavar="FILE.yaml",
        help="write a request of the service ~/set_payload of the nodes",
    )
    command.add_argument(
        "--name",
        default=_DEFAULT_NAME,
        help=f"name of the payload in this request (default: {_DEFAULT_NAME})",
    )
    arguments.add_root_joint(command)
    arguments.add_gravity(command)
    recording_arguments.add_options(command)


def _run_payload(options: argparse.Namespace) -> int:
    """Run the command ``payload``; return its exit code."""
    from ..identification import identify_payload
    from ..identification.solution import effort_offset_warnings, effort_unit_faults
    from ..recordings.formats.sources import find_recordings, require_packages
    from . import tables

    model = arguments.read_model(options)
    arguments.require_folders(options.output)
    with report_errors():
        require_packages(find_recordings(options.recordings), table_suffixes=(".parquet",))
    if not options.name:
        raise UsageError(f"--name: expected a name, got ''; leave it out for {_DEFAULT_NAME!r}")
    with tables.progress_bar("reading"), report_errors():
        locked_model, samples = recording_arguments.read_recorded_samples(
            options, model, find_recordings(options.recordings), False
        )
        arguments.require_gains(options, locked_model)
        faults = effort_unit_faults(locked_model, samples)
        warnings = [
            *samples.warnings,
            *(() if faults else effort_offset_warnings(locked_model, samples)),
        ]
        payload = identify_payload(locked_model, samples, options.load_frame)
    tables.show_warnings(faults, options)
    tables.show_payload(locked_model.velocity_names, payload, warnings, options)
    if options.output:
        with report_errors(options.output):
            write_whole_text(options.output, _format_request(payload, options.name))
        print(f"wrote {options.output}")
    return UNUSABLE_EXIT_CODE if faults else 0


def _format_request(payload: PayloadEstimate, name: str) -> str:
    """Return a request of dyn_ros/srv/SetPayload, in YAML."""
    import yaml

    if not payload.lower[0] > 0.0:
        raise UsageError(
            "the payload is not written, because its mass may be zero; record motions "
            "in which its weight acts on the joints, or leave out -o"
        )
    (xx, xy, xz), (_, yy, yz), (_, _, zz) = payload.inertia.tolist()
    inertia = dict(
        m=payload.mass,
        com=dict(zip("xyz", payload.com.tolist())),
        ixx=xx,
        ixy=xy,
        ixz=xz,
        iyy=yy,
        iyz=yz,
        izz=zz,
    )
    request = dict(name=name, inertia=dict(header=dict(frame_id=payload.frame), inertia=inertia))
    return str(yaml.safe_dump(request, sort_keys=False))
