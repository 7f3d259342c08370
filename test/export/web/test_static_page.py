# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The static page in Chromium, opened from its file: numbers, files of users, and motion."""

import json
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from export.tools import require_web_tools
from viewer.chromium import TIMEOUT

import dyn_ros

CHECKOUT = Path(__file__).parents[3]
ROBOTS = Path(dyn_ros.__file__).parent / "robots"
PAGE = Path(dyn_ros.__file__).parent / "export" / "web" / "page"
BOX = np.array([[x, y, z] for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)])
TRIANGLES = [(0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)]
URDF = """<robot name="hostile">
  <link name="{base}">
    <inertial><mass value="1"/>
      <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/></inertial>
    {shapes}
  </link>
  <joint name="{joint}" type="revolute">
    <parent link="{base}"/><child link="{tip}"/><axis xyz="0 1 0"/>
    <limit lower="-1" upper="1" effort="20" velocity="2"/><dynamics damping="0.1"/>
  </joint>
  <link name="{tip}">
    <inertial><origin xyz="0.2 0 0"/><mass value="1"/>
      <inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0.2 0 0"/><geometry><box size="0.4 0.05 0.05"/></geometry></visual>
  </link>
</robot>
"""
UNDAMPED = URDF.format(shapes="", base="base", joint="hinge", tip="tip").replace(
    '<dynamics damping="0.1"/>', ""
)
COLLADA = """<?xml version="1.0"?><COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema"
 version="1.4.1"><asset><unit meter="1"/><up_axis>Z_UP</up_axis></asset>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array id="a" count="9">
0 0 0 0.3 0 0 0 0.3 0</float_array><technique_common><accessor source="#a" count="3" stride="3">
<param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
</accessor></technique_common></source><vertices id="v"><input semantic="POSITION" source="#p"/>
</vertices><triangles count="1"><input semantic="VERTEX" source="#v" offset="0"/><p>0 1 2</p>
</triangles></mesh></geometry></library_geometries><library_visual_scenes><visual_scene id="s">
<node id="n"><instance_geometry url="#g"/></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
POLYGON = COLLADA.replace("triangles", "polylist").replace("<p>", f"<vcount>{10**9}</vcount><p>")
OBJ = "mtllib box.mtl\nusemtl red\nv 0 0 0\nv 0.2 0 0\nv 0 0.2 0\nf 1 2 3\n"
MTL = "newmtl red\nKd 1 0 0\n"


def stl(count=None):
    """Return a binary STL file of a box, whose header claims a count of triangles."""
    triangles = b"".join(
        struct.pack("<12fH", 0, 0, 0, *BOX[list(corners)].ravel(), 0) for corners in TRIANGLES
    )
    return bytes(80) + struct.pack("<I", len(TRIANGLES) if count is None else count) + triangles


def describe(shapes="", base="base", joint="hinge", tip="tip"):
    return URDF.format(shapes=shapes, base=base, joint=joint, tip=tip)


def mesh(uri):
    return f'<visual><geometry><mesh filename="{uri}"/></geometry></visual>'


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The page as ``make page`` builds it."""
    pytest.importorskip("numba", reason="nothing can be compiled")
    from dyn_ros.export.web.page import export_page

    require_web_tools(needs_npm=True)
    folder = tmp_path_factory.mktemp("page")
    export_page(folder)
    return folder


