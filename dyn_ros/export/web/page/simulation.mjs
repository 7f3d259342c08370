// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// A robot with compliant motors that yields to a pull and returns; see
// dyn_ros/viewer/simulation.py.
//
// Each motor applies the torque that holds the posture, plus the torque of a spring and a damper.
// A step is implicit in springs, dampers and friction, which makes it stable for any robot: their
// coefficients are added to the diagonal of M as armature, (M + h D + h^2 K) dv/dt = ...

import {LOCAL_WORLD_ALIGNED} from '../javascript/dyn_ros.mjs'
import {clamp, norm} from './geometry.mjs'

const STEP = 1e-3 // s
const MAX_ADVANCE = 0.05 // s; a slow page simulates in slow motion
const TEST_LOAD = 0.2 // relative to the weight; at full reach, it deflects joints as below
const TEST_ANGLE = 0.08 // rad
const TEST_DISTANCE = 0.02 // m
const MIN_FREQUENCY = 8 // rad/s; natural frequency of each joint by itself
const MIN_STIFFNESS = 1 // N m/rad, N/m
const MAX_SPEED = 20 // rad/s, m/s
const FRICTION_VELOCITY = 0.05 // rad/s, m/s; Coulomb friction grows linearly up to this speed
const REST = 1e-3 // rad, m, and per s; a robot that is nearer to its posture rests
const CONTACT_KP = 400 // 1/s2
const CONTACT_KD = 40 // 1/s
const FOOT_STIFFNESS = 8 // more than without legs, which carry the robot

/** Holds the posture; compensates gravity and friction only; or is switched off. */
export const MOTORS = ['hold', 'float', 'off']

/** A robot in simulation. `q` and `v` are its state, `effort` the torques of its motors. */
export class Simulation {
  /**
   * `model` and `contactModel` (null without feet) are instances of their own, which may be
   * changed. `feet` are {frame, point, isSole}, with points in the world at the posture.
   */
  constructor(robot, model, contactModel, feet) {
    Object.assign(this, {robot, model, contactModel, feet})
    this.nv = model.nv
    this.zero = new Float64Array(model.nv)
    this.motors = 'hold'
    this.pull = null // {frame, offset, force}
    this.isBase = Uint8Array.from(this.zero, () => 1)
    for (const {idx_v, isPlanar} of robot.coordinates) this.isBase[idx_v] = isPlanar ? 1 : 0
    this.joints = robot.singles
    this.damping = model.damping
    this.friction = model.friction
  }

  /** Start at rest in a posture, which is held from now on. */
  start(q) {
    this.q = Float64Array.from(q)
    this.v = new Float64Array(this.nv)
    this.hold(q)
    this.placeFeet()
  }

  /** Hold another posture from now on. */
  hold(q) {
    const {robot, model} = this
    robot.copyTo(model)
    if (this.contactModel) robot.copyTo(this.contactModel)
    this.posture = Float64Array.from(q)
    model.set_armature(this.zero)
    const {M} = model.crba(q)
    const diagonal = this.zero.map((_, k) => M[k * (this.nv + 1)])
    this.chooseGains(q, diagonal)
    this.feedforward = this.feet.length ? this.standingTorques(q) : model.generalized_gravity(q).g
    this.effort = Float64Array.from(this.feedforward)
  }

  /** Choose stiffness and damping by the weight and the reach of the robot. */
  chooseGains(q, diagonal) {
    const {model} = this
    const weight = 9.81 * Math.max(model.total_mass(), 0.1)
    const reach = jointReach(model, model.frame_placements(q).oMf)
    const sliding = new Set(this.robot.coordinates.filter(x => x.isPrismatic).map(x => x.idx_v))
    const factor = this.feet.length ? FOOT_STIFFNESS : 1
    this.stiffness = diagonal.map((inertia, k) => {
      if (this.robot.floating >= 0 && k < 6) return inertia * 100
      const isPrismatic = sliding.has(k)
      const load = TEST_LOAD * weight * (isPrismatic ? 1 : reach[k])
      const deflection = isPrismatic ? TEST_DISTANCE : TEST_ANGLE
      const holding = factor * Math.max(load, this.friction[k]) / deflection
      return Math.max(holding, inertia * MIN_FREQUENCY ** 2, MIN_STIFFNESS)
    })
    this.gainDamping = this.stiffness.map((K, k) => 2 * Math.sqrt(K * diagonal[k]))
  }

  /** Return the torques with which the motors hold the robot on its feet, with the least forces. */
  standingTorques(q) {
    const {g} = this.model.generalized_gravity(q)
    const J = this.footJacobian(q)
    const rows = J.length
    const A = Array.from({length: 6}, (_, i) => Array.from({length: 6}, (_, j) =>
      J.reduce((sum, row) => sum + row[i] * row[j], i === j ? 1e-9 : 0)))
    const x = solve(A, Array.from(g.subarray(0, 6)))
    const forces = Array.from({length: rows}, (_, r) =>
      J[r].slice(0, 6).reduce((sum, value, i) => sum + value * x[i], 0))
    return g.map((torque, k) => k < 6 ? 0 : J.reduce((sum, row, r) => sum - row[k] * forces[r], torque))
  }

