// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Vectors, symmetric matrices, curved arrows and the fitted camera, as plain arrays.

export const ELLIPSOID_WIDTH = 2 * Math.sqrt(5) // diameter of an ellipsoid / spread of its mass
export const BOX_WIDTH = Math.sqrt(12) // edge of a box / spread of its mass
const MAX_ARC = 1.5 * Math.PI // rad
const ARC_STEPS = 12
const EYE_DIRECTION = unit([1, 0.8, 0.5]) // from the robot to the camera
const MARGIN = 0.08 // empty border on each side / size of the picture

export const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
export const add = (a, b) => [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
export const subtract = (a, b) => [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
export const scaled = (k, a) => [k * a[0], k * a[1], k * a[2]]
export const norm = a => Math.hypot(a[0], a[1], a[2])
export const clamp = (x, lower, upper) => Math.min(Math.max(x, lower), upper)

/** Return the least of numbers, also of more than a call may have as arguments. */
export const minOf = numbers => numbers.reduce((a, b) => Math.min(a, b), Infinity)

/** Return the largest of numbers, also of more than a call may have as arguments. */
export const maxOf = numbers => numbers.reduce((a, b) => Math.max(a, b), -Infinity)

export function cross(a, b) {
  return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/** Return a vector of length 1, or zeros. */
export function unit(a) {
  const length = Math.hypot(a[0], a[1], a[2])
  return length > 0 ? [a[0] / length, a[1] / length, a[2] / length] : [0, 0, 0]
}

/** Return the rotation of placement k in an array of (4, 4), applied to a vector. */
export function rotate(placements, k, a) {
  const X = placements.subarray(16 * k, 16 * k + 12)
  return [0, 4, 8].map(i => X[i] * a[0] + X[i + 1] * a[1] + X[i + 2] * a[2])
}

/** Return a vector in the axes of placement k. */
export function rotateBack(placements, k, a) {
  const X = placements.subarray(16 * k, 16 * k + 12)
  return [0, 1, 2].map(j => X[j] * a[0] + X[4 + j] * a[1] + X[8 + j] * a[2])
}

/** Return the origin of placement k. */
export function origin(placements, k) {
  return [placements[16 * k + 3], placements[16 * k + 7], placements[16 * k + 11]]
}

/** Return a point of placement k in the world. */
export const transform = (placements, k, a) => add(rotate(placements, k, a), origin(placements, k))

/**
 * Return eigenvalues and orthonormal eigenvectors (columns of an n by n array) of a symmetric
 * matrix, by Jacobi's rotations. Golub and Van Loan (2013), Matrix Computations, 8.5.
 */
export function symmetricEigen(matrix, n) {
  const A = Float64Array.from(matrix)
  const V = Float64Array.from({length: n * n}, (_, k) => (k % (n + 1) ? 0 : 1))
  for (let sweep = 0; sweep < 30; sweep++) {
    let off = 0
    for (let i = 0; i < n; i++) for (let j = 0; j < i; j++) off += A[n * i + j] ** 2
    if (!(off > 1e-300)) break
    for (let p = 0; p < n; p++) for (let q = p + 1; q < n; q++) rotatePair(A, V, n, p, q)
  }
  return {values: Array.from({length: n}, (_, k) => A[n * k + k]), vectors: V}
}

function rotatePair(A, V, n, p, q) {
  const apq = A[n * p + q]
  if (apq === 0) return
  const theta = (A[n * q + q] - A[n * p + p]) / (2 * apq)
  const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1))
  const c = 1 / Math.hypot(t, 1)
  const s = t * c
  const turn = (M, i, j) => {
    const [x, y] = [M[i], M[j]]
    M[i] = c * x - s * y
    M[j] = s * x + c * y
  }
  for (let k = 0; k < n; k++) turn(A, n * k + p, n * k + q)
  for (let k = 0; k < n; k++) turn(A, n * p + k, n * q + k)
  for (let k = 0; k < n; k++) turn(V, n * k + p, n * k + q)
}

/**
 * Return the spread of a body's mass along its principal axes [m], and the axes as columns of a
 * rotation (9 numbers). `rotational` is the inertia about the center of mass, 9 numbers.
 */
export function principalSpread(mass, rotational) {
  const {values, vectors} = symmetricEigen(rotational, 3)
  const half = 0.5 * (values[0] + values[1] + values[2])
  const spread = values.map(value => Math.sqrt(Math.max(half - value, 0) / mass))
  return {spread, axes: rightHanded(vectors)}
}

function rightHanded(axes) {
  const [x, y, z] = [0, 1, 2].map(j => [axes[j], axes[3 + j], axes[6 + j]])
  const sign = dot(cross(x, y), z) < 0 ? -1 : 1
  return axes.map((value, k) => (k % 3 ? value : sign * value))
}

/**
 * Return mass, center of mass and inertia about it (9 numbers) from the ten parameters of a body:
 * m, m c, and Ixx Ixy Iyy Ixz Iyz Izz about the origin.
 */
export function bodyOf([m, hx, hy, hz, xx, xy, yy, xz, yz, zz]) {
  if (!(m > 0)) return {mass: m, com: [0, 0, 0], rotational: new Array(9).fill(0)}
  const [x, y, z] = [hx / m, hy / m, hz / m]
  const a = xx - m * (y * y + z * z)
  const b = yy - m * (x * x + z * z)
  const c = zz - m * (x * x + y * y)
  const [d, e, f] = [xy + m * x * y, xz + m * x * z, yz + m * y * z]
  return {mass: m, com: [x, y, z], rotational: [a, d, e, d, b, f, e, f, c]}
}

/** Return two unit vectors that form right-handed axes with a unit vector. Duff et al. (2017). */
export function perpendicularVectors([x, y, z]) {
  const sign = z < 0 ? -1 : 1
  const a = -1 / (sign + z)
  const b = a * x * y
  return [
    [1 + sign * a * x * x, sign * b, -sign * x],
    [b, sign + a * y * y, -y]
  ]
}

/**
 * Return the lines of an arrow curved about an axis, as lists of points: the head and the arc.
 * `first` and `second` are where it starts and a quarter turn further; `size` is -1 to 1.
 */
export function curvedArrow(center, first, second, radius, size) {
  const angle = MAX_ARC * size
  const at = (phi, r = radius) =>
    [0, 1, 2].map(k => center[k] + r * (Math.cos(phi) * first[k] + Math.sin(phi) * second[k]))
  const head = Math.min(0.35, 0.5 * Math.abs(angle))
  const back = angle - Math.sign(angle) * head
  const arc = Array.from({length: ARC_STEPS + 1}, (_, k) => at((angle * k) / ARC_STEPS))
  const tip = at(angle)
  const barb = 0.5 * head * radius
  const barbs = [at(back, (radius + barb) * 1.02), tip, at(back, (radius - barb) * 1.02)]
  return [barbs, arc]
}

/**
 * Return position and target of the nearest camera that sees all points; z is up. `tangent` is
 * that of half the vertical field of view, `aspect` is width / height.
 */
export function fitCamera(points, tangent, aspect, back = EYE_DIRECTION) {
  const right = unit(cross([0, 0, 1], back))
  const up = cross(back, right)
  const [x, y, z] = [right, up, back].map(axis => points.map(point => dot(point, axis)))
  const slope = tangent * (1 - 2 * MARGIN)
  let distance = maxOf(z) + 0.01
  for (const [offsets, steepness] of [
    [x, slope * aspect],
    [y, slope]
  ]) {
    const upper = maxOf(offsets.map((a, k) => a + z[k] * steepness))
    const lower = maxOf(offsets.map((a, k) => z[k] * steepness - a))
    distance = Math.max(distance, (upper + lower) / (2 * steepness))
  }
  const [centerX, centerY] = [x, y].map(offsets =>
    seenCenter(
      offsets,
      z.map(d => distance - d)
    )
  )
  const center = add(scaled(centerX, right), scaled(centerY, up))
  const middle = 0.5 * (minOf(z) + maxOf(z))
  return {position: add(center, scaled(distance, back)), target: add(center, scaled(middle, back))}
}

/** Return the offset at which a camera sees points in the middle of the picture. */
function seenCenter(offsets, depths) {
  let center = 0.5 * (minOf(offsets) + maxOf(offsets))
  for (let n = 0; n < 10; n++) {
    const slopes = offsets.map((offset, k) => (offset - center) / depths[k])
    const first = slopes.indexOf(minOf(slopes))
    const last = slopes.indexOf(maxOf(slopes))
    const [d, e] = [depths[first], depths[last]]
    center = (offsets[first] * e + offsets[last] * d) / (d + e)
  }
  return center
}
