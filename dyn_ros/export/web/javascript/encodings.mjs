// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Decoding of text according to its XML declaration, with Python's names and messages.

import {LAYOUT} from './layout.mjs'

const {ENCODINGS, PYTHON_ENCODINGS} = LAYOUT.description
const ENCODING =
  /^[ \t\n\r\f\v]*<\?xml[^>]*?encoding[ \t\n\r\f\v]*=[ \t\n\r\f\v]*["']([A-Za-z0-9._-]+)["']/

/**
 * Return the encoding of a description, according to its XML declaration.
 * @param {Uint8Array} bytes
 * @returns {string}
 */
export function encodingOf(bytes) {
  if (hasByteOrderMark(bytes)) return 'utf-16'
  const end = bytes.indexOf('>'.charCodeAt(0))
  const beginning = new TextDecoder('latin1').decode(bytes.subarray(0, end < 0 ? undefined : end))
  return ENCODING.exec(beginning)?.[1] ?? 'utf-8'
}

function hasByteOrderMark(bytes) {
  const [first, second] = bytes
  return (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
}

/**
 * Decode bytes; return the text, or why they cannot be decoded.
 *
 * UTF-8, UTF-16, ASCII and Latin-1 are decoded as by Python, other encodings as the browser does.
 * @param {Uint8Array} bytes
 * @param {string} encoding
 * @returns {{text?: string, fault?: string}}
 */
export function decodeText(bytes, encoding) {
  const name = encoding.toLowerCase()
  if (PYTHON_ENCODINGS.includes(name.replaceAll('_', '-'))) {
    return {fault: 'not an encoding of XML'}
  }
  const alias = name.replace(/[^a-z0-9.]+/g, '_')
  const codec = Object.hasOwn(ENCODINGS, alias) ? ENCODINGS[alias] : null
  const decode = codec ? DECODERS[codec] : (content) => decodeAsBrowser(content, encoding)
  return decode(bytes)
}

const DECODERS = {
  ascii: decodeAscii,
  latin_1: (bytes) => ({text: Array.from(chunksOf(bytes), textOfCodes).join('')}),
  utf_8: decodeUtf8,
  utf_8_sig: decodeUtf8WithMark,
  utf_16: decodeUtf16WithMark,
  utf_16_le: (bytes) => decodeUtf16(bytes, 'le', 0),
  utf_16_be: (bytes) => decodeUtf16(bytes, 'be', 0),
}

function decodeAsBrowser(bytes, encoding) {
  try {
    return {text: new TextDecoder(encoding, {fatal: true, ignoreBOM: true}).decode(bytes)}
  } catch (error) {
    const isUnknown = error instanceof RangeError
    return {fault: isUnknown ? `unknown encoding: ${encoding}` : 'it has bytes of no character'}
  }
}

function * chunksOf(bytes, size = 8192) {
  for (let i = 0; i < bytes.length; i += size) yield bytes.subarray(i, i + size)
}

function textOfCodes(codes) {
  return String.fromCharCode(...codes)
}

function decodeAscii(bytes) {
  const position = bytes.findIndex((byte) => byte > 0x7f)
  if (position < 0) return DECODERS.latin_1(bytes)
  return {fault: faultText('ascii', bytes, position, 1, 'ordinal not in range(128)')}
}

/** Describe bytes that cannot be decoded as Python does. */
function faultText(codec, bytes, position, count, reason) {
  const place = count === 1
    ? `byte 0x${bytes[position].toString(16).padStart(2, '0')} in position ${position}`
    : `bytes in position ${position}-${position + count - 1}`
  return `'${codec}' codec can't decode ${place}: ${reason}`
}

function decodeUtf8(bytes) {
  try {
    return {text: new TextDecoder('utf-8', {fatal: true, ignoreBOM: true}).decode(bytes)}
  } catch {
    return {fault: utf8Fault(bytes)}
  }
}

function decodeUtf8WithMark(bytes) {
  const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf
  return decodeUtf8(hasMark ? bytes.subarray(3) : bytes)
}

/** Return why bytes are not UTF-8. */
function utf8Fault(bytes) {
  let position = 0
  while (position < bytes.length) {
    const size = sizeOfUtf8Sequence(bytes[position])
    if (!size) return faultText('utf-8', bytes, position, 1, 'invalid start byte')
    let valid = 1
    while (valid < size && isContinuation(bytes, position, valid)) valid += 1
    if (valid < size) {
      const isCut = position + valid === bytes.length
      const reason = isCut ? 'unexpected end of data' : 'invalid continuation byte'
      return faultText('utf-8', bytes, position, valid, reason)
    }
    position += size
  }
  return ''
}

/** Ranges of the second byte of a character after first bytes for which it is limited. */
const SECOND_BYTES = {
  0xe0: [0xa0, 0xbf], 0xed: [0x80, 0x9f], 0xf0: [0x90, 0xbf], 0xf4: [0x80, 0x8f],
}

/** Return the number of bytes of a character from its first byte, 0 if that is none. */
function sizeOfUtf8Sequence(byte) {
  if (byte < 0x80) return 1
  if (byte < 0xc2 || byte > 0xf4) return 0
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
}

function isContinuation(bytes, start, index) {
  const byte = bytes[start + index]
  if (index > 1) return byte >= 0x80 && byte < 0xc0
  const [low, high] = SECOND_BYTES[bytes[start]] ?? [0x80, 0xbf]
  return byte >= low && byte <= high
}

function decodeUtf16WithMark(bytes) {
  const order = bytes[0] === 0xfe && bytes[1] === 0xff ? 'be' : 'le'
  return decodeUtf16(bytes, order, hasByteOrderMark(bytes) ? 2 : 0)
}

/** Decode UTF-16 from a position on; `order` is "le" or "be". */
function decodeUtf16(bytes, order, start) {
  try {
    const decoder = new TextDecoder(`utf-16${order}`, {fatal: true, ignoreBOM: true})
    return {text: decoder.decode(bytes.subarray(start))}
  } catch {
    return {fault: utf16Fault(bytes, order, start)}
  }
}

/** Return why bytes are not UTF-16. */
function utf16Fault(bytes, order, start) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const unitAt = (position) => view.getUint16(position, order === 'le')
  const codec = `utf-16-${order}`
  for (let position = start; position < bytes.length; position += 2) {
    const left = bytes.length - position
    if (left < 2) return faultText(codec, bytes, position, 1, 'truncated data')
    const unit = unitAt(position)
    if (unit < 0xd800 || unit > 0xdfff) continue
    if (unit > 0xdbff) return faultText(codec, bytes, position, 2, 'illegal encoding')
    if (left < 4) return faultText(codec, bytes, position, left, 'unexpected end of data')
    const next = unitAt(position + 2)
    if (next < 0xdc00 || next > 0xdfff) {
      return faultText(codec, bytes, position, 2, 'illegal UTF-16 surrogate')
    }
    position += 2
  }
  return ''
}
