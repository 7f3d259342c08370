# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The commands in the documentation: each is run, or checked as far as possible.

What needs a ROS installation goes to the same nodes through rclpy: a service call is made, a
parameter set, a topic listened to; of a launch file the arguments are looked up. A command of no
known kind fails.
"""

import array
import importlib
import itertools
import json
import re
import runpy
import shlex
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import yaml
from export.tools import require_web_tools
from identification.recordings import perturbed, record, waves

pytest.importorskip("rclpy", reason="no ROS here: rclpy is not importable")

from dyn_ros.command import main as cli
from dyn_ros.drives import save_drives
from dyn_ros.engine.model.write import write_urdf
from dyn_ros.recordings.tables import columns

from .test_pages import generate

ROOT = Path(__file__).resolve().parents[2]
ARM7 = ROOT / "dyn_ros" / "robots" / "arm7.urdf"
PAGES = generate.PAGES
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(?<=\n\n)((?: {4,}\S.*\n?)+)")
CELL = re.compile(r"^\| [^|]+ \| `([^`|]+)` \|", re.MULTILINE)
ROBOT = "my_robot.urdf"


def commands(page):
    """Yield the commands of a page: lines that are indented or fenced as bash, and tables."""
    text = page.read_text()
    for table in re.findall(r"^\| [^|]+ \| command \|.*\n((?:\|.*\n)+)", text, re.MULTILINE):
        yield from CELL.findall(table)
    fenced = [code for language, code in FENCE.findall(text) if language == "bash"]
    for block in [*fenced, *BLOCK.findall(FENCE.sub("", text))]:
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if not line.lstrip().startswith("#"):
                yield line.strip()


def followed():
    """The steps of the tutorial, which test_tutorial.py takes."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    steps = re.findall(r"^Terminals? [\d, ]+:\n\n((?: {4}.*\n)+)", tutorial, re.MULTILINE)
    return {line.strip() for step in steps for line in step.splitlines()}


COMMANDS = [
    pytest.param(command, id=f"{page.name}: {command[:60]}")
    for page in PAGES
    for command in dict.fromkeys(commands(page))
    if not (
        page.name == "tutorial.md"
        and command in followed()
        or page.name
        in (
            "universal_robots.md",
            "franka.md",  # test_first_*.py
            "mobile_manipulator.md",
        )
    )
]


@pytest.fixture(scope="module")
def graph(client, start_process):
    """All nodes with the arm of the examples, its tool held or supported, and joint states."""
    graph = Graph(client, start_process(module="dyn_ros.nodes.dyn_ros_node"))
    graph.set("/vereshchagin", tip_frame="tool", constraints="hold_pose")
    graph.set("/centroidal", contact_frames=["tool"])
    graph.set("/observer", max_gap=60.0)
    graph.set("/dyn_ros", staleness=60.0)  # beside other tests, a state may be a second old
    return graph


