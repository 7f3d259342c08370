// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0
// Rigid-body dynamics of robots, version @VERSION@.
//
// SI units. Joints are in depth-first order, children by joint name, without fixed joints: joint i has the numbers
// q[idx_q ...] and v[idx_v ...]. A quaternion is x y z w. Spatial vectors have the linear part first. The world is the
// frame of the root link if the base is fixed. Derivatives with respect to q have a column for each velocity.
//
// Arrays are flat, row by row: entry (i, j) of (n, m) is x[m * i + j]. Matrices that are marked "by columns" are stored
// column by column. Results are new arrays. A frame or joint can be passed as its name.
//
// Functions throw a DynRosError. If its code is positive, its results are stored: velocity code - 1 moves almost no
// inertia, or an input is NaN.

export const VERSION: string
/** Axes and origin of a velocity, Jacobian and so on. */
export const WORLD: 0
export const LOCAL: 1
export const LOCAL_WORLD_ALIGNED: 2

type Axis = number | 'nq' | 'nv' | 'njoints' | 'nframes' | 'ncolumns' | 'constraints' | 'rows'
  | 'parameters' | 'moments' | 'placements'

/** Arguments and results of each function of this module. Axes: rows is njoints, parameters 10 njoints, moments
 *  4 njoints, placements 6 njoints, and constraints the rows of contacts or constraints. */
export const FUNCTIONS: Record<string, {
  inputs: {
    name: string, kind: 'array' | 'number' | 'integer' | 'contacts' | 'constraints',
    shape?: Axis[], optional?: 1, fallback?: 0
  }[],
  results: {name: string, shape: Axis[]}[]
}>

export class DynRosError extends Error {
  /** What the function of the C library returns. */
  readonly code: number
  readonly results: Record<string, Float64Array | number> | null
}

type Bytes = ArrayBuffer | ArrayBufferView
type Numbers = ArrayLike<number>
type Frame = number | string
type Joint = number | string
type ReferenceFrame = 0 | 1 | 2

/** Compile the module. */
export function load(source: Bytes | Response | WebAssembly.Module
  | Promise<Bytes | Response | WebAssembly.Module>): Promise<Library>

export class Library {
  /** The functions of this module. */
  readonly functions: string[]
  /** Create a robot from the content of a model file, which `dyn_ros export --model` or readUrdf writes. */
  model(file: Bytes | Promise<Bytes>): Promise<Model>
}

export interface JointInfo {
  name: string
  /** The joint before it, or -1. */
  parent: number
  /** Its frame, in which its body is described. */
  frame: number
  /** Its first numbers in q and v; of a mimic joint, its master's. */
  idx_q: number
  idx_v: number
  /** How many they are; 0 for a mimic joint. */
  nq: number
  nv: number
}

export interface FrameInfo {
  name: string
  /** The joint that moves it, or -1. */
  joint: number
  /** Whether it is the frame of a link, not of a joint. */
  is_link: boolean
}

/** A contact of the link of a frame with the world or with another link. */
export interface Contact {
  frame: Frame
  /** 6: the pose, the default. 3: the position of the origin. */
  dimension?: 3 | 6
  /** Axes of accelerations and forces, by default LOCAL. */
  reference_frame?: ReferenceFrame
  /** A frame of the other link; by default -1, the world. */
  other?: Frame
  /** (4, 4) of the contact in `frame`, and in `other`, by default the identity. */
  placement?: Numbers
  other_placement?: Numbers
  /** Baumgarte's gains [1/s2, 1/s], by default 0. */
  kp?: number
  kd?: number
}

export interface ContactSettings {
  /** On the diagonal of J M^-1 J', by default 0. */
  damping?: number
  /** More than 1, the default, with damping: proximal iterations, which remove its effect. */
  max_iterations?: number
  /** Violation of the constraints at which iterations end, by default 0. */
  residual?: number
  /** Of impulses, 0, the default, to 1. */
  restitution?: number
}

/** Contacts or constraints, for the functions of the model that created them. */
export interface Structure<Kind> {
  readonly kind: Kind
  readonly rows: number
}

/** A robot. The numbers that it has are copies; the functions that begin with set_ change it. */
export class Model {
  readonly name: string
  readonly nq: number
  readonly nv: number
  readonly njoints: number
  readonly nframes: number
  /** Velocities of all joints, mimic joints included. */
  readonly ncolumns: number
  readonly joints: JointInfo[]
  readonly frames: FrameInfo[]
  readonly position_names: string[]
  readonly velocity_names: string[]
  /** (nq,) [rad, m]; infinite without limits. */
  readonly lower: Float64Array
  readonly upper: Float64Array
  /** (nv,) [rad/s, m/s], [N m, N]. */
  readonly velocity_limit: Float64Array
  readonly effort_limit: Float64Array
  /** (nv,) viscous and Coulomb friction; no function uses them by itself. */
  readonly damping: Float64Array
  readonly friction: Float64Array
  /** (3,) [m/s2], in the world. */
  readonly gravity: Float64Array
  /** (nv,) rotor inertia [kg m2, kg]. */
  readonly armature: Float64Array
  /** Whether functions reject numbers that are not finite, and quaternions that are not unit; by default false. */
  checks: boolean

  /** Index of a joint; throws a DynRosError if there is none of this name. */
  joint_index(name: string): number
  frame_index(name: string): number

  /** The configuration of zeros and identity rotations, (nq,). */
  neutral(): Float64Array
  /** Move from q for one unit of time with the velocity v, that is a velocity times a duration; (nq,). */
  integrate(q: Numbers, v: Numbers): Float64Array

  set_gravity(gravity: Numbers): void
  set_armature(armature: Numbers): void
  /** Attach a body to the link of a frame, or replace the one in this slot, 0 ... 7. com: (3,) center of mass in the
   *  frame [m]; inertia: (3, 3) about it in the axes of the frame [kg m2]; zeros, the default, are a point mass. */
  set_payload(slot: number, frame: Frame, mass: number, com?: Numbers, inertia?: Numbers): void
  clear_payload(slot: number): void
  /** The inertia of a joint's body: m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint's origin, in its frame. */
  set_inertia(joint: Joint, parameters: Numbers): void
  get_inertia(joint: Joint): Float64Array
  /** Lock a joint where it is, as with a brake, or release it: forward dynamics is that of the robot without it. */
  lock_joint(joint: Joint, is_locked?: boolean): void
  /** Mass of the moving bodies and payloads [kg]. */
  total_mass(): number

  /** Contacts in the order of their rows, at most 36. For operational_space_bias and so on, the contact is the frame of
   *  the task. */
  contacts(list: Contact[], settings?: ContactSettings): Structure<'contacts'>
  /** A constraint for each of `tips`, in which a frame is repeated: three constraints of one frame are
   *  constraints(['tool', 'tool', 'tool']). `axes` are frames, or -1 for the world, the default. singularity: 0 drops
   *  constraints with eigenvalues up to the tolerance times the largest, 1 up to the tolerance, 2 damps them. A negative
   *  tolerance, the default, is 1e-12, 1e-14 or 1e-6. priority: 0 equal, 1 feedforward, 2 external force,
   *  3 constraint: what the constraints do not oppose. */
  constraints(tips: Frame[], options?: {
    axes?: Frame[], singularity?: 0 | 1 | 2, tolerance?: number, priority?: 0 | 1 | 2 | 3
  }): Structure<'constraints'>

@FUNCTIONS@}
