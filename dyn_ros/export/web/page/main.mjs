// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Starts the page: reads its address, loads a robot, and receives dropped files.

import {readAddress, writeAddress} from './address.mjs'
import {element, ended} from './dom.mjs'
import {Embed} from './embed.mjs'
import {loadEngine} from './engine.mjs'
import {Page} from './page.mjs'
import {
  FileError,
  RobotFiles,
  baseName,
  explainMissing,
  filesOfDrop,
  filesOfInput
} from './robot_files.mjs'
import {loadScript, unpack} from './scripts.mjs'
import {State} from './state.mjs'

const ADDRESS_DELAY = 300 // ms
const OWN = 'file:' // before the paths of the user's files
const MAX_DESCRIPTIONS = 200 // of one folder, to choose from
let shown = '' // the option of the robot that is shown
const byId = id => document.getElementById(id)
const place = Object.fromEntries(
  ['canvas', 'left', 'right', 'notice', 'pull', 'robots', 'file', 'folder', 'fit', 'embed'].map(
    id => [id, byId(id)]
  )
)

/** Error of an XML file that is not a robot. */
class NoRobotError extends FileError {}

async function start() {
  const names = Array.from(place.robots.options, option => option.value)
  const address = new State(readAddress(location.hash)).values
  const {robot, file, theme, embed} = address
  const isMissing = !names.includes(robot) && (robot || file)
  const state = new State(isMissing ? {theme, embed} : address)
  const {values} = state
  document.body.classList.toggle('embedded', values.embed !== '')
  const page = new Page(await loadEngine(), state, place)
  if (values.embed) page.embed = new Embed(page, values.embed, place.embed)
  else page.makePanels()
  page.paint()
  keepAddress(page)
  receiveFiles(page)
  place.robots.addEventListener('change', () => {
    const {value} = place.robots
    if (value.startsWith(OWN)) openOwn(page, value.slice(OWN.length))
    else openShipped(page, value)
  })
  place.fit.addEventListener('click', () => page.picture.fit())
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () =>
    page.handleChanges(new Set(['theme']))
  )
  addEventListener('hashchange', () => applyAddress(page, names))
  globalThis.dynRosPage = page
  await openFirst(page, names, address)
}

/** Open the robot of an address, or the first one, until the address's file is dropped. */
async function openFirst(page, names, {robot, file, ...wanted}) {
  const isKnown = names.includes(robot)
  await openShipped(page, isKnown ? robot : names[0], isKnown ? wanted : {})
  if (!isKnown && (robot || file)) awaitFile(page, {robot, file, wanted})
}

/** Say which robot or file a link shows, which the page does not have. */
function awaitFile(page, {robot, file, wanted}) {
  page.awaited = {file, wanted}
  page.say(
    robot
      ? `"${robot}" is not on this page; choose another robot, or drop its URDF.`
      : `This link shows "${file}"; drop this file to see it.`
  )
}

/** Open a robot of the page. */
async function openShipped(page, name, wanted = {}) {
  try {
    const {urdf, files, root, path} = await loadScript(`robots/${name}`)
    const entries = await Promise.all(
      Object.entries(files).map(async ([path, content]) => [
        path,
        new Blob([await unpack(content)])
      ])
    )
    page.say('')
    const source = {
      files: new RobotFiles(entries),
      path: `${name}.urdf`,
      text: urdf,
      name,
      root,
      shownPath: path,
      onShown: () => choose(name)
    }
    await page.open(source, {file: '', ...wanted, robot: name})
  } catch (error) {
    report(page, name, error)
  }
}

/** Open the first of the user's files that is a robot which can be shown. */
async function openFiles(page, entries) {
  const files = new RobotFiles(entries)
  const paths = files.descriptions()
  page.say('')
  const failures = []
  for (const path of paths.slice(0, MAX_DESCRIPTIONS)) {
    try {
      await openDescription(page, files, path, () => showOwn(page, files, paths, path))
      return
    } catch (error) {
      failures.push([path, error])
    }
  }
  const missing = new FileError(explainMissing(files))
  const isRobot = ([, error]) => !(error instanceof NoRobotError)
  const [path, error] = failures.find(isRobot) ?? failures[0] ?? ['The files', missing]
  report(page, baseName(path), error)
}

