# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Plots of results: curves of few points, pictures and pages."""

import re
import struct
import sys

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="no packages for recordings: run `make test`")

from logs.states import START, model_of, moving

from dyn_ros.logs.quantities import QuantitySettings, compute_quantities
from dyn_ros.logs.write import parquet as write_parquet
from dyn_ros.logs.write.curves import DecimatedCurve, min_max_points, read_curves
from dyn_ros.logs.write.plot import arrange_subplots, plot_recordings
from dyn_ros.logs.write.quantity_table import QUANTITIES, Table


def write(path, seconds, **columns):
    """Write a file with these columns."""
    stamp = START + np.round(1e9 * np.asarray(seconds)).astype(np.int64)
    table = Table(
        {"time": 1e-9 * stamp, "stamp": stamp, **columns}, stamp, dict.fromkeys(columns, "N m")
    )
    write_parquet.write_parquet(table, path)
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Files of all quantities, by recording."""
    model, folder = model_of(), tmp_path_factory.mktemp("results")
    files = []
    for number in range(2):
        states = moving(model, 4.0)
        states.stamp[:] += number * 4_000_000_000
        files.append(folder / f"part-{number:06}.parquet")
        settings = QuantitySettings(thresholds_fixed=(2.0,))
        write_parquet.write_parquet(
            compute_quantities(model, states, 0, QUANTITIES, settings), files[-1]
        )
    return {"day <1>": files}


def test_peaks_remain():
    rng = np.random.default_rng(0)
    y = rng.normal(size=10_000)
    y[[1234, 5678]] = 40.0, -50.0
    y[3000:3500] = np.nan
    x = np.arange(10_000.0)
    extreme_times, extremes = min_max_points(x, y, np.arange(0, 10_000, 100))
    assert len(extremes) <= 200
    assert extreme_times[np.nanargmax(extremes)] == 1234.0 and np.nanmax(extremes) == 40.0
    assert extreme_times[np.nanargmin(extremes)] == 5678.0 and np.nanmin(extremes) == -50.0
    assert np.isnan(extremes[(extreme_times >= 3000) & (extreme_times < 3500)]).all()
    assert np.isnan(extremes).sum() == 5
    assert (np.diff(extreme_times) > 0.0).all()
    assert (y[extreme_times.astype(int)] == extremes)[~np.isnan(extremes)].all()


def test_few_numbers_are_shown_as_they_are():
    y = np.array([1.0, 1.0, np.nan, 2.0])
    extreme_times, extremes = min_max_points(np.arange(4.0), y, np.arange(4))
    assert np.array_equal(extremes, y, equal_nan=True) and (extreme_times == np.arange(4)).all()


def test_a_long_recording_has_few_points_and_its_peak(tmp_path):
    time = 1e-3 * np.arange(1_000_000)
    y = np.sin(time)
    y[456_789] = 30.0
    file = write(tmp_path / "a.parquet", time, **{"residual.a": y})
    curves = read_curves({"a": [file]}, 3000)
    curve = curves.by_column["residual.a"]
    assert 3000 <= len(curve.x) <= 2 * 3100
    assert np.nanmax(curve.y) == 30.0
    assert np.isclose(curve.x[np.nanargmax(curve.y)], 456.789)
    assert np.isclose(curves.spans[0].stop, time[-1])
    assert curves.units == {"residual.a": "N m"}


def test_gaps_interrupt_curves_and_clocks_that_go_back_do_not_overlap(tmp_path):
    time = 0.01 * np.arange(3000)
    time[1000:] += 100.0
    time[2000:] -= 90.0
    y = np.ones(3000)
    files = [
        write(tmp_path / f"{k}.parquet", time[part], **{"residual.a": y[part]})
        for k, part in enumerate((slice(0, 1500), slice(1500, 3000)))
    ]
    curve = read_curves({"a": files}, 500).by_column["residual.a"]
    breaks = curve.x[np.isnan(curve.y)]
    assert np.allclose(breaks, [110.0, 119.99, 129.98], atol=0.02)
    assert (np.diff(curve.x) >= 0.0).all()


def test_recordings_follow_each_other(tmp_path):
    time = 0.01 * np.arange(1000)
    files = {
        name: [write(tmp_path / name, time + delay, **{"residual.a": np.ones(1000)})]
        for name, delay in (("one", 0.0), ("two", 1e5))
    }
    curves = read_curves(files, 500)
    (first, second), curve = curves.spans, curves.by_column["residual.a"]
    assert (first.name, second.name) == ("one", "two")
    assert first.stop < second.start < first.stop + 0.2 and np.isclose(
        second.stop - second.start, 9.99
    )
    assert np.isnan(curve.y[(curve.x >= first.stop - 1e-9) & (curve.x < second.start)]).any()


def test_subplots_of_joints_and_of_the_whole_robot(results):
    names = [
        f"{quantity}.{joint}"
        for quantity in ("effort", "gravity", "residual")
        for joint in ("hip", "knee")
    ] + ["energy.total", "power.total"]
    subplots = arrange_subplots(names, {"residual.hip": "N m", "energy.total": "J"})
    assert [
        (subplot.row, subplot.grid_column, subplot.title, subplot.joint) for subplot in subplots
    ] == [
        (0, 0, "effort", "hip"),
        (0, 1, "residual", "hip"),
        (1, 0, "effort", "knee"),
        (1, 1, "residual", "knee"),
        (2, 0, "energy", ""),
        (3, 0, "power of all joints", ""),
    ]
    assert [line.column for line in subplots[0].lines] == ["effort.hip", "gravity.hip"]
    assert subplots[1].unit == "N m"


def test_a_picture(results, tmp_path):
    pytest.importorskip("matplotlib")
    plot_recordings(results, tmp_path / "a.png")
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", content[16:24])
    assert width > 1500 and height > 1000
    small_file = write(
        tmp_path / "one.parquet", 0.01 * np.arange(9), **{"residual.a": np.arange(9.0)}
    )
    plot_recordings({"one": [small_file]}, tmp_path / "b.png")
    assert struct.unpack(">I", (tmp_path / "b.png").read_bytes()[20:24])[0] < 400
    plot_recordings(
        {"one": results["day <1>"][:1], "two": results["day <1>"][1:]}, tmp_path / "c.png"
    )


def test_a_page_contains_all_that_it_needs(results, tmp_path):
    pytest.importorskip("plotly")
    plot_recordings(results, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert not re.search(r'<(script|link|img)[^>]*(src|href)="?https?:', text)
    assert "day &lt;1&gt;" in text and "day <1>" not in text
    for title in ("effort", "external effort", "center of mass", "energy"):
        assert f">{title}<" in text.replace("\\u003c", "<").replace("\\u003e", ">")
    assert '"matches":"x"' in text
    assert len(text) < 12_000_000


def test_points_without_neighbors():
    nan = np.nan
    for y, isolated in (([1.0], [0]), ([nan], []), ([1.0, nan, 2.0, 3.0, nan, 4.0, nan], [0, 5])):
        curve = DecimatedCurve(np.arange(len(y)), np.array(y))
        assert curve.isolated_points.x.tolist() == isolated and curve.has_points == (isolated != [])


@pytest.fixture
def single_state(tmp_path):
    """A single state, of which something is unknown."""
    columns = {"gravity.a": np.array([2.0]), "residual.a": np.array([np.nan])}
    return {"few": [write(tmp_path / "few.parquet", [0.0], **columns)]}


def test_a_picture_of_a_single_state(single_state, tmp_path):
    image = pytest.importorskip("matplotlib.image")
    plot_recordings(single_state, tmp_path / "a.png")
    pixels = np.round(255.0 * image.imread(tmp_path / "a.png")[..., :3])
    assert (pixels == [0x5B, 0x9A, 0x5F]).all(axis=2).sum() >= 9  # a mark of this color


def test_a_page_of_a_single_state(single_state, results, tmp_path):
    pytest.importorskip("plotly")
    plot_recordings(single_state, tmp_path / "a.html")
    text = (tmp_path / "a.html").read_text()
    assert text.count('"mode":"markers"') == 1 == text.count('"text":"unknown in all states"')
    plot_recordings(results, tmp_path / "b.html")
    assert '"text":"unknown in all states"' not in (tmp_path / "b.html").read_text()


def test_what_cannot_be_plotted(results, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"expected a file that ends with .png or .html, got"):
        plot_recordings(results, tmp_path / "a.pdf")
    times = write(tmp_path / "b.parquet", np.arange(3.0), nothing=np.arange(3.0))
    with pytest.raises(ValueError, match="expected results with a column that can be plotted"):
        plot_recordings({"a": [times]}, tmp_path / "a.png")
    empty = write(tmp_path / "a.parquet", np.zeros(0), **{"residual.a": np.zeros(0)})
    with pytest.raises(ValueError, match="with at least one state"):
        plot_recordings({"a": [empty]}, tmp_path / "a.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    monkeypatch.setitem(sys.modules, "plotly", None)
    for suffix in ("png", "html"):
        with pytest.raises(ImportError, match=r'pip install "dyn_ros\[logs\]"'):
            plot_recordings(results, tmp_path / f"a.{suffix}")
    assert {file.name for file in tmp_path.iterdir()} == {"a.parquet", "b.parquet"}
