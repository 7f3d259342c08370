# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""A page that shows a robot; independent of ROS.

A `Session` receives states, torques and markers, and draws them when it is updated. It passes what
users do on the page to an `Actor`: a ROS node, or a robot in this process.
"""

from __future__ import annotations

import contextlib
import io
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..drives.units import degrees_hint
from ..engine.kernel.types import Array
from ..engine.model.urdf import Joint, Tree
from ..states.joint_states import abbreviate_names
from ..states.rate_limiter import RateLimiter
from ..states.rules import check_base
from .actor import Actor, PageSettings
from .motion import SpringFollower
from .page import page
from .page.panel import Panel, show_waiting, slider_limits
from .page.plots import History, Progress, recent_history
from .problems import MAX_PROBLEMS, Problems
from .scene.camera import Cameras, raise_to_ground
from .scene.floor import Floor, light_simply
from .scene.handle import PushHandle
from .scene.marker_drawing import Drawing
from .scene.scene import RobotScene
from .scene.tree_kinematics import rotation_matrix
from .timeline import Timeline
from .touch_tab import TouchTab, payload_inertia

if TYPE_CHECKING:
    import viser
    from visualization_msgs.msg import MarkerArray


PLOT_RATE = 10.0  # Hz; numbers and plots
MAX_TORQUE_AGE = 1.0  # s; torques received before are unknown
FOLLOW_DISTANCE = 0.3  # motion of root link / reach; beyond it, the cameras follow
FLOOR_TOLERANCE = 0.01  # depth below floor / reach; beyond it, the floor is lowered
MAX_CACHED_NAME_LISTS = 100


class Session:
    """A page at `address` that shows a robot to any number of browsers.

    `settings` may be changed later; has_motion, can_hang, can_push, curves, plot_seconds and
    mesh_paths apply to the next robot. `robot`, `panel` and `touch` are None until `show_robot`.
    `notice`, unless empty, replaces the status line, and `remark` is appended to it; `progress` is
    what torques wait for. `history`
    returns what to plot; if it is None, the received torques are plotted. Raise a `page.PageError`
    if the page cannot be served.
    """

    def __init__(
        self, host: str, port: int, actor: Actor, settings: PageSettings | None = None
    ) -> None:
        self._actor, self.settings = actor, settings or PageSettings()
        self.server = page.serve_page(
            host, port, "dyn_ros", self.settings.allowed_hosts, actor.report_refusal
        )
        self.server.on_window = self._arrange
        self.address = page.page_address(self.server)
        self.drawing = Drawing(self.server.scene, self.frame_node, self.settings.mesh_paths)
        self.robot: RobotScene | None = None
        self.panel: Panel | None = None
        self.touch: TouchTab | None = None
        self.notice, self.remark, self.progress = "", "", Progress()
        self.history: Callable[[], History] | None = None
        self._follower: SpringFollower | None = None
        self._problems = Problems()
        self._odometry_frame: str | None = None
        self._timeline = Timeline()
        self._pose: Array | None = None
        self._followed_position: Array | None = None  # root link when the cameras last moved
        self._handle: PushHandle | None = None
        self._was_pulled = self._holds = False
        self._plot_limiter, self._status_limiter = RateLimiter(PLOT_RATE), RateLimiter(1.0)
        self.cameras, self.floor = Cameras(self.server), Floor(self.server)

    def wait(self, text: str) -> None:
        """Show a text that says why there is no robot yet, and what to do."""
        show_waiting(self.server, text)

    def _arrange(self, client: viser.ClientHandle, window: page.DynRosWindow) -> None:
        """Adapt the page to a window that has opened or changed."""
        self.floor.show(client, window.dark)
        if window.software:
            light_simply(client)
        if self.panel is not None:
            self.panel.arrange(client, window)

    def close(self) -> None:
        """Stop serving the page."""
        with contextlib.redirect_stdout(io.StringIO()):  # viser prints that it stopped
            self.server.stop()

    # --- robot, states and markers

    def show_robot(self, tree: Tree, xml: str, positions: Array | None = None) -> None:
        """Show another robot; `tree` is read from its description, `xml`, without a root joint.

        `positions` (k, n) of the joints [rad, m] are those expected; the first row is shown, and
        cameras and floor are fitted to all of them. By default, the robot is shown at zero, and
        cameras and floor are fitted to everything that it can reach.
        """
        self._stop_pushing()
        self.drawing.clear()
        self.drawing.draw(0.0)
        if self.robot:
            self.robot.remove()
        settings = self.settings
        self.robot = robot = RobotScene(self.server.scene, tree, xml, settings.mesh_paths)
        self._slots_of_names: dict[tuple[str, ...], list[int | None]] = {}
        self._q = np.full(len(robot.names), math.nan)
        self._timeline = Timeline()
        self._pose = None
        self._torques = {curve: np.full(len(robot.names), math.nan) for curve in settings.curves}
        self._last_received = dict.fromkeys(settings.curves, -math.inf)
        self._samples: deque[tuple[float, Array]] = deque(
            maxlen=max(2, round(settings.plot_seconds * PLOT_RATE))
        )
        self._state_count = 0  # since the status was last updated
        self._follower = None
        self.panel = Panel(
            self.server,
            tree.name,
            robot.joints,
            robot.links,
            settings.plot_seconds,
            settings.has_motion,
            settings.curves,
            robot.tip if settings.can_push else "",
        )
        events = self.panel.events
        self.server.on_click = lambda *ray: events.put(("click", ray))
        with self.panel.touch_tab:
            self.touch = TouchTab(
                robot, self.server.gui, settings.can_hang, self.panel.events.put, self.frame_node
            )
        if positions is not None:
            robot.move(positions[0])
        self._start_pushing()
        self._fit_surroundings(robot, positions)
        for problem in robot.problems:
            self._actor.reject("robot_description", problem)

    def _fit_surroundings(self, robot: RobotScene, positions: Array | None) -> None:
        """Fit cameras and floor to positions (k, n), by default to all positions."""
        extra_points = [(handle.link, handle.rest_offset)] if (handle := self._handle) else ()
        if positions is None:
            self._envelope, lowest = robot.envelope(extra_points=extra_points), robot.lowest
        else:
            self._envelope = robot.points_at(positions, extra_points)
            lowest = float(self._envelope[:, 2].min())
        self._followed_position = None
        ground = min(lowest, 0.0)
        self.floor.place(self._envelope, ground)
        self.cameras.show(raise_to_ground(self._envelope, ground))

    def _lower_floor(self, robot: RobotScene) -> None:
        """Lower the floor to a robot that reaches below it; with odometry, the floor is at zero."""
        if self._pose is None and np.isfinite(self._q).all():
            self.floor.lower(robot.lowest_at(self._q), FLOOR_TOLERANCE * robot.reach)

    def _follow(self, robot: RobotScene, pose: Array) -> None:
        """Move cameras and floor after a root link that has moved by `FOLLOW_DISTANCE`."""
        previous = self._followed_position
        distance = FOLLOW_DISTANCE * max(robot.reach, 0.1)
        if previous is None or np.linalg.norm(pose[:3] - previous) > distance:
            self._followed_position = pose[:3].copy()
            points = self._envelope @ rotation_matrix(pose[3:]).T + pose[:3]
            points = raise_to_ground(points, 0.0)
            self.floor.place(points, 0.0)
            if previous is None:
                self.cameras.show(points)
            else:
                self.cameras.follow(points)

    def receive_joint_state(
        self,
        names: Sequence[str],
        position: Sequence[float] | Array,
        effort: Sequence[float] | Array = (),
        stamp: int | None = None,
    ) -> None:
        """Process one joint state: positions [rad, m] and, if known, efforts [N m, N].

        The efforts are ignored unless there is one for each name. Joints that the robot does not
        have are ignored; positions that are not finite are reported. Markers with the same stamp
        [ns] are shown together with this state; without a stamp, the state is shown in the next
        update. Raise a ValueError if there are fewer or more positions than names.
        """
        if self.robot is None:
            return
        for name, slot, x in self._joint_values(names, "positions", position):
            if math.isfinite(x):
                self._q[slot] = x
            else:
                self._actor.reject("joint_states", f"the position of {name} is {x:g}")
        self._state_count += 1
        self._timeline.receive_state(stamp, self._q.copy(), self._pose, time.monotonic())
        if len(effort) == len(names):
            self.receive_torques("effort", names, effort)

    def receive_torques(
        self,
        curve: str,
        names: Sequence[str],
        effort: Sequence[float] | Array,
    ) -> None:
        """Process torques [N m, N] for a curve, one of `PageSettings.curves`.

        Joints that the robot does not have are ignored. Raise a ValueError if there are fewer or
        more torques than names.
        """
        if self.robot is not None:
            for _, slot, x in self._joint_values(names, "efforts", effort):
                self._torques[curve][slot] = x
            self._last_received[curve] = time.monotonic()

    def _joint_values(
        self,
        names: Sequence[str],
        quantity: str,
        values: Sequence[float] | Array,
    ) -> Iterator[tuple[str, int, float]]:
        """Yield name, slot (index in `RobotScene.joints`) and value of each joint of the robot.

        `quantity` names the values in the ValueError that is raised if their number is wrong.
        """
        if len(values) != len(names):
            raise ValueError(f"{len(names)} names, but {len(values)} {quantity}")
        names = tuple(names)
        if names not in self._slots_of_names:
            assert self.robot is not None
            if len(self._slots_of_names) > MAX_CACHED_NAME_LISTS:
                self._slots_of_names.clear()
            self._slots_of_names[names] = [self.robot.slots.get(name) for name in names]
        for name, slot, x in zip(names, self._slots_of_names[names], np.asarray(values).tolist()):
            if slot is not None:
                yield name, slot, x

    def place(self, pose: Sequence[float], frame: str, stamp: int | None = None) -> None:
        """Set the pose of the root link in a frame of the world: x y z qx qy qz qw.

        The stamp [ns] belongs to a state with this pose. Raise a ValueError if the pose is not
        finite, or its quaternion not of unit length.
        """
        if self.robot is None:
            return
        check_base(pose)
        self._pose, self._odometry_frame = np.array(pose, float), frame
        if stamp or not self._timeline.has_stamps:  # otherwise, the next state contains it
            self._timeline.receive_state(stamp, self._q.copy(), self._pose, time.monotonic())

    def receive_markers(self, topic: str, array: MarkerArray) -> None:
        """Process the markers of a topic; problems with them are reported when they are drawn."""
        if self.robot is not None:
            self._timeline.receive_markers(topic, array, time.monotonic())

    def forget_markers(self, topic: str) -> None:
        """Remove the markers of a topic."""
        self._timeline.forget(topic)
        self.drawing.clear(topic)

    def frame_node(self, frame: str) -> str:
        """Return the name of a frame's scene node, "" for the world.

        Raise a ValueError for an unknown frame.
        """
        if frame == self._odometry_frame or frame in self.settings.world_frames:
            return ""
        assert self.robot is not None
        return self.robot.node(frame)

    def show_problem(self, subject: str, reason: object) -> None:
        """Show a problem for some seconds; for the arguments see `Actor.reject`."""
        self._problems.add(subject, self.settings.advise(str(reason)))

    # --- user input

    def _handle_events(self, panel: Panel, robot: RobotScene) -> None:
        """Carry out what users have done on the panel since the last update."""
        actions: dict[str, Callable[..., object]] = {
            "slide": self._slide,
            "exceed": lambda slot, position: self._show_exceeded(robot.joints[slot], position),
            "reset": lambda: self._reset_pose(panel, robot),
            "pause": self._start_manual_motion,
            "play": lambda: self._set_playing(True),
            "push": lambda link: self._start_pushing(),
            "let go": self._let_go,
            "fit": self.cameras.fit,
            "click": lambda ray: self._select(panel, robot, ray),
            "hang": self._hang,
            "weigh": self._weigh,
            "see": self.drawing.show,
            "layer": robot.show_layer,
            "transparent": robot.make_transparent,
        }
        while not panel.events.empty():
            action, *arguments = panel.events.get()
            actions[action](*arguments)

    def _select(self, panel: Panel, robot: RobotScene, ray: tuple[Array, Array]) -> None:
        """Show the name of the link that a ray meets, and move the ball that pulls to it."""
        link = robot.link_at(*ray)
        if link is not None:
            panel.show_selection(link, robot.joint_of(link))

    def _slide(self, slot: int, position: float) -> None:
        """Let a joint follow its slider to a position [rad, m]."""
        self._start_manual_motion().target[slot] = position

    def _show_exceeded(self, joint: Joint, position: float) -> None:
        """Show that a position that was typed [rad, m] is outside the limits of its joint."""
        lower, upper = slider_limits(joint)
        unit = "m" if joint.kind == "prismatic" else "rad"
        question = degrees_hint(joint.kind, position, lower, upper)
        advice = f"; {question} Tick 'degrees'" if question else ""
        self.show_problem(
            joint.name,
            f"{position:.4g} {unit} is outside {lower:.4g} to {upper:.4g} {unit}{advice}",
        )

    def _reset_pose(self, panel: Panel, robot: RobotScene) -> None:
        """Let all joints move to zero, or to the limit nearest to it."""
        limits = np.array([slider_limits(joint) for joint in robot.joints]).reshape(-1, 2)
        position = np.clip(0.0, *limits.T)
        self._start_manual_motion().target[:] = position
        panel.set_positions(position)

    def _start_manual_motion(self) -> SpringFollower:
        """Stop the robot's own motion; return the joints, which follow the sliders from now on."""
        if self._follower is None:
            assert self.panel is not None
            self._set_playing(False)
            self._follower = SpringFollower(
                np.where(np.isfinite(self._q), self._q, self.panel.positions)
            )
        return self._follower

    def _set_playing(self, plays: bool) -> None:
        """Start the robot's own motion, or stop it, and show this."""
        assert self.panel is not None
        self.panel.show_playing(plays)
        if plays:
            self._follower = None
        self._actor.play(plays)

    def _hang(self, mass: float) -> None:
        """Hang a payload of a mass [kg] on the robot's tip; remove it if the mass is zero."""
        assert self.touch is not None and self.robot is not None
        if self.settings.can_hang:
            self.touch.show_payload(mass)
            self._actor.hang(self.robot.tip, payload_inertia(mass) if mass > 0.0 else None)

    def _weigh(self) -> None:
        """Start to weigh the payload."""
        assert self.touch is not None
        self.touch.start_weighing()
        self._actor.weigh(self.touch)

    # --- pushing

    def _update_hold(self) -> None:
        """Hold the robot while users reach for the ball or pull it, and release it afterwards."""
        handle = self._handle
        holds = handle is not None and (handle.is_held or bool(self.server.reaching_clients))
        if holds != self._holds:
            self._holds = holds
            self._actor.hold(holds)

    def _start_pushing(self) -> None:
        """Show a handle at the link that users have chosen, if any."""
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
        """Release the handle, if there is one."""
        if self._handle is not None:
            self._handle.let_go()

    def _push(self, seconds: float) -> None:
        """Push with the force of the handle, a time [s] after the last update."""
        handle = self._handle
        if handle is None or self.panel is None:
            return
        handle.scale = self.settings.push_scale
        force = handle.update(seconds)
        self._was_pulled = self._was_pulled or handle.was_pulled
        self._actor.push(handle.link, force)
        self.panel.show_force(force, handle.is_held)

    # --- the page

    def update(self, now: float, seconds: float) -> None:
        """Refresh the page at a time [s], a number of seconds after the last update."""
        panel, robot, touch = self.panel, self.robot, self.touch
        if panel is None or robot is None or touch is None:
            return
        self._handle_events(panel, robot)
        self._update_hold()
        if self._follower is not None:
            self._follower.step(seconds)
            self._actor.move(robot.names, self._follower.position, self._follower.velocity)
        is_plot_due = self._plot_limiter.admit(now)
        if is_plot_due:
            self._sample_torques(now)
            self._lower_floor(robot)
        if self._status_limiter.admit(now):
            self._show_status(panel, robot, now)
        with self.server.atomic():
            self._draw(robot, now)
            self._push(seconds)
            touch.draw(1.0 / self.settings.push_scale)
            if not self.server.get_clients():
                return
            if is_plot_due:
                panel.show_history((self.history or self._received_history)(), self.progress)
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
            self.drawing.hide_late(moment.late_topics)
            if moment.pose is not None:
                robot.place(moment.pose)
                self._follow(robot, moment.pose)
            if moment.q is not None:
                robot.move(np.where(np.isfinite(moment.q), moment.q, 0.0))
        for problem in self.drawing.draw(now):
            self._actor.reject("markers", problem)

    def _sample_torques(self, now: float) -> None:
        """Append the latest torques to the samples of the plots, NaN if they are too old."""
        for curve, received in self._last_received.items():
            if now - received > MAX_TORQUE_AGE:
                self._torques[curve][:] = math.nan
        self._samples.append((now, np.array(list(self._torques.values()))))

    def _received_history(self) -> History:
        """Return the latest torques that were received."""
        return recent_history(
            self.settings.plot_seconds,
            np.array([time for time, _ in self._samples]),
            np.array([torques for _, torques in self._samples]),
        )

    def _show_status(self, panel: Panel, robot: RobotScene, now: float) -> None:
        """Update the status line, the problems and the check boxes, once a second."""
        is_live, self._state_count = bool(self._state_count), 0
        can_move = self._actor.can_move()
        panel.enable(can_move)
        permanent_problems = [
            *map(self.settings.advise, robot.problems[:MAX_PROBLEMS]),
            *self._timeline.notes(),
        ]
        status = self.notice or self._status(robot, can_move, is_live)
        panel.show_status(
            "; ".join(filter(None, (status, self.remark))),
            self._problems.recent(permanent_problems, now),
            is_live,
        )
        panel.show_families(self.drawing.families)

    def _status(self, robot: RobotScene, can_move: bool, is_live: bool) -> str:
        """Return the source of the states, or the reason why they are missing.

        The sliders are read-only unless users `can_move` the robot. States are received if the
        robot `is_live`.
        """
        if self._holds and self._follower is None and self.settings.has_motion:
            return "waiting while you reach for the ball"
        if not is_live:
            return "no joint states; move a slider" if can_move else "no joint states"
        unknown_joints = [name for name, x in zip(robot.names, self._q) if not math.isfinite(x)]
        if unknown_joints:
            return "unknown position of " + abbreviate_names(unknown_joints)
        is_manual = self._follower is not None
        return ("moved by the sliders" if is_manual else "receiving joint states") + (
            "" if can_move else "; another program moves the robot, so the sliders are read-only"
        )
