# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Loading of libraries for one robot."""

from __future__ import annotations

import os

from ..machine_code.library import open_library
from ..model.model import Model
from .algorithm import ALGORITHMS
from .robot_library import LIBRARIES, has_code_for


def load_native(path: str | os.PathLike[str], model: Model | None = None) -> list[str]:
    """Use the functions in a library for one robot, for single states of this robot.

    ``dyn_ros export --robot robot.urdf --python`` writes the library. Results are the same to
    rounding errors. A ``Data`` that has been used with a function before keeps the general one.
    Models of other robots keep the general functions, and so do batches.

    Parameters
    ----------
    path : str or path
        The shared library.
    model : Model, optional
        The robot that it must be for.

    Returns
    -------
    list of str
        The names of the functions in the library.

    Raises
    ------
    OSError
        The file cannot be loaded on this machine, is incomplete, or has changed since it was
        loaded.
    ValueError
        It has no functions for Python, or a function in it is for another robot than ``model``, or
        for another version of dyn_ros.

    Examples
    --------
    What ``dyn_ros export --robot arm7.urdf --functions rnea crba --python --out FOLDER`` writes:

    >>> from dyn_ros.export.robot_c_library import export_robot_library
    >>> export_robot_library(folder.name, model, names=["rnea", "crba"], python=True)
    >>> dyn_ros.load_native(f"{folder.name}/lib/libarm7.so", model)
    ['crba', 'rnea']
    """
    library = open_library(path)
    names = [name for name in ALGORITHMS if library.address(f"dyn_ros_{name}_robot")]
    if not names:
        raise ValueError(
            f"{os.fspath(path)}: no functions for Python; write it with `dyn_ros "
            "export --robot robot.urdf --python`"
        )
    unsuitable = (
        []
        if model is None
        else [name for name in names if not has_code_for(library, ALGORITHMS[name], model)]
    )
    if unsuitable:
        raise ValueError(
            f"{os.fspath(path)}: {unsuitable[0]} is not for {model!r}, or was written by "
            "another version of dyn_ros; export it again for this robot"
        )
    LIBRARIES.pop(os.path.realpath(path), None)
    LIBRARIES[os.path.realpath(path)] = library
    return names
