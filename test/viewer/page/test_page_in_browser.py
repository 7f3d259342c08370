# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser, without ROS: panels, plots, colors, lost connections, other pages."""

import threading
import time
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser: pip install viser")

import msgspec
import viser

from dyn_ros.demo.run import ARM
from dyn_ros.engine.model.urdf import read_urdf
from dyn_ros.viewer.actor import PageSettings
from dyn_ros.viewer.session import Session

from ..chromium import TIMEOUT
from .test_trust import slide

TOO_LONG = 60.0


class Nobody:
    """Does nothing that users want."""

    def __getattr__(self, name):
        return lambda *values: name in ("can_move", "can_weigh")


class Robot:
    """A session with an arm that moves."""

    def __init__(self, port=0, described=True):
        self.session = Session("127.0.0.1", port, Nobody(), PageSettings(has_motion=True))
        self.described = described
        if described:
            self.session.show_robot(read_urdf(ARM.read_text()), ARM.read_text())
            self.session.drawing.families["dynamics/markers", "torque"] = True
        self.lock = threading.Lock()  # a session belongs to one thread at a time
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        last = time.monotonic()
        while not self._ended.wait(0.05):
            now = time.monotonic()
            with self.lock:
                if self.described:
                    names = self.session.robot.names
                    q = 0.3 * np.sin(now + np.arange(7.0))
                    self.session.receive_joint_state(names, q)
                    self.session.receive_torques("gravity", names, 10.0 * q)
                    self.session.receive_torques("nle", names, 11.0 * q)
                    self.session.update(now, now - last)
            last = now

    def close(self):
        self._ended.set()
        self._thread.join()
        self.session.close()


@pytest.fixture(scope="module")
def robot():
    robot = Robot()
    yield robot
    robot.close()


@pytest.fixture
def open_page(browser):
    """Open an address in a window of its own; the page must not complain."""
    contexts, faults = [], []

    def open_page(address, width=1000, height=600, scheme="light"):
        contexts.append(
            browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        )
        page = contexts[-1].new_page()
        page.set_default_timeout(TIMEOUT)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: (
                faults.append(message.text) if "Content Security Policy" in message.text else None
            ),
        )
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def page(open_page, robot):
    page = open_page(robot.session.address)
    page.get_by_role("tab", name="Move").wait_for()
    return page


def until(ready, state=""):
    end = time.monotonic() + TOO_LONG
    while not (result := ready()):
        assert time.monotonic() < end, state() if callable(state) else state
        time.sleep(0.1)
    return result


def tabs(page):
    return [tab.inner_text() for tab in page.get_by_role("tab").all()]


ONE, TWO = ["Move", "Touch", "Torques", "Markers"], ["Move", "Touch", "Markers", "Torques"]


def plots(page):
    """Left and right edge of the shown plots [px]."""
    return [
        (box["x"], box["x"] + box["width"])
        for box in (plot.bounding_box() for plot in page.locator(".uplot").all())
        if box
    ]


def test_panels_follow_the_window(page, robot):
    until(lambda: tabs(page) == ONE, lambda: tabs(page))
    page.get_by_role("tab", name="Torques").click()
    until(
        lambda: len(plots(page)) == 7 and max(right for _, right in plots(page)) < 310,
        lambda: plots(page),
    )
    page.set_viewport_size({"width": 1280, "height": 800})
    until(lambda: tabs(page) == TWO, lambda: tabs(page))
    until(
        lambda: len(plots(page)) == 7 and min(left for left, _ in plots(page)) > 900,
        lambda: plots(page),
    )
    page.set_viewport_size({"width": 600, "height": 800})
    until(lambda: tabs(page) == ONE, lambda: tabs(page))
    until(lambda: page.locator("canvas").first.bounding_box()["width"] >= 350)


def test_a_small_window_has_room_for_the_robot(open_page, robot):
    page = open_page(robot.session.address, 600, 800)
    until(lambda: tabs(page) == ONE, lambda: tabs(page))
    until(lambda: 350 <= page.locator("canvas").first.bounding_box()["width"] < 400)
    rows = {round(tab.bounding_box()["y"]) for tab in page.get_by_role("tab").all()}
    assert len(rows) == 1


def test_on_a_telephone_the_panel_is_below_the_robot(open_page, robot):
    page = open_page(robot.session.address, 420, 800)
    until(lambda: tabs(page) == ONE, lambda: tabs(page))
    until(lambda: page.locator("canvas").first.bounding_box()["height"] == 400.0)
    tab = page.get_by_role("tab", name="Torques")
    assert tab.bounding_box()["y"] > 400.0
    tab.click()
    until(lambda: len(plots(page)) == 7, lambda: plots(page))
    last = page.locator(".uplot:visible").last
    last.scroll_into_view_if_needed()
    assert 400.0 < last.bounding_box()["y"] < 800.0


