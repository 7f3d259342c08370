# Copyright dyn_ros contributors
# SPDX-License-Identifier: Apache-2.0
"""The page of a report: its style, and HTML of tables and lists."""
from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from .report_figures import content

_DASH, _MINUS = "\u2013", "\u2212"

_STYLE = """
:root { --text: #3c4043; --quiet: #6b7078; --line: #e3e5e8; --before: #b06f1f; --after: #2a6db0; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; font-weight: 650; margin: 0 0 4px; }
h2 { font-size: 18px; font-weight: 650; margin: 48px 0 4px; }
p { margin: 0 0 10px; max-width: 76ch; }
.quiet, figcaption { color: var(--quiet); font-size: 13px; }
.summary { font-size: 17px; margin: 20px 0 24px; }
.summary p { margin-bottom: 6px; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 0; }
.facts div { border: 1px solid var(--line); border-radius: 8px; padding: 10px 14px; }
.facts dt { color: var(--quiet); font-size: 12px; }
.facts dd { margin: 0; font-size: 20px; font-weight: 600; font-variant-numeric: tabular-nums; }
.facts dd small { font-size: 13px; font-weight: 400; color: var(--quiet); }
ul { margin: 4px 0 10px; padding-left: 20px; }
li { margin: 3px 0; max-width: 90ch; }
.warnings { border-left: 3px solid var(--before); padding: 2px 0 2px 14px; margin: 18px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13px; margin: 8px 0;
  font-variant-numeric: tabular-nums; }
th { text-align: right; font-weight: 600; color: var(--quiet); border-bottom: 1px solid #c9ccd1;
  padding: 4px 8px; vertical-align: bottom; }
td { text-align: right; padding: 4px 8px; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
td.name { white-space: normal; overflow-wrap: anywhere; min-width: 16ch; }
td.name small { color: var(--quiet); display: block; }
.b { color: var(--before); } .a { color: var(--after); }
.pair span { display: block; }
.well { color: #2e7d4f; } .weakly { color: var(--before); } .not { color: #b3372f; }
details > summary { cursor: pointer; color: var(--after); font-size: 13px; margin: 6px 0; }
figure { margin: 8px 0 0; }
nav { margin: 18px 0 0; font-size: 13px; display: flex; flex-wrap: wrap; gap: 4px 18px; }
.plots { display: grid; grid-template-columns: repeat(3, 1fr); gap: 4px 12px; }
.plots.wide { grid-template-columns: 1fr; }
.plot { min-width: 0; }
.key { display: flex; gap: 18px; font-size: 13px; margin: 8px 0; }
.key i { display: inline-block; width: 22px; height: 4px; border-radius: 2px; margin-right: 6px;
  vertical-align: middle; }
svg { display: block; }
a { color: var(--after); }
@page { margin: 12mm; }
@media print {
  main { width: 1072px; max-width: none; padding: 0; zoom: 0.65; }
  h2, figcaption { break-after: avoid; } tr, li, dl { break-inside: avoid; }
  .plot { break-inside: avoid; }
  .modebar { display: none !important; } nav { display: none; } .scroll { overflow: visible; }
}
"""

