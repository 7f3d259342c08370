// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The posture in which a robot is first shown: above its base, or standing on its legs.
// See dyn_ros/viewer/posture.py.

import {dot, maxOf, minOf, origin, rotate, scaled} from './geometry.mjs'

const MIN_HIP_ANGLE = 0.3 // rad; hips of a standing robot bend at least this far
const CROUCH_ANGLE = 0.3 // rad
const FOOT_TOLERANCE = 0.05 // difference in height of feet / height of the robot
const PARALLEL_COSINE = 0.95
const FOLD_RATIOS = [1, -2, 1] // of hip, knee and ankle
const CENTERS = 9 // centers of a joint to try
const LEVEL_TOLERANCE = 0.006 // m; corners this far above the lowest one touch the ground
const MIN_SOLE = 0.03 // m; feet that are wider in two directions are soles

/** Return the joints of each leg, from the root on; [] for a robot without legs. */
export function findLegs(robot, scene) {
  const {joints} = robot.model
  const oMf = robot.placements(robot.zero)
  const root = rootHeight(robot, scene, oMf)
  const heights = jointHeights(robot, scene, oMf)
  joints.forEach((joint, k) => {
    if (isMovable(joint) && joint.parent >= 0 && isMovable(joints[joint.parent])) {
      heights[k] = Math.min(heights[k], heights[joint.parent])
    }
  })
  const movable = joints.map((_, k) => k).filter(k => isMovable(joints[k]))
  const all = [...movable.map(k => heights[k]), root]
  const lowest = minOf(all)
  const most = lowest + FOOT_TOLERANCE * (Math.max(maxOf(all), 0) - lowest)
  const parents = new Set(joints.map(joint => joint.parent))
  const legs = movable.filter(k => !parents.has(k) && heights[k] <= most).map(k => chain(robot, k))
  const used = legs.flat()
  const isStanding =
    legs.length >= 2 &&
    root > most &&
    legs.every(leg => leg.length >= 2) &&
    new Set(used).size === used.length
  return isStanding ? legs : []
}

const isMovable = joint => joint.nv <= 1

function chain(robot, leaf) {
  const {joints} = robot.model
  const leg = []
  for (let k = leaf; k >= 0; k = joints[k].parent) if (joints[k].nv === 1) leg.unshift(k)
  return leg
}

function jointHeights(robot, scene, oMf) {
  const heights = robot.model.joints.map(() => Infinity)
  robot.model.frames.forEach((frame, k) => {
    if (frame.joint >= 0) heights[frame.joint] = Math.min(heights[frame.joint], origin(oMf, k)[2])
  })
  for (const {frame, point} of scene.framePoints(oMf)) {
    const {joint} = robot.model.frames[frame]
    if (joint >= 0) heights[joint] = Math.min(heights[joint], point[2])
  }
  return heights
}

function rootHeight(robot, scene, oMf) {
  const isRoot = frame => frame.joint < 0 || robot.model.joints[frame.joint].nv > 1
  const points = scene.framePoints(oMf).filter(({frame}) => isRoot(robot.model.frames[frame]))
  return Math.min(0, minOf(points.map(({point}) => point[2])))
}

/** Return the height of the lowest point of the robot [m]. */
export const lowestPoint = (scene, oMf) =>
  minOf(scene.framePoints(oMf).map(({point}) => point[2]))

/** Return the height of the lowest point of the base link. */
export const baseHeight = (robot, scene) => rootHeight(robot, scene, robot.placements(robot.zero))

/** Return the posture of a robot with these legs. */
export function choosePosture(robot, scene, legs) {
  const q = robot.zero
  const isLeg = new Set(legs.flat())
  for (const {joint, idx_q, isLimited, isPlanar, start} of robot.coordinates) {
    if (isLimited && !isLeg.has(joint) && !isPlanar) q[idx_q] = start
  }
  if (legs.length) foldLegs(robot, scene, legs, q)
  else raise(robot, scene, q)
  return q
}

/** Bend all legs together, so that their feet stay level below the hips. */
function foldLegs(robot, scene, legs, q) {
  const folds = legs.map(leg => findFold(robot, scene, leg))
  const lower = Math.max(MIN_HIP_ANGLE, ...folds.map(fold => fold.lower))
  const upper = Math.min(lower + CROUCH_ANGLE, ...folds.map(fold => fold.upper))
  if (lower > upper) return
  for (const {ratios} of folds) {
    for (const [joint, ratio] of ratios) {
      q[robot.model.joints[joint].idx_q] = 0.5 * ratio * (lower + upper)
    }
  }
}

