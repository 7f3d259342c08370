// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// STL files, binary and text.

import {MeshError, requireFewTriangles} from './mesh_limits.mjs'

const HEADER_SIZE = 84 // bytes, the number of triangles included
const TRIANGLE_SIZE = 50 // bytes
const VERTEX = /vertex\s+(\S+)\s+(\S+)\s+(\S+)/g

/** Return the corners of the triangles of an STL file, 9 numbers each. */
export function readStl(bytes) {
  return isText(bytes) ? readText(bytes) : readBinary(bytes)
}

function isText(bytes) {
  const start = new TextDecoder('latin1').decode(bytes.subarray(0, 1000)).trimStart()
  if (!start.startsWith('solid')) return false
  return bytes.length !== binarySize(bytes) && start.includes('\n')
}

function binarySize(bytes) {
  return bytes.length < HEADER_SIZE ? NaN : HEADER_SIZE + TRIANGLE_SIZE * claimedCount(bytes)
}

const claimedCount = bytes => new DataView(bytes.buffer, bytes.byteOffset).getUint32(80, true)

function readBinary(bytes) {
  if (bytes.length < HEADER_SIZE) throw new MeshError('it is not an STL file; export it again')
  const count = claimedCount(bytes)
  if (binarySize(bytes) > bytes.length) {
    throw new MeshError(
      `its header claims ${count.toLocaleString('en-US')} triangles, but the ` +
        `file has ${bytes.length.toLocaleString('en-US')} bytes; export it again`
    )
  }
  requireFewTriangles(count)
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const corners = new Float32Array(9 * count)
  for (let k = 0; k < count; k++) {
    const start = HEADER_SIZE + TRIANGLE_SIZE * k + 12 // after the normal
    for (let i = 0; i < 9; i++) corners[9 * k + i] = view.getFloat32(start + 4 * i, true)
  }
  return corners
}

function readText(bytes) {
  const numbers = []
  for (const [, x, y, z] of new TextDecoder('latin1').decode(bytes).matchAll(VERTEX)) {
    numbers.push(Number(x), Number(y), Number(z))
    requireFewTriangles(numbers.length / 9)
  }
  if (!numbers.length || numbers.length % 9) {
    throw new MeshError('it is not complete; export it again')
  }
  return Float32Array.from(numbers)
}
