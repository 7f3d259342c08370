// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The state in the address of the page, behind #.

import {
  EARTH,
  INERTIAS,
  INITIAL,
  REFERENCES,
  ROOTS,
  SHAPES,
  SOURCES,
  SWITCHES,
  THEMES
} from './state.mjs'
import {MOTORS} from './simulation.mjs'

export const EMBEDS = ['frames', 'nle', 'constraint']
const MAX_NUMBERS = 1000
const CHOICES = {
  shapes: SHAPES,
  inertia: INERTIAS,
  source: SOURCES,
  root: ROOTS,
  reference: REFERENCES,
  motors: MOTORS,
  theme: THEMES,
  slider: ['q', 'v'],
  embed: EMBEDS
}
const TEXTS = ['robot', 'file', 'frame', 'carrier']
const VECTORS = {
  q: {most: 1e6},
  v: {most: 1e4},
  gravity: {length: 3, most: 1e3},
  camera: {length: 6, most: 1e6}
}

/** Return the text behind # for a state; values that a new page has are left out. */
export function writeAddress(values) {
  const parameters = new URLSearchParams()
  const put = (name, value) => parameters.set(name, value)
  for (const name of [...TEXTS, ...Object.keys(CHOICES)]) {
    if (values[name] !== INITIAL[name]) put(name, values[name])
  }
  for (const name of Object.keys(VECTORS)) {
    const vector = values[name]
    if (vector && !isDefault(name, vector)) put(name, Array.from(vector, shortNumber).join(','))
  }
  if (values.degrees) put('degrees', '1')
  if (values.payload) put('payload', shortNumber(values.payload))
  if (values.shows.slice().sort().join() !== INITIAL.shows.slice().sort().join()) {
    put('shows', values.shows.join(','))
  }
  return parameters.toString().replaceAll('%2C', ',')
}

const isDefault = (name, vector) =>
  name === 'gravity'
    ? vector.every((x, k) => x === EARTH[k])
    : name === 'v' && vector.every(x => x === 0)

const shortNumber = x => String(Number(x.toFixed(4)))

/** Return the values in the text behind #; what is not valid is ignored. */
export function readAddress(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''))
  const values = {}
  for (const name of TEXTS) if (parameters.has(name)) values[name] = parameters.get(name)
  for (const [name, choices] of Object.entries(CHOICES)) {
    if (choices.includes(parameters.get(name))) values[name] = parameters.get(name)
  }
  for (const [name, limits] of Object.entries(VECTORS)) {
    const vector = readVector(parameters.get(name), limits)
    if (vector) values[name] = vector
  }
  if (values.camera && !seesTarget(values.camera)) delete values.camera
  if (parameters.get('degrees') === '1') values.degrees = true
  const payload = Number(parameters.get('payload'))
  if (payload > 0 && payload <= 1e4) values.payload = payload
  if (parameters.has('shows')) {
    const names = new Set(parameters.get('shows').split(','))
    values.shows = SWITCHES.filter(name => names.has(name))
  }
  return values
}

/** Return true if a camera is not at its target. */
const seesTarget = ([x, y, z, ...target]) =>
  Math.hypot(x - target[0], y - target[1], z - target[2]) > 1e-6

function readVector(text, {length, most}) {
  if (!text) return null
  const numbers = text.split(',').slice(0, MAX_NUMBERS).map(Number)
  const isValid = numbers.every(x => Math.abs(x) <= most)
  return isValid && (!length || numbers.length === length) ? numbers : null
}