class OpenPage:
    """A page in a tab, with what it says on the console, and what it requests."""

    def __init__(self, browser, folder):
        self.folder = folder
        context = browser.new_context(viewport={"width": 1200, "height": 700})
        self.tab = context.new_page()
        self.tab.set_default_timeout(TIMEOUT)
        self.errors, self.requests = [], []
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on(
            "console",
            lambda message: message.type == "error" and self.errors.append(message.text),
        )
        self.tab.on("request", lambda request: self.requests.append(request.url))

    def open(self, address=""):
        self.tab.goto("about:blank")
        self.tab.goto(f"{self.folder.as_uri()}/index.html#{address}")
        self.wait("!!globalThis.dynRosPage?.terms")
        return self

    def run(self, script):
        return self.tab.evaluate(script)

    def wait(self, script):
        end = time.monotonic() + TIMEOUT / 1000
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.02)

    def numbers(self):
        text = "JSON.stringify(dynRosPage.numbers(), (_, x) => x?.BYTES_PER_ELEMENT ? [...x] : x)"
        return json.loads(self.run(text))

    def drop(self, path, name):
        """Drop a folder or a file; wait until the robot is shown, or the reason why not."""
        self.tab.set_input_files("#folder" if path.is_dir() else "#file", path)
        shown = f"dynRosPage.title === {json.dumps(name)}"
        failed = "!!document.querySelector('.error:not([hidden])')"
        self.wait(f"({shown} && dynRosPage.meshesLoaded) || {failed}")

    def drag(self, path, name):
        """Drag a folder to the page, as from a file manager; wait until the robot is shown."""
        session = self.tab.context.new_cdp_session(self.tab)
        data = {"items": [], "files": [str(path)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            arguments = {"type": kind, "x": 500, "y": 300, "data": data}
            session.send("Input.dispatchDragEvent", arguments)
        self.wait(f"dynRosPage.title === {json.dumps(name)} && dynRosPage.meshesLoaded")

    def notice(self):
        return self.tab.inner_text("#notice")

    def choose_tab(self, name):
        self.tab.get_by_role("tab", name=re.compile(f"^{name}")).click()


@pytest.fixture(scope="module")
def page(browser, folder):
    return OpenPage(browser, folder).open()


@pytest.fixture(autouse=True)
def nothing_leaves_the_page(page):
    """No test causes an error on the console, or a request to another place."""
    page.errors.clear()
    page.requests.clear()
    yield
    assert page.errors == []
    prefixes = (page.folder.as_uri(), "blob:", "data:", "about:")
    assert [url for url in page.requests if not url.startswith(prefixes)] == []


def test_numbers_are_pythons(page):
    model = dyn_ros.Model.from_urdf_file(ROBOTS / "arm7.urdf")
    data = dyn_ros.Data(model)
    q = np.array([0.3, -0.5, 0.2, 1.1, -0.4, 0.6, 0.1])
    v = np.array([0.5, 0.1, -0.3, 0.2, 0.4, -0.6, 0.7])
    radius = (0.75 * 2.0 / (np.pi * 4500.0)) ** (1 / 3)
    inertia = 0.4 * 2.0 * radius**2 * np.eye(3)
    model.set_payload("payload", "tool", 2.0, [0.0, 0.0, radius], inertia)
    text = f"q={','.join(map(str, q))}&v={','.join(map(str, v))}"
    page.open(f"robot=arm7&{text}&payload=2&carrier=tool&frame=tool&reference=LOCAL")
    numbers = page.numbers()
    local = dyn_ros.ReferenceFrame.LOCAL
    for name, expected in (
        ("generalized_gravity", dyn_ros.generalized_gravity(model, data, q)),
        ("nonlinear_effects", dyn_ros.nonlinear_effects(model, data, q, v)),
        ("M", dyn_ros.crba(model, data, q)),
        ("frame_jacobian", dyn_ros.frame_jacobian(model, data, q, "tool", local)),
        ("kinetic_energy", dyn_ros.kinetic_energy(model, data, q, v)),
        ("potential_energy", dyn_ros.potential_energy(model, data, q)),
    ):
        np.testing.assert_allclose(numbers[name], expected, rtol=1e-12, atol=1e-12)
    texts = page.tab.locator(".bar output").all_inner_texts()
    shown = [text.replace("\u2212", "-") for text in texts]
    expected = dyn_ros.generalized_gravity(model, data, q)
    np.testing.assert_allclose(np.array(shown, float), expected, atol=0.0051)


@pytest.mark.parametrize("way", ["drop", "drag"])
def test_a_robot_with_meshes(page, tmp_path, way):
    meshes = tmp_path / "my_robot" / "meshes"
    meshes.mkdir(parents=True)
    (tmp_path / "my_robot" / "urdf").mkdir()
    for name, content in {"a.stl": stl(), "b.obj": OBJ, "box.mtl": MTL, "c.dae": COLLADA}.items():
        (meshes / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    uris = "package://my_robot/meshes/a.stl", "../meshes/b.obj", "../meshes/c.dae"
    shapes = "".join(map(mesh, uris))
    (tmp_path / "my_robot" / "urdf" / f"{way}.urdf").write_text(describe(shapes))
    getattr(page, way)(tmp_path / "my_robot", f"{way}.urdf")
    assert page.run("dynRosPage.check.failed") == []
    assert page.run("dynRosPage.scene.links.get('base').visual.children.length") == 3


def test_missing_meshes_are_listed(page, tmp_path):
    path = tmp_path / "missing.urdf"
    path.write_text(describe(mesh("package://gone/meshes/arm.stl") + mesh("/etc/passwd.stl")))
    page.drop(path, "missing.urdf")
    assert page.notice() == "2 meshes are not shown; see Check"
    page.choose_tab("Check")
    text = page.tab.inner_text(".left")
    assert "package://gone/meshes/arm.stl" in text and "/etc/passwd.stl" in text
    assert "drop the folder that contains it" in text


def test_hostile_names_are_only_text(page, tmp_path):
    name = "&lt;img src=x onerror=&quot;globalThis.attacked=1&quot;&gt;"
    path = tmp_path / "<b>robot.urdf"
    path.write_text(describe(base=name, joint=f"{name}\u0027]", tip="__proto__"))
    page.drop(path, path.name)
    assert page.run("dynRosPage.title") == path.name
    for tab in ("Load", "Show", "Check", "Inertia", "Frame", "Code", "Move"):
        page.choose_tab(tab)
    assert page.run("document.querySelectorAll('img').length") == 0
    assert page.run("globalThis.attacked") is None
    assert "<img src=x" in page.tab.inner_text(".sliders")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("claims.stl", stl(10**9), "its header claims 1,000,000,000 triangles"),
        ("short.stl", b"abc", "it is not an STL file"),
        ("large.obj", b"v 0 0 0\n" * 2_600_000, "more than the limit of 20 MB"),
        ("many.obj", b"f 1 1 1\n" * 1_100_000, "may contain 4,400,000 numbers"),
        ("damaged.dae", b"<COLLADA><library_geometries>", "it is damaged"),
        ("other.dae", b"<html/>", "it is not COLLADA"),
        ("offset.dae", COLLADA.replace('offset="0"', 'offset="-1"').encode(), 'offset is "-1"'),
        ("stride.dae", COLLADA.replace('stride="3"', f'stride="{10**9}"').encode(), "stride is"),
        ("count.dae", COLLADA.replace('count="1"', f'count="{10**9}"').encode(), "count is"),
        ("vcount.dae", POLYGON.encode(), "vcount is"),
        ("picture.glb", b"glTF", "is not supported; use STL, OBJ or COLLADA"),
    ],
)
def test_hostile_meshes_are_refused(page, tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    (tmp_path / f"{name}.urdf").write_text(describe(mesh(name)))
    page.drop(tmp_path, f"{name}.urdf")
    assert text in page.run("dynRosPage.check.failed[0].reason")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("robot.urdf", "<robot><link", "not well-formed"),
        ("robot.urdf.xacro", "<robot/>", "xacro"),
        ("robot.urdf", '<robot xmlns:xacro="x/xacro"><xacro:arm/></robot>', "xacro"),
        ("readme.txt", "", "there is no URDF among the files"),
    ],
)
def test_descriptions_that_cannot_be_used(page, tmp_path, name, content, text):
    (tmp_path / name).write_text(content)
    title = page.run("dynRosPage.say('') ?? dynRosPage.title")
    page.drop(tmp_path, "")
    assert text in page.notice()
    assert page.run("dynRosPage.title") == title  # which is still shown
    page.run("dynRosPage.resetPose(true)")


