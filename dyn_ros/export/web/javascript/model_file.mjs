// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Model files: robots for the library, which uses the bytes of a file in place;
// see dyn_ros/export/model_file.py.

import {dynamicParameters} from './algebra.mjs'
import {LAYOUT} from './layout.mjs'
import {
  coordinateLimits, coordinateNames, linkParameters, packFloats, packIntegers, sum,
} from './structure.mjs'

const {
  ALIGNMENT, CHECKSUM_FACTOR, CHECKSUM_START, FORMAT_DIGEST, HEADER, MAGIC, MAX_PAYLOADS,
  PAYLOAD_SIZE, SECTIONS,
} = LAYOUT.file

/**
 * Return the content of the model file of a robot.
 * @param {{name: string, joints: any[], frames: any[]}} robot
 * @param {number[]} gravity [m/s2]
 * @returns {Uint8Array}
 */
export function modelBytes(robot, gravity) {
  const sections = sectionArrays(robot, gravity)
  const headerSize = alignedSize(8 * (HEADER.length + 2 * SECTIONS.length))
  const size = headerSize + sum(sections.map((section) => alignedSize(section.byteLength)))
  const words = new BigUint64Array(size / 8), bytes = new Uint8Array(words.buffer)
  writeHeader(words, robot, size)
  let end = headerSize
  sections.forEach((section, n) => {
    words.set([BigInt(end), BigInt(section.length)], HEADER.length + 2 * n)
    bytes.set(new Uint8Array(section.buffer), end)
    end += alignedSize(section.byteLength)
  })
  words[HEADER.indexOf('CHECKSUM')] = checksum(words)
  return bytes
}

function writeHeader(words, {joints, frames}, size) {
  const values = {
    MAGIC, LAYOUT: FORMAT_DIGEST, SIZE: size, CHECKSUM: 0, NQ: sum(joints.map(({nq}) => nq)),
    NV: sum(joints.map(({nv}) => nv)), NJOINTS: joints.length, NFRAMES: frames.length,
  }
  words.set(HEADER.map((name) => BigInt(values[name])))
}

function alignedSize(size) {
  return Math.ceil(size / ALIGNMENT) * ALIGNMENT
}

/** Return the 64-bit FNV-1a hash of 8-byte words. */
function checksum(words) {
  const factor = BigInt(CHECKSUM_FACTOR)
  let value = BigInt(CHECKSUM_START)
  for (const word of words) value = BigInt.asUintN(64, (value ^ word) * factor)
  return value
}

/** Return the sections, in their order. */
function sectionArrays({name, joints, frames}, gravity) {
  const {positionNames, velocityNames} = coordinateNames(joints)
  const [jointNames, frameNames] = [joints, frames].map((list) => list.map(({name}) => name))
  const names = [name, ...jointNames, ...frameNames, ...velocityNames, ...positionNames]
  const sections = {
    INTS: integers(packIntegers(joints, frames)),
    FLOATS: floats(packFloats(joints, frames, gravity)),
    BODIES: floats(joints.flatMap(({inertia}) => dynamicParameters(inertia))),
    LINKS: floats(frames.flatMap(linkParameters)),
    ARMATURE: new Float64Array(velocityNames.length),
    LIMITS: floats(coordinateLimits(joints).flat()),
    JOINTS: integers(jointRows(joints, frames)),
    FRAMES: integers(frameRows(frames)),
    PAYLOADS: new Float64Array(MAX_PAYLOADS * PAYLOAD_SIZE),
    ...namesAndText(names),
  }
  return SECTIONS.map((section) => sections[section])
}

function integers(numbers) {
  return BigInt64Array.from(numbers, BigInt)
}

function floats(numbers) {
  return Float64Array.from(numbers)
}

function jointRows(joints, frames) {
  const framesOfJoints = frames.flatMap(({kind}, n) => kind === 'joint' ? [n] : [])
  return joints.flatMap(
    ({parent, idxQ, idxV, nq, nv}, n) => [parent, framesOfJoints[n], idxQ, idxV, nq, nv])
}

function frameRows(frames) {
  const links = linksOfFrames(frames)
  return frames.flatMap(({kind, joint}, n) => [joint, links[n], Number(kind === 'body')])
}

/**
 * Return the index of the link frame to which each frame belongs: itself for a link, and the
 * connected link for a joint.
 * @param {{kind: string, parentFrame: number}[]} frames
 * @returns {number[]}
 */
export function linksOfFrames(frames) {
  const connected = new Map()
  frames.forEach(({kind, parentFrame}, n) => {
    if (kind === 'body') connected.set(parentFrame, n)
  })
  return frames.map(({kind}, n) => kind === 'body' ? n : connected.get(n))
}

/** Return where names begin in a text, in which each ends with a zero, and this text. */
function namesAndText(names) {
  const encoder = new TextEncoder()
  const encoded = names.map((name) => encoder.encode(`${name}\0`)), starts = []
  let end = 0
  for (const {length} of encoded) {
    starts.push(end)
    end += length
  }
  const text = new Uint8Array(end)
  encoded.forEach((bytes, n) => text.set(bytes, starts[n]))
  return {NAMES: integers(starts), TEXT: text}
}
