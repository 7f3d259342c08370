# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A page with a robot, and all that is on it; independent of ROS.

A `Session` receives states, torques and markers, and draws them when it is updated. What users do
on the page, it asks of an `Actor`: a ROS node, or a robot in this process.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..engine.kernel.types import Array
from ..engine.model.urdf import Tree
from ..states.joint_states import abbreviated
from ..states.rate_limiter import RateLimiter
from ..states.rules import check_base
from .actor import Actor, PageSettings
from .motion import SpringFollower
from .page import page
from .page.panel import Panel, show_waiting
from .page.plots import Progress
from .problems import MOST_PROBLEMS, Problems
from .scene.camera import Cameras, above
from .scene.floor import Floor, light_simply
from .scene.handle import PushHandle
from .scene.marker_drawing import Drawing
from .scene.scene import RobotScene
from .scene.tree_kinematics import rotation_matrix
from .timeline import Timeline
from .touch_tab import TouchTab, payload

if TYPE_CHECKING:
    import viser
    from visualization_msgs.msg import MarkerArray


PLOTS = 10.0  # update rate of the numbers and plots [Hz]
STALE = 1.0  # age at which a torque that is no longer received becomes unknown [s]
FAR = 0.3  # motion of the root link after which the cameras follow it / reach
SUNK = 0.01  # depth below the floor after which it is lowered / reach