def test_the_first_usable_description_of_a_folder(page, tmp_path):
    (tmp_path / "a.urdf").write_text('<robot name="empty"/>')
    (tmp_path / "first.urdf").write_text(describe())
    (tmp_path / "second.urdf").write_text(describe())
    (tmp_path / "b.xml").write_text("<package/>")
    page.drop(tmp_path, "first.urdf")
    offered = page.run(
        "Array.from(document.querySelectorAll('#robots optgroup option'), x => x.text)"
    )
    assert offered == ["b.xml", "a.urdf", "first.urdf", "second.urdf"]
    page.tab.select_option("#robots", label="a.urdf")
    page.wait("!!document.querySelector('.error:not([hidden])')")
    assert page.notice().startswith("a.urdf cannot be shown")
    assert page.run("document.querySelector('#robots').value").endswith("first.urdf")
    page.tab.select_option("#robots", label="second.urdf")
    page.wait("dynRosPage.title === 'second.urdf' && dynRosPage.meshesLoaded")


def test_more_points_than_a_call_has_arguments(node):
    program = f"""
      import {{fitCamera}} from '{PAGE / "geometry.mjs"}'
      import {{findFeet, lowestPoint}} from '{PAGE / "posture.mjs"}'
      const points = Array.from({{length: 200_000}}, (_, k) => [k, 0, 0])
      const scene = {{framePoints: () => points.map(point => ({{frame: 0, point}}))}}
      const robot = {{model: {{frames: [{{joint: 0}}]}}}}
      console.log(lowestPoint(scene, []), fitCamera(points, 1, 1).position.every(Number.isFinite),
        findFeet(robot, scene, [[0]], new Float64Array(16)).length)
    """
    command = [node, "--input-type=module", "--eval", program]
    result = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert result.stdout.split() == ["0", "true", "1"], result.stderr


