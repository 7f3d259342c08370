// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Rigid-body dynamics of robots: functions of dyn_ros.wasm. dyn_ros.d.ts documents all of them.
//
//   const library = await load(readFile('dyn_ros.wasm'))    // in a browser: fetch('dyn_ros.wasm')
//   const model = await library.model(readFile('my_robot.dynros'))
//   const {tau} = model.rnea(model.neutral(), v, a)

export const VERSION = '@VERSION@'
export const WORLD = 0
export const LOCAL = 1
export const LOCAL_WORLD_ALIGNED = 2

/** Names and shapes of the arguments and results of each function. */
export const FUNCTIONS = @FUNCTIONS@
const MEMBERS = @MEMBERS@
const ERRORS = @ERRORS@
const MAX_CONSTRAINTS = @MAX_CONSTRAINTS@
const IDENTITY = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]
const ALIGNMENT = 64 // bytes
const PAGE = 65536 // bytes of memory that a module adds at a time
const GAP = 64 // bytes behind arrays, which kernels read in registers of eight numbers

/** An error of the library. `code` is what C returns; `results` are stored if it is positive. */
export class DynRosError extends Error {
  constructor(code, text, results = null) {
    super(text)
    this.name = 'DynRosError'
    this.code = code
    this.results = results
  }
}

/** Compile the module from its bytes, a response, or a promise of these. */
export async function load(source) {
  source = await source
  if (source instanceof WebAssembly.Module) return new Library(source)
  if (typeof Response !== 'undefined' && source instanceof Response) {
    if (!source.ok) throw new Error(`${source.url}: ${source.status} ${source.statusText}`)
    source = await source.arrayBuffer()
  }
  return new Library(await WebAssembly.compile(source))
}

/** Functions that are compiled. */
export class Library {
  #module

  constructor(module) {
    this.#module = module
    const exported = new Set(WebAssembly.Module.exports(module).map(({name}) => name))
    this.functions = Object.keys(FUNCTIONS).filter((name) => exported.has(`dyn_ros_${name}`))
  }

  /** Return a robot, with memory of its own, from the bytes of a model file or a promise of them. */
  async model(file) {
    const bytes = bytesOf(await file)
    return new Model(await WebAssembly.instantiate(this.#module), bytes)
  }
}

function bytesOf(file) {
  if (ArrayBuffer.isView(file)) return new Uint8Array(file.buffer, file.byteOffset, file.byteLength)
  if (file instanceof ArrayBuffer) return new Uint8Array(file)
  throw new TypeError(`model: expected the bytes of a model file, got ${describe(file)}`)
}

/** Return a short text about a value of a wrong type. */
function describe(value) {
  return typeof value === 'object' && value !== null ? value.constructor?.name ?? 'an object'
    : String(value).slice(0, 40)
}

// --- memory of an instance

class Memory {
  #end

  constructor(instance) {
    this.c = instance.exports
    this.#end = this.c.__heap_base.value
    this.#refresh()
    this.structures = this.#readStructures()
  }

  #refresh() {
    this.floats = new Float64Array(this.c.memory.buffer)
    this.bytes = new Uint8Array(this.c.memory.buffer)
    this.view = new DataView(this.c.memory.buffer)
  }

  /** Return the sizes of C structures and the offsets of their members. */
  #readStructures() {
    let address = this.c.dyn_ros_members.value
    const next = () => this.view.getInt32((address += 4) - 4, true)
    const readOffsets = (members) => Object.fromEntries(members.map((name) => [name, next()]))
    return Object.fromEntries(Object.entries(MEMBERS).map(([structure, members]) => [
      structure, {size: next(), offsets: readOffsets(members)}]))
  }

