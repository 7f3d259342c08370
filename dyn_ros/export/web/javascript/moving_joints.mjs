// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Moving joints and frames, in Pinocchio's order; axes, limits, damping and friction;
// see dyn_ros/engine/model/urdf/moving_joints.py.

import {IDENTITY, NO_INERTIA, compose, unitVector} from './algebra.mjs'
import {UrdfError} from './description.mjs'
import {compareNames, formatGeneral} from './formats.mjs'
import {LAYOUT} from './layout.mjs'
import {placementOf} from './values.mjs'

/** @typedef {{R: number[], p: number[]}} Placement */

const {ONE_DOF, ROOT_JOINT_NAME} = LAYOUT.joints
const {MAX_ANGLE, MAX_URDF_NUMBER} = LAYOUT.description

/**
 * Traverse the tree depth first, children by joint name.
 *
 * Returns the moving joints, each as its record, the index of its parent, -1 for the universe, and
 * its placement there; for each link, the joint that carries it and its placement there; and the
 * frames.
 * @param {any} robot
 * @param {string} root name of the root link
 * @param {string | null} rootJoint
 * @param {Map<string, any>} inertias of the links, in their frames
 * @returns {{moving: {record: any, parent: number, placement: Placement}[],
 *   carriers: Map<string, {joint: number, placement: Placement}>, frames: any[]}}
 */
export function traverseTree(robot, root, rootJoint, inertias) {
  const moving = [], frames = [], linkFrames = new Map()
  const carriers = new Map([[root, {joint: -1, placement: IDENTITY}]])
  const addFrame = (name, kind, carrier, parentFrame, inertia = NO_INERTIA) =>
    frames.push({name, kind, ...carrier, parentFrame, inertia})
  const addLink = (name) => {
    linkFrames.set(name, frames.length)
    addFrame(name, 'body', carriers.get(name), frames.length - 1, inertias.get(name))
  }
  if (rootJoint !== null) {
    moving.push({record: rootJointRecord(robot, rootJoint), parent: -1, placement: IDENTITY})
    carriers.set(root, {joint: 0, placement: IDENTITY})
    addFrame(ROOT_JOINT_NAME, 'joint', carriers.get(root), -1)
  }
  addLink(root)
  for (const record of depthFirst(robot, root)) {
    const {joint: parent, placement: X} = carriers.get(record.parent)
    const placement = compose(X, placementOf(record)), isFixed = record.type === 'fixed'
    const carrier = isFixed ? {joint: parent, placement}
      : {joint: moving.length, placement: IDENTITY}
    if (!isFixed) moving.push({record, parent, placement})
    carriers.set(record.child, carrier)
    addFrame(
      record.name, isFixed ? 'fixed_joint' : 'joint', carrier, linkFrames.get(record.parent))
    addLink(record.child)
  }
  return {moving, carriers, frames}
}

/** Return the record of the joint between the universe and the root link. */
function rootJointRecord(robot, rootJoint) {
  if (robot.joints.some((joint) => joint.name === ROOT_JOINT_NAME)) {
    throw new UrdfError(
      `a joint is named "${ROOT_JOINT_NAME}", the name of the ${rootJoint} root joint; ` +
      'rename it, or attach the root link to the world with a fixed root joint')
  }
  return {name: ROOT_JOINT_NAME, type: rootJoint, axis: null, limit: null, dynamics: null}
}

/** Yield the joints from the root on, depth first, children by name. */
function * depthFirst(robot, root) {
  const children = new Map(robot.links.map((link) => [link.name, []]))
  const lastFirst = [...robot.joints].sort((a, b) => compareNames(b.name, a.name))
  for (const joint of lastFirst) children.get(joint.parent).push(joint)
  const stack = [...children.get(root)]
  while (stack.length) {
    const joint = stack.pop()
    yield joint
    stack.push(...children.get(joint.child))
  }
}

/**
 * Return a moving joint of `traverseTree` with its axis, limits, damping and friction.
 * @param {{record: any, parent: number, placement: Placement}} joint
 * @param {any} inertia of all links that it moves, up to the next joints
 * @param {any} mimic its rule, or null
 * @param {string[]} warnings to append to
 */
export function makeJoint({record, parent, placement}, inertia, mimic, warnings) {
  const limits = jointLimits(record, warnings)
  return {
    name: record.name, kind: record.type, parent, placement,
    axis: jointAxis(record, warnings), inertia, mimic,
    ...limits, ...dampingAndFriction(record, warnings),
  }
}

/** Return the axis of a joint, of length 1; append to the warnings if another one is ignored. */
function jointAxis(joint, warnings) {
  const axis = joint.axis ?? [1, 0, 0]
  if (joint.type === 'floating') return [1, 0, 0]
  if (joint.type === 'planar') {
    if (joint.axis && (axis[0] || axis[1] || axis[2] <= 0)) {
      const text = axis.map((x) => formatGeneral(x)).join(' ')
      warnings.push(
        `axis of planar joint "${joint.name}" is ${text} and is ignored: ` +
        'the joint moves in the x-y plane of its frame; rotate its origin instead, and set ' +
        'the axis to 0 0 1')
    }
    return [0, 0, 1]
  }
  if (!axis.some(Boolean)) {
    throw new UrdfError(
      `axis of joint "${joint.name}" is zero; set a direction, such as 0 0 1`)
  }
  return unitVector(axis)
}

function jointLimits(joint, warnings) {
  const {type, limit} = joint
  const unlimited = {lower: -Infinity, upper: Infinity}
  if (!ONE_DOF.includes(type) || !limit) {
    if (type === 'revolute' || type === 'prismatic') {
      warnings.push(`${type} joint "${joint.name}" has no <limit>: assumed unlimited`)
    }
    return {...unlimited, velocity: Infinity, effort: Infinity}
  }
  const range = type === 'continuous' ? unlimited : positionLimits(joint, warnings)
  return {...range, velocity: limit.velocity ?? Infinity, effort: limit.effort ?? Infinity}
}

function positionLimits({name, type, limit: {lower, upper}}, warnings) {
  const largest = type === 'prismatic' ? MAX_URDF_NUMBER : MAX_ANGLE
  const [low, high] = [lower, upper].map((x) => formatGeneral(x))
  if (lower > upper) {
    warnings.push(
      `joint "${name}" has a lower limit ${low} above its upper limit ${high}: ` +
      'assumed unlimited')
    return {lower: -Infinity, upper: Infinity}
  }
  if (lower > largest || upper < -largest) {
    warnings.push(
      `joint "${name}" has the limits ${low} and ${high}: at most ` +
      `${formatGeneral(largest)} is supported`)
  }
  return {lower, upper}
}

/** Return damping and friction of a joint; append to the warnings if they are ignored. */
function dampingAndFriction({name, type, dynamics}, warnings) {
  if (!dynamics) return {damping: 0, friction: 0}
  const {damping, friction} = dynamics
  for (const [attribute, value] of Object.entries({damping, friction})) {
    const number = formatGeneral(value)
    if (value < 0) {
      throw new UrdfError(`${attribute} of joint "${name}" is ${number}; expected 0 or more`)
    }
    if (value && !ONE_DOF.includes(type)) {
      warnings.push(
        `${attribute} of ${type} joint "${name}" is ${number} and is ignored; ` +
        `set model.${attribute}, which has a number for each of its velocities`)
    }
  }
  return ONE_DOF.includes(type) ? {damping, friction} : {damping: 0, friction: 0}
}
