# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The reader of descriptions in JavaScript, in Chromium: Python's model files, errors and findings.

Chromium reads each description, and so does Python.
"""

import base64
import importlib
import json
import random
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from engine.model import test_urdf, test_urdf_numbers
from viewer.chromium import TIMEOUT

import dyn_ros
import peer
from dyn_ros.check import check_urdf
from dyn_ros.engine.model.urdf import MAX_CHARACTERS
from dyn_ros.engine.model.urdf.text import XACRO_REMEDY
from dyn_ros.export import model_file
from dyn_ros.export.web.layout import layout_module

ROOT = Path(__file__).resolve().parents[3]
JAVASCRIPT = Path(dyn_ros.__file__).parent / "export" / "web" / "javascript"
ROBOTS = [
    *sorted(peer.EXAMPLE_ROBOTS.rglob("*.urdf")),
    *sorted(ROOT.glob("dyn_ros/robots/*.urdf")),
    *sorted(ROOT.glob("test/robots/*.urdf")),
]
SMALL_ROBOTS = [path for path in ROBOTS if path.stat().st_size < 15_000]
MUTATIONS = 300
TOLERANCE = 1e-15  # relative, and of numbers below 1 absolute
FLOAT_SECTIONS = ("FLOATS", "BODIES", "LINKS", "ARMATURE", "LIMITS", "PAYLOADS")
FINDINGS = {"no-mass", "point-mass", "not-physical", "rounding", "placeholder", "mass-spread"}
ADDRESS = "http://reader.test/"
PAGE = """<!DOCTYPE html><script type="module">
import * as description from "./description.mjs"
import * as findings from "./findings.mjs"
import * as urdf from "./urdf.mjs"

const bytesOf = text => Uint8Array.from(atob(text), character => character.charCodeAt(0))
const textOf = bytes => {
  let text = ""
  for (let i = 0; i < bytes.length; i += 4096) {
    text += String.fromCharCode(...bytes.subarray(i, i + 4096))
  }
  return btoa(text)
}

function read({ text, bytes, options }) {
  try {
    const robot = urdf.readUrdf(bytes === undefined ? text : bytesOf(bytes), options)
    const { name, warnings } = robot
    const [joints, frames] = [robot.joints, robot.frames].map(list => list.map(({ name }) => name))
    const content = textOf(robot.bytes)
    return { name, warnings, joints, frames, content, findings: findings.inertiaFindings(robot) }
  } catch (error) {
    return { error: error.message, type: error.name }
  }
}