/** Open a description of the user's files; `onShown` is called when it is shown. */
async function openDescription(page, files, path, onShown) {
  const text = await files.readDescription(path)
  if (!/<([\w-]+:)?robot[\s>]/.test(text)) {
    throw new NoRobotError('it has no <robot>; drop a URDF')
  }
  const name = baseName(path)
  const wanted = page.awaited?.file === name ? page.awaited.wanted : {}
  await page.open({files, path, text, name, onShown}, {...wanted, robot: '', file: name})
}

/** Offer the descriptions of the user's files among the robots. */
function showOwn(page, files, paths, chosen) {
  const folder = commonFolder(paths)
  const group = element(
    'optgroup',
    {label: 'My files'},
    paths
      .slice(0, MAX_DESCRIPTIONS)
      .map(path => element('option', {value: OWN + path, text: path.slice(folder.length)}))
  )
  place.robots.querySelector('optgroup')?.remove()
  place.robots.append(group)
  page.ownFiles = files
  choose(OWN + chosen)
}

/** Open another description of the user's files. */
async function openOwn(page, path) {
  const name = baseName(path)
  try {
    page.say('')
    await openDescription(page, page.ownFiles, path, () => choose(OWN + path))
  } catch (error) {
    report(page, name, error)
  }
}

/** Choose the option of the robot that is shown. */
function choose(option) {
  shown = option
  place.robots.value = option
}

function commonFolder(paths) {
  const [first] = paths
  let length = first.lastIndexOf('/') + 1
  while (length && !paths.every(path => path.startsWith(first.slice(0, length)))) {
    length = first.lastIndexOf('/', length - 2) + 1
  }
  return first.slice(0, length)
}

function report(page, name, error) {
  place.robots.value = shown
  page.say(`${name} cannot be shown: ${ended(error.message)}`, true)
}

function receiveFiles(page) {
  for (const [input, trigger] of [
    [place.file, 'open-file'],
    [place.folder, 'open-folder']
  ]) {
    byId(trigger).addEventListener('click', () => input.click())
    input.addEventListener('change', () => {
      openFiles(page, filesOfInput(input.files))
      input.value = ''
    })
  }
  const hint = byId('drop')
  let depth = 0
  const showHint = isShown => {
    hint.hidden = !isShown
  }
  addEventListener('dragenter', event => {
    event.preventDefault()
    depth++
    showHint(true)
  })
  addEventListener('dragleave', () => {
    depth = Math.max(0, depth - 1)
    showHint(depth > 0)
  })
  addEventListener('dragover', event => event.preventDefault())
  addEventListener('drop', async event => {
    event.preventDefault()
    depth = 0
    showHint(false)
    try {
      const entries = await filesOfDrop(event.dataTransfer)
      if (entries.length) await openFiles(page, entries)
    } catch (error) {
      report(page, 'The folder', error)
    }
  })
}

/** Write the state to the address after changes. */
function keepAddress(page) {
  let timer = null
  const write = () => {
    const {values} = page.state
    const hash = writeAddress({
      ...values,
      q: page.q,
      v: page.v,
      camera: page.picture.isMoved ? page.picture.view : null
    })
    page.address = `#${hash}`
    try {
      history.replaceState(null, '', page.address)
    } catch {
      location.replace(page.address)
    }
  }
  page.onAddress = isNow => {
    clearTimeout(timer)
    if (isNow) write()
    else timer = setTimeout(write, ADDRESS_DELAY)
  }
  page.picture.onMove = () => page.picture.isMoved && page.robot && page.onAddress()
}

async function applyAddress(page, names) {
  if (location.hash === page.address) return
  const values = readAddress(location.hash)
  if ((values.embed ?? '') !== page.state.values.embed) return location.reload()
  const fresh = new State(values).values
  const {robot, file, ...wanted} = fresh
  if (!names.includes(robot) && (robot || file !== page.state.values.file)) {
    return awaitFile(page, {robot, file, wanted})
  }
  Object.assign(page.state.values, fresh)
  if (robot || !page.robot) await openShipped(page, robot || names[0], values)
  else await page.arrange()
}

start().catch(error => {
  place.notice.hidden = false
  place.notice.classList.add('error')
  place.notice.textContent =
    `The page cannot start: ${ended(error.message)} It needs WebGL and ` +
    'WebAssembly, as in Chrome 91, Firefox 113, Safari 16.4 or later.'
})
