// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The page: the robot that is shown, its state, its picture and its panels.

import {LOCAL_WORLD_ALIGNED} from '../javascript/dyn_ros.mjs'
import {inertiaFindings} from '../javascript/findings.mjs'
import {CheckPanel} from './check_panel.mjs'
import {CodePanel, copyText} from './code_panel.mjs'
import {readShapes} from './description.mjs'
import {download, tabs} from './dom.mjs'
import {contactsModel} from './engine.mjs'
import {FramePanel} from './frame_panel.mjs'
import {maxOf, minOf} from './geometry.mjs'
import {InertiaPanel} from './inertia_panel.mjs'
import {LoadPanel} from './load_panel.mjs'
import {Markers} from './markers.mjs'
import {MeshReader} from './meshes.mjs'
import {MovePanel} from './move_panel.mjs'
import {baseHeight, choosePosture, findFeet, findLegs, lowestPoint} from './posture.mjs'
import {Puller} from './pulling.mjs'
import {Robot} from './robot.mjs'
import {baseName} from './robot_files.mjs'
import {RobotScene} from './robot_scene.mjs'
import {Picture} from './scene.mjs'
import {ShowPanel} from './show_panel.mjs'
import {Simulation} from './simulation.mjs'
import {EARTH, REFERENCES} from './state.mjs'
import {TorquePanel} from './torque_panel.mjs'

const NOTICE_TIME = 10_000 // ms
const EMBED_MARGIN = 0.2 // of arrows at the chosen frame / reach
const PANEL_INTERVAL = 60 // ms; numbers change no faster while the robot moves
const ANNOUNCE_INTERVAL = 1000 // ms; for screen readers
const TOOL_NAME = /(^|[^a-z])(tool0?|tcp|ee)([^a-z]|$)/i // also hand_tcp, ee_link
const MIN_MASS_FRACTION = 0.005 // joints that carry less, such as fingers, are minor

/** The page of one robot at a time. */
export class Page {
  /** `place` has the elements of index.html by their id. */
  constructor(library, state, place) {
    Object.assign(this, {library, state, place})
    this.feet = []
    this.highlighted = null
    this.picture = new Picture(place.canvas, seconds => this.advance(seconds))
    this.puller = new Puller(this)
    state.onChange(names => this.handleChanges(names))
  }

  /** Make the panels around the picture. */
  makePanels() {
    const panels = {
      Move: new MovePanel(this),
      Load: new LoadPanel(this),
      Show: new ShowPanel(this),
      Check: new CheckPanel(this),
      Torques: new TorquePanel(this),
      Inertia: new InertiaPanel(this),
      Frame: new FramePanel(this),
      Code: new CodePanel(this)
    }
    Object.assign(this, {
      move: panels.Move,
      load: panels.Load,
      show: panels.Show,
      check: panels.Check,
      torques: panels.Torques,
      inertia: panels.Inertia,
      frames: panels.Frame,
      code: panels.Code
    })
    const group = (label, names) =>
      tabs(
        label,
        names.map(name => [name, panels[name].node])
      )
    this.left = group('Controls', ['Move', 'Load', 'Show', 'Check'])
    this.right = group('Numbers', ['Torques', 'Inertia', 'Frame', 'Code'])
    this.right.list.addEventListener('choose', () => this.robot && this.updatePanels(true))
    this.place.left.append(this.left)
    this.place.right.append(this.right)
    this.hasPanels = true
  }

  /** Show how many findings the tab Check has. */
  setBadge(count) {
    const tab = this.left.list.children[3]
    tab.textContent = count ? `Check (${count})` : 'Check'
    tab.classList.toggle('warned', count > 0)
  }

  // --- opening

