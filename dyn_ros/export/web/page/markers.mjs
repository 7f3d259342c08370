// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Markers of the dynamics, with the colors and sizes of dyn_ros/viewer/scene.

import {Color} from 'three'
import {Glyphs, colorOf} from './glyphs.mjs'
import {
  BOX_WIDTH,
  ELLIPSOID_WIDTH,
  add,
  clamp,
  curvedArrow,
  dot,
  maxOf,
  minOf,
  norm,
  origin,
  perpendicularVectors,
  principalSpread,
  rotate,
  rotateBack,
  scaled,
  subtract,
  symmetricEigen,
  transform,
  unit
} from './geometry.mjs'

/** Colors of the legend in dyn_ros/viewer/scene/legend.py. */
export const COLORS = {
  torque: '#f08c00',
  limit: '#e00b1c',
  com: '#1f5bff',
  bodies: '#c287f2',
  inertia: '#9b2ffe',
  ellipsoid: '#00ae9c',
  axis: '#1e6eff',
  pull: '#e632b4',
  payload: '#cda03c',
  gravity: '#868e96',
  linear: '#12a33a',
  angular: '#a32245',
  constraint: '#823c7e',
  force: '#993a00'
}
const ARC_RADIUS = 0.1 // m
const LINE_WIDTH = 0.01 // m
const COM_DIAMETER = 0.08 // m
const MIN_LOAD = 5e-3 // torque / limit; smaller torques have no arrow
export const UNLIMITED = 100 // N m, N; full load of a joint without a limit
const MARK_SIZE = 0.08 // length of the axes of a frame / reach of the robot
const ELLIPSOID_SIZE = 0.25 // largest semi-axis of the ellipsoid of velocities / reach
const OUTLINE_WIDTH = 0.003 // m
const BOX_EDGES = [
  [0, 1, 3, 2, 0, 4, 5, 7, 6, 4],
  [1, 5],
  [3, 7],
  [2, 6]
].map(line => line.map(corner => [0, 1, 2].map(k => 2 * ((corner >> k) & 1) - 1)))
const CIRCLES = [
  [0, 1],
  [0, 2],
  [1, 2]
].map(([i, j]) =>
  Array.from({length: 25}, (_, n) => {
    const point = [0, 0, 0]
    point[i] = Math.cos((2 * Math.PI * n) / 24)
    point[j] = Math.sin((2 * Math.PI * n) / 24)
    return point
  })
)
const IDENTITY = [1, 0, 0, 0, 1, 0, 0, 0, 1]
const AXES = ['#e0332f', '#2f9e44', '#2f6fe0'].map(colorOf)

/** Return the torque relative to the limit of its joint. */
export function loadOf(torque, limit) {
  return torque / (Number.isFinite(limit) && limit > 0 ? limit : UNLIMITED)
}

/** Return the color of a load, as CSS: from orange to red at the limit. */
export function loadColor(load) {
  const share = clamp(Math.abs(load), 0, 1)
  return mix(COLORS.torque, COLORS.limit, share)
}

function mix(from, to, share) {
  const part = k => {
    const [a, b] = [from, to].map(code => parseInt(code.slice(k, k + 2), 16))
    return Math.round(a + share * (b - a))
      .toString(16)
      .padStart(2, '0')
  }
  return `#${part(1)}${part(3)}${part(5)}`
}

/** The markers of one robot in a picture. */
export class Markers {
  constructor(parent, robot, scene) {
    this.robot = robot
    this.lines = new Glyphs(parent)
    this.solids = new Glyphs(parent, {isFlat: false})
    this.clear = new Glyphs(parent, {isFlat: false, opacity: 0.4})
    this.top = new Glyphs(parent, {isOnTop: true})
    const oMf = robot.placements(robot.zero)
    const middle = origin(oMf, robot.links[0].index)
    const distances = scene.pointsAt(oMf).map(point => norm(point.map((x, k) => x - middle[k])))
    this.reach = Math.max(0.1, maxOf(distances))
    this.colors = Object.fromEntries(
      Object.entries(COLORS).map(([name, code]) => [name, colorOf(code)])
    )
    this.reported = new Set() // joints of links with findings
    this.corners = cornersOf(robot, scene, oMf)
  }

