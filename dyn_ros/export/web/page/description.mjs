// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The shapes of a robot description and their colors; see dyn_ros/check/shapes.py.

import {childrenOf, parseElements} from '../javascript/description.mjs'
import {ended} from './dom.mjs'

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i
const SIZES = {
  box: [['size', 3]],
  cylinder: [
    ['radius', 1],
    ['length', 1]
  ],
  sphere: [['radius', 1]],
  capsule: [
    ['radius', 1],
    ['length', 1]
  ]
}
const MAX_SIZE = 1e6 // m

/**
 * Return the shapes of all links, and lines about those that are omitted.
 *
 * A shape is {link, role, kind, size, origin: {xyz, rpy}, color, uri}. `color` is red, green,
 * blue, alpha, or null; `role` is visual or collision.
 */
export function readShapes(text) {
  const robot = parseElements(text)
  const colors = new Map()
  for (const material of childrenOf(robot, 'material')) {
    colors.set(material.get('name'), readColor(material, new Map()))
  }
  const shapes = []
  const problems = []
  for (const link of childrenOf(robot, 'link')) {
    for (const role of ['visual', 'collision']) {
      for (const element of childrenOf(link, role)) {
        const name = link.get('name') ?? ''
        try {
          shapes.push({link: name, role, ...readShape(element, colors)})
        } catch (error) {
          problems.push(`A ${role} shape of link "${name}" is omitted: ${ended(error.message)}`)
        }
      }
    }
  }
  return {shapes, problems}
}

function readShape(element, colors) {
  const geometry = childrenOf(element, 'geometry')[0]?.children[0]
  if (!geometry) throw new Error('it has no geometry')
  const kind = geometry.name
  const [material] = childrenOf(element, 'material')
  const color = material ? readColor(material, colors) : null
  const shape = {kind, origin: readOrigin(element), color, uri: ''}
  if (kind === 'mesh') {
    const scale = geometry.get('scale') ?? '1 1 1'
    return {...shape, size: readNumbers(scale, 3), uri: geometry.get('filename') ?? ''}
  }
  if (!Object.hasOwn(SIZES, kind)) {
    throw new Error(`${kind} is not supported; use ${Object.keys(SIZES).join(', ')} or mesh`)
  }
  const size = SIZES[kind].flatMap(([name, count]) => readNumbers(geometry.get(name) ?? '', count))
  if (size.some(x => x < 0)) throw new Error(`the size of the ${kind} is negative`)
  return {...shape, size}
}

/** Return xyz [m] and rpy [rad] of the <origin> of an element. */
function readOrigin(element) {
  const [origin] = childrenOf(element, 'origin')
  const read = name => readNumbers(origin?.get(name) ?? '0 0 0', 3)
  return {xyz: read('xyz'), rpy: read('rpy')}
}

function readColor(material, colors) {
  const [color] = childrenOf(material, 'color')
  if (!color) return colors.get(material.get('name')) ?? null
  try {
    return readNumbers(color.get('rgba') ?? '', 4).map(x => Math.min(Math.max(x, 0), 1))
  } catch {
    return null
  }
}

function readNumbers(text, count) {
  const words = text.trim().split(/\s+/).filter(Boolean)
  const numbers = words.map(Number)
  const isValid = words.length === count && words.every(word => NUMBER.test(word))
  if (!isValid || numbers.some(x => Math.abs(x) > MAX_SIZE)) {
    throw new Error(
      `"${text.slice(0, 60)}" is not ${count === 1 ? 'a number' : `${count} numbers`}`
    )
  }
  return numbers
}
