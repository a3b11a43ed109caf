"use strict";
// Values under the pointer. A column holds all points that fell into it: where they differ, the least
// and the greatest are told.
for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const output = figure.querySelector("output");
  const curve = JSON.parse(figure.querySelector("script").textContent);
  const idle = output.textContent;
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", "0");
  cursor.setAttribute("y2", svg.viewBox.baseVal.height);
  let column = -1;

  // The run that a column lies in: the last that begins at or before it.
  const run = (runs) => {
    let low = 0, high = runs.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (runs[middle][0] <= column) low = middle + 1; else high = middle;
    }
    return low ? runs[low - 1] : [0];
  };
  const shown = (series) => {
    const [, min, max, gap] = run(series.runs);
    const number = (value) => (value / series.per).toFixed(series.per > 1 ? 1 : 0);
    let text = gap ? "not available" : "";
    if (min !== undefined && min !== null) {
      const range = min === max ? number(min) : number(min) + " to " + number(max);
      text = range + " " + series.unit + (gap ? ", in part not available" : "");
    }
    return text && series.name + " " + text;
  };
  const show = (to) => {
    column = Math.max(0, Math.min(curve.columns - 1, to));
    const x = curve.left + (column + 0.5) * curve.width / curve.columns;
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    svg.append(cursor);
    const time = (column / curve.columns * curve.length_ms / 1000).toFixed(3);
    const values = curve.series.map(shown).filter(Boolean);
    output.textContent = [curve.warning, time + " s after T0", ...values].filter(Boolean).join(" · ");
  };
  const hide = () => { column = -1; cursor.remove(); output.textContent = idle; };

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
    show(Math.floor((x - curve.left) / curve.width * curve.columns));
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("keydown", (event) => {
    const step = event.shiftKey ? 50 : 1;
    const to = { ArrowLeft: column - step, ArrowRight: column + step, Home: 0, End: curve.columns - 1 };
    if (event.key === "Escape") hide();
    else if (event.key in to) { show(to[event.key]); event.preventDefault(); }
  });
}