  /** Begin the markers of a state. */
  begin(oMf) {
    this.oMf = oMf
    for (const layer of this.layers) layer.clear()
  }

  get layers() {
    return [this.lines, this.solids, this.clear, this.top]
  }

  /** Show what was drawn since `begin`. */
  end() {
    for (const layer of this.layers) layer.show()
  }

  /** Draw the torque of each joint, about or along its axis; its size is the root of the load. */
  torques(tau) {
    for (const {joint, idx_v, effort, isPrismatic} of this.robot.singles) {
      const load = clamp(loadOf(tau[idx_v], effort), -1, 1)
      if (Math.abs(load) < MIN_LOAD) continue
      const size = Math.sign(load) * Math.sqrt(Math.abs(load))
      const color = new Color(loadColor(load))
      this.jointArrow(joint, size, isPrismatic, color)
    }
  }

  jointArrow(joint, size, isPrismatic, color, radius = ARC_RADIUS) {
    const {frame} = this.robot.model.joints[joint]
    const {axis} = this.robot.axes[joint]
    const center = origin(this.oMf, frame)
    if (isPrismatic) {
      const vector = scaled(radius * size, rotate(this.oMf, frame, axis))
      this.lines.arrow(center, add(center, vector), LINE_WIDTH, color)
      return
    }
    const [first, second] = perpendicularVectors(axis).map(a => rotate(this.oMf, frame, a))
    for (const line of curvedArrow(center, first, second, radius, size)) {
      this.lines.strip(line, LINE_WIDTH, color)
    }
  }

  centerOfMass(com) {
    this.solids.sphere(com, COM_DIAMETER, this.colors.com)
  }

  /** Draw the center of mass of each body, with a volume that is proportional to its mass. */
  bodyCenters(bodies, total) {
    this.eachBody(bodies, (frame, {mass, com}) => {
      const diameter = COM_DIAMETER * Math.cbrt(mass / Math.max(total, 1e-9))
      this.solids.sphere(transform(this.oMf, frame, com), diameter, this.colors.bodies)
    })
  }

  /** Draw each body as the homogeneous ellipsoid or box with its mass and inertia. */
  inertias(bodies, isBox) {
    const width = isBox ? BOX_WIDTH : ELLIPSOID_WIDTH
    this.eachBody(bodies, (frame, {mass, com, rotational}, joint) => {
      const {spread, axes} = principalSpread(mass, rotational)
      const turned = productOf(this.oMf, frame, axes)
      const center = transform(this.oMf, frame, com)
      const widths = spread.map(x => width * x)
      if (this.reported.has(joint)) this.outline(isBox, center, turned, widths)
      else {
        const limited = limitWidths(widths, this.corners.get(frame), axes)
        this.clear.solid(isBox ? 'box' : 'sphere', center, turned, limited, this.colors.inertia)
      }
    })
  }

  /** Draw the edges of a box, or the principal circles of an ellipsoid. */
  outline(isBox, center, axes, widths) {
    const place = unitPoint =>
      [0, 1, 2].map(
        i =>
          center[i] +
          [0, 1, 2].reduce((sum, j) => sum + axes[3 * i + j] * 0.5 * widths[j] * unitPoint[j], 0)
      )
    for (const line of isBox ? BOX_EDGES : CIRCLES) {
      this.lines.strip(line.map(place), OUTLINE_WIDTH, this.colors.limit)
    }
  }

  /** Mark the origin of a frame, in front of everything. */
  mark(frame) {
    this.top.sphere(origin(this.oMf, frame), 0.05 * this.reach, this.colors.limit)
    this.frames([frame])
  }

  eachBody(bodies, draw) {
    for (const body of bodies) if (body.mass > 0) draw(body.frame, body, body.joint)
  }

  /** Draw the axes of all links, or of some frames. */
  frames(indices = this.robot.links.map(link => link.index), scale = 1) {
    const size = scale * MARK_SIZE * this.reach
    for (const index of indices) {
      const center = origin(this.oMf, index)
      AXES.forEach((color, k) => {
        const axis = [0, 0, 0]
        axis[k] = size
        this.lines.line(center, transform(this.oMf, index, axis), 0.1 * size, color)
      })
    }
  }

