# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compares two sets of torques for holding the tool of an arm against gravity and a push.

    python docs/hold_tip.py             writes docs/images/hold_tip.svg

The controller knows the push on the forearm and the friction of the joints, and computes torques
for zero acceleration of the tool with ``dyn_ros.vereshchagin``. The robot is simulated with
``dyn_ros.aba``, once with KDL's ``constraint_torques`` sent to its joints and once with
``constraint_generalized_forces``.
"""

from pathlib import Path

import numpy as np

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
ARM = ROOT / "dyn_ros" / "robots" / "arm7.urdf"
FIGURE = ROOT / "docs" / "images" / "hold_tip.svg"
TIP = "tool"
POSTURE = np.array([0.0, 0.6, 0.0, 1.2, 0.0, 0.7, 0.0])
ROTORS = (0.5, 0.5, 0.3, 0.3, 0.1, 0.1, 0.1)  # kg m2, reflected to the joints
FRICTION = 1.0  # N m s/rad in each joint
PUSH = {"forearm_link": (0.0, 40.0, 0.0, 0.0, 0.0, 0.0)}  # N, in its frame
PUSHED = 0.05, 0.2  # s
END, STEP = 0.3, 0.001  # s
SENT = "constraint_torques", "constraint_generalized_forces"


class Arm:
    """The simulated arm with its controller, which sends one of the solution's torques."""

    def __init__(self, sent):
        self.model = dyn_ros.Model.from_urdf_file(ARM)
        self.model.armature = ROTORS
        self.data = dyn_ros.Data(self.model)
        self.sent = sent
        self.push = self.model.external_forces(PUSH)
        self.missed = 0.0

    def acceleration(self, t, q, v):
        """Return the joint accelerations under the torques that the controller sends."""
        f_ext = self.push if PUSHED[0] <= t < PUSHED[1] else 0.0 * self.push
        friction = -FRICTION * v
        velocity = dyn_ros.frame_velocity(self.model, self.data, q, v, TIP, 2)
        # The spatial acceleration, minus gravity, for a classical acceleration of zero.
        spatial = -np.cross(velocity[3:], velocity[:3]) - self.model.gravity
        beta = np.concatenate([spatial, np.zeros(3)])
        plan = dyn_ros.vereshchagin(
            self.model, self.data, q, v, np.eye(6), beta, TIP, None, f_ext, friction
        )
        torque = friction + getattr(plan, self.sent)
        ddq = dyn_ros.aba(self.model, self.data, q, v, torque, f_ext).copy()
        tool = dyn_ros.frame_classical_acceleration(self.model, self.data, q, v, ddq, TIP, 2)
        self.missed = max(self.missed, np.abs(tool).max())
        return ddq

    def tip(self, q):
        index = self.model.frame_index(TIP)
        return dyn_ros.frame_placements(self.model, self.data, q)[index][:3, 3].copy()

    def joints(self, q):
        """Return the positions of the joints and the tip, (n + 1, 3)."""
        oMi = dyn_ros.forward_kinematics(self.model, self.data, q)[0]
        return np.array([*oMi[:, :3, 3], self.tip(q)])


def simulate(sent):
    """Return times, tip positions, and the largest deviation of the tool's acceleration."""
    arm = Arm(sent)
    q, v, tips = POSTURE.copy(), np.zeros(arm.model.nv), []
    times = np.arange(0.0, END, STEP)
    for t in times:
        tips.append(arm.tip(q))
        a1 = arm.acceleration(t, q, v)  # fourth-order Runge-Kutta method
        v2 = v + STEP / 2 * a1
        a2 = arm.acceleration(t + STEP / 2, q + STEP / 2 * v, v2)
        v3 = v + STEP / 2 * a2
        a3 = arm.acceleration(t + STEP / 2, q + STEP / 2 * v2, v3)
        v4 = v + STEP * a3
        a4 = arm.acceleration(t + STEP, q + STEP * v3, v4)
        q = q + STEP / 6 * (v + 2 * v2 + 2 * v3 + v4)
        v = v + STEP / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
    return times, np.array(tips), arm.missed


# --- the figure

COLORS = {"constraint_torques": "#c0392b", "constraint_generalized_forces": "#2471a3"}


def line(points, color, width=2.0):
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="{width}" '
        'stroke-linejoin="round" stroke-linecap="round"/>'
    )


def text(x, y, words, color="#333", anchor="start"):
    return f'<text x="{x}" y="{y}" fill="{color}" text-anchor="{anchor}">{words}</text>'


def side_view(results):
    """Draw the arm in its plane, x to the right and z up, and the paths of its tip."""

    def place(points):
        return [(50.0 + 390.0 * p[0], 350.0 - 390.0 * p[2]) for p in points]

    joints = place(Arm(SENT[0]).joints(POSTURE))
    yield line([(20.0, 350.0), (340.0, 350.0)], "#999")
    yield line([(50.0, 350.0), *joints], "#bbb", 9.0)
    for x, y in joints[:-1]:
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="#666"/>'
    for sent, (_, tips, _) in results.items():
        x, y = place(tips[-1:])[0]
        yield line(place(tips[::5]), COLORS[sent])
        yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{COLORS[sent]}"/>'
    yield text(180, 385, "paths of the tool, from the side", anchor="middle")


def over_time(results):
    """Draw the distance of the tip from its initial position."""
    far = max(np.linalg.norm(tips - tips[0], axis=1).max() for _, tips, _ in results.values())

    def place(t, distance):
        return 430.0 + 310.0 * t / END, 350.0 - 280.0 * distance / far

    top, bottom = place(0.0, far)[1], place(0.0, 0.0)[1]
    begin, end = (place(t, 0.0)[0] for t in PUSHED)
    yield (
        f'<rect x="{begin:.1f}" y="{top:.1f}" width="{end - begin:.1f}" '
        f'height="{bottom - top:.1f}" fill="#eee"/>'
    )
    yield text((begin + end) / 2, top + 16, "push", "#999", "middle")
    yield line([(430.0, top), (430.0, bottom), (740.0, bottom)], "#999", 1.0)
    for sent, (times, tips, _) in results.items():
        yield line(
            [place(t, d) for t, d in zip(times[::5], np.linalg.norm(tips - tips[0], axis=1)[::5])],
            COLORS[sent],
        )
    yield text(424, top + 4, f"{far:.2f} m", anchor="end")
    yield text(424, bottom, "0", anchor="end")
    yield text(740, 367, f"{END} s", anchor="end")
    yield text(585, 385, "distance of the tool from its initial position", anchor="middle")


def figure(results):
    """Return an SVG with the result of ``simulate`` for each of ``SENT``."""
    parts = [*side_view(results), *over_time(results)]
    for n, sent in enumerate(SENT):
        parts += [
            line([(60, 25 + 20 * n), (90, 25 + 20 * n)], COLORS[sent]),
            text(98, 29 + 20 * n, f"sent: {sent}"),
        ]
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 400" '
        'font-family="sans-serif" font-size="13">'
        '<rect width="760" height="400" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def main():
    results = {sent: simulate(sent) for sent in SENT}
    for sent, (_, tips, missed) in results.items():
        far = np.linalg.norm(tips - tips[0], axis=1).max()
        print(f"{sent}: the tool moves {far:.1e} m, accelerates by up to {missed:.1e}")
    FIGURE.write_text(figure(results))


if __name__ == "__main__":
    main()
