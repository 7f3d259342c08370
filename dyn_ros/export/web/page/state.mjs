// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// What the page shows: everything that its address contains.

export const REFERENCES = ['WORLD', 'LOCAL', 'LOCAL_WORLD_ALIGNED']
export const SWITCHES = ['torques', 'com', 'bodies', 'frames', 'axes', 'ellipsoid', 'transparent']
export const SHAPES = ['visual', 'collision', 'both']
export const INERTIAS = ['none', 'ellipsoids', 'boxes']
export const SOURCES = ['gravity', 'nle', 'motors']
export const ROOTS = ['fixed', 'floating', 'planar']
export const THEMES = ['auto', 'light', 'dark']
export const EARTH = [0, 0, -9.81]

/** The state of a page that has just been opened. */
export const INITIAL = Object.freeze({
  robot: '', // name of a robot of the page; '' for files of the user
  file: '', // name of the user's file
  root: '', // '' to choose
  q: null, // null for the posture that the page chooses
  v: null,
  slider: 'q', // what the sliders set: q or v
  degrees: false,
  shapes: 'visual',
  inertia: 'none',
  shows: ['torques', 'com'],
  source: '', // '' to choose
  frame: '', // '' for the tip
  reference: 'LOCAL_WORLD_ALIGNED',
  payload: 0, // kg
  carrier: '', // frame of the payload; '' for the tip
  gravity: EARTH,
  motors: 'hold',
  theme: 'auto',
  camera: null,
  embed: ''
})

/** The state, with listeners for its changes. */
export class State {
  constructor(values) {
    this.values = {...INITIAL, ...values}
    this.listeners = []
  }

  /** Change values, and tell the listeners which. */
  set(changes) {
    const names = Object.keys(changes).filter(name => changes[name] !== this.values[name])
    Object.assign(this.values, changes)
    if (names.length) for (const listener of this.listeners) listener(new Set(names))
  }

  /** Call a function with the names of changed values. */
  onChange(listener) {
    this.listeners.push(listener)
  }

  /** Switch something that the picture shows. */
  toggle(name, isOn) {
    const others = this.values.shows.filter(other => other !== name)
    this.set({shows: isOn ? [...others, name] : others})
  }
}
