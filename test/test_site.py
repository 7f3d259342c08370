# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The documentation as a site: what its pages list. `make docs` builds it and checks its links."""

import importlib
import json
import re
import sys
import textwrap
from pathlib import Path

import pytest

import dyn_ros

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))


def listed(kind=r"\w+"):
    """The names on the pages of the reference."""
    text = "\n".join(path.read_text() for path in sorted((DOCS / "api").glob("*.rst")))
    return re.findall(rf"^\.\. auto(?:{kind}):: ([\w.]+)$", text, re.MULTILINE)


def test_the_reference_lists_each_public_name_once():
    public = [
        f"{module}.{name}"
        for module in ("dyn_ros", "dyn_ros.logs")
        for name in importlib.import_module(module).__all__
    ]
    assert sorted(listed()) == sorted(public)


def test_the_site_contains_each_page_once():
    entries = []
    for index in (DOCS / "index.rst", DOCS / "api" / "index.rst"):
        folder = index.parent.relative_to(DOCS)
        entries += [
            (folder / entry).as_posix()
            for entry in re.findall(r"^   (?:.+ <)?([\w/]+)>?$", index.read_text(), re.MULTILINE)
        ]
    pages = [
        path.relative_to(DOCS).with_suffix("").as_posix()
        for path in DOCS.rglob("*")
        if path.suffix in (".md", ".rst")
    ]
    assert sorted(entries) == sorted(page for page in pages if page != "index")


@pytest.mark.parametrize(
    "folder, text, expected",
    [
        ("", "[a](docs/engine.md#the-cache)", "[a](/engine.md#the-cache)"),
        ("", "![a](docs/images/push.png)", "![a](/images/push.png)"),
        ("docs", "[a](../CONTRIBUTING.md)", "[a](/project/contributing.md)"),
        ("", "[a](docs/notebook.ipynb)", "[a](/project/notebook.md)"),
        (
            "docs",
            "[a](#here) and [b](https://semver.org/)",
            "[a](#here) and [b](https://semver.org/)",
        ),
        ("docs/nodes", "[a](../engine.md)", "[a](/engine.md)"),
        ("", "[a](LICENSE), [b](config)", "a, b"),
        ("docs", "[a](nowhere.md)", "[a](nowhere.md)"),
    ],
)
def test_links_on_the_site(folder, text, expected):
    conf = importlib.import_module("conf")
    assert conf.LINK.sub(lambda link: conf.on_the_site(link, folder), text) == expected


def test_files_outside_of_the_pages_have_places_on_the_site():
    conf = importlib.import_module("conf")
    for path, page in conf.PROJECT_PAGES.items():
        assert (ROOT / path).exists() and (DOCS / page).exists()


def test_the_code_of_the_first_page_runs(monkeypatch):
    [block] = re.findall(
        r"code-block:: python\n\n((?: {3}.*\n|\n)+)", (DOCS / "index.rst").read_text()
    )
    monkeypatch.chdir(ROOT)
    exec(textwrap.dedent(block), {})


@pytest.mark.parametrize("name", sorted(path.name for path in DOCS.glob("*.ipynb")))
def test_notebooks_are_pages_with_their_code(name):
    conf = importlib.import_module("conf")
    assert f"docs/{name}" in conf.PROJECT_PAGES
    cells = json.loads((DOCS / name).read_text())["cells"]
    page = conf.notebook_page((DOCS / name).read_text(), name)
    code = re.findall(r"```python\n(.*?)\n```", page, re.DOTALL)
    assert code == ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert (
        page.startswith("# ")
        and f"{{download}}`Download this page as a notebook </{name}>`" in page
    )


def test_badges_state_what_the_package_declares():
    for name, image in importlib.import_module("draw_badges").badges().items():
        assert (DOCS / "images" / f"badge_{name}.svg").read_text() == image


def test_rosdoc2_builds_the_same_site():
    assert "sphinx_sourcedir: docs" in (ROOT / "rosdoc2.yaml").read_text()
    assert dyn_ros.__version__ == importlib.import_module("conf").release
