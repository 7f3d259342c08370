// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// XML without a DOCTYPE, accepted and rejected as by expat, the parser of Python.
//
// The parsers of browsers differ from it and from each other: in characters of names, prefixes that
// are not declared, and limits of depth and length. They also tell no lines of elements.

import {LAYOUT} from './layout.mjs'

const SPACE = '[ \\t\\r\\n]'
const NAME = `[${LAYOUT.xml.NAME_START}][${LAYOUT.xml.NAME_CHARACTER}]*`
const VALUE = '"([^"<]*)"|\'([^\'<]*)\''
const PSEUDO_VALUE = (values) => `(?:"(?:${values})"|'(?:${values})')`

const NAME_TOKEN = new RegExp(NAME, 'y')
const ATTRIBUTE = new RegExp(`${SPACE}+(${NAME})${SPACE}*=${SPACE}*(?:${VALUE})`, 'y')
const START_TAG_END = new RegExp(`${SPACE}*(/?)>`, 'y')
// As much of an attribute or of the end of a tag as there is.
const PARTIAL_ATTRIBUTE = new RegExp(
  `(?:${SPACE}+(?:${NAME}(?:${SPACE}*(?:=${SPACE}*(?:"[^"<]*|'[^'<]*)?)?)?)?)?/?`, 'y')
const END_TAG_END = new RegExp(`${SPACE}*>`, 'y')
const REFERENCE = new RegExp(`&(?:#([0-9]+)|#x([0-9a-fA-F]+)|(${NAME}));|&`, 'g')
const DECLARATION = new RegExp(
  `<\\?xml${SPACE}+version${SPACE}*=${SPACE}*${PSEUDO_VALUE('[\\w.-]*')}` +
  `(?:${SPACE}+encoding${SPACE}*=${SPACE}*${PSEUDO_VALUE('[A-Za-z][\\w.-]*')})?` +
  `(?:${SPACE}+standalone${SPACE}*=${SPACE}*${PSEUDO_VALUE('yes|no')})?${SPACE}*\\?>`, 'y')
const QUALIFIED_NAME = new RegExp(`^[^:]+(?::(?=[${LAYOUT.xml.NAME_START}])[^:]+)?$`)
const INVALID_CHARACTER = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|\p{Cs}/u
const NOT_SPACE = /[^ \t\r\n]/g

const INVALID_TOKEN = 'not well-formed (invalid token)'
const ENTITIES = {amp: '&', lt: '<', gt: '>', quot: '"', apos: "'"}
const XML_NAMESPACE = 'http://www.w3.org/XML/1998/namespace'
const XMLNS_NAMESPACE = 'http://www.w3.org/2000/xmlns/'

// What is not closed extends to the end: otherwise, the end would be searched from each beginning.
const CDATA_OR_COMMENT =
  /<!\[CDATA\[(?:[^]*?\]\]>|[^]*)|<!--(?:([^]*?)-->|[^]*)/g

/** A text that is not well-formed XML; the message ends with the line and the column. */
export class XmlError extends Error {}

/** An element: its name without prefix, its namespace, and its attributes without a prefix. */
export class XmlElement {
  constructor(name, namespace, attributes, line) {
    this.name = name
    this.namespace = namespace
    this.attributes = attributes
    this.line = line
    /** @type {XmlElement[]} */
    this.children = []
  }

  /**
   * Return the value of an attribute; null without it.
   * @param {string} name
   * @returns {string | null}
   */
  get(name) {
    return this.attributes.get(name) ?? null
  }

  /** Yield this element and all elements in it, in the order of the text. */
  * iterate() {
    const rest = [this]
    while (rest.length) {
      const element = rest.pop()
      yield element
      for (let i = element.children.length - 1; i >= 0; i -= 1) rest.push(element.children[i])
    }
  }
}

/**
 * Parse XML; undeclared prefixes and comments with two hyphens are accepted, as by urdfdom.
 * @param {string} text without a DOCTYPE
 * @returns {XmlElement} the root element
 * @throws {XmlError}
 */
