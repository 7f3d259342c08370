// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// node run.mjs MODULE NAMES FILE...: compares functions with pairs of a robot and its states.

import {readFile} from 'node:fs/promises'

import {compare} from './compare.mjs'

const [module, names, ...files] = process.argv.slice(2)
const counts = []
for (let n = 0; n < files.length; n += 2) {
  const [robot, states] = await Promise.all([readFile(files[n]), readFile(files[n + 1])])
  counts.push(await compare(await readFile(module), robot, states, names.split(',')))
}
console.log(JSON.stringify(counts))
