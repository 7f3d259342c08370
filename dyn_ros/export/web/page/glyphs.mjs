// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Instances of lines, cones and solids, of which all markers are made.

import {
  BoxGeometry,
  Color,
  ConeGeometry,
  CylinderGeometry,
  DoubleSide,
  Group,
  InstancedMesh,
  Matrix4,
  MeshBasicMaterial,
  MeshStandardMaterial,
  Quaternion,
  SphereGeometry,
  Vector3
} from 'three'

const UP = new Vector3(0, 1, 0)
const SHAPES = {
  line: () => new CylinderGeometry(0.5, 0.5, 1, 10),
  cone: () => new ConeGeometry(0.5, 1, 16),
  sphere: () => new SphereGeometry(0.5, 32, 16),
  box: () => new BoxGeometry(1, 1, 1)
}

/** Instances of one shape, whose number changes with what is shown. */
class Instances {
  constructor(parent, kind, material) {
    Object.assign(this, {parent, kind, material, geometry: SHAPES[kind]()})
    this.grow(16)
  }

  grow(capacity) {
    this.mesh?.removeFromParent()
    this.mesh?.dispose()
    this.capacity = capacity
    this.mesh = new InstancedMesh(this.geometry, this.material, capacity)
    this.mesh.frustumCulled = false
    this.mesh.renderOrder = this.material.transparent ? 2 : 1
    this.parent.add(this.mesh)
  }

  /** Show matrices with colors. */
  show(matrices, colors) {
    if (matrices.length > this.capacity) this.grow(2 * matrices.length)
    this.mesh.count = matrices.length
    matrices.forEach((matrix, k) => this.mesh.setMatrixAt(k, matrix))
    colors.forEach((color, k) => this.mesh.setColorAt(k, color))
    this.mesh.instanceMatrix.needsUpdate = true
    if (this.mesh.instanceColor) this.mesh.instanceColor.needsUpdate = true
  }
}

/** A layer of markers, whose content is given anew for each state. */
export class Glyphs {
  constructor(parent, {isFlat = true, opacity = 1, isOnTop = false} = {}) {
    this.object = new Group()
    parent.add(this.object)
    const options = {
      transparent: opacity < 1 || isOnTop,
      opacity,
      depthWrite: opacity === 1,
      depthTest: !isOnTop
    }
    this.material = isFlat
      ? new MeshBasicMaterial({...options, side: DoubleSide})
      : new MeshStandardMaterial({...options, roughness: 0.6, metalness: 0})
    this.instances = {}
    this.clear()
  }

  clear() {
    this.items = {line: [], cone: [], sphere: [], box: []}
  }

  /** Add a line between two points. */
  line(from, to, width, color) {
    const [start, end] = [new Vector3(...from), new Vector3(...to)]
    const vector = end.clone().sub(start)
    const length = vector.length()
    if (!(length > 1e-7)) return
    const turn = new Quaternion().setFromUnitVectors(UP, vector.divideScalar(length))
    const matrix = new Matrix4().compose(
      start.add(end).multiplyScalar(0.5),
      turn,
      new Vector3(width, length, width)
    )
    this.items.line.push([matrix, color])
  }

  /** Add an arrow from a point, whose head is at most half as long. */
  arrow(from, to, width, color) {
    const [start, end] = [new Vector3(...from), new Vector3(...to)]
    const vector = end.clone().sub(start)
    const length = vector.length()
    if (!(length > 1e-4)) return
    const head = Math.min(4 * width, 0.5 * length)
    const direction = vector.divideScalar(length)
    const neck = end.clone().addScaledVector(direction, -head)
    this.line(from, neck.toArray(), width, color)
    const turn = new Quaternion().setFromUnitVectors(UP, direction)
    const matrix = new Matrix4().compose(
      end.addScaledVector(direction, -0.5 * head),
      turn,
      new Vector3(2.4 * width, head, 2.4 * width)
    )
    this.items.cone.push([matrix, color])
  }

  /** Add a line through points. */
  strip(points, width, color) {
    for (let k = 1; k < points.length; k++) this.line(points[k - 1], points[k], width, color)
  }

  sphere(center, diameter, color) {
    const scale = new Vector3(diameter, diameter, diameter)
    const matrix = new Matrix4().compose(new Vector3(...center), new Quaternion(), scale)
    this.items.sphere.push([matrix, color])
  }

  /** Add a solid of these widths along axes, the columns of a rotation (9 numbers, by rows). */
  solid(kind, center, axes, widths, color) {
    const [a, b, c] = widths.map(width => Math.max(width, 1e-3))
    const matrix = new Matrix4().set(
      axes[0] * a,
      axes[1] * b,
      axes[2] * c,
      center[0],
      axes[3] * a,
      axes[4] * b,
      axes[5] * c,
      center[1],
      axes[6] * a,
      axes[7] * b,
      axes[8] * c,
      center[2],
      0,
      0,
      0,
      1
    )
    this.items[kind].push([matrix, color])
  }

  /** Show what was added since `clear`. */
  show() {
    for (const [kind, items] of Object.entries(this.items)) {
      if (!items.length && !this.instances[kind]) continue
      this.instances[kind] ??= new Instances(this.object, kind, this.material)
      this.instances[kind].show(
        items.map(([matrix]) => matrix),
        items.map(([, color]) => color)
      )
    }
  }
}

/** Return a color of the scene from a CSS code. */
export const colorOf = code => new Color(code)
