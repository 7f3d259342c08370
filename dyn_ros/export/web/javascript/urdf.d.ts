// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Reading of robot descriptions (URDF) in JavaScript.

/** The description cannot be used; the message is Python's. */
export class UrdfError extends Error {}

export interface Options {
  /** Joint between the universe and the root link, named "root_joint"; by default null: the root link is fixed. */
  rootJoint?: null | 'floating' | 'planar'
  /** [m/s2], by default [0, 0, -9.81]. */
  gravity?: number[]
  /** "ignore" makes mimic joints independent; by default "project". */
  mimic?: 'project' | 'ignore'
  /** Throw an error in place of warnings. */
  strict?: boolean
}

export interface Description {
  /** Content of a model file, for Library.model. */
  bytes: Uint8Array
  name: string
  /** Implausible values. */
  warnings: string[]
}

/** Read the text of a URDF, with xacro expanded, or its bytes, which are decoded as their XML declaration says. */
export function readUrdf(xml: string | Uint8Array, options?: Options): Description