def test_each_window_has_its_own_panels(page, open_page, robot):
    wide = open_page(robot.session.address, 1200, 500)
    until(lambda: tabs(wide) == TWO, lambda: tabs(wide))
    until(lambda: tabs(page) == ONE, lambda: tabs(page))
    until(lambda: wide.locator("[data-joint=wrist_roll] .gravity").count() == 1)


def test_a_new_robot_is_arranged_too(open_page):
    robot = Robot()
    try:
        page = open_page(robot.session.address, 1280, 800)
        until(lambda: tabs(page) == TWO, lambda: tabs(page))
        with robot.lock:
            robot.session.show_robot(read_urdf(ARM.read_text()), ARM.read_text())
        page.wait_for_timeout(1000)
        until(lambda: tabs(page) == TWO, lambda: tabs(page))
        until(lambda: page.locator("[data-joint=wrist_roll] .gravity").count() == 1)
    finally:
        robot.close()


def test_curves_are_read_at_one_instant(open_page, robot):
    page = open_page(robot.session.address, 1200, 500)
    until(lambda: len(plots(page)) == 7)
    page.wait_for_selector("[data-joint=wrist_roll] .gravity")
    page.wait_for_timeout(3000)
    assert page.locator(".u-legend:visible").count() == 0
    over = page.locator(".u-over").nth(2).bounding_box()
    x, y = over["x"] + over["width"] - 30.0, over["y"] + 20.0

    def read():
        page.mouse.move(x, y)
        page.mouse.move(x + 1.0, y)
        return page.evaluate("""() => [...document.querySelectorAll(".u-legend")]
            .filter(each => getComputedStyle(each).display != "none")
            .map(each => each.innerText.split(/\\s*\\n\\s*/))""")

    until(lambda: len(read()) == 7, read)
    values = until(
        lambda: [row for row in read() if not any("--" in text for text in row[:6])], read
    )
    text = "\n".join(values[0])
    assert "gravity" in text and "nle" in text and "time (s)" in text


def test_dark_and_light_as_the_browser_prefers(open_page, robot):
    page = open_page(robot.session.address, scheme="dark")
    scheme = partial(page.evaluate, "document.documentElement.dataset.mantineColorScheme")
    until(lambda: page.locator(".dyn.status").count() and scheme() == "dark", scheme)
    assert contrast(page) >= 7.0
    until(lambda: any(window.dark for window in robot.session.server.windows.values()))
    page.emulate_media(color_scheme="light")
    until(lambda: scheme() == "light", scheme)
    assert contrast(page) >= 7.0
    until(lambda: not any(window.dark for window in robot.session.server.windows.values()))


def contrast(page):
    """The contrast ratio of WCAG of the status line, in the panel."""
    return page.evaluate("""() => {
        const numbers = text => text.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255);
        const light = rgb => rgb.map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4)
            .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
        const text = document.querySelector(".dyn.status");
        let ground = text;
        while (/, 0\\)|transparent/.test(getComputedStyle(ground).backgroundColor))
            ground = ground.parentElement;
        const both = [light(numbers(getComputedStyle(text).color)),
                      light(numbers(getComputedStyle(ground).backgroundColor))].sort();
        return (Math.max(...both) + .05) / (Math.min(...both) + .05);
    }""")


def test_degrees_and_the_hint_of_a_slider(page, robot):
    page.get_by_label("degrees").check()
    slider = page.locator(".mantine-Slider-trackContainer").nth(1)
    hint = page.get_by_text("shoulder_pitch: -108.9 to 108.9 deg")

    def height():
        """Return the height of the hint under the mouse; it disappears with replaced sliders."""
        box = slider.bounding_box()
        if box:
            page.mouse.move(box["x"] + 5, box["y"] + 3)
            page.mouse.move(box["x"] + 9, box["y"] + 3)
        return max(
            hint.evaluate_all("all => all.map(each => each.getBoundingClientRect().height)"),
            default=0.0,
        )

    assert until(height) < 40.0
    page.get_by_label("degrees").uncheck()


def test_the_limits_of_a_slider_are_below_it(page):
    """Apart from the name of its joint."""
    for row in page.locator(".mantine-Slider-root").all()[:3]:
        box = row.bounding_box()
        for label in row.locator(".mantine-Slider-markLabel").all():
            mark = label.bounding_box()
            assert box["x"] - 6 < mark["x"]
            assert mark["x"] + mark["width"] < box["x"] + box["width"] + 6


