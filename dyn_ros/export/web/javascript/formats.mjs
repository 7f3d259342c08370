// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Names, texts and numbers in messages, formatted as Python formats them.

const WHITE_SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f' +
  '\\u205f\\u3000'
const NOT_BLANK = new RegExp(`[^${WHITE_SPACE}]`)
const LONG_WORD = new RegExp(`[^${WHITE_SPACE}]{301,}`, 'gu')
const NOT_PRINTABLE = /[\p{C}\p{Z}]/u
const ESCAPES = {'\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r'}

/** Characters of a text to which `\s` in regular expressions of Python applies, for a class. */
export const PYTHON_WHITE_SPACE = WHITE_SPACE

/**
 * Whether a text has nothing but white space.
 * @param {string} text
 * @returns {boolean}
 */
export function isBlank(text) {
  return !NOT_BLANK.test(text)
}

/**
 * Count characters, of which those beyond U+FFFF are two numbers of a string.
 * @param {string} text
 * @returns {number}
 */
export function countCharacters(text) {
  return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0)
}

/**
 * Return the first characters of a text.
 * @param {string} text
 * @param {number} count
 * @returns {string}
 */
export function firstCharacters(text, count) {
  return [...text.slice(0, 2 * count)].slice(0, count).join('')
}

/**
 * Return a text of at most `width` characters, with "..." in place of what is cut.
 * @param {string} text
 * @param {number} [width]
 * @returns {string}
 */
export function shorten(text, width = 200) {
  return countCharacters(text) <= width ? text : firstCharacters(text, width - 3) + '...'
}

/**
 * Shorten the words of a text that have more than 300 characters.
 * @param {string} text
 * @returns {string}
 */
export function shortenWords(text) {
  return text.replace(LONG_WORD, (word) => shorten(word, 300))
}

/**
 * Return a text in quotes, with escaped characters, up to `width` characters.
 * @param {string} text
 * @param {number} [width]
 * @returns {string}
 */
export function quote(text, width = 80) {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'"
  const shown = firstCharacters(text, width)
  const escaped = [...shown].map((character) => escapeCharacter(character, mark)).join('')
  return firstCharacters(mark + escaped + (shown.length === text.length ? mark : ''), width)
}

function escapeCharacter(character, mark) {
  if (character === mark) return '\\' + mark
  if (character in ESCAPES) return ESCAPES[character]
  if (character === ' ' || !NOT_PRINTABLE.test(character)) return character
  const code = character.codePointAt(0), digits = code.toString(16)
  if (code <= 0xff) return '\\x' + digits.padStart(2, '0')
  return code <= 0xffff ? '\\u' + digits.padStart(4, '0') : '\\U' + digits.padStart(8, '0')
}

/**
 * Join names, up to `most` of them and the number of the others; "none" without any.
 * @param {Iterable<string>} names
 * @param {number} [most]
 * @param {(name: string) => string} [write]
 * @returns {string}
 */
export function joinNames(names, most = Infinity, write = (name) => name) {
  const list = [...names]
  const more = list.length <= most ? '' : ` and ${list.length - most} more`
  return (list.slice(0, most).map(write).join(', ') || 'none') + more
}

/**
 * Format names in quotes, up to ten of them, and 100 characters of each.
 * @param {Iterable<string>} names
 * @returns {string}
 */
export function quoteNames(names) {
  return joinNames(names, 10, (name) => `"${shorten(name, 100)}"`)
}

/**
 * Compare texts by the numbers of their characters, for sorting.
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
export function compareNames(a, b) {
  let i = 0
  while (i < a.length && i < b.length && a[i] === b[i]) i += 1
  if (i === a.length || i === b.length) return a.length - b.length
  return orderOfUnit(a.charCodeAt(i)) - orderOfUnit(b.charCodeAt(i))
}

/** Return a 16-bit unit of a string, with surrogates above all others. */
function orderOfUnit(unit) {
  return unit >= 0xd800 && unit < 0xe000 ? unit + 0x10000 : unit
}

/**
 * Format a number with up to `digits` significant digits, as `%g` of C.
 * @param {number} x
 * @param {number} [digits]
 * @returns {string}
 */
export function formatGeneral(x, digits = 6) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? 'nan' : x < 0 ? '-inf' : 'inf'
  if (x === 0) return Object.is(x, -0) ? '-0' : '0'
  const [mantissa, exponentText] = roundToDigits(x, digits).split('e')
  const exponent = Number(exponentText)
  if (exponent >= -4 && exponent < digits) {
    return withoutTrailingZeros(shiftPoint(mantissa, exponent, digits))
  }
  const sign = exponent < 0 ? '-' : '+'
  return `${withoutTrailingZeros(mantissa)}e${sign}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** Return a number in exponential notation, where halves are rounded to even digits. */
function roundToDigits(x, digits) {
  const exact = x.toExponential(100)
  const [mantissa, exponent] = exact.split('e')
  const start = mantissa.indexOf('.') + digits
  const isHalf = /^50*$/.test(mantissa.slice(start))
  const isEven = Number(mantissa[digits === 1 ? start - 2 : start - 1]) % 2 === 0
  if (!isHalf || !isEven) return x.toExponential(digits - 1)
  return `${mantissa.slice(0, digits === 1 ? start - 1 : start)}e${exponent}`
}

function shiftPoint(mantissa, exponent, digits) {
  const sign = mantissa.startsWith('-') ? '-' : ''
  const figures = mantissa.replace(/[-.]/g, '')
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${figures}`
  if (exponent + 1 >= digits) return sign + figures
  return `${sign}${figures.slice(0, exponent + 1)}.${figures.slice(exponent + 1)}`
}

function withoutTrailingZeros(text) {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/**
 * Format an integer with commas between thousands.
 * @param {number} x
 * @returns {string}
 */
export function formatThousands(x) {
  return String(x).replace(/\B(?=(\d{3})+$)/g, ',')
}
