# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation as a site, with `make docs` or rosdoc2.

The pages in Markdown are the same as in the repository. Links from them to the pages in its root
folder, and to the notebooks, lead to pages of the site; links to other files outside of docs are
text.
"""

import json
import posixpath
import re
import shutil
from pathlib import Path
from typing import Any

import dyn_ros

ROOT = Path(dyn_ros.__file__).resolve().parents[1]
PROJECT_PAGES = {  # files that are not pages of docs, and the pages that show them
    "README.md": "project/readme.md",
    "CHANGELOG.rst": "project/changelog.rst",
    "CONTRIBUTING.md": "project/contributing.md",
    "QUALITY_DECLARATION.md": "project/quality_declaration.md",
    "docs/notebook.ipynb": "project/notebook.md",
    "docs/optimal_control.ipynb": "project/optimal_control.md",
    "docs/gradient_identification.ipynb": "project/gradient_identification.md",
    "docs/policy_gradient.ipynb": "project/policy_gradient.md",
}
LIVE = re.compile(r"^<!-- live: (\S+) \| (.+) -->$|^\.\. live: (\S+) \| (.+)$", re.MULTILINE)
PAGE = ROOT / "build" / "page"  # which `make page` writes
LINK = re.compile(r"(!?)\[([^\]\n]*(?:\n[^\]\n]+)?)\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")

project = "dyn_ros"
author = copyright = "dyn_ros contributors"
version = release = dyn_ros.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["__pycache__"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # shapes and units are in the docstrings
napoleon_google_docstring = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 100
toc_object_entries = False

html_theme = "furo"  # rosdoc2 takes its own
html_title = f"dyn_ros {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False

linkcheck_timeout = 20
linkcheck_retries = 2


def on_the_site(link: re.Match, folder: str) -> str:
    """Return a link of a page in a folder of the repository as it is on the site."""
    image, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if not target:
        return link[0]
    path = posixpath.normpath(posixpath.join(folder, target))
    if not (ROOT / path).exists():
        return link[0]  # Sphinx reports it
    if path in PROJECT_PAGES:
        path = f"docs/{PROJECT_PAGES[path]}"
    if path.startswith("docs/"):
        return f"{image}[{text}](/{path.removeprefix('docs/')}{anchor})"
    return text


def notebook_page(text: str, name: str) -> str:
    """Return the cells of a notebook as Markdown, with a link that downloads the file."""
    cells = []
    for cell in json.loads(text)["cells"]:
        source = "".join(cell["source"])
        cells.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    title, *others = cells
    download = f"{{download}}`Download this page as a notebook </{name}>`."
    return "\n\n".join([title, download, *others])


def live_robot(comment: re.Match) -> str:
    """Return a frame with a robot of the page in place of a comment, if the page was built."""
    address, title, address_rst, title_rst = comment.groups()
    if not (PAGE / "index.html").exists():
        return ""
    frame = (
        f'<figure class="live"><iframe src="page/index.html#{address or address_rst}" '
        f'title="{title or title_rst}" loading="lazy"></iframe>'
        f"<figcaption>{title or title_rst}</figcaption></figure>"
    )
    return f"{frame}\n" if address else f".. raw:: html\n\n   {frame}\n"


def copy_page(app: Any, error: Exception | None) -> None:
    """Copy the page to the site."""
    if error is None and app.builder.name == "html" and PAGE.exists():
        shutil.copytree(PAGE, Path(app.outdir) / "page", dirs_exist_ok=True)


def read(app: object, document: str, source: list[str]) -> None:
    """Replace a page that shows a file outside of docs or a notebook, and adapt links."""
    pages = {Path(page).with_suffix("").as_posix(): path for path, page in PROJECT_PAGES.items()}
    path = pages.get(document, f"docs/{document}.md")
    if document in pages:
        text = (ROOT / path).read_text(encoding="utf-8")
        source[0] = (
            notebook_page(text, posixpath.basename(path)) if path.endswith(".ipynb") else text
        )
    if path.endswith((".md", ".ipynb")):
        folder = posixpath.dirname(path)
        source[0] = LINK.sub(lambda link: on_the_site(link, folder), source[0])
    source[0] = LIVE.sub(live_robot, source[0])


def list_attributes(
    app: object, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Turn the section Attributes into a list; Napoleon supports one name per entry only."""
    if "Attributes" not in lines:
        return
    start = lines.index("Attributes")
    entries = [".. rubric:: Attributes", ""]
    for n, line in enumerate([*lines[start + 2 :], ""], start + 2):
        after = lines[n + 1] if n + 1 < len(lines) else ""
        if n == len(lines) or after.startswith("---"):
            break  # the next section
        if line and not line.startswith(" "):
            names, colon, kind = line.partition(" : ")
            entries.append(f"``{names}``{colon}{kind}")
            if not after.startswith(" "):
                entries.append("    \\ ")  # an entry without a description
        else:
            entries.append(line)
    lines[start:n] = entries


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("source-read", read)
    app.connect("build-finished", copy_page)
    app.connect("autodoc-process-docstring", list_attributes, priority=400)  # before Napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}
