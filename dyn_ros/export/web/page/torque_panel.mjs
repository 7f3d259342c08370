// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The torque of each joint as a bar with its limit.

import {choice, element, numberText} from './dom.mjs'
import {UNLIMITED, loadColor, loadOf} from './markers.mjs'

export const SOURCE_TEXTS = {
  gravity: 'Torques g(q) that hold the robot at rest, with its payload.',
  nle: 'Torques of gravity, Coriolis and centrifugal forces: nle(q, v).'
}
const MOTOR_TEXTS = {
  hold: 'Torques of the motors, which hold the posture.',
  float: 'Torques of the motors, which compensate gravity.',
  off: 'The motors are off.'
}

/** The tab Torques. */
export class TorquePanel {
  constructor(page) {
    this.page = page
    this.source = choice(
      'Torque',
      [
        ['gravity', 'gravity'],
        ['nle', 'nle'],
        ['motors', 'motors']
      ],
      'gravity',
      source => page.state.set({source})
    )
    this.text = element('p', {class: 'soft'})
    this.bars = element('div', {class: 'bars', role: 'list', 'aria-label': 'Torques'})
    this.largest = element('p', {class: 'visually-hidden', 'aria-live': 'polite'})
    this.node = element('div', {}, this.source, this.text, this.bars, this.largest)
  }

  showRobot(robot) {
    const {model} = robot
    const units = new Map(
      robot.coordinates.map(coordinate => [coordinate.idx_v, coordinate.isPrismatic ? 'N' : 'N m'])
    )
    const singles = new Set(robot.singles.map(({idx_v}) => idx_v))
    this.rows = model.velocity_names.map((name, k) => {
      const linear = robot.floating >= 0 && k < 3
      const row = this.row(name, units.get(k) ?? (linear ? 'N' : 'N m'), model.effort_limit[k])
      return {...row, isBase: !singles.has(k)}
    })
    this.bars.replaceChildren(...this.rows.map(row => row.node))
  }

  row(name, unit, limit) {
    const hasLimit = Number.isFinite(limit) && limit > 0
    const fill = element('i', {})
    const value = element('output', {})
    const share = element('span', {class: 'share'})
    const node = element(
      'div',
      {
        class: 'bar',
        role: 'listitem',
        title: hasLimit
          ? `${name}: limit ${limit} ${unit}`
          : `${name} has no limit; a full bar is ${UNLIMITED} ${unit}`
      },
      element('span', {class: 'name', text: name}),
      value,
      element('span', {class: 'unit', text: unit}),
      share,
      element('span', {class: 'track', 'aria-hidden': true}, fill)
    )
    node.querySelector('.track').classList.toggle('unlimited', !hasLimit)
    return {node, fill, value, share, limit, hasLimit, name, unit}
  }

  /** Show torques (nv). */
  update(tau) {
    const source = this.page.source
    this.source.choose(source)
    this.text.textContent = SOURCE_TEXTS[source] ?? this.motorText()
    this.rows.forEach(({node, fill, value, share, limit, hasLimit, isBase}, k) => {
      node.hidden = isBase && source === 'motors'
      const load = loadOf(tau[k], limit)
      const width = 50 * Math.min(Math.abs(load), 1)
      fill.style.left = `${load < 0 ? 50 - width : 50}%`
      fill.style.width = `${width}%`
      fill.style.background = loadColor(load)
      value.value = numberText(tau[k])
      share.textContent = hasLimit
        ? `${Math.round(100 * Math.abs(load))} % of ${limit}`
        : 'no limit'
      share.classList.toggle('over', hasLimit && Math.abs(load) > 1)
    })
  }

  motorText() {
    const {motors} = this.page.state.values
    const text = MOTOR_TEXTS[motors]
    const isStanding = motors === 'hold' && this.page.feet.length > 0
    return isStanding ? text.replace('.', ' on its feet.') : text
  }

  /** Say to a screen reader which torque is closest to its limit. */
  announce(tau) {
    this.largest.textContent = this.largestText(tau)
  }

  largestText(tau) {
    const torques = this.rows
      .map((row, k) => ({...row, torque: tau[k], load: Math.abs(tau[k] / row.limit)}))
      .filter(({node}) => !node.hidden)
    const limited = torques.filter(row => row.hasLimit)
    if (limited.length) {
      const {name, torque, unit, load} = largestBy(limited, row => row.load)
      const share = Math.round(100 * load)
      return `Closest to its limit: ${name}, ${numberText(torque)} ${unit} (${share} %)`
    }
    if (!torques.length) return ''
    const {name, torque, unit} = largestBy(torques, row => Math.abs(row.torque))
    return `Largest torque: ${name}, ${numberText(torque)} ${unit}`
  }
}

const largestBy = (rows, size) => rows.reduce((a, b) => (size(b) > size(a) ? b : a))
