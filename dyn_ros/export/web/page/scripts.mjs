// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Scripts that are loaded when they are needed: robots, modules and mesh formats.
//
// They are classic scripts, which pages opened from a file may load; each calls
// dynRosRegister(name, content).

const contents = new Map()

globalThis.dynRosRegister = (name, content) => contents.set(name, content)

/** Load a script of the page's folder once; return what it registers. */
export async function loadScript(name) {
  if (!contents.has(name)) await insertScript(name)
  if (!contents.has(name)) throw new Error(`"${name}.js" is damaged; build the page again`)
  return contents.get(name)
}

function insertScript(name) {
  return new Promise((resolve, reject) => {
    const script = document.createElement('script')
    script.src = `${name.split('/').map(encodeURIComponent).join('/')}.js`
    script.onload = resolve
    script.onerror = () => reject(new Error(`"${name}.js" is missing; copy the whole folder`))
    document.head.append(script)
  })
}

/** Return the bytes of a text in base64 that contains a gzip file. */
export async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), character => character.charCodeAt(0))
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}
