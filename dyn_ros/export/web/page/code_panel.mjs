// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Lines that compute the same in Python, C++, JavaScript and with ros2.

import {button, element} from './dom.mjs'
import {EARTH} from './state.mjs'

/** The tab Code. */
export class CodePanel {
  constructor(page) {
    this.page = page
    this.blocks = ['Python', 'C++', 'JavaScript', 'Command line and ros2'].map(title => {
      const code = element('pre', {tabindex: 0, 'aria-label': title})
      const copy = button('Copy', () => copyText(code.textContent, copy))
      return {code, node: element('section', {class: 'code'}, element('h2', {}, title, copy), code)}
    })
    this.node = element(
      'div',
      {},
      this.blocks.map(block => block.node)
    )
  }

  update() {
    const texts = [pythonLines, cppLines, javascriptLines, shellLines].map(write => write(this.page))
    texts.forEach((text, k) => {
      if (this.blocks[k].code.textContent !== text) this.blocks[k].code.textContent = text
    })
  }
}

/** Copy a text, and say so on a button. */
export async function copyText(text, target) {
  const {textContent} = target
  try {
    await navigator.clipboard.writeText(text)
    target.textContent = 'Copied'
  } catch {
    copyBySelection(text)
    target.textContent = 'Copied'
  }
  setTimeout(() => {
    target.textContent = textContent
  }, 1500)
}

