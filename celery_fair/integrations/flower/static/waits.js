// The chart of waits, what it reads at the cursor, and the same as a table.
(function () {
  "use strict";

  const { el, text, duration, chart, nearest } = window.fair;
  const box = document.getElementById("fair-chart");
  const reading = document.getElementById("fair-reading");
  const rows = document.getElementById("fair-waits");
  let points = [];
  let cursor = null; // null: now

  function ago(point) {
    return point[0] < 10 ? "Now" : `${duration(point[0]).replace(".0", "")} ago`;
  }

  function read() {
    const point = points[cursor === null ? points.length - 1 : cursor];
    if (!point) return;
    const said = (seconds) => (seconds === null ? "none started" : duration(seconds));
    const words = `${ago(point)}: interactive ${said(point[1])}, batch ${said(point[2])}`;
    text(reading, words);
    box.setAttribute("aria-valuenow", (-point[0] / 60).toFixed(1));
    box.setAttribute("aria-valuetext", words);
  }

  function draw() {
    if (box.clientWidth) box.replaceChildren(chart(points, box.clientWidth, cursor));
    read();
  }

  function table() {
    const minutes = points.filter((_, number) => (points.length - 1 - number) % 6 === 0).reverse();
    rows.replaceChildren(...minutes.map((point) => el("tr", {},
      el("td", {}, point[0] < 10 ? "now" : String(Math.round(point[0] / 60))),
      el("td", {}, duration(point[1])), el("td", {}, duration(point[2])))));
  }

  function move(to) {
    cursor = to;
    draw();
  }

  box.addEventListener("pointermove", (event) => {
    move(nearest(points, event.clientX - box.getBoundingClientRect().left, box.clientWidth));
  });
  box.addEventListener("pointerleave", () => move(null));
  box.addEventListener("blur", () => move(null));
  box.addEventListener("keydown", (event) => {
    const last = points.length - 1, here = cursor === null ? last : cursor;
    const to = { ArrowLeft: here - 1, ArrowDown: here - 1, ArrowRight: here + 1, ArrowUp: here + 1,
      PageDown: here - 6, PageUp: here + 6, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    move(Math.min(Math.max(to, 0), last));
  });
  new ResizeObserver(draw).observe(box);

  window.fair.showWaits = (found) => {
    points = found;
    draw();
    table();
  };
})();
