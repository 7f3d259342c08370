// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Lumped inertias of the links on each joint, and joints without inertia;
// see dyn_ros/engine/model/urdf/lumping.py.

import {
  NO_INERTIA, addInertias, cross, dot, eigenvalues, largestSize, norm, placeInertia, rotate,
  unpackSymmetric,
} from './algebra.mjs'
import {UrdfError} from './description.mjs'
import {formatGeneral} from './formats.mjs'
import {LAYOUT} from './layout.mjs'
import {placementOf} from './values.mjs'

const {ROUNDING_ERROR, MOMENT_TOLERANCE, ABSOLUTE_TOLERANCE} = LAYOUT.inertias
const {ONE_DOF} = LAYOUT.joints

/**
 * Return the inertia of all links on each moving joint, and of the fixed base as the last one.
 * @param {any[]} links
 * @param {Map<string, {joint: number, placement: any}>} carriers see `traverseTree`
 * @param {number} count of moving joints
 * @param {Map<string, any>} inertias of the links, in their frames
 */
export function lumpInertias(links, carriers, count, inertias) {
  const sums = Array(count + 1).fill(NO_INERTIA)
  for (const {name, inertial} of links) {
    if (!inertial) continue
    const {joint, placement} = carriers.get(name), index = joint < 0 ? count : joint
    sums[index] = addInertias(sums[index], placeInertia(placement, inertias.get(name)))
  }
  return sums
}

/**
 * Return a link's inertia, expressed in the link's frame.
 * @param {any} link
 * @param {string[]} warnings to append to
 */
export function linkInertia({name, inertial}, warnings) {
  if (!inertial) return NO_INERTIA
  const {mass, inertia} = inertial
  if (mass < 0) {
    throw new UrdfError(`mass of link "${name}" is ${formatGeneral(mass)}; expected 0 or more`)
  }
  if (!inertia) warnings.push(`link "${name}" has no <inertia>: assumed to be a point mass`)
  const S = momentsOf(inertial), fault = rotationalFault(S)
  if (fault) warnings.push(`inertia of link "${name}" ${fault}`)
  return placeInertia(placementOf(inertial), {mass, com: [0, 0, 0], S})
}

/**
 * Return Ixx Ixy Iyy Ixz Iyz Izz of an <inertial>, about the center of mass in its own axes
 * [kg m2].
 * @param {any} inertial
 * @returns {number[]}
 */
export function momentsOf({inertia}) {
  if (!inertia) return [0, 0, 0, 0, 0, 0]
  return [inertia.ixx, inertia.ixy, inertia.iyy, inertia.ixz, inertia.iyz, inertia.izz]
}

/**
 * Return the reason why a rotational inertia is not physical, or an empty string.
 * @param {number[]} moments six numbers, see `momentsOf`
 * @returns {string}
 */
export function rotationalFault(moments) {
  const [smallest, middle, largest] = eigenvalues(moments), excess = largest - middle - smallest
  const size = Math.max(Math.abs(smallest), Math.abs(largest))
  const tolerance = MOMENT_TOLERANCE * size + ABSOLUTE_TOLERANCE
  if (smallest < -tolerance) {
    return 'is not positive semidefinite: its smallest principal moment is ' +
      `${formatGeneral(smallest, 3)} kg m^2`
  }
  if (excess > tolerance) {
    return 'violates the triangle inequality: its largest principal moment ' +
      `${formatGeneral(largest, 3)} kg m^2 exceeds the sum of the others by ` +
      `${formatGeneral(excess, 3)} kg m^2`
  }
  return ''
}

/**
 * Warn about joints that move no mass, for which the inertia matrix is singular.
 *
 * A joint and its mimic joints are considered together.
 * @param {any[]} joints
 * @param {string[]} warnings to append to
 */
export function warnMassless(joints, warnings) {
  const parents = new Set(joints.map((joint) => joint.parent))
  const withInertia = jointsWithInertia(joints), flagsByDriver = new Map()
  joints.forEach((joint, index) => {
    const isMassless = !withInertia.has(index) || (!parents.has(index) && isMasslessAtEnd(joint))
    const driver = joint.mimic ? joint.mimic.joint : index
    if (!flagsByDriver.has(driver)) flagsByDriver.set(driver, [])
    flagsByDriver.get(driver).push(isMassless)
  })
  for (const [driver, flags] of flagsByDriver) {
    if (flags.every(Boolean)) {
      warnings.push(
        `joint "${joints[driver].name}" moves no ${missingInertia(joints[driver])}: the ` +
        'inertia matrix is singular; add an inertia to its link, or set its armature')
    }
  }
}

/** Return the indices of joints with any inertia in their subtrees. */
function jointsWithInertia(joints) {
  const indices = new Set()
  for (let index = joints.length - 1; index >= 0; index -= 1) {
    const {inertia, parent} = joints[index]
    if (indices.has(index) || inertia.mass > 0 || inertia.S.some(Boolean)) {
      indices.add(index).add(parent)
    }
  }
  return indices
}

/** Return true if a joint at the end of a branch moves no inertia in some direction. */
function isMasslessAtEnd({kind, inertia, axis}) {
  const rounding = ROUNDING_ERROR * largestSize(inertia.S)
  if (kind === 'prismatic') return inertia.mass === 0
  if (kind === 'planar') return inertia.mass === 0 || inertia.S[5] <= rounding
  if (kind === 'floating') return inertia.mass === 0 || eigenvalues(inertia.S)[0] <= rounding
  return momentAboutAxis(inertia, axis) <= 0
}

/**
 * Compute the moment of inertia about an axis through the origin; 0 if it is a rounding error.
 *
 * It is not computed from the moments about the origin, in which the term of a distant center of
 * mass dominates.
 */
function momentAboutAxis({mass, com, S}, axis) {
  const moment = dot(rotate(unpackSymmetric(S), axis), axis)
  const central = Math.abs(moment) <= ROUNDING_ERROR * largestSize(S) ? 0 : moment
  const arm = norm(cross(axis, com)), distance = norm(com)
  return arm <= ROUNDING_ERROR * distance ? central : central + mass * arm * arm
}

/** Return what a joint without inertia lacks, for a message. */
function missingInertia({kind, inertia}) {
  if (kind === 'prismatic' || inertia.mass === 0) return 'mass'
  return ONE_DOF.includes(kind) ? 'inertia about its axis' : 'rotational inertia'
}
