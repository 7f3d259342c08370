// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Elements of the panels. Texts of files only become text, never HTML.

let count = 0

/** Return an element; `properties` are attributes, `text`, and listeners such as onclick. */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue
    if (name === 'text') node.textContent = value
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value)
    else node.setAttribute(name, value === true ? '' : value)
  }
  node.append(...children.flat().filter(child => child !== null && child !== undefined))
  return node
}

/** Return a new id for an element. */
export const newId = () => `e${count++}`

/** Return a number as a short text with a true minus sign. */
export function numberText(x, digits = 2) {
  if (!Number.isFinite(x)) return x === x ? (x > 0 ? '∞' : '−∞') : 'NaN'
  const text = Math.abs(x) >= 1e5 ? x.toExponential(1) : x.toFixed(digits)
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text).replace('-', '−')
}

/** Return a text with one full stop at its end. */
export const ended = text => `${text.replace(/\.+$/, '')}.`

/**
 * Return a labeled select. `options` are values, pairs of a value and its text, or groups of such
 * `options` with a `label`.
 */
export function select(label, options, value, change) {
  const id = newId()
  const node = element('select', {id, onchange: () => change(node.value)})
  const control = element('div', {class: 'row'}, element('label', {for: id, text: label}), node)
  const option = choice => {
    const [key, text] = Array.isArray(choice) ? choice : [choice, choice]
    return element('option', {value: key, text})
  }
  control.fill = (choices, chosen) => {
    node.replaceChildren(
      ...choices.map(choice =>
        choice.options
          ? element('optgroup', {label: choice.label}, choice.options.map(option))
          : option(choice)
      )
    )
    node.value = chosen
  }
  control.fill(options, value)
  control.input = node
  return control
}

/** Return a labeled check box. */
export function checkBox(label, isOn, change, title) {
  const input = element('input', {type: 'checkbox', onchange: () => change(input.checked)})
  input.checked = isOn
  const control = element('label', {class: 'check', title}, input, element('span', {text: label}))
  control.input = input
  return control
}

/** Return buttons of which one is pressed; `options` are pairs of a value and its text. */
export function choice(label, options, value, change) {
  const name = newId()
  const inputs = options.map(([key, text]) => {
    const input = element('input', {type: 'radio', name, value: key, onchange: () => change(key)})
    input.checked = key === value
    return element('label', {}, input, element('span', {text}))
  })
  const legend = element('span', {class: 'legend', id: newId(), text: label})
  const group = element('span', {class: 'choice', role: 'radiogroup', 'aria-label': label}, inputs)
  const control = element('div', {class: 'row'}, legend, group)
  control.choose = key => {
    for (const input of group.querySelectorAll('input')) input.checked = input.value === key
  }
  return control
}

/** Return a button. */
export function button(text, click, properties = {}) {
  return element('button', {type: 'button', text, onclick: click, ...properties})
}

/** Return tabs with their panels; `tabs` are pairs of a title and an element. */
export function tabs(label, pairs) {
  const list = element('div', {class: 'tabs', role: 'tablist', 'aria-label': label})
  const panels = pairs.map(([title, content]) => {
    const [id, panelId] = [newId(), newId()]
    const tab = button(title, () => choose(tab), {
      id,
      role: 'tab',
      'aria-controls': panelId,
      onkeydown: event => move(event, tab)
    })
    list.append(tab)
    return element(
      'div',
      {
        id: panelId,
        role: 'tabpanel',
        'aria-labelledby': id,
        class: 'tab-panel'
      },
      content
    )
  })
  const all = [...list.children]
  function choose(tab) {
    all.forEach((other, k) => {
      other.setAttribute('aria-selected', other === tab)
      other.tabIndex = other === tab ? 0 : -1
      panels[k].hidden = other !== tab
    })
    list.dispatchEvent(new Event('choose'))
  }
  function move(event, tab) {
    const at = all.indexOf(tab)
    const places = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1}
    if (!(event.key in places)) return
    const next = all.at(places[event.key] % all.length)
    choose(next)
    next.focus()
    event.preventDefault()
  }
  choose(all[0])
  const node = element('div', {class: 'tabbed'}, list, panels)
  node.list = list
  node.isShown = content => !content.closest('[role=tabpanel]').hidden
  node.open = content => choose(all[panels.indexOf(content.closest('[role=tabpanel]'))])
  return node
}

/** Offer a file to download. */
export function download(blob, name) {
  const link = element('a', {href: URL.createObjectURL(blob), download: name})
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}