# Figures are drawn when they come into view. Those of class "linked" share the range of their x
# axis.
_SCRIPT = """
const options = {displaylogo: false, displayModeBar: "hover", responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d"]};
let range = null, linking = false;
function draw(div) {
  if (div.dataset.drawn) return;
  div.dataset.drawn = 1;
  const figure = JSON.parse(div.querySelector("script").textContent);
  const place = div.appendChild(document.createElement("div"));
  const linked = div.classList.contains("linked");
  if (linked && range) figure.layout.xaxis.range = range;
  Plotly.newPlot(place, figure.data, figure.layout,
    {...options, scrollZoom: div.id === "bodies-figure"});
  if (linked) place.on("plotly_relayout", event => link(place, event));
}
function link(source, event) {
  if (linking) return;
  if (event["xaxis.autorange"]) range = null;
  else if ("xaxis.range[0]" in event) range = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
  else return;
  linking = true;
  const update = range ? {"xaxis.range": range} : {"xaxis.autorange": true};
  const others = [...document.querySelectorAll(".linked .js-plotly-plot")]
    .filter(each => each !== source);
  Promise.all(others.map(each => Plotly.relayout(each, update))).then(() => { linking = false; });
}
const plots = [...document.querySelectorAll(".plot")];
const observer = new IntersectionObserver(entries => entries.forEach(entry => {
  if (entry.isIntersecting) { observer.unobserve(entry.target); draw(entry.target); }
}), {rootMargin: "600px"});
plots.forEach(each => observer.observe(each));
addEventListener("beforeprint", () => plots.filter(each => each.offsetParent).forEach(draw));
"""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
<script>{library}</script>
</head>
<body>
<main>
{content}
</main>
<script>{script}</script>
</body>
</html>
"""


def page(title: str, library: str, sections: Iterable[str]) -> str:
    """The page; ``library`` is JavaScript, ``sections`` HTML."""
    return _PAGE.format(title=text(title), style=_STYLE, library=library, script=_SCRIPT,
                        content="\n".join(sections))


def plot(figure: Any, kind: str = "", name: str = "") -> str:
    """The place of a figure of plotly, with its data; it is drawn when it comes into view."""
    known = f' id="{name}"' if name else ""
    return (f'<div class="plot {kind}"{known} style="min-height:{figure.layout.height}px">'
            f'<script type="application/json">{content(figure)}</script></div>')


def plots(figures: Iterable[Any], kind: str = "", most: int = 12) -> str:
    """Figures in a grid; those after the first ones are folded."""
    every = [plot(figure, "linked" * (kind == "wide")) for figure in figures]
    grid = f'<div class="plots {kind}">'
    shown = grid + "\n".join(every[:most]) + "</div>"
    if every[most:]:
        shown += folded(f"{len(every) - most} more joints",
                        grid + "\n".join(every[most:]) + "</div>", False)
    return shown


def key(*entries: tuple[str, str]) -> str:
    """Names and their colors."""
    return '<div class="key">' + "".join(
        f'<span><i style="background:{color}"></i>{text(name)}</span>' for name, color in entries
    ) + "</div>"


def text(value: object) -> str:
    """Plain text as HTML."""
    return html.escape(str(value))


def number(value: float, digits: int = 4) -> str:
    """A number with so many digits, or a dash."""
    if not math.isfinite(value):
        return _DASH
    found = f"{value:.{digits}g}"
    return text("0" if float(found) == 0.0 else found).replace("-", _MINUS)


def fixed(value: float, decimals: int) -> str:
    """A number with so many decimals, or a dash."""
    if not math.isfinite(value):
        return _DASH
    found = f"{value:.{decimals}f}"
    return (found.lstrip("-") if float(found) == 0.0 else found).replace("-", _MINUS)


def unit(name: str) -> str:
    """A unit with its exponents."""
    return text(name).replace("m2", "m²").replace("s2", "s²")


def pair(before: str, after: str) -> str:
    """HTML before and after, one above the other."""
    return f'<span class="b">{before}</span><span class="a">{after}</span>'


def table(header: Sequence[str | tuple[str, int]], rows: Iterable[Sequence[str]],
          kind: str = "") -> str:
    """A table of HTML; the first column has names. A header can span several columns."""
    spans = [each if isinstance(each, tuple) else (each, 1) for each in header]
    head = "".join(f'<th colspan="{span}">{name}</th>' for name, span in spans)
    body = "\n".join('<tr><td class="name">' + row[0] + "</td>" + "".join(
        f'<td class="{kind}">{cell}</td>' for cell in row[1:]) + "</tr>" for row in rows)
    return (f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>'
            "</table></div>")


def combination(name: str, most: int = 6) -> str:
    """A sum of parameters with its first terms; all of them appear under the pointer."""
    ends = [each.start() for each in re.finditer(r" [+-] ", name)]
    if len(ends) < most + 2:
        return text(name)
    return (f'<span title="{text(name)}">{text(name[:ends[most - 1]])} '
            f'<span class="quiet">… {len(ends) + 1 - most} more terms</span></span>')


def listing(items: Sequence[str], most: int = 12) -> str:
    """A list of HTML; the items after the first ones are folded."""
    if not items:
        return ""
    first, rest = items[:most], items[most:]
    shown = "<ul>" + "".join(f"<li>{item}</li>" for item in first) + "</ul>"
    if rest:
        shown += f"<details><summary>{len(rest)} more</summary>{listing(rest, len(rest))}</details>"
    return shown


def folded(title: str, inside: str, is_open: bool) -> str:
    """Content that can be folded."""
    return (f"<details{' open' if is_open else ''}><summary>{text(title)}</summary>\n{inside}\n"
            "</details>")


def interval(lower: float, upper: float, before: float, after: float, kind: str) -> str:
    """A bar from lower to upper with marks for the values before and after, as a picture.

    The scale is that of these numbers; an interval that is not finite fills it.
    """
    width, height, margin = 180.0, 16.0, 8.0
    finite = [x for x in (lower, upper, before, after) if math.isfinite(x)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    span = (high - low) or 1.0

    def place(x: float) -> float:
        return margin + (width - 2.0 * margin) * (x - low) / span

    known = math.isfinite(lower) and math.isfinite(upper)
    start, end = (place(lower), place(upper)) if known else (0.0, width)
    color = {"well": "#9cc5a9", "weakly": "#e8c69a"}.get(kind, "#e6b3af")
    dash = "" if known else ' opacity="0.35"'
    return (f'<svg width="{width:g}" height="{height:g}" role="img">'
            f'<line x1="0" x2="{width:g}" y1="8" y2="8" stroke="#e3e5e8"/>'
            f'<rect x="{start:.1f}" y="4.5" width="{max(end - start, 1.5):.1f}" height="7" rx="2" '
            f'fill="{color}"{dash}/>'
            f'<line x1="{place(before):.1f}" x2="{place(before):.1f}" y1="1" y2="15" '
            'stroke="#d08a35" stroke-width="2"/>'
            f'<circle cx="{place(after):.1f}" cy="8" r="3.2" fill="#2a6db0"/></svg>')