  /** Return the address of new memory. */
  allocate(size) {
    const start = Math.ceil(this.#end / ALIGNMENT) * ALIGNMENT
    this.#end = start + size + GAP
    const missing = this.#end - this.c.memory.buffer.byteLength
    if (missing > 0) {
      this.c.memory.grow(Math.ceil(missing / PAGE))
      this.#refresh()
    }
    return start
  }

  numbers(address, count) {
    return this.floats.slice(address / 8, address / 8 + count)
  }

  /** Return the text at an address, which ends with a zero. */
  text(address) {
    if (!address) return null
    return new TextDecoder().decode(this.bytes.slice(address, this.bytes.indexOf(0, address)))
  }

  /** Return the members of a structure, integers and addresses, by name. */
  integers(structure, address) {
    const {offsets} = this.structures[structure]
    return Object.fromEntries(Object.entries(offsets).map(([name, offset]) => [
      name, this.view.getInt32(address + offset, true)]))
  }

  writeIntegers(structure, address, values) {
    const {offsets} = this.structures[structure]
    for (const [name, value] of Object.entries(values)) {
      this.view.setInt32(address + offsets[name], value, true)
    }
  }

  writeNumbers(structure, address, values) {
    const {offsets} = this.structures[structure]
    for (const [name, numbers] of Object.entries(values)) {
      this.floats.set(numbers, (address + offsets[name]) / 8)
    }
  }

  errorText(code) {
    return this.text(this.c.dyn_ros_error_text(code))
  }

  /** Throw an error unless a function has succeeded. */
  check(name, code) {
    if (code < 0) throw new DynRosError(code, `${name}: ${this.errorText(code)}`)
  }
}

// --- robots

/** A robot: its joints, frames and limits, and all functions. */
export class Model {
  #memory
  #address
  #scratch
  #calls = {}

