# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot in this process, for a page without ROS.

It moves at once. Its torques, and its reaction to pushes, follow when the engine is compiled.
"""

from __future__ import annotations

import threading
from typing import TypeAlias

import numpy as np

import dyn_ros

from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.spatial import Inertia
from .motion import SineMotion, Steering, coordinate_indices
from .page.plots import Progress
from .posture import SAMPLE_TIMES
from .scene.inertia_markers import BodyCheck
from .session import Session
from .simulation import MAX_ADVANCE, CompliantRobot
from .standalone import WORLD_FRAME, DynamicsMarkers, StandaloneActor, compile_torques

KERNELS = ("all_terms", "rnea", "crba")
CURVES = ("gravity", "nle", "effort", "push")
PAYLOAD_NAME = "weight"

Push: TypeAlias = "tuple[()] | tuple[str, Array]"
"""A link and a wrench (6,) at its origin, in its frame; or an empty tuple."""


class LocalRobot(StandaloneActor):
    """A robot that is simulated in this process, and that users move, push and load."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._motion = SineMotion(model.tree)
        self._steering = Steering(self._motion)
        self._position, self._velocity, _ = self._motion.state_at(
            0.0
        )  # unused once the engine runs
        self._push: Push = ()
        self._payload: tuple[str, Inertia] | None = None  # link, body
        self._engine: Engine | None = None  # None before it is compiled
        self._is_simulated = False
        self._engine_error = ""
        self._compile_progress = Progress()

    def show(self, session: Session, xml: str) -> None:
        """Show the robot on a page; start the engine."""
        super().show(session, xml)
        assert session.panel is not None and session.robot is not None
        self._root = session.robot.links[0]
        self._check = BodyCheck(xml, self._model, session.settings.mesh_paths)
        session.panel.show_playing(True)
        session.remark = self._base_remark()
        self._start_thread = threading.Thread(target=self._start_engine, daemon=True)
        self._start_thread.start()

    def _base_remark(self) -> str:
        """Return how the base is held, if it could move."""
        if self._motion.stands:
            return "the base is held, with the lowest foot on the floor"
        joints = self._model.tree.joints
        if joints and joints[0].kind in ("floating", "planar"):
            return "the base is held; it does not fall"
        return ""

    def expected_positions(self) -> Array:
        """Return positions (k, n) of the robot's own motion."""
        return self._motion.swing.positions_at(SAMPLE_TIMES)

    def _start_engine(self) -> None:
        """Compile and start the engine, in a thread of its own."""
        try:
            compile_torques(self._model, KERNELS, self._report, batch=False)
            self._engine = Engine(self._model, self._motion, self._check, self._root)
        except Exception as error:
            self._engine_error = f"{type(error).__name__}: {error}"
        self._report(Progress())

    def _report(self, progress: Progress) -> None:
        """Keep the progress of compiling, which the next update shows."""
        self._compile_progress = progress

    def update(self, session: Session, seconds: float) -> None:
        """Advance the robot by a time [s], and show it."""
        if self._engine_error:
            session.show_problem("engine", self._engine_error)
            self._engine_error = ""
        session.progress = self._compile_progress
        session.notice = session.progress.text
        # what the thread has computed with belongs to it until it ends, see `dyn_ros.Data`
        engine = None if self._start_thread.is_alive() else self._engine
        if engine is None:
            self._position, self._velocity, _ = self._steering.advance(min(seconds, MAX_ADVANCE))
            self._place_on_floor(session, self._position)
            session.receive_joint_state(self._motion.names, self._position)
            return
        robot = engine.robot
        if not self._is_simulated:
            self._is_simulated = True
            robot.position, robot.velocity = self._position.copy(), self._velocity.copy()
            self._apply_payload(robot)
        robot.push(*self._push)
        robot.follow(self._steering, seconds)
        self._place_on_floor(session, robot.position)
        engine.show(session, self._push)

    def _place_on_floor(self, session: Session, position: Array) -> None:
        """Place the root link of a legged robot so that its feet touch the floor, at zero."""
        if self._motion.stands and session.robot is not None:
            height = -session.robot.lowest_at(position)
            session.place((0.0, 0.0, height, 0.0, 0.0, 0.0, 1.0), WORLD_FRAME)

    # --- user input

    def can_move(self) -> bool:
        return True

    def move(self, names: list[str], position: Array, velocity: Array) -> None:
        self._steering.command(position)

    def play(self, plays: bool) -> None:
        self._steering.play(plays)

    def hold(self, holds: bool) -> None:
        self._steering.hold(holds)

    def push(self, link: str, force: Array) -> None:
        self._push = (link, np.append(force, np.zeros(3))) if np.any(force) else ()

    def hang(self, link: str, body: Inertia | None) -> None:
        self._payload = None if body is None else (link, body)
        if self._engine is not None:
            self._apply_payload(self._engine.robot)

    def _apply_payload(self, robot: CompliantRobot) -> None:
        """Set or clear the payload of the simulated robot; the motors do not compensate it."""
        if self._payload is None:
            robot.model.clear_payload(None)
        else:
            link, body = self._payload
            robot.model.set_payload(PAYLOAD_NAME, link, body.mass, body.com, body.rotational)


class Engine:
    """The simulated robot, and the dynamics that the page shows, without payloads."""

    def __init__(self, model: Model, motion: SineMotion, check: BodyCheck, frame: str) -> None:
        self.robot = CompliantRobot(model, motion)
        self._model, self._data = model, dyn_ros.Data(model)
        self._names = motion.names
        self._idx_q, self._idx_v = coordinate_indices(model, motion.names)
        self._q, self._v, self._zero = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        self._markers = DynamicsMarkers(model, check, frame)

    def show(self, session: Session, push: Push) -> None:
        """Show the state, its torques and its markers on a page."""
        robot, rows = self.robot, self._idx_v
        self._q[self._idx_q], self._v[rows] = robot.position, robot.velocity
        terms = self._markers.compute(self._q, self._v)
        session.receive_joint_state(self._names, robot.position, robot.effort)
        for curve, torques in (
            ("gravity", terms.g),
            ("nle", terms.nle),
            ("push", self._push_torques(push, terms.g)),
        ):
            session.receive_torques(curve, self._names, torques[rows])
        self._markers.draw(session, self._v, terms)

    def _push_torques(self, push: Push, g: Array) -> Array:
        """Return the torques J' f that a push exerts on the joints."""
        if not push:
            return np.zeros_like(g)
        link, wrench = push
        forces = self._model.external_forces({link: wrench})
        return g - dyn_ros.rnea(self._model, self._data, self._q, self._zero, self._zero, forces)
