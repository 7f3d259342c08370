# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Compare the engine with other libraries in one run: the same arm, the same quantities.

    python benchmarks/libraries.py [--write docs/comparison.md]

Each library computes five quantities of the 7-joint arm, from Python and with its shortest sequence
of calls that starts with a new configuration. The results must agree to 1e-9. The times of four
quantities are reported. A time is the fastest of 40 turns of 500 calls, in which the libraries
alternate. KDL is called from C++ (kdl_dynamics.cpp); its Python module is not on the package index.

Libraries that are not installed are omitted: `pip install pin idyntree mujoco drake`;
for KDL, liborocos-kdl-dev and a C++ compiler. With --write, the table on the page is replaced.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import dyn_ros

HERE = Path(__file__).parent
ARM = Path(dyn_ros.__file__).parent / "robots" / "arm7.urdf"
TIP = "tool"
TURNS, CALLS_PER_TURN = 40, 500
MAX_RELATIVE_ERROR = 1e-9
TIMED_QUANTITIES = {
    "inverse": "inverse dynamics",
    "inertia": "inertia matrix",
    "forward": "forward dynamics",
    "jacobian": "Jacobian of the tool",
}


def arm() -> str:
    """Return the arm without shapes and friction, which libraries treat differently."""
    return re.sub(
        r"<(visual|collision)>.*?</\1>|<dynamics[^>]*/>|<material.*?</material>",
        "",
        ARM.read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )


Call = Callable[..., np.ndarray]  # (q, v, a, tau)


class OurEngine:
    """Calls of dyn_ros."""

    name, distribution = "dyn_ros", None

    def __init__(self, xml: str) -> None:
        self._model = dyn_ros.Model.from_urdf(xml)
        self._data = dyn_ros.Data(self._model)

    def calls(self) -> dict[str, Call]:
        model, data, axes = self._model, self._data, dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED
        return {
            "gravity": lambda q, v, a, tau: dyn_ros.generalized_gravity(model, data, q),
            "inverse": lambda q, v, a, tau: dyn_ros.rnea(model, data, q, v, a),
            "inertia": lambda q, v, a, tau: dyn_ros.crba(model, data, q),
            "forward": lambda q, v, a, tau: dyn_ros.aba(model, data, q, v, tau),
            "jacobian": lambda q, v, a, tau: dyn_ros.frame_jacobian(model, data, q, TIP, axes),
        }


class Pinocchio:
    """Calls of Pinocchio."""

    name, distribution = "Pinocchio", "pin"

    def __init__(self, xml: str) -> None:
        import pinocchio

        self._pin = pinocchio
        self._model = pinocchio.buildModelFromXML(xml)
        self._data = self._model.createData()
        self._tip = self._model.getFrameId(TIP)

    def calls(self) -> dict[str, Call]:
        pin, model, data = self._pin, self._model, self._data

        return {
            "gravity": lambda q, v, a, tau: pin.computeGeneralizedGravity(model, data, q),
            "inverse": lambda q, v, a, tau: pin.rnea(model, data, q, v, a),
            "inertia": lambda q, v, a, tau: pin.crba(model, data, q),  # its upper triangle
            "forward": lambda q, v, a, tau: pin.aba(model, data, q, v, tau),
            "jacobian": lambda q, v, a, tau: pin.computeFrameJacobian(
                model, data, q, self._tip, pin.LOCAL_WORLD_ALIGNED
            ),
        }


