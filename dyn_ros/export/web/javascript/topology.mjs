// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Topology of links and joints, which form one tree; mimic joints and their drivers;
// see dyn_ros/engine/model/urdf/topology.py.

import {UrdfError} from './description.mjs'
import {formatGeneral, formatThousands, quoteNames} from './formats.mjs'
import {LAYOUT} from './layout.mjs'

const {MAX_LINKS, MAX_MIMIC_RATIO} = LAYOUT.description
const {ONE_DOF} = LAYOUT.joints

/**
 * Check names and connections; return the name of the root link.
 * @param {any} robot
 * @returns {string}
 */
export function checkOneTree(robot) {
  const links = recordsByName(robot.links, 'links'), joints = recordsByName(robot.joints, 'joints')
  if (!links.size) {
    throw new UrdfError(
      `robot "${robot.name}" has no links; expected at least one (if xacro wrote it, expand ` +
      'the file that calls the macros)')
  }
  checkLinkCount(links.size)
  for (const joint of joints.values()) checkEnds(joint, links)
  const parentOf = jointsAbove(joints.values())
  const roots = [...links.keys()].filter((name) => !parentOf.has(name))
  if (roots.length > 1) {
    throw new UrdfError(
      `${roots.length} root links: ${quoteNames(roots)}; ` +
      'join all but one to the tree with a joint (fixed, if they do not move)')
  }
  checkNoCycle(links.keys(), parentOf)
  return roots[0]
}

function checkLinkCount(count) {
  if (count > MAX_LINKS) {
    throw new UrdfError(
      `the robot has ${formatThousands(count)} links; at most ${formatThousands(MAX_LINKS)} are ` +
      'supported, so describe separate robots separately')
  }
}

/** Return records by name; raise an error if two have the same. */
function recordsByName(records, elementKind) {
  const byName = new Map()
  for (const record of records) {
    if (byName.has(record.name)) {
      throw new UrdfError(`two ${elementKind} are named "${record.name}"; names must differ`)
    }
    byName.set(record.name, record)
  }
  return byName
}

function checkEnds(joint, links) {
  for (const end of ['parent', 'child']) {
    if (!links.has(joint[end])) {
      throw new UrdfError(
        `${end} of joint "${joint.name}" is the unknown link "${joint[end]}"; ` +
        `available: ${quoteNames(links.keys())}`)
    }
  }
}

/** Return the joint above each link that has one. */
function jointsAbove(joints) {
  const parentOf = new Map()
  for (const joint of joints) {
    if (parentOf.has(joint.child)) {
      throw new UrdfError(
        `link "${joint.child}" is the child of two joints, ` +
        `"${parentOf.get(joint.child).name}" and "${joint.name}"; ` +
        'remove one of them, because a URDF must be a tree')
    }
    parentOf.set(joint.child, joint)
  }
  return parentOf
}

/** Raise an error unless every link is connected to the root. */
function checkNoCycle(links, parentOf) {
  const connected = new Set()
  for (let link of links) {
    const path = new Set()
    while (!connected.has(link) && parentOf.has(link)) {
      if (path.has(link)) throw cycleError([...path], link, parentOf)
      path.add(link)
      link = parentOf.get(link).parent
    }
    for (const name of path) connected.add(name)
  }
}

function cycleError(path, link, parentOf) {
  const cycle = path.slice(path.indexOf(link)).reverse()
  return new UrdfError(
    `the links ${quoteNames(cycle)} form a cycle; a URDF must be a tree, ` +
    `so remove one of its joints, such as "${parentOf.get(link).name}"`)
}

// --- mimic joints

/**
 * Return the rule of each moving joint, by their names; null for independent joints.
 * @param {any} robot
 * @param {string[]} moving
 * @returns {({joint: number, multiplier: number, offset: number} | null)[]}
 */
export function mimicRules(robot, moving) {
  const index = new Map(moving.map((name, number) => [name, number]))
  const joints = new Map(robot.joints.map((joint) => [joint.name, joint])), rules = new Map()
  for (const joint of joints.values()) resolveRule(joint, joints, rules)
  return moving.map((name) => {
    const {driver, multiplier, offset} = rules.get(name) ?? {driver: name}
    return driver === name ? null : {joint: index.get(driver), multiplier, offset}
  })
}

/** Resolve the chain of mimic joints up to the driver, and store the rule of each joint. */
function resolveRule(joint, joints, rules) {
  const chain = new Map()
  while (!rules.has(joint.name) && joint.mimic) {
    if (chain.has(joint.name)) {
      throw new UrdfError(
        `the joints ${quoteNames(chain.keys())} mimic each other; one must be independent`)
    }
    chain.set(joint.name, joint)
    joint = findMaster(joint, joints)
  }
  if (!rules.has(joint.name)) {
    rules.set(joint.name, {driver: joint.name, multiplier: 1, offset: 0})
  }
  let {driver, multiplier, offset} = rules.get(joint.name)
  for (const follower of [...chain.values()].reverse()) {
    const factor = follower.mimic.multiplier
    multiplier = factor * multiplier
    offset = factor * offset + follower.mimic.offset
    checkMimicRatio(follower.name, driver, {multiplier, offset})
    rules.set(follower.name, {driver, multiplier, offset})
  }
}

function checkMimicRatio(follower, driver, numbers) {
  for (const [attribute, value] of Object.entries(numbers)) {
    if (Math.abs(value) > MAX_MIMIC_RATIO) {
      throw new UrdfError(
        `joint "${follower}" follows joint "${driver}" with the ${attribute} ` +
        `${formatGeneral(value)}; at most ${formatGeneral(MAX_MIMIC_RATIO)} is supported`)
    }
  }
}

/** Return the joint that `joint` mimics; raise an error if it cannot be mimicked. */
function findMaster(joint, joints) {
  const master = joints.get(joint.mimic.joint)
  if (!ONE_DOF.includes(joint.type)) {
    throw new UrdfError(
      `${joint.type} joint "${joint.name}" has a <mimic>; only ${quoteNames(ONE_DOF)} joints can`)
  }
  if (!master) {
    const candidates = [...joints.values()].filter(({type}) => ONE_DOF.includes(type))
    throw new UrdfError(
      `joint "${joint.name}" mimics the unknown joint "${joint.mimic.joint}"; ` +
      `available: ${quoteNames(candidates.map(({name}) => name))}; correct or remove its ` +
      '<mimic>, or make mimic joints independent with mimic="ignore"')
  }
  if (master === joint) {
    throw new UrdfError(`joint "${joint.name}" mimics itself; name another joint`)
  }
  if (!ONE_DOF.includes(master.type)) {
    throw new UrdfError(
      `joint "${joint.name}" mimics the ${master.type} joint "${master.name}"; ` +
      `only ${quoteNames(ONE_DOF)} joints can be mimicked`)
  }
  return master
}
