// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// A robot with compliant motors that yields to a pull and returns; see
// dyn_ros/viewer/simulation.py.
//
// Each motor applies the torque that holds the posture, plus the torque of a spring and a damper.
// A step is implicit in springs, dampers and friction, which makes it stable for any robot: their
// coefficients are added to the diagonal of M as armature, (M + h D + h^2 K) dv/dt = ...

import {DynRosError, LOCAL_WORLD_ALIGNED} from '../javascript/dyn_ros.mjs'
import {clamp, norm} from './geometry.mjs'

const STEP = 1e-3 // s
const MAX_ADVANCE = 0.1 // s; a slow page simulates in slow motion
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
const FOOT_TOLERANCE = 0.02 // m; feet that are higher do not stand
const MIN_PRESSURE = 0.01 // force with which a foot may pull before it lifts / weight
const LEG_STIFFNESS = 4 // of a joint of a leg / what tips the robot over
const LIMIT_STIFFNESS = 25 // of the stop at a limit of a joint / of the joint; for robots on feet

/** Holds the posture; compensates gravity and friction only; or is switched off. */
export const MOTORS = ['hold', 'float', 'off']

/** A robot in simulation. `q` and `v` are its state, `effort` the torques of its motors. */
export class Simulation {
  /**
   * `model` and `contactModel` (null without feet) are instances of their own, which may be
   * changed. `feet` are {frame, point, isSole}, with points in the world at the posture, at the
   * ends of `legs`, lists of joints.
   */
  constructor(robot, model, contactModel, feet, legs) {
    Object.assign(this, {robot, model, contactModel, feet})
    this.legRows = new Set(feet.length ? legs.flat().map(k => model.joints[k].idx_v) : [])
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
    const height = this.feet.length ? this.centerHeight(q) : 0
    const tipping = weight * height
    this.stiffness = diagonal.map((inertia, k) => {
      if (this.robot.floating >= 0 && k < 6) return inertia * 100
      const isPrismatic = sliding.has(k)
      const load = TEST_LOAD * weight * (isPrismatic ? 1 : reach[k])
      const deflection = isPrismatic ? TEST_DISTANCE : TEST_ANGLE
      if (this.legRows.has(k)) return LEG_STIFFNESS * tipping
      const holding = Math.max(load, this.friction[k]) / deflection
      return Math.max(holding, inertia * MIN_FREQUENCY ** 2, MIN_STIFFNESS)
    })
    const whole = model.total_mass() * height * height
    this.gainDamping = this.stiffness.map((K, k) =>
      this.legRows.has(k) ? Math.sqrt(K * whole) : 2 * Math.sqrt(K * diagonal[k])
    )
  }

  /** Return the height of the center of mass above the feet [m]. */
  centerHeight(q) {
    const {com} = this.robot.model.center_of_mass(q, this.zero, this.zero)
    return Math.max(com[2] - this.ground, 0.05)
  }

  /** Return the torques with which the motors hold the robot on its feet, with the least forces. */
  standingTorques(q) {
    const {g} = this.model.generalized_gravity(q)
    const J = this.footJacobian(q)
    const rows = J.length
    const A = Array.from({length: 6}, (_, i) =>
      Array.from({length: 6}, (_, j) =>
        J.reduce((sum, row) => sum + row[i] * row[j], i === j ? 1e-9 : 0)
      )
    )
    const x = solve(A, Array.from(g.subarray(0, 6)))
    const forces = Array.from({length: rows}, (_, r) =>
      J[r].slice(0, 6).reduce((sum, value, i) => sum + value * x[i], 0)
    )
    return g.map((torque, k) =>
      k < 6 ? 0 : J.reduce((sum, row, r) => sum - row[k] * forces[r], torque)
    )
  }

  get ground() {
    return Math.min(...this.feet.map(({point}) => point[2]))
  }

  /** Return true if a foot is on the ground in the posture. */
  stands({point}) {
    return point[2] < this.ground + FOOT_TOLERANCE
  }

  /** Return the rows of the Jacobian of all feet that stand: forces, and moments of soles. */
  footJacobian(q) {
    const oMf = this.model.frame_placements(q).oMf
    return this.feet
      .filter(foot => this.stands(foot))
      .flatMap(({frame, point, isSole}) => {
        const offset = isSole ? [0, 0, 0] : toFrame(oMf, frame, point)
        const {frame_jacobian: J} = this.model.frame_jacobian(q, frame, LOCAL_WORLD_ALIGNED, offset)
        return Array.from({length: isSole ? 6 : 3}, (_, i) =>
          Array.from({length: this.nv}, (_, k) => J[6 * k + i])
        )
      })
  }

