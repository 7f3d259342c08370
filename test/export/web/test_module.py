# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Every exported function in Node.js and in Chromium: the bits of its results, and its errors."""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from export.tools import ROBOTS, run_program
from export.web.conftest import PROGRAMS, export_module

import dyn_ros
from dyn_ros.engine.machine_code.targets import best_target
from dyn_ros.export.functions import find_functions, function_names, parameter_name
from dyn_ros.export.model_file import write_model

pytest.importorskip("numba", reason="nothing can be compiled")
from dyn_ros.export.c_library import compile_entries
from dyn_ros.export.web.module import export_web_module

TESTS = Path(__file__).parents[2]
ROOT = TESTS.parent


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """Return the folder of robots, and of states with the results of code for x86-64-v2."""
    if "x86" not in best_target():
        pytest.skip("requires an x86-64 processor")
    entries = [p.one for function in find_functions() for p in function.algorithm.programs]
    compile_entries(entries, ["x86-64-v2"], None)
    folder = tmp_path_factory.mktemp("states")
    search_path = os.pathsep.join([str(TESTS), *filter(None, sys.path)])
    variables = {"DYN_ROS_TARGET": "x86-64-v2", "DYN_ROS_LIBRARY": "none"}
    environment = os.environ | variables | {"PYTHONPATH": search_path}
    run_program([sys.executable, PROGRAMS / "write_states.py", folder, 3], env=environment)
    return folder


def require_equal_bits(counts, names):
    """Require that no number differs, and that each function has some."""
    for robot, counts_of_robot in zip(ROBOTS, counts, strict=True):
        assert sorted(counts_of_robot) == sorted(names)
        different = {name: count for name, count in counts_of_robot.items() if count["different"]}
        assert not different, f"{robot}: {different}"
        assert all(count["numbers"] for count in counts_of_robot.values())


def run_in_node(node, folder, states):
    files = [states / f"{robot}{suffix}" for robot in ROBOTS for suffix in (".dynros", ".states")]
    names = ",".join(function_names())
    return json.loads(
        run_program([node, folder / "run.mjs", folder / "dyn_ros.wasm", names, *files])
    )


def test_bits_of_all_functions_in_node(node, module, states):
    require_equal_bits(run_in_node(node, module, states), function_names())


WITHOUT_SIMD = ("aba", "contact_dynamics", "frame_jacobian", "minverse", "rnea", "vereshchagin")


def test_bits_without_simd(node, states, tmp_path):
    folder = export_module(tmp_path, "wasm32-without-simd", WITHOUT_SIMD)
    require_equal_bits(run_in_node(node, folder, states), WITHOUT_SIMD)


RUN_IN_PAGE = """async ([robots, names]) => {
    const {compare} = await import('./compare.mjs')
    const read = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer())
    const module = await WebAssembly.compile(await read('dyn_ros.wasm'))
    const counts = []
    for (const robot of robots) {
        const files = [`${robot}.dynros`, `${robot}.states`]
        const [model, states] = await Promise.all(files.map(read))
        counts.push(await compare(module, model, states, names))
    }
    return counts
}"""


def test_bits_of_all_functions_in_chromium(module, states, browser):
    page = browser.new_page()
    serve_folders(page, [module, states])
    counts = page.evaluate(RUN_IN_PAGE, [list(ROBOTS), function_names()])
    page.close()
    require_equal_bits(counts, function_names())


def serve_folders(page, folders):
    """Open an empty page, which can fetch the files of folders."""
    types = {".mjs": "text/javascript", ".wasm": "application/wasm"}

    def answer(route):
        name = route.request.url.rpartition("/")[2]
        paths = [folder / name for folder in folders if name and (folder / name).exists()]
        if not paths:
            return route.fulfill(status=200, body="<title>test</title>", content_type="text/html")
        content_type = types.get(paths[0].suffix, "application/octet-stream")
        return route.fulfill(path=paths[0], content_type=content_type)

    page.route("http://test.invalid/**", answer)
    page.goto("http://test.invalid/")