class IDynTree:
    """Calls of iDynTree, whose models have a floating base: results include its six coordinates."""

    name, distribution = "iDynTree", "idyntree"

    def __init__(self, xml: str) -> None:
        import idyntree.swig as idyn

        self._idyn = idyn
        loader = idyn.ModelLoader()
        names = list(dyn_ros.Model.from_urdf(xml).joint_names)
        if not loader.loadReducedModelFromString(xml, names):
            raise ValueError("iDynTree cannot read the arm")
        self._kindyn = idyn.KinDynComputations()
        self._kindyn.loadRobotModel(loader.model())
        self._loader, self._model = loader, loader.model()

    def calls(self) -> dict[str, Call]:
        idyn, kindyn, nv = self._idyn, self._kindyn, self._model.getNrOfDOFs()
        gravity, base_acceleration = np.array([0.0, 0.0, -9.81]), np.zeros(6)
        forces = idyn.FreeFloatingGeneralizedTorques(self._model)
        wrenches = idyn.LinkWrenches(self._model)
        wrenches.zero()
        matrix = idyn.MatrixDynSize(nv + 6, nv + 6)
        jacobian = idyn.MatrixDynSize(6, nv + 6)

        def weight(q, v, a, tau) -> np.ndarray:
            kindyn.setRobotState(q, v, gravity)
            kindyn.generalizedGravityForces(forces)
            return forces.jointTorques().toNumPy()

        def inverse(q, v, a, tau) -> np.ndarray:
            kindyn.setRobotState(q, v, gravity)
            kindyn.inverseDynamics(base_acceleration, a, wrenches, forces)
            return forces.jointTorques().toNumPy()

        def inertia(q, v, a, tau) -> np.ndarray:
            kindyn.setRobotState(q, v, gravity)
            kindyn.getFreeFloatingMassMatrix(matrix)
            return matrix.toNumPy()[6:, 6:]

        def tip(q, v, a, tau) -> np.ndarray:
            kindyn.setRobotState(q, v, gravity)
            kindyn.getFrameFreeFloatingJacobian(TIP, jacobian)
            return jacobian.toNumPy()[:, 6:]

        return {"gravity": weight, "inverse": inverse, "inertia": inertia, "jacobian": tip}


class MuJoCo:
    """Calls of MuJoCo's functions for these quantities; contacts and limits are off."""

    name, distribution = "MuJoCo", "mujoco"

    def __init__(self, xml: str) -> None:
        import mujoco

        self._mujoco = mujoco
        options = '<mujoco><compiler fusestatic="false" discardvisual="true"/></mujoco>'
        self._model = model = mujoco.MjModel.from_xml_string(
            xml.replace("</robot>", options + "</robot>")
        )
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
        self._data = mujoco.MjData(model)
        self._tip = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, TIP)

    def calls(self) -> dict[str, Call]:
        mujoco, model, data = self._mujoco, self._model, self._data
        nv = model.nv
        torques, matrix, J = np.zeros(nv), np.zeros((nv, nv)), np.zeros((6, nv))

        def set_positions(q: np.ndarray) -> None:
            data.qpos[:] = q
            mujoco.mj_kinematics(model, data)
            mujoco.mj_comPos(model, data)

        def newton_euler(q: np.ndarray, v: np.ndarray | float, has_acceleration: int) -> np.ndarray:
            set_positions(q)
            data.qvel[:] = v
            mujoco.mj_comVel(model, data)
            mujoco.mj_rne(model, data, has_acceleration, torques)
            return torques

        def inverse(q, v, a, tau) -> np.ndarray:
            data.qacc[:] = a
            return newton_euler(q, v, 1)

        def inertia(q, v, a, tau) -> np.ndarray:
            set_positions(q)
            mujoco.mj_crb(model, data)
            fill(matrix)
            return matrix

        def fill(matrix: np.ndarray) -> None:
            try:
                mujoco.mj_fullM(model, matrix, data.qM)
            except (AttributeError, TypeError):  # since MuJoCo 4
                mujoco.mj_fullM(model, data, matrix)

        def forward(q, v, a, tau) -> np.ndarray:
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau
            mujoco.mj_forward(model, data)
            return data.qacc

        def tip(q, v, a, tau) -> np.ndarray:
            set_positions(q)
            mujoco.mj_jacBody(model, data, J[:3], J[3:], self._tip)
            return J

        return {
            "gravity": lambda q, v, a, tau: newton_euler(q, 0.0, 0),
            "inverse": inverse,
            "inertia": inertia,
            "forward": forward,
            "jacobian": tip,
        }


