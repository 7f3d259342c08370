# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The report of an identification: a page that is complete without a network."""

import dataclasses
import re
import shutil
import sys

import numpy as np
import pytest
from identification.recordings import perturbed, record, record_standing, waves

import dyn_ros
import peer
from dyn_ros.identification import identify
from dyn_ros.identification.report import figures, html_report, summary, write_report

pytest.importorskip("plotly", reason="no plotly: run `make test`")

ARM = """<robot name="{name}"><link name="base"/>
  <link name="upper">{inertial}</link><link name="lower">{inertial}</link>
  <link name="slide">{inertial}</link>
  <joint name="turn{name}" type="continuous"><parent link="base"/><child link="upper"/>
    <axis xyz="0 1 0"/></joint>
  <joint name="bend" type="revolute"><parent link="upper"/><child link="lower"/>
    <origin xyz="0 0 0.4"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="100" velocity="9"/></joint>
  <joint name="extend" type="prismatic"><parent link="lower"/><child link="slide"/>
    <origin xyz="0 0 0.3"/><axis xyz="0 0 1"/>
    <limit lower="-0.3" upper="0.3" effort="100" velocity="9"/></joint></robot>"""
INERTIAL = """<inertial><origin xyz="0 0.01 0.15"/><mass value="2"/>
  <inertia ixx="0.02" iyy="0.03" izz="0.025" ixy="0" ixz="0" iyz="0"/></inertial>"""


def identified(name="arm"):
    text = name.replace("<", "&lt;").replace(">", "&gt;").replace("&amp;", "&")
    model = dyn_ros.Model.from_urdf(ARM.format(name=text, inertial=INERTIAL))
    motion = waves(np.zeros(3), [2.0, 1.0, 0.2], [0.2, 0.5, 1.1])
    recording = record(perturbed(model, seed=1), motion, rate=200.0)
    return identify(model, recording.samples(model))


@pytest.fixture(scope="module")
def result():
    return identified()