  /** Put all feet on the ground, where they stay while they carry weight. */
  placeFeet() {
    if (!this.feet.length) return
    const {oMf} = this.model.frame_placements(this.q)
    this.stance = this.feet.map(foot => {
      const {frame, point, isSole} = foot
      const offset = toFrame(oMf, frame, point)
      const contact = this.stands(foot) ? footContact(oMf, {frame, isSole, offset}) : null
      return {frame, isSole, offset, contact}
    })
    this.hasStepped = false
    this.updateContacts()
  }

  /** Use the contacts of the feet that stand. */
  updateContacts() {
    this.standing = this.stance.filter(foot => foot.contact)
    const list = this.standing.map(foot => foot.contact)
    this.contacts = list.length ? this.contactModel.contacts(list, {damping: 1e-8}) : null
  }

  /** Lift feet that would pull at the ground, and put down those that reach it. */
  updateStance(forces) {
    const least = -MIN_PRESSURE * 9.81 * this.model.total_mass()
    const {oMf} = this.model.frame_placements(this.q)
    let row = 2 // of the vertical force
    let isChanged = false
    for (const foot of this.stance) {
      if (foot.contact) {
        const isLifted = forces !== null && forces[row] < least
        row += foot.isSole ? 6 : 3
        if (isLifted) foot.contact = null
        isChanged ||= isLifted
      } else if (this.reachesGround(foot, oMf)) {
        foot.contact = footContact(oMf, foot, this.ground)
        this.hasStepped = isChanged = true
      }
    }
    if (isChanged) this.updateContacts()
  }

  /** Return true if a foot is at the ground and moves down. */
  reachesGround({frame, offset}, oMf) {
    if (pointOf(oMf, frame, offset)[2] > this.ground) return false
    const {frame_jacobian: J} = this.model.frame_jacobian(
      this.q,
      frame,
      LOCAL_WORLD_ALIGNED,
      offset
    )
    return this.v.reduce((sum, x, k) => sum + J[6 * k + 2] * x, 0) < 0
  }

  /** Return true if a robot on legs lies on the ground, or upside down. */
  hasFallen() {
    if (!this.feet.length) return false
    const start = this.model.joints[this.robot.floating].idx_q
    const [x, y] = this.q.subarray(start + 3, start + 5)
    const upright = 1 - 2 * (x * x + y * y)
    const height = (this.q[start + 2] - this.ground) / (this.posture[start + 2] - this.ground)
    return upright < 0.5 || height < 0.4
  }

  /** Advance by a time [s]; return false if the robot rests in its posture. */
  advance(seconds) {
    const steps = Math.max(1, Math.round(Math.min(seconds, MAX_ADVANCE) / STEP))
    this.singular = '' // velocity of a joint that moves almost no inertia
    try {
      for (let n = 0; n < steps; n++) this.step(STEP)
    } catch (error) {
      if (!(error instanceof DynRosError)) throw error
      return this.stop(error)
    }
    if (!this.q.every(Number.isFinite) || !this.v.every(Number.isFinite)) return this.stop()
    if (this.hasFallen()) {
      this.pull = null
      this.start(this.posture)
      this.onFall?.()
      return false
    }
    return this.pull !== null || !this.rests()
  }

  /** End a motion that cannot be computed, in the posture that is held; return false. */
  stop({code = 0} = {}) {
    this.pull = null
    this.start(this.posture)
    this.onStop?.(code > 0 ? this.model.velocity_names[code - 1] : this.singular)
    return false
  }

  rests() {
    const speed = Math.max(0, ...this.v.map(Math.abs))
    if (this.motors !== 'hold') return speed < REST
    const offsets = this.offsets().subarray(this.feet.length ? 6 : 0)
    return speed < REST && Math.max(0, ...offsets.map(Math.abs)) < REST
  }

