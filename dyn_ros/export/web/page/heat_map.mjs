// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// A matrix as colors, with its numbers where there is room.

import {element, numberText} from './dom.mjs'

const MIN_NUMBER_WIDTH = 30 // px of a cell with a number
const MAX_CELL = 44 // px
const MIN_WHOLE_CELL = 3 // px; smaller cells have fractions of pixels
const MIN_GAP_CELL = 8 // px; larger cells have gaps
const NOISE = 1e-9 // relative to the largest entry; smaller entries are rounding errors
const SMALL = 0.1 // smaller entries have significant digits, not decimals
const LABEL = 10 // px; letters of the names of rows

/** A heat map; arrow keys and the pointer choose an entry, which is read out below. */
export class HeatMap {
  /** `name` is that of the matrix, `unit(i, j)` the unit of an entry; rows can have names. */
  constructor(name, unit = () => '', {hasRowNames = false} = {}) {
    Object.assign(this, {name, unit, hasRowNames, chosen: null})
    this.canvas = element('canvas', {
      tabindex: 0,
      role: 'img',
      'aria-label': name,
      onkeydown: event => this.move(event),
      onpointermove: event => this.point(event),
      onpointerleave: () => this.choose(null)
    })
    this.readout = element('p', {class: 'readout', 'aria-live': 'polite'})
    this.frame = element('div', {class: 'heat'}, this.canvas)
    this.rowNames = element('div', {class: 'row-names', 'aria-hidden': true})
    const map = element('div', {class: 'map'}, hasRowNames ? this.rowNames : null, this.frame)
    this.node = element('div', {}, map, this.readout)
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
    const {rows, columns} = this.values
    const width = this.frame.clientWidth
    if (!width || !rows || !columns) return
    const exact = Math.min(MAX_CELL, width / columns)
    const cell = exact < MIN_WHOLE_CELL ? exact : Math.floor(exact)
    this.cell = cell
    if (this.hasRowNames) this.drawRowNames()
    const ratio = Math.min(devicePixelRatio, 2)
    const [right, bottom] = [columns * cell, rows * cell]
    Object.assign(this.canvas, {
      width: Math.ceil(right * ratio),
      height: Math.ceil(bottom * ratio)
    })
    Object.assign(this.canvas.style, {width: `${right}px`, height: `${bottom}px`})
    const context = this.canvas.getContext('2d')
    context.scale(ratio, ratio)
    const largest = this.largest()
    context.imageSmoothingEnabled = exact < 1
    context.drawImage(this.pixels(largest), 0, 0, right, bottom)
    const style = getComputedStyle(this.canvas)
    if (cell > MIN_GAP_CELL) this.drawGaps(context, style.getPropertyValue('--panel'))
    context.fillStyle = context.strokeStyle = style.getPropertyValue('--text').trim()
    if (cell >= MIN_NUMBER_WIDTH) this.drawNumbers(context, largest)
    if (this.chosen) {
      const [i, j] = this.chosen
      context.strokeRect(j * cell + 0.5, i * cell + 0.5, cell - 1, cell - 1)
    }
  }

  drawRowNames() {
    const isShown = this.cell >= LABEL
    this.rowNames.replaceChildren(
      ...this.values.rowNames.map(text => element('span', {text: isShown ? text : ''}))
    )
    this.rowNames.style.gridAutoRows = `${this.cell}px`
  }

  largest() {
    const {rows, columns, entry} = this.values
    let largest = 1e-12
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) largest = Math.max(largest, Math.abs(entry(i, j)) || 0)
    }
    return largest
  }

  /** Return the colors of all entries as an image with a pixel for each. */
  pixels(largest) {
    const {rows, columns, entry} = this.values
    const style = getComputedStyle(this.canvas)
    const [positive, negative] = ['--positive', '--negative'].map(name =>
      bytesOf(style.getPropertyValue(name).trim())
    )
    const image = new ImageData(columns, rows)
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const x = entry(i, j)
        const share = Math.abs(x) / largest
        const color = x < 0 ? negative : positive
        const alpha = share < NOISE ? 0 : 0.04 + 0.76 * share ** 0.35
        image.data.set([...color, 255 * alpha], 4 * (columns * i + j))
      }
    }
    const canvas = element('canvas', {width: columns, height: rows})
    canvas.getContext('2d').putImageData(image, 0, 0)
    return canvas
  }

  drawGaps(context, color) {
    const {rows, columns} = this.values
    context.fillStyle = color
    for (let i = 1; i <= rows; i++) context.fillRect(0, i * this.cell - 1, columns * this.cell, 1)
    for (let j = 1; j <= columns; j++) context.fillRect(j * this.cell - 1, 0, 1, rows * this.cell)
  }

  drawNumbers(context, largest) {
    const {rows, columns, entry} = this.values
    context.font = `${LABEL}px system-ui, sans-serif`
    context.textAlign = 'center'
    context.textBaseline = 'middle'
    for (let i = 0; i < rows; i++) {
      for (let j = 0; j < columns; j++) {
        const text = shortText(entry(i, j), largest)
        context.fillText(text, (j + 0.5) * this.cell, (i + 0.5) * this.cell, this.cell - 3)
      }
    }
  }

  read() {
    const {rows, columns, entry, rowNames, columnNames} = this.values
    if (!this.chosen) {
      this.readout.textContent = 'Point at or tap an entry to read it.'
      return
    }
    const [i, j] = [Math.min(this.chosen[0], rows - 1), Math.min(this.chosen[1], columns - 1)]
    const x = entry(i, j)
    const value = `${smallText(x, this.largest(), 4) ?? numberText(x, 4)} ${this.unit(i, j)}`
    this.readout.textContent = `${rowNames[i]}, ${columnNames[j]}: ${value}`
  }

  choose(entry) {
    this.chosen = entry
    this.draw()
    this.read()
  }

  point(event) {
    if (!this.values || !this.cell) return
    const [i, j] = [event.offsetY, event.offsetX].map(x => Math.floor(x / this.cell))
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
  const digits = Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2
  return smallText(x, largest, 2) ?? numberText(x, digits)
}

/** Return the text of a small number with significant digits; null for other numbers. */
function smallText(x, largest, digits) {
  if (Math.abs(x) < NOISE * largest) return '0'
  if (Math.abs(x) >= SMALL) return null
  const text = String(Number(x.toPrecision(digits)))
  const short = x.toExponential(digits - 1)
  return (short.length < text.length ? short : text).replaceAll('-', '−')
}

/** Return red, green and blue of a color such as #1c7ed6. */
const bytesOf = code => [1, 3, 5].map(k => parseInt(code.slice(k, k + 2), 16))
