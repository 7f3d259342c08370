# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A simulated robot in this process, for a page without ROS.

It moves at once: its torques, and how it gives way to a push, follow when the engine is compiled.
"""
from __future__ import annotations

import math
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import dyn_ros

from ..engine.call.data import Data
from ..engine.kernel.types import Array
from ..engine.model import Model
from ..engine.spatial import Inertia
from .motion import Motion, Steering
from .picture import TERMS, Picture
from .session import Session
from .simulation import LONGEST_STEP, CompliantRobot
from .touch import Touch

KERNELS = ("all_terms", "rnea", "crba")
CURVES = ("gravity", "nle", "effort", "push")
LONGEST_GAP = 0.1       # s; after a longer interruption, the robot's time has stood still
PAYLOAD_NAME = "weight"


class LocalRobot:
    """A robot that is simulated here, and that users move, push and load.

    `compiling` says for users what is being compiled; empty: nothing.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._motion = Motion(model.tree.joints)
        self._steering = Steering(self._motion)
        self._position = self._motion.at(0.0)[0]
        self._velocity = np.zeros_like(self._position)
        self._pushed: tuple[str, Array] | None = None
        self._hung: tuple[str, Inertia] | None = None
        self._engine: Engine | None = None
        self._session: Session | None = None
        self._starting: threading.Thread | None = None
        self._failure = ""
        self.compiling = ""

    def show(self, session: Session, xml: str) -> None:
        """Show the robot on a page; start the engine."""
        from ..engine.model.urdf import read_urdf
        self._session = session
        session.show_robot(read_urdf(xml), xml)
        assert session.panel is not None
        session.panel.show_playing(True)
        self._starting = threading.Thread(target=self._start, daemon=True)
        self._starting.start()

    # The engine

    def _start(self) -> None:
        """Compile and start the engine, in a thread of its own."""
        try:
            compile_engine(self._model, self._report)
            self._engine = Engine(self._model, self._motion)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
        self.compiling = ""

    def _report(self, done: int, total: int) -> None:
        self.compiling = f"compiling the torques: {done} of {total}" if done < total else ""

    def update(self, session: Session, seconds: float) -> None:
        """Advance the robot by a time [s], and show it."""
        if self._failure:
            session.show_problem("engine", self._failure)
            self._failure = ""
        session.notice = self.compiling
        seconds = min(seconds, LONGEST_GAP)
        engine = self._engine
        if engine is None:
            self._position, self._velocity, _ = self._steering.advance(seconds)
            session.receive_states(self._motion.names, self._position)
            return
        if not engine.is_started:
            engine.start(self._position, self._velocity)
            self._load(engine)
        engine.push(self._pushed)
        engine.advance(self._steering, seconds)
        self._show(session, engine)

    def _show(self, session: Session, engine: Engine) -> None:
        names, found = self._motion.names, engine.compute(self._pushed)
        session.receive_states(names, found.position, found.effort)
        for curve, values in (("gravity", found.gravity), ("nle", found.nle),
                              ("push", found.push)):
            session.receive_torques(curve, names, values)
        engine.draw(session, found)

    # What users do

    def can_move(self) -> bool:
        """Whether sliders may move the robot: always."""
        return True

    def can_weigh(self) -> bool:
        """Whether payloads can be weighed: only the node observer does."""
        return False

    def move(self, names: list[str], position: Array, velocity: Array) -> None:
        """Follow the sliders."""
        self._steering.command(position)

    def play(self, plays: bool) -> None:
        """Move by itself, or follow the sliders."""
        self._steering.play(plays)

    def hold(self, holds: bool) -> None:
        """Hold its own motion, or continue it."""
        self._steering.hold(holds)

    def push(self, link: str, force: Array) -> None:
        """Push a link from now on."""
        self._pushed = (link, force) if np.any(force) else None

    def hang(self, link: str, body: Inertia | None) -> None:
        """Hang a body on a link, or take it off."""
        self._hung = None if body is None else (link, body)
        if self._engine is not None and self._engine.is_started:
            self._load(self._engine)

    def _load(self, engine: Engine) -> None:
        engine.load(self._hung)

    def weigh(self, touch: Touch) -> None:
        """Say that payloads cannot be weighed."""
        touch.end_weighing("weighing requires the node observer")

    def reject(self, what: str, why: object) -> None:
        """Show what cannot be shown."""
        if self._session is not None:
            self._session.show_problem(what, why)

    def report_refusal(self, line: str) -> None:
        """Print that a request was refused."""
        print(line, flush=True)