export function parseLeniently(text) {
  try {
    return parseXml(text)
  } catch (error) {
    if (!(error instanceof XmlError)) throw error
  }
  return parseXml(declarePrefixes(hideDoubleHyphens(text)))
}

/** Replace the hyphens in comments by spaces, since XML forbids two in a row. */
function hideDoubleHyphens(text) {
  return text.replace(CDATA_OR_COMMENT, (match, comment) =>
    comment === undefined ? match : `<!--${comment.replaceAll('-', ' ')}-->`)
}

/** Declare all prefixes that the root does not; the name of each is its namespace. */
function declarePrefixes(text) {
  const prefixes = new Set(), declared = new Set(['xml', 'xmlns'])
  let end = 0
  const start = (name, attributes, position) => {
    if (!end) {
      end = position + 1 + name.length
      for (const attribute of attributes.keys()) {
        if (attribute.startsWith('xmlns:')) declared.add(attribute.slice(6))
      }
    }
    for (const word of [name, ...attributes.keys()]) {
      if (word.includes(':')) prefixes.add(word.slice(0, word.indexOf(':')))
    }
  }
  try {
    new Scanner(text, start, () => {}).scan()
  } catch (error) {
    if (error instanceof XmlError) return text
    throw error
  }
  const missing = [...prefixes].filter((prefix) => !declared.has(prefix))
  const declarations = missing.map((prefix) => ` xmlns:${prefix}="${prefix}"`).join('')
  return text.slice(0, end) + declarations + text.slice(end)
}

/** Parse XML with namespaces; return the root element. */
function parseXml(text) {
  const open = [], prefixes = new Prefixes()
  let root = null
  const start = (name, attributes, position) => {
    const fail = (message) => scanner.fail(message, position)
    const bound = prefixes.bind(attributes, fail)
    const [namespace, localName] = resolveName(name, prefixes, prefixes.get(''), fail)
    const ownAttributes = withoutPrefixes(attributes, prefixes, fail)
    const element = new XmlElement(localName, namespace, ownAttributes, scanner.lineAt(position))
    open.at(-1)?.element.children.push(element)
    root ??= element
    open.push({element, bound})
  }
  const end = () => prefixes.unbind(open.pop().bound)
  const scanner = new Scanner(text, start, end)
  scanner.scan()
  return root
}

/** The namespaces of prefixes within the open elements; that of '' is the default. */
class Prefixes {
  #namespaces = new Map([['', ['']], ['xml', [XML_NAMESPACE]]])

  /** Return the namespace of a prefix; undefined without one. */
  get(prefix) {
    return this.#namespaces.get(prefix)?.at(-1)
  }

  /** Bind the prefixes that an element declares; return them. */
  bind(attributes, fail) {
    const bound = []
    for (const [name, namespace] of attributes) {
      if (name !== 'xmlns' && !name.startsWith('xmlns:')) continue
      const prefix = name.slice(6)
      checkBinding(prefix, namespace, fail)
      if (!this.#namespaces.has(prefix)) this.#namespaces.set(prefix, [])
      this.#namespaces.get(prefix).push(namespace)
      bound.push(prefix)
    }
    return bound
  }

  /** End what `bind` has begun. */
  unbind(bound) {
    for (const prefix of bound) this.#namespaces.get(prefix).pop()
  }
}

function checkBinding(prefix, namespace, fail) {
  if (prefix && !namespace) fail('must not undeclare prefix')
  if (prefix === 'xmlns') fail('reserved prefix (xmlns) must not be declared or undeclared')
  if (namespace.includes('}')) fail('syntax error')
  if ((prefix === 'xml') !== (namespace === XML_NAMESPACE)) {
    fail(prefix === 'xml'
      ? 'reserved prefix (xml) must not be undeclared or bound to another namespace name'
      : 'prefix must not be bound to one of the reserved namespace names')
  }
  if (namespace === XMLNS_NAMESPACE) {
    fail('prefix must not be bound to one of the reserved namespace names')
  }
}

/** Return the namespace and the local part of a name. */
function resolveName(name, prefixes, defaultNamespace, fail) {
  if (!name.includes(':')) return [defaultNamespace, name]
  if (!QUALIFIED_NAME.test(name)) fail(INVALID_TOKEN)
  const [prefix, localName] = name.split(':')
  return [prefixes.get(prefix) ?? fail('unbound prefix'), localName]
}

/** Return the attributes without a prefix; check those with one. */
function withoutPrefixes(attributes, prefixes, fail) {
  const result = new Map(), others = new Set()
  for (const [name, value] of attributes) {
    if (!name.includes(':')) {
      result.set(name, value)
    } else if (name.startsWith('xmlns:')) {
      if (!QUALIFIED_NAME.test(name)) fail(INVALID_TOKEN)
    } else {
      const expandedName = resolveName(name, prefixes, '', fail).join('}')
      if (others.has(expandedName)) fail('duplicate attribute')
      others.add(expandedName)
    }
  }
  result.delete('xmlns')
  return result
}

/** Reads the tags of a text: calls `start(name, attributes, position)` and `end()` for each. */
class Scanner {
  #text
  #start
  #end
  #position = 0
  #open = []
  #hasRoot = false
  #linePosition = 0
  #line = 1
  #invalidPosition

