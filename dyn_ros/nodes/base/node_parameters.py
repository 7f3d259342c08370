# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Parameters of a node: their declarations, checks and current values."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import isfinite
from typing import Any

from rcl_interfaces.msg import FloatingPointRange, ParameterDescriptor, SetParametersResult
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from ...engine.kernel.names import name_arguments, short_repr, shorten
from ...states.joint_states import STALENESS

_PARAMETERS = {"lock": "locked_joints", "reduced": "locked_joints"}
"""Parameters whose names differ from the arguments in messages."""
MAX_REASON_LENGTH = 1000  # characters; values and files may contain long names


@dataclass(frozen=True)
class Spec:
    """One parameter of a node.

    `default` is a value, or a `Parameter.Type` for an array that is empty by default. `limits` are
    the minimum and maximum, also for the elements of an array; `choices` are the allowed values;
    `size` is the length of an array. A `read_only` parameter can only be set at startup; changing
    a parameter that `rebuilds_robot` creates a new `RobotContext`.
    """

    name: str
    default: Any
    description: str
    limits: tuple[float, ...] = ()
    choices: tuple[str, ...] | tuple[int, ...] = ()
    size: int = 0
    read_only: bool = False
    rebuilds_robot: bool = False

    @property
    def _is_array(self) -> bool:
        return self.size > 0 or isinstance(self.default, Parameter.Type)

    def _constraints(self) -> str:
        """Return a text with the allowed values; empty if any value, or a range, is allowed."""
        if self.choices:
            return "one of: " + ", ".join(map(str, self.choices))
        if self.size and not self.limits:
            return f"{self.size} finite numbers"
        if self._is_array and self.limits:
            count = f"{self.size} " if self.size else ""
            return "{}numbers from {:g} to {:g}".format(count, *self.limits)
        return ""

    def describe_values(self) -> str:
        """Return the default and the allowed values, for `--help`."""
        default = [] if isinstance(self.default, Parameter.Type) else self.default
        text = self._constraints()
        if self.limits and not text:
            text = "{:g} to {:g}".format(*self.limits)
        return f"[default: {default!r}" + (f"; {text}]" if text else "]")

    def descriptor(self) -> ParameterDescriptor:
        """Return the descriptor with which rclpy declares the parameter."""
        constraints = self._constraints()
        descriptor = ParameterDescriptor(
            description=self.description,
            read_only=self.read_only,
            additional_constraints=constraints,
        )
        if self.limits and not self._is_array:
            lower, upper = self.limits
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=lower, to_value=upper, step=0.0)
            ]
        return descriptor

    def fault(self, value: Any) -> str:
        """Return an error message, or an empty string if a value of the right type is valid."""
        if self.choices and value not in self.choices:
            return (
                f"{self.name}: expected one of {', '.join(map(str, self.choices))}, but got "
                f"{short_repr(value)}"
            )
        if self.size and len(value) != self.size:
            return f"{self.name}: expected {self.size} numbers, but got {len(value)}"
        numbers = value if isinstance(value, (list, tuple)) else [value]
        if not all(isfinite(x) for x in numbers if isinstance(x, float)):
            return f"{self.name}: expected finite numbers, but got {short_repr(value)}"
        if (
            self._is_array
            and self.limits
            and not all(self.limits[0] <= x <= self.limits[1] for x in numbers)
        ):
            lower, upper = self.limits
            return (
                f"{self.name}: expected numbers from {lower:g} to {upper:g}, but got "
                f"{short_repr(value)}"
            )
        return ""


DERIVATIVES = Spec(
    "derivatives",
    True,
    "Offer services for derivatives. false: compiling takes about half as long.",
    read_only=True,
)
DESCRIPTION_PARAMETERS = frozenset({"robot_description", "robot_description_file"})
LIFECYCLE_SPECS = (
    Spec(
        "autostart",
        True,
        "Configure and activate at startup. false: wait for a lifecycle manager.",
        read_only=True,
    ),
    Spec(
        "robot_description",
        "",
        "URDF text, which the topic robot_description overrides.",
        rebuilds_robot=True,
    ),
    Spec(
        "robot_description_file",
        "",
        "Path of a URDF file, if robot_description is empty.",
        rebuilds_robot=True,
    ),
)
"""The parameters of all nodes that have a robot description."""

