// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Placements, inertias and eigenvalues; the operations and their order are those of Python.
//
// A placement is {R, p}: nine numbers of a rotation, row by row, and a translation [m].
// An inertia is {mass, com, S}: [kg], [m] and Ixx Ixy Iyy Ixz Iyz Izz about the center [kg m2].

/** The placement of a frame at another one. */
export const IDENTITY = {R: [1, 0, 0, 0, 1, 0, 0, 0, 1], p: [0, 0, 0]}

/** The inertia of no mass. */
export const NO_INERTIA = {mass: 0, com: [0, 0, 0], S: [0, 0, 0, 0, 0, 0]}

export const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
export const subtract = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
export const scale = (s, a) => [s * a[0], s * a[1], s * a[2]]
export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
export const norm = (a) => Math.sqrt(a.reduce((sum, x) => sum + x * x, 0))
export const largestSize = (numbers) => Math.max(...numbers.map(Math.abs))

export function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/** Return the unit vector of a direction that is not zero, without underflow or overflow. */
export function unitVector(direction) {
  const largest = largestSize(direction)
  const scaled = direction.map((x) => x / largest), length = norm(scaled)
  return scaled.map((x) => x / length)
}

/** Return R a. */
export function rotate(R, a) {
  return [0, 3, 6].map((i) => R[i] * a[0] + R[i + 1] * a[1] + R[i + 2] * a[2])
}

/** Return A B, of 3 x 3 matrices. */
export function product(A, B) {
  return Array.from({length: 9}, (_, k) => {
    const i = k - k % 3, j = k % 3
    return A[i] * B[j] + A[i + 1] * B[3 + j] + A[i + 2] * B[6 + j]
  })
}

/** Return A B without negative zeros, as by a library of linear algebra. */
export function matrixProduct(A, B) {
  return product(A, B).map((x) => x + 0)
}

/** Return a b', the outer product. */
export const outer = (a, b) => a.flatMap((x) => b.map((y) => x * y))

/** Return the cross-product matrix [a]. */
export const skew = ([x, y, z]) => [0, -z, y, z, 0, -x, -y, x, 0]

/** Return the placement in the frame in which the frame of a placement is placed. */
export function compose(X, Y) {
  return {R: matrixProduct(X.R, Y.R), p: rotate(X.R, Y.p).map((x, i) => x + X.p[i])}
}

/** Return the placement of a translation [m] and fixed-axis angles [rad]. */
export function placement(xyz, rpy) {
  const [cr, cp, cy] = rpy.map(Math.cos), [sr, sp, sy] = rpy.map(Math.sin)
  return {
    R: [
      cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr,
      sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr,
      -sp, cp * sr, cp * cr,
    ],
    p: xyz,
  }
}

/** Return R S R', of six numbers of a symmetric matrix. */
function rotateSymmetric(R, [xx, xy, yy, xz, yz, zz]) {
  const A = product(R, [xx, xy, xz, xy, yy, yz, xz, yz, zz])
  const entry = (i, j) => A[i] * R[j] + A[i + 1] * R[j + 1] + A[i + 2] * R[j + 2]
  return [entry(0, 0), entry(0, 3), entry(3, 3), entry(0, 6), entry(3, 6), entry(6, 6)]
}

/** Return mass, first moment and rotational inertia about O, from those about O + p. */
function moveMoments(p, m, h, S) {
  const k = add(h, scale(m, p))
  return [k, [
    S[0] + p[1] * (h[1] + k[1]) + p[2] * (h[2] + k[2]),
    S[1] - h[0] * p[1] - p[0] * k[1],
    S[2] + p[0] * (h[0] + k[0]) + p[2] * (h[2] + k[2]),
    S[3] - h[0] * p[2] - p[0] * k[2],
    S[4] - h[1] * p[2] - p[1] * k[2],
    S[5] + p[0] * (h[0] + k[0]) + p[1] * (h[1] + k[1]),
  ]]
}

/** Return the inertia of a body, given in a frame at X, in the frame in which X is placed. */
export function placeInertia(X, {mass, com, S}) {
  return {mass, com: add(rotate(X.R, com), X.p), S: rotateSymmetric(X.R, S)}
}

/** Return m, m c, and Ixx Ixy Iyy Ixz Iyz Izz about the origin of the frame. */
export function dynamicParameters({mass, com, S}) {
  const [h, moments] = moveMoments(com, mass, [0, 0, 0], S)
  return [mass, ...h, ...moments]
}

/** Return the inertia of two bodies together. */
export function addInertias(a, b) {
  const total = a.mass + b.mass
  const center = add(a.com, scale(total ? b.mass / total : 0, subtract(b.com, a.com)))
  const [[h, S], [k, T]] = [a, b].map(
    (body) => moveMoments(subtract(body.com, center), body.mass, [0, 0, 0], body.S))
  const moment = add(h, k), sum = S.map((x, i) => x + T[i])
  if (total === 0) return {mass: 0, com: add([0, 0, 0], center), S: sum}
  const offset = moment.map((x) => x / total)
  const moments = moveMoments(scale(-1, offset), total, moment, sum)[1]
  return {mass: total, com: add(offset, center), S: moments}
}

/** Return the nine numbers of a symmetric matrix from its six. */
export function unpackSymmetric([xx, xy, yy, xz, yz, zz]) {
  return [xx, xy, xz, xy, yy, yz, xz, yz, zz]
}

/**
 * Return the eigenvalues of a symmetric 3 x 3 matrix, ascending; Jacobi's method.
 * @param {number[]} matrix six numbers: xx xy yy xz yz zz
 * @returns {number[]}
 */
export function eigenvalues(matrix) {
  const A = unpackSymmetric(matrix)
  for (let sweep = 0; sweep < 30 && isCoupled(A); sweep += 1) {
    for (const [i, j] of [[0, 1], [0, 2], [1, 2]]) eliminateEntry(A, i, j)
  }
  return [A[0], A[4], A[8]].sort((a, b) => a - b)
}

function isCoupled(A) {
  return A[1] !== 0 || A[2] !== 0 || A[5] !== 0
}

/** Rotate a symmetric matrix in the plane of axes i and j, so that their entry becomes zero. */
function eliminateEntry(A, i, j) {
  const k = 3 - i - j, b = A[3 * i + j]
  if (b === 0) return
  const a = A[4 * i], d = A[4 * j], slope = (d - a) / 2 / b
  const t = (slope < 0 ? -1 : 1) / (Math.abs(slope) + Math.hypot(1, slope))
  const c = 1 / Math.hypot(1, t), s = t * c
  const x = A[3 * i + k], y = A[3 * j + k]
  A[4 * i] = a - t * b
  A[4 * j] = d + t * b
  A[3 * i + j] = A[3 * j + i] = 0
  A[3 * i + k] = A[3 * k + i] = c * x - s * y
  A[3 * j + k] = A[3 * k + j] = s * x + c * y
}
