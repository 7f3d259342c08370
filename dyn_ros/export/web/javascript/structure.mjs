// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The joints, coordinates and frames of a robot, packed for the kernels;
// see dyn_ros/engine/model/structure.py and dyn_ros/engine/kernel/packing.py.

import {dynamicParameters, matrixProduct, outer, placeInertia, rotate, skew} from './algebra.mjs'
import {LAYOUT} from './layout.mjs'

const L = LAYOUT.packing
const {COORDINATE_SUFFIXES, JOINT_KINDS, QUATERNION_STARTS} = LAYOUT.joints

/** Add the indices of each joint's numbers: idxQ and idxV, and nq and nv, their counts. */
export function numberCoordinates(joints) {
  let nq = 0, nv = 0
  for (const joint of joints) {
    const [positions, velocities] = ownSuffixes(joint)
    Object.assign(joint, {idxQ: nq, idxV: nv, nq: positions.length, nv: velocities.length})
    nq += joint.nq
    nv += joint.nv
  }
  for (const joint of joints) {
    if (!joint.mimic) continue
    const {idxQ, idxV} = joints[joint.mimic.joint]
    Object.assign(joint, {idxQ, idxV})
  }
}

function ownSuffixes(joint) {
  return joint.mimic ? [[], []] : COORDINATE_SUFFIXES[joint.kind]
}

/** Return the number of columns of a joint's motion subspace. */
function countColumns(joint) {
  return COORDINATE_SUFFIXES[joint.kind][1].length
}

/** Return the names of the numbers in q and v. */
export function coordinateNames(joints) {
  const namesOf = (k) => joints.flatMap(
    (joint) => ownSuffixes(joint)[k].map((suffix) => joint.name + suffix))
  return {positionNames: namesOf(0), velocityNames: namesOf(1)}
}

/** Return lower, upper, velocity and effort limits, damping and friction of all coordinates. */
export function coordinateLimits(joints) {
  const ofEach = (key, k, unlimited) => joints.flatMap((joint) => {
    const suffixes = ownSuffixes(joint)
    const isLimited = suffixes[1].length === 1
    return suffixes[k].map(() => isLimited ? joint[key] : unlimited)
  })
  return [
    ofEach('lower', 0, -Infinity), ofEach('upper', 0, Infinity), ofEach('velocity', 1, Infinity),
    ofEach('effort', 1, Infinity), ...dampingAndFriction(joints),
  ]
}

/** Return damping and friction of each coordinate; mimic joints add to their master's. */
function dampingAndFriction(joints) {
  const nv = sum(joints.map((joint) => joint.nv))
  const damping = Array(nv).fill(0), friction = Array(nv).fill(0)
  for (const joint of joints) {
    if (countColumns(joint) !== 1) continue
    const ratio = joint.mimic ? joint.mimic.multiplier : 1
    damping[joint.idxV] += ratio * ratio * joint.damping
    friction[joint.idxV] += Math.abs(ratio) * joint.friction
  }
  return [damping, friction]
}

export const sum = (numbers) => numbers.reduce((total, x) => total + x, 0)

// --- integers

/** Return sizes, the tree and the lists in one array. */
export function packIntegers(joints, frames) {
  const quaternions = joints.filter(({kind}) => kind in QUATERNION_STARTS)
    .map(({kind, idxQ}) => idxQ + QUATERNION_STARTS[kind])
  const tree = treeTable(joints), velocityTree = velocityTreeRows(joints)
  const unitList = L.TREE + tree.length + velocityTree.length
  const header = [
    joints.length, sum(joints.map((joint) => joint.nq)), sum(joints.map((joint) => joint.nv)),
    sum(joints.map(countColumns)), frames.length, Number(joints.some((joint) => joint.mimic)),
    quaternions.length, unitList, unitList + quaternions.length,
  ]
  return [...header, ...tree, ...velocityTree, ...quaternions, ...frameLists(frames)]
}

function treeTable(joints) {
  const lastChildren = new Map(joints.map(({parent}, index) => [parent, index]))
  let column = 0
  const rows = joints.map((joint, index) => {
    const {kind, parent, idxQ, idxV} = joint, count = countColumns(joint)
    column += count
    return [
      parent + 1, JOINT_KINDS[kind], idxQ, idxV, count, column - count,
      Number(lastChildren.has(index)), Number(lastChildren.get(parent) === index),
    ]
  })
  return [...Array(L.TREE_ROW).fill(0), ...rows.flat()]
}

/**
 * Return for each velocity its parent, or -1, and then the ends of their ranges of descendants.
 *
 * If there are mimic joints, the velocities form a single chain.
 */
function velocityTreeRows(joints) {
  const nv = sum(joints.map((joint) => joint.nv))
  const parents = Array.from({length: nv}, (_, k) => k - 1), ends = parents.map((k) => k + 2)
  if (!joints.some((joint) => joint.mimic)) {
    for (const {idxV, parent} of joints) {
      const above = joints[parent]
      parents[idxV] = above ? above.idxV + above.nv - 1 : -1
    }
  }
  for (let k = nv - 1; k >= 0; k -= 1) {
    if (parents[k] >= 0) ends[parents[k]] = Math.max(ends[parents[k]], ends[k])
  }
  return [...parents, ...ends]
}

/** Return the joints that move the frames, and the connections of frames. */
function frameLists(frames) {
  const connecting = frames.map((_, index) => index), parents = frames.map(() => -1)
  frames.forEach(({kind, parentFrame}, index) => {
    if (parentFrame < 0) return
    if (kind === 'body') connecting[index] = parentFrame
    else parents[index] = connecting[parentFrame]
  })
  const carriers = frames.map(({joint}) => joint + 1)
  const joints = frames.map(({kind, joint}) => kind === 'joint' ? joint + 1 : 0)
  return [...carriers, ...connecting, ...parents, ...joints]
}

// --- floats

/** Return gravity, unit motions, constants of joints, armatures and constants of frames. */
export function packFloats(joints, frames, gravity) {
  const units = L.UNIT_MOTIONS.flatMap((n) => Array.from({length: 6}, (_, k) => Number(k === n)))
  const armature = Array(sum(joints.map((joint) => joint.nv))).fill(0)
  const placements = frames.flatMap(({placement: {R, p}}) => [...R, ...p])
  return [
    ...gravity, ...units, ...Array(L.FLOATS_ROW).fill(0), ...joints.flatMap(jointConstants),
    ...armature, ...placements, ...frames.flatMap(linkParameters),
  ]
}

function jointConstants(joint) {
  const row = Array(L.FLOATS_ROW).fill(0), {R, p} = joint.placement, u = joint.axis
  const put = (start, numbers) => numbers.forEach((x, k) => { row[start + k] = x })
  let axisPart = R
  if (JOINT_KINDS[joint.kind] === L.REVOLUTE) {
    axisPart = matrixProduct(R, outer(u, u))
    put(L.PLACE_SIN, matrixProduct(R, skew(u)))
    put(L.PLACE_COS, R.map((x, k) => x - axisPart[k]))
  }
  put(L.PLACE, axisPart)
  put(L.TRANSLATION, p)
  put(L.SLIDE, rotate(R, u))
  put(L.AXIS, u)
  put(L.INERTIA, dynamicParameters(joint.inertia))
  put(L.RATIO, [joint.mimic ? joint.mimic.multiplier : 1])
  put(L.SHIFT, [joint.mimic ? joint.mimic.offset : 0])
  return row
}

/** Return the dynamic parameters of a link, in the frame of the joint that moves it. */
export function linkParameters({placement, inertia}) {
  return dynamicParameters(placeInertia(placement, inertia))
}