SPECS = (
    *LIFECYCLE_SPECS,
    Spec(
        "max_rate",
        0.0,
        "Maximum rate of topics except ~/markers [Hz]. 0: every state.",
        limits=(0.0, 1e5),
    ),
    Spec(
        "root_joint",
        "fixed",
        "Motion of the root link: fixed, floating, or planar.",
        choices=("fixed", "floating", "planar"),
        rebuilds_robot=True,
    ),
    Spec(
        "gravity",
        [0.0, 0.0, -9.81],
        "Gravity in the world [m/s2].",
        size=3,
        limits=(-1e6, 1e6),
        rebuilds_robot=True,
    ),
    Spec(
        "mimic",
        "project",
        "project: mimic joints follow their master. ignore: they are independent.",
        choices=("project", "ignore"),
        rebuilds_robot=True,
    ),
    Spec("strict", False, "Reject a robot description that causes warnings.", rebuilds_robot=True),
    Spec(
        "joints",
        Parameter.Type.STRING_ARRAY,
        "Joints to publish, in this order. Empty: all.",
        rebuilds_robot=True,
    ),
    Spec(
        "armature",
        Parameter.Type.DOUBLE_ARRAY,
        "Rotor inertia of each published row [kg m2, kg].",
        rebuilds_robot=True,
    ),
    Spec(
        "drives",
        "",
        "Path of a YAML file that declares efforts and friction. Empty: efforts are torques.",
        rebuilds_robot=True,
    ),
    Spec(
        "native_library",
        "",
        "Path of a library from dyn_ros export --robot FILE --python.",
        rebuilds_robot=True,
    ),
    Spec(
        "locked_joints",
        Parameter.Type.STRING_ARRAY,
        "Joints to fix: name=position [rad, m], or name for the current position.",
        rebuilds_robot=True,
    ),
    Spec(
        "include_friction",
        False,
        "Add joint friction to nle of ~/state, ~/command, ~/get_inverse_dynamics and "
        "~/get_trajectory_efforts.",
        rebuilds_robot=True,
    ),
    Spec(
        "frame_id", "", "frame_id of published messages. Empty: the root link.", rebuilds_robot=True
    ),
    Spec(
        "world_frame",
        "",
        "frame_id of the world for a moving base. Empty: the frame_id of odom, or world.",
        rebuilds_robot=True,
    ),
    Spec(
        "staleness",
        STALENESS,
        "Maximum lag of a joint within a state, and age of a state for services [s].",
        limits=(1e-3, 3600.0),
        rebuilds_robot=True,
    ),
    Spec(
        "joint_state_source",
        "joint_states",
        "joint_states: that topic. dynamic_joint_states: the topic of control_msgs/"
        "DynamicJointState, whose interfaces state the units of efforts.",
        choices=("joint_states", "dynamic_joint_states"),
        read_only=True,
        rebuilds_robot=True,
    ),
    Spec(
        "base_source",
        "odometry",
        "odometry: the topic odom. parameter: base_pose and base_twist.",
        choices=("odometry", "parameter"),
        rebuilds_robot=True,
    ),
    Spec(
        "base_pose",
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        "Pose of the base: x y z [m], qx qy qz qw.",
        size=7,
        rebuilds_robot=True,
    ),
    Spec(
        "base_twist",
        [0.0] * 6,
        "Twist of the base in its own axes: linear [m/s], angular [rad/s].",
        size=6,
        rebuilds_robot=True,
    ),
)
"""The parameters of each `RobotNode`."""


def name_parameters(specs: Iterable[Spec], text: object) -> str:
    """Return a message with parameters of a node instead of arguments of Python functions.

    Advice is left out if the node has no such parameter.
    """
    names = {spec.name for spec in specs}

    def name_parameter(argument: str, value: str) -> str:
        name = _PARAMETERS.get(argument, argument)
        if name not in names:
            return ""
        return f"{name}: {value.lower()}" if value else f"the parameter {name}"

    return name_arguments(str(text), name_parameter)