  /**
   * Open a robot: `source` has its `files`; `path`, `text` and `name` of its description; of robots
   * of the page, their `root` joint and the `shownPath` in code; and `onShown`, to be called when
   * it is shown. `wanted` are values of the state to start with. Throw an error, and keep the
   * present robot, if it cannot be used.
   */
  async open(source, wanted = {}) {
    const serial = (this.serial = (this.serial ?? 0) + 1)
    const fixed = await Robot.open(this.library, source.text)
    const {shapes, problems} = readShapes(source.text)
    if (serial !== this.serial) return
    const previous = this.robot && {source: this.opened, wanted: this.present()}
    try {
      await this.replaceRobot(source, fixed, {shapes, problems}, wanted)
    } catch (error) {
      if (serial === this.serial) await this.restore(previous)
      throw error
    }
  }

  async replaceRobot(source, fixed, {shapes, problems}, wanted) {
    const {files, path, text, name} = source
    this.meshesLoaded = false
    this.failures = []
    this.highlighted = null
    this.closeRobot()
    Object.assign(this, {opened: source, text, shapes, reader: new MeshReader(files, path)})
    this.hasShapes = shapes.length > 0
    this.usualRoot = source.root ?? ''
    this.robotPath = source.shownPath ?? baseName(path)
    this.title = name
    this.problems = problems
    await this.showRobot(fixed, {q: null, v: null, frame: '', carrier: '', root: '', ...wanted})
    const {scene} = this
    source.onShown?.()
    const failures = []
    await scene.add(shapes, this.reader, (shape, reason) => failures.push([shape, reason]))
    if (scene !== this.scene) return
    this.failures = failures
    await this.arrange(this.changes())
    this.announceFailures()
    this.meshesLoaded = true
  }

  /** Show the robot again that was shown before another one failed; nothing, if it fails too. */
  async restore(previous) {
    this.closeRobot()
    this.robot = null
    this.title = ''
    try {
      if (previous) await this.open(previous.source, previous.wanted)
    } catch {
      // the page stays empty
    }
  }

  /** Return the values of the state with which the present robot can be opened again. */
  present() {
    const {values} = this.state
    if (this.arranged?.robot !== this.robot) return {...values}
    const camera = this.picture.isMoved ? this.picture.view : null
    return {...values, q: Array.from(this.q), v: Array.from(this.v), camera}
  }

  closeRobot() {
    this.reader?.close()
    this.scene?.remove()
    this.markers?.remove()
    this.scene = this.markers = this.simulation = this.terms = null
    this.isMoving = false
    clearTimeout(this.announcing)
    this.puller.release()
  }

  /** Show a model with the primitives of its shapes; meshes follow. */
  async showRobot(robot, wanted) {
    Object.assign(this.state.values, wanted)
    this.robot = robot
    this.scene = new RobotScene(robot.model.frames, robot.model.joints)
    const primitives = this.shapes.filter(shape => shape.kind !== 'mesh')
    this.picture.scene.add(this.scene.object)
    await this.scene.add(primitives, this.reader, () => {})
    this.shapes = this.shapes.filter(shape => shape.kind === 'mesh')
    await this.arrange()
  }

  /**
   * Choose base, posture and camera, with the shapes that are known. `changes` are what the user
   * has changed, as `changes` returns it.
   */
  async arrange(changes = null) {
    const {values} = this.state
    const {robot, scene} = this
    const turn = (this.turn = (this.turn ?? 0) + 1)
    const isStale = () => scene !== this.scene || turn !== this.turn
    this.simulation = null // of another model
    this.legs = findLegs(robot, scene)
    const isOwn = robot.model.joints.some(joint => joint.nv > 1)
    const root =
      values.root || this.usualRoot || (this.legs.length && !isOwn ? 'floating' : robot.root)
    if (root !== robot.root) {
      const other = await Robot.open(this.library, this.text, root)
      if (isStale()) return
      this.replaceModel(other)
    }
    this.applyLoad()
    this.markers?.remove()
    this.markers = new Markers(this.picture.scene, this.robot, scene)
    this.baseBodies = this.robot.fixedBodies()
    const posture = choosePosture(this.robot, scene, this.legs)
    const chosen = this.standing(this.normalized(Float64Array.from(posture)))
    const isGiven = values.q?.length === posture.length
    const q = isGiven ? Float64Array.from(values.q) : posture
    const {nv} = this.robot.model
    this.v = values.v?.length === nv ? Float64Array.from(values.v) : new Float64Array(nv)
    changes?.apply(this.robot, q, this.v)
    this.q = this.standing(this.normalized(q), !isGiven)
    this.placeFloor()
    const models = await this.simulationModels()
    if (isStale()) return
    this.prepareSimulation(...models)
    if (values.camera && !changes) {
      this.picture.look(values.camera)
      this.picture.isMoved = true
    } else if (!changes) this.picture.isMoved = false
    this.fitLater()
    if (this.hasPanels) this.showInPanels()
    this.handleChanges(new Set(['shapes', 'shows', 'theme']))
    this.onRobot?.()
    this.arranged = {robot: this.robot, q: chosen}
  }

