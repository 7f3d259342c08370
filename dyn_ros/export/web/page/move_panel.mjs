// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Sliders of the joints.

import {button, checkBox, choice, element, newId, numberText, select} from './dom.mjs'

const DEGREES = 180 / Math.PI
const MANY = 12 // joints; more can be filtered
const UNLIMITED_SPEED = 3 // rad/s, m/s; ends of sliders without a limit

/** The tab Move. */
export class MovePanel {
  constructor(page) {
    this.page = page
    const {state} = page
    const {values} = state
    this.root = select(
      'Base',
      [
        ['fixed', 'fixed'],
        ['floating', 'floating'],
        ['planar', 'planar']
      ],
      values.root || 'fixed',
      root => page.setRoot(root)
    )
    this.motors = select(
      'Motors',
      [
        ['hold', 'hold the posture'],
        ['float', 'compensate gravity'],
        ['off', 'off']
      ],
      values.motors,
      motors => page.setMotors(motors)
    )
    this.kind = choice(
      'Sliders',
      [
        ['q', 'positions'],
        ['v', 'velocities']
      ],
      values.slider,
      slider => state.set({slider})
    )
    this.degrees = checkBox('degrees', values.degrees, degrees => state.set({degrees}))
    this.filter = element('input', {
      type: 'search',
      placeholder: 'Filter joints',
      'aria-label': 'Filter joints',
      oninput: () => this.applyFilter()
    })
    this.stillness = element('p', {
      class: 'soft',
      text: 'The robot stays still; nle, energies and the frame’s velocity show the effect of v.'
    })
    this.list = element('div', {class: 'sliders'})
    this.noMatch = element('p', {class: 'soft', text: 'No joint matches.', role: 'status'})
    const buttons = element(
      'div',
      {class: 'buttons'},
      button('Reset pose', () => page.resetPose()),
      button('Zero', () => page.resetPose(true))
    )
    this.hint = element('p', {class: 'soft'})
    this.node = element(
      'div',
      {},
      this.hint,
      buttons,
      this.root,
      this.motors,
      this.kind,
      this.stillness,
      element('div', {class: 'row'}, this.filter, this.degrees),
      this.list,
      this.noMatch
    )
  }

  /** Make the sliders of a robot. */
  showRobot(robot) {
    this.robot = robot
    const isOwn = robot.root === 'fixed' && robot.model.joints.some(joint => joint.nv > 1)
    this.root.hidden = isOwn
    this.root.input.value = robot.root
    this.filter.hidden = robot.coordinates.length <= MANY
    this.filter.value = ''
    this.hint.textContent = this.page.feet.length
      ? 'Drag a link to pull the robot; it stands on its feet.'
      : 'Drag a link to pull the robot.'
    this.build()
  }

  build() {
    const {slider, degrees, motors} = this.page.state.values
    this.kind.choose(slider)
    this.stillness.hidden = slider !== 'v'
    this.degrees.input.checked = degrees
    this.motors.input.value = motors
    this.rows = this.robot.coordinates.map(coordinate => this.row(coordinate))
    this.list.replaceChildren(...this.rows.map(row => row.node))
    if (!this.rows.length) this.list.append(element('p', {class: 'soft', text: 'No joint moves.'}))
    this.applyFilter()
    this.update()
  }

  row(coordinate) {
    const {slider, degrees} = this.page.state.values
    const isVelocity = slider === 'v'
    const scale = degrees && coordinate.isAngle ? DEGREES : 1
    const unit = `${coordinate.isAngle ? (degrees ? '°' : 'rad') : 'm'}${isVelocity ? '/s' : ''}`
    const [lower, upper] = isVelocity ? velocityRange(coordinate) : coordinate.range
    const id = newId()
    const set = value => {
      const x = Number(value) / scale
      if (Number.isFinite(x)) this.page.setCoordinate(coordinate, x, isVelocity)
    }
    const common = {min: round(lower * scale), max: round(upper * scale)}
    const range = element('input', {
      ...common,
      type: 'range',
      id,
      step: scale !== 1 ? 0.5 : upper - lower < 1 ? 0.001 : 0.01,
      'aria-label': `${coordinate.name} [${unit}]`,
      oninput: () => set(range.value)
    })
    const number = element('input', {
      ...common,
      type: 'number',
      step: 'any',
      'aria-label': `${coordinate.name} [${unit}], number`,
      onchange: () => {
        const {value} = number
        if (value !== '') set(Math.min(Math.max(value, lower * scale), upper * scale))
        this.showNumber(row)
      },
      onblur: () => this.showNumber(row)
    })
    const digits = scale === 1 ? (upper - lower < 1 ? 3 : 1) : 0
    const ends = element(
      'span',
      {class: 'ends', 'aria-hidden': true},
      element('span', {text: numberText(lower * scale, digits)}),
      element('span', {
        class: 'unit',
        text: coordinate.isLimited || isVelocity ? unit : `${unit}, no limit`
      }),
      element('span', {text: numberText(upper * scale, digits)})
    )
    const name = element('label', {for: id, text: coordinate.name, title: coordinate.name})
    const node = element('div', {class: 'slider'}, name, number, range, ends)
    const row = {coordinate, node, range, number, scale, isVelocity}
    return row
  }

  applyFilter() {
    const text = this.filter.value.toLowerCase()
    for (const {node, coordinate} of this.rows) {
      node.hidden = !coordinate.name.toLowerCase().includes(text)
    }
    this.noMatch.hidden = !this.rows.length || this.rows.some(({node}) => !node.hidden)
  }

  /** Show the state. */
  update() {
    for (const row of this.rows) {
      const {range, number, scale} = row
      const x = this.valueOf(row)
      if (document.activeElement !== range || Math.abs(range.value - x) > 0.02 * scale)
        range.value = x
      if (document.activeElement !== number) this.showNumber(row)
    }
  }

  /** Return the position or the velocity of a row, in its unit. */
  valueOf({coordinate, scale, isVelocity}) {
    const {q, v} = this.page
    return scale * (isVelocity ? v[coordinate.idx_v] : q[coordinate.idx_q])
  }

  showNumber(row) {
    row.number.value = Number(this.valueOf(row).toFixed(row.scale === 1 ? 4 : 2))
  }
}

const round = x => Number(x.toFixed(4))

function velocityRange({velocity}) {
  const most = Number.isFinite(velocity) && velocity > 0 ? velocity : UNLIMITED_SPEED
  return [-most, most]
}