const readAll = text => JSON.stringify(JSON.parse(text).map(read))
Object.assign(window, { description, urdf, read, readAll })
</script>"""


class Case(NamedTuple):
    """A description, and how it is read."""

    xml: str | bytes
    root_joint: str | None = None
    mimic: str = "project"
    strict: bool = False

    def message(self):
        """What the page receives."""
        is_text = isinstance(self.xml, str)
        content = self.xml if is_text else base64.b64encode(self.xml).decode()
        options = {"rootJoint": self.root_joint, "mimic": self.mimic, "strict": self.strict}
        return {"text" if is_text else "bytes": content, "options": options}


@pytest.fixture(scope="module")
def page(browser):
    """A page with the reader, that may request nothing but its modules."""
    files = {"": PAGE, "layout.mjs": layout_module()}
    files |= {path.name: path.read_text(encoding="utf-8") for path in JAVASCRIPT.glob("*.mjs")}

    def answer(route):
        name = route.request.url.removeprefix(ADDRESS)
        kind = "text/javascript" if name else "text/html"
        route.fulfill(body=files[name], content_type=f"{kind}; charset=utf-8")

    page = browser.new_page()
    page.set_default_timeout(TIMEOUT)
    page.route("**", answer)
    page.goto(ADDRESS)
    page.wait_for_function("() => Boolean(window.readAll)")
    yield page
    page.close()


def read_all(page, cases):
    """What the page reads from descriptions."""
    text = json.dumps([Case.message(case) for case in cases])
    return json.loads(page.evaluate("text => readAll(text)", text))


def compare(page, cases):
    """Compare both readers; return the number of descriptions that were accepted."""
    accepted, remedy = 0, page.evaluate("description.XACRO_REMEDY")
    for case, result in zip(cases, read_all(page, cases), strict=True):
        try:
            model = dyn_ros.Model.from_urdf(
                case.xml, case.root_joint, mimic=case.mimic, strict=case.strict
            )
        except dyn_ros.UrdfError as error:
            compare_errors(result, str(error).replace(XACRO_REMEDY, remedy))
        else:
            compare_models(result, model)
            accepted += 1
    return accepted


def compare_errors(result, expected):
    assert result.get("type") == "UrdfError", (result.get("error"), expected)
    message = result["error"]
    for beginning in ("not well-formed XML: ", "the description cannot be decoded as zlib: "):
        if expected.startswith(beginning):
            message = expected = message if message.startswith(beginning) else beginning
    assert message == expected


def compare_models(result, model):
    assert "error" not in result, result["error"]
    assert result["name"] == model.name
    assert result["warnings"] == list(model.warnings)
    assert result["joints"] == list(model.joint_names)
    assert result["frames"] == list(model.frame_names)
    expected = np.frombuffer(model_file.model_bytes(model), np.int64)
    words = np.frombuffer(base64.b64decode(result["content"]), np.int64)
    assert len(words) == len(expected)
    is_float = np.zeros(len(words), bool)
    for section in FLOAT_SECTIONS:
        entry = len(model_file.HEADER) + 2 * model_file.SECTIONS.index(section)
        start, count = expected[entry : entry + 2]
        is_float[start // 8 :][:count] = True
    is_integer = ~is_float
    is_integer[model_file.HEADER.index("CHECKSUM")] = False
    assert (words[is_integer] == expected[is_integer]).all()
    np.testing.assert_allclose(
        words[is_float].view(float), expected[is_float].view(float), TOLERANCE, TOLERANCE
    )
    content = words.copy()
    content[model_file.HEADER.index("CHECKSUM")] = 0
    assert words.view(np.uint64)[model_file.HEADER.index("CHECKSUM")] == model_file.checksum(
        content
    )


def test_robots(page):
    assert len(ROBOTS) > 70
    assert compare(page, [Case(path.read_bytes()) for path in ROBOTS]) > 65


@pytest.mark.parametrize("root_joint, mimic", [("floating", "ignore"), ("planar", "project")])
def test_root_joints_and_mimic_joints(page, root_joint, mimic):
    cases = [Case(path.read_text(encoding="utf-8"), root_joint, mimic) for path in SMALL_ROBOTS]
    assert compare(page, cases) > 10


def test_rejected_and_odd_descriptions(page):
    texts = [text for text, _ in (test_urdf.BAD | test_urdf.ODD).values() if text is not None]
    descriptions = [text for text in texts if len(text) < MAX_CHARACTERS]
    cases = [Case(xml, strict=strict) for xml in descriptions for strict in (False, True)]
    assert compare(page, cases) == len(test_urdf.ODD)


@pytest.mark.parametrize("expression", ["' '.repeat(20e6)", "new Uint8Array(20e6).fill(60)"])
def test_a_description_that_is_too_long(page, expression):
    error = page.evaluate(
        f"""() => {{
          try {{ urdf.readUrdf({expression}) }} catch (error) {{ return error.message }}
        }}"""
    )
    with pytest.raises(dyn_ros.UrdfError) as expected:
        dyn_ros.Model.from_urdf(" " * 20_000_000)
    assert error == str(expected.value)


def test_numbers(page):
    texts = [
        text
        for test in (test_urdf_numbers.test_a_number, test_urdf_numbers.test_no_number)
        for text in test.pytestmark[0].args[1]
    ]
    texts = [text if isinstance(text, str) else text[0] for text in texts]
    cases = [Case(test_urdf_numbers.robot(com=f"0 0 {text}")) for text in texts]
    assert compare(page, cases) == 13


@pytest.mark.parametrize(
    "numbers",
    [
        {"mass": "1e30", "com": "1e30 -1e30 1e15"},
        {"mass": "1.1e30"},
        {"multiplier": "1e9", "offset": "-1e9"},
        {"multiplier": "1.1e9"},
        {"lower": "1e15", "upper": "1e16"},
        {"axis": "0 1e300 -1e300"},
        {"mass": "9" * 100_000},
        {"ixx": "1e-320", "iyy": "5e-324", "izz": "-0"},
        {"mass": "5e-324", "com": "1e-300 0 1e30"},
    ],
)
def test_large_and_small_numbers(page, numbers):
    compare(page, [Case(test_urdf_numbers.robot(**numbers))])


def test_mutated_descriptions(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    descriptions = importlib.import_module("fuzzing.descriptions").Target(None)
    mutations = importlib.import_module("fuzzing.mutations")
    cases = [
        mutated_case(random.Random(f"reader {n}"), descriptions, mutations)
        for n in range(MUTATIONS)
    ]
    assert 20 < compare(page, cases) < MUTATIONS - 100


def mutated_case(rng, descriptions, mutations):
    """A damaged description, of one robot or of two."""
    text = rng.choice(descriptions.texts)
    if rng.random() < 0.2:
        xml = mutations.mutate_bytes(rng, text.encode())
    else:
        xml = mutations.mutate_text(rng, text, descriptions.words)
    root_joint, mimic = rng.choice((None, "floating", "planar")), rng.choice(("project", "ignore"))
    return Case(xml, root_joint, mimic, rng.random() < 0.2)


# ---------------------------------------------------------------------------- XML


CHARACTERS = "aé\u0131\u0132\u03cf\u0660\u2160\u4e00\ufb00\U00010400\U0001f916\xb7\xd7:.-1"
NAMESPACES = [
    'xmlns:a="u" xmlns:b="u"',
    'xmlns:a=""',
    'xmlns:a="}"',
    'xmlns:xml="u"',
    'xmlns:xml="http://www.w3.org/XML/1998/namespace"',
    'xmlns:xmlns="u"',
    'xmlns="http://www.w3.org/2000/xmlns/"',
    'xmlns:a="http://www.w3.org/XML/1998/namespace"',
    'xmlns=""',
    "xml:lang='en'",
    "c:d='1' c:d='2'",
]
DECLARATIONS = [
    "<?xml version='1.1'?>",
    "<?xml version='2.x' encoding='elvish' standalone='no' ?>",
    "<?xml encoding='utf-8'?>",
    "<?xml version='1.0' standalone='maybe'?>",
    "<?xml?>",
    "<?XML version='1.0'?>",
    "<?xml-stylesheet ?>",
    " \ufeff\n<?xml version='1.0'?>",
    "<!-- --><?xml version='1.0'?>",
    "<!---->\n<?a?><?b ?>",
    "<!-- <!DOCTYPE robot> -->",
    "<!DOCTYPE robot [<!ENTITY a 'b'>]>",
    "<!--><!DOCTYPE robot>-->",
]
CONTENTS = [
    "]]>",
    "]] >",
    "&amp;&#65;&#x41;&lt;",
    "&#0;",
    "&#xD800;",
    "&#x110000;",
    "&#xFFFE;",
    "&#x1FFFE;",
    "&a;",
    "& ",
    "\x7f\x85\u2028",
    "\ufffe",
    "<![CDATA[<&]]>",
    "<![CDATA[",
    "<?p <!-- ?>-- <!-- -->",
    "<a b='1'c='2'/>",
    "<a b='<'/>",
    "<a b=1/>",
    "<a / >",
    "< a/>",
    "<a ></a >",
    "<a></ a>",
    "<a:b xmlns:a='1' xmlns:c='1' a:x='' c:x=''/>",
    "<a:b:c/>",
    "<:a/>",
    "<a:/>",
    "<a:1/>",
    "<?a:b?>",
    "<?a??>",
    "<!-- -- --><other:tag/>",
    "<xacro:property/>",
    '<b xmlns="http://www.ros.org/wiki/xacro/"/>',
    "<link name='&lt;script&gt;&#10;\t\r\n'/>",
]
PLAIN = test_urdf.robot(test_urdf.link("a"))


@pytest.mark.parametrize(
    "documents",
    [
        [PLAIN.replace("</robot>", f"<x{c}/><{c}/></robot>") for c in CHARACTERS],
        [PLAIN.replace("<robot", f"<robot {text}") for text in NAMESPACES],
        [text + PLAIN for text in DECLARATIONS],
        [PLAIN.replace("</robot>", f"{text}</robot>") for text in CONTENTS],
        [f"{PLAIN}\n<!-- --><?a?> {text}" for text in (" ", "x", "<a/>", "&#32;", "</robot>")],
    ],
    ids=["names", "namespaces", "declarations", "contents", "ends"],
)
def test_xml(page, documents):
    compare(page, [Case(xml) for xml in documents])


@pytest.mark.parametrize(
    "encoding, text",
    [
        ("utf-8", "größe"),
        ("UTF8", "größe"),
        ("utf-16", "größe 🤖"),
        ("iso-8859-1", "größe \x85"),
        ("us-ascii", "size"),
        ("us-ascii", "größe"),
        ("windows-1252", "größe €"),
        ("koi8-r", "размер"),
    ],
)
def test_encodings(page, encoding, text):
    xml = f'<?xml version="1.0" encoding="{encoding}"?>{test_urdf.robot(test_urdf.link(text))}'
    data = xml.encode("utf-8" if encoding == "us-ascii" else encoding)
    compare(page, [Case(data), *(Case(data[:-n]) for n in range(1, 4))])


@pytest.mark.parametrize(
    "data",
    [
        *(b"\x80", b"\xc0\x80", b"\xc3(", b"\xe0\x80\x80", b"\xe4\xb8", b"\xe4\xb8(", b"\xed\xa0"),
        *(b"\xf0\x8f", b"\xf0\x9f\xa4", b"\xf4\x90", b"\xf5", b"\xff\xfe\x00", b"\xff\xfe\x00\xd8"),
        *(b"\xff\xfe\x00\xdc<\x00", b"\xff\xfe\x00\xd8<\x00", b"\xfe\xff\xd8\x00\x00"),
    ],
)
def test_wrong_bytes(page, data):
    compare(page, [Case(data), Case(PLAIN.encode() + data)])


def test_a_file(page):
    def read(content):
        return page.evaluate(
            "codes => { try { return description.readDescription(Uint8Array.from(codes)) }"
            " catch (error) { return error.message } }",
            list(content),
        )

    assert read(PLAIN.encode() + b"\n---\n") == PLAIN
    too_long = page.evaluate(
        "size => { try { return urdf.readDescription(new Uint8Array(size)) }"
        " catch (error) { return error.message } }",
        MAX_CHARACTERS + 1,
    )
    assert too_long.startswith("the description does not end within 5000000 characters; at most 5 ")


# ---------------------------------------------------------------------------- hostile input


@pytest.mark.parametrize(
    "xml",
    {
        "links": "<robot>" + "".join(f"<link name='{n}'/>" for n in range(100_000)) + "</robot>",
        "elements": PLAIN.replace("</robot>", "<a/>" * 100_000 + "</robot>"),
        "depth": PLAIN.replace("</robot>", "<a>" * 100_000 + "</a>" * 100_000 + "</robot>"),
        "prefixes": PLAIN.replace(
            "</robot>", "".join(f"<a{n}:b/>" for n in range(20_000)) + "</robot>"
        ),
        "scopes": PLAIN.replace("</robot>", "".join(f"<a xmlns:a{n}='b'>" for n in range(20_000))),
        **{
            text: "<robot>" + text * (500_000 // len(text))
            for text in ("<!--", "<![CDATA[", "<a><!-- - --", "<?", "<!-- -->", "&", "\n", "<a b='")
        },
    }.values(),
)
def test_large_descriptions_of_every_kind(page, xml):
    [result] = read_all(page, [Case(xml)])
    assert ("error" in result) == (xml[-8:] != "</robot>" or "<link name='99999'/>" in xml)


def test_names_are_plain_text(page):
    name = "<img src=x onerror=document.title='hit'><script>document.title='hit'</script>"
    escaped = name.replace("<", "&lt;")
    xml = test_urdf.one_joint("revolute", "").replace('"j"', f'"{escaped}"')
    before = page.content()
    [result] = read_all(page, [Case(xml)])
    assert result["joints"] == [name]
    assert name in result["warnings"][0]
    assert compare(page, [Case(xml.replace('"a"', '"__proto__"'))]) == 1
    assert page.content() == before and page.title() == ""


@pytest.mark.parametrize(
    "options, message",
    [
        ({"rootJoint": "spherical"}, 'rootJoint is "spherical"; expected one of null, "floating"'),
        ({"mimic": None}, 'mimic is null; expected one of "project", "ignore"'),
        ({"gravity": [0, 0]}, "gravity: expected 3 finite numbers, got 0, 0"),
    ],
)
def test_wrong_options(page, options, message):
    result = page.evaluate("message => read(message)", {"text": PLAIN, "options": options})
    assert result["type"] == "RangeError" and result["error"].startswith(message)


def test_gravity_of_the_world(page):
    options = {"gravity": [1.0, 2.0, -1.62]}
    result = page.evaluate("message => read(message)", {"text": PLAIN, "options": options})
    model = dyn_ros.Model.from_urdf(PLAIN, gravity=options["gravity"])
    assert base64.b64decode(result["content"]) == model_file.model_bytes(model)


# ---------------------------------------------------------------------------- findings


def without_shapes(xml):
    """A description without visual and collision shapes, or None if it is not XML."""
    root = ElementTree.fromstring(xml)
    for link in root.iter("link"):
        for shape in [child for child in link if child.tag in ("visual", "collision")]:
            link.remove(shape)
    return ElementTree.tostring(root, encoding="unicode")


def inertias(*values):
    """A robot whose links, on continuous joints, have inertias: keyword arguments of inertial."""
    names = [f"l{n}" for n in range(len(values))]
    bodies = [
        test_urdf.link(name, test_urdf.inertial(**value))
        for name, value in zip(names, values, strict=True)
    ]
    joints = [test_urdf.joint(f"j_{name}", "continuous", "a", name) for name in names]
    return test_urdf.robot(test_urdf.link("a"), *bodies, *joints)


def moments(moment):
    return {"ixx": moment, "iyy": moment, "izz": moment}


def test_findings_of_odd_inertias(page):
    xml = inertias(
        {"mass": "0"},
        {"mass": "0", **moments("0")},
        moments("0"),
        moments("1e-14"),
        {"ixx": "-1"},
        {"ixx": "3"},
        {"ixx": "-1e-9"},
        moments("0.001"),
        moments("0.01"),
        moments("0.0001"),
        {"mass": "1e-9"},
        {"mass": "1e6", "ixx": "1e-3", "iyy": "1.1e-3", "izz": "1e-3"},
        {"ixy": "0.5"},
    )
    assert compare_findings(page, [xml]) == FINDINGS


def test_findings_of_robots(page):
    documents = [path.read_text(encoding="utf-8") for path in SMALL_ROBOTS]
    assert compare_findings(page, map(without_shapes, documents)) >= {"placeholder", "point-mass"}


def compare_findings(page, documents):
    """Compare findings of descriptions without shapes; return their kinds."""
    documents, kinds = list(documents), set()
    results = read_all(page, [Case(xml, mimic="ignore") for xml in documents])
    for xml, result in zip(documents, results, strict=True):
        if "error" in result:
            continue
        expected = [
            {name: getattr(finding, name) for name in ("where", "what", "advice", "kind")}
            for finding in check_urdf(xml)
            if finding.kind in FINDINGS
        ]
        assert [finding.pop("link") for finding in result["findings"]] == [
            finding["where"][6:-1] for finding in expected
        ]
        assert result["findings"] == expected
        kinds |= {finding["kind"] for finding in expected}
    return kinds