class Drake:
    """Calls of Drake's MultibodyPlant, welded to the world."""

    name, distribution = "Drake", "drake"

    def __init__(self, xml: str) -> None:
        from pydrake.multibody.math import SpatialVelocity  # noqa: F401, checks the installation
        from pydrake.multibody.parsing import Parser
        from pydrake.multibody.plant import MultibodyPlant
        from pydrake.multibody.tree import JacobianWrtVariable

        self._velocity_variables = JacobianWrtVariable.kV
        self._plant = plant = MultibodyPlant(0.0)
        Parser(plant).AddModelsFromString(xml, "urdf")
        plant.WeldFrames(plant.world_frame(), plant.GetFrameByName("base_link"))
        plant.Finalize()
        self._context = plant.CreateDefaultContext()
        self._tip = plant.GetFrameByName(TIP)

    def calls(self) -> dict[str, Call]:
        from pydrake.multibody.tree import MultibodyForces

        plant, context = self._plant, self._context
        world, origin, forces = plant.world_frame(), np.zeros(3), MultibodyForces(plant)
        port = plant.get_applied_generalized_force_input_port()
        result = plant.get_generalized_acceleration_output_port()

        def weight(q, v, a, tau) -> np.ndarray:
            plant.SetPositions(context, q)
            return -plant.CalcGravityGeneralizedForces(context)

        def inverse(q, v, a, tau) -> np.ndarray:
            plant.SetPositions(context, q)
            plant.SetVelocities(context, v)
            plant.CalcForceElementsContribution(context, forces)
            return plant.CalcInverseDynamics(context, a, forces)

        def inertia(q, v, a, tau) -> np.ndarray:
            plant.SetPositions(context, q)
            return plant.CalcMassMatrix(context)

        def forward(q, v, a, tau) -> np.ndarray:
            plant.SetPositions(context, q)
            plant.SetVelocities(context, v)
            port.FixValue(context, tau)
            return result.Eval(context)

        def tip(q, v, a, tau) -> np.ndarray:
            plant.SetPositions(context, q)
            J = plant.CalcJacobianSpatialVelocity(
                context, self._velocity_variables, self._tip, origin, world, world
            )
            return np.vstack([J[3:], J[:3]])

        return {
            "gravity": weight,
            "inverse": inverse,
            "inertia": inertia,
            "forward": forward,
            "jacobian": tip,
        }


LIBRARIES = (OurEngine, Pinocchio, IDynTree, MuJoCo, Drake)


def load_libraries(xml: str) -> list:
    """Return the libraries that are installed, each with the arm."""
    installed = []
    for kind in LIBRARIES:
        try:
            installed.append(kind(xml))
        except ImportError as error:
            print(f"{kind.name} is omitted: {error}".splitlines()[0], file=sys.stderr)
    return installed


def version(library: object) -> str:
    """Return the name and version of a library."""
    release = (
        dyn_ros.__version__
        if library.distribution is None
        else importlib.metadata.version(library.distribution)
    )
    return f"{library.name} {release}"


def comparable_result(name: str, value: np.ndarray) -> np.ndarray:
    """Return a result; of an inertia matrix the upper triangle, since only one may be filled."""
    return np.triu(value) if name == "inertia" else np.array(value, float)


def require_agreement(libraries: list, state: tuple) -> float:
    """Return the largest relative difference from our results; raise above the tolerance."""
    expected = {
        name: comparable_result(name, call(*state)).copy()
        for name, call in libraries[0].calls().items()
    }
    max_error = 0.0
    for library in libraries[1:]:
        for name, call in library.calls().items():
            error = np.abs(comparable_result(name, call(*state)) - expected[name]).max()
            error /= np.abs(expected[name]).max()
            if not error < MAX_RELATIVE_ERROR:
                raise SystemExit(f"{library.name}: {name} differs by {error:.1e}")
            max_error = max(max_error, error)
    return max_error


def time_calls(libraries: list, state: tuple) -> dict[tuple[str, str], float]:
    """Return the fastest time of a call [us], by library and quantity."""
    times = {}
    calls = {library.name: library.calls() for library in libraries}
    for name in TIMED_QUANTITIES:
        for _ in range(TURNS):
            for library, calls_by_quantity in calls.items():
                if name in calls_by_quantity:
                    call = partial(calls_by_quantity[name], *state)
                    call()
                    start = time.perf_counter()
                    for _ in range(CALLS_PER_TURN):
                        call()
                    duration = (time.perf_counter() - start) / CALLS_PER_TURN * 1e6
                    times[library, name] = min(duration, times.get((library, name), np.inf))
    return times


