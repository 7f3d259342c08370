// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The shapes of a robot's links in the picture, moved by the placements of its frames.

import {
  BoxGeometry,
  CapsuleGeometry,
  CylinderGeometry,
  Euler,
  Group,
  Matrix4,
  Mesh,
  Quaternion,
  SphereGeometry,
  Vector3
} from 'three'
import {makeMaterial} from './meshes.mjs'
import {MeshError} from './mesh_limits.mjs'

const DEFAULT_COLOR = [0.75, 0.75, 0.78, 1]
const COLLISION_COLOR = [1, 0.55, 0.1, 0.35]
const HIGHLIGHT = 0xe00b1c
const BONE_COLOR = [235 / 255, 140 / 255, 40 / 255, 1]
const DIRECTIONS = sampleDirections()
const MAX_SAMPLED_CORNERS = 30000

/** The shapes of one robot; `object` is their root. */
export class RobotScene {
  /** `frames` and `joints` are the model's. */
  constructor(frames, joints) {
    this.object = new Group()
    this.frames = frames
    this.joints = joints
    this.links = new Map() // link: its group, for visual and collision shapes, and points
    frames.forEach((frame, index) => {
      if (!frame.is_link) return
      const [visual, collision] = [new Group(), new Group()]
      for (const group of [visual, collision]) {
        group.matrixAutoUpdate = false
        group.userData.frame = index
        this.object.add(group)
      }
      this.links.set(frame.name, {index, visual, collision, points: []})
    })
  }

  /** Add shapes; `report(path, reason)` is called for those that cannot be drawn. */
  async add(shapes, reader, report) {
    const wanted = shapes.filter(shape => this.links.has(shape.link))
    for (const shape of wanted.filter(shape => shape.kind !== 'mesh')) this.addPrimitive(shape)
    const meshes = wanted.filter(shape => shape.kind === 'mesh')
    for (const shape of meshes) await this.addMesh(shape, reader, report)
    this.replaceMissing()
  }

  /** Use the frames of another model of the same robot. */
  rename(frames, joints) {
    this.frames = frames
    this.joints = joints
    for (const [name, link] of this.links) {
      link.index = frames.findIndex(frame => frame.is_link && frame.name === name)
      for (const group of [link.visual, link.collision]) group.userData.frame = link.index
    }
  }

  addPrimitive(shape) {
    this.insert(shape, new Mesh(primitive(shape), makeMaterial(colorOf(shape) ?? DEFAULT_COLOR)))
  }

  async addMesh(shape, reader, report) {
    const key = `${shape.link} ${shape.role}`
    try {
      this.insert(shape, await reader.load(shape.uri, colorOf(shape)))
    } catch (error) {
      if (!(error instanceof MeshError)) throw error
      this.missing ??= new Set()
      this.missing.add(key)
      report(shape, error.message)
    }
    await new Promise(resolve => setTimeout(resolve)) // let the page draw
  }

  insert(shape, object) {
    const link = this.links.get(shape.link)
    const place = new Group()
    place.position.set(...shape.origin.xyz)
    place.quaternion.copy(quaternionOf(shape.origin.rpy))
    if (shape.kind === 'mesh') place.scale.set(...shape.size)
    if (shape.role === 'collision') paintAll(object, COLLISION_COLOR)
    place.add(object)
    place.updateMatrixWorld(true)
    link.points.push(...outermostPoints(place))
    link[shape.role].add(place)
  }

  /** Show collision shapes of links without visual shapes, or bones if there are no shapes. */
  replaceMissing() {
    const drawn = [...this.links.values()].filter(link => link.visual.children.length)
    for (const [name, link] of this.links) {
      link.isReplaced =
        !link.visual.children.length &&
        link.collision.children.length > 0 &&
        (!drawn.length || this.missing?.has(`${name} visual`))
    }
    this.bones?.removeFromParent()
    this.bones = null
    const isEmpty = ![...this.links.values()].some(link => link.points.length)
    if (isEmpty) this.object.add((this.bones = new Group()))
    this.show(this.role ?? 'visual')
  }

  /** Show visual shapes, collision shapes, or both. */
  show(role) {
    this.role = role
    for (const link of this.links.values()) {
      link.visual.visible = role !== 'collision'
      link.collision.visible = role !== 'visual' || link.isReplaced === true
    }
  }

  /** Move the links to the placements of all frames, (nframes, 4, 4). */
  move(placements) {
    for (const {index, visual, collision} of this.links.values()) {
      const X = placements.subarray(16 * index, 16 * index + 16)
      for (const group of [visual, collision]) {
        group.matrix.set(...X)
        group.matrixWorldNeedsUpdate = true
      }
    }
    if (this.bones) this.drawBones(placements)
  }

