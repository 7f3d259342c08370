// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Limits of mesh files, as in dyn_ros/check/mesh_sizes.py, examined before they are read.

import {megabytes} from './robot_files.mjs'

export const MAX_TRIANGLE_COUNT = 1_500_000
const MAX_TOTAL_COUNT = 6_000_000 // triangles of all meshes of a robot
const MAX_SIZES = {stl: 60e6, obj: 20e6, dae: 20e6} // bytes
const MAX_NUMBER_COUNT = 4_000_000 // in OBJ and COLLADA files
const MAX_EXPANDED_SIZE = 150e6 // bytes; COLLADA with a copy for each reference to a surface
const MAX_STRIDE = 64 // numbers of a corner in COLLADA files
const INSTANCE_SIZE = 30e3 // bytes that each reference counts

/** Error of a mesh that cannot be drawn; the message says why, and what helps. */
export class MeshError extends Error {}

/** Throw a MeshError unless a mesh of this suffix is supported and small enough. */
export function requireSize(suffix, size) {
  const limit = MAX_SIZES[suffix]
  if (!limit) throw new MeshError(`"${suffix}" is not supported; use STL, OBJ or COLLADA (.dae)`)
  if (size > limit) {
    throw new MeshError(
      `it has ${megabytes(size)}, more than the limit of ` +
        `${megabytes(limit)}; use a coarser mesh`
    )
  }
}

/** Throw a MeshError if a mesh has too many triangles. */
export function requireFewTriangles(count) {
  if (count > MAX_TRIANGLE_COUNT) {
    throw new MeshError(
      `it has ${count.toLocaleString('en-US')} triangles, more than the limit of ` +
        `${MAX_TRIANGLE_COUNT.toLocaleString('en-US')}; use a coarser mesh`
    )
  }
}

/** Throw a MeshError if all meshes of a robot have too many triangles to be drawn. */
export function requireFewInAll(count) {
  if (count > MAX_TOTAL_COUNT) {
    throw new MeshError(
      `with it, all meshes have ${count.toLocaleString('en-US')} triangles, more than the ` +
        `limit of ${MAX_TOTAL_COUNT.toLocaleString('en-US')}; use coarser meshes`
    )
  }
}

/** Throw a MeshError if a text may contain too many numbers; each may be a corner. */
export function requireFewNumbers(bytes) {
  let count = bytes[0] > 32 ? 1 : 0
  for (let k = 1; k < bytes.length; k++) if (bytes[k] > 32 && bytes[k - 1] <= 32) count++
  if (count > MAX_NUMBER_COUNT) {
    throw new MeshError(
      `it may contain ${count.toLocaleString('en-US')} numbers, more than the ` +
        `limit of ${MAX_NUMBER_COUNT.toLocaleString('en-US')}; use a coarser mesh`
    )
  }
}

/** Throw a MeshError if a COLLADA document's numbers or references lead to endless work. */
export function requireSmallCollada(root) {
  requireColladaCounts(root)
  const sizes = new Map()
  const targets = new Map(Array.from(root.querySelectorAll('[id]'), x => [x.getAttribute('id'), x]))
  const sizeOf = (element, depth) => {
    if (depth > 200) throw new MeshError('it has too many elements inside each other')
    let size = element.firstElementChild ? 0 : element.textContent.length
    for (const child of element.children) size += sizeOf(child, depth + 1)
    if (element.localName.startsWith('instance_')) {
      size += INSTANCE_SIZE + referencedSize(element.getAttribute('url') ?? '', depth)
    }
    return size
  }
  const referencedSize = (url, depth) => {
    const id = url.replace(/^#/, '')
    if (!targets.has(id)) return 0
    if (!sizes.has(id)) {
      sizes.set(id, Infinity) // if it contains itself
      sizes.set(id, sizeOf(targets.get(id), depth + 1))
    }
    return sizes.get(id)
  }
  if (!(sizeOf(root, 0) <= MAX_EXPANDED_SIZE)) {
    throw new MeshError(
      'its surfaces and instances would take more than ' +
        `${megabytes(MAX_EXPANDED_SIZE)}; use a coarser mesh with fewer instances`
    )
  }
}

/** Throw a MeshError if counts do not fit the numbers of a COLLADA document. */
function requireColladaCounts(root) {
  const size = root.textContent.length // at least the count of its numbers
  const require = (text, least, most, what) => {
    if (/^\s*\d+\s*$/.test(text) && Number(text) >= least && Number(text) <= most) return
    throw new MeshError(`its ${what} is "${text.slice(0, 20)}"; export it again`)
  }
  for (const node of root.querySelectorAll('[stride], [offset], [set], [count]')) {
    for (const [name, least, most] of [
      ['stride', 1, MAX_STRIDE],
      ['offset', 0, node.localName === 'input' ? MAX_STRIDE : size],
      ['set', 0, MAX_STRIDE],
      ['count', 0, size]
    ]) {
      if (node.hasAttribute(name)) require(node.getAttribute(name), least, most, name)
    }
  }
  for (const {textContent} of root.querySelectorAll('vcount')) {
    const total = textContent.trim().split(/\s+/).reduce((sum, text) => sum + Number(text), 0)
    if (!(total <= size)) require(String(total), 0, size, 'vcount')
  }
}
