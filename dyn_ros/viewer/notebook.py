# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A picture of a robot that can be turned, for notebooks: a page without a server."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from os import PathLike
from pathlib import Path

import numpy as np

from ..engine.algorithms import forward_kinematics
from ..engine.call.data import Data
from ..engine.kernel.types import ArrayLike
from ..engine.kernel.validation import require_model
from ..engine.model import Model
from ..engine.model.urdf import read_description

_HEIGHT = 400  # px, of the picture in a notebook
_NO_SHAPES = "<robot/>"


@dataclass(frozen=True, repr=False)
class RobotPicture:
    """A picture of a robot that notebooks show.

    Attributes
    ----------
    html : str
        The page, which needs no server and no network.
    problems : tuple of str
        Reasons why shapes are not shown.

    Examples
    --------
    >>> dyn_ros.show(model, q).problems
    ()
    """

    html: str
    problems: tuple[str, ...]

    def __repr__(self) -> str:
        return f"RobotPicture({len(self.html)} characters of HTML)"

    def _repr_html_(self) -> str:
        return (
            f'<iframe srcdoc="{escape(self.html)}" width="100%" height="{_HEIGHT}" '
            'style="border:none"></iframe>'
        )


def show(
    model: Model, q: ArrayLike | None = None, urdf: str | PathLike[str] | None = None
) -> RobotPicture:
    """Return a picture of a robot in a configuration, which a notebook shows below the cell.

    It can be turned and zoomed, and remains in the notebook. It has the shapes of the URDF file;
    without one, bones from joint to joint.

    Parameters
    ----------
    model : Model
    q : (nq,) array_like, optional
        Configuration [rad, m]; by default ``model.neutral()``.
    urdf : path, optional
        File with the shapes of the links; by default ``model.urdf_file``.

    Raises
    ------
    ImportError
        The package viser is not installed: ``pip install "dyn_ros[viewer]"``.
    ValueError
        An invalid configuration, or a file that is no URDF.
    OSError
        The file ``urdf`` cannot be read.

    Examples
    --------
    >>> picture = dyn_ros.show(model, q)
    >>> picture.html.startswith("<!doctype html>")
    True
    """
    if not find_spec("viser"):
        raise ImportError('show requires viser: pip install "dyn_ros[viewer]"', name="viser")
    from .page.page import serve_page
    from .scene.camera import Cameras
    from .scene.scene import RobotScene

    data = Data(require_model(model))
    forward_kinematics(model, data, model.neutral() if q is None else q)
    path = model.urdf_file if urdf is None else Path(urdf)
    has_shapes = urdf is not None or (path is not None and path.is_file())
    xml = read_description(path) if path is not None and has_shapes else _NO_SHAPES
    server = serve_page("127.0.0.1", 0, model.name)
    try:
        folders = path.absolute().parents if path is not None else ()
        robot = RobotScene(server.scene, model.tree, xml, folders)
        robot.place_joints(data.liMi)
        placements = np.concatenate([data.oMi, np.eye(4)[None]])[:, None]
        Cameras(server).show(np.concatenate(robot.kinematics.points_at(placements), axis=1)[0])
        server.scene.add_grid("/floor", plane="xy")
        return RobotPicture(server.get_scene_serializer().as_html(), tuple(robot.problems))
    finally:
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints that it stopped
            server.stop()