def test_a_robot_that_fails_while_it_is_opened(page, tmp_path):
    page.open("robot=arm7")
    page.wait("dynRosPage.meshesLoaded")
    page.run("dynRosPage.setCoordinate(dynRosPage.robot.coordinates[3], 0.75)")
    page.run(
        "dynRosPage.simulationModels = () => (delete dynRosPage.simulationModels,"
        " Promise.reject(new Error('no memory'))), null"
    )
    (tmp_path / "robot.urdf").write_text(describe())
    page.drop(tmp_path, "robot.urdf")
    page.wait("!!document.querySelector('.error:not([hidden])') && dynRosPage.meshesLoaded")
    assert page.notice() == "robot.urdf cannot be shown: no memory."
    assert page.run("[dynRosPage.title, dynRosPage.q[3]]") == ["arm7", 0.75]
    assert page.run("document.querySelector('#robots').value") == "arm7"
    page.run("dynRosPage.setCoordinate(dynRosPage.robot.coordinates[3], 0.5)")


def test_address_shows_what_its_sender_saw(page):
    page.open("robot=arm7")
    page.run(
        "dynRosPage.setCoordinate(dynRosPage.robot.coordinates[3], 0.75);"
        "dynRosPage.state.set({payload: 1.5, carrier: 'forearm_link', degrees: true,"
        " inertia: 'boxes', shapes: 'both', gravity: [0, 0, -1.62], frame: 'tool'});"
        "dynRosPage.picture.controls.rotate(0.4, 0.1); dynRosPage.picture.controls.changed()"
    )
    page.wait("location.hash.includes('camera')")
    address = page.run("(dynRosPage.onAddress(true), location.hash.slice(1))")
    before = page.numbers()
    view = page.run("dynRosPage.picture.view")
    page.open(address)
    page.wait("dynRosPage.meshesLoaded")
    assert page.numbers() == before
    np.testing.assert_allclose(page.run("dynRosPage.picture.view"), view, atol=1e-3)
    assert page.run("(dynRosPage.onAddress(true), location.hash.slice(1))") == address
    values = page.run("dynRosPage.state.values")
    assert (values["shapes"], values["inertia"], values["degrees"]) == ("both", "boxes", True)


@pytest.mark.parametrize(
    "address",
    [
        "robot=quadruped&root=floating&q=0,0,0.3,0,0,0,0" + 12 * ",0",
        "robot=arm7&q=1e300,0,0,0,0,0,0&gravity=1e308,0,0&v=1e160,0,0,0,0,0,0"
        "&camera=0,0,0,0,0,0&shows=" + ",".join(20_000 * ["torques"]),
    ],
)
def test_addresses_with_numbers_that_cannot_be_shown(page, address):
    page.open(address)
    page.wait("dynRosPage.meshesLoaded")
    assert np.isfinite(page.numbers()["generalized_gravity"]).all()
    assert np.isfinite(page.run("dynRosPage.picture.view")).all()
    assert page.notice() == ""
    assert len(page.run("(dynRosPage.onAddress(true), location.hash)")) < 500


def test_a_link_without_mass_ends_the_motion(page, tmp_path):
    (tmp_path / "tip.urdf").write_text(re.sub(r"(?s)<inertial><origin.*?</inertial>", "", UNDAMPED))
    page.drop(tmp_path / "tip.urdf", "tip.urdf")
    page.run("dynRosPage.setMotors('off')")
    page.wait("!dynRosPage.isMoving")
    assert page.notice().startswith("Joint hinge moves almost no inertia")
    assert page.run("dynRosPage.state.values.motors") == "hold"
    assert np.isfinite(page.numbers()["q"]).all()
    page.run("dynRosPage.say('')")