  /** Return the posture that the robot returns to; where its feet are, if they have stepped. */
  restingPosture() {
    const q = Float64Array.from(this.posture)
    if (!this.feet.length || !this.hasStepped) return q
    const start = this.model.joints[this.robot.floating].idx_q
    q.set(this.q.subarray(start, start + 7), start)
    return q
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
    const isFree = this.feet.length > 0 // nothing holds a base on feet
    const offsets = this.offsets()
    const tau = new Float64Array(nv)
    const armature = new Float64Array(nv)
    for (let k = 0; k < nv; k++) {
      const isHeld = this.motors === 'hold' || (this.isBase[k] && !isFree)
      const hasMotor = !(isFree && k < 6)
      const K = isHeld && hasMotor ? this.stiffness[k] : 0
      const D = isHeld && hasMotor ? this.gainDamping[k] : 0
      const friction =
        this.damping[k] + this.friction[k] / Math.max(Math.abs(v[k]), FRICTION_VELOCITY)
      const forward = this.motors === 'off' && !this.isBase[k] ? 0 : this.feedforward[k]
      this.effort[k] = forward + K * offsets[k] - D * v[k]
      tau[k] = this.effort[k] - (h * K + friction) * v[k]
      armature[k] = h * (D + friction) + h * h * K
    }
    if (isFree) this.addStops(h, tau, armature)
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

  /**
   * Add springs and dampers that stop joints beyond their limits. To set a velocity to zero, as
   * `move` does, would move the feet, which are on the ground.
   */
  addStops(h, tau, armature) {
    for (const {idx_q, idx_v: k, lower, upper} of this.joints) {
      const position = this.q[idx_q]
      const excess = position - clamp(position, lower, upper)
      if (excess === 0) continue
      const K = LIMIT_STIFFNESS * this.stiffness[k]
      const D = Math.sqrt(LIMIT_STIFFNESS) * this.gainDamping[k]
      tau[k] -= K * excess + (h * K + D) * this.v[k]
      armature[k] += h * D + h * h * K
    }
  }

  addPull(tau) {
    const {frame, offset, force} = this.pull
    const {frame_jacobian: J} = this.model.frame_jacobian(
      this.q,
      frame,
      LOCAL_WORLD_ALIGNED,
      offset
    )
    for (let k = 0; k < this.nv; k++) {
      tau[k] += J[6 * k] * force[0] + J[6 * k + 1] * force[1] + J[6 * k + 2] * force[2]
    }
  }

  accelerations(tau, armature) {
    const model = this.contacts ? this.contactModel : this.model
    model.set_armature(armature)
    if (!this.contacts) {
      const {ddq} = this.resultsOf(() => model.aba(this.q, this.v, tau))
      if (this.feet.length) this.updateStance(null)
      return ddq
    }
    const results = this.resultsOf(() => model.contact_dynamics(this.q, this.v, tau, this.contacts))
    this.forces = results.lambda_c
    this.updateStance(this.forces)
    return results.ddq
  }

  /** Return results, also if a joint moves almost no inertia. */
  resultsOf(call) {
    try {
      return call()
    } catch (error) {
      if (!error.results?.ddq.every(Number.isFinite)) throw error
      this.singular = this.model.velocity_names[error.code - 1]
      return error.results
    }
  }

  move(h, ddq) {
    const {q, v} = this
    for (let k = 0; k < this.nv; k++) v[k] = clamp(v[k] + h * ddq[k], -MAX_SPEED, MAX_SPEED)
    this.q = this.model.integrate(
      q,
      v.map(x => h * x)
    )
    if (this.feet.length) return
    for (const {idx_q, idx_v, lower, upper} of this.joints) {
      const position = this.q[idx_q]
      if (position >= lower && position <= upper) continue
      this.q[idx_q] = clamp(position, lower, upper)
      v[idx_v] = 0
    }
  }
}

/** Return the contact of a foot with the ground, at its present place. */
function footContact(oMf, {frame, isSole, offset}, height = null) {
  const place = isSole ? pointOf(oMf, frame, [0, 0, 0]) : pointOf(oMf, frame, offset)
  if (height !== null) place[2] += height - pointOf(oMf, frame, offset)[2]
  const other = Array.from(oMf.subarray(16 * frame, 16 * frame + 16))
  place.forEach((x, k) => {
    other[4 * k + 3] = x
  })
  const [x, y, z] = isSole ? [0, 0, 0] : offset
  return {
    frame,
    placement: [1, 0, 0, x, 0, 1, 0, y, 0, 0, 1, z, 0, 0, 0, 1],
    other_placement: other,
    dimension: isSole ? 6 : 3,
    reference_frame: LOCAL_WORLD_ALIGNED,
    kp: CONTACT_KP,
    kd: CONTACT_KD
  }
}

/** Return a point of a frame in the world. */
function pointOf(oMf, frame, offset) {
  const X = oMf.subarray(16 * frame, 16 * frame + 12)
  return [0, 4, 8].map(
    i => X[i] * offset[0] + X[i + 1] * offset[1] + X[i + 2] * offset[2] + X[i + 3]
  )
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
  const e = [
    w * gx - x * gw - y * gz + z * gy,
    w * gy - y * gw - z * gx + x * gz,
    w * gz - z * gw - x * gy + y * gx
  ]
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
    x[k] =
      rows[k].slice(k + 1, n).reduce((sum, a, j) => sum - a * x[k + 1 + j], rows[k][n]) /
      (rows[k][k] || 1e-300)
  }
  return x
}
