// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// What the picture shows.

import {button, checkBox, choice, element, select} from './dom.mjs'
import {COLORS} from './markers.mjs'

const MARKS = [
  [
    'torques',
    'Torques',
    COLORS.torque,
    'About each joint’s axis; longer and redder near the limit'
  ],
  ['com', 'Center of mass', COLORS.com, 'Of the whole robot'],
  [
    'bodies',
    'Centers of mass of the bodies',
    COLORS.bodies,
    'The volume is proportional to the mass'
  ],
  ['frames', 'Link frames', '', 'x red, y green, z blue'],
  ['axes', 'Joint axes', COLORS.axis, ''],
  [
    'ellipsoid',
    'Velocity ellipsoid',
    COLORS.ellipsoid,
    'How fast the joints can move the chosen frame'
  ],
  ['transparent', 'Transparent links', '', '']
]

/** The tab Show. */
export class ShowPanel {
  constructor(page) {
    this.page = page
    const {state} = page
    const {values} = state
    this.shapes = choice(
      'Shapes',
      [
        ['visual', 'visual'],
        ['collision', 'collision'],
        ['both', 'both']
      ],
      values.shapes,
      shapes => state.set({shapes})
    )
    this.noShapes = element('p', {class: 'soft', text: 'This robot has no shapes.', hidden: true})
    this.inertia = choice(
      'Inertias',
      [
        ['none', 'off'],
        ['ellipsoids', 'ellipsoids'],
        ['boxes', 'boxes']
      ],
      values.inertia,
      inertia => state.set({inertia})
    )
    this.marks = MARKS.map(([name, label, color, title]) => {
      const control = checkBox(
        label,
        values.shows.includes(name),
        isOn => state.toggle(name, isOn),
        title
      )
      if (color) {
        const swatch = element('i', {class: 'swatch', 'aria-hidden': true})
        swatch.style.background = color
        control.append(swatch)
      }
      return {name, control}
    })
    this.theme = select(
      'Colors',
      [
        ['auto', 'as the system'],
        ['light', 'light'],
        ['dark', 'dark']
      ],
      values.theme,
      theme => state.set({theme})
    )
    this.node = element(
      'div',
      {},
      this.shapes,
      this.noShapes,
      this.inertia,
      this.marks.map(mark => mark.control),
      this.theme,
      element(
        'div',
        {class: 'buttons'},
        button('Save picture', () => page.savePicture(), {title: 'Download a PNG'}),
        button('Save numbers', () => page.saveNumbers(), {title: 'Download all numbers as JSON'}),
        button('Copy link', event => page.copyLink(event.target))
      )
    )
  }

  update() {
    const {shows, shapes, inertia, theme} = this.page.state.values
    this.shapes.choose(shapes)
    this.noShapes.hidden = this.page.hasShapes !== false
    this.inertia.choose(inertia)
    this.theme.input.value = theme
    for (const {name, control} of this.marks) control.input.checked = shows.includes(name)
  }
}