@pytest.fixture(scope="module")
def page(result, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(result, path)
    return path


def content(path):
    """The page without plotly's library and without the data of figures."""
    text = path.read_text(encoding="utf-8")
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_page_is_complete_and_needs_no_network(result, page):
    text = content(page)
    assert page.stat().st_size < 8e6
    for title in (
        "Error of each joint",
        "Held-out torques",
        "Bodies",
        "Friction and rotors",
        "Combinations of parameters",
        "What the recording does not determine",
    ):
        assert text.count(f">{title}</h2>") == 1
    assert "http:" not in text and "https:" not in text
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sources and all(each.startswith(("#", "data:")) for each in sources)
    for name in (*result.model.joint_names, *result.model.tree.body_links):
        assert name in text
    assert len(re.findall(r'class="plot', text)) - text.count('class="plots') == 2 * 3 + 2
    assert text.count("<svg") == len(result.base.names)


def test_summary_has_three_sentences(result, page):
    error, determined, warned = summary(result)
    assert f"On {len(result.validation)} held-out samples" in error
    assert f"on {len(result.base.names)} combinations" in determined
    assert warned == "There are no warnings." or result.warnings
    assert all(
        sentence.count(". ") == 0 and sentence.endswith(".")
        for sentence in (error, determined, warned)
    )
    values = [float(each) for each in re.findall(r"([\d.]+) %", error)]
    assert values[1] < 0.3 * values[0]
    assert error in content(page)
    two = dataclasses.replace(result, warnings=("a <b>", "c"))
    assert summary(two)[2] == "There are 2 warnings, listed below."


def test_names_are_no_markup(tmp_path):
    result = identified("</script><b>x</b>")
    result = dataclasses.replace(result, warnings=("<i>careful</i>",))
    write_report(result, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "turn</script>" not in text and "&lt;i&gt;careful&lt;/i&gt;" in text
    assert text.count("</script>") == text.count("<script")


def test_a_missing_plotly_is_named(result, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ImportError, match=r"plotly: pip install .dyn_ros\[identify\]."):
        write_report(result, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


def test_a_page_is_not_written_to_a_missing_folder(result, tmp_path):
    with pytest.raises(FileNotFoundError):
        write_report(result, tmp_path / "nowhere" / "report.html")


# --- figures


def test_peaks_remain():
    rng = np.random.default_rng(0)
    x, y = np.arange(100_003.0), rng.normal(size=100_003)
    y[[5, 71_234]] = 50.0, -60.0
    few_x, few_y = figures.decimate_curve(x, y, 4000)
    assert len(few_x) <= 4000 and (np.diff(few_x) > 0.0).all()
    assert {5.0, 71_234.0} <= set(few_x)
    np.testing.assert_array_equal(few_y, y[few_x.astype(int)])
    np.testing.assert_array_equal(
        figures.decimate_curve(x[:100], y[:100], 4000), (x[:100], y[:100])
    )


def test_curves_are_interrupted_between_stretches(result):
    samples = result.validation
    stretches = figures.gapless_stretches(samples)
    assert sum(each.stop - each.start for each in stretches) == len(samples)
    assert len(stretches) > 1
    time = figures.time_without_gaps(samples, stretches)
    assert (np.diff(time) > 0.0).all()
    x, y = figures.interrupted_curve(time, samples.tau[:, 0], stretches, 4000)
    assert np.isnan(y).sum() == len(stretches) and len(x) == len(y)
    assert figures.gapless_stretches(samples.take(slice(0, 0))) == []


def test_curves_are_the_torques(result):
    figure = next(figures.torque_figures(result))
    measured, before, after, *_ = figure.data
    samples = result.validation
    for trace, y in (
        (measured, samples.tau),
        (before, result.described_torque(samples)),
        (after, result.torque(samples)),
    ):
        shown = trace.y[np.isfinite(trace.y)]
        assert np.abs(shown).max() == pytest.approx(np.abs(y[:, 0]).max(), rel=1e-6)
    assert (
        len(list(figures.torque_figures(result)))
        == len(list(figures.friction_figures(result)))
        == 3
    )


@pytest.fixture(scope="module")
def standing_result():
    model = dyn_ros.Model.from_urdf(peer.urdf("solo12"), "floating")
    recording = record_standing(
        perturbed(model, seed=2), seconds=6.0, rate=200.0, counts=None, noise=0.0
    )
    samples = recording.samples(model, f_ext=None)
    return recording.true, identify(model, samples, regularization=1e-3)


def test_predictions_include_unknown_contact_forces(standing_result, tmp_path):
    """With the true parameters they explain the torques, except for the errors of filters."""
    true, result = standing_result
    samples = result.validation
    assert samples.contacts and samples.in_contact.any()
    exact = dataclasses.replace(result, identified=true, offset=np.zeros(true.nv))
    before, after = figures.predicted_torques(exact, samples)
    errors = [np.sqrt(np.mean((samples.tau - torque)[:, 6:] ** 2)) for torque in (before, after)]
    assert errors[1] < 0.3 * errors[0]
    write_report(result, tmp_path / "report.html")
    assert "Predictions include the forces at contacts" in content(tmp_path / "report.html")


def test_contact_torques_are_those_of_forces_at_the_contacts(standing_result):
    _, result = standing_result
    samples = result.validation
    J = np.stack(
        [
            dyn_ros.frame_jacobian(
                result.model,
                dyn_ros.Data(result.model),
                samples.q,
                frame,
                dyn_ros.ReferenceFrame.LOCAL_WORLD_ALIGNED,
            )[:, :3]
            for frame in samples.contacts
        ],
        axis=1,
    )
    forces = np.random.default_rng(0).normal(size=J.shape[:3]) * samples.in_contact[:, :, None]
    torque = np.einsum("bcij,bci->bj", J, forces)
    np.testing.assert_allclose(
        figures.contact_torques(result, samples, torque), torque, atol=1e-9 * np.abs(torque).max()
    )
    still = samples.take(~samples.in_contact.any(axis=1))
    if len(still):
        assert not figures.contact_torques(result, still, np.ones(still.tau.shape)).any()


def test_of_long_recordings_the_beginning_of_each_block_is_shown(result, monkeypatch):
    assert len(figures.displayed_samples(result)) == len(result.validation)
    monkeypatch.setattr(figures, "_MAX_SAMPLES", 20 * len(result.held_out))
    samples = figures.displayed_samples(result)
    assert len(samples) == 20 * len(result.held_out)
    assert set(samples.time) <= set(result.validation.time)


def test_friction_is_that_of_the_torques(result):
    """With the inverse dynamics it is what the identified model predicts."""
    samples, k = result.validation, 1
    model = result.identified
    rigid = dyn_ros.rnea(model, dyn_ros.Data(model), samples.q, samples.v, samples.a)
    friction = figures.friction_torque(model, k, samples.v[:, k], rigid[:, k])
    np.testing.assert_allclose(
        rigid[:, k] + friction, result.torque(samples)[:, k], rtol=1e-12, atol=1e-12
    )


def test_ellipsoids_have_the_inertia_of_the_body():
    a, m = np.array([0.1, 0.2, 0.3]), 2.0
    moments = (
        m / 5.0 * np.array([a[1] ** 2 + a[2] ** 2, a[0] ** 2 + a[2] ** 2, a[0] ** 2 + a[1] ** 2])
    )
    place = dyn_ros.SE3.exp([0.3, 0.2, 0.1, 1.0, 0.5, 0.2])
    com = np.array([0.5, -0.4, 0.3])
    body = place.act(dyn_ros.Inertia(m, com, np.diag(moments)))
    sphere = np.vstack([np.eye(3), -np.eye(3)])
    points = figures._body_ellipsoid(np.eye(4), body.dynamic_parameters(), sphere)
    away = place.act_inverse(points.astype(float)) - com
    np.testing.assert_allclose(np.sort(np.linalg.norm(away, axis=1)), np.repeat(a, 2), rtol=1e-5)
    np.testing.assert_allclose(np.abs(away).max(axis=0), a, rtol=1e-5)


def test_bodies_without_mass_are_left_out(result):
    model = dyn_ros.Model.from_urdf(ARM.format(name="arm", inertial=""))
    figure = figures.body_figure(dataclasses.replace(result, model=model))
    assert [trace.name for trace in figure.data].count("before") == 0
    assert [trace.name for trace in figure.data].count("after") == 3


def test_errors_are_percentages(result):
    data = {trace.name: trace for trace in figures.error_figure(result).data}
    joint = result.joints[-1]
    assert data["before"].x[0] == pytest.approx(100.0 * joint.before / joint.torque)
    assert data["after"].x[0] == pytest.approx(100.0 * joint.after / joint.torque)


# --- page


def test_numbers():
    assert (
        html_report.format_number(-0.00012345) == "\u22120.0001234"
        or html_report.format_number(-1.5) == "\u22121.5"
    )
    assert (
        html_report.format_number(0.0) == "0"
        and html_report.format_number(np.nan) == html_report.format_number(np.inf) == "\u2013"
    )
    assert (
        html_report.format_number(-0.01, ".1f") == "0.0"
        and html_report.format_number(-2.345, ".1f") == "\u22122.3"
    )
    assert html_report.format_unit("kg m2") == "kg m²"


def test_long_combinations_are_shortened():
    name = " + ".join(f"m(j{k})" for k in range(20))
    macros = html_report.load_template("macros.html.j2").module
    text = macros.combination(name)
    assert "14 more terms" in text and f'title="{name}"' in text
    assert re.sub(r"<[^>]*>", "", text).startswith("m(j0) + m(j1)")
    assert macros.combination("a - b") == "a - b"


def test_intervals_hold_their_marks():
    for lower, upper, before, after in (
        (1.0, 2.0, -5.0, 1.5),
        (-np.inf, np.inf, 1.0, 1.0),
        (np.nan, np.nan, 0.0, 0.0),
        (1.0, 1.0, 1.0, 1.0),
    ):
        bar = html_report.interval_bar(lower, upper, before, after)
        picture = html_report.load_template("macros.html.j2").module.interval(bar, "well")
        places = [float(x) for x in re.findall(r'(?:cx|x1|x2)="([\d.]+)"', picture)]
        assert all(0.0 <= x <= 180.0 for x in places)
        assert "nan" not in picture and "inf" not in picture


def test_long_lists_are_folded():
    listing = html_report.load_template("macros.html.j2").module.listing
    assert listing([]) == ""
    text = listing([f"item {k}" for k in range(30)])
    assert text.count("<li>") == 30 and "<summary>18 more</summary>" in text


# --- in a browser


@pytest.fixture
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: run `make test`")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium: apt install chromium")
    with playwright.sync_playwright() as driver:
        running_browser = driver.chromium.launch(
            executable_path=chromium,
            args=[
                "--no-sandbox",
                "--use-gl=angle",
                "--use-angle=swiftshader",
                "--enable-unsafe-swiftshader",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ],
        )
        yield running_browser
        running_browser.close()


def test_browser_draws_all_figures_and_zooms_them_together(page, browser):
    opened = browser.new_page(viewport={"width": 1200, "height": 900})
    opened.set_default_timeout(60_000)
    asked, faults = [], []
    opened.on("request", lambda request: asked.append(request.url))
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.goto(page.as_uri())
    opened.evaluate("dispatchEvent(new Event('beforeprint'))")  # draws what is not in view
    opened.wait_for_function(
        "document.querySelectorAll('.js-plotly-plot').length"
        " === document.querySelectorAll('.plot').length"
    )
    opened.wait_for_function("document.querySelectorAll('.linked .main-svg').length >= 3")
    opened.evaluate(
        "Plotly.relayout(document.querySelector('.linked .js-plotly-plot'),"
        " {'xaxis.range[0]': 1, 'xaxis.range[1]': 2})"
    )
    opened.wait_for_function(
        "[...document.querySelectorAll('.linked .js-plotly-plot')].every("
        "each => each.layout.xaxis.range[0] === 1 && each.layout.xaxis.range[1] === 2)"
    )
    assert opened.evaluate("document.documentElement.scrollWidth") == 1200
    assert not faults
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