def test_a_slider_moves_the_robot_while_a_link_is_held(page):
    page.open("robot=arm7")
    page.wait("dynRosPage.meshesLoaded")
    page.run("dynRosPage.puller.hold(dynRosPage.robot.links.at(-1).index, [0, 0, 1])")
    page.run("dynRosPage.setCoordinate(dynRosPage.robot.coordinates[3], 0.5)")
    assert page.run("dynRosPage.isMoving")
    page.run("dynRosPage.puller.release()")


def test_number_fields_show_what_is_used(page):
    page.open("robot=arm7&payload=2")
    page.wait("dynRosPage.meshesLoaded")
    for tab, label, value, shown in (
        ("Move", "shoulder_yaw [rad], number", "999", None),
        ("Move", "shoulder_yaw [rad], number", "", None),
        ("Load", "Payload [kg], number", "", "2"),
        ("Load", "Payload [kg], number", "-3", "0"),
        ("Load", "Gravity along z [m/s²]", "9999", "-9.81"),
        ("Load", "Gravity along z [m/s²]", "", "-9.81"),
    ):
        page.choose_tab(tab)
        field = page.tab.get_by_label(label, exact=True)
        field.fill(value)
        field.press("Enter")
        expected = str(page.run("+dynRosPage.q[0].toFixed(4)")) if shown is None else shown
        assert field.input_value() == expected
    assert page.run("dynRosPage.q[0]") > 1


def test_addresses_of_the_users_file(page, tmp_path):
    (tmp_path / "mine.urdf").write_text(describe())
    page.drop(tmp_path, "mine.urdf")
    page.run("location.hash = 'file=mine.urdf&q=0.4&v=0.2&payload=2&camera=2,0,0,0,0,0'")
    page.wait("dynRosPage.q[0] === 0.4 && dynRosPage.v[0] === 0.2 && !!dynRosPage.simulation")
    assert page.run("dynRosPage.picture.view") == [2, 0, 0, 0, 0, 0]
    assert page.run("dynRosPage.robot.payload.mass") == 2
    page.run("location.hash = 'robot=nonexistent'")
    page.wait("!document.querySelector('#notice').hidden")
    assert page.notice().startswith('"nonexistent" is not on this page')
    assert page.run("dynRosPage.title") == "mine.urdf"


def test_a_link_to_a_file_that_is_not_here(page, tmp_path):
    (tmp_path / "mine.urdf").write_text(describe())
    page.open("file=mine.urdf&q=0.4&payload=2&gravity=0,0,-1.62")
    page.wait("dynRosPage.meshesLoaded")
    assert page.notice() == 'This link shows "mine.urdf"; drop this file to see it.'
    assert page.run("dynRosPage.robot.payload") is None
    assert page.numbers()["gravity"] == [0, 0, -9.81]
    page.drop(tmp_path, "mine.urdf")
    assert page.run("[dynRosPage.q[0], dynRosPage.robot.payload.mass]") == [0.4, 2]
    assert page.numbers()["gravity"] == [0, 0, -1.62]


def test_limits_in_degrees(page, tmp_path):
    text = describe().replace('lower="-1" upper="1"', 'lower="-90" upper="180"')
    (tmp_path / "degrees.urdf").write_text(text)
    page.drop(tmp_path, "degrees.urdf")
    assert page.run("dynRosPage.q[0]") == 0
    assert page.run("dynRosPage.robot.coordinates[0].range") == [-90, 180]


def test_a_planar_base_in_the_shell(page):
    page.open("robot=mobile_arm&gravity=1,0,-9.81")
    page.choose_tab("Code")
    page.wait("document.querySelectorAll('.code pre')[3].textContent !== ''")
    lines = page.tab.get_by_label("Command line and ros2", exact=True).inner_text().splitlines()
    assert len(re.search(r"--q (.*) --gravity 1 0 -9.81", lines[0])[1].split()) == 10
    assert "# with the gravity of the Earth:" in lines


def test_texts_about_torques(page):
    page.open("robot=arm7&source=motors")
    for motors, text in (
        ("hold", "Torques of the motors, which hold the posture."),
        ("float", "Torques of the motors, which compensate gravity."),
        ("off", "The motors are off."),
    ):
        page.run(f"dynRosPage.setMotors('{motors}')")
        page.wait(f"dynRosPage.torques.text.textContent === '{text}'")
    page.open("robot=arm7")
    page.wait("dynRosPage.torques.largest.textContent !== ''")
    said = page.run("dynRosPage.torques.largest.textContent")
    assert re.fullmatch(r"Closest to its limit: \w+, \S+ N m \(\d+ %\)", said)


