// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Turning, moving and zooming the camera with the mouse, fingers and keys.

import {Spherical, Vector3} from 'three'

const KEY_STEP = 0.1 // rad
const WHEEL_RATE = 1.2e-3 // logarithm of the distance, per pixel
const MAX_WHEEL = 240 // pixels of one event
const KEYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]}
const ZOOM_KEYS = {'+': 0.9, '=': 0.9, '-': 1 / 0.9}

/** Moves a camera around a target, with z up. */
export class Controls {
  /** `changed()` is called after the user has moved the camera. */
  constructor(camera, canvas, changed) {
    Object.assign(this, {camera, canvas, changed, enabled: true})
    this.scrolls = true // false: only while the canvas has the focus
    this.target = new Vector3()
    this.pointers = new Map() // by id: x and y [px]
    canvas.addEventListener('pointerdown', event => this.press(event))
    canvas.addEventListener('pointermove', event => this.move(event))
    for (const name of ['pointerup', 'pointercancel']) {
      canvas.addEventListener(name, event => this.pointers.delete(event.pointerId))
    }
    canvas.addEventListener('wheel', event => this.scroll(event), {passive: false})
    canvas.addEventListener('contextmenu', event => event.preventDefault())
    canvas.addEventListener('keydown', event => this.pressKey(event))
  }

  press(event) {
    if (!this.enabled) return
    this.pointers.set(event.pointerId, [event.clientX, event.clientY])
    try {
      this.canvas.setPointerCapture(event.pointerId)
    } catch {
      // a pointer that has already gone
    }
  }

  move(event) {
    const last = this.pointers.get(event.pointerId)
    if (!last || !this.enabled) return
    const place = [event.clientX, event.clientY]
    const before = this.gesture()
    this.pointers.set(event.pointerId, place)
    const after = this.gesture()
    const [dx, dy] = [0, 1].map(k => after.middle[k] - before.middle[k])
    const isPan = this.pointers.size > 1 || event.buttons & 6 || event.shiftKey
    if (this.pointers.size > 1) this.zoom(before.span / Math.max(after.span, 1))
    if (isPan) this.pan(dx, dy)
    else this.turn(dx, dy)
    this.changed()
  }

  /** Return the middle of the pointers, and their distance. */
  gesture() {
    const places = [...this.pointers.values()]
    const middle = [0, 1].map(k => places.reduce((sum, place) => sum + place[k], 0) / places.length)
    const span = places.length < 2 ? 1 : Math.hypot(...[0, 1].map(k => places[0][k] - places[1][k]))
    return {middle, span: Math.max(span, 1)}
  }

  scroll(event) {
    if (!this.scrolls && document.activeElement !== this.canvas) return
    event.preventDefault()
    if (!this.enabled) return
    const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : 1)
    const limited = Math.min(Math.max(pixels, -MAX_WHEEL), MAX_WHEEL)
    this.zoom(Math.exp(WHEEL_RATE * limited))
    this.changed()
  }

  pressKey(event) {
    if (event.shiftKey && KEYS[event.key]) return
    if (event.ctrlKey || event.altKey || event.metaKey) return
    if (KEYS[event.key]) this.rotate(...KEYS[event.key].map(x => KEY_STEP * x))
    else if (ZOOM_KEYS[event.key]) this.zoom(ZOOM_KEYS[event.key])
    else return
    event.preventDefault()
    this.changed()
  }

  turn(dx, dy) {
    const angle = (2 * Math.PI) / this.canvas.clientHeight
    this.rotate(-angle * dx, -angle * dy)
  }

  /** Turn the camera around the target by angles [rad]. */
  rotate(left, up) {
    const {x, y, z} = this.camera.position.clone().sub(this.target)
    const spherical = new Spherical().setFromVector3(new Vector3(y, z, x)) // y is up
    spherical.theta += left
    spherical.phi += up
    const turned = new Vector3().setFromSpherical(spherical.makeSafe())
    this.camera.position.copy(this.target).add(new Vector3(turned.z, turned.x, turned.y))
    this.update()
  }

  /** Move camera and target in the plane of the screen by pixels. */
  pan(dx, dy) {
    const distance = this.camera.position.distanceTo(this.target)
    const scale =
      (2 * distance * Math.tan((this.camera.fov * Math.PI) / 360)) / this.canvas.clientHeight
    const [right, up] = [0, 1].map(k => new Vector3().setFromMatrixColumn(this.camera.matrix, k))
    const shift = right.multiplyScalar(-dx * scale).addScaledVector(up, dy * scale)
    this.camera.position.add(shift)
    this.target.add(shift)
    this.update()
  }

  /** Change the distance by a factor. */
  zoom(factor) {
    this.camera.position.sub(this.target).multiplyScalar(factor).add(this.target)
    this.update()
  }

  /** Look at the target. */
  update() {
    this.camera.lookAt(this.target)
    this.camera.updateMatrix()
    const distance = this.camera.position.distanceTo(this.target)
    this.camera.near = Math.max(distance / 200, 1e-3)
    this.camera.far = 100 * distance
    this.camera.updateProjectionMatrix()
  }
}