  /** Return what differs from the posture that the page has chosen, and from rest. */
  changes() {
    const {robot, arranged, q, v} = this
    if (arranged?.robot !== robot) return {apply: () => {}}
    const isChanged = k => q[k] !== arranged.q[k]
    const changed = new Map(
      robot.singles.filter(({idx_q}) => isChanged(idx_q)).map(({name, idx_q}) => [name, q[idx_q]])
    )
    const speeds = new Map(robot.singles.map(({name, idx_v}) => [name, v[idx_v]]))
    const hasMoved = q.some((_, k) => isChanged(k))
    const hasSpeed = v.some(x => x !== 0)
    return {
      apply(other, positions, velocities) {
        const isSame = q.length === positions.length
        if (hasMoved && isSame) positions.set(q)
        if (hasSpeed && isSame) velocities.set(v)
        if (isSame) return
        for (const {name, idx_q, idx_v} of other.singles) {
          positions[idx_q] = changed.get(name) ?? positions[idx_q]
          if (hasSpeed) velocities[idx_v] = speeds.get(name) ?? 0
        }
      }
    }
  }

  /** Use the description with another root joint; the shapes remain. */
  replaceModel(robot) {
    this.robot = robot
    this.scene.rename(robot.model.frames, robot.model.joints)
    this.legs = findLegs(robot, this.scene)
  }

  /** Attach the base to the world in another way; joints that the user has moved stay. */
  async setRoot(root) {
    if (!this.robot) return
    const changes = this.changes()
    Object.assign(this.state.values, {q: null, v: null, root})
    await this.arrange(changes)
    this.onAddress?.()
  }

  /** Return q with unit quaternions and positions within the limits. */
  normalized(q) {
    for (const {idx_q, lower, upper} of this.robot.coordinates) {
      q[idx_q] = Math.min(Math.max(q[idx_q], lower), upper)
    }
    for (const {nv, idx_q} of this.robot.model.joints) {
      if (nv !== 6) continue
      const length = Math.hypot(...q.subarray(idx_q + 3, idx_q + 7))
      if (!(Math.abs(length - 1) < 0.1)) q.set([0, 0, 0, 1], idx_q + 3)
    }
    return this.robot.model.integrate(q, new Float64Array(this.robot.model.nv))
  }

  /** Return q with the lowest foot on the floor. */
  standing(q, isForced = true) {
    const k = this.robot.floating
    if (k < 0 || !this.legs.length || !isForced) return q
    q[this.robot.model.joints[k].idx_q + 2] -= lowestPoint(this.scene, this.robot.placements(q))
    return q
  }

  /** Return models for the simulation: without contacts, and with them, or null without feet. */
  async simulationModels() {
    const {robot, legs} = this
    const isStanding = legs.length > 0 && robot.floating >= 0
    const model = await this.library.model(robot.bytes)
    return [model, isStanding ? await contactsModel(robot.bytes) : null]
  }

  prepareSimulation(model, contacts) {
    const {robot, legs} = this
    this.feet = contacts ? findFeet(robot, this.scene, legs, robot.placements(this.q)) : []
    this.simulation = new Simulation(robot, model, contacts, this.feet, legs)
    this.simulation.motors = this.state.values.motors
    this.simulation.onFall = () => {
      const motors = this.motorsAfterFall()
      const text = 'The robot fell and was set up again.'
      const isSame = motors === this.state.values.motors
      this.endMotion(motors)
      this.say(isSame ? text : `${text} Motors is back to "hold the posture".`)
    }
    this.simulation.onStop = joint => {
      this.endMotion('hold')
      const reason = joint ? `Joint ${joint} moves almost no inertia` : 'Numbers are too large'
      this.say(`${reason}; the motion cannot be computed.`, true)
    }
    this.restart()
  }

