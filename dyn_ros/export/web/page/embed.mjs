// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Small pages beside formulas of the documentation.

import {checkBox, choice, element, numberText} from './dom.mjs'
import {frameOptions, frameSelects} from './frame_panel.mjs'
import {colorOf} from './glyphs.mjs'
import {add, rotate} from './geometry.mjs'
import {COLORS, loadColor, loadOf} from './markers.mjs'
import {constraintsModel} from './engine.mjs'
import {REFERENCES} from './state.mjs'

const MANY = 8 // sliders; more would not fit
const AXES = ['#e0332f', '#2f9e44', '#2f6fe0']
const VELOCITY_COLORS = [COLORS.torque, COLORS.inertia] // linear and angular
const CONSTRAINTS = [
  ['z', 'height', [2]],
  ['xyz', 'position', [0, 1, 2]],
  ['pose', 'pose', [0, 1, 2, 3, 4, 5]]
]

/** The panel of an embedded page; its kind is `frames`, `nle` or `constraint`. */
export class Embed {
  constructor(page, kind, node) {
    this.page = page
    this.content = new {frames: Frames, nle: NonlinearEffects, constraint: Constraint}[kind](page)
    node.append(this.content.node)
    page.onRobot = () => this.content.showRobot()
    page.drawMore = markers => {
      this.content.compute?.()
      this.content.draw?.(markers)
    }
    page.state.values.shows = []
    page.picture.controls.scrolls = false
    const drawState = page.drawState.bind(page)
    page.drawState = () => {
      drawState()
      this.content.update()
    }
  }
}

/** Sliders of positions or velocities of the first joints. */
class Sliders {
  constructor(page, isVelocity) {
    Object.assign(this, {page, isVelocity})
    this.node = element('div', {class: 'sliders'})
  }

  showRobot() {
    const {page, isVelocity} = this
    this.rows = page.robot.coordinates.slice(0, MANY).map(coordinate => {
      const most = Number.isFinite(coordinate.velocity) ? coordinate.velocity : 2
      const [min, max] = isVelocity ? [-most, most] : coordinate.range
      const letter = isVelocity ? 'v' : 'q'
      const value = element('output', {})
      const input = element('input', {
        type: 'range',
        min,
        max,
        step: 0.01,
        'aria-label': `${letter} of ${coordinate.name}`,
        oninput: () => page.setCoordinate(coordinate, Number(input.value), isVelocity)
      })
      const node = element(
        'div',
        {class: 'mini'},
        element('span', {class: 'name', text: coordinate.name, title: coordinate.name}),
        input,
        value
      )
      return {coordinate, input, value, node}
    })
    this.node.replaceChildren(...this.rows.map(row => row.node))
  }

  update() {
    const {q, v} = this.page
    for (const {coordinate, input, value} of this.rows ?? []) {
      const x = this.isVelocity ? v[coordinate.idx_v] : q[coordinate.idx_q]
      input.value = x
      value.value = numberText(x)
    }
  }
}

/** The velocity and the Jacobian of a frame in the axes of a reference frame. */
class Frames {
  constructor(page) {
    this.page = page
    const {state} = page
    Object.assign(this, frameSelects(state)) // frame, reference
    this.sliders = new Sliders(page, false)
    this.speeds = new Sliders(page, true)
    this.table = element('table', {class: 'numbers'})
    this.text = element('p', {class: 'soft'})
    const legend = element(
      'p',
      {class: 'key'},
      ['linear velocity', 'angular velocity'].map((text, k) => {
        const swatch = element('i', {class: 'swatch', 'aria-hidden': true})
        swatch.style.background = VELOCITY_COLORS[k]
        return element('span', {}, swatch, text)
      })
    )
    this.node = element(
      'div',
      {},
      this.frame,
      this.reference,
      this.text,
      legend,
      element('div', {class: 'wide', tabindex: 0}, this.table),
      element('h2', {text: 'Velocities v'}),
      this.speeds.node,
      element('h2', {text: 'Positions q'}),
      this.sliders.node
    )
  }

  showRobot() {
    const {robot} = this.page
    const moving = robot.model.frames.filter(frame => frame.joint >= 0)
    this.frame.fill(frameOptions(moving), this.page.frame)
    this.sliders.showRobot()
    this.speeds.showRobot()
    if (!this.page.state.values.v && robot.singles.length) {
      robot.singles.slice(0, 3).forEach(({idx_v}, k) => {
        this.page.v[idx_v] = [0.5, 0.4, 0][k]
      })
    }
  }

  /** Return the velocity (6) in the chosen reference frame. */
  velocity(J) {
    return Array.from({length: 6}, (_, i) =>
      this.page.v.reduce((sum, x, k) => sum + J[6 * k + i] * x, 0)
    )
  }