  constructor(instance, bytes) {
    const memory = (this.#memory = new Memory(instance))
    const {c, structures} = memory
    const content = memory.allocate(bytes.byteLength)
    this.#address = memory.allocate(structures.model.size)
    memory.bytes.set(bytes, content)
    memory.check('model', c.dyn_ros_model_init(this.#address, content, bytes.byteLength))
    const {nq, nv, njoints, nframes, ncolumns} = memory.integers('model', this.#address)
    Object.assign(this, {nq, nv, njoints, nframes, ncolumns})
    this.#scratch = memory.allocate(8 * Math.max(3 * nq, 4 * nv, 64))
    this.name = memory.text(c.dyn_ros_robot_name(this.#address))
    this.joints = this.#rows('joint', njoints, c.dyn_ros_joint_info)
    this.frames = this.#rows('frame', nframes, c.dyn_ros_frame_info)
    for (const frame of this.frames) frame.is_link = frame.is_link === 1
    this.position_names = this.#names(nq, c.dyn_ros_position_name)
    this.velocity_names = this.#names(nv, c.dyn_ros_velocity_name)
    for (const list of [this.joints, this.frames, this.position_names, this.velocity_names]) {
      list.forEach(Object.freeze)
      Object.freeze(list)
    }
    Object.freeze(this)
  }

  #rows(structure, count, read) {
    const memory = this.#memory
    const address = memory.allocate(memory.structures[structure].size)
    return Array.from({length: count}, (_, n) => {
      memory.check(`${structure}_info`, read(this.#address, n, address))
      const row = memory.integers(structure, address)
      return {...row, name: memory.text(row.name)}
    })
  }

  #names(count, read) {
    return Array.from({length: count}, (_, k) => this.#memory.text(read(this.#address, k)))
  }

  #array(member, count) {
    return this.#memory.numbers(this.#memory.integers('model', this.#address)[member], count)
  }

  get lower() { return this.#array('lower', this.nq) }
  get upper() { return this.#array('upper', this.nq) }
  get velocity_limit() { return this.#array('velocity_limit', this.nv) }
  get effort_limit() { return this.#array('effort_limit', this.nv) }
  get damping() { return this.#array('damping', this.nv) }
  get friction() { return this.#array('friction', this.nv) }
  get gravity() { return this.#array('gravity', 3) }
  get armature() { return this.#array('armature', this.nv) }

  /** Whether functions reject numbers that are not finite, and quaternions that are not unit. */
  get checks() { return this.#memory.integers('model', this.#address).checks === 1 }
  set checks(checked) {
    this.#memory.writeIntegers('model', this.#address, {checks: checked ? 1 : 0})
  }

  joint_index(name) { return this.#index('joint', this.joints, name) }
  frame_index(name) { return this.#index('frame', this.frames, name) }

  /** Return an index; if a joint and a link have the same name, the frame is the link's. */
  #index(kind, rows, name) {
    const isNamed = (row) => row.name === name
    const link = rows.findIndex((row) => isNamed(row) && row.is_link)
    const index = link < 0 ? rows.findIndex(isNamed) : link
    if (index < 0) {
      throw new DynRosError(ERRORS[`NO_SUCH_${kind.toUpperCase()}`],
        `no ${kind} ${JSON.stringify(name)}; available: ${rows.map((row) => row.name).join(', ')}`)
    }
    return index
  }

  /** Call a function of the C library for this robot. */
  #run(name, ...values) {
    const {c} = this.#memory
    this.#memory.check(name, c[`dyn_ros_${name}`](this.#address, ...values))
  }

  // --- configurations

  neutral() {
    this.#run('neutral', this.#scratch)
    return this.#memory.numbers(this.#scratch, this.nq)
  }

  integrate(q, v) {
    const [start, velocity] = this.#store('integrate', {q: [q, this.nq], v: [v, this.nv]})
    this.#run('integrate', start, velocity, start)
    return this.#memory.numbers(start, this.nq)
  }

  // --- what can be set

  set_gravity(gravity) {
    const [address] = this.#store('set_gravity', {gravity: [gravity, 3]})
    this.#run('set_gravity', address)
  }

  set_armature(armature) {
    const [address] = this.#store('set_armature', {armature: [armature, this.nv]})
    this.#run('set_armature', address)
  }

  set_payload(slot, frame, mass, com = [0, 0, 0], inertia = new Float64Array(9)) {
    const addresses = this.#store('set_payload', {com: [com, 3], inertia: [inertia, 9]})
    const place = [integer('set_payload', 'slot', slot), this.#frame(frame)]
    this.#run('set_payload', ...place, Number(mass), ...addresses)
  }

  clear_payload(slot) {
    this.#run('clear_payload', integer('clear_payload', 'slot', slot))
  }

  set_inertia(joint, parameters) {
    const [address] = this.#store('set_inertia', {parameters: [parameters, 10]})
    this.#run('set_inertia', this.#joint(joint), address)
  }

  get_inertia(joint) {
    this.#run('get_inertia', this.#joint(joint), this.#scratch)
    return this.#memory.numbers(this.#scratch, 10)
  }

  lock_joint(joint, is_locked = true) {
    this.#run('lock_joint', this.#joint(joint), is_locked ? 1 : 0)
  }

  total_mass() { return this.#memory.c.dyn_ros_total_mass(this.#address) }

  // --- contacts and constraints

  contacts(list, settings) {
    requireList('contacts', 'list', list)
    const memory = this.#structureMemory('contacts', list.length)
    const {size} = this.#memory.structures.contact
    list.forEach((contact, n) => this.#writeContact(memory.list + n * size, contact))
    this.#writeContactSettings(memory.settings, settings ?? {})
    this.#run('contacts_init', memory.result, memory.list, list.length, memory.settings)
    return this.#structure('contacts', memory.result)
  }

  #writeContact(address, contact) {
    requireKeys('contacts', contact, MEMBERS.contact)
    const {frame, dimension = 6, reference_frame = LOCAL, other = -1, kp = 0, kd = 0} = contact
    this.#memory.writeIntegers('contact', address, {
      frame: this.#frame(frame),
      dimension: integer('contacts', 'dimension', dimension),
      reference_frame: integer('contacts', 'reference_frame', reference_frame),
      other: other === -1 ? -1 : this.#frame(other),
    })
    this.#memory.writeNumbers('contact', address, {kp: [kp], kd: [kd]})
    for (const name of ['placement', 'other_placement']) {
      const placement = contact[name] ?? IDENTITY
      requireCount('contacts', name, placement, 16)
      this.#memory.writeNumbers('contact', address, {[name]: placement})
    }
  }

  #writeContactSettings(address, settings) {
    requireKeys('contacts', settings, MEMBERS.contact_settings)
    const {damping = 0, max_iterations = 1, residual = 0, restitution = 0} = settings
    const numbers = {damping: [damping], residual: [residual], restitution: [restitution]}
    this.#memory.writeNumbers('contact_settings', address, numbers)
    this.#memory.writeIntegers('contact_settings', address, {
      max_iterations: integer('contacts', 'max_iterations', max_iterations),
    })
  }

  constraints(tips, {axes = null, singularity = 0, tolerance = -1, priority = 0} = {}) {
    requireList('constraints', 'tips', tips)
    if (axes !== null) requireList('constraints', 'axes', axes)
    if (axes !== null) requireCount('constraints', 'axes', axes, tips.length)
    const {list, result} = this.#structureMemory('constraints', tips.length)
    const frames = [...tips, ...(axes ?? [])].map((frame) => frame === -1 ? -1 : this.#frame(frame))
    frames.forEach((frame, n) => this.#memory.view.setInt32(list + 4 * n, frame, true))
    const axesAddress = axes === null ? 0 : list + 4 * tips.length
    const choices = [integer('constraints', 'singularity', singularity), Number(tolerance),
                     integer('constraints', 'priority', priority)]
    this.#run('constraints_init', result, list, axesAddress, tips.length, ...choices)
    return this.#structure('constraints', result)
  }

  /** Return the memory in which a structure is written. */
  #structureMemory(kind, count) {
    if (count > MAX_CONSTRAINTS) this.#memory.check(kind, ERRORS.TOO_MANY)
    const {structures} = this.#memory
    this.#calls[kind] ??= {
      list: this.#memory.allocate(MAX_CONSTRAINTS * structures.contact.size),
      settings: this.#memory.allocate(structures.contact_settings.size),
      result: this.#memory.allocate(structures[kind].size),
    }
    return this.#calls[kind]
  }

  /** Return a copy of a structure, which calls write back. */
  #structure(kind, address) {
    const {size, offsets} = this.#memory.structures[kind]
    const bytes = this.#memory.bytes.slice(address, address + size)
    return new Structure(this, kind, this.#memory.view.getInt32(address + offsets.rows, true), bytes)
  }

  // --- arguments

  #frame(frame) {
    return typeof frame === 'string' ? this.frame_index(frame) : integer('', 'frame', frame)
  }

  #joint(joint) {
    return typeof joint === 'string' ? this.joint_index(joint) : integer('', 'joint', joint)
  }

  /** Copy arrays to the scratch memory, and return their addresses. */
  #store(name, arrays) {
    let address = this.#scratch
    return Object.entries(arrays).map(([argument, [values, count]]) => {
      requireCount(name, argument, values, count)
      this.#memory.floats.set(values, address / 8)
      address += 8 * count
      return address - 8 * count
    })
  }

  #axisLength(axis, rows) {
    if (typeof axis === 'number') return axis
    const {njoints} = this
    const lengths = {constraints: rows, rows: njoints, parameters: 10 * njoints,
                     moments: 4 * njoints, placements: 6 * njoints}
    return lengths[axis] ?? this[axis]
  }

  #count(shape, rows) {
    return shape.reduce((product, axis) => product * this.#axisLength(axis, rows), 1)
  }

  // --- calls

  /** Return the workspace of a function, and the addresses of its arguments and results. */
  #prepare(name) {
    const memory = this.#memory
    const {c, structures} = memory
    const {inputs, results} = FUNCTIONS[name]
    if (!c[`dyn_ros_${name}`]) {
      throw new DynRosError(ERRORS.MISSING, `${name} is not one of the exported functions`)
    }
    const size = c[`dyn_ros_${name}_workspace_size`](this.#address)
    const work = memory.allocate(size)
    this.#run(`${name}_workspace_init`, work, size)
    const withMemory = (value) => {
      const size = structures[value.kind]?.size ?? 0
      if (!value.shape) return {...value, address: memory.allocate(size)}
      const maxCount = this.#count(value.shape, MAX_CONSTRAINTS)
      const count = value.shape.includes('constraints') ? null : maxCount // null: differs by call
      return {...value, count, address: memory.allocate(8 * maxCount)}
    }
    const call = {
      run: c[`dyn_ros_${name}`],
      inputs: inputs.map(withMemory),
      results: results.map(withMemory),
    }
    call.values = [this.#address, work, ...inputs, ...call.results.map(({address}) => address)]
    return (this.#calls[name] = call)
  }

  #call(name, values) {
    const call = this.#calls[name] ?? this.#prepare(name)
    const rows = values.find((value) => value instanceof Structure)?.rows ?? 0
    call.inputs.forEach((input, n) => {
      call.values[2 + n] = this.#argument(name, input, values[n], rows)
    })
    const code = call.run(...call.values)
    this.#memory.check(name, code)
    const results = {}
    for (const {name: result, shape, count, address} of call.results) {
      results[result] = shape.length
        ? this.#memory.numbers(address, count ?? this.#count(shape, rows))
        : this.#memory.floats[address / 8]
    }
    if (code > 0) {
      const place = `${name}: ${this.velocity_names[code - 1]}`
      throw new DynRosError(code, `${place}: ${this.#memory.errorText(code)}`, results)
    }
    return results
  }

  /** Return what C receives for an argument. */
  #argument(name, {name: argument, kind, shape, count, optional, address, fallback}, value, rows) {
    if (kind === 'number') return Number(value)
    if (argument === 'frame') return this.#frame(value)
    if (argument === 'joint') return this.#joint(value)
    if (kind === 'integer') return integer(name, argument, value ?? fallback)
    if (kind !== 'array') {
      if (value?.kind !== kind || value.model !== this) {
        throw new TypeError(`${name}: ${argument}: expected what ${kind}(...) of this model returns`)
      }
      this.#memory.bytes.set(value.bytes, address)
      return address
    }
    if (value == null && optional) return 0
    requireCount(name, argument, value, count ?? this.#count(shape, rows))
    this.#memory.floats.set(value, address / 8)
    return address
  }

  static {
    for (const name of Object.keys(FUNCTIONS)) {
      Model.prototype[name] = function (...values) {
        return this.#call(name, values)
      }
    }
  }
}

/** Contacts or constraints of a model, as its functions take them. */
class Structure {
  constructor(model, kind, rows, bytes) {
    Object.assign(this, {model, kind, rows, bytes})
    Object.freeze(this)
  }
}

function integer(name, argument, value) {
  const number = typeof value === 'boolean' ? Number(value) : value
  if ((number | 0) === number) return number
  throw new TypeError(
    `${name && `${name}: `}${argument} is ${describe(value)}; expected an integer of 32 bits`)
}

function requireCount(name, argument, values, count) {
  if (typeof values === 'object' && values?.length === count) return
  const size = typeof values === 'object' && values?.length !== undefined
    ? `has ${countOfNumbers(values.length)}` : `is ${describe(values)}`
  const text = `${name}: ${argument} ${size}; expected ${countOfNumbers(count)}`
  throw new DynRosError(ERRORS.WRONG_SIZE, text)
}

const countOfNumbers = (count) => `${count} number${count === 1 ? '' : 's'}`

function requireList(name, argument, list) {
  if (Array.isArray(list)) return
  throw new TypeError(`${name}: ${argument} is ${describe(list)}; expected an array`)
}

function requireKeys(name, value, keys) {
  const unknown = Object.keys(Object(value)).filter((key) => !keys.includes(key))
  if (typeof value === 'object' && value !== null && !unknown.length) return
  const fault = unknown.length ? `unknown property ${unknown.join(', ')}` : `got ${describe(value)}`
  throw new TypeError(`${name}: ${fault}; expected an object with ${keys.join(', ')}`)
}
