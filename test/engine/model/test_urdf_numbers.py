# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The numbers in a description: their format and their limits."""

import itertools

import numpy as np
import pytest

import dyn_ros
from dyn_ros.engine.model.urdf import UrdfError, parse_numbers, read_urdf

ROBOT = """<robot name="r"><link name="a"/>
  <link name="b"><inertial><origin xyz="{com}" rpy="{rpy}"/><mass value="{mass}"/>
    <inertia ixx="{ixx}" ixy="0" ixz="0" iyy="{iyy}" iyz="{iyz}" izz="{izz}"/></inertial></link>
  <link name="c"><inertial><mass value="1"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link>
  <joint name="j" type="{kind}"><parent link="a"/><child link="b"/><origin xyz="{xyz}"/>
    <axis xyz="{axis}"/>
    <limit lower="{lower}" upper="{upper}" effort="{effort}" velocity="1"/></joint>
  <joint name="k" type="revolute"><parent link="b"/><child link="c"/>
    <limit lower="-1" upper="1" effort="1" velocity="1"/>
    <mimic joint="j" multiplier="{multiplier}" offset="{offset}"/></joint></robot>"""
USUAL = {
    "com": "0 0 1",
    "rpy": "0 0 0",
    "mass": "1",
    "ixx": "1",
    "iyy": "1",
    "iyz": "0",
    "izz": "1",
    "kind": "revolute",
    "xyz": "0 0 1",
    "axis": "1 0 0",
    "lower": "-1",
    "upper": "1",
    "effort": "1",
    "multiplier": "1",
    "offset": "0",
}


def robot(**changed):
    return ROBOT.format(**USUAL | changed)


@pytest.mark.parametrize(
    "text, number",
    [
        ("1", 1.0),
        ("+1", 1.0),
        ("-1", -1.0),
        ("1.", 1.0),
        (".5", 0.5),
        ("007", 7.0),
        ("-.5e1", -5.0),
        ("1e5", 1e5),
        ("1E+5", 1e5),
        ("1.5e-3", 0.0015),
        ("1e-999", 0.0),
        (" \t\r\n2 ", 2.0),
        ("0.1", 0.1),
        ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_a_number(text, number):
    assert parse_numbers(text, 1) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "٣",
        "\uff13",
        "\u06f1",
        "\u0967",
        "²",
        "½",
        "\u2167",
        "\u22121",
        "1_0",
        "1__0",
        "0x10",
        "0x1p3",
        "1e",
        "e5",
        ".",
        "+-1",
        "--1",
        "+",
        "1d5",
        "1f",
        "1,5",
        "nan",
        "NaN",
        "inf",
        "-INF",
        "Infinity",
        "1e999",
        "-1e999",
        "true",
        "1\xa0",
        "\u20031",
        "1\x0b",
        "1\x1c",
        "1\u200b",
        "1\0",
        "0b1",
        "1j",
        "(1)",
    ],
)
def test_no_number(text):
    with pytest.raises(ValueError, match="has .*; expected a finite number, such as 0.5"):
        parse_numbers(text, 1)


def test_white_space_is_that_of_xml():
    assert parse_numbers("\n1  2\t3\r\n", 3) == [1.0, 2.0, 3.0]
    for text in ("1\xa02\xa03", "1\u20032\u20033", "1\x1c2\x1c3", "1 2", "1 2 3 4", "", " "):
        with pytest.raises(ValueError, match="is .*; expected 3 numbers"):
            parse_numbers(text, 3)


def test_other_scripts_digits_are_rejected_by_name():
    with pytest.raises(UrdfError, match="value of <mass> of <inertial> of link \"b\" has '٣'"):
        read_urdf(robot(mass="٣"))
    with pytest.raises(UrdfError, match="xyz of <origin> .* expected 3 numbers"):
        read_urdf(robot(xyz="0\xa00\xa01"))


@pytest.mark.parametrize(
    "changed",
    [
        {"mass": "9" * 1_000_000},
        {"mass": "1" + "0" * 100_000},
        {"mass": "x" * 1_000_000},
        {"com": "1 " * 1_000_000},
        {"kind": "x" * 1_000_000},
        {"mass": "$(" + " " * 1_000_000},
    ],
)
def test_a_long_value_makes_no_long_message(changed):
    with pytest.raises(UrdfError) as caught:
        read_urdf(robot(**changed))
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "part, value",
    [
        ("mass", "{}"),
        ("com", "0 {} 0"),
        ("com", "0 0 -{}"),
        ("rpy", "{} 0 0"),
        ("ixx", "{}"),
        ("iyy", "{}"),
        ("iyz", "-{}"),
        ("izz", "{}"),
        ("xyz", "0 {} 0"),
    ],
)
def test_a_number_that_is_too_large_is_rejected_by_name(part, value):
    read_urdf(robot(**{part: value.format("1e30")}))
    for number in ("1.00001e30", "1e100", "1e308"):
        with pytest.raises(
            UrdfError,
            match=rf'of (link|joint) "[bj]" has \'-?{number}\'; at most '
            r"1e\+30 is supported",
        ):
            read_urdf(robot(**{part: value.format(number)}))


