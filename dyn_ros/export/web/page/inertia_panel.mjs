// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The joint-space inertia, energies, and the center of mass.

import {element, numberText} from './dom.mjs'
import {HeatMap} from './heat_map.mjs'

/** The tab Inertia. */
export class InertiaPanel {
  constructor(page) {
    this.page = page
    this.map = new HeatMap('M', (i, j) => this.unitOf(i, j))
    this.facts = element('dl', {class: 'facts'})
    this.values = [
      'Kinetic energy',
      'Potential energy',
      'Total energy',
      'Moving mass',
      'Center of mass',
      'Diagonal of M'
    ].map(name => {
      const value = element('dd', {})
      this.facts.append(element('dt', {text: name}), value)
      return value
    })
    this.node = element(
      'div',
      {},
      element('h2', {text: 'Energy and mass'}),
      this.facts,
      element('h2', {text: 'Joint-space inertia M(q)'}),
      this.map.node
    )
  }

  showRobot(robot) {
    this.isLinear = robot.model.velocity_names.map((_, k) => robot.floating >= 0 && k < 3)
    for (const {idx_v, isPrismatic} of robot.coordinates) this.isLinear[idx_v] = isPrismatic
  }

  unitOf(i, j) {
    return ['kg m²', 'kg m', 'kg'][this.isLinear[i] + this.isLinear[j]]
  }

  update({M, kinetic, potential, mass, com}) {
    const {nv, velocity_names: names} = this.page.robot.model
    this.map.show(nv, nv, (i, j) => M[nv * i + j], names, names)
    const diagonal = names.map((_, k) => M[k * (nv + 1)])
    const texts = [
      `${numberText(kinetic, 3)} J`,
      `${numberText(potential, 3)} J`,
      `${numberText(kinetic + potential, 3)} J`,
      `${numberText(mass, 3)} kg`,
      `${Array.from(com, x => numberText(x, 3)).join(', ')} m`,
      nv ? [Math.min, Math.max].map(f => numberText(f(...diagonal), 4)).join(' to ') : '–'
    ]
    texts.forEach((text, k) => {
      this.values[k].textContent = text
    })
  }
}