  drawBones(placements) {
    this.bones.clear()
    const at = k =>
      new Vector3(placements[16 * k + 3], placements[16 * k + 7], placements[16 * k + 11])
    for (const joint of this.joints) {
      const start = at(joint.parent < 0 ? 0 : this.joints[joint.parent].frame)
      const end = at(joint.frame)
      const length = start.distanceTo(end)
      const material = makeMaterial(BONE_COLOR)
      const ball = new Mesh(new SphereGeometry(0.1 * Math.max(0.1, length) * 0.5), material)
      ball.position.copy(end)
      this.bones.add(ball)
      if (length < 1e-6) continue
      const bone = new Mesh(new CylinderGeometry(0.025 * length, 0.025 * length, length), material)
      bone.position.copy(start).add(end).multiplyScalar(0.5)
      bone.quaternion.setFromUnitVectors(new Vector3(0, 1, 0), end.sub(start).normalize())
      this.bones.add(bone)
    }
  }

  /** Return the outermost points of shapes and the origins of links in the world, with frames. */
  framePoints(placements) {
    const points = []
    for (const {index, points: own} of this.links.values()) {
      const X = new Matrix4().set(...placements.subarray(16 * index, 16 * index + 16))
      for (const point of own) {
        points.push({frame: index, point: point.clone().applyMatrix4(X).toArray()})
      }
      points.push({frame: index, point: [X.elements[12], X.elements[13], X.elements[14]]})
    }
    return points
  }

  /** Return the outermost points of all shapes in the world. */
  pointsAt(placements) {
    return this.framePoints(placements).map(({point}) => point)
  }

  /** Make one link glow, or none. */
  highlight(name) {
    for (const [link, {visual, collision}] of this.links) {
      for (const group of [visual, collision]) {
        eachMaterial(group, material => {
          material.emissive.setHex(link === name ? HIGHLIGHT : 0)
          material.emissiveIntensity = link === name ? 0.7 : 0
        })
      }
    }
  }

  /** Make the shapes transparent, so that markers inside them can be seen. */
  makeTransparent(isTransparent) {
    for (const {visual} of this.links.values()) {
      eachMaterial(visual, material => {
        material.userData.opacity ??= material.opacity
        material.opacity = material.userData.opacity * (isTransparent ? 0.4 : 1)
        material.transparent = material.opacity < 1
        material.depthWrite = !material.transparent
        material.needsUpdate = true
      })
    }
  }

  /** Return the first link that a ray meets, and where: {frame, point}, or null. */
  hit(ray) {
    for (const {object, point} of ray.intersectObject(this.object, true)) {
      let group = object
      while (group && group.userData.frame === undefined) group = group.parent
      if (group?.visible) return {frame: group.userData.frame, point: point.toArray()}
    }
    return null
  }

  /** Free what the graphics card holds. */
  remove() {
    this.object.removeFromParent()
    this.object.traverse(object => object.geometry?.dispose())
    eachMaterial(this.object, material => {
      material.map?.dispose()
      material.dispose()
    })
  }
}

function eachMaterial(root, change) {
  root.traverse(object => {
    if (object.material) [object.material].flat().forEach(change)
  })
}

const colorOf = shape => (shape.role === 'collision' ? COLLISION_COLOR : shape.color)

function paintAll(object, color) {
  object.traverse(mesh => {
    if (mesh.isMesh) mesh.material = makeMaterial(color)
  })
}

function primitive({kind, size: [a, b, c]}) {
  if (kind === 'box') return new BoxGeometry(a, b, c)
  if (kind === 'sphere') return new SphereGeometry(a, 32, 16)
  const geometry =
    kind === 'cylinder' ? new CylinderGeometry(a, a, b, 32) : new CapsuleGeometry(a, b, 8, 32)
  return geometry.rotateX(Math.PI / 2) // along z
}

/** Return the quaternion of roll, pitch and yaw. */
export const quaternionOf = rpy => new Quaternion().setFromEuler(new Euler(...rpy, 'ZYX'))

function sampleDirections() {
  const directions = []
  for (const x of [-1, 0, 1]) {
    for (const y of [-1, 0, 1]) {
      for (const z of [-1, 0, 1]) if (x || y || z) directions.push(new Vector3(x, y, z).normalize())
    }
  }
  return directions
}

/** Return the corners of an object that are farthest in one of the directions. */
function outermostPoints(object) {
  const best = DIRECTIONS.map(() => ({far: -Infinity, point: null}))
  const point = new Vector3()
  object.traverse(mesh => {
    const corners = mesh.geometry?.attributes.position
    if (!corners) return
    const stride = Math.ceil(corners.count / MAX_SAMPLED_CORNERS)
    for (let k = 0; k < corners.count; k += stride) {
      point.fromBufferAttribute(corners, k).applyMatrix4(mesh.matrixWorld)
      DIRECTIONS.forEach((direction, n) => {
        const far = direction.dot(point)
        if (far > best[n].far) best[n] = {far, point: point.clone()}
      })
    }
  })
  return best.filter(({point: found}) => found).map(({point: found}) => found)
}