@pytest.mark.parametrize("part", ["multiplier", "offset"])
def test_a_mimic_rule_that_is_too_large_is_rejected_by_name(part):
    read_urdf(robot(**{part: "-1e9"}))
    with pytest.raises(UrdfError, match=f"{part} of <mimic> of joint \"k\" has '-1.1e9'; at most"):
        read_urdf(robot(**{part: "-1.1e9"}))


@pytest.mark.parametrize(
    "what, first, second",
    [
        ("multiplier 1e\\+10", 'multiplier="1e5"', 'multiplier="1e5"'),
        ("multiplier -1e\\+10", 'multiplier="1e5"', 'multiplier="-1e5"'),
        ("offset 1e\\+10", 'multiplier="1e5"', 'offset="1e5"'),
    ],
)
def test_mimics_in_a_chain_may_not_come_to_more(what, first, second):
    body = '<inertial><mass value="1"/></inertial>'
    xml = "".join(f'<link name="{name}">{body}</link>' for name in "abcd") + "".join(
        f'<joint name="j{n}" type="prismatic"><parent link="{parent}"/><child link="{child}"/>'
        f'<limit lower="0" upper="1" effort="1" velocity="1"/>{mimic}</joint>'
        for n, (parent, child, mimic) in enumerate(
            (
                ("a", "b", f'<mimic joint="j1" {first}/>'),
                ("b", "c", f'<mimic joint="j2" {second}/>'),
                ("c", "d", ""),
            )
        )
    )
    with pytest.raises(UrdfError, match=f'joint "j0" follows joint "j2" with the {what}; at most'):
        read_urdf(f'<robot name="r">{xml}</robot>')


@pytest.mark.parametrize("kind, farthest", [("revolute", 1e14), ("prismatic", 1e30)])
@pytest.mark.parametrize("sign", [-1, 1])
def test_limits_beyond_all_that_can_be_computed_warn(kind, farthest, sign):
    for factor, warned in ((0.99, False), (1.01, True)):
        near, far = sign * factor * farthest, sign * 1e300
        tree = read_urdf(robot(kind=kind, lower=min(near, far), upper=max(near, far)))
        assert (
            any(
                f'joint "j" has the limits {min(near, far):g} and {max(near, far):g}: at most '
                f"{farthest:g} is supported" in text
                for text in tree.warnings
            )
            == warned
        )


@pytest.mark.parametrize(
    "changed",
    [{"axis": "0 1e300 -1e300"}, {"effort": "1e308"}, {"lower": "-1e308", "upper": "1e308"}],
)
def test_axes_and_limits_may_be_of_any_size(changed):
    assert read_urdf(robot(**changed)).warnings == ()


LARGE = ("1e30", "-1e30", "1e15", "1e-320", "0")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_of_the_largest_numbers_nothing_overflows(kind):
    rng = np.random.default_rng(0)
    for mass, lever, moment in itertools.product(LARGE, repeat=3):
        if mass.startswith("-"):
            continue
        model = dyn_ros.Model.from_urdf(
            robot(
                kind=kind,
                mass=mass,
                com=f"{lever} {lever} 1",
                rpy="1 2 3",
                xyz=f"0 {lever} 1",
                ixx=moment,
                iyy=moment,
                izz=moment,
                multiplier="1e9",
            )
        )
        data = dyn_ros.Data(model)
        q, v, a = model.random_configuration(rng), rng.normal(size=1), rng.normal(size=1)
        assert np.isfinite(dyn_ros.rnea(model, data, q, v, a)).all()
        assert np.isfinite(dyn_ros.crba(model, data, q)).all()


@pytest.mark.parametrize("axis", ["0 0 1", "1 2 3", "-3 1 0.5"])
@pytest.mark.parametrize("distance", [1.0, 1e5, 1e10])
def test_a_distant_center_of_mass_hides_no_inertia_about_the_axis(axis, distance):
    """And a point mass on the axis has no inertia about it, in spite of rounding errors."""
    way = np.array(axis.split(), float)
    com = " ".join(map(repr, (distance * way / np.linalg.norm(way)).tolist()))
    for moment, moves in (("1e-3", True), ("0", False)):
        xml = (
            robot(axis=axis, com=com, ixx=moment, iyy=moment, izz=moment)
            .replace('<mimic joint="j" multiplier="1" offset="0"/>', "")
            .replace(
                '<link name="c"><inertial><mass value="1"/>',
                '<link name="c"><inertial><origin xyz="0 0 0"/><mass value="0"/>',
            )
            .replace(
                'ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"',
                'ixx="0" ixy="0" ixz="0" iyy="0" iyz="0" izz="0"',
            )
            .replace('<joint name="k" type="revolute">', '<joint name="k" type="fixed">')
        )
        warned = any(
            'joint "j" moves no inertia about its axis' in text for text in read_urdf(xml).warnings
        )
        assert warned != moves