function copyBySelection(text) {
  const area = element('textarea', {class: 'visually-hidden'})
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

const numbers = values => Array.from(values, x => String(Number(x.toFixed(6)))).join(', ')
const quoted = text => JSON.stringify(text)

function pythonLines(page) {
  const {robot, q, v, state} = page
  const {payload, gravity, reference} = state.values
  const root = robot.root === 'fixed' ? '' : `, root_joint="${robot.root}"`
  const lines = [
    'import numpy as np',
    'import dyn_ros',
    '',
    `model = dyn_ros.Model.from_urdf_file(${quoted(page.robotPath)}${root})`,
    'data = dyn_ros.Data(model)'
  ]
  if (String(gravity) !== String(EARTH)) lines.push(`model.gravity = [${numbers(gravity)}]`)
  if (payload && robot.payload) {
    const {mass, com, inertia} = robot.payload
    lines.push(
      `inertia = np.diag([${numbers([inertia[0], inertia[4], inertia[8]])}])`,
      `com = [${numbers(com)}]`,
      `model.set_payload("payload", ${quoted(page.carrier)}, ${numbers([mass])}, com, inertia)`
    )
  }
  lines.push(
    `q = np.array([${numbers(q)}])`,
    `v = np.array([${numbers(v)}])`,
    '',
    'g = dyn_ros.generalized_gravity(model, data, q).copy()',
    'nle = dyn_ros.nonlinear_effects(model, data, q, v).copy()',
    'M = dyn_ros.crba(model, data, q).copy()',
    `axes = dyn_ros.ReferenceFrame.${reference}`,
    `J = dyn_ros.frame_jacobian(model, data, q, ${quoted(page.frame)}, axes)`,
    'print(g)'
  )
  return lines.join('\n')
}

function cppLines(page) {
  const {robot, q, v, state} = page
  const {payload, gravity, reference} = state.values
  const lines = [
    `// dyn_ros export --out dyn_ros_cpp`,
    `// dyn_ros export --model ${shellQuoted(page.robotPath)} --out my_robot.dynros` +
      (robot.root === 'fixed' ? '' : ` --root-joint ${robot.root}`),
    '// g++ -std=c++17 main.cpp $(PKG_CONFIG_PATH=dyn_ros_cpp/lib/pkgconfig ' +
      'pkg-config --cflags --libs dyn_ros) -Wl,-rpath,$PWD/dyn_ros_cpp/lib',
    '#include <cstdio>',
    '#include <vector>',
    '',
    '#include <dyn_ros.hpp>',
    '',
    'int main()',
    '{',
    '  dyn_ros::Model model("my_robot.dynros");'
  ]
  if (String(gravity) !== String(EARTH)) {
    lines.push(`  model.set_gravity(std::vector<double>{${numbers(gravity)}});`)
  }
  if (payload && robot.payload) {
    const {mass, com, inertia} = robot.payload
    lines.push(
      `  model.set_payload(0, model.frame(${quoted(page.carrier)}), ${numbers([mass])},`,
      `                    std::vector<double>{${numbers(com)}},`,
      `                    std::vector<double>{${numbers(inertia)}});`
    )
  }
  lines.push(
    `  std::vector<double> q{${numbers(q)}};`,
    `  std::vector<double> v{${numbers(v)}};`,
    '  dyn_ros::GeneralizedGravity gravity(model);',
    '  dyn_ros::Crba inertia(model);',
    '  dyn_ros::FrameJacobian jacobian(model);',
    `  const int frame = model.frame(${quoted(page.frame)});`,
    '',
    ...checked('gravity(q)'),
    ...checked('inertia(q)'),
    ...checked(`jacobian(q, frame, DYN_ROS_${reference})`),
    '  for (double torque : gravity.g()) std::printf("%g\\n", torque);',
    '}'
  )
  return lines.join('\n')
}

/** Return lines of C++ that call a function and end the program if it fails. */
const checked = call => [
  `  if (int error = ${call}) {`,
  '    std::puts(dyn_ros_error_text(error));',
  '    return 1;',
  '  }'
]

function javascriptLines(page) {
  const {robot, q, v, state} = page
  const {payload, gravity, reference} = state.values
  const root = robot.root === 'fixed' ? '' : `, {rootJoint: '${robot.root}'}`
  const frame = quoted(page.frame)
  const lines = [
    '// main.mjs; dyn_ros export --target wasm32 --out dyn_ros_web',
    "import {readFile} from 'node:fs/promises'",
    `import {${reference}, load} from './dyn_ros_web/dyn_ros.mjs'`,
    "import {readUrdf} from './dyn_ros_web/urdf.mjs'",
    '',
    "const library = await load(readFile('dyn_ros_web/dyn_ros.wasm'))",
    `const urdf = await readFile(${quoted(page.robotPath)}, 'utf8')`,
    `const model = await library.model(readUrdf(urdf${root}).bytes)`
  ]
  if (String(gravity) !== String(EARTH)) lines.push(`model.set_gravity([${numbers(gravity)}])`)
  if (payload && robot.payload) {
    const {mass, com, inertia} = robot.payload
    lines.push(
      `const inertia = [${numbers(inertia)}]`,
      `const carrier = model.frame_index(${quoted(page.carrier)})`,
      `model.set_payload(0, carrier, ${numbers([mass])}, [${numbers(com)}], inertia)`
    )
  }
  lines.push(
    `const q = [${numbers(q)}]`,
    `const v = [${numbers(v)}]`,
    '',
    'const {g} = model.generalized_gravity(q)',
    'const {nle} = model.nonlinear_effects(q, v)',
    'const {M} = model.crba(q)',
    `const {frame_jacobian: J} = model.frame_jacobian(q, ${frame}, ${reference})`,
    'console.log(g)'
  )
  return lines.join('\n')
}

function shellLines(page) {
  const {robot, q, v, state} = page
  const path = shellQuoted(page.robotPath)
  const {gravity} = state.values
  const hasEarth = String(gravity) === String(EARTH)
  const hasNames = robot.singles.length === robot.model.nq
  const positions = hasNames
    ? robot.singles.map(({name, idx_q}) => shellQuoted(`${name}=${numbers([q[idx_q]])}`))
    : Array.from(q, x => numbers([x]))
  const options = [
    robot.root === 'fixed' ? '' : ` --root-joint ${robot.root}`,
    positions.length ? ` --q ${positions.join(' ')}` : '',
    v.some(x => x !== 0) ? ` --v ${Array.from(v, x => numbers([x])).join(' ')}` : '',
    hasEarth ? '' : ` --gravity ${gravity.map(x => numbers([x])).join(' ')}`
  ]
  return [
    ...(robot.payload ? ['# without the payload:'] : []),
    `dyn_ros torque ${path}${options.join('')}`,
    `dyn_ros check ${path}`,
    `dyn_ros view ${path}`,
    '',
    ...(hasEarth ? [] : ['# with the gravity of the Earth:']),
    `ros2 launch dyn_ros dynamics.launch.py robot_description_file:=${path}` +
      (robot.root === 'fixed' ? '' : ` root_joint:=${robot.root}`),
    'ros2 topic echo /dynamics/gravity'
  ].join('\n')
}

/** Return an argument of a shell; control characters, which would end a line, become "?". */
export function shellQuoted(argument) {
  const text = argument.replace(/[\p{Cc}\u2028\u2029]/gu, '?')
  return /^[\w=.,/+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