  /** Return the rows of the Jacobian of all feet: forces, and moments of soles. */
  footJacobian(q) {
    const oMf = this.model.frame_placements(q).oMf
    return this.feet.flatMap(({frame, point, isSole}) => {
      const offset = isSole ? [0, 0, 0] : toFrame(oMf, frame, point)
      const {frame_jacobian: J} = this.model.frame_jacobian(q, frame, LOCAL_WORLD_ALIGNED, offset)
      return Array.from({length: isSole ? 6 : 3}, (_, i) =>
        Array.from({length: this.nv}, (_, k) => J[6 * k + i]))
    })
  }

  /** Put the feet on the ground, where they stay while they carry weight. */
  placeFeet() {
    if (!this.feet.length) return
    const {oMf} = this.model.frame_placements(this.q)
    this.contactList = this.feet.map(({frame, point, isSole}) => {
      const pose = Array.from(oMf.subarray(16 * frame, 16 * frame + 16))
      const offset = isSole ? [0, 0, 0] : toFrame(oMf, frame, point)
      const place = isSole ? [pose[3], pose[7], pose[11]] : point
      const other = [...pose]
      place.forEach((x, k) => { other[4 * k + 3] = x })
      const placement = [1, 0, 0, offset[0], 0, 1, 0, offset[1], 0, 0, 1, offset[2], 0, 0, 0, 1]
      return {
        frame, placement, other_placement: other, dimension: isSole ? 6 : 3,
        reference_frame: LOCAL_WORLD_ALIGNED, kp: CONTACT_KP, kd: CONTACT_KD
      }
    })
    this.contacts = this.contactModel.contacts(this.contactList, {damping: 1e-8})
  }

  /** Advance by a time [s]; return false if the robot rests in its posture. */
  advance(seconds) {
    const steps = Math.max(1, Math.round(Math.min(seconds, MAX_ADVANCE) / STEP))
    for (let n = 0; n < steps; n++) this.step(STEP)
    if (this.q.some(x => !Number.isFinite(x)) || this.v.some(x => !Number.isFinite(x))) {
      this.start(this.posture)
      return false
    }
    return this.pull !== null || !this.rests()
  }

  rests() {
    const speed = Math.max(0, ...this.v.map(Math.abs))
    if (this.motors !== 'hold') return speed < REST
    return speed < REST && Math.max(0, ...this.offsets().map(Math.abs)) < REST
  }

  /** Return what leads from the state to the posture, in the directions of v. */
  offsets() {
    const offsets = new Float64Array(this.nv)
    for (const {nv, idx_q, idx_v} of this.model.joints) {
      if (nv === 1) offsets[idx_v] = this.posture[idx_q] - this.q[idx_q]
      if (nv === 3) planarOffset(this.q, this.posture, idx_q, idx_v, offsets)
      if (nv === 6) floatingOffset(this.q, this.posture, idx_q, idx_v, offsets)
    }
    return offsets
  }

  step(h) {
    const {q, v, nv} = this
    const isFree = this.contacts && this.robot.floating >= 0 // nothing holds a base on feet
    const offsets = this.offsets()
    const tau = new Float64Array(nv)
    const armature = new Float64Array(nv)
    for (let k = 0; k < nv; k++) {
      const isHeld = this.motors === 'hold' || (this.isBase[k] && !isFree)
      const hasMotor = !(isFree && k < 6)
      const K = isHeld && hasMotor ? this.stiffness[k] : 0
      const D = isHeld && hasMotor ? this.gainDamping[k] : 0
      const friction = this.damping[k] + this.friction[k] / Math.max(Math.abs(v[k]), FRICTION_VELOCITY)
      const forward = this.motors === 'off' && !this.isBase[k] ? 0 : this.feedforward[k]
      this.effort[k] = forward + K * offsets[k] - D * v[k]
      tau[k] = this.effort[k] - (h * K + friction) * v[k]
      armature[k] = h * (D + friction) + h * h * K
    }
    if (this.motors === 'float' && !isFree) this.compensate(tau)
    if (this.pull) this.addPull(tau)
    const ddq = this.accelerations(tau, armature)
    this.move(h, ddq)
  }

  /** Replace the torques that hold the posture by those that hold the present one. */
  compensate(tau) {
    const {g} = this.model.generalized_gravity(this.q)
    for (let k = 0; k < this.nv; k++) {
      tau[k] += g[k] - this.feedforward[k]
      this.effort[k] += g[k] - this.feedforward[k]
    }
  }

