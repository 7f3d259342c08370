// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// OBJ and COLLADA files as plain surfaces; a script of its own, which only these files need.
//
// A surface has positions, normals and uvs (or null), a matrix (16 numbers, by columns) and
// materials with the ranges of corners they cover: {start, count, color, opacity, image}.

import {Texture} from 'three'
import {OBJLoader} from 'three/examples/jsm/loaders/OBJLoader.js'
import {ColladaComposer} from 'three/examples/jsm/loaders/collada/ColladaComposer.js'
import {ColladaParser} from 'three/examples/jsm/loaders/collada/ColladaParser.js'

function readObj(text) {
  return surfacesOf(new OBJLoader().parse(text))
}

function readCollada(text) {
  const {library, asset, collada} = new ColladaParser().parse(text)
  const textures = {load: url => Object.assign(new Texture(), {userData: {image: url}})}
  const {scene} = new ColladaComposer(library, collada, textures, textures).compose()
  scene.scale.multiplyScalar(asset.unit) // as in RViz, the up axis has no effect
  return surfacesOf(scene)
}

function surfacesOf(root) {
  root.updateMatrixWorld(true)
  const surfaces = []
  root.traverse(object => {
    if (object.isMesh) surfaces.push(surfaceOf(object))
  })
  return surfaces
}

function surfaceOf(mesh) {
  const geometry = mesh.geometry.index ? mesh.geometry.toNonIndexed() : mesh.geometry
  const {position, normal, uv} = geometry.attributes
  const all = {start: 0, count: position.count, materialIndex: 0}
  const groups = geometry.groups.length ? geometry.groups : [all]
  const materials = Array.isArray(mesh.material) ? mesh.material : [mesh.material]
  return {
    positions: Float32Array.from(position.array),
    normals: normal ? Float32Array.from(normal.array) : null,
    uvs: uv ? Float32Array.from(uv.array) : null,
    matrix: mesh.matrixWorld.toArray(),
    materials: groups.map(({start, count, materialIndex}) => {
      const material = materials[materialIndex] ?? materials[0]
      return {
        start,
        count,
        name: material.name,
        color: material.color?.toArray() ?? [0.7, 0.7, 0.7],
        opacity: material.opacity,
        image: material.map?.userData.image ?? null
      }
    })
  }
}

globalThis.dynRosRegister('mesh_formats', {readObj, readCollada})