function findFold(robot, scene, leg) {
  const {model} = robot
  const oMf = robot.placements(model.neutral())
  const axes = new Map(
    leg
      .filter(k => !robot.axes[k].isPrismatic)
      .map(k => [k, rotate(oMf, model.joints[k].frame, robot.axes[k].axis)])
  )
  const horizontal = [...axes].filter(([, axis]) => Math.abs(axis[2]) < 1 - PARALLEL_COSINE)
  const groups = horizontal.map(([, axis]) =>
    horizontal.filter(([, other]) => Math.abs(dot(axis, other)) > PARALLEL_COSINE).map(([k]) => k)
  )
  const longest = groups.reduce((a, b) => (b.length > a.length ? b : a), [])
  const slots = longest.slice(0, FOLD_RATIOS.length)
  const none = {ratios: new Map(), lower: Infinity, upper: -Infinity}
  if (slots.length < 2) return none
  let axis = axes.get(slots[0])
  const main = axis.reduce((best, x, k) => (Math.abs(x) > Math.abs(axis[best]) ? k : best), 0)
  axis = scaled(Math.sign(axis[main]), axis)
  const candidates = [1, -1].map(direction => {
    const ratios = new Map(
      slots.map((k, n) => [k, direction * FOLD_RATIOS[n] * Math.sign(dot(axes.get(k), axis))])
    )
    const ranges = [...ratios].map(([k, ratio]) => {
      const {idx_q} = model.joints[k]
      return [model.lower[idx_q] / ratio, model.upper[idx_q] / ratio].sort((a, b) => a - b)
    })
    const q = model.neutral()
    for (const [k, ratio] of ratios) q[model.joints[k].idx_q] = MIN_HIP_ANGLE * ratio
    const height = jointHeights(robot, scene, robot.placements(q))[leg.at(-1)]
    const lower = Math.max(0, ...ranges.map(range => range[0]))
    const upper = Math.min(...ranges.map(range => range[1]))
    return {ratios, lower, upper, width: upper - lower, height: Math.round(1e6 * height)}
  })
  const [a, b] = candidates
  return b.width > a.width || (b.width === a.width && b.height > a.height) ? b : a
}

/** Move joints one after the other until no point is below the base. */
function raise(robot, scene, q) {
  const plane = Math.min(0, baseHeight(robot, scene))
  const clearance = () => {
    const heights = jointHeights(robot, scene, robot.placements(q))
    const moving = heights
      .map((height, k) => [height, k])
      .filter(([, k]) => isMovable(robot.model.joints[k]))
    const mean = moving.reduce((sum, [height]) => sum + height, 0) / Math.max(moving.length, 1)
    const [height, joint] = moving.reduce((a, b) => (b[0] < a[0] ? b : a), [Infinity, -1])
    return {height: height - plane, joint, hangs: mean < plane}
  }
  let best = clearance()
  if (best.joint < 0 || best.hangs) return
  const slots = chain(robot, best.joint)
  for (const k of [...slots, ...slots]) {
    if (best.height >= -1e-6) return
    const coordinate = robot.singles.find(({joint}) => joint === k)
    const [lower, upper] = coordinate.nearRange
    let center = q[coordinate.idx_q]
    for (let n = 0; n < CENTERS; n++) {
      q[coordinate.idx_q] = lower + ((upper - lower) * (n + 0.5)) / CENTERS
      const candidate = clearance()
      if (candidate.height > best.height + 1e-3 && best.height < 0) {
        best = candidate
        center = q[coordinate.idx_q]
      }
    }
    q[coordinate.idx_q] = center
  }
}

/**
 * Return the foot of each leg at placements: {frame, point, isSole}, a link and a point of the
 * world where it touches the ground; a sole if it touches an area. Two feet count as soles, because
 * no robot stands on two points.
 */
export function findFeet(robot, scene, legs, oMf) {
  return legs.map(leg => {
    const leaf = leg.at(-1)
    const points = scene
      .framePoints(oMf)
      .filter(({frame}) => robot.model.frames[frame].joint === leaf)
    const frames = robot.model.frames
      .map((frame, k) => k)
      .filter(k => robot.model.frames[k].joint === leaf)
    if (!points.length) return {frame: frames.at(-1), point: [0, 0, 0], isSole: legs.length < 3}
    const lowest = minOf(points.map(({point}) => point[2]))
    const touching = points.filter(({point}) => point[2] < lowest + LEVEL_TOLERANCE)
    const ends = [0, 1].map(k => touching.map(({point}) => point[k]))
    const spread = ends.map(values => maxOf(values) - minOf(values))
    const {frame} = touching.find(({point}) => point[2] === lowest)
    const center = origin(oMf, frame)
    const isBelow = ends.every((values, k) => Math.abs(middleOf(values) - center[k]) < MIN_SOLE)
    const [x, y] = isBelow ? center : ends.map(middleOf)
    return {frame, point: [x, y, lowest], isSole: legs.length < 3 || Math.min(...spread) > MIN_SOLE}
  })
}

const middleOf = values => 0.5 * (minOf(values) + maxOf(values))