  /** Draw the axes of all joints with one degree of freedom. */
  axes() {
    const size = MARK_SIZE * this.reach
    for (const {joint} of this.robot.singles) {
      const {frame} = this.robot.model.joints[joint]
      const vector = scaled(size, rotate(this.oMf, frame, this.robot.axes[joint].axis))
      const center = origin(this.oMf, frame)
      this.lines.line(
        add(center, scaled(-1, vector)),
        add(center, vector),
        0.1 * size,
        this.colors.axis
      )
    }
  }

  /** Draw the velocities of a frame's origin for joint velocities of norm 1. Yoshikawa (1985). */
  velocityEllipsoid(frame, J, nv) {
    const A = new Float64Array(9)
    for (let k = 0; k < nv; k++) {
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < 3; j++) A[3 * i + j] += J[6 * k + i] * J[6 * k + j]
    }
    const {values, vectors} = symmetricEigen(A, 3)
    const semiAxes = values.map(value => Math.sqrt(Math.max(value, 0)))
    const most = Math.max(...semiAxes)
    if (!(most > 0)) return
    const size = (2 * ELLIPSOID_SIZE * this.reach) / most
    this.clear.solid(
      'sphere',
      origin(this.oMf, frame),
      vectors,
      semiAxes.map(x => size * x),
      this.colors.ellipsoid
    )
  }

  payload({frame, com, radius}) {
    this.solids.sphere(transform(this.oMf, frame, com), 2 * radius, this.colors.payload)
  }

  /** Draw the direction of gravity from a point. */
  gravity(vector, point) {
    this.top.arrow(
      point,
      add(point, scaled(0.3 * this.reach, unit(vector))),
      LINE_WIDTH,
      this.colors.gravity
    )
  }

  /** Draw a pull: from the held point to the pointer. */
  pull(point, target) {
    const width = 0.018 * Math.max(this.reach, 0.1)
    this.top.arrow(point, target, width, this.colors.pull)
    this.top.sphere(point, 1.6 * width, this.colors.pull)
  }

  /** Draw a vector from a point. */
  arrow(point, vector, color, width = LINE_WIDTH) {
    this.lines.arrow(point, add(point, vector), width, color)
  }

  /** Draw a vector as an arrow curved about it, whose radius is its length. */
  curved(point, vector, color, width = LINE_WIDTH) {
    const length = norm(vector)
    if (!(length > 1e-4)) return
    const [first, second] = perpendicularVectors(unit(vector))
    for (const line of curvedArrow(point, first, second, length, 1)) {
      this.lines.strip(line, width, color)
    }
  }

  remove() {
    for (const layer of this.layers) layer.object.removeFromParent()
  }
}

/** Return the rotation of a placement times axes (9 numbers, by rows). */
function productOf(oMf, frame, axes) {
  const columns = [0, 1, 2].map(j => rotate(oMf, frame, [axes[j], axes[3 + j], axes[6 + j]]))
  return IDENTITY.map((_, k) => columns[k % 3][Math.floor(k / 3)])
}

/** Return widths (3) no wider than points (n, 3) along axes, the columns of a rotation. */
function limitWidths(widths, points, axes) {
  if (!points) return widths
  return widths.map((width, j) => {
    const offsets = points.map(point => dot(point, [axes[j], axes[3 + j], axes[6 + j]]))
    return Math.min(width, maxOf(offsets) - minOf(offsets))
  })
}

/**
 * Return the outermost points of the shapes of each body, by the frame in which bodies are
 * expressed, in this frame; of bodies whose links with mass all have shapes.
 */
function cornersOf(robot, scene, oMf) {
  const corners = new Map()
  const incomplete = new Set()
  for (const {name, frame, inertial} of robot.description.links) {
    const {joint} = robot.model.frames[frame]
    const base = joint < 0 ? frame : robot.model.joints[joint].frame
    const {points} = scene.links.get(name)
    if (!points.length && inertial?.mass > 0) incomplete.add(base)
    if (!corners.has(base)) corners.set(base, [])
    for (const point of points) {
      const inWorld = transform(oMf, frame, point.toArray())
      corners.get(base).push(rotateBack(oMf, base, subtract(inWorld, origin(oMf, base))))
    }
  }
  for (const base of incomplete) corners.delete(base)
  return new Map([...corners].filter(([, points]) => points.length))
}
