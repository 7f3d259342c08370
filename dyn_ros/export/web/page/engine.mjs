// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The WebAssembly modules: one in the page, others that are loaded when they are needed.

import {load} from '../javascript/dyn_ros.mjs'
import packed from './engine_module.mjs'
import {loadScript, unpack} from './scripts.mjs'

const libraries = new Map()

/** Return the library of the functions that every robot needs. */
export async function loadEngine() {
  return load(await unpack(packed))
}

async function modelOf(name, bytes) {
  if (!libraries.has(name)) {
    libraries.set(name, (async () => load(await unpack(await loadScript(name))))())
  }
  return (await libraries.get(name)).model(bytes)
}

/** Return a model with the function contact_dynamics. */
export const contactsModel = bytes => modelOf('contacts', bytes)

/** Return a model with the function vereshchagin. */
export const constraintsModel = bytes => modelOf('constraints', bytes)
