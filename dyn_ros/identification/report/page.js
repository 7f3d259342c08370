// Copyright dyn_ros contributors
// SPDX-License-Identifier: Apache-2.0

// Figures are drawn when they come into view. Those of class "linked" share the range of their x
// axis.
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
