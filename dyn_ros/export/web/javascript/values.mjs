// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Validated values of a description that dynamics requires: elements become records;
// see dyn_ros/engine/model/urdf/values.py.
//
// Records have what is read here: no visuals, collisions, materials, transmissions or safety
// controllers, and of fixed joints only the origin. A missing element is null, a missing value its
// default, or null where the specification has none.

import {IDENTITY, placement, unitVector} from './algebra.mjs'
import {IncompleteElement, UrdfError, XACRO_REMEDY} from './description.mjs'
import {formatGeneral, isBlank, joinNames, quote} from './formats.mjs'
import {LAYOUT} from './layout.mjs'

/** @typedef {import('./xml.mjs').XmlElement} XmlElement */

const {
  ATTRIBUTES, CHILDREN, SINGLE_VALUES, NUMBER_LIMITS, MAX_URDF_NUMBER, KNOWN_VERSIONS,
} = LAYOUT.description
const NUMBER = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/

/**
 * Return the record of an element.
 * @param {XmlElement} element
 * @param {string[]} warnings to append to
 * @param {string} [inside] names the elements around it for messages
 * @returns {any}
 */
export function readValues(element, warnings, inside = '') {
  const tag = element.name
  let label = `<${tag}>${inside}`
  const record = {}
  for (const attribute of Object.keys(ATTRIBUTES[tag])) {
    record[attribute] = attributeValue(element, tag, attribute, label, warnings)
    if (attribute === 'name') label = `${tag} "${element.get('name') ?? 'None'}"`
  }
  if (tag === 'robot') warnOfVersion(element, label, warnings)
  if (tag === 'origin' && element.get('quat_xyzw') !== null) {
    record.rpy = nameNumbers(`quat_xyzw of ${label}`, () => readAngles(element))
  }
  if (SINGLE_VALUES.includes(tag)) return Object.values(record)[0]
  if (tag === 'robot') Object.assign(record, {links: [], joints: []})
  else for (const child of Object.keys(CHILDREN[tag] ?? {})) record[child] = null
  for (const child of childrenToRead(element, label, warnings)) {
    const value = readValues(child, warnings, tag === 'robot' ? '' : ` of ${label}`)
    if (tag === 'robot') record[`${child.name}s`].push(value)
    else record[child.name] = value
  }
  return record
}

/** Return the value of an attribute, or its default. */
function attributeValue(element, tag, attribute, label, warnings) {
  const {count, words, assumed, ...rest} = ATTRIBUTES[tag][attribute]
  const text = element.get(attribute)
  const isMissing = text === null || (tag === 'robot' && isBlank(text))
  const name = `${attribute} of ${label}`
  if (!isMissing && count === 0 && isBlank(text)) {
    throw new IncompleteElement(`${name} is empty; set a value`, element)
  }
  if (!isMissing) return parsedText(text, count, words, name, numberLimit(tag))
  if (!('default' in rest)) {
    throw new IncompleteElement(`${label} has no attribute ${attribute}; add it`, element)
  }
  if (assumed) warnings.push(`${label} has no ${attribute}: assumed to be ${assumed}`)
  return rest.default
}

function numberLimit(tag) {
  return tag in NUMBER_LIMITS ? NUMBER_LIMITS[tag] ?? Infinity : MAX_URDF_NUMBER
}

/** Return the value of an attribute: one of the words, a text (count 0), or numbers. */
function parsedText(text, count, words, name, largest) {
  if (text.includes('${') || text.includes('$(')) {
    throw new UrdfError(`${name} is ${quote(text)}, an expression of xacro; ${XACRO_REMEDY}`)
  }
  if (words && !words.includes(text)) {
    throw new UrdfError(`${name} is ${quote(text)}; supported: ${joinNames(words)}`)
  }
  if (words || count === 0) return text
  const numbers = nameNumbers(name, () => parseNumbers(text, count, largest))
  return count === 1 ? numbers[0] : numbers
}

/** Return numbers; put a name before the message if they are wrong. */
function nameNumbers(name, read) {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw new UrdfError(`${name} ${error.message}`)
  }
}

