// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Meshes of a robot's files, as objects of the scene.

import {
  BufferAttribute,
  BufferGeometry,
  Color,
  DoubleSide,
  Group,
  Matrix4,
  Mesh,
  MeshStandardMaterial,
  RepeatWrapping,
  SRGBColorSpace,
  Texture
} from 'three'
import {parseLeniently} from '../javascript/xml.mjs'
import {
  MeshError,
  requireFewInAll,
  requireFewNumbers,
  requireFewTriangles,
  requireSize,
  requireSmallCollada
} from './mesh_limits.mjs'
import {baseName} from './robot_files.mjs'
import {loadScript} from './scripts.mjs'
import {readStl} from './stl.mjs'

const DEFAULT_COLOR = [0.7, 0.7, 0.7, 1]
const MAX_IMAGE_SIZE = 30e6 // bytes
const IMAGE_STARTS = [
  [[0x89, 0x50, 0x4e, 0x47], 'image/png'],
  [[0xff, 0xd8, 0xff], 'image/jpeg'],
  [[0x52, 0x49, 0x46, 0x46], 'image/webp'],
  [[0x42, 0x4d], 'image/bmp']
]

/** Return a material like those of the page of `dyn_ros view`. */
export function makeMaterial([red, green, blue, alpha = 1], options = {}) {
  const color = new Color().setRGB(red, green, blue, options.colorSpace ?? SRGBColorSpace)
  const transparent = alpha < 1
  return new MeshStandardMaterial({
    color,
    roughness: 0.8,
    metalness: 0.1,
    opacity: alpha,
    transparent,
    depthWrite: !transparent
  })
}

/** Reads the meshes of one robot; files that several links share are read once. */
export class MeshReader {
  /** `base` is the path of the description in `files`. */
  constructor(files, base) {
    this.files = files
    this.base = base
    this.read = new Map()
    this.count = 0 // triangles of all objects
    this.addresses = [] // of images, to be revoked
  }

  /** Return a new object of the mesh at a URI; throw a MeshError if it cannot be drawn. */
  async load(uri, color) {
    const found = this.files.find(uri, this.base)
    if (!found) {
      throw new MeshError('it is not among the dropped files; drop the folder that contains it')
    }
    if (!this.read.has(found.path)) this.read.set(found.path, this.surfaces(found))
    const surfaces = await this.read.get(found.path)
    const count = surfaces.reduce((sum, {positions}) => sum + positions.length / 9, 0)
    requireFewInAll(this.count + count)
    this.count += count
    const group = new Group()
    for (const surface of surfaces) group.add(meshOf(surface, color))
    return group
  }

  async surfaces({path, blob}) {
    const suffix = path.slice(path.lastIndexOf('.') + 1).toLowerCase()
    requireSize(suffix, blob.size)
    const bytes = new Uint8Array(await blob.arrayBuffer())
    if (suffix === 'stl') return [stlSurface(readStl(bytes))]
    requireFewNumbers(bytes)
    const formats = await loadScript('mesh_formats')
    const text = new TextDecoder().decode(bytes)
    const surfaces =
      suffix === 'obj'
        ? await this.objSurfaces(formats, text, path)
        : await this.colladaSurfaces(formats, text, path)
    const corners = surfaces.reduce((sum, surface) => sum + surface.positions.length / 3, 0)
    requireFewTriangles(corners / 3)
    if (!corners) throw new MeshError('it contains no triangles')
    return surfaces.map(toGeometry)
  }

  async colladaSurfaces(formats, text, path) {
    readOrFail(() => parseLeniently(text)) // DOMParser would report errors on the console
    const root = new DOMParser().parseFromString(text, 'text/xml').documentElement
    if (root.localName !== 'COLLADA') throw new MeshError('it is not COLLADA; export it again')
    requireSmallCollada(root)
    const surfaces = readOrFail(() => formats.readCollada(text))
    await this.loadImages(surfaces, path)
    return surfaces
  }

