// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Payload and gravity.

import {element, newId, numberText, select} from './dom.mjs'
import {clamp} from './geometry.mjs'
import {EARTH} from './state.mjs'

const MAX_PAYLOAD = 5 // kg, of the slider; more can be typed
const MAX_GRAVITY = 1000 // m/s2
const MAX_TYPED = 1e4 // kg
const DIRECTIONS = [
  ['0,0,-9.81', 'Earth, down (−z)'],
  ['0,0,9.81', 'Robot on a ceiling (+z)'],
  ['-9.81,0,0', 'Robot on a wall (−x)'],
  ['0,-9.81,0', 'Robot on a wall (−y)'],
  ['0,0,-3.71', 'Mars'],
  ['0,0,-1.62', 'Moon'],
  ['0,0,0', 'none']
]

/** The tab Load. */
export class LoadPanel {
  constructor(page) {
    this.page = page
    const {state} = page
    this.frame = select('Carried by', [], '', carrier => state.set({carrier}))
    const id = newId()
    this.mass = element('input', {
      type: 'range',
      id,
      min: 0,
      max: MAX_PAYLOAD,
      step: 0.1,
      oninput: () => state.set({payload: Number(this.mass.value)})
    })
    this.number = element('input', {
      type: 'number',
      min: 0,
      max: MAX_TYPED,
      step: 'any',
      'aria-label': 'Payload [kg], number',
      onchange: () => {
        const {value} = this.number
        if (value !== '') state.set({payload: clamp(Number(value), 0, MAX_TYPED)})
        this.number.value = state.values.payload
      },
      onblur: () => (this.number.value = state.values.payload)
    })
    const slider = element(
      'div',
      {class: 'slider'},
      element('label', {for: id, text: 'Payload [kg]'}),
      this.number,
      this.mass,
      element(
        'span',
        {class: 'ends', 'aria-hidden': true},
        element('span', {text: '0'}),
        element('span', {text: String(MAX_PAYLOAD)})
      )
    )
    this.directions = select(
      'Gravity',
      [...DIRECTIONS, ['', 'custom']],
      '',
      text => text && state.set({gravity: text.split(',').map(Number)})
    )
    this.components = ['x', 'y', 'z'].map((name, k) =>
      element('input', {
        type: 'number',
        step: 'any',
        'aria-label': `Gravity along ${name} [m/s²]`,
        onchange: () => this.setComponent(k),
        onblur: () => this.showComponent(k)
      })
    )
    const vector = element(
      'div',
      {class: 'vector', role: 'group', 'aria-label': 'Gravity [m/s²]'},
      this.components.map((input, k) => element('label', {}, 'xyz'[k], input))
    )
    this.arrow = element('p', {class: 'soft', text: 'The arrow at the center of mass shows it.'})
    this.total = element('p', {class: 'soft'})
    this.node = element(
      'div',
      {},
      element('h2', {text: 'Payload'}),
      slider,
      this.frame,
      element('p', {
        class: 'soft',
        text:
          'A titanium ball; its surface touches the frame’s origin, ' +
          'its center is on the z axis.'
      }),
      element('h2', {text: 'Gravity [m/s²]'}),
      this.directions,
      vector,
      this.arrow,
      this.total
    )
  }

  setComponent(k) {
    const gravity = [...this.page.state.values.gravity]
    const {value} = this.components[k]
    if (value !== '' && Math.abs(value) <= MAX_GRAVITY) gravity[k] = Number(value)
    this.page.state.set({gravity})
    this.showComponent(k)
  }

  showComponent(k) {
    this.components[k].value = this.page.state.values.gravity[k]
  }

  showRobot(robot) {
    const moving = robot.links.filter(link => link.joint >= 0).map(link => link.name)
    this.frame.fill(moving, this.page.carrier)
    this.update()
  }

  update() {
    const {payload, gravity} = this.page.state.values
    this.frame.input.value = this.page.carrier
    this.mass.value = payload
    if (document.activeElement !== this.number) this.number.value = payload
    const text = gravity.join(',')
    this.arrow.hidden = text === EARTH.join(',')
    this.directions.input.value = DIRECTIONS.some(([key]) => key === text) ? text : ''
    this.components.forEach((input, k) => {
      if (document.activeElement !== input) this.showComponent(k)
    })
    const mass = this.page.robot.model.total_mass()
    this.total.textContent = `Moving links and payload: ${numberText(mass, 2)} kg`
  }
}