FAULTS = """
import {readFile} from 'node:fs/promises'
import {load, LOCAL} from './dyn_ros.mjs'
const library = await load(readFile(new URL('./dyn_ros.wasm', import.meta.url)))
const file = await readFile(process.argv[2])
const model = await library.model(file)
const {nq, nv} = model
const [q, v] = [model.neutral(), new Float64Array(nv)]
const nan = v.map(() => NaN)
const changed = file.slice()
changed[changed.length - 1] ^= 1
const texts = {}
for (const [name, call] of Object.entries({
  short: () => model.rnea(q.slice(1), v, v),
  missing: () => model.rnea(),
  frame: () => model.frame_jacobian(q, 'nowhere', LOCAL),
  index: () => model.frame_jacobian(q, 10000, LOCAL),
  fraction: () => model.frame_jacobian(q, 1.5, LOCAL),
  axes: () => model.frame_jacobian(q, 'tool', 3),
  joint: () => model.lock_joint('nothing'),
  payload: () => model.set_payload(0, 'tool', -1),
  slot: () => model.set_payload(9, 'tool', 1),
  contacts: () => model.contact_dynamics(q, v, v, []),
  many: () => model.contacts(Array(13).fill({frame: 'tool', dimension: 3})),
  dimension: () => model.contacts([{frame: 'tool', dimension: 4}]),
  wrapped: () => model.frame_jacobian(q, 2 ** 32 + 3, LOCAL),
  text: () => model.set_gravity('123'),
  unknown: () => model.contacts([{frame: 'tool', dimensoin: 3}]),
  no_list: () => model.contacts(),
  no_file: () => library.model('arm7.dynros'),
  frozen: () => { model.nq = 1000 },
  restitution: () => model.contacts([{frame: 'tool'}], {restitution: 2}),
  constraints: () => model.constraints(Array(7).fill('tool')),
  gravity: () => model.set_gravity([NaN, 0, 0]),
  unchecked: () => model.rnea(q, nan, v),
  checked: () => { model.checks = true; model.rnea(q, nan, v) },
  damaged: () => library.model(changed),
  truncated: () => library.model(file.slice(0, 1000)),
  foreign: () => library.model(new Uint8Array(5000)),
})) {
  try {
    const {tau} = await call() ?? {}
    texts[name] = [0, String(tau && tau[0])]
  } catch (error) {
    texts[name] = [error.code ?? null, error.message]
  }
}
console.log(JSON.stringify(texts))
"""


def test_errors(node, module, tmp_path):
    model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    write_model(model, tmp_path / "arm7.dynros")
    (module / "faults.mjs").write_text(FAULTS)
    errors = json.loads(run_program([node, module / "faults.mjs", tmp_path / "arm7.dynros"]))
    frames = ", ".join(model.frame_names)
    no_frame = "no such frame, or no joint moves it, or both frames of a contact belong to one body"
    code_of_v = -11 - 64 * (1 + argument_names().index("v"))
    assert errors == {
        "short": [-19, "rnea: q has 6 numbers; expected 7 numbers"],
        "missing": [-19, "rnea: q is undefined; expected 7 numbers"],
        "frame": [-13, f'no frame "nowhere"; available: {frames}'],
        "index": [-13, f"frame_jacobian: {no_frame}"],
        "fraction": [None, "frame is 1.5; expected an integer of 32 bits"],
        "axes": [-15, "frame_jacobian: an integer is not one of the values in the header"],
        "joint": [-14, f'no joint "nothing"; available: {", ".join(model.joint_names)}'],
        "payload": [-16, "set_payload: no body has this mass and inertia"],
        "wrapped": [None, "frame is 4294967299; expected an integer of 32 bits"],
        "text": [-19, "set_gravity: gravity is 123; expected 3 numbers"],
        "unknown": [
            None,
            "contacts: unknown property dimensoin; expected an object with frame, dimension, "
            "reference_frame, other, placement, other_placement, kp, kd",
        ],
        "no_list": [None, "contacts: list is undefined; expected an array"],
        "no_file": [None, "model: expected the bytes of a model file, got arm7.dynros"],
        "frozen": [
            None,
            "Cannot assign to read only property 'nq' of object '#<Model>'",
        ],
        "slot": [-15, "set_payload: an integer is not one of the values in the header"],
        "contacts": [
            None,
            "contact_dynamics: contacts: expected what contacts(...) of this model returns",
        ],
        "many": [-17, "contacts_init: too many contacts, constraints, or constraints on one tip"],
        "dimension": [-15, "contacts_init: an integer is not one of the values in the header"],
        "restitution": [-18, "contacts_init: a number is negative or beyond its limits"],
        "constraints": [
            -17,
            "constraints_init: too many contacts, constraints, or constraints on one tip",
        ],
        "gravity": [-11, "set_gravity: a number is not finite"],
        "unchecked": [0, "NaN"],
        "checked": [code_of_v, "rnea: v has a number that is not finite"],
        "damaged": [
            -9,
            "model: the content of the model file is damaged, or was in use before; read it again",
        ],
        "truncated": [-7, "model: the model file is not complete; write it again"],
        "foreign": [-6, "model: not a model file; write one with dyn_ros export --model"],
    }


