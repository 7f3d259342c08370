"""What the launch files share: arguments, and the node that is started with them."""
import shlex

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import Command, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription


def launch_description(executable, config, name=None):
    """Declare the arguments, then start an executable of this package.

    Parameters
    ----------
    executable : str
    config : str
        File of `config/` with its parameters.
    name : str, optional
        Default name of the node; without it there is no such argument.

    Returns
    -------
    launch.LaunchDescription
    """
    arguments = [DeclareLaunchArgument(each, default_value=default, description=description)
                 for each, default, description in _arguments(config, name)]
    return LaunchDescription([*arguments, OpaqueFunction(function=_node, args=[executable, name])])


def _arguments(config, name):
    path = PathJoinSubstitution([FindPackageShare("dyn_ros"), "config", config])
    return (
        *([("name", name, "Name of the node.")] if name else []),
        ("namespace", "", "Namespace of the node and its topics."),
        ("params_file", path, f"YAML file of parameters; config/{config} explains them all."),
        ("robot_description_file", "",
         "Path of the robot's URDF, or of a xacro file (its name ends in .xacro; needs xacro). "
         "Empty: the topic robot_description, or the parameters, tell the robot."),
        ("use_sim_time", "false", "Take the time from the topic /clock."),
        ("autostart", "true",
         "Configure and activate by itself; false: wait for a lifecycle manager."),
        ("log_level", "info", "debug, info, warn, error or fatal."),
        ("respawn", "false", "Start the node again when it ends."),
    )


def _node(context, executable, name):
    """The node, once the arguments are known."""
    def value(argument):
        return LaunchConfiguration(argument).perform(context)

    parameters = {
        "use_sim_time": ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool),
        "autostart": ParameterValue(LaunchConfiguration("autostart"), value_type=bool),
    }
    path = value("robot_description_file")
    if path.endswith(".xacro"):
        parameters["robot_description"] = ParameterValue(
            Command(["xacro ", shlex.quote(path)]), value_type=str)
    elif path:
        parameters["robot_description_file"] = path
    return [Node(
        package="dyn_ros",
        executable=executable,
        name=value("name") if name else None,
        namespace=value("namespace"),
        parameters=[ParameterFile(value("params_file"), allow_substs=True), parameters],
        arguments=["--ros-args", "--log-level", value("log_level")],
        respawn=value("respawn").lower() in ("true", "1"),
        respawn_delay=1.0,
        output="screen",
    )]
