// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The picture of the robot: renderer, lights, floor and camera.

import {
  DirectionalLight,
  HemisphereLight,
  PerspectiveCamera,
  Raycaster,
  Scene,
  Vector2,
  Vector3,
  WebGLRenderer
} from 'three'
import {Controls} from './controls.mjs'
import {Floor} from './floor.mjs'
import {fitCamera} from './geometry.mjs'

const FIELD_OF_VIEW = 40 // degrees, vertical
const MAX_PIXEL_RATIO = 2

/** The picture in a <canvas>; drawn again only after `draw`. */
export class Picture {
  /** `beforeDraw(seconds)` is called before each frame and returns true to draw another one. */
  constructor(canvas, beforeDraw) {
    this.canvas = canvas
    this.beforeDraw = beforeDraw
    this.renderer = new WebGLRenderer({canvas, antialias: true, alpha: true})
    this.scene = new Scene()
    this.camera = new PerspectiveCamera(FIELD_OF_VIEW, 1, 0.01, 1000)
    this.camera.up.set(0, 0, 1)
    this.camera.position.set(2, 1.6, 1)
    this.floor = new Floor()
    this.scene.add(this.floor.object, ...lights())
    this.controls = new Controls(this.camera, canvas, () => {
      this.isMoved = true
      this.draw()
      this.onMove?.()
    })
    this.isMoved = false // by the user
    this.points = [[0, 0, 0]]
    canvas.addEventListener('keydown', event => this.pressKey(event))
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement)
    this.resize()
  }

  pressKey({key, ctrlKey, altKey, metaKey}) {
    if (key.toLowerCase() === 'f' && !ctrlKey && !altKey && !metaKey) this.fit()
  }

  /** Request a frame. */
  draw() {
    this.request ??= requestAnimationFrame(now => this.frame(now))
  }

  frame(now) {
    this.request = null
    const seconds = this.last && now - this.last < 500 ? (now - this.last) / 1000 : 1 / 60
    const isMoving = this.beforeDraw(seconds)
    this.last = isMoving ? now : null
    this.renderer.render(this.scene, this.camera)
    this.frames = (this.frames ?? 0) + 1
    if (isMoving) this.draw()
  }

  resize() {
    const {clientWidth: width, clientHeight: height} = this.canvas.parentElement
    if (!width || !height) return
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, MAX_PIXEL_RATIO))
    this.renderer.setSize(width, height, false)
    this.camera.aspect = width / height
    this.camera.updateProjectionMatrix()
    if (!this.isMoved) this.fit()
    this.draw()
  }

  /** Show points, unless the user has moved the camera. */
  show(points) {
    this.points = points
    if (!this.isMoved) this.fit()
  }

  /** Move the camera so that it sees the points. */
  fit() {
    const tangent = Math.tan((FIELD_OF_VIEW * Math.PI) / 360)
    const {position, target} = fitCamera(this.points, tangent, this.camera.aspect)
    this.isMoved = false
    this.look([...position, ...target])
  }

  /** Return position and target of the camera (6). */
  get view() {
    return [...this.camera.position.toArray(), ...this.controls.target.toArray()]
  }

  /** Set position and target of the camera (6). */
  look(view) {
    this.camera.position.fromArray(view)
    this.controls.target.fromArray(view, 3)
    this.controls.update()
    this.draw()
  }

  /** Return true if the camera sees all of the points. */
  sees(points) {
    this.camera.updateMatrixWorld()
    return points.every(point => {
      const {x, y} = new Vector3(...point).project(this.camera)
      return Math.abs(x) < 1 && Math.abs(y) < 1
    })
  }

  /** Use the colors of the light or the dark theme. */
  paint(isDark) {
    this.floor.paint(isDark)
    this.draw()
  }

  /** Return the ray at a pointer event, as a Raycaster. */
  rayAt(event) {
    const {left, top, width, height} = this.canvas.getBoundingClientRect()
    const x = (2 * (event.clientX - left)) / width - 1
    const y = 1 - (2 * (event.clientY - top)) / height
    const ray = new Raycaster()
    ray.setFromCamera(new Vector2(x, y), this.camera)
    return ray
  }

  /** Return the picture as a PNG file. */
  async png() {
    this.beforeDraw(0)
    this.renderer.render(this.scene, this.camera)
    const {width, height} = this.canvas
    const copy = Object.assign(document.createElement('canvas'), {width, height})
    const context = copy.getContext('2d')
    const style = getComputedStyle(this.canvas)
    const sky = context.createLinearGradient(0, 0, 0, height)
    sky.addColorStop(0, style.getPropertyValue('--sky'))
    sky.addColorStop(1, style.getPropertyValue('--horizon'))
    context.fillStyle = sky
    context.fillRect(0, 0, width, height)
    context.drawImage(this.canvas, 0, 0)
    return new Promise(resolve => copy.toBlob(resolve, 'image/png'))
  }
}

function lights() {
  const sky = new HemisphereLight(0xf0f0ff, 0x7a7a8c, 2.9)
  sky.position.set(0, 0, 1)
  return [sky, sun(1.2, [3, 4, 8]), sun(0.5, [-4, -3, 2])]
}

function sun(intensity, position) {
  const light = new DirectionalLight(0xffffff, intensity)
  light.position.set(...position)
  return light
}
