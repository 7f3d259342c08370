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
const VECTORS = {q: null, v: null, gravity: 3, camera: 6} // with their lengths

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
  for (const [name, length] of Object.entries(VECTORS)) {
    const vector = readVector(parameters.get(name), length)
    if (vector) values[name] = vector
  }
  if (parameters.get('degrees') === '1') values.degrees = true
  const payload = Number(parameters.get('payload'))
  if (payload > 0 && payload <= 1e4) values.payload = payload
  if (parameters.has('shows')) {
    values.shows = parameters
      .get('shows')
      .split(',')
      .filter(name => SWITCHES.includes(name))
  }
  return values
}

function readVector(text, length) {
  if (!text) return null
  const numbers = text.split(',').slice(0, MAX_NUMBERS).map(Number)
  const isValid = numbers.every(Number.isFinite) && (!length || numbers.length === length)
  return isValid ? numbers : null
}