  update() {
    const {page} = this
    const {reference} = page.state.values
    this.frame.input.value = page.frame
    this.reference.input.value = reference
    this.sliders.update()
    this.speeds.update()
    this.text.textContent = {
      WORLD:
        'Axes of the world; the velocity of the point of the link that is at the world’s origin.',
      LOCAL: 'Axes of the frame; the velocity of the frame’s origin.',
      LOCAL_WORLD_ALIGNED: 'Axes of the world; the velocity of the frame’s origin.'
    }[reference]
    const J = page.jacobian(page.q, page.frameIndex)
    const velocity = this.velocity(J)
    const names = ['vx', 'vy', 'vz', 'ωx', 'ωy', 'ωz']
    const count = Math.min(page.robot.model.nv, MANY)
    const head = element(
      'tr',
      {},
      element('th', {text: ''}),
      element('th', {text: 'J v'}),
      Array.from({length: count}, (_, k) =>
        element('th', {
          text: `J${k + 1}`,
          title: page.robot.model.velocity_names[k]
        })
      )
    )
    this.table.replaceChildren(
      head,
      ...names.map((name, i) =>
        element(
          'tr',
          {},
          element('th', {scope: 'row', text: name}),
          element('td', {class: 'main', text: numberText(velocity[i])}),
          Array.from({length: count}, (_, k) => element('td', {text: numberText(J[6 * k + i])}))
        )
      )
    )
  }

  draw(markers) {
    const {page} = this
    const {reference} = page.state.values
    const k = this.page.frameIndex
    const {oMf} = page.terms
    const velocity = this.velocity(page.jacobian(page.q, k))
    const isLocal = reference === 'LOCAL'
    const inWorld = vector => (isLocal ? rotate(oMf, k, vector) : vector)
    const origin =
      reference === 'WORLD' ? [0, 0, 0] : [oMf[16 * k + 3], oMf[16 * k + 7], oMf[16 * k + 11]]
    const scale = 0.5 * markers.reach
    if (reference === 'WORLD') markers.frames([k])
    axesOf(markers, origin, isLocal ? oMf : null, k)
    const [linear, angular] = [velocity.slice(0, 3), velocity.slice(3)].map(inWorld)
    markers.arrow(
      origin,
      linear.map(x => scale * x),
      colorOf(VELOCITY_COLORS[0]),
      0.016
    )
    const turn = angular.map(x => 0.4 * scale * x)
    markers.arrow(origin, turn, colorOf(VELOCITY_COLORS[1]), 0.012)
    markers.curved(origin, turn, colorOf(VELOCITY_COLORS[1]), 0.007)
  }
}

/** Draw the axes in which a velocity is expressed, at its origin: the world's or a frame's. */
function axesOf(markers, origin, oMf, k) {
  const size = 0.16 * markers.reach
  AXES.forEach((color, axis) => {
    const vector = [0, 0, 0]
    vector[axis] = size
    markers.arrow(origin, oMf ? rotate(oMf, k, vector) : vector, colorOf(color), 0.006)
  })
}

/** Nonlinear effects as the sum of gravity and Coriolis terms. */
class NonlinearEffects {
  constructor(page) {
    this.page = page
    this.speeds = new Sliders(page, true)
    this.sliders = new Sliders(page, false)
    this.bars = element('div', {})
    this.node = element(
      'div',
      {},
      element('p', {
        class: 'soft',
        text: 'nle(q, v) = C(q, v) v + g(q): all torques at zero acceleration.'
      }),
      this.bars,
      element('h2', {text: 'Velocities v'}),
      this.speeds.node,
      element('h2', {text: 'Positions q'}),
      this.sliders.node
    )
  }

  showRobot() {
    const {robot, state} = this.page
    state.values.shows = ['torques']
    state.values.source = 'nle'
    this.speeds.showRobot()
    this.sliders.showRobot()
    if (!state.values.v)
      robot.singles.slice(0, 4).forEach(({idx_v}, k) => {
        this.page.v[idx_v] = [1, 1.2, 0, -1][k]
      })
    this.rows = robot.singles.slice(0, MANY).map(coordinate => {
      const parts = ['g', 'C v', 'nle'].map(name => splitBar(name))
      const node = element(
        'div',
        {class: 'parts'},
        element('b', {text: coordinate.name}),
        parts.map(part => part.node)
      )
      return {coordinate, parts, node}
    })
    this.bars.replaceChildren(...this.rows.map(row => row.node))
  }

  update() {
    const {g, nle} = this.page.terms
    this.speeds.update()
    this.sliders.update()
    for (const {
      coordinate: {idx_v, effort},
      parts
    } of this.rows ?? []) {
      const values = [g[idx_v], nle[idx_v] - g[idx_v], nle[idx_v]]
      parts.forEach((part, k) => part.show(values[k], effort))
    }
  }
}