  /** Return what the motors do after a fall: the same, unless it was they that let it fall. */
  motorsAfterFall() {
    const {motors} = this.state.values
    const isPulled = this.puller.held !== null
    return motors === 'float' && isPulled ? motors : 'hold'
  }

  /** End a motion; the motors then hold the posture, or do what else is chosen. */
  endMotion(motors) {
    this.puller.release()
    this.simulation.motors = motors
    this.state.set({motors})
    if (this.hasPanels) this.move.motors.input.value = motors
  }

  /** Let the simulation rest in the present posture. */
  restart() {
    if (!this.simulation) return
    if (this.feet.length) {
      this.feet = findFeet(this.robot, this.scene, this.legs, this.robot.placements(this.q))
      this.simulation.feet = this.feet
    }
    this.simulation.start(this.q)
    this.isMoving = this.state.values.motors === 'off' || this.puller.held !== null
  }

  showInPanels() {
    const {robot} = this
    const findings = inertiaFindings(robot.description)
    const {warnings} = robot.description
    document.title = `${this.title} – dyn_ros`
    for (const panel of [this.move, this.load, this.torques, this.inertia, this.frames]) {
      panel.showRobot(robot)
    }
    this.markers.reported = new Set(
      findings.map(
        finding =>
          robot.model.frames.find(frame => frame.is_link && frame.name === finding.link)?.joint
      )
    )
    this.check.showRobot(findings, [...warnings, ...this.problems], this.failures)
    this.show.update()
  }

  /** Say how many meshes are not shown. */
  announceFailures() {
    const count = new Set(this.failures.map(([shape]) => shape.uri)).size
    if (!count || !this.hasPanels) return
    this.say(`${count === 1 ? '1 mesh is' : `${count} meshes are`} not shown; see Check`)
  }

  // --- the chosen frames

  /** The name of the chosen frame; by default, the tip. */
  get frame() {
    return this.known(this.state.values.frame) ?? this.tip
  }

  /** The index of the chosen frame: of a link, if a joint has the same name. */
  get frameIndex() {
    return this.robot.model.frame_index(this.frame)
  }

  /** The name of the frame that carries the payload. */
  get carrier() {
    const name = this.known(this.state.values.carrier)
    return name ?? this.tip
  }

  known(name) {
    return this.robot.model.frames.some(frame => frame.name === name) ? name : null
  }

  /**
   * The last of the links that most joints move: of those that are named as tools, or of an arm
   * of a robot with legs and arms. Minor joints do not count.
   */
  get tip() {
    if (this.tipOf !== this.robot) {
      this.tipOf = this.robot
      this.tipName = this.findTip()
    }
    return this.tipName
  }

  findTip() {
    const {robot} = this
    const {joints} = robot.model
    const carried = robot.bodies().map(body => body.mass)
    for (let k = joints.length - 1; k >= 0; k--) {
      if (joints[k].parent >= 0) carried[joints[k].parent] += carried[k]
    }
    const least = MIN_MASS_FRACTION * robot.model.total_mass()
    const isMajor = k => joints[k].nv === 1 && carried[k] >= least
    const isLeg = new Set(this.legs.flat())
    const chains = robot.links.map(({name, index}) => ({name, chain: robot.chainOf(index)}))
    const moving = chains.filter(({chain}) => chain.length)
    const arms = moving.filter(({chain}) => chain.length > 2 && !chain.some(k => isLeg.has(k)))
    const tools = moving.filter(({name}) => TOOL_NAME.test(name))
    const candidates = [tools, arms].find(links => links.length) ?? moving
    const depths = candidates.map(({chain}) => chain.filter(isMajor).length)
    return candidates[depths.lastIndexOf(maxOf(depths))]?.name ?? robot.links[0].name
  }