/** Append to the warnings if the version is unknown, or too old for elements of the robot. */
function warnOfVersion(robot, label, warnings) {
  const version = robot.get('version') ?? KNOWN_VERSIONS[0]
  if (!KNOWN_VERSIONS.includes(version)) {
    warnings.push(
      `version of ${label} is ${quote(version)}; known: ${joinNames(KNOWN_VERSIONS)}: ` +
      `assumed to be ${KNOWN_VERSIONS.at(-1)}`)
  } else if (version === KNOWN_VERSIONS[0] && hasQuaternion(robot)) {
    warnings.push(
      `${label} has version ${version}, in which urdfdom ignores quat_xyzw; it is used here: ` +
      'set version="1.1"')
  }
}

function hasQuaternion(robot) {
  for (const {name, namespace, attributes} of robot.iterate()) {
    const isOrigin = name === 'origin' && namespace === robot.namespace
    if (isOrigin && attributes.has('quat_xyzw')) return true
  }
  return false
}

/** Return the children in the URDF's namespace that are read; the first if one is allowed. */
function childrenToRead(element, label, warnings) {
  const kind = element.get('type') === 'fixed' ? 'fixed joint' : element.name
  const expected = CHILDREN[kind] ?? {}, names = new Set()
  const children = element.children.filter(({name, namespace}) => {
    if (!Object.hasOwn(expected, name) || namespace !== element.namespace) return false
    if (names.has(name) && name !== 'link' && name !== 'joint') {
      warnings.push(`${label} has more than one <${name}>; only the first is used`)
      return false
    }
    names.add(name)
    return true
  })
  const missing = Object.keys(expected).find((name) => expected[name] && !names.has(name))
  if (missing) throw new IncompleteElement(`${label} has no <${missing}>; add it`, element)
  return children
}

/**
 * Parse finite numbers in the format of type double of XML Schema.
 * @param {string} text
 * @param {number} count
 * @param {number} [largest]
 * @returns {number[]}
 * @throws {RangeError} quotes the text or the number, and names what is expected
 */
export function parseNumbers(text, count, largest = Infinity) {
  const words = text.split(/[ \t\r\n]+/).filter(Boolean)
  if (words.length !== count) {
    const expected = count === 1 ? 'one number' : `${count} numbers`
    throw new RangeError(`is ${quote(text)}; expected ${expected}`)
  }
  for (const word of words) {
    if (!NUMBER.test(word) || !Number.isFinite(Number(word))) {
      throw new RangeError(`has ${quote(word)}; expected a finite number, such as 0.5`)
    }
    if (Math.abs(Number(word)) > largest) {
      throw new RangeError(`has ${quote(word)}; at most ${formatGeneral(largest)} is supported`)
    }
  }
  return words.map(Number)
}

/**
 * Return the fixed-axis angles of an <origin> [rad], from rpy or from quat_xyzw of any norm.
 * @param {XmlElement} origin
 * @returns {number[]}
 * @throws {RangeError} says what is expected
 */
export function readAngles(origin) {
  const text = origin.get('quat_xyzw')
  if (text === null) return parseNumbers(origin.get('rpy') ?? '0 0 0', 3)
  if (origin.get('rpy') !== null) {
    throw new RangeError('is beside rpy; expected one of the two')
  }
  const quaternion = parseNumbers(text, 4)
  if (!quaternion.some(Boolean)) {
    throw new RangeError(`is ${quote(text)}; expected a quaternion x y z w of norm 1`)
  }
  return anglesOfRotation(rotationOf(unitVector(quaternion)))
}

/** Return the rotation matrix of a unit quaternion. */
function rotationOf([x, y, z, w]) {
  return [
    1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
    2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
    2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
  ]
}

/** Return the fixed-axis angles of a rotation matrix [rad]. */
function anglesOfRotation(R) {
  const yaw = Math.atan2(R[3], R[0]), cy = Math.cos(yaw), sy = Math.sin(yaw)
  const pitch = Math.atan2(-R[6], cy * R[0] + sy * R[3])
  const roll = Math.atan2(sy * R[2] - cy * R[5], cy * R[4] - sy * R[1])
  return [roll, pitch, yaw]
}

/**
 * Return the placement of the <origin> of a record; the identity if it is missing.
 * @param {{origin: {xyz: number[], rpy: number[]} | null}} record
 * @returns {{R: number[], p: number[]}}
 */
export function placementOf(record) {
  return record.origin ? placement(record.origin.xyz, record.origin.rpy) : IDENTITY
}