/** Return a bar from the middle, with a name and a number. */
function splitBar(name) {
  const fill = element('i', {})
  const value = element('output', {})
  const node = element(
    'div',
    {class: 'mini'},
    element('span', {text: name}),
    element('span', {class: 'track', 'aria-hidden': true}, fill),
    value
  )
  return {
    node,
    show(x, limit) {
      const load = loadOf(x, limit)
      const width = 50 * Math.min(1, Math.abs(load))
      fill.style.left = `${load < 0 ? 50 - width : 50}%`
      fill.style.width = `${width}%`
      fill.style.background = loadColor(load)
      value.value = numberText(x)
    }
  }
}

/** A constraint on the tip: accelerations and torques with and without it. */
class Constraint {
  constructor(page) {
    this.page = page
    this.kind = 'z'
    this.choice = choice(
      'Hold the tip’s',
      CONSTRAINTS.map(([key, text]) => [key, text]),
      'z',
      kind => {
        this.kind = kind
        page.redraw()
      }
    )
    this.compensated = checkBox('Motors compensate gravity', false, () => page.redraw())
    this.sliders = new Sliders(page, false)
    this.table = element('table', {class: 'numbers'})
    this.tip = element('p', {class: 'soft'})
    this.node = element(
      'div',
      {},
      this.choice,
      this.compensated,
      this.tip,
      element('div', {class: 'wide', tabindex: 0}, this.table),
      element('h2', {text: 'Positions q'}),
      this.sliders.node
    )
  }

  async showRobot() {
    const {page} = this
    page.state.values.shows = []
    this.sliders.showRobot()
    this.model = null
    this.model = await constraintsModel(page.robot.bytes)
    page.redraw()
  }

  /** Return what vereshchagin computes with these rows of the tip held. */
  solve(rows) {
    const {page, model} = this
    const {robot, q, terms} = page
    const {nv} = model
    const k = page.frameIndex
    const tau = this.compensated.input.checked ? terms.g : new Float64Array(nv)
    const v = new Float64Array(nv)
    const free = robot.model.aba(q, v, tau).ddq
    const alpha = new Float64Array(6 * rows.length)
    rows.forEach((row, n) => {
      alpha[row * rows.length + n] = 1
    })
    const root = Float64Array.from([...robot.model.gravity].map(x => -x).concat([0, 0, 0]))
    const constraints = model.constraints(rows.map(() => k))
    // beta is the acceleration energy: that of gravity for a tip that shall not accelerate
    const beta = Float64Array.from(rows, row => root[row])
    const held = model.vereshchagin(q, v, alpha, beta, constraints, root, null, tau)
    return {free, held, k}
  }

  compute() {
    if (!this.model) return
    const {page} = this
    const [, , rows] = CONSTRAINTS.find(([key]) => key === this.kind)
    this.result = this.solve(rows)
    const {free, held, k} = this.result
    const J = page.jacobian(page.q, k, REFERENCES.indexOf('LOCAL_WORLD_ALIGNED'))
    const acceleration = ddq =>
      Array.from({length: 3}, (_, i) => ddq.reduce((sum, x, n) => sum + J[6 * n + i] * x, 0))
    this.accelerations = [acceleration(free), acceleration(held.ddq)]
  }

  update() {
    this.sliders.update()
    if (!this.result) return
    const {page} = this
    const {robot} = page
    const {free, held} = this.result
    const [a, b] = this.accelerations.map(vector => vector.map(x => numberText(x)).join(', '))
    const accelerations = `${a} without, ${b} with the constraint`
    this.tip.textContent = `Acceleration of ${page.frame} [m/s²]: ${accelerations}.`
    const head = element(
      'tr',
      {},
      ['Joint', 'ddq without', 'ddq with', 'constraint torque'].map(text => element('th', {text}))
    )
    this.table.replaceChildren(
      head,
      ...robot.singles.slice(0, MANY).map(({name, idx_v}) =>
        element(
          'tr',
          {},
          element('th', {scope: 'row', text: name}),
          [free[idx_v], held.ddq[idx_v], held.constraint_torques[idx_v]].map(x =>
            element('td', {text: numberText(x)})
          )
        )
      )
    )
  }

  draw(markers) {
    if (!this.accelerations || !this.result) return
    const {page} = this
    const {oMf} = page.terms
    const {k} = this.result
    const origin = [oMf[16 * k + 3], oMf[16 * k + 7], oMf[16 * k + 11]]
    const scale = 0.04 * markers.reach
    const [free, held] = this.accelerations.map(vector => vector.map(x => scale * x))
    markers.arrow(origin, free, colorOf(COLORS.linear), 0.008)
    markers.arrow(origin, held, colorOf(COLORS.constraint), 0.014)
    const size = 0.15 * markers.reach
    const [, , rows] = CONSTRAINTS.find(([key]) => key === this.kind)
    for (const row of rows.filter(row => row < 3)) {
      const vector = [0, 0, 0]
      vector[row] = size
      markers.lines.line(
        add(
          origin,
          vector.map(x => -x)
        ),
        add(origin, vector),
        0.008,
        colorOf(COLORS.constraint)
      )
    }
    markers.torques(this.result.held.constraint_torques)
  }
}