  addPull(tau) {
    const {frame, offset, force} = this.pull
    const {frame_jacobian: J} = this.model.frame_jacobian(this.q, frame, LOCAL_WORLD_ALIGNED, offset)
    for (let k = 0; k < this.nv; k++) {
      tau[k] += J[6 * k] * force[0] + J[6 * k + 1] * force[1] + J[6 * k + 2] * force[2]
    }
  }

  accelerations(tau, armature) {
    const model = this.contacts ? this.contactModel : this.model
    model.set_armature(armature)
    try {
      if (!this.contacts) return model.aba(this.q, this.v, tau).ddq
      const {ddq, lambda_c: forces} = model.contact_dynamics(this.q, this.v, tau, this.contacts)
      this.forces = forces
      return ddq
    } catch (error) {
      if (error.results?.ddq) return error.results.ddq // a joint that moves almost no inertia
      throw error
    }
  }

  move(h, ddq) {
    const {q, v} = this
    for (let k = 0; k < this.nv; k++) v[k] = clamp(v[k] + h * ddq[k], -MAX_SPEED, MAX_SPEED)
    this.q = this.model.integrate(q, v.map(x => h * x))
    for (const {idx_q, idx_v, lower, upper} of this.joints) {
      const position = this.q[idx_q]
      if (position >= lower && position <= upper) continue
      this.q[idx_q] = clamp(position, lower, upper)
      v[idx_v] = 0
    }
  }
}

/** Return the point of the world in the axes of a frame. */
function toFrame(oMf, frame, point) {
  const X = oMf.subarray(16 * frame, 16 * frame + 12)
  const d = [point[0] - X[3], point[1] - X[7], point[2] - X[11]]
  return [0, 1, 2].map(j => X[j] * d[0] + X[4 + j] * d[1] + X[8 + j] * d[2])
}

/** Return for each velocity the largest distance of a frame that it moves [m]. */
function jointReach(model, oMf) {
  const at = k => [oMf[16 * k + 3], oMf[16 * k + 7], oMf[16 * k + 11]]
  const reach = new Float64Array(model.nv)
  model.frames.forEach((frame, k) => {
    for (let j = frame.joint; j >= 0; j = model.joints[j].parent) {
      const {frame: base, nv, idx_v} = model.joints[j]
      const arm = norm(at(k).map((x, i) => x - at(base)[i]))
      for (let i = 0; i < nv; i++) reach[idx_v + i] = Math.max(reach[idx_v + i], arm)
    }
  })
  return reach
}

function planarOffset(q, goal, iq, iv, offsets) {
  const [x, y] = [goal[iq] - q[iq], goal[iq + 1] - q[iq + 1]]
  const [c, s] = [Math.cos(q[iq + 2]), Math.sin(q[iq + 2])]
  offsets.set([c * x + s * y, c * y - s * x, goal[iq + 2] - q[iq + 2]], iv)
}

function floatingOffset(q, goal, iq, iv, offsets) {
  const [x, y, z, w] = q.subarray(iq + 3, iq + 7)
  const [gx, gy, gz, gw] = goal.subarray(iq + 3, iq + 7)
  const d = [0, 1, 2].map(k => goal[iq + k] - q[iq + k])
  const u = [-x, -y, -z]
  const t = [u[1] * d[2] - u[2] * d[1], u[2] * d[0] - u[0] * d[2], u[0] * d[1] - u[1] * d[0]]
  const turn = [u[1] * t[2] - u[2] * t[1], u[2] * t[0] - u[0] * t[2], u[0] * t[1] - u[1] * t[0]]
  const linear = d.map((value, k) => value + 2 * w * t[k] + 2 * turn[k])
  const e = [w * gx - x * gw - y * gz + z * gy, w * gy - y * gw - z * gx + x * gz,
    w * gz - z * gw - x * gy + y * gx]
  const sign = w * gw + x * gx + y * gy + z * gz < 0 ? -2 : 2
  offsets.set([...linear, ...e.map(value => sign * value)], iv)
}

/** Return the solution of a small linear system, by elimination with pivots. */
export function solve(matrix, right) {
  const n = right.length
  const rows = matrix.map((row, k) => [...row, right[k]])
  for (let k = 0; k < n; k++) {
    let pivot = k
    for (let i = k; i < n; i++) if (Math.abs(rows[i][k]) > Math.abs(rows[pivot][k])) pivot = i
    ;[rows[k], rows[pivot]] = [rows[pivot], rows[k]]
    for (let i = k + 1; i < n; i++) {
      const factor = rows[i][k] / (rows[k][k] || 1e-300)
      for (let j = k; j <= n; j++) rows[i][j] -= factor * rows[k][j]
    }
  }
  const x = new Array(n).fill(0)
  for (let k = n - 1; k >= 0; k--) {
    x[k] = rows[k].slice(k + 1, n).reduce((sum, a, j) => sum - a * x[k + 1 + j], rows[k][n]) / (rows[k][k] || 1e-300)
  }
  return x
}