  jacobian(q, frame, reference = REFERENCES.indexOf(this.state.values.reference)) {
    const {model} = this.robot
    if (model.frames[frame].joint < 0) return new Float64Array(6 * model.nv)
    return model.frame_jacobian(q, frame, reference).frame_jacobian
  }

  // --- changes

  handleChanges(names) {
    if (!this.robot) return
    const {values} = this.state
    const has = (...some) => some.some(name => names.has(name))
    if (has('payload', 'carrier', 'gravity')) {
      this.applyLoad()
      this.simulation?.hold(this.q)
      this.load?.update()
    }
    if (has('shapes')) this.scene.show(values.shapes)
    if (has('shows')) this.scene.makeTransparent(values.shows.includes('transparent'))
    if (has('slider', 'degrees') && this.hasPanels) this.move.build()
    if (has('theme')) this.paint()
    if (this.hasPanels) this.show.update()
    this.redraw()
  }

  applyLoad() {
    const {gravity, payload} = this.state.values
    const {robot} = this
    robot.model.set_gravity(gravity)
    robot.setPayload(robot.model.frame_index(this.carrier), payload)
  }

  /** Use the light or the dark theme. */
  paint() {
    const {theme} = this.state.values
    const isDark =
      theme === 'dark' || (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches)
    document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
    this.picture.paint(isDark)
  }

  /** Set a position or a velocity. */
  setCoordinate({idx_q, idx_v, lower, upper}, x, isVelocity) {
    if (!this.markers) return
    if (isVelocity) this.v[idx_v] = x
    else {
      this.q[idx_q] = Math.min(Math.max(x, lower), upper)
      this.q = this.standing(this.q)
      this.restart()
    }
    if (
      !this.picture.isMoved &&
      !this.picture.sees(this.scene.pointsAt(this.robot.placements(this.q)))
    ) {
      this.fitLater()
    }
    this.redraw()
  }

  /** Return to the posture that the page chooses, or to zero. */
  resetPose(isZero = false) {
    if (!this.markers) return
    this.q = this.standing(
      isZero ? this.robot.zero : choosePosture(this.robot, this.scene, this.legs)
    )
    this.v = new Float64Array(this.robot.model.nv)
    this.restart()
    if (!this.picture.isMoved) this.fitLater()
    this.redraw()
  }

  setMotors(motors) {
    this.state.set({motors})
    if (!this.simulation) return
    this.simulation.motors = motors
    if (motors === 'hold') this.simulation.hold(this.q)
    else this.wake()
    this.redraw()
  }

  highlight(link) {
    this.highlighted = this.robot.links.find(({name}) => name === link)?.index ?? null
    this.scene.highlight(link)
    this.picture.draw()
  }

  // --- motion

  /** Let the robot move until it rests. */
  wake() {
    if (!this.simulation) return
    if (!this.isMoving) {
      this.simulation.q = Float64Array.from(this.q)
      this.simulation.v = new Float64Array(this.robot.model.nv)
      this.isMoving = true
    }
    this.picture.draw()
  }

  /** Advance the simulation by a time [s], and draw the markers; return true while it moves. */
  advance(seconds) {
    if (!this.robot || !this.simulation) return false
    if (this.isMoving && seconds > 0) {
      const {simulation} = this
      this.puller.update()
      const isMoving = simulation.advance(seconds)
      this.q = simulation.q
      this.v = simulation.v
      if (!isMoving) this.settle()
    }
    this.drawState()
    return this.isMoving
  }

  /** End a motion in the posture that the motors hold. */
  settle() {
    if (this.simulation.motors === 'hold') this.q = this.simulation.restingPosture()
    this.v = new Float64Array(this.robot.model.nv)
    this.isMoving = false
    this.isChanged = true
    this.onAddress?.()
  }

  /** Draw the state and show its numbers soon. */
  redraw() {
    this.isChanged = true
    this.picture.draw()
    if (!this.isMoving) this.onAddress?.()
  }

  drawState() {
    this.terms = this.robot.terms(this.q, this.v)
    if (!this.hasMarked) performance.mark('first torques')
    this.hasMarked = true
    this.scene.move(this.terms.oMf)
    this.drawMarkers()
    this.updatePanels()
  }

