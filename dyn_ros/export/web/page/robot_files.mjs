// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// The files that a user drops or chooses, and how a description's paths find them.

import {readDescription} from '../javascript/urdf.mjs'

const MAX_FILES = 20000
const MAX_DESCRIPTION_SIZE = 20e6 // bytes
const DESCRIPTION = /\.(urdf|xml)$/i

/** Error of files that cannot be used; the message names the file and a remedy. */
export class FileError extends Error {}

/** Files by their path, which ends with the path in a description. */
export class RobotFiles {
  /** `entries` are pairs of a path with slashes and a File or Blob. */
  constructor(entries) {
    this.entries = entries.slice(0, MAX_FILES).map(([path, blob]) => [normalized(path), blob])
    this.byName = new Map()
    for (const [path, blob] of this.entries) {
      const name = baseName(path).toLowerCase()
      if (!this.byName.has(name)) this.byName.set(name, [])
      this.byName.get(name).push({path, blob})
    }
  }

  /** Return the paths of robot descriptions, the shortest path first. */
  descriptions() {
    const paths = this.entries.map(([path]) => path)
    return paths.filter(path => DESCRIPTION.test(path)).sort((a, b) => a.length - b.length)
  }

  /** Return the text of a description; throw an error if it is too large or cannot be decoded. */
  async readDescription(path) {
    const [, blob] = this.entries.find(([other]) => other === path)
    if (blob.size > MAX_DESCRIPTION_SIZE) {
      throw new FileError(
        `it has ${megabytes(blob.size)}, more than the limit of ` +
          `${megabytes(MAX_DESCRIPTION_SIZE)}; check that it is a URDF`
      )
    }
    return readDescription(new Uint8Array(await blob.arrayBuffer()))
  }

  /**
   * Return the file that a description at `base` refers to, or null: of the files with its name,
   * the one whose path has most of the last folders in common with it.
   */
  find(uri, base) {
    const raw = unescaped(uri)
    const path = normalized(raw)
    const candidates = this.byName.get(baseName(path).toLowerCase()) ?? []
    const isRelative = !/^[a-z]+:\/\//i.test(uri)
    const exact = isRelative ? resolved(base, raw) : null
    let best = null
    let most = 0
    for (const candidate of candidates) {
      if (candidate.path === exact) return candidate
      const count = commonFolders(candidate.path, path)
      if (count > most) [best, most] = [candidate, count]
    }
    return best
  }
}

/** Return files of an <input>, with their paths in a chosen folder. */
export function filesOfInput(list) {
  return Array.from(list, file => [file.webkitRelativePath || file.name, file])
}

/**
 * Return the files of a drop, those in folders included.
 *
 * A page that was opened from a file may not read entries of folders, but handles.
 */
export async function filesOfDrop(transfer) {
  const items = Array.from(transfer.items ?? []).filter(item => item.kind === 'file')
  const files = filesOfInput(transfer.files)
  const entries = items.map(item => item.webkitGetAsEntry?.()).filter(Boolean)
  const handles = items.map(item => item.getAsFileSystemHandle?.()) // promises
  handles.forEach(handle => handle?.catch(() => {}))
  if (!entries.some(entry => entry.isDirectory)) return files
  try {
    return await filesBelow(entries, filesOfEntry)
  } catch {
    // continue with handles
  }
  try {
    const roots = (await Promise.all(handles)).map(handle => [handle.name, handle])
    return await filesBelow(roots, filesOfHandle)
  } catch {
    throw new FileError('the browser does not let a page read a dropped folder; use Open folder')
  }
}

/** Return pairs of path and file below some roots; `expand` returns the file or the children. */
async function filesBelow(roots, expand) {
  const files = []
  const waiting = [...roots]
  while (waiting.length && files.length < MAX_FILES) {
    const {file, children} = await expand(waiting.shift())
    if (file) files.push(file)
    waiting.push(...(children ?? []))
  }
  return files
}

async function filesOfEntry(entry) {
  if (!entry.isFile) return {children: await folderEntries(entry)}
  const file = await new Promise((resolve, reject) => entry.file(resolve, reject))
  return {file: [entry.fullPath.replace(/^\//, ''), file]}
}

async function filesOfHandle([path, handle]) {
  if (handle.kind === 'file') return {file: [path, await handle.getFile()]}
  const children = []
  for await (const [name, child] of handle.entries()) children.push([`${path}/${name}`, child])
  return {children}
}

async function folderEntries(folder) {
  const reader = folder.createReader()
  const entries = []
  for (;;) {
    // a reader returns at most 100 entries
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject))
    if (!some.length) return entries
    entries.push(...some)
  }
}

/** Return why there is no description among files, and what to do. */
export function explainMissing(files) {
  const [xacro] = files.entries.find(([path]) => /\.xacro$/i.test(path)) ?? []
  if (!xacro) {
    return 'there is no URDF among the files; drop a file that ends with .urdf, or its folder'
  }
  const name = baseName(xacro)
  return (
    `"${name}" is xacro, which a page cannot run; run "xacro ${name} > robot.urdf" where ROS ` +
    'is installed, and drop robot.urdf with its meshes'
  )
}

export const baseName = path => path.slice(path.lastIndexOf('/') + 1)
export const megabytes = bytes => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`

/** Return the path in a URI, without its scheme and escapes. */
function unescaped(uri) {
  const path = uri.replace(/^[a-z]+:\/\//i, '')
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/** Return a path without "." and "..", which do not lead outside of what was dropped. */
function normalized(path) {
  const parts = []
  for (const part of path.replaceAll('\\', '/').split('/')) {
    if (part === '..') parts.pop()
    else if (part && part !== '.') parts.push(part)
  }
  return parts.join('/')
}

const resolved = (base, path) => normalized(`${base.slice(0, base.lastIndexOf('/') + 1)}${path}`)

function commonFolders(a, b) {
  const [left, right] = [a, b].map(path => path.split('/').reverse())
  let count = 0
  while (count < left.length && count < right.length && left[count] === right[count]) count++
  return count || 0.5
}