class Session:
    """A page, served to any number of browsers, at `address`; a `page.PageError` if it cannot be.

    `settings` may be changed later; plays, hangs, pushes, curves, plot_seconds and mesh_paths apply
    to the next robot. `robot`, `panel` and `touch` are None until `show_robot`. `notice` is shown
    instead of where the states come from, `progress` is what torques wait for. `history` returns
    what the plots show, times [s] and torques (curves, joints); None: what was received.
    """

    def __init__(
        self, host: str, port: int, actor: Actor, settings: PageSettings | None = None
    ) -> None:
        self._actor, self.settings = actor, settings or PageSettings()
        self.server = page.serve(
            host, port, "dyn_ros", self.settings.allowed_hosts, actor.report_refusal
        )
        self.server.on_window = self._arrange
        self.address = page.address(self.server)
        self.drawing = Drawing(self.server.scene, self.node_of, self.settings.mesh_paths)
        self.robot: RobotScene | None = None
        self.panel: Panel | None = None
        self.touch: TouchTab | None = None
        self.notice, self.progress = "", Progress()
        self.history: Callable[[], Iterable[tuple[float, Array]]] | None = None
        self._follower: SpringFollower | None = None
        self._problems = Problems()
        self._odometry_frame: str | None = None
        self._timeline = Timeline()
        self._pose: Array | None = None
        self._center: Array | None = None  # of the root link, when the cameras followed it
        self._handle: PushHandle | None = None
        self._was_pulled = self._holds = False
        self._plot_limiter, self._status_limiter = RateLimiter(PLOTS), RateLimiter(1.0)
        self.cameras, self.floor = Cameras(self.server), Floor(self.server)

    def wait(self, text: str) -> None:
        """Show why there is no robot yet, and what to do."""
        show_waiting(self.server, text)

    def _arrange(self, client: viser.ClientHandle, window: page.DynRosWindow) -> None:
        self.floor.show(client, window.dark)
        if window.software:
            light_simply(client)
        if self.panel is not None:
            self.panel.arrange(client, window)

    def close(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints that it stopped
            self.server.stop()

    # --- what is shown

    def show_robot(self, tree: Tree, xml: str, expected: Array | None = None) -> None:
        """Show another robot; `tree` is read from its description, `xml`, without a root joint.

        Cameras and floor are fitted to the positions (k, n) of joints [rad, m] that are `expected`,
        of which the first is shown; by default, to all that the robot can reach, and to zero.
        """
        self._stop_pushing()
        self.drawing.clear()
        self.drawing.draw(0.0)
        if self.robot:
            self.robot.remove()
        settings = self.settings
        self.robot = robot = RobotScene(self.server.scene, tree, xml, settings.mesh_paths)
        self._layouts: dict[tuple[str, ...], list[int | None]] = {}
        self._q = np.full(len(robot.names), math.nan)
        self._timeline = Timeline()
        self._pose = None
        self._torques = {curve: np.full(len(robot.names), math.nan) for curve in settings.curves}
        self._last_received = dict.fromkeys(settings.curves, -math.inf)
        self._samples: deque[tuple[float, Array]] = deque(
            maxlen=max(2, round(settings.plot_seconds * PLOTS))
        )
        self._states = 0
        self._follower = None
        self.panel = Panel(
            self.server,
            tree.name,
            robot.joints,
            robot.links,
            settings.plot_seconds,
            settings.plays,
            settings.curves,
            robot.tip if settings.pushes else "",
        )
        with self.panel.touch_tab:
            self.touch = TouchTab(
                robot, self.server.gui, settings.hangs, self.panel.events.put, self.node_of
            )
        if expected is not None:
            robot.move(expected[0])
        self._start_pushing()
        self._show_surroundings(robot, expected)
        for problem in robot.problems:
            self._actor.reject("robot_description", problem)

    def _show_surroundings(self, robot: RobotScene, expected: Array | None) -> None:
        """Fit cameras and floor to what the robot is expected to reach."""
        more = [(handle.link, handle.away)] if (handle := self._handle) else ()
        if expected is None:
            self._envelope, lowest = robot.envelope(more=more), robot.lowest
        else:
            self._envelope = robot.reached(expected, more)
            lowest = float(self._envelope[:, 2].min())
        self._center = None
        ground = min(lowest, 0.0)
        self.floor.place(self._envelope, ground)
        self.cameras.show(above(self._envelope, ground))

    def _keep_above_floor(self, robot: RobotScene) -> None:
        """Lower the floor to a robot that reaches below it; with odometry, the floor is at zero."""
        if self._pose is None and np.isfinite(self._q).all():
            self.floor.lower(robot.lowest_at(self._q), SUNK * robot.reach)

    def _follow(self, robot: RobotScene, pose: Array) -> None:
        """Keep a robot in the pictures whose root link has moved far, on a floor at zero."""
        far = FAR * max(robot.reach, 0.1)
        if self._center is None or np.linalg.norm(pose[:3] - self._center) > far:
            first, self._center = self._center is None, pose[:3].copy()
            points = above(self._envelope @ rotation_matrix(pose[3:]).T + pose[:3], 0.0)
            self.floor.place(points, 0.0)
            if first:
                self.cameras.show(points)
            else:
                self.cameras.follow(points)

    def receive_states(
        self,
        names: Sequence[str],
        position: Sequence[float] | Array,
        effort: Sequence[float] | Array = (),
        stamp: int | None = None,
    ) -> None:
        """Process the positions of joints [rad, m] and, if known, their efforts [N m, N].

        Joints that the robot does not have are ignored; positions that are not finite are reported.
        Markers with the same stamp [ns] are shown together with this state; without a stamp, the
        state is shown in the next update. A ValueError for another number of names.
        """
        if self.robot is None:
            return
        for name, slot, x in self._known(names, "positions", position):
            if math.isfinite(x):
                self._q[slot] = x
            else:
                self._actor.reject("joint_states", f"the position of {name} is {x:g}")
        self._states += 1
        self._timeline.receive_state(stamp, self._q.copy(), self._pose, time.monotonic())
        if len(effort) == len(names):
            self.receive_torques("effort", names, effort)

    def receive_torques(
        self,
        curve: str,
        names: Sequence[str],
        effort: Sequence[float] | Array,
    ) -> None:
        """Process torques [N m, N] for one of `PageSettings.curves`, as `receive_states`."""
        if self.robot is not None:
            for _, slot, x in self._known(names, "efforts", effort):
                self._torques[curve][slot] = x
            self._last_received[curve] = time.monotonic()

    def _known(
        self,
        names: Sequence[str],
        what: str,
        values: Sequence[float] | Array,
    ) -> Iterator[tuple[str, int, float]]:
        """Yield name, index and value of each joint that the robot has."""
        if len(values) != len(names):
            raise ValueError(f"{len(names)} names, but {len(values)} {what}")
        names = tuple(names)
        if names not in self._layouts:
            assert self.robot is not None
            if len(self._layouts) > 100:
                self._layouts.clear()
            self._layouts[names] = [self.robot.slots.get(name) for name in names]
        for name, slot, x in zip(names, self._layouts[names], np.asarray(values).tolist()):
            if slot is not None:
                yield name, slot, x

    def place(self, pose: Sequence[float], frame: str, stamp: int | None = None) -> None:
        """Set the pose of the root link in a frame of the world: x y z qx qy qz qw.

        The stamp [ns] is that of a state with this pose. A ValueError if it is not finite, or its
        quaternion is not of unit length.
        """
        if self.robot is None:
            return
        check_base(pose)
        self._pose, self._odometry_frame = np.array(pose, float), frame
        if stamp or not self._timeline.has_stamps:  # otherwise, the next state contains it
            self._timeline.receive_state(stamp, self._q.copy(), self._pose, time.monotonic())

    def receive_markers(self, topic: str, array: MarkerArray) -> None:
        """Process the markers of a topic; what cannot be shown is reported when it is drawn."""
        if self.robot is not None:
            self._timeline.receive_markers(topic, array, time.monotonic())

    def forget_markers(self, topic: str) -> None:
        self._timeline.forget(topic)
        self.drawing.clear(topic)

    def node_of(self, frame: str) -> str:
        """Return the scene's node of a frame, "" for the world; a ValueError for an unknown one."""
        if frame == self._odometry_frame or frame in self.settings.world_frames:
            return ""
        assert self.robot is not None
        return self.robot.node(frame)

    def show_problem(self, what: str, why: object) -> None:
        self._problems.add(what, why)

    # --- user input

    def _handle_events(self, panel: Panel) -> None:
        actions: dict[str, Callable[..., object]] = {
            "slide": self._slide,
            "pause": self._start_manual_motion,
            "play": lambda: self._set_playing(True),
            "push": lambda link: self._start_pushing(),
            "let go": self._let_go,
            "fit": self.cameras.fit,
            "hang": self._hang,
            "weigh": self._weigh,
            "see": self.drawing.show,
        }
        while not panel.events.empty():
            what, *values = panel.events.get()
            actions[what](*values)

    def _slide(self, slot: int, position: float) -> None:
        self._start_manual_motion().target[slot] = position

    def _start_manual_motion(self) -> SpringFollower:
        if self._follower is None:
            assert self.panel is not None
            self._set_playing(False)
            self._follower = SpringFollower(
                np.where(np.isfinite(self._q), self._q, self.panel.positions)
            )
        return self._follower

    def _set_playing(self, plays: bool) -> None:
        assert self.panel is not None
        self.panel.show_playing(plays)
        if plays:
            self._follower = None
        self._actor.play(plays)

    def _hang(self, on: bool) -> None:
        assert self.touch is not None and self.robot is not None
        if self.settings.hangs:
            self.touch.hang(on)
            self._actor.hang(self.robot.tip, payload() if on else None)

    def _weigh(self) -> None:
        assert self.touch is not None
        self.touch.start_weighing()
        self._actor.weigh(self.touch)

    # --- pushing

    def _hold(self) -> None:
        """Have the robot wait for users who reach for the ball, and while they pull it."""
        handle = self._handle
        holds = handle is not None and (handle.is_held or bool(self.server.reaching))
        if holds != self._holds:
            self._holds = holds
            self._actor.hold(holds)

    def _start_pushing(self) -> None:
        assert self.panel is not None and self.robot is not None
        self._stop_pushing()
        link = self.panel.pushed_link
        if link is not None:
            self._handle = PushHandle(
                self.robot, self.server.gui, link, self.settings.push_scale, not self._was_pulled
            )

    def _stop_pushing(self) -> None:
        """Remove the handle, and push with a zero force."""
        if self._handle is not None:
            self._let_go()
            self._push(0.0)
            self._handle.remove()
        self._handle = None
        if self.panel:
            self.panel.show_force(None)

    def _let_go(self) -> None:
        if self._handle is not None:
            self._handle.let_go()

    def _push(self, seconds: float) -> None:
        handle = self._handle
        if handle is None or self.panel is None:
            return
        handle.scale = self.settings.push_scale
        force = handle.update(seconds)
        self._was_pulled = self._was_pulled or handle.pulled
        self._actor.push(handle.link, force)
        self.panel.show_force(force)

    # --- the page

    def update(self, now: float, seconds: float) -> None:
        """Refresh the page at a time [s], a number of seconds after the last update."""
        panel, robot, touch = self.panel, self.robot, self.touch
        if panel is None or robot is None or touch is None:
            return
        self._handle_events(panel)
        self._hold()
        if self._follower is not None:
            self._follower.step(seconds)
            self._actor.move(robot.names, self._follower.position, self._follower.velocity)
        plots = self._plot_limiter.due(now)
        if plots:
            self._sample(now)
            self._keep_above_floor(robot)
        if self._status_limiter.due(now):
            self._show_status(panel, robot, now)
        with self.server.atomic():
            self._draw(robot, now)
            self._push(seconds)
            touch.draw(1.0 / self.settings.push_scale)
            if not self.server.get_clients():
                return
            if plots:
                panel.show_samples(self.history() if self.history else self._samples, self.progress)
                handle = self._handle
                touch.show(
                    now,
                    handle.link if handle else None,
                    handle.force if handle else np.zeros(3),
                    self._actor.can_weigh(),
                )
                if self._follower is None:
                    panel.show_positions(self._q)

    def _draw(self, robot: RobotScene, now: float) -> None:
        """Draw the robot and the markers that belong to its state."""
        moment = self._timeline.choose(now)
        if moment is not None:
            for topic, array in moment.arrays:
                for problem in self.drawing.receive(topic, array, now):
                    self._actor.reject(f"marker {topic}", problem)
            self.drawing.hide_late(moment.late)
            if moment.pose is not None:
                robot.place(moment.pose)
                self._follow(robot, moment.pose)
            if moment.q is not None:
                robot.move(np.where(np.isfinite(moment.q), moment.q, 0.0))
        for problem in self.drawing.draw(now):
            self._actor.reject("markers", problem)

    def _sample(self, now: float) -> None:
        for curve, received in self._last_received.items():
            if now - received > STALE:
                self._torques[curve][:] = math.nan
        self._samples.append((now, np.array(list(self._torques.values()))))

    def _show_status(self, panel: Panel, robot: RobotScene, now: float) -> None:
        """Update the status line, the problems and the check boxes, once a second."""
        live, self._states = bool(self._states), 0
        free = self._actor.can_move()
        panel.enable(free)
        lasting = [*robot.problems[:MOST_PROBLEMS], *self._timeline.notes()]
        panel.show_status(
            self.notice or self._status(robot, free, live),
            self._problems.recent(lasting, now),
            live,
        )
        panel.show_families(self.drawing.families)

    def _status(self, robot: RobotScene, free: bool, live: bool) -> str:
        """Return where the states come from; `free`: no other program moves the robot."""
        if self._holds and self._follower is None and self.settings.plays:
            return "waiting while you reach for the ball"
        if not live:
            return "no joint states; move a slider" if free else "no joint states"
        unknown = [name for name, x in zip(robot.names, self._q) if not math.isfinite(x)]
        if unknown:
            return "unknown position of " + abbreviated(unknown)
        manual = self._follower is not None
        return ("moved by the sliders" if manual else "receiving joint states") + (
            "" if free else "; another program moves the robot, so the sliders are read-only"
        )
