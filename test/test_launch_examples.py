# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The launch files in XML and YAML, read without launch: they start what exists."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
SHARE = "$(find-pkg-share dyn_ros)/"


def executables():
    setup = (ROOT / "setup.cfg").read_text()
    return re.findall(r"^ +(\w+) = dyn_ros\.nodes\.", setup, re.MULTILINE)


def check_arguments(arguments, text):
    """Each is described and used; a default that is a file of the package is there."""
    for each in arguments:
        assert len(each["description"]) > 10
        assert f"$(var {each['name']})" in text
        if each.get("default", "").startswith(SHARE):
            assert (ROOT / each["default"].removeprefix(SHARE)).is_file()
    assert set(re.findall(r"\$\(var (\w+)\)", text)) == {each["name"] for each in arguments}


def test_every_example_is_read():
    assert {
        path.name for path in (ROOT / "launch").iterdir() if path.suffix in (".xml", ".yaml")
    } == {"example.launch.xml", "two_robots.launch.yaml"}


def test_the_xml_file_starts_the_nodes():
    file = ROOT / "launch" / "example.launch.xml"
    root = ET.parse(file).getroot()
    assert root.tag == "launch" and {each.tag for each in root} == {"arg", "node"}
    check_arguments([each.attrib for each in root.iter("arg")], file.read_text())
    [node] = root.iter("node")
    assert node.get("pkg") == "dyn_ros" and node.get("exec") in executables()
    first, second, third = node.iter("param")
    assert first.get("from") == "$(var params_file)"
    config = yaml.safe_load((ROOT / "config" / "dyn_ros.yaml").read_text())
    for each in (second, third):
        assert each.get("name") in config["/**/dyn_ros"]["ros__parameters"]
    [rule] = node.iter("remap")  # the file counts, not the driver's description
    assert (rule.get("from"), rule.get("to")) == ("robot_description", "~/robot_description")


def test_the_yaml_file_includes_one_that_has_these_arguments():
    file = ROOT / "launch" / "two_robots.launch.yaml"
    entities = yaml.safe_load(file.read_text())["launch"]
    check_arguments([each["arg"] for each in entities if "arg" in each], file.read_text())
    known = re.findall(
        r'\(\s*"(\w+)",\s',
        (ROOT / "dyn_ros" / "nodes" / "base" / "launch_file.py").read_text(),
    )
    [check] = (each["include"] for each in entities if "include" in each)
    assert (ROOT / check["file"].removeprefix(SHARE)).is_file()
    [names] = check["arg"]
    assert names["name"] == "arguments"
    assert names["value"].split() == [each["arg"]["name"] for each in entities if "arg" in each]
    namespaces = []
    for group in (each["group"] for each in entities if "group" in each):
        [include] = (each["include"] for each in group)
        assert (ROOT / include["file"].removeprefix(SHARE)).is_file()
        given = {each["name"]: each["value"] for each in include["arg"]}
        assert set(given) <= set(known)
        assert given["robot_description_file"] == f"$(var {given['namespace']})"
        assert given["drives"] == f"$(var {given['namespace']}_drives)"
        namespaces.append(given["namespace"])
    assert namespaces == ["left", "right"]
