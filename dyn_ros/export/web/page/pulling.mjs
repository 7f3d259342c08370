// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Pulling a link: with the pointer in the plane of the screen, or with Shift and the arrow keys.

import {Plane, Vector3} from 'three'
import {add, norm, scaled, subtract, transform} from './geometry.mjs'

const SPRING = 6 // weights of the robot / its reach; force per displacement
const MAX_FORCE = 2 // weights
const STANDING = 0.125 // these are less for a robot on legs, which would fall
const KEY_FORCE = 0.3 // weights
const MIN_MASS = 0.5 // kg
const KEYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}

/** Pulls the robot of a page. */
export class Puller {
  constructor(page) {
    this.page = page
    this.held = null // {frame, offset, plane, target}
    this.keys = new Set() // arrow keys that are down
    const {canvas} = page.picture
    canvas.addEventListener('pointerdown', event => this.grab(event), true)
    canvas.addEventListener('pointermove', event => this.follow(event), true)
    for (const name of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(name, event => this.endDrag(event), true)
    }
    canvas.addEventListener('keydown', event => this.pressKey(event))
    canvas.addEventListener('keyup', event => this.releaseKey(event))
    canvas.addEventListener('blur', () => this.releaseKey({key: 'Shift'}))
  }

  /** The force to which others are relative [N]. */
  get weight() {
    const share = this.page.feet.length ? STANDING : 1
    return share * 9.81 * Math.max(this.page.robot.model.total_mass(), MIN_MASS)
  }

  hitAt(event) {
    const {robot, scene, picture} = this.page
    if (!robot || !scene || !this.page.simulation) return null
    const hit = scene.hit(picture.rayAt(event))
    if (!hit) return null
    const chain = robot.chainOf(hit.frame)
    return chain.length ? hit : null
  }

  grab(event) {
    if (event.button !== 0 || this.held) return
    const hit = this.hitAt(event)
    if (!hit) return
    const {picture} = this.page
    const normal = picture.camera.getWorldDirection(new Vector3())
    this.hold(hit.frame, hit.point)
    this.held.plane = new Plane().setFromNormalAndCoplanarPoint(normal, new Vector3(...hit.point))
    this.held.pointer = event.pointerId
    picture.controls.enabled = false
    try {
      picture.canvas.setPointerCapture(event.pointerId)
    } catch {
      // a pointer that has already gone
    }
    event.stopImmediatePropagation()
    this.page.onPull?.(this.page.robot.model.frames[hit.frame].name)
  }

  /** Hold a link at a point of the world. */
  hold(frame, point) {
    const {oMf} = this.page.terms
    const X = oMf.subarray(16 * frame, 16 * frame + 12)
    const d = subtract(point, [X[3], X[7], X[11]])
    const offset = [0, 1, 2].map(j => X[j] * d[0] + X[4 + j] * d[1] + X[8 + j] * d[2])
    this.held = {frame, offset, target: point}
    this.page.wake()
  }

  follow(event) {
    const {canvas} = this.page.picture
    if (!this.held?.plane) {
      if (event.pointerType === 'mouse' && !event.buttons) {
        canvas.style.cursor = this.hitAt(event) ? 'grab' : ''
      }
      return
    }
    if (event.pointerId !== this.held.pointer) return
    const target = this.page.picture.rayAt(event).ray.intersectPlane(this.held.plane, new Vector3())
    if (target) this.held.target = target.toArray()
    canvas.style.cursor = 'grabbing'
    event.stopImmediatePropagation()
  }

  endDrag(event) {
    if (!this.held?.plane || event.pointerId !== this.held.pointer) return
    this.release()
    event.stopImmediatePropagation()
  }

  /** Let go. */
  release() {
    this.held = null
    this.keys.clear()
    if (this.page.simulation) this.page.simulation.pull = null
    this.page.picture.controls.enabled = true
    this.page.picture.canvas.style.cursor = ''
    this.page.place.pull.hidden = true
  }

  pressKey(event) {
    if (!event.shiftKey || !KEYS[event.key] || !this.page.terms || !this.page.simulation) return
    const {robot, terms} = this.page
    const frame = this.page.frameIndex
    if (robot.model.frames[frame].joint < 0) return
    const point = transform(terms.oMf, frame, [0, 0, 0])
    event.preventDefault()
    if (this.held?.plane) return
    this.keys.add(event.key)
    if (!this.held) this.hold(frame, point)
    this.turnToKeys()
  }

  /** Pull in the direction of the arrow keys that are down. */
  turnToKeys() {
    const {picture, markers} = this.page
    const directions = Array.from(this.keys, key => KEYS[key])
    const direction = [0, 1].map(k => directions.reduce((sum, other) => sum + other[k], 0))
    const [right, up] = [0, 1].map(k =>
      new Vector3().setFromMatrixColumn(picture.camera.matrixWorld, k).toArray()
    )
    const length = (KEY_FORCE / SPRING) * markers.reach
    this.held.vector = scaled(length, add(scaled(direction[0], right), scaled(direction[1], up)))
  }

  releaseKey(event) {
    const isPulling = this.held !== null && !this.held.plane
    if (!isPulling || !(KEYS[event.key] || event.key === 'Shift')) return
    this.keys.delete(event.key)
    if (event.key === 'Shift' || !this.keys.size) this.release()
    else this.turnToKeys()
  }

  /** Set the force on the simulated robot. */
  update() {
    const {page, held} = this
    if (!held) return
    const oMf = page.robot.placements(page.q)
    const point = transform(oMf, held.frame, held.offset)
    if (held.vector) held.target = add(point, held.vector)
    const spring = (SPRING * this.weight) / page.markers.reach
    let force = scaled(spring, subtract(held.target, point))
    const most = MAX_FORCE * this.weight
    if (norm(force) > most) force = scaled(most / norm(force), force)
    page.simulation.pull = {frame: held.frame, offset: held.offset, force}
  }

  /** Draw the pull, and its force as a number at the pointer. */
  draw(markers) {
    const {page, held} = this
    const label = page.place.pull
    label.hidden = !held
    if (!held) return
    const point = transform(page.terms.oMf, held.frame, held.offset)
    markers.pull(point, held.target)
    const force = norm(page.simulation.pull?.force ?? [0, 0, 0])
    label.textContent = `${force.toFixed(force < 10 ? 1 : 0)} N`
    const {x, y} = new Vector3(...held.target).project(page.picture.camera)
    const {clientWidth: width, clientHeight: height} = page.picture.canvas
    const [left, top] = [((x + 1) / 2) * width, ((1 - y) / 2) * height]
    const place = [Math.min(left + 12, width - 70), Math.max(top - 34, 4)]
    label.style.transform = `translate(${place[0]}px, ${place[1]}px)`
  }
}
