// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// A matrix as colors, with its numbers where there is room.

import {element, numberText} from './dom.mjs'

const MIN_NUMBER_WIDTH = 30 // px of a cell with a number
const MAX_CELL = 44 // px
const LABEL = 10 // px; letters of the names of rows

/** A heat map; arrow keys and the pointer choose an entry, which is read out below. */
export class HeatMap {
  /** `name` is that of the matrix, `unit(i, j)` the unit of an entry. */
  constructor(name, unit = () => '') {
    Object.assign(this, {name, unit, chosen: null})
    this.canvas = element('canvas', {
      tabindex: 0,
      role: 'img',
      onkeydown: event => this.move(event),
      onpointermove: event => this.point(event),
      onpointerleave: () => this.choose(null)
    })
    this.readout = element('p', {class: 'readout', 'aria-live': 'polite'})
    this.frame = element('div', {class: 'heat'}, this.canvas)
    this.node = element('div', {}, this.frame, this.readout)
    new ResizeObserver(() => this.values && this.draw()).observe(this.frame)
  }

  /** Show a matrix: rows, columns, entry(i, j), and the names of rows and columns. */
  show(rows, columns, entry, rowNames, columnNames) {
    this.values = {rows, columns, entry, rowNames, columnNames}
    this.canvas.setAttribute(
      'aria-label',
      `${this.name}, ${rows} by ${columns}; arrow keys read entries`
    )
    this.draw()
    this.read()
  }

  draw() {
    const {rows, columns, entry} = this.values
    const width = this.frame.clientWidth
    if (!width || !rows || !columns) return
    const cell = Math.max(3, Math.min(MAX_CELL, Math.floor(width / columns)))
    const height = Math.min(cell, Math.max(18, cell))
    const ratio = Math.min(devicePixelRatio, 2)
    Object.assign(this.canvas, {width: columns * cell * ratio, height: rows * height * ratio})
    Object.assign(this.canvas.style, {width: `${columns * cell}px`, height: `${rows * height}px`})
    Object.assign(this, {cell, height})
    const context = this.canvas.getContext('2d')
    context.scale(ratio, ratio)
    const style = getComputedStyle(this.canvas)
    const [ink, positive, negative] = ['--text', '--positive', '--negative'].map(name =>
      style.getPropertyValue(name).trim()
    )
    let largest = 1e-12
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        largest = Math.max(largest, Math.abs(entry(i, j)) || 0)
      }
    context.font = `${LABEL}px system-ui, sans-serif`
    context.textAlign = 'center'
    context.textBaseline = 'middle'
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < columns; j++) {
        const x = entry(i, j)
        context.globalAlpha = x === 0 ? 0.03 : 0.03 + 0.77 * (Math.abs(x) / largest) ** 0.35
        context.fillStyle = x < 0 ? negative : positive
        context.fillRect(j * cell, i * height, cell - (cell > 8), height - (cell > 8))
        context.globalAlpha = 1
        if (cell >= MIN_NUMBER_WIDTH) {
          context.fillStyle = ink
          context.fillText(shortText(x, largest), (j + 0.5) * cell, (i + 0.5) * height)
        }
      }
    if (this.chosen) {
      const [i, j] = this.chosen
      context.strokeStyle = ink
      context.strokeRect(j * cell + 0.5, i * height + 0.5, cell - 1, height - 1)
    }
  }

  read() {
    const {rows, columns, entry, rowNames, columnNames} = this.values
    if (!this.chosen) {
      this.readout.textContent = 'Point at an entry to read it.'
      return
    }
    const [i, j] = [Math.min(this.chosen[0], rows - 1), Math.min(this.chosen[1], columns - 1)]
    const value = `${numberText(entry(i, j), 4)} ${this.unit(i, j)}`
    this.readout.textContent = `${rowNames[i]}, ${columnNames[j]}: ${value}`
  }

  choose(entry) {
    this.chosen = entry
    this.draw()
    this.read()
  }

  point(event) {
    if (!this.values || !this.cell) return
    const [i, j] = [Math.floor(event.offsetY / this.height), Math.floor(event.offsetX / this.cell)]
    const {rows, columns} = this.values
    this.choose(i >= 0 && j >= 0 && i < rows && j < columns ? [i, j] : null)
  }

  move(event) {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[
      event.key
    ]
    if (!step || !this.values) return
    const {rows, columns} = this.values
    const [i, j] = this.chosen ?? [0, 0]
    const inside = (x, count) => Math.min(Math.max(x, 0), count - 1)
    this.choose([inside(i + step[0], rows), inside(j + step[1], columns)])
    event.preventDefault()
  }
}

function shortText(x, largest) {
  if (Math.abs(x) < 5e-4 * largest) return '0'
  const digits = Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2
  return numberText(x, digits)
}
