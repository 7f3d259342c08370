# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Snippets in the documentation run, and its links lead to existing targets."""

import inspect
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CONTINUED = ("contacts.md", "engine.md", "torque_control.md")
"""Pages whose snippets continue each other."""
TABLES = ("contacts.md", "engine.md")
"""Pages with tables of functions and their arguments."""
SNIPPETS = [
    pytest.param(page, code, id=f"{page.name}-{n}")
    for page in PAGES
    for n, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
    # nodes/test_tutorial.py, nodes/test_contributing.py, nodes/test_first_quadruped.py,
    # nodes/test_page_programs.py
    if page.name
    not in (
        "hand_guiding.md",
        "moveit.md",
        "simulators.md",
        "tutorial.md",
        "quadruped.md",
        "CONTRIBUTING.md",
        "architecture.md",
        "cookbook.md",
        *CONTINUED,
    )
]
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text()
BEGIN = re.search(r"```python\n(.*?)```", COOKBOOK, re.DOTALL)[1]  # of each program
TASKS = [
    (title, BEGIN + code)
    for title, code in re.findall(
        r"^## (.+?)\n.*?```python\n(.*?)```", COOKBOOK, re.MULTILINE | re.DOTALL
    )
]


@pytest.mark.parametrize("page, code", SNIPPETS)
def test_snippets_run(page, code, monkeypatch):
    monkeypatch.chdir(ROOT)
    exec(compile(code, str(page), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", CONTINUED)
def test_snippets_that_continue_each_other_run(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    names = {"__name__": page}
    for code in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.S):
        exec(compile(code, page, "exec"), names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the robots, and with the recording that the first task simulates."""
    folder = tmp_path_factory.mktemp("cookbook")
    (folder / "dyn_ros").symlink_to(ROOT / "dyn_ros")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        exec(TASKS[0][1], {})
    return folder


@pytest.mark.parametrize("title, code", TASKS, ids=[title for title, _ in TASKS])
def test_each_task_of_the_cookbook_runs_by_itself(title, code, folder, monkeypatch):
    monkeypatch.chdir(folder)
    names = {"__name__": "__main__"}
    exec(compile(code, title, "exec"), names)
    for name, function in list(names.items()):
        if name.startswith("test_"):
            function()


def test_each_heading_of_the_cookbook_has_a_program():
    assert len(TASKS) == len(re.findall("^## ", COOKBOOK, re.MULTILINE)) == 15


NOTEBOOKS = {  # the lines in the plots, and the packages that it needs beside matplotlib
    "notebook": ([[4]], ()),
    "optimal_control": ([[7, 9]], ("torch", "jax")),
    "gradient_identification": ([[1]], ("torch",)),
    "policy_gradient": ([[1]], ("torch",)),
}


@pytest.fixture
def settings_of_libraries():
    """Restore what a notebook sets for the whole process, if it imports torch or JAX."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_default_dtype(torch.float32)
    if jax := sys.modules.get("jax"):
        jax.config.update("jax_enable_x64", False)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_run_and_are_stored_without_outputs(name, monkeypatch, settings_of_libraries):
    plt = pytest.importorskip("matplotlib.pyplot", reason="no matplotlib: run `make test`")
    lines, packages = NOTEBOOKS[name]
    for package in packages:
        pytest.importorskip(package, reason=f"no {package}: run `make test`")
    plt.switch_backend("Agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.append(plt.gcf()))
    monkeypatch.chdir(ROOT / "docs")
    names = {"__name__": "__main__"}
    for cell in json.loads(Path(f"{name}.ipynb").read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            exec(compile(text, cell["id"], "exec"), names)
        for link in re.findall(r"\]\(([^)]*)\)", text if cell["cell_type"] == "markdown" else ""):
            assert Path(link).exists(), link
    assert [[len(axes.lines) for axes in figure.axes] for figure in shown] == lines
    for figure in shown:
        plt.close(figure)


def test_all_notebooks_are_run():
    assert {path.stem for path in (ROOT / "docs").glob("*.ipynb")} == set(NOTEBOOKS)


def test_the_gallery_shows_all_pictures_and_names_what_draws_them():
    page, pictures = ROOT / "docs" / "gallery.md", (ROOT / "docs" / "images").iterdir()
    shown = re.findall(r"^!\[.+\]\(images/(.+)\)$", page.read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(
        path.name for path in pictures if not path.name.startswith("badge_")
    )
    recipe = (ROOT / "Makefile").read_text().partition("\npictures:")[2]
    scripts = [
        *(ROOT / "docs").glob("draw_*.py"),
        *(ROOT / name for name in re.findall(r"docs/\w+\.py", recipe)),
    ]
    assert len(scripts) > 5
    assert [path.name for path in scripts if f"docs/{path.name}" not in page.read_text()] == []


@pytest.mark.parametrize("page", TABLES)
def test_the_functions_in_tables_have_these_arguments(page):
    """After ``model, data``, which the tables leave out."""
    import dyn_ros

    rows = re.findall(r"^\| `.*$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
    calls = [
        call
        for row in rows
        for call in re.findall(r"`(\w+)\(([^)]*)\)`", row)
        if hasattr(dyn_ros, call[0])
    ]
    assert len(calls) > 10
    for name, text in calls:
        arguments = set(re.sub(r"=[^,]+", "", text).split(", "))
        model, data, *others = inspect.signature(getattr(dyn_ros, name)).parameters.values()
        assert (model.name, data.name) == ("model", "data"), name
        assert arguments <= {other.name for other in others} | {"..."}, name
        assert "..." in arguments or arguments >= {
            other.name for other in others if other.default is other.empty
        }, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text())
    assert [file for file, _ in targets if not (page.parent / file).exists()] == []
    assert [
        (file, anchor)
        for file, anchor in targets
        if anchor and anchor not in anchors(page.parent / file if file else page)
    ] == []


def anchors(page):
    """What a link may name behind its #: the headings, as GitHub and others write them there."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_the_readmes_arm_is_held_still_by_its_gravity_torques():
    import numpy as np

    import dyn_ros

    model = dyn_ros.Model.from_urdf_file(ROOT / "dyn_ros" / "robots" / "arm7.urdf")
    data = dyn_ros.Data(model)
    q = model.random_configuration(np.random.default_rng(0))
    tau = dyn_ros.generalized_gravity(model, data, q).copy()
    ddq = dyn_ros.aba(model, data, q, np.zeros(model.nv), tau)
    assert np.abs(ddq).max() < 1e-10
