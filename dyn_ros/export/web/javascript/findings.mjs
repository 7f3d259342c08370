// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Findings about the inertias of links; see dyn_ros/check/link_findings.py.
//
// They are those of `dyn_ros check` for links without shapes: a link without mass or without
// rotational inertia, an inertia that is not physical or has a negative rounding error, a
// placeholder, and a mass that is spread too little or too far for any link. Left out is what
// compares an inertia with the shapes of its link: meshes in millimeters, swapped moments, the
// spread and the center of mass in the hull, densities, and the inertia of a solid as advice.

import {eigenvalues} from './algebra.mjs'
import {formatGeneral} from './formats.mjs'
import {LAYOUT} from './layout.mjs'
import {rotationalFault} from './lumping.mjs'

const {
  KINDS_FOR_NEGLIGIBLE_LINKS, MAX_GYRATION, MIN_GYRATION, MIN_PLACEHOLDER, MOMENT_TOLERANCE,
  NEGLIGIBLE_FRACTIONS, OPTICAL_SUFFIXES, SHAPELESS_FACTOR, UNUSABLE_KINDS,
} = LAYOUT.findings
const INERTIA_ADVICE = 'set <inertia>, about the center of mass in kg m2'

/**
 * @typedef {object} Finding
 * @property {string} link name of the link
 * @property {string} where the element, such as 'link "arm"'
 * @property {string} what was found; continues `where`
 * @property {string} advice
 * @property {string} kind such as "point-mass"; it does not change between versions
 */

/**
 * Find implausible inertias of links, in the order of the description.
 *
 * Of links that are negligible beside those that they are fixed to, such as sensors, only findings
 * that matter to other programs are returned.
 * @param {import('./urdf.mjs').Description} description
 * @returns {Finding[]}
 */
export function inertiaFindings({links, frames}) {
  const withInertia = links.filter((link) => link.inertial)
  const negligible = negligibleLinks(withInertia, frames)
  return withInertia.flatMap(({name, inertial}) => linkFindings(inertial)
    .filter(({kind}) => !negligible.has(name) || KINDS_FOR_NEGLIGIBLE_LINKS.includes(kind))
    .map((finding) => ({link: name, where: `link "${name}"`, ...finding})))
}

/** Return the names of links that are negligible compared with the links they are fixed to. */
function negligibleLinks(links, frames) {
  const bodyOf = ({frame}) => frames[frame].joint
  const sums = new Map()
  for (const link of links) {
    const [mass, moments] = sums.get(bodyOf(link)) ?? [0, 0]
    const sizes = sizesOf(link.inertial)
    sums.set(bodyOf(link), [mass + sizes[0], moments + Math.max(sizes[1], 0)])
  }
  const isNegligible = (link) => sizesOf(link.inertial).every(
    (size, k) => size < SHAPELESS_FACTOR * NEGLIGIBLE_FRACTIONS[k] * sums.get(bodyOf(link))[k])
  const isOptical = ({name}) => OPTICAL_SUFFIXES.some((suffix) => name.endsWith(suffix))
  return new Set(
    links.filter((link) => isOptical(link) || isNegligible(link)).map(({name}) => name))
}

/** Return mass [kg] and trace of the rotational inertia [kg m2]. */
function sizesOf({mass, moments: [xx, , yy, , , zz]}) {
  return [mass, xx + yy + zz]
}

function linkFindings(inertial) {
  if (inertial.mass === 0) return masslessFindings(inertial)
  const faults = inertiaFaults(inertial)
  if (faults.some(({kind}) => UNUSABLE_KINDS.includes(kind))) return faults
  return [...faults, ...spreadFindings(inertial)]
}

function masslessFindings({moments}) {
  if (!moments.some(Boolean)) return []
  return [{what: 'has inertia, but no mass', advice: 'set <mass> in kg', kind: 'no-mass'}]
}

/** Return findings about an inertia that no body of more than a point has. */
function inertiaFaults({mass, moments}) {
  const [smallest, , largest] = eigenvalues(moments), size = Math.max(-smallest, largest)
  if (size <= MOMENT_TOLERANCE * mass) return [pointMassFinding(moments, size)]
  const fault = rotationalFault(moments)
  return fault ? [faultFinding(fault)] : roundingFindings(moments)
}

function pointMassFinding(moments, size) {
  const what = moments.some(Boolean)
    ? `has moments of inertia up to ${formatGeneral(size, 2)} kg m2, ` +
      'which are rounding errors; it is a point mass'
    : 'has mass, but no rotational inertia, like a point mass'
  return {what, advice: INERTIA_ADVICE, kind: 'point-mass'}
}

function faultFinding(fault) {
  return {
    what: `has an inertia that ${fault}`,
    advice: 'this is not physical: <inertia> is about the center of mass, in the axes of ' +
      "<inertial>'s <origin>; check the order and the signs.",
    kind: 'not-physical',
  }
}

function roundingFindings([ixx, , iyy, , , izz]) {
  const negative = Object.entries({ixx, iyy, izz}).filter(([, moment]) => moment < 0)
  if (!negative.length) return []
  const assignments = negative.map(([key, moment]) => `${key} = ${formatGeneral(moment, 3)}`)
  return [{
    what: `has a negative ${assignments.join(', ')}, which is a rounding error`,
    advice: `write 0 for ${negative.map(([key]) => key).join(', ')}`,
    kind: 'rounding',
  }]
}

/** Return a finding about an inertia that is a placeholder, or spreads too far or too little. */
function spreadFindings({mass, moments}) {
  const trace = Math.max(0, moments[0] + moments[2] + moments[5])
  const gyration = Math.sqrt(trace / 2 / mass), spread = formatGeneral(gyration, 3)
  if (isPlaceholder(moments)) {
    return [{
      what: `has the placeholder ixx = iyy = izz = ${formatGeneral(moments[0])}, which spreads ` +
        `its mass over ${spread} m (RMS distance from its center)`,
      advice: INERTIA_ADVICE,
      kind: 'placeholder',
    }]
  }
  if (gyration > MIN_GYRATION && gyration < MAX_GYRATION) return []
  return [{
    what: `spreads its mass over ${spread} m (RMS distance from its center)`,
    advice: 'is <inertia> in kg m2, and <mass> in kg?',
    kind: 'mass-spread',
  }]
}

/** Return true if an inertia is a power of ten times the identity, and not small. */
function isPlaceholder([xx, xy, yy, xz, yz, zz]) {
  if (xx < MIN_PLACEHOLDER || yy !== xx || zz !== xx || xy || xz || yz) return false
  const power = 10 ** Math.round(Math.log10(xx))
  return Math.abs(xx - power) <= 1e-9 * Math.max(xx, power)
}
