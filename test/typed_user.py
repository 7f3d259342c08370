# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Code of a user, for a type checker: lines that it must reject have its error code in a comment.

Read by test_types.py, never run.
"""

import array
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import dyn_ros
from dyn_ros import (
    SE3,
    ArticulatedBodyInertia,
    Force,
    Inertia,
    Motion,
    ReferenceFrame,
    TransformDerivative,
    TransformSecondDerivative,
)

Floats = NDArray[np.float64]

# --- the model
model = dyn_ros.Model.from_urdf_file("arm.urdf", root_joint="floating", gravity=[0, 0, -1.6])
dyn_ros.Model.from_urdf("<robot/>", mimic="ignore", strict=True)
dyn_ros.Model.from_urdf("<robot/>", root_joint="spherical")  # error: arg-type
dyn_ros.Model.from_urdf("<robot/>", gravity=9.81)  # error: arg-type
model.gravity = np.zeros(3)
model.gravity = "moon"  # error: assignment
print(model.mass)  # error: attr-defined
assert_type(model.joint_names, tuple[str, ...])
assert_type(model.inertias[0].mass, float)
model.set_payload("cup", "tool", 0.4, (0, 0, 0.1), np.eye(3))
model.set_payload("cup", "tool", mass="0.4", com=(0, 0, 0), inertia=np.eye(3))  # error: arg-type
model.damping = [0.1] * model.nv
part = model.reduced({"elbow": 0.3, "root_joint": [0, 0, 0, 0, 0, 0, 1]})
assert_type(part, dyn_ros.Model)
assert_type(model.chain("base", 3), dyn_ros.Model)
model.reduced(["elbow"])  # error: arg-type
model.reduced({"elbow": "0.3"})  # error: dict-item
assert_type(model.append(part, "tool", joint="spherical", prefix="hand/"), dyn_ros.Model)
model.append(part, "tool", SE3(np.eye(3)), "revolute", axis=(0, 0, 1), lower=-1, upper=1.5)
model.append(part, "tool", joint="ball")  # error: arg-type
assert_type(model.with_frame("tip", "tool", np.eye(4)), dyn_ros.Model)
assert_type(model.supports, tuple[tuple[int, ...], ...])
assert_type(model.row_parents, tuple[int, ...])
q = model.random_configuration(np.random.default_rng(0))
v = model.difference(q, model.neutral())
assert_type(model.d_integrate(q, v), tuple[Floats, Floats])
f_ext = model.external_forces({"tool": Force(np.zeros(6)), "elbow": [0, 0, -1, 0, 0, 0]})
model.external_forces({"tool": [0, 0, -1, 0, 0, 0]}, q, "world")
model.external_forces({"tool": [0, 0, -1, 0, 0, 0]}, q, ReferenceFrame.LOCAL_WORLD_ALIGNED)

# --- algorithms
data = dyn_ros.Data(model)
dyn_ros.Data("arm.urdf")  # error: arg-type
assert_type(dyn_ros.rnea(model, data, q, v, [0.0] * model.nv, f_ext), Floats)
dyn_ros.rnea(model, data, q, v)  # error: call-arg
dyn_ros.rnea(data, model, q, v, v)  # error: arg-type arg-type
dyn_ros.crba(model, data, "0 0 0")  # error: arg-type
dyn_ros.crba(model, data, ["0", "0"])  # error: arg-type
words = np.array(["0", "0"], dtype=np.str_)
dyn_ros.crba(model, data, words)  # error: arg-type
dyn_ros.crba(model, data, 0.0)  # error: arg-type
dyn_ros.crba(model, data, None)  # error: arg-type
dyn_ros.crba(model, data, array.array("d", [0.0, 1.0]))
dyn_ros.crba(model, data, [q, q], threads=2)
dyn_ros.crba(model, data, q, threads=0.5)  # error: arg-type
dyn_ros.crba(model, data, q, 2)  # error: call-arg
dyn_ros.crba(model, data, [q, q], out=np.empty((2, model.nv, model.nv)))
dyn_ros.momentum_terms(model, data, [q, q], v, out=(None, np.empty((2, model.nv))), threads=2)
dyn_ros.crba(model, data, [q, q], out="M")  # error: arg-type
placements: Floats = dyn_ros.forward_kinematics(model, data, q, only=("oMi",))
dyn_ros.aba(model, data, [[0, 1]], v.astype(np.float32), np.zeros(3, int))
ddq_dq, ddq_dv, ddq_dtau = dyn_ros.aba_derivatives(model, data, q, v, v)
dtau_dq, dtau_dv = dyn_ros.rnea_derivatives(model, data, q, v, v)  # error: misc
energy: float = dyn_ros.kinetic_energy(model, data, q, v)
energies: Floats = dyn_ros.kinetic_energy(model, data, [q, q], v)
assert_type(dyn_ros.joint_friction(model, v), Floats)
momentum, rate = dyn_ros.momentum_terms(model, data, q, v)
assert_type(momentum, Floats)
step = dyn_ros.momentum_observer_step(model, data, q, v, v, 0.001, 50.0, v, momentum, rate)
assert_type(step, dyn_ros.ObserverState)
assert_type(step.external, Floats)
observer = dyn_ros.MomentumObserver(model, [30.0] * model.nv, method="kalman", torque_noise=0.5)
assert_type(observer.update(q, v, v, 0.001), Floats)
assert_type(observer.covariance, Floats | None)
observer.update(q, v, v, [0.001])  # error: arg-type
dyn_ros.MomentumObserver(model, method="median")  # error: arg-type
assert_type(dyn_ros.momentum_observer(model, [q], [v], [v], 0.001, threads=2), Floats)
assert_type(dyn_ros.frame_forces(model, data, q, v, v, {"tool": [0, 0, 1, 0, 0, 0]}), Floats)
assert_type(dyn_ros.frame_force(model, data, q, v, v, "tool", f_ext, threads=2), Floats)
com, vcom, acom, mass = dyn_ros.center_of_mass(model, data, q, v)
upper, diagonal, inverse = dyn_ros.cholesky(model, data, q)
assert_type(dyn_ros.cholesky_solve(model, data, q, v), Floats)
dyn_ros.cholesky_U_times(model, data, q)  # error: call-arg
J = dyn_ros.frame_jacobian(model, data, q, "tool", ReferenceFrame.LOCAL)
dyn_ros.frame_jacobian(model, data, q, 3, 2, offset=(0.0, 0.0, 0.1))
dyn_ros.frame_acceleration_derivatives(model, data, q, v, v, "tool", 1, (0, 0, 1), classical=True)
dyn_ros.frame_velocity_derivatives(model, data, q, v, "tool", 1, "tip")  # error: arg-type
dyn_ros.frame_jacobian(model, data, q, "tool", "LOCAL")  # error: arg-type
found = dyn_ros.vereshchagin(model, data, q, v, np.eye(6), np.zeros(6), ["tool", 3])
assert_type(found.nu, Floats)
print(found.torque)  # error: attr-defined
dyn_ros.constrained_dynamics(model, data, q, v, "tool", J, f_ext={"tool": [0, 0, 1, 0, 0, 0]})
dyn_ros.constrained_dynamics(model, data, q, v, "tool", J, singularity="none")  # error: arg-type
assert_type(data.ddq, Floats)
dyn_ros.precompile(["crba"], progress=lambda done, total, name: print(name))
dyn_ros.precompiled()  # error: attr-defined

# --- values
X = SE3.from_quaternion((0, 0, 0, 1), [0.1, 0.2, 0.3])
assert_type(X * X, SE3)
assert_type(X * Motion.zero(), Motion)
assert_type(X.act_inverse(Force.zero()), Force)
assert_type(X.act(Inertia.from_sphere(1.0, 0.2)), Inertia)
assert_type(X * [0.0, 0.0, 1.0], Floats)
assert_type(X.log(), Motion)
SE3.exp(X.log())
X * "x"  # error: arg-type
assert_type(2 * Motion([0, 0, 1], [1, 0, 0]), Motion)
Motion.zero() + Force.zero()  # error: operator
assert_type(Motion.zero().cross(Force.zero()), Force)
assert_type(Motion.zero().dot(Force.zero()), float)
Motion.zero().dot(Motion.zero())  # error: arg-type
assert_type(sum([Inertia.zero()], Inertia.zero()), Inertia)
assert_type(Inertia.zero() * Motion.zero(), Force)
assert_type(ArticulatedBodyInertia.zero() * Motion.zero(), Force)
dX = TransformDerivative.from_body_twist(X, Motion.zero())
assert_type(dX.transform(X, Inertia.zero()), ArticulatedBodyInertia)
assert_type(2 * dX * X + dX, TransformDerivative)
dX.as_adjoint()  # error: call-arg
dX + TransformSecondDerivative.zero()  # error: operator
numbers: NDArray[Any] = np.asarray(dX)
