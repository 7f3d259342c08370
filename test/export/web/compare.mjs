// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Calls all functions with the states of a file, and compares the bits of their results.

import {FUNCTIONS, load} from './dyn_ros.mjs'

/**
 * Return for each function of the module how many numbers it has, and how many differ.
 * `names` are those of the functions in the file of states, in its order.
 */
export async function compare(module, robot, states, names) {
  const model = await (await load(module)).model(robot)
  const reader = new Reader(states)
  const counts = {}
  for (const name of names) {
    const [count, length] = reader.numbers(2)
    if (!FUNCTIONS[name]) {
      reader.numbers(length)
      continue
    }
    counts[name] = {numbers: 0, different: 0}
    for (let n = 0; n < count; n++) compareState(model, name, reader, counts[name])
  }
  return counts
}

function compareState(model, name, reader, counts) {
  const values = FUNCTIONS[name].inputs.map(({kind}) => readArgument(model, kind, reader))
  const results = model[name](...values)
  for (const {name: result} of FUNCTIONS[name].results) {
    const expected = bits(reader.array())
    const numbers = bits(toArray(results[result]))
    counts.numbers += expected.length
    counts.different += Math.abs(numbers.length - expected.length)
    expected.forEach((x, k) => { counts.different += numbers[k] !== x })
  }
}

const toArray = (value) => (typeof value === 'number' ? Float64Array.of(value) : value)
const bits = (array) => new BigInt64Array(Float64Array.from(array).buffer)

function readArgument(model, kind, reader) {
  if (kind === 'contacts') {
    const [damping, residual, max_iterations, restitution, count] = reader.array()
    const list = Array.from({length: count}, () => {
      const [frame, dimension, reference_frame, other, kp, kd, ...placements] = reader.array()
      const placement = placements.slice(0, 16)
      const other_placement = placements.slice(16)
      return {frame, dimension, reference_frame, other, kp, kd, placement, other_placement}
    })
    return model.contacts(list, {damping, residual, max_iterations, restitution})
  }
  if (kind === 'constraints') {
    const [, singularity, tolerance, priority] = reader.array()
    const tips = [...reader.array()]
    return model.constraints(tips, {axes: [...reader.array()], singularity, tolerance, priority})
  }
  const values = reader.array()
  return kind === 'array' ? values : values[0]
}

class Reader {
  constructor(bytes) {
    this.values = new Float64Array(bytes.slice().buffer)
    this.position = 0
  }

  numbers(count) {
    return this.values.slice(this.position, (this.position += count))
  }

  /** Return the next array; null if its length is -1. */
  array() {
    const [length] = this.numbers(1)
    return length < 0 ? null : this.numbers(length)
  }
}