def time_kdl(xml: str, state: tuple) -> dict[str, float]:
    """Return KDL's times from C++ [us] by quantity; empty without KDL or a compiler."""
    compiler = shutil.which("c++")
    if compiler is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "kdl"
        flags = shlex.split(os.environ.get("KDL_FLAGS", "-I/usr/include/eigen3"))
        compilation = subprocess.run(
            [compiler, "-O3", "-o", program, HERE / "kdl_dynamics.cpp", *flags, "-lorocos-kdl"],
            capture_output=True,
            text=True,
        )
        if compilation.returncode:
            print("KDL is omitted: liborocos-kdl-dev is not installed", file=sys.stderr)
            return {}
        model = dyn_ros.Model.from_urdf(xml)
        numbers: list[float] = [model.nv, CALLS_PER_TURN, TURNS]
        for joint in model.tree.joints:
            c, Y = joint.inertia.com, joint.inertia.rotational
            numbers += [
                joint.kind == "prismatic",
                *joint.placement[:3, 3],
                *joint.placement[:3, :3].ravel(),
                *joint.axis,
                0.0,
                joint.inertia.mass,
                *c,
                Y[0, 0],
                Y[1, 1],
                Y[2, 2],
                Y[0, 1],
                Y[0, 2],
                Y[1, 2],
            ]
        for array in state[:3]:
            numbers += array.tolist()
        output = subprocess.run(
            [program],
            input=" ".join(repr(float(x)) for x in numbers),
            text=True,
            capture_output=True,
            check=True,
        ).stdout.split()
    values = np.array(output, float)
    times, (gravity, inverse) = values[:4], values[4:].reshape(2, model.nv)
    data = dyn_ros.Data(model)
    for theirs, ours in (
        (gravity, dyn_ros.generalized_gravity(model, data, state[0])),
        (inverse, dyn_ros.rnea(model, data, *state[:3])),
    ):
        if not np.abs(theirs - ours).max() < MAX_RELATIVE_ERROR * np.abs(ours).max():
            raise SystemExit("KDL: the results differ")
    return dict(zip(("gravity", "inverse", "inertia", "jacobian"), times))


def report() -> list[str]:
    """Return the lines of the section."""
    xml, rng = arm(), np.random.default_rng(0)
    libraries = load_libraries(xml)
    state = tuple(rng.uniform(-1.0, 1.0, (4, 7)))
    max_error = require_agreement(libraries, state)
    times, kdl_times = time_calls(libraries, state), time_kdl(xml, state)
    lines = [
        f"{', '.join(map(version, libraries))}; {platform.machine()}, Python "
        f"{platform.python_version()}. The results agree to {max_error:.0e}. Times are in µs.",
        "",
    ]
    names = [library.name for library in libraries]
    head = [*names, *(["KDL, C++"] if kdl_times else [])]
    lines += ["| | " + " | ".join(head) + " |", "| --- " * (len(head) + 1) + "|"]
    for key, description in TIMED_QUANTITIES.items():
        cells = [f"{times[name, key]:.2f}" if (name, key) in times else "" for name in names]
        if kdl_times:
            cells.append(f"{kdl_times[key]:.2f}" if key in kdl_times else "")
        lines.append(f"| {description} | " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    """Print the section; write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", type=Path, help="replace the tables of this page")
    path = parser.parse_args().write
    dyn_ros.precompile(
        ["generalized_gravity", "rnea", "crba", "aba", "frame_jacobian"], coupled=False
    )
    text = "\n".join(report())
    print(text)
    if path:
        page = path.read_text(encoding="utf-8")
        path.write_text(
            re.sub(
                r"(<!-- measured -->\n).*?(<!-- end -->)",
                lambda m: f"{m[1]}{text}\n{m[2]}",
                page,
                flags=re.DOTALL,
            ),
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
