// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Times calls of the WebAssembly module, in Node.js and in browsers. web.py copies this file beside
// dyn_ros.wasm, and writes calls.json, which has the arguments of each function for each robot.

import {load} from './dyn_ros.mjs'

const MAX_STRUCTURE_SIZE = 4096 // bytes
const ALIGNMENT = 64 // bytes, also the gap behind arrays
const isNode = globalThis.process !== undefined
const robots = {}

/** Return the bytes of a file beside this one. */
async function read(name) {
  const url = new URL(name, import.meta.url)
  if (isNode) return (await import('node:fs/promises')).readFile(url)
  return new Uint8Array(await (await fetch(url)).arrayBuffer())
}

/** Prepare all calls of all robots. */
export async function prepare() {
  const module = await WebAssembly.compile(await read('dyn_ros.wasm'))
  const library = await load(module)
  const calls = JSON.parse(new TextDecoder().decode(await read('calls.json')))
  for (const [robot, functions] of Object.entries(calls)) {
    const file = await read(`${robot}.dynros`)
    const instance = new Instance(await WebAssembly.instantiate(module), file)
    const loops = Object.fromEntries(
      Object.entries(functions).map(([name, values]) => [name, instance.loop(name, values)]))
    const motion = functions.rnea.slice(0, 3)
    robots[robot] = {instance, loops, motion, model: await library.model(file)}
  }
}

/** An instance of the module with one robot, and the arguments of its functions. */
class Instance {
  constructor({exports}, file) {
    this.c = exports
    this.end = exports.__heap_base.value
    this.model = this.allocate(MAX_STRUCTURE_SIZE)
    const content = this.allocate(file.length)
    new Uint8Array(exports.memory.buffer).set(file, content)
    requireSuccess(exports.dyn_ros_model_init(this.model, content, file.length))
  }

  /** Return the address of new memory. */
  allocate(size) {
    const start = Math.ceil(this.end / ALIGNMENT) * ALIGNMENT
    this.end = start + size + ALIGNMENT
    const missing = this.end - this.c.memory.buffer.byteLength
    if (missing > 0) this.c.memory.grow(Math.ceil(missing / 65536))
    return start
  }

  /** Return the address of a copy of numbers. */
  store(numbers) {
    const address = this.allocate(8 * numbers.length)
    new Float64Array(this.c.memory.buffer).set(numbers, address / 8)
    return address
  }

  /**
   * Return a function that times a number of calls [ns of each]. Each has a loop of its own, as in a
   * program, so that the engine knows which function the loop calls.
   */
  loop(name, values) {
    const size = this.c[`dyn_ros_${name}_workspace_size`](this.model)
    const work = this.allocate(size)
    requireSuccess(this.c[`dyn_ros_${name}_workspace_init`](this.model, work, size))
    const addresses = values.map((value) => (Array.isArray(value) ? this.store(value) : value))
    const passed = [this.model, work, ...addresses]
    const call = this.c[`dyn_ros_${name}`]
    requireSuccess(call(...passed))
    const loop = new Function('call', 'count', `
      const start = performance.now()
      for (let n = 0; n < count; n++) call(${passed})
      return (performance.now() - start) * 1e6 / count`)
    return (count) => loop(call, count)
  }

  /** Return the size of the workspaces of all functions [bytes]. */
  workspaceSize() {
    return Object.entries(this.c)
      .filter(([name]) => name.endsWith('_workspace_size'))
      .reduce((total, [, size]) => total + size(this.model), 0)
  }
}

function requireSuccess(code) {
  if (code) throw new Error(`a function of the module returned ${code}`)
}

/** Return the time of a call with arguments in place [ns]. */
export function timeCalls(robot, name, count) {
  return robots[robot].loops[name](count)
}

/** Return the time of a call of rnea through dyn_ros.mjs, which copies arguments and results [ns]. */
export function timeMethod(robot, name, count) {
  const {model, motion: [q, v, a]} = robots[robot]
  const start = performance.now()
  for (let n = 0; n < count; n++) model.rnea(q, v, a)
  return (performance.now() - start) * 1e6 / count
}

/** Return the memory of an instance with one robot, and the workspaces of all functions [bytes]. */
export function measureMemory(robot) {
  const {instance} = robots[robot]
  return [instance.c.memory.buffer.byteLength, instance.workspaceSize()]
}

/** Return the time to compile and instantiate, and to read a robot and call rnea [ms]. */
export async function timeStart(robot) {
  const [bytes, file] = await Promise.all([read('dyn_ros.wasm'), read(`${robot}.dynros`)])
  const start = performance.now()
  const module = await WebAssembly.compile(bytes)
  await WebAssembly.instantiate(module)
  const instantiated = performance.now()
  const model = await (await load(module)).model(file)
  const v = new Float64Array(model.nv)
  model.rnea(model.neutral(), v, v)
  return [instantiated - start, performance.now() - instantiated]
}

/** Answer requests from web.py: a line is a function of this module and its arguments. */
async function answerRequests() {
  const functions = {prepare, timeCalls, timeMethod, measureMemory, timeStart}
  for await (const line of (await import('node:readline')).createInterface(process.stdin)) {
    const [name, ...values] = JSON.parse(line)
    console.log(JSON.stringify((await functions[name](...values)) ?? null))
  }
}

if (isNode) await answerRequests()