class Parameters:
    """The parameters of a node: declared, checked at each change, with their current `values`.

    `values` and `specs` are by name; `changes` counts the successful changes.

    An invalid initial value is not fatal: its error message is in `faults`, by name, until it is
    replaced; meanwhile `values` has the default. `accept(values, names)` is called before a change
    with the new values of all parameters and the names of those that change; it rejects the change
    by a ValueError with the reason. `changed(names)` is called afterwards.
    """

    def __init__(
        self,
        node: Node,
        specs: Sequence[Spec],
        accept: Callable[[Mapping[str, Any], Set[str]], object],
        changed: Callable[[Set[str]], object],
    ) -> None:
        self.specs = {spec.name: spec for spec in specs}
        self._accept = accept
        self._changed = changed
        self.values: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        self.changes = 0
        for spec in specs:
            self._declare(node, spec)
        node.add_pre_set_parameters_callback(self._with_types_of_empty_arrays)
        node.add_on_set_parameters_callback(self._on_set)
        node.add_post_set_parameters_callback(self._after_set)

    def _declare(self, node: Node, spec: Spec) -> None:
        """Declare a parameter; if its value is invalid, keep the error and use the default."""
        default = [] if isinstance(spec.default, Parameter.Type) else spec.default
        value = default
        try:
            parameter = node.declare_parameter(spec.name, spec.default, spec.descriptor())
            if parameter.value is None:  # unset, a request to read it would fail
                node.set_parameters([Parameter(spec.name, spec.default, default)])
            else:
                value = _python_value(parameter.value)
            fault = spec.fault(value)
        except (InvalidParameterTypeException, InvalidParameterValueException) as error:
            fault = f"{spec.name}: {error}"
            node.declare_parameter(spec.name, spec.default, spec.descriptor(), ignore_override=True)
        if fault:
            self.faults[spec.name] = fault
            value = default
        self.values[spec.name] = value

    def _with_types_of_empty_arrays(self, parameters: Iterable[Parameter]) -> list[Parameter]:
        """Return parameters with the declared type of empty arrays.

        In the output of `ros2 param dump`, they are `[]`, which `ros2 param load` reads as an array
        of truth values.
        """
        corrected = []
        for parameter in parameters:
            is_empty = parameter.type_ == Parameter.Type.BOOL_ARRAY and not parameter.value
            if is_empty and parameter.name in self.specs:
                declared = self.specs[parameter.name].default
                if isinstance(declared, Parameter.Type):
                    parameter = Parameter(parameter.name, declared, [])
            corrected.append(parameter)
        return corrected

    def _changes(self, parameters: Iterable[Parameter]) -> dict[str, Any]:
        """Return the Python values, by name, of those parameters that are in `specs`."""
        return {p.name: _python_value(p.value) for p in parameters if p.name in self.specs}

    def _on_set(self, parameters: Iterable[Parameter]) -> SetParametersResult:
        """Return whether a change is accepted, and the reason if it is not; apply nothing."""
        changes = self._changes(parameters)
        reasons = [self.specs[name].fault(value) for name, value in changes.items()]
        reason = "; ".join(filter(None, reasons))
        if not reason and changes:
            try:
                self._accept({**self.values, **changes}, changes.keys())
            except Exception as error:
                reason = name_parameters(self.specs.values(), error) or type(error).__name__
        reason = shorten(reason, MAX_REASON_LENGTH)
        return SetParametersResult(successful=not reason, reason=reason)

    def _after_set(self, parameters: Iterable[Parameter]) -> None:
        """Apply a change that was accepted."""
        changes = self._changes(parameters)
        if changes:
            self.values.update(changes)
            self.changes += 1
            for name in changes:
                self.faults.pop(name, None)
            self._changed(changes.keys())


def _python_value(value: Any) -> Any:
    """Convert arrays to lists, and [""], which denotes an empty array in YAML, to []."""
    if isinstance(value, (bool, int, float, str)):
        return value
    value = list(value)
    return [] if value == [""] else value