class Graph:
    """The started nodes, under the names that the documentation gives them."""

    def __init__(self, client, process):
        self.client, self.process = client, process
        self.model = importlib.import_module("dyn_ros").Model.from_urdf_file(ARM7)
        self.written = {}  # by `dyn_ros excite` and `payload`

    def name(self, name):
        """Return the name of a node, topic or service in the namespace of the nodes."""
        assert name.startswith("/")
        return name if name == "/diagnostics" else self.process.namespace + name

    def owner(self, node, parameter):
        """The node of a parameter: in one process that of the robot's is another."""
        shared = any(spec.rebuilds_robot and spec.name == parameter for spec in generate.SPECS)
        return "/dyn_ros" if shared else node

    def node(self, name):
        return SimpleNamespace(name=self.name(name), output=self.process.output)

    def speak(self):
        from sensor_msgs.msg import JointState

        message = JointState(
            name=self.model.joint_names, position=[0.3] * 7, velocity=[0.1] * 7, effort=[1.0] * 7
        )
        self.client.publisher(JointState, self.name("/joint_states")).publish(message)

    def there(self, topic):
        """The type of a topic that some node has."""
        types = {}

        def found():
            types.update(self.client.node.get_topic_names_and_types())
            return self.name(topic) in types

        self.client.wait(found, topic)
        return interface(types[self.name(topic)][0])

    def listen(self, topic):
        kind = self.there(topic)
        messages = self.client.listen(kind, self.name(topic))
        self.client.wait(lambda: messages, topic, again=self.speak, every=0.1)
        self.client.stop_listening(messages)

    def set(self, node, **values):
        done, reason = self.client.set_parameters(self.node(node), **values)
        assert done, reason

    def ask(self, service, kind, fields):
        request, futures, soon = fill(kind.Request(), fields), [], 0.0

        def again():
            nonlocal soon
            self.speak()
            if time.monotonic() > soon:  # an answer may be lost
                soon = time.monotonic() + 5.0
                futures.append(self.client.send(kind, self.name(service), request))

        self.client.wait(lambda: any(each.done() for each in futures), service, again, every=0.1)
        return next(each.result() for each in futures if each.done())


def interface(name):
    """The class of a type such as dyn_ros/srv/GetJacobian."""
    package, folder, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.{folder}"), kind)


