// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Placement, velocity, Jacobian and manipulability of a frame.

import {checkBox, element, numberText, select} from './dom.mjs'
import {symmetricEigen} from './geometry.mjs'
import {HeatMap} from './heat_map.mjs'
import {REFERENCES} from './state.mjs'

const ROWS = ['vx', 'vy', 'vz', 'ωx', 'ωy', 'ωz']

/** Return the lists from which a frame and the axes of its velocity are chosen. */
export function frameSelects(state) {
  const frame = select('Frame', [], '', frame => state.set({frame}))
  const {reference: chosen} = state.values
  const reference = select('Axes', REFERENCES, chosen, reference => state.set({reference}))
  return {frame, reference}
}

/** Return the names of frames as options: links, and joints that have another name than a link. */
export function frameOptions(frames) {
  const links = frames.filter(frame => frame.is_link).map(({name}) => name)
  const joints = frames.map(({name}) => name).filter(name => !links.includes(name))
  const groups = [
    {label: 'Links', options: links},
    {label: 'Joints', options: joints}
  ]
  return groups.filter(({options}) => options.length)
}

/** The tab Frame. */
export class FramePanel {
  constructor(page) {
    this.page = page
    const {state} = page
    Object.assign(this, frameSelects(state)) // frame, reference
    this.ellipsoid = checkBox('Velocity ellipsoid', false, isOn => state.toggle('ellipsoid', isOn))
    this.facts = element('dl', {class: 'facts'})
    this.values = [
      'Position',
      'Roll, pitch, yaw',
      'Linear velocity',
      'Angular velocity',
      'Manipulability',
      'Singular values'
    ].map(name => {
      const value = element('dd', {})
      this.facts.append(element('dt', {text: name}), value)
      return value
    })
    this.map = new HeatMap('Jacobian', (i, j) => this.unitOf(i, j), {hasRowNames: true})
    this.node = element(
      'div',
      {},
      this.frame,
      this.reference,
      this.ellipsoid,
      this.facts,
      element('h2', {text: 'Jacobian J(q), 6 × nv'}),
      this.map.node,
      element('p', {
        class: 'soft',
        text:
          'Manipulability is √det(J J′) of the linear rows for the ' +
          'position, and of all rows, with m and rad (Yoshikawa, 1985). It and the singular ' +
          'values are those at the frame’s origin, for any axes.'
      })
    )
  }

  showRobot(robot) {
    this.frame.fill(frameOptions(robot.model.frames), this.page.frame)
    this.isLinear = robot.model.velocity_names.map((_, k) => robot.floating >= 0 && k < 3)
    for (const {idx_v, isPrismatic} of robot.coordinates) this.isLinear[idx_v] = isPrismatic
  }

  unitOf(i, j) {
    const isLinear = this.isLinear[j]
    return i < 3 ? (isLinear ? '' : 'm/rad') : isLinear ? 'rad/m' : ''
  }

  update({oMf}) {
    const {robot, q, v, state} = this.page
    const {model} = robot
    this.frame.input.value = this.page.frame
    this.reference.input.value = state.values.reference
    this.ellipsoid.input.checked = state.values.shows.includes('ellipsoid')
    const k = this.page.frameIndex
    const J = this.page.jacobian(q, k)
    const velocity = Array.from({length: 6}, (_, i) =>
      v.reduce((sum, x, j) => sum + J[6 * j + i] * x, 0)
    )
    const X = oMf.subarray(16 * k, 16 * k + 12)
    const {position, all, singular} = manipulability(
      this.page.jacobian(q, k, REFERENCES.indexOf('LOCAL_WORLD_ALIGNED')),
      model.nv
    )
    const point =
      state.values.reference === 'WORLD' ? ' of the body’s point at the world’s origin' : ''
    const texts = [
      `${list([X[3], X[7], X[11]])} m`,
      `${list(rollPitchYaw(X))} rad`,
      `${list(velocity.slice(0, 3))} m/s${point}`,
      `${list(velocity.slice(3))} rad/s`,
      `${numberText(position, 4)} (position), ${numberText(all, 4)} (all)`,
      list(singular)
    ]
    texts.forEach((text, n) => {
      this.values[n].textContent = text
    })
    this.map.show(6, model.nv, (i, j) => J[6 * j + i], ROWS, model.velocity_names)
  }
}

const list = numbers => Array.from(numbers, x => numberText(x, 3)).join(', ')

function rollPitchYaw(X) {
  const pitch = Math.atan2(-X[8], Math.hypot(X[0], X[4]))
  return [Math.atan2(X[9], X[10]), pitch, Math.atan2(X[4], X[0])]
}

/** Return the manipulability of the position, of the pose, and the singular values of J (6, nv). */
export function manipulability(J, nv) {
  const products = n => {
    const A = new Float64Array(n * n)
    for (let k = 0; k < nv; k++) {
      for (let i = 0; i < n; i++)
        for (let j = 0; j < n; j++) A[n * i + j] += J[6 * k + i] * J[6 * k + j]
    }
    return symmetricEigen(A, n).values.map(value => Math.sqrt(Math.max(value, 0)))
  }
  const product = values => values.reduce((a, b) => a * b, 1)
  const singular = products(6).sort((a, b) => b - a)
  return {position: product(products(3)), all: product(singular), singular}
}
