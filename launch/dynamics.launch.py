"""Start dynamics_node; `ros2 launch dyn_ros dynamics.launch.py --show-args` tells how."""
import shlex

from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import Command, LaunchConfiguration, PathJoinSubstitution
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterFile, ParameterValue
from launch_ros.substitutions import FindPackageShare

from launch import LaunchDescription

ARGUMENTS = (
    ("name", "dynamics", "Name of the node."),
    ("namespace", "", "Namespace of the node and its topics."),
    ("params_file", PathJoinSubstitution([FindPackageShare("dyn_ros"), "config", "dynamics.yaml"]),
     "YAML file of parameters; config/dynamics.yaml explains them all."),
    ("robot_description_file", "",
     "Path of the robot's URDF, or of a xacro file (its name ends in .xacro; needs xacro). "
     "Empty: the topic robot_description, or the parameters, tell the robot."),
    ("use_sim_time", "false", "Take the time from the topic /clock."),
    ("autostart", "true", "Configure and activate by itself; false: wait for a lifecycle manager."),
    ("log_level", "info", "debug, info, warn, error or fatal."),
    ("respawn", "false", "Start the node again when it ends."),
)


def node(context):
    """The node, once the arguments are known."""
    value = {name: LaunchConfiguration(name).perform(context) for name, *_ in ARGUMENTS}
    parameters = {
        "use_sim_time": ParameterValue(LaunchConfiguration("use_sim_time"), value_type=bool),
        "autostart": ParameterValue(LaunchConfiguration("autostart"), value_type=bool),
    }
    path = value["robot_description_file"]
    if path.endswith(".xacro"):
        parameters["robot_description"] = ParameterValue(
            Command(["xacro ", shlex.quote(path)]), value_type=str)
    elif path:
        parameters["robot_description_file"] = path
    return [Node(
        package="dyn_ros",
        executable="dynamics_node",
        name=value["name"],
        namespace=value["namespace"],
        parameters=[ParameterFile(value["params_file"], allow_substs=True), parameters],
        arguments=["--ros-args", "--log-level", value["log_level"]],
        respawn=value["respawn"].lower() in ("true", "1"),
        respawn_delay=1.0,
        output="screen",
    )]


def generate_launch_description():
    """Declare the arguments, then start the node."""
    arguments = [DeclareLaunchArgument(name, default_value=default, description=description)
                 for name, default, description in ARGUMENTS]
    return LaunchDescription([*arguments, OpaqueFunction(function=node)])