def argument_names():
    """Return the names of arguments that errors refer to, in the order of their codes."""
    inputs = [x for function in find_functions() for x in function.algorithm.inputs]
    return sorted(set(map(parameter_name, inputs)))


SINGULAR = """
import {readFile} from 'node:fs/promises'
import {load} from './dyn_ros.mjs'
const library = await load(readFile(new URL('./dyn_ros.wasm', import.meta.url)))
const model = await library.model(await readFile(process.argv[2]))
try {
  model.aba(model.neutral(), [0], [1])
} catch ({code, message, results}) {
  console.log(JSON.stringify([code, message, Object.keys(results)]))
}
"""
MASSLESS = """<robot name="r"><link name="a"/><link name="b"/>
<joint name="j" type="continuous"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/></joint>
</robot>"""


def test_a_velocity_without_inertia_is_an_error_with_results(node, module, tmp_path):
    write_model(dyn_ros.Model.from_urdf(MASSLESS), tmp_path / "r.dynros")
    (module / "singular.mjs").write_text(SINGULAR)
    output = run_program([node, module / "singular.mjs", tmp_path / "r.dynros"])
    code, message, results = json.loads(output)
    assert code == 1 and results == ["ddq"]
    assert message.startswith("aba: j: a velocity ")


MEMORY = """
import {readFile} from 'node:fs/promises'
import {load} from './dyn_ros.mjs'
const library = await load(readFile(new URL('./dyn_ros.wasm', import.meta.url)))
const file = await readFile(process.argv[2])
for (let n = 0; n < 300; n++) {
  const model = await library.model(file)
  const q = model.neutral()
  for (let k = 0; k < 20; k++) {
    const contacts = model.contacts([{frame: 'tool'}], {damping: 1e-6})
    model.contact_dynamics(q, q, q, contacts)
  }
}
const model = await library.model(file)
const [q, begin] = [model.neutral(), process.memoryUsage().arrayBuffers]
for (let k = 0; k < 20000; k++) model.contacts([{frame: 'tool'}])
console.log(process.memoryUsage().rss / 1e6)
"""


def test_memory_of_models_and_contacts_is_released(node, module, tmp_path):
    model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    write_model(model, tmp_path / "arm7.dynros")
    (module / "memory.mjs").write_text(MEMORY)
    assert float(run_program([node, module / "memory.mjs", tmp_path / "arm7.dynros"])) < 400


def test_types_declare_what_the_module_has(module):
    """Each method and property of a model, once."""
    types = (module / "dyn_ros.d.ts").read_text()
    declared = re.findall(r"^  (\w+)\(", types[types.index("export class Model") :], re.MULTILINE)
    source = (module / "dyn_ros.mjs").read_text()
    methods = re.findall(
        r"^  (?!constructor)([a-z]\w+)\(.*\) \{",
        source[source.index("class Model {") :],
        re.MULTILINE,
    )
    assert sorted(declared) == sorted({*methods, *function_names()} - {"check", "text"})


def test_another_target_is_an_error(tmp_path):
    with pytest.raises(
        ValueError, match="no target 'wasm'; available: wasm32, wasm32-without-simd"
    ):
        export_web_module(tmp_path, ["rnea"], "wasm")