def compile_engine(model: Model, report: Callable[[int, int], object]) -> None:
    """Compile what a `LocalRobot` calls, in processes of their own; report the progress."""
    coupled = any(joint.mimic is not None for joint in model.tree.joints)
    dyn_ros.precompile(KERNELS, batch=False, coupled=coupled,
                       progress=lambda done, total, name: report(done, total))


class Found(NamedTuple):
    """What is computed for one state, in the order of `Motion.names`; `terms` is of the model."""

    position: Array
    effort: Array
    gravity: Array
    nle: Array
    push: Array
    v: Array
    terms: SimpleNamespace


class Engine:
    """The simulated robot, and the dynamics that the page shows.

    The motors and the page know the model without payloads.
    """

    def __init__(self, model: Model, motion: Motion) -> None:
        self._model, self._data = model, Data(model)
        self._pushes = Data(model)
        self._robot = CompliantRobot(model, motion)
        rows = np.array([model.joint_index(name) for name in motion.names], int)
        self._idx_q, self._idx_v = (
            np.array(each, int)[rows] for each in (model.idx_q, model.idx_v))
        self._q, self._v, self._zero = model.neutral(), np.zeros(model.nv), np.zeros(model.nv)
        self._picture = Picture(model)
        self.is_started = False

    def start(self, position: Array, velocity: Array) -> None:
        """Continue a motion."""
        self._robot.position, self._robot.velocity = position.copy(), velocity.copy()
        self.is_started = True

    def push(self, pushed: tuple[str, Array] | None) -> None:
        """Push a link with a force in its frame from now on, or let go."""
        if pushed is None:
            self._robot.push()
        else:
            self._robot.push(pushed[0], np.append(pushed[1], np.zeros(3)))

    def load(self, hung: tuple[str, Inertia] | None) -> None:
        """Hang a body on a link, which the motors do not know."""
        if hung is None:
            self._robot.model.clear_payload(None)
        else:
            link, body = hung
            self._robot.model.set_payload(PAYLOAD_NAME, link, body.mass, body.com, body.rotational)

    def advance(self, steering: Steering, seconds: float) -> None:
        """Simulate a time [s]."""
        steps = math.ceil(seconds / LONGEST_STEP)
        for _ in range(steps):
            self._robot.step(seconds / steps, *steering.advance(seconds / steps))

    def compute(self, pushed: tuple[str, Array] | None) -> Found:
        """Compute the torques of this state."""
        robot, rows = self._robot, self._idx_v
        self._q[self._idx_q], self._v[rows] = robot.position, robot.velocity
        found = dyn_ros.all_terms(self._model, self._data, self._q, self._v, only=TERMS)
        terms = SimpleNamespace(**dict(zip(TERMS, found)))
        return Found(robot.position, robot.effort, terms.g[rows], terms.nle[rows],
                     self._pushed_torques(pushed, terms.g)[rows], self._v, terms)

    def _pushed_torques(self, pushed: tuple[str, Array] | None, g: Array) -> Array:
        """The torques J' f that a force on a link exerts on the joints."""
        if pushed is None:
            return np.zeros_like(g)
        forces = self._model.external_forces({pushed[0]: np.append(pushed[1], np.zeros(3))})
        return g - dyn_ros.rnea(self._model, self._pushes, self._q, self._zero, self._zero, forces)

    def draw(self, session: Session, found: Found) -> None:
        """Pass the markers of this state to a page."""
        self._picture.draw(session, found.v, found.terms)
