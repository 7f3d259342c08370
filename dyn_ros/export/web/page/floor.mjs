// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The floor with its grid, in the colors of dyn_ros/viewer/scene/floor.py.

import {Color, Mesh, PlaneGeometry, ShaderMaterial} from 'three'

const COLORS = {
  light: {horizon: 0xecf0f5, floor: 0xdee4eb, cell: 0xccd4dd, section: 0xb7c1cd},
  dark: {horizon: 0x343b48, floor: 0x485261, cell: 0x566171, section: 0x6c7889}
}

const VERTEX = `
varying vec3 place;
void main() {
  place = (modelMatrix * vec4(position, 1.0)).xyz;
  gl_Position = projectionMatrix * viewMatrix * vec4(place, 1.0);
}`
const FRAGMENT = `
uniform vec3 floorColor, cellColor, sectionColor, horizonColor, middle;
uniform float section, extent;
varying vec3 place;
float line(float size, float width) {
  vec2 x = place.xy / size, slope = fwidth(x);
  vec2 near = abs(fract(x - 0.5) - 0.5) / max(slope, 1e-6);
  float visible = 1.0 - smoothstep(0.3, 1.0, max(slope.x, slope.y));
  return visible * (1.0 - min(min(near.x, near.y) / width, 1.0));
}
void main() {
  float away = distance(place.xy, middle.xy);
  float fade = pow(clamp(1.0 - away / (6.0 * extent), 0.0, 1.0), 1.5);
  vec3 color = mix(floorColor, cellColor, line(0.1 * section, 0.8) * fade);
  color = mix(color, sectionColor, line(section, 1.2) * fade);
  float fog = smoothstep(8.0 * extent, 18.0 * extent, distance(place, cameraPosition));
  gl_FragColor = vec4(mix(color, horizonColor, fog), 1.0);
}`

/** The floor, a plane of `object`. */
export class Floor {
  constructor() {
    const names = ['floorColor', 'cellColor', 'sectionColor', 'horizonColor']
    this.uniforms = {
      ...Object.fromEntries(names.map(name => [name, {value: new Color()}])),
      middle: {value: [0, 0, 0]},
      section: {value: 1},
      extent: {value: 1}
    }
    const material = new ShaderMaterial({
      vertexShader: VERTEX,
      fragmentShader: FRAGMENT,
      uniforms: this.uniforms
    })
    this.object = new Mesh(new PlaneGeometry(1, 1), material)
    this.object.renderOrder = -1
  }

  /** Use the colors of the light or the dark theme. */
  paint(isDark) {
    const colors = isDark ? COLORS.dark : COLORS.light
    for (const [name, color] of Object.entries(colors)) {
      this.uniforms[`${name}Color`].value.setHex(color, '')
    }
  }

  /** Place the floor below points around a center, of a width [m], at a height [m]. */
  place([x, y], width, height) {
    const extent = 2 ** Math.round(Math.log2(Math.max(width, 0.01)))
    const section = 10 ** Math.round(Math.log10(Math.max(width, 0.01)) - 0.3)
    this.uniforms.section.value = section
    this.uniforms.extent.value = extent
    this.uniforms.middle.value = [x, y, height]
    this.object.position.set(
      section * Math.round(x / section),
      section * Math.round(y / section),
      height
    )
    this.object.scale.setScalar(80 * extent)
  }
}