def fill(message, values):
    """Set fields of a message from what YAML gives, as `ros2` does."""
    for field, value in values.items():
        now = getattr(message, field)
        if isinstance(value, dict):
            fill(now, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            declared = message.get_fields_and_field_types()[field]
            package, kind = re.fullmatch(r"sequence<(\w+)/(\w+)>", declared).groups()
            element = interface(f"{package}/msg/{kind}")
            setattr(message, field, [fill(element(), each) for each in value])
        elif isinstance(now, array.array):
            setattr(message, field, array.array(now.typecode, value))
        else:
            setattr(message, field, float(value) if isinstance(now, float) else value)
    return message


LISTENING = {
    f"/observer/{name}" for name in ("calibrate", "estimate_delay", "estimate_payload", "tare")
}
"""Services that listen to a motion before they respond."""


# Each kind of command: what its words begin with, and a test of the others.

KINDS = {}


def kind(*begins):
    def keep(test):
        KINDS.update({tuple(begin.split()): test for begin in begins})
        return test

    return keep


def options(words, *known):
    """The words without these options, (those with a value end in =)."""
    rest, words = [], list(words)
    while words:
        word = words.pop(0)
        if f"{word}=" in known:
            words.pop(0)
        elif word not in known:
            assert not word.startswith("-"), f"{word}: not known"
            rest.append(word)
    return rest


@kind("ros2 topic echo", "ros2 topic hz")
def _listened_to(graph, words):
    [topic] = options(words, "--once")
    graph.listen(topic)


@kind("ros2 topic info")
def _there(graph, words):
    [topic] = options(words, "-v")
    graph.there(topic)


@kind("ros2 topic pub")
def _published(graph, words):
    topic, name, *text = options(words, "-r=", "--once", "--stdin")
    if "--stdin" in words:  # to a topic of another node; too long for an argument
        assert text == ["<", "motion.yaml"]
        if "motion.yaml" not in graph.written:  # which takes long
            _own_command(graph, ["excite", ROBOT, "-o", "motion.yaml"])
        message = fill(interface(name)(), yaml.safe_load(graph.written["motion.yaml"]))
        assert message.joint_names == list(graph.model.velocity_names) and message.points
        return
    graph.set("/vereshchagin", constraints="topic")  # as a node begins
    graph.set("/centroidal", contact_source="topic")
    try:
        message = fill(interface(name)(), yaml.safe_load(*text))
        refused = []
        for _ in range(3):
            graph.client.publisher(type(message), graph.name(topic)).publish(message)
            node = graph.node(topic.rsplit("/", 1)[0])
            refused.append(graph.client.diagnostics(node)[1]["messages rejected"])
        assert len(set(refused)) == 1, graph.process.output()
    finally:
        graph.set("/vereshchagin", constraints="hold_pose")
        graph.set("/centroidal", contact_source="always")


@kind("ros2 service call")
def _called(graph, words):
    service, name, *text = words
    if service in LISTENING:  # tested in test_observer_node.py
        fill(interface(name).Request(), yaml.safe_load(text[0]))
        services = dict(graph.client.node.get_service_names_and_types())
        assert services[graph.name(service)] == [name]
        return
    if text == ["$(cat payload.yaml)"]:
        if "payload.yaml" not in graph.written:
            _own_command(
                graph,
                ["payload", ROBOT, "loaded.csv", "--load-frame", "tool", "-o", "payload.yaml"],
            )
        text = [graph.written["payload.yaml"]]
    response = graph.ask(service, interface(name), yaml.safe_load(text[0]) if text else {})
    assert response.success, response.message


@kind("ros2 param set")
def _set(graph, words):
    node, name, value = words
    graph.set(graph.owner(node, name), **{name: yaml.safe_load(value)})
    if name == "contact_source":
        graph.set(node, contact_source="always")  # as other commands expect


@kind("ros2 param get", "ros2 param describe")
def _parameter(graph, words):
    node, name = words
    from rcl_interfaces.srv import DescribeParameters

    request = DescribeParameters.Request(names=[name])
    owner = graph.name(graph.owner(node, name))
    [descriptor] = graph.client.call(
        DescribeParameters, owner + "/describe_parameters", request
    ).descriptors
    assert descriptor.description


@kind("ros2 param dump")
def _dumped(graph, words):
    [node] = words
    assert graph.name(node) in [
        f"{namespace}/{name}"
        for name, namespace in graph.client.node.get_node_names_and_namespaces()
    ]


@kind("ros2 lifecycle set")
def _transition(graph, words):
    from lifecycle_msgs.srv import GetAvailableTransitions

    node, label = words
    answer = graph.client.call(
        GetAvailableTransitions,
        graph.name(node) + "/get_transition_graph",
        GetAvailableTransitions.Request(),
    )
    assert label in [each.transition.label for each in answer.available_transitions]


@kind("ros2 lifecycle get")
def _state(graph, words):
    from lifecycle_msgs.srv import GetState

    [node] = words
    answer = graph.client.call(GetState, graph.name(node) + "/get_state", GetState.Request())
    assert answer.current_state.label == "active"


@kind("ros2 interface show")
def _interface(graph, words):
    [name] = words
    interface(name)


@kind("ros2 node", "ros2 daemon")
def _of_ros(graph, words):
    assert words in (["list"], ["stop"])


@kind("ros2 run dyn_ros")
def _executable(graph, words):
    name, *arguments = words
    assert re.search(rf"^ +{name} = ", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    if arguments:
        ros, *pairs = arguments
        assert ros == "--ros-args"
        with generate.running_node(name.removesuffix("_node")) as node:
            for flag, pair in zip(pairs[::2], pairs[1::2], strict=True):
                parameter, value = pair.split(":=", 1)
                if flag == "-r":
                    assert parameter in [output.topic for output in node.outputs]
                    assert re.fullmatch(r"(/\w+)+", value)
                    continue
                assert flag == "-p"
                assert node.parameters.specs[parameter].fault(yaml.safe_load(value)) == ""


@kind("ros2 launch dyn_ros")
def _launched(graph, words):
    file, *arguments = words
    declared = arguments_of(ROOT / "launch" / file)
    for argument in arguments:
        assert argument == "--show-args" or argument.split(":=")[0] in declared


@kind("ros2 bag record")
def _recorded(graph, words):
    """Not run: rosbag2 is not installed here. test_first_own_arm.py writes these bags."""
    assert words[:4] == ["-s", "mcap", "-o", words[3]] and words[4:] == ["/joint_states"]


@kind("ros2 control switch_controllers")
def _switched(graph, words):
    """Not run: ros2_control is not installed here. Its command has these options."""
    controllers = options(words, "--activate", "--deactivate")
    page = (ROOT / "docs" / "hand_guiding.md").read_text()
    assert "effort_controller" in controllers and "  effort_controller:\n" in page


@kind("ros2 launch open_manipulator_bringup")
def _driver(graph, words):
    """Not run: the driver is not installed here. Its repository has this file."""
    assert words == ["open_manipulator_x.launch.py"]


def arguments_of(file):
    """Names of the arguments that a launch file declares, found without launch."""
    if file.suffix == ".xml":
        return re.findall(r'<arg name="(\w+)"', file.read_text())
    if file.suffix == ".yaml":
        return [
            each["arg"]["name"]
            for each in yaml.safe_load(file.read_text())["launch"]
            if "arg" in each
        ]
    names, launch = [], mock.MagicMock()
    launch.DeclareLaunchArgument = lambda name, **_: names.append(name)
    modules = (
        "launch",
        "launch.actions",
        "launch.logging",
        "launch.substitutions",
        "launch_ros",
        "launch_ros.actions",
        "launch_ros.parameter_descriptions",
        "launch_ros.substitutions",
        "launch.conditions",
        "launch.event_handlers",
        "launch.events",
        "launch.utilities",
    )
    with (
        mock.patch.dict(sys.modules, dict.fromkeys(modules, launch)),
        mock.patch("ament_index_python.packages.get_package_share_directory", lambda _: str(ROOT)),
    ):
        sys.modules.pop("dyn_ros.nodes.base.launch_file", None)
        runpy.run_path(str(file))["generate_launch_description"]()
    assert names
    return names


@kind("rviz2 -d")
def _rviz(graph, words):
    [file] = words
    assert (ROOT / file.removeprefix("$ROS2_PKG_PREFIX/")).exists()


def exit_code(words):
    """Run the command here; ``--version`` ends it by an exception."""
    try:
        return cli.main(words)
    except SystemExit as end:
        return end.code


@kind("dyn_ros")
def _own_command(graph, words):
    if (
        words[0] in ("demo", "precompile", "view", "calibrate")  # other tests
        or {"--scheduler", "--loaded", "--thresholds"} & set(words)
    ):
        cli._make_parser().parse_args(words)
    else:
        if words[0] == "export" and "--model" not in words:
            pytest.importorskip("numba", reason="nothing can be compiled")
        if "--page" in words or "wasm32" in words:
            require_web_tools(needs_npm="--page" in words)
        assert exit_code(words) == 0
    for name in {"motion.yaml", "payload.yaml"} & set(words):
        graph.written[name] = Path(name).read_text()


@kind("pip install", "uvx --from")
def _installed(graph, words):
    """The files and extras exist; test_package.py builds the package."""
    for word in itertools.takewhile(lambda word: word != "dyn_ros", words):
        if word.startswith("--config-settings=ros="):
            assert (ROOT / "requirements" / f"{word.rpartition('=')[2]}.txt").exists()
            continue
        if word == "--with":
            continue
        path, _, extras = word.rstrip("]").partition("[")
        assert path == "dyn_ros" or (ROOT / path / "pyproject.toml").exists()
        for extra in filter(None, extras.split(",")):
            assert re.search(rf"^{extra} =$", (ROOT / "setup.cfg").read_text(), re.MULTILINE)
    if "dyn_ros" in words:
        cli._make_parser().parse_args(words[words.index("dyn_ros") + 1 :])


@kind("python3 -m venv", "source ~/dyn_ros_venv/bin/activate")
def _environment(graph, words):
    assert words in ([], ["~/dyn_ros_venv"])


@kind("docker build", "docker run")
def _container(graph, words):
    """The files and commands of the image exist; no test builds it."""
    recipe = (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"^COPY ((?!--).+) /\S+$", recipe, re.MULTILINE):
        assert all((ROOT / path).exists() for path in line.split())
    if words[-1] != ".":
        assert words[-1] in (ROOT / "setup.cfg").read_text() and words[-2] == "dyn_ros"


@kind("dask")
def _cluster(graph, words):
    assert words[0] in ("scheduler", "worker")


@kind("make")
def _made(graph, words):
    makefile = (ROOT / "Makefile").read_text()
    [target] = [word for word in words if "=" not in word]
    assert re.search(rf"^{target}:", makefile, re.MULTILINE)
    for name, value in (word.split("=", 1) for word in words if "=" in word):
        assert re.search(rf"^{name}=", makefile, re.MULTILINE), "not in its help"
        if name == "ARGS" and target in ("demo", "view"):
            cli._make_parser().parse_args([target, *shlex.split(value)])
        elif name == "ARGS":
            assert all(
                (ROOT / path).exists() for path in shlex.split(value) if not path.startswith("-")
            )
        elif name == "ROS":
            assert (ROOT / "requirements" / f"{value}.txt").exists()


@kind("gcc main.c", "g++ -std=c++17 main.cpp")
def _compiled(graph, words):
    """test/export/test_page.py runs the commands of this page."""
    assert any("dyn_ros_cpp" in word for word in words)


@kind("python", "python3", ".venv-jazzy/bin/python")
def _script(graph, words):
    saved = [
        name for page in PAGES for name in re.findall(r"ave this as\s`(.+?)`", page.read_text())
    ]
    assert (ROOT / words[0]).exists() or words[0] in saved


@kind("rosdep install", "colcon build", "source install/setup.bash")
def _built(graph, words):
    """Run by other packages' tools, for which package.xml declares a colcon package."""
    assert words in ([], ["--from-paths", "src", "--ignore-src"])
    assert "<build_type>ament_cmake</build_type>" in (ROOT / "package.xml").read_text()


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A recording of the arm, as the files that the documentation names."""
    pytest.importorskip("pyarrow", reason="no pyarrow: run `make test`")
    folder = tmp_path_factory.mktemp("recordings")
    true = perturbed(importlib.import_module("dyn_ros").Model.from_urdf_file(ARM7))
    motion = waves([0.0] * 7, 0.8, [0.1, 0.3, 0.7])
    table = record(true, motion).table()
    for name in ("recording.csv", "recording.parquet"):
        columns.write_columns(folder / name, table)
    (folder / "my_robot_identified.urdf").write_text(write_urdf(ARM7.read_text(), true))
    save_drives(true, folder / "my_robot_identified.drives.yaml")
    true.set_payload("box", "tool", 3.0, [0.0, 0.0, 0.1], 0.01 * np.eye(3))
    columns.write_columns(folder / "loaded.csv", record(true, motion).table())
    for name in ("recordings", "day1", "day2"):
        (folder / name).mkdir()
        columns.write_columns(folder / name / "run.parquet", table)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.usefixtures("one_start")
def test_it_does(graph, recordings, tmp_path, monkeypatch, command):
    shutil.copytree(recordings, tmp_path, dirs_exist_ok=True)
    shutil.copy(ARM7, tmp_path / ROBOT)
    monkeypatch.chdir(tmp_path)
    words = shlex.split(
        command.replace("$(ros2 pkg prefix --share dyn_ros)", "$ROS2_PKG_PREFIX"), comments=True
    )
    begin = next((begin for begin in KINDS if tuple(words[: len(begin)]) == begin), None)
    assert begin, f"{command}: say in KINDS how this is tested"
    KINDS[begin](graph, words[len(begin) :])


def test_every_fence_has_a_language_that_is_tested():
    """Python runs in test_docs.py, other programs in test/export; output is compared."""
    for page in PAGES:
        for language, code in FENCE.findall(page.read_text()):
            assert language in (
                "python",
                "bash",
                "text",
                "ini",
                "json",
                "c",
                "cpp",
                "cmake",
                "js",
                "yaml",
            ), page
            if language == "json":
                json.loads(code)
            if language == "yaml":
                yaml.safe_load(code)