  /** Which torques are shown; by default, those of the motors of a robot that moves or stands. */
  get source() {
    const usual = this.feet.length || this.isMoving ? 'motors' : 'gravity'
    return this.state.values.source || usual
  }

  get shownTorques() {
    if (this.source === 'gravity') return this.terms.g
    return this.source === 'nle' ? this.terms.nle : (this.simulation?.effort ?? this.terms.g)
  }

  drawMarkers() {
    const {markers, robot, terms} = this
    const {shows, inertia, gravity} = this.state.values
    markers.begin(terms.oMf)
    if (shows.includes('torques')) markers.torques(this.shownTorques)
    if (shows.includes('com')) markers.centerOfMass(this.wholeCenter())
    if (shows.includes('bodies')) markers.bodyCenters(this.bodies(), this.wholeMass())
    if (inertia !== 'none') markers.inertias(this.bodies(), inertia === 'boxes')
    if (shows.includes('frames')) markers.frames()
    if (shows.includes('axes')) markers.axes()
    if (shows.includes('ellipsoid')) {
      const k = this.frameIndex
      markers.velocityEllipsoid(k, this.jacobian(this.q, k, LOCAL_WORLD_ALIGNED), robot.model.nv)
      markers.frames([k], 1.3)
    }
    if (robot.payload) markers.payload(robot.payload)
    if (this.highlighted !== null) markers.mark(this.highlighted)
    if (String(gravity) !== String(EARTH)) markers.gravity(gravity, this.wholeCenter())
    this.puller.draw(markers)
    this.drawMore?.(markers)
    markers.end()
  }

  /** Return all bodies with the frames in which they are expressed. */
  bodies() {
    const moving = this.robot
      .bodies()
      .map((body, joint) => ({...body, joint, frame: this.robot.model.joints[joint].frame}))
    return [...this.baseBodies, ...moving]
  }

  wholeMass() {
    return this.bodies().reduce((sum, body) => sum + Math.max(body.mass, 0), 0)
  }

  /** Return the center of mass of all bodies, the base included. */
  wholeCenter() {
    const {oMf, com, mass} = this.terms
    let total = Math.max(mass, 0)
    const sum = Array.from(com, x => x * total)
    for (const {frame, com: own, mass: m} of this.baseBodies) {
      const X = oMf.subarray(16 * frame, 16 * frame + 12)
      total += m
      for (let i = 0; i < 3; i++) {
        sum[i] +=
          m * (X[4 * i] * own[0] + X[4 * i + 1] * own[1] + X[4 * i + 2] * own[2] + X[4 * i + 3])
      }
    }
    return total > 0 ? sum.map(x => x / total) : [0, 0, 0]
  }

  /** Show the numbers of the state, but not too often while the robot moves. */
  updatePanels(isForced = false) {
    if (!this.hasPanels || !this.terms || !this.simulation) return
    const now = performance.now()
    if (!isForced && this.isMoving && now - (this.updated ?? 0) < PANEL_INTERVAL) return
    this.updated = now
    this.move.update()
    this.torques.update(this.shownTorques)
    if (this.right.isShown(this.inertia.node)) this.inertia.update(this.terms)
    if (this.right.isShown(this.frames.node)) this.frames.update(this.terms)
    if (this.right.isShown(this.code.node) && !this.isMoving) this.code.update()
    this.announce(now)
  }

  /** Announce torques after a change, and now and then during a motion. */
  announce(now) {
    const say = () => this.torques.announce(this.shownTorques)
    if (this.isMoving) {
      if (now - (this.announced ?? 0) < ANNOUNCE_INTERVAL) return
      this.announced = now
      say()
    } else if (this.isChanged) {
      this.isChanged = false
      clearTimeout(this.announcing)
      this.announcing = setTimeout(say, 800)
    }
  }

  // --- camera

