// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Reading of a robot description (URDF) into a model file, as Python reads and writes it.
//
// The modules, functions and messages are those of dyn_ros/engine/model/urdf, where they are
// explained; test/export/web/test_urdf_reader.py compares both. Names in a description remain plain
// strings: nothing of it is interpreted as HTML.

import {IncompleteElement, UrdfError, parseElements, placeOf} from './description.mjs'
import {lumpInertias, linkInertia, momentsOf, warnMassless} from './lumping.mjs'
import {linksOfFrames, modelBytes} from './model_file.mjs'
import {makeJoint, traverseTree} from './moving_joints.mjs'
import {numberCoordinates} from './structure.mjs'
import {checkOneTree, mimicRules} from './topology.mjs'
import {placementOf, readValues} from './values.mjs'

export {UrdfError, readDescription} from './description.mjs'

const ROOT_JOINTS = [null, 'floating', 'planar']
const MIMIC_MODES = ['project', 'ignore']

/**
 * @typedef {object} Placement
 * @property {number[]} R rotation, nine numbers, row by row
 * @property {number[]} p translation [m]
 */

/**
 * @typedef {object} Joint a moving joint, in Pinocchio's order
 * @property {string} name
 * @property {'revolute' | 'continuous' | 'prismatic' | 'planar' | 'floating'} kind
 * @property {number} parent index of the parent joint, -1 for the universe
 * @property {Placement} placement in the parent's frame, at position zero
 * @property {number[]} axis unit vector in the joint's frame
 * @property {{joint: number, multiplier: number, offset: number} | null} mimic
 * @property {number} lower position limit [rad, m], may be infinite
 * @property {number} upper position limit [rad, m], may be infinite
 * @property {number} velocity limit [rad/s, m/s], may be infinite
 * @property {number} effort limit [N m, N], may be infinite
 * @property {number} damping [N m s/rad, N s/m]
 * @property {number} friction [N m, N]
 * @property {number} idxQ index of its first number in q; of its driver's for a mimic joint
 * @property {number} idxV index of its first number in v; of its driver's for a mimic joint
 * @property {number} nq count of its numbers in q, 0 for a mimic joint
 * @property {number} nv count of its numbers in v, 0 for a mimic joint
 */

/**
 * @typedef {object} Frame a joint, fixed joint or link, in Pinocchio's order
 * @property {string} name
 * @property {'joint' | 'fixed_joint' | 'body'} kind
 * @property {number} joint index of the joint that moves it, -1 for the universe
 * @property {Placement} placement in the frame of this joint
 * @property {number} parentFrame index of the frame that it is attached to, -1 for the universe
 * @property {number} link index of the frame of its link
 */

/**
 * @typedef {object} Link a link, in the order of the description
 * @property {string} name
 * @property {number} frame index of its frame
 * @property {{mass: number, moments: number[], placement: Placement} | null} inertial mass [kg],
 *   Ixx Ixy Iyy Ixz Iyz Izz about the center of mass [kg m2], and the placement of their axes
 */

/**
 * @typedef {object} Description
 * @property {Uint8Array} bytes content of a model file
 * @property {string} name of the robot
 * @property {string[]} warnings about implausible values
 * @property {Joint[]} joints
 * @property {Frame[]} frames
 * @property {Link[]} links
 */

/**
 * Read a robot description: the text of a URDF, with xacro expanded, or its bytes, which are
 * decoded according to their XML declaration.
 * @param {string | Uint8Array} xml
 * @param {object} [options]
 * @param {null | 'floating' | 'planar'} [options.rootJoint] joint between the universe and the root
 *   link, named "root_joint"; null: the root link is fixed
 * @param {number[]} [options.gravity] [m/s2]
 * @param {'project' | 'ignore'} [options.mimic] "ignore" makes mimic joints independent
 * @param {boolean} [options.strict] raise an error in place of warnings
 * @returns {Description}
 * @throws {UrdfError} the description cannot be used
 * @throws {RangeError} an option has another value
 */
export function readUrdf(
  xml, {rootJoint = null, gravity = [0, 0, -9.81], mimic = 'project', strict = false} = {},
) {
  requireChoice('rootJoint', rootJoint, ROOT_JOINTS)
  requireChoice('mimic', mimic, MIMIC_MODES)
  requireGravity(gravity)
  const warnings = []
  const robot = readRobot(xml, warnings)
  const tree = makeTree(robot, checkOneTree(robot), rootJoint, mimic, warnings)
  if (strict && warnings.length) {
    throw new UrdfError(`rejected because of strict=True: ${warnings.join('; ')}`)
  }
  numberCoordinates(tree.joints)
  return {...tree, bytes: modelBytes(tree, gravity), warnings}
}

function requireChoice(name, value, choices) {
  if (choices.includes(value)) return
  const texts = choices.map((choice) => JSON.stringify(choice)).join(', ')
  throw new RangeError(`${name} is ${JSON.stringify(value)}; expected one of ${texts}`)
}

function requireGravity(gravity) {
  if (gravity.length === 3 && [...gravity].every(Number.isFinite)) return
  throw new RangeError(`gravity: expected 3 finite numbers, got ${[...gravity].join(', ')}`)
}

/** Return the record of the robot. */
function readRobot(xml, warnings) {
  const root = parseElements(xml)
  try {
    return readValues(root, warnings)
  } catch (error) {
    if (!(error instanceof IncompleteElement)) throw error
    throw new UrdfError(`${error.message} (${placeOf(error.element, root, xml)})`)
  }
}

/** Return the name, joints, frames and links of a robot; append to the warnings. */
function makeTree(robot, root, rootJoint, mimic, warnings) {
  const inertias = new Map(robot.links.map((link) => [link.name, linkInertia(link, warnings)]))
  const {moving, carriers, frames} = traverseTree(robot, root, rootJoint, inertias)
  const bodies = lumpInertias(robot.links, carriers, moving.length, inertias)
  const names = moving.map(({record}) => record.name)
  const rules = mimic === 'project' ? mimicRules(robot, names) : names.map(() => null)
  const joints = moving.map((joint, n) => makeJoint(joint, bodies[n], rules[n], warnings))
  warnMassless(joints, warnings)
  const links = linksOfFrames(frames)
  frames.forEach((frame, n) => { frame.link = links[n] })
  return {name: robot.name, joints, frames, links: linkList(robot, frames)}
}

/** Return the links in the order of the description. */
function linkList(robot, frames) {
  const frameOf = new Map(frames.flatMap(({name, kind}, n) => kind === 'body' ? [[name, n]] : []))
  return robot.links.map(({name, inertial}) => ({
    name,
    frame: frameOf.get(name),
    inertial: inertial && {
      mass: inertial.mass, moments: momentsOf(inertial), placement: placementOf(inertial),
    },
  }))
}