  constructor(text, start, end) {
    this.#text = text
    this.#start = start
    this.#end = end
    this.#invalidPosition = INVALID_CHARACTER.exec(text)?.index ?? Infinity
  }

  scan() {
    if (/^<\?xml(?=[ \t\r\n?])/.test(this.#text) && !this.#match(DECLARATION)) {
      this.fail('XML declaration not well-formed', 0)
    }
    while (this.#position < this.#text.length) this.#scanNext()
    if (!this.#hasRoot || this.#open.length) this.fail('no element found', this.#text.length)
    if (this.#invalidPosition < Infinity) this.fail(INVALID_TOKEN, this.#text.length)
  }

  /** Throw an error about a position in the text, or about an invalid character before it. */
  fail(message, position = this.#position) {
    if (this.#invalidPosition < position) {
      position = this.#invalidPosition
      message = INVALID_TOKEN
    }
    const before = this.#text.slice(0, position)
    const column = before.length - Math.max(before.lastIndexOf('\n'), before.lastIndexOf('\r')) - 1
    throw new XmlError(`${message}: line ${countLines(before) + 1}, column ${column}`)
  }

  /** Return the line of a position, which must not be before that of the previous call. */
  lineAt(position) {
    this.#line += countLines(this.#text.slice(this.#linePosition, position))
    this.#linePosition = position
    return this.#line
  }

  #match(pattern) {
    pattern.lastIndex = this.#position
    const match = pattern.exec(this.#text)
    if (match) this.#position = pattern.lastIndex
    return match
  }

  #scanNext() {
    const startsWith = (word) => this.#text.startsWith(word, this.#position)
    if (!startsWith('<')) this.#scanCharacters()
    else if (startsWith('<!--')) this.#scanComment()
    else if (startsWith('<![CDATA[') && this.#open.length) this.#skipBehind(']]>', 9)
    else if (startsWith('<?')) this.#scanInstruction()
    else if (startsWith('</')) this.#scanEndTag()
    else this.#scanStartTag()
  }

  #scanCharacters() {
    const next = this.#text.indexOf('<', this.#position)
    const characters = this.#text.slice(this.#position, next < 0 ? undefined : next)
    if (!this.#open.length) {
      const other = characters.search(NOT_SPACE)
      const message = this.#hasRoot ? 'junk after document element' : 'syntax error'
      if (other >= 0) this.fail(message, this.#position + other)
    }
    const end = characters.indexOf(']]>')
    if (end >= 0) this.fail(INVALID_TOKEN, this.#position + end)
    this.#checkReferences(characters, this.#position)
    this.#position += characters.length
  }

  /** Check the references to characters in a part of the text, which begins at `start`. */
  #checkReferences(characters, start) {
    if (!characters.includes('&')) return
    for (const {0: reference, 1: decimal, 2: hexadecimal, 3: name, index}
      of characters.matchAll(REFERENCE)) {
      if (reference === '&') this.fail(INVALID_TOKEN, start + index + 1)
      if (name !== undefined && !Object.hasOwn(ENTITIES, name)) {
        this.fail('undefined entity', start + index)
      }
      if (name === undefined && !isCharacter(codeOf(decimal, hexadecimal))) {
        this.fail('reference to invalid character number', start + index)
      }
    }
  }

  #scanComment() {
    const end = this.#text.indexOf('--', this.#position + 4)
    if (end < 0) this.fail('unclosed token')
    if (this.#text[end + 2] !== '>') this.fail(INVALID_TOKEN, end + 2)
    this.#position = end + 3
  }

  /** Skip what ends with a word, and begins with `length` characters. */
  #skipBehind(word, length) {
    const end = this.#text.indexOf(word, this.#position + length)
    if (end < 0) this.fail('unclosed token')
    this.#position = end + word.length
  }

  #scanInstruction() {
    const start = this.#position
    this.#position += 2
    const target = this.#match(NAME_TOKEN)?.[0]
    if (target === 'xml') this.fail('XML or text declaration not at start of entity', start)
    const isEnd = this.#text.startsWith('?>', this.#position)
    const isValid = target && !target.includes(':') && target.toLowerCase() !== 'xml' &&
      (isEnd || /[ \t\r\n]/.test(this.#text[this.#position]))
    if (!isValid) this.fail(INVALID_TOKEN)
    this.#skipBehind('?>', 0)
  }

  #scanStartTag() {
    const start = this.#position
    this.#position += 1
    const name = this.#match(NAME_TOKEN)?.[0]
    if (!name) this.fail(INVALID_TOKEN)
    if (!this.#open.length && this.#hasRoot) this.fail('junk after document element', start)
    this.#hasRoot = true
    const attributes = this.#scanAttributes()
    const tagEnd = this.#match(START_TAG_END)
    if (!tagEnd) this.#failInTag(start)
    this.#start(name, attributes, start)
    if (tagEnd[1]) this.#end()
    else this.#open.push(name)
  }

  #scanAttributes() {
    const attributes = new Map()
    for (let match; (match = this.#match(ATTRIBUTE));) {
      const [, name, first, second] = match
      if (attributes.has(name)) this.fail('duplicate attribute')
      const value = first ?? second
      this.#checkReferences(value, this.#position - 1 - value.length)
      attributes.set(name, normalizeValue(value))
    }
    return attributes
  }

  #failInTag(start) {
    this.#match(PARTIAL_ATTRIBUTE)
    if (this.#position === this.#text.length) this.fail('unclosed token', start)
    this.fail(INVALID_TOKEN)
  }

  #scanEndTag() {
    const start = this.#position
    this.#position += 2
    const name = this.#match(NAME_TOKEN)?.[0]
    if (!name || !this.#match(END_TAG_END)) this.fail(INVALID_TOKEN)
    if (!this.#open.length) this.fail(INVALID_TOKEN, start)
    if (this.#open.pop() !== name) this.fail('mismatched tag', start + 2)
    this.#end()
  }
}

/** Return the value of an attribute, with spaces as white space and without references. */
function normalizeValue(text) {
  const value = /[\t\r\n]/.test(text) ? text.replace(/\r\n|[\t\r\n]/g, ' ') : text
  if (!value.includes('&')) return value
  return value.replace(REFERENCE, (_, decimal, hexadecimal, name) =>
    name === undefined ? String.fromCodePoint(codeOf(decimal, hexadecimal)) : ENTITIES[name])
}

function codeOf(decimal, hexadecimal) {
  return decimal === undefined ? parseInt(hexadecimal, 16) : parseInt(decimal, 10)
}

function isCharacter(code) {
  return code <= 0x10ffff && !INVALID_CHARACTER.test(String.fromCodePoint(code))
}

/** Count the ends of lines: CR LF, CR or LF. */
function countLines(text) {
  let count = 0
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i)
    if (code === 10 ? text.charCodeAt(i - 1) !== 13 : code === 13) count += 1
  }
  return count
}
