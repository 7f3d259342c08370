# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Measure the page in a browser without a graphics card: pictures, states and processor time.

The output is a line for each page: pictures per second that the browser draws, how many of them
show another state of the robot than the one before, updates per second that the server sends, and
the processor time of each update (server) and each picture (browser). Run nothing else meanwhile.

    python benchmarks/page.py [--size 1000x600] [--seconds 10] [view] [demo] [FILE.urdf ...]
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

BROWSER_SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
START_TIMEOUT = 300_000  # ms; the first start on a machine compiles
WARM_UP_TIME = 5.0  # s
COUNT_SCRIPT = """() => {
    const of = window.counts = {pictures: 0, states: 0, updates: 0};
    const names = Object.keys(__viserMutable.nodeRefFromName).filter(
        name => /^\\/robot(\\/\\d+)+$/.test(name));
    const robot = names.sort((a, b) => b.length - a.length)[0];
    let frame = __viserTestpoints.rendererInfo.render.frame, shown = "", sent = 0;
    function look() {
        const now = __viserTestpoints.rendererInfo.render.frame;
        const pose = __viserMutable.nodeRefFromName[robot].matrixWorld.elements.join();
        of.states += pose !== shown;
        of.pictures += now - frame;
        [frame, shown] = [now, pose];
        requestAnimationFrame(look);
    }
    look();
    window.link.addEventListener("message", event => {
        of.updates += event.data.messages?.some(
            message => message.type === "SetOrientationMessage") || 0;
    });
}"""
KEEP_LINK_SCRIPT = """window.Worker = class extends Worker {
    constructor(...options) { super(...options); window.link = this; }
};"""


def processor_time(pids):
    """Return the processor time that processes have used so far [s]."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def process_tree(pid):
    """Return a process and all processes that it has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in process_tree(int(child)))]


def measure(driver, address, server, size, seconds):
    """Return a row of the table."""
    own_processes = set(process_tree(os.getpid()))
    browser = driver.chromium.launch(
        executable_path=shutil.which("chromium"), args=BROWSER_SWITCHES
    )
    page = browser.new_page(viewport=size)
    page.add_init_script(KEEP_LINK_SCRIPT)
    page.goto(address)
    page.locator(".dyn-status").wait_for(timeout=START_TIMEOUT)
    page.get_by_text("compiling").wait_for(state="detached", timeout=START_TIMEOUT)
    page.get_by_text("receiving joint states").wait_for(timeout=START_TIMEOUT)
    time.sleep(WARM_UP_TIME)
    servers = process_tree(server.pid)
    browsers = set(process_tree(os.getpid())) - own_processes
    page.evaluate(COUNT_SCRIPT)
    start = time.monotonic()
    start_times = [processor_time(servers), processor_time(browsers)]
    time.sleep(seconds)
    counts = page.evaluate("counts")
    duration = time.monotonic() - start
    server_time = processor_time(servers) - start_times[0]
    browser_time = processor_time(browsers) - start_times[1]
    browser.close()
    return [
        *(counts[event] / duration for event in ("pictures", "states", "updates")),
        1e3 * server_time / counts["updates"],
        1e3 * browser_time / counts["pictures"],
    ]


def measure_page(driver, name, size, seconds):
    """Measure one page: view, demo, or view of a robot's file."""
    command = [name] if name in ("view", "demo") else ["view", name]
    options = ["--no-browser"] if command[0] == "view" else []
    server = subprocess.Popen(
        [sys.executable, "-m", "dyn_ros", *command, *options, "--port", "0"],
        text=True,
        env=dict(os.environ, PYTHONUNBUFFERED="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = next(
            match[0] for line in server.stdout if (match := re.search(r"http://[\w.]+:\d+", line))
        )
        return measure(driver, address, server, size, seconds)
    finally:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "pages",
        nargs="*",
        default=["view"],
        metavar="PAGE",
        help="view, demo, or a robot description (default: view)",
    )
    parser.add_argument("--size", default="1000x600", help="size of the window (default: 1000x600)")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    width, height = map(int, options.size.split("x"))
    print(f"{options.size}; load of this machine: {os.getloadavg()[0]:.1f}")
    print("page                 pictures/s  states/s  updates/s  server [ms]  browser [ms]")
    with sync_playwright() as driver:
        for name in options.pages:
            row = measure_page(driver, name, {"width": width, "height": height}, options.seconds)
            print(
                "{:20} {:10.1f} {:9.1f} {:10.1f} {:12.1f} {:13.1f}".format(
                    Path(name).stem[:20], *row
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
