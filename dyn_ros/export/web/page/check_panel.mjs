// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Findings about inertias, warnings about the description, and files that are missing.

import {shellQuoted} from './code_panel.mjs'
import {element} from './dom.mjs'

const MOST = 200 // lines of each list

/** The tab Check. */
export class CheckPanel {
  constructor(page) {
    this.page = page
    this.findings = element('ul', {class: 'findings'})
    this.warnings = element('ul', {class: 'lines'})
    this.files = element('ul', {class: 'lines'})
    this.note = element('p', {class: 'soft'})
    this.sections = [
      ['Inertias', this.findings],
      ['Description', this.warnings],
      ['Files', this.files]
    ].map(([title, list]) => element('section', {}, element('h2', {text: title}), list))
    this.node = element('div', {}, this.sections, this.note)
    this.failed = []
  }

  /** Show findings of `inertiaFindings`, warnings, and pairs of a mesh's shape and a reason. */
  showRobot(findings, warnings, failures) {
    this.count = findings.length
    this.chosen = null
    this.failed = []
    this.findings.replaceChildren(...findings.slice(0, MOST).map(finding => this.finding(finding)))
    if (!findings.length) this.findings.append(line('No impossible inertias found.', 'good'))
    if (findings.length > MOST) this.findings.append(line(`${findings.length - MOST} more`))
    this.warnings.replaceChildren(...warnings.slice(0, MOST).map(text => line(text)))
    this.files.replaceChildren()
    for (const [shape, reason] of failures) this.addFile(shape.uri, reason)
    this.note.textContent =
      `\`dyn_ros check ${shellQuoted(this.page.robotPath)}\` also compares inertias with ` +
      'shapes, and checks limits.'
    this.update()
  }

  finding({link, what, advice}) {
    const text = `${what}; ${advice}`.replaceAll('kg m2', 'kg m²')
    const node = element(
      'button',
      {
        type: 'button',
        'aria-pressed': false,
        onclick: () => this.choose(node, link)
      },
      element('b', {text: link}),
      element('span', {text})
    )
    return element('li', {}, node)
  }

  choose(node, link) {
    this.chosen = this.chosen === node ? null : node
    for (const other of this.findings.querySelectorAll('button')) {
      other.setAttribute('aria-pressed', other === this.chosen)
    }
    this.page.highlight(this.chosen ? link : null)
  }

  /** List a file that cannot be shown once, with the reason. */
  addFile(path, reason) {
    if (this.failed.some(other => other.path === path)) return
    this.failed.push({path, reason})
    if (this.failed.length <= MOST) {
      this.files.append(
        element('li', {}, element('b', {text: path}), element('span', {text: reason}))
      )
    }
  }

  update() {
    this.sections[1].hidden = !this.warnings.children.length
    this.sections[2].hidden = !this.failed.length
    const total = this.count + this.failed.length
    this.page.setBadge?.(total)
  }
}

const line = (text, className) => element('li', {class: className, text})