  async objSurfaces(formats, text, path) {
    const surfaces = readOrFail(() => formats.readObj(text))
    const library = /^mtllib\s+(.+)$/m.exec(text)?.[1].trim()
    const found = library && this.files.find(library, path)
    const materials = found && found.blob.size < 1e6 ? readMtl(await found.blob.text()) : new Map()
    for (const material of surfaces.flatMap(surface => surface.materials)) {
      Object.assign(material, {color: null}, materials.get(material.name))
    }
    await this.loadImages(surfaces, found?.path ?? path)
    return surfaces
  }

  /** Replace the paths of images by textures; only pixels of files that were dropped. */
  async loadImages(surfaces, path) {
    const textures = new Map()
    for (const material of surfaces.flatMap(surface => surface.materials)) {
      if (!material.image) continue
      if (!textures.has(material.image)) {
        textures.set(material.image, await this.loadTexture(material.image, path))
      }
      material.texture = textures.get(material.image)
    }
  }

  async loadTexture(uri, path) {
    const found = this.files.find(uri, path) ?? this.files.find(baseName(uri), path)
    if (!found || found.blob.size > MAX_IMAGE_SIZE) return null
    const start = new Uint8Array(await found.blob.slice(0, 4).arrayBuffer())
    const type = IMAGE_STARTS.find(([bytes]) => bytes.every((byte, k) => byte === start[k]))?.[1]
    if (!type) return null
    const image = new Image()
    image.src = URL.createObjectURL(new Blob([found.blob], {type}))
    this.addresses.push(image.src)
    try {
      await image.decode()
    } catch {
      return null
    }
    const texture = new Texture(image)
    texture.wrapS = texture.wrapT = RepeatWrapping
    texture.colorSpace = SRGBColorSpace
    texture.needsUpdate = true
    return texture
  }

  /** Release the images. */
  close() {
    this.addresses.forEach(address => URL.revokeObjectURL(address))
  }
}

function readOrFail(read) {
  try {
    return read()
  } catch {
    throw new MeshError('it is damaged; export it again')
  }
}

function stlSurface(positions) {
  return toGeometry({
    positions,
    normals: null,
    uvs: null,
    matrix: new Matrix4().toArray(),
    materials: [{start: 0, count: positions.length / 3, color: null}]
  })
}

function toGeometry(surface) {
  const geometry = new BufferGeometry()
  geometry.setAttribute('position', new BufferAttribute(surface.positions, 3))
  if (surface.normals) geometry.setAttribute('normal', new BufferAttribute(surface.normals, 3))
  else geometry.computeVertexNormals()
  if (surface.uvs) geometry.setAttribute('uv', new BufferAttribute(surface.uvs, 2))
  surface.materials.forEach(({start, count}, k) => geometry.addGroup(start, count, k))
  geometry.computeBoundingSphere()
  if (!Number.isFinite(geometry.boundingSphere.radius)) {
    throw new MeshError('it has numbers that are not finite; export it again')
  }
  return {...surface, geometry}
}

function meshOf({geometry, materials, matrix}, color) {
  const mesh = new Mesh(
    geometry,
    materials.map(material => surfaceMaterial(material, color))
  )
  mesh.matrix.fromArray(matrix)
  mesh.matrixAutoUpdate = false
  return mesh
}

function surfaceMaterial({color, opacity = 1, texture, isSrgb}, fallback) {
  if (!color) return Object.assign(makeMaterial(fallback ?? DEFAULT_COLOR), {side: DoubleSide})
  const material = makeMaterial([...color, opacity], isSrgb ? {} : {colorSpace: ''})
  material.side = DoubleSide
  if (texture) {
    material.map = texture
    material.color.set(1, 1, 1)
  }
  return material
}

/** Return color, opacity and image of the materials of an MTL file, by name. */
function readMtl(text) {
  const materials = new Map()
  let material = {}
  for (const line of text.split('\n')) {
    const [key, ...words] = line.trim().split(/\s+/)
    if (key === 'newmtl') materials.set(words.join(' '), (material = {isSrgb: true}))
    if (key === 'Kd') material.color = words.slice(0, 3).map(Number)
    if (key === 'd') material.opacity = Number(words[0])
    if (key === 'map_Kd') material.image = words.at(-1)
  }
  return materials
}