  placeFloor() {
    const {robot, scene} = this
    const oMf = robot.placements(this.q)
    const points = scene.pointsAt(oMf)
    const isFloating = robot.model.joints.some(joint => joint.nv > 1)
    const base = isFloating ? lowestPoint(scene, oMf) : baseHeight(robot, scene)
    const lowest = minOf(points.map(point => point[2]))
    const height = this.legs.length && robot.floating < 0 ? lowest : Math.min(base, lowest)
    const ends = [0, 1, 2].map(k => {
      const values = points.map(point => point[k])
      return [minOf(values), maxOf(values)]
    })
    const width = Math.max(...ends.map(([a, b]) => b - a))
    this.picture.floor.place(
      ends.map(([a, b]) => 0.5 * (a + b)),
      width,
      height
    )
  }

  /** Show the robot and its arrows, unless the user has moved the camera. */
  fitLater() {
    const oMf = this.robot.placements(this.q)
    const points = this.scene.pointsAt(oMf)
    const margin = 0.12 // m; torque arcs
    for (const {joint} of this.robot.singles) {
      const {frame} = this.robot.model.joints[joint]
      const [x, y, z] = [oMf[16 * frame + 3], oMf[16 * frame + 7], oMf[16 * frame + 11]]
      for (const d of [-margin, margin]) points.push([x + d, y, z], [x, y + d, z], [x, y, z + d])
    }
    if (['frames', 'constraint'].includes(this.state.values.embed)) {
      const k = this.frameIndex
      const size = EMBED_MARGIN * this.markers.reach
      const place = [3, 7, 11].map(i => oMf[16 * k + i])
      for (const axis of [0, 1, 2]) {
        for (const d of [-size, size]) points.push(place.map((x, i) => x + (i === axis ? d : 0)))
      }
    }
    this.picture.show(points)
  }

  // --- output

  /** Say something short above the picture. */
  say(text, isError = false) {
    const {notice} = this.place
    notice.textContent = text
    notice.classList.toggle('error', isError)
    notice.hidden = !text
    clearTimeout(this.hiding)
    if (!isError) this.hiding = setTimeout(() => (notice.hidden = true), NOTICE_TIME)
  }

  async savePicture() {
    download(await this.picture.png(), `${fileName(this.title)}.png`)
  }

  saveNumbers() {
    if (!this.simulation || !this.terms) return
    const text = JSON.stringify(
      this.numbers(),
      (_, x) => (x instanceof Float64Array ? Array.from(x) : x),
      1
    )
    download(new Blob([text], {type: 'application/json'}), `${fileName(this.title)}.json`)
  }

  /** Return all numbers of the state by name, as saved to JSON. */
  numbers() {
    const {robot, q, v, terms} = this
    const {model} = robot
    const {values} = this.state
    const frame = this.frameIndex
    const rows = (flat, n) =>
      Array.from({length: flat.length / n}, (_, i) => Array.from(flat.subarray(n * i, n * i + n)))
    const J = this.jacobian(q, frame)
    return {
      robot: this.title,
      root_joint: robot.root,
      position_names: model.position_names,
      velocity_names: model.velocity_names,
      q,
      v,
      gravity: values.gravity,
      payload: robot.payload && {...robot.payload, frame: this.carrier},
      generalized_gravity: terms.g,
      nonlinear_effects: terms.nle,
      motor_torques: this.simulation.effort,
      effort_limit: Array.from(model.effort_limit, finite),
      M: rows(terms.M, Math.max(model.nv, 1)),
      center_of_mass: terms.com,
      mass: terms.mass,
      kinetic_energy: terms.kinetic,
      potential_energy: terms.potential,
      frame: this.frame,
      reference_frame: values.reference,
      frame_placement: rows(terms.oMf.subarray(16 * frame, 16 * frame + 16), 4),
      frame_jacobian: Array.from({length: 6}, (_, i) =>
        Array.from({length: model.nv}, (_, k) => J[6 * k + i])
      )
    }
  }

  async copyLink(target) {
    this.onAddress?.(true)
    await copyText(location.href, target)
  }
}

const finite = x => (Number.isFinite(x) ? x : null)
const fileName = title => title.replace(/[^\w.-]+/g, '_') || 'robot'