def test_a_marker_is_explained(page):
    page.get_by_role("tab", name="Markers").click()
    label = page.locator("label", has_text="torque").first
    label.hover()
    until(
        lambda: label.evaluate("each => getComputedStyle(each, '::after').content").startswith(
            '"Torque of each joint'
        )
    )
    assert label.evaluate("each => getComputedStyle(each, '::before').backgroundColor") == (
        "rgb(240, 140, 0)"
    )
    # the panel has room for it below the last name
    height = label.evaluate("each => getComputedStyle(each, '::after').height")
    room = page.locator(".dyn-room").bounding_box()
    assert room["y"] > label.bounding_box()["y"]
    assert 12.0 < float(height.removesuffix("px")) < room["height"]


def test_a_lost_connection_is_said_and_recovers(open_page):
    robot = Robot()
    port = robot.session.server.get_port()
    try:
        page = open_page(robot.session.address)
        page.get_by_role("tab", name="Move").wait_for()
        alert = page.locator("#dyn-lost")
        assert alert.count() == 0
        robot.close()
        alert.wait_for()
        assert "Connection lost" in alert.inner_text()
        assert alert.get_attribute("role") == "alert"
        robot = Robot(port)
        assert robot.session.server.get_port() == port
        alert.wait_for(state="detached")
        until(lambda: tabs(page) == ONE, lambda: tabs(page))
    finally:
        robot.close()


def test_without_a_robot(open_page):
    robot = Robot(described=False)
    try:
        robot.session.wait("Start robot_state_publisher.")
        page = open_page(robot.session.address)
        page.get_by_text("Waiting for a robot").wait_for()
        page.get_by_text("Start robot_state_publisher.").wait_for()
    finally:
        robot.close()


# Pages of others

HOSTILE = """<!doctype html><title>trying</title><script>
const found = {}, message = new Uint8Array(MESSAGE);
const done = name => result => {
    found[name] = result;
    if (Object.keys(found).length == 3) document.title = JSON.stringify(found);
};
const socket = new WebSocket("ws://HOST/", ["PROTOCOL"]);
socket.onopen = () => { socket.send(message); setTimeout(() => done("socket")("open"), 1000); };
socket.onmessage = () => done("socket")("read");
socket.onerror = () => done("socket")("refused");
fetch("http://HOST/").then(answer => answer.text()).then(text => done("page")("read"),
                                                       () => done("page")("refused"));
const frame = document.createElement("iframe");
frame.src = "http://HOST/";
frame.onload = () => {
    let inside = "refused";
    try { inside = frame.contentDocument ? "same" : "refused"; } catch (error) {}
    done("frame")(inside);
};
document.documentElement.append(frame);
</script>"""


@pytest.fixture
def serve():
    """Serve a text as a page, on a port of its own."""
    servers = []

    def serve(text):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *values):
                pass

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return servers[-1].server_address[1]

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def hostile(host, robot):
    message = list(msgspec.msgpack.encode(slide(robot.session.panel, 0.5)))
    return (
        HOSTILE.replace("HOST", host)
        .replace("MESSAGE", str(message))
        .replace("PROTOCOL", f"viser-v{viser.__version__}")
    )


def test_a_page_of_somebody_else_learns_nothing(browser, robot, serve):
    """On another port, and under another name that resolves to this machine."""
    host = f"localhost:{robot.session.server.get_port()}"
    moved = []
    for slider in robot.session.panel._sliders:
        slider.on_update(lambda event: moved.append(event) if event.client is not None else None)
    until(lambda: not robot.session.server.get_clients(), "pages of other tests remain connected")
    for place in ("localhost", "127.0.0.1"):
        page = browser.new_page()
        page.goto(f"http://{place}:{serve(hostile(host, robot))}/")
        page.wait_for_function("document.title != 'trying'", timeout=TIMEOUT)
        assert msgspec.json.decode(page.title()) == {
            "socket": "refused",
            "page": "refused",
            "frame": "refused",
        }
        page.close()
    assert moved == [] and not robot.session.server.get_clients()


def test_the_attempt_would_work_from_the_page_itself(page, robot):
    """So the test above is about the origin, not about mistakes in the attempt."""
    host = f"localhost:{robot.session.server.get_port()}"
    assert (
        page.evaluate(
            """([url, protocol]) => new Promise(done => {
        const socket = new WebSocket(url, [protocol]);
        socket.onmessage = () => done("read");
        socket.onerror = () => done("refused");
    })""",
            [f"ws://{host}/", f"viser-v{viser.__version__}"],
        )
        == "read"
    )


def test_a_link_cannot_make_the_page_show_another_server(open_page, robot, serve):
    port = serve("nothing")
    page = open_page(f"{robot.session.address}/?websocket=ws://127.0.0.1:{port}&darkMode")
    page.get_by_role("tab", name="Move").wait_for()
    assert "websocket" not in page.url
    page.locator(".dyn.status").wait_for()
