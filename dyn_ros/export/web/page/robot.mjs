// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// A robot: its model, its joints, and what the functions compute of a state.

import {readUrdf} from '../javascript/urdf.mjs'
import {bodyOf} from './geometry.mjs'

const PAYLOAD_DENSITY = 4500 // kg/m3; of titanium, as in `dyn_ros view`
const NO_LIMIT = {angle: Math.PI, distance: 1}

/** A coordinate that users set: a joint with one degree of freedom, or one of a planar joint. */
class Coordinate {
  constructor(model, joint, offset) {
    this.joint = joint
    this.idx_q = model.joints[joint].idx_q + offset
    this.idx_v = model.joints[joint].idx_v + offset
    this.name = model.position_names[this.idx_q]
    this.isPlanar = model.joints[joint].nv === 3
    this.lower = model.lower[this.idx_q]
    this.upper = model.upper[this.idx_q]
    this.effort = model.effort_limit[this.idx_v]
    this.velocity = model.velocity_limit[this.idx_v]
  }

  /** Whether its positions are angles. */
  get isAngle() {
    return !this.isPrismatic
  }

  /** Return the ends of its slider: its limits, or half a turn or 1 m. */
  get range() {
    return this.isLimited && this.lower < this.upper ? [this.lower, this.upper] : this.nearRange
  }

  /** Return the part of its limits that is within half a turn or 1 m. */
  get nearRange() {
    const most = this.isAngle ? NO_LIMIT.angle : NO_LIMIT.distance
    const [lower, upper] = [Math.max(this.lower, -most), Math.min(this.upper, most)]
    return lower < upper ? [lower, upper] : [-most, most]
  }

  /** The position that is shown first: the center of its limits, or zero between wide limits. */
  get start() {
    const isWide = this.isAngle && this.upper - this.lower > 2 * Math.PI + 1e-3
    const hasZero = this.lower <= 0 && this.upper >= 0
    return isWide && hasZero ? 0 : 0.5 * (this.lower + this.upper)
  }

  /** Whether the description limits it. */
  get isLimited() {
    return Number.isFinite(this.lower) && Number.isFinite(this.upper)
  }
}

/** A robot description with its model. */
export class Robot {
  /** Read a description; throw an UrdfError if it cannot be used. */
  static async open(library, text, root = 'fixed') {
    const description = readUrdf(text, {rootJoint: root === 'fixed' ? null : root})
    return new Robot(await library.model(description.bytes), description, root)
  }

  /** `description` is what readUrdf returns. */
  constructor(model, description, root) {
    Object.assign(this, {model, description, root, bytes: description.bytes})
    this.axes = description.joints.map(({axis, kind}) => ({
      axis,
      isPrismatic: kind === 'prismatic'
    }))
    this.coordinates = model.joints.flatMap((joint, index) => {
      if (joint.nv !== 1 && joint.nv !== 3) return []
      const single = joint.nv === 1
      return Array.from({length: joint.nv}, (_, offset) => {
        const coordinate = new Coordinate(model, index, offset)
        coordinate.isPrismatic = single ? this.axes[index].isPrismatic : offset < 2
        return coordinate
      })
    })
    this.singles = this.coordinates.filter(coordinate => !coordinate.isPlanar)
    this.floating = model.joints.findIndex(joint => joint.nv === 6)
    this.links = model.frames
      .map((frame, index) => ({...frame, index}))
      .filter(frame => frame.is_link)
  }

  /** Return the positions nearest to zero within the limits. */
  get zero() {
    const q = this.model.neutral()
    for (const {idx_q, lower, upper} of this.coordinates) {
      q[idx_q] = Math.min(Math.max(0, lower), upper)
    }
    return q
  }

  placements(q) {
    return this.model.frame_placements(q).oMf
  }

  /** Set the payload, a ball of titanium that touches the origin of a frame; 0 kg for none. */
  setPayload(frame, mass) {
    const {model} = this
    this.payload = null
    if (!(mass > 0) || frame < 0 || model.frames[frame].joint < 0) return model.clear_payload(0)
    const radius = Math.cbrt((0.75 * mass) / (Math.PI * PAYLOAD_DENSITY))
    const moment = 0.4 * mass * radius * radius
    const inertia = [moment, 0, 0, 0, moment, 0, 0, 0, moment]
    this.payload = {frame, mass, radius, com: [0, 0, radius], inertia}
    model.set_payload(0, frame, mass, this.payload.com, inertia)
  }

  /** Give another model the payload and the gravity of this one. */
  copyTo(model) {
    model.set_gravity(this.model.gravity)
    const {payload} = this
    if (payload) model.set_payload(0, payload.frame, payload.mass, payload.com, payload.inertia)
    else model.clear_payload(0)
  }

  /** Return what the page shows of a state. */
  terms(q, v) {
    const {model} = this
    const {oMf} = model.frame_placements(q)
    const {g} = model.generalized_gravity(q)
    const {nle} = model.nonlinear_effects(q, v)
    const {com} = model.center_of_mass(q, v, new Float64Array(model.nv))
    const {potential_energy: potential} = model.potential_energy(q)
    const {M} = model.crba(q)
    const kinetic =
      0.5 *
      v.reduce(
        (sum, x, i) => sum + x * v.reduce((row, y, j) => row + M[model.nv * i + j] * y, 0),
        0
      )
    return {oMf, g, nle, com, kinetic, potential, mass: model.total_mass(), M}
  }

  /** Return mass, com and inertia of each joint's body, with payloads. */
  bodies() {
    return this.model.joints.map((joint, index) => bodyOf(this.model.get_inertia(index)))
  }

  /** Return the bodies of links that do not move, in the frames of these links. */
  fixedBodies() {
    return this.description.links.flatMap(({frame, inertial}) => {
      if (!inertial || this.model.frames[frame].joint >= 0) return []
      const {
        mass,
        moments,
        placement: {R, p}
      } = inertial
      return [{mass, com: p, rotational: turnedInertia(moments, R), frame, joint: -1}]
    })
  }

  /** Return the joints from the root to a frame, the last one first. */
  chainOf(frame) {
    const chain = []
    for (let j = this.model.frames[frame].joint; j >= 0; j = this.model.joints[j].parent)
      chain.push(j)
    return chain
  }
}

/** Return R I R' (9 numbers) of an inertia Ixx Ixy Iyy Ixz Iyz Izz. */
function turnedInertia([xx, xy, yy, xz, yz, zz], R) {
  const I = [xx, xy, xz, xy, yy, yz, xz, yz, zz]
  return I.map((_, k) => {
    const [i, j] = [3 * Math.floor(k / 3), 3 * (k % 3)]
    let sum = 0
    for (let a = 0; a < 9; a++) sum += R[i + Math.floor(a / 3)] * I[a] * R[j + (a % 3)]
    return sum
  })
}