def test_the_largest_torque_during_a_pull(page):
    page.open("robot=arm7")
    page.wait("dynRosPage.meshesLoaded && dynRosPage.torques.largest.textContent !== ''")
    page.run("dynRosPage.torques.largest.textContent = ''")
    page.run("dynRosPage.puller.hold(dynRosPage.robot.links.at(-1).index, [0, 0, 1])")
    page.run("dynRosPage.wake()")
    page.wait("dynRosPage.torques.largest.textContent !== ''")
    assert page.run("dynRosPage.isMoving")
    page.run("dynRosPage.puller.release()")


def test_a_robot_with_a_tool_and_without_shapes(page, tmp_path):
    text = re.sub(r"(?s)<visual>.*?</visual>", "", describe(tip="hand_tcp"))
    longer = """<joint name="more" type="continuous"><parent link="hand_tcp"/>
      <child link="finger"/></joint><link name="finger"/></robot>"""
    (tmp_path / "tool.urdf").write_text(text.replace("</robot>", longer))
    page.drop(tmp_path, "tool.urdf")
    assert page.run("[dynRosPage.frame, dynRosPage.carrier]") == ["hand_tcp", "hand_tcp"]
    assert not page.run("dynRosPage.show.noShapes.hidden")
    page.run("dynRosPage.move.filter.value = 'leg'; dynRosPage.move.applyFilter()")
    assert not page.run("dynRosPage.move.noMatch.hidden")
    page.run("dynRosPage.move.filter.value = 'HINGE'; dynRosPage.move.applyFilter()")
    assert page.run("dynRosPage.move.noMatch.hidden")


def test_small_entries_of_a_matrix(page):
    page.open("robot=arm7")
    page.choose_tab("Inertia")
    page.run(
        "dynRosPage.inertia.map.show(1, 4, (i, j) => [2, 1e-12, -0.0004, 0.00018][j], ['r'],"
        " ['a', 'b', 'c', 'd'])"
    )
    texts = []
    for column in range(4):
        page.run(f"dynRosPage.inertia.map.choose([0, {column}])")
        texts.append(page.run("dynRosPage.inertia.map.readout.textContent").split()[2])
    assert texts == ["2.0000", "0", "\u22120.0004", "0.00018"]


def test_manipulability_does_not_depend_on_axes(page):
    page.open("robot=arm7")
    page.choose_tab("Frame")
    texts = set()
    for axes in ("WORLD", "LOCAL", "LOCAL_WORLD_ALIGNED"):
        page.run(f"dynRosPage.state.set({{reference: '{axes}'}}); dynRosPage.updatePanels(true)")
        texts.add(tuple(page.tab.locator(".facts:visible dd").all_inner_texts()[4:6]))
    assert len(texts) == 1


def test_a_fall_keeps_motors_that_did_not_cause_it(page):
    page.open("robot=quadruped")
    page.wait("dynRosPage.meshesLoaded")
    for motors, is_held, after in (("off", 0, "hold"), ("float", 0, "hold"), ("float", 1, "float")):
        page.run(
            f"dynRosPage.state.values.motors = '{motors}';"
            f"dynRosPage.puller.held = {is_held} ? {{}} : null; dynRosPage.simulation.onFall()"
        )
        assert page.run("dynRosPage.state.values.motors") == after
        assert page.notice().startswith("The robot fell and was set up again.")
        assert ("Motors is back" in page.notice()) == (motors != after)
    page.run("dynRosPage.setMotors('hold')")


def test_a_robot_whose_legs_are_at_their_limits_stands(page, tmp_path):
    text = (PAGE / "robots" / "humanoid.urdf").read_text()
    text, count = re.subn(
        r'(_knee"(?:.|\n)*?|_hip_pitch"(?:.|\n)*?)<limit lower="\S+" upper="\S+"',
        r'\1<limit lower="0" upper="0.01"',
        text,
    )
    assert count == 4
    (tmp_path / "stiff.urdf").write_text(text)
    page.drop(tmp_path, "stiff.urdf")
    speeds = page.run(
        """(() => {
          const {simulation, robot, tip} = dynRosPage
          const frame = robot.model.frame_index(tip)
          const force = [0.03 * 9.81 * robot.model.total_mass(), 0, 0]
          simulation.onFall = () => {}
          simulation.pull = {frame, offset: [0, 0, 0], force}
          return Array.from({length: 40}, () => {
            simulation.advance(0.05)
            return simulation.pull === null ? NaN : Math.max(...simulation.v.map(Math.abs))
          })
        })()"""
    )
    assert np.isfinite(speeds).all(), "it has fallen"
    assert max(speeds[-5:]) < 0.1 * max(speeds)


def test_code_of_a_file_with_any_name(page, tmp_path):
    name = "a b\nsystem(0);'.urdf"
    content = json.dumps(describe())
    page.run(
        "const transfer = new DataTransfer();"
        f"transfer.items.add(new File([{content}], {json.dumps(name)}));"
        "document.querySelector('#file').files = transfer.files;"
        "document.querySelector('#file').dispatchEvent(new Event('change'))"
    )
    page.wait(f"dynRosPage.title === {json.dumps(name)} && dynRosPage.meshesLoaded")
    page.choose_tab("Code")
    code = page.tab.get_by_label("C++", exact=True).inner_text().splitlines()
    assert code[1].startswith("// dyn_ros export --model 'a b?system(0);'\\''.urdf' --out")
    assert code[3] == "#include <cstdio>"


LOADED = "payload=1.5&gravity=1,2,-9.81"


@pytest.mark.parametrize("language", ["Python", "JavaScript"])
@pytest.mark.parametrize("address", ["robot=arm7", f"robot=mobile_arm&{LOADED}", "robot=quadruped"])
def test_copied_code_computes_the_same(page, module, node, tmp_path, address, language):
    page.open(address)
    page.wait("dynRosPage.meshesLoaded")
    page.choose_tab("Code")
    lines = page.tab.get_by_label(language, exact=True).inner_text()
    for folder in ("dyn_ros", "docs"):
        (tmp_path / folder).symlink_to(CHECKOUT / folder)
    (tmp_path / "dyn_ros_web").symlink_to(module)
    if language == "Python":
        lines = (
            f"{lines}\nprint(g.tolist() + nle.tolist() + M.ravel().tolist() + J.ravel().tolist())"
        )
        command = [sys.executable, "-c", lines]
    else:
        (tmp_path / "main.mjs").write_text(
            f"{lines}\nconsole.log(JSON.stringify([...g, ...nle, ...M, ...J]))"
        )
        command = [node, "main.mjs"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 0, done.stderr
    g, nle, M, J = (
        np.ravel(page.numbers()[name])
        for name in ("generalized_gravity", "nonlinear_effects", "M", "frame_jacobian")
    )
    if language == "JavaScript":  # matrices are column by column where they are so in C
        J = J.reshape(6, -1).T.ravel()
    numbers = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(numbers, np.concatenate([g, nle, M, J]), rtol=1e-4, atol=1e-4)


def test_another_base_keeps_the_posture_of_joints(page):
    page.open("robot=arm7")
    page.wait("dynRosPage.meshesLoaded")
    page.choose_tab("Move")
    page.run("dynRosPage.setCoordinate(dynRosPage.robot.coordinates[3], 0.625)")
    for root in ("floating", "planar", "fixed"):
        page.tab.get_by_label("Base").select_option(root)
        page.wait(f"dynRosPage.robot.root === '{root}' && dynRosPage.q.at(3 - 7) === 0.625")


def test_frames_are_listed_by_their_kind(page):
    page.open("robot=arm7")
    page.choose_tab("Frame")
    groups = page.run(
        "[...document.querySelectorAll('.right optgroup')]"
        ".map(group => [group.label, ...[...group.children].map(option => option.value)])"
    )
    model = dyn_ros.Model.from_urdf_file(ROBOTS / "arm7.urdf")
    joints = [name for name in model.frame_names if name in (*model.joint_names, "tool_mount")]
    links = [name for name in model.frame_names if name not in joints]
    assert groups == [["Links", *links], ["Joints", *joints]]


def test_changes_while_meshes_load(page, tmp_path):
    (tmp_path / "a.stl").write_bytes(stl())
    (tmp_path / "slow.urdf").write_text(describe(mesh("a.stl")))
    page.run(
        "dynRosPage.onRobot = () => (delete dynRosPage.onRobot, setTimeout(() => {"
        "dynRosPage.setCoordinate(dynRosPage.robot.coordinates[0], 0.75);"
        "dynRosPage.setCoordinate(dynRosPage.robot.coordinates[0], 0.5, true)})), null"
    )
    page.drop(tmp_path, "slow.urdf")
    assert page.run("[dynRosPage.q[0], dynRosPage.v[0]]") == [0.75, 0.5]


@pytest.mark.parametrize("robot", ["arm7", "quadruped"])
def test_a_pull_moves_the_robot_which_returns(page, robot):
    page.open(f"robot={robot}")
    page.wait("dynRosPage.meshesLoaded")
    x, y = page.run(
        """(() => {
          const {canvas, camera, controls} = dynRosPage.picture
          const {left, top, width, height} = canvas.getBoundingClientRect()
          for (let y = 0.1; y < 0.9; y += 0.02) for (let x = 0.1; x < 0.9; x += 0.02) {
            const point = {clientX: left + x * width, clientY: top + y * height}
            if (dynRosPage.puller.hitAt(point)) return [point.clientX, point.clientY]
          }
        })()"""
    )
    before = page.run("[...dynRosPage.q]")
    page.tab.mouse.move(x, y)
    page.tab.mouse.down()
    page.tab.mouse.move(x + 60, y - 40, steps=3)
    page.wait("dynRosPage.puller.held !== null && dynRosPage.v.some(x => Math.abs(x) > 1e-3)")
    page.wait(f"dynRosPage.q.some((x, k) => Math.abs(x - {before}[k]) > 1e-3)")
    assert page.tab.inner_text("#pull").endswith(" N")
    page.tab.mouse.up()
    page.wait("!dynRosPage.isMoving")
    np.testing.assert_allclose(page.run("[...dynRosPage.q]"), before, atol=1e-3)


def test_keyboard(page):
    page.open("robot=arm7")
    page.wait("dynRosPage.meshesLoaded")
    page.tab.focus("#robots")
    reached = []
    for _ in range(60):
        page.tab.keyboard.press("Tab")
        reached.append(
            page.run(
                "(x => x.getAttribute('aria-label') ?? x.labels?.[0]?.textContent ?? x.textContent)"
                "(document.activeElement)"
            )
        )
    controls = (
        "Open folder",
        "Move",
        "Reset pose",
        "Base",
        "degrees",
        "elbow_pitch [rad]",
        "Torques",
    )
    for name in controls:
        assert name in reached
    assert any(name and name.startswith("The robot.") for name in reached)
    page.tab.focus("[aria-label='elbow_pitch [rad]']")
    position = page.run("dynRosPage.q[3]")
    page.tab.keyboard.press("ArrowRight")
    assert page.run("dynRosPage.q[3]") > position
    page.tab.get_by_role("tab", name="Torques").focus()
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.get_by_role("tab", name="Inertia").get_attribute("aria-selected") == "true"
    page.tab.keyboard.press("End")
    assert page.tab.get_by_role("tab", name="Code").get_attribute("aria-selected") == "true"
    page.tab.keyboard.press("ArrowRight")
    assert page.tab.get_by_role("tab", name="Torques").get_attribute("aria-selected") == "true"
    page.tab.focus("#canvas")
    page.tab.keyboard.press("ArrowLeft")
    assert page.run("dynRosPage.picture.isMoved")
    page.tab.keyboard.press("Shift+F")
    assert not page.run("dynRosPage.picture.isMoved")
    page.tab.keyboard.down("Shift")
    page.tab.keyboard.down("ArrowRight")
    page.tab.keyboard.down("ArrowUp")
    page.wait("dynRosPage.isMoving && dynRosPage.v.some(x => Math.abs(x) > 1e-3)")
    page.tab.keyboard.up("ArrowRight")
    assert page.run("[...dynRosPage.puller.keys]") == ["ArrowUp"]
    page.tab.keyboard.up("ArrowUp")
    assert page.run("dynRosPage.puller.held") is None
    page.tab.keyboard.up("Shift")
    page.wait("!dynRosPage.isMoving")


@pytest.mark.parametrize("kind", ["frames", "nle", "constraint"])
def test_embedded_pages(page, kind):
    page.open(f"robot=arm7&embed={kind}")
    page.wait("document.querySelectorAll('#embed output').length > 6")
    assert page.run("getComputedStyle(document.querySelector('header')).display") == "none"
    page.run("dynRosPage.setCoordinate(dynRosPage.robot.coordinates[1], 0.5)")


def test_size_of_what_is_loaded_first(folder):
    import gzip

    files = ("index.html", "page.css", "page.js", "robots/arm7.js")
    assert sum(len(gzip.compress((folder / file).read_bytes(), 9)) for file in files) < 250_000
