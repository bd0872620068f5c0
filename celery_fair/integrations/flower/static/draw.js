// The strip of a worker's slots, and the chart of waits. Nothing is told by colour alone.
(function () {
  "use strict";

  const { svg, el, duration, isNumber } = window.fair;
  const CELLS = 64; // more slots than that are drawn as one bar a kind
  const HEIGHT = 26;
  const TICKS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 14400];
  const CHART = { left: 58, right: 12, top: 10, bottom: 26 };

  // Once a page: batch is striped, wherever it is drawn.
  function stripes() {
    const line = svg("path", { class: "fair-stripe", d: "M0 0V7" });
    const pattern = svg("pattern", {
      id: "fair-stripes", width: 7, height: 7,
      patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
    }, line);
    return svg("svg", { width: 0, height: 0, "aria-hidden": "true", style: "position:absolute" },
      svg("defs", {}, pattern));
  }

  function cell(kind, from, to, total, gap) {
    const box = {
      x: `${(100 * from) / total + gap / 2}%`, y: 6, rx: 3,
      width: `${Math.max((100 * (to - from)) / total - gap, 0.2)}%`, height: HEIGHT,
    };
    const found = [svg("rect", { class: `fair-slot fair-slot-${kind}`, ...box })];
    if (kind === "batch") found.push(svg("rect", { fill: "url(#fair-stripes)", ...box }));
    return found;
  }

  // Batch from the left, interactive from the right, where the reserve is.
  function runs(slots) {
    const total = Math.max(slots.total, slots.batch + slots.interactive, 1);
    const free = total - slots.batch - slots.interactive;
    const kept = Math.min(Math.max(slots.reserve - slots.interactive, 0), free);
    const lengths = [["batch", slots.batch], ["free", free - kept], ["reserve", kept],
      ["interactive", slots.interactive]];
    return { total, lengths };
  }

  function strip(slots) {
    const { total, lengths } = runs(slots);
    const drawn = svg("svg", { class: "fair-strip", "aria-hidden": "true" });
    if (total < 12) drawn.style.maxWidth = `${total * 3}rem`;
    const gap = total <= CELLS ? 12 / total : 0;
    let at = 0;
    for (const [kind, length] of lengths) {
      const step = total <= CELLS ? 1 : Math.max(length, 1);
      for (let from = at; from < at + length; from += step) {
        drawn.append(...cell(kind, from, Math.min(from + step, at + length), total, gap));
      }
      at += length;
    }
    drawn.append(...marks(slots, total));
    return drawn;
  }

  function marks(slots, total) {
    const found = [];
    if (slots.reserve > 0) {
      const begin = Math.max(total - slots.reserve, 0) / total;
      found.push(svg("line", {
        class: "fair-reserve", x1: `${100 * begin + 0.6}%`, x2: "99.4%", y1: 37, y2: 37,
      }));
    }
    const x = `${(100 * Math.min(slots.batch_ceiling, total)) / total}%`;
    found.push(
      svg("line", { class: "fair-ceiling", x1: x, x2: x, y1: 3, y2: HEIGHT + 8 }),
      svg("svg", { x, y: 0, overflow: "visible" },
        svg("path", { class: "fair-ceiling-head", d: "M-5 0H5L0 6Z" })));
    return found;
  }

  function swatch(kind) {
    const drawn = svg("svg", { width: 18, height: 14, viewBox: "0 5 18 28", preserveAspectRatio: "none",
      "aria-hidden": "true" });
    drawn.append(...cell(kind, 0, 1, 1, 8));
    return drawn;
  }

  function legend() {
    const reserve = svg("svg", { width: 20, height: 12, "aria-hidden": "true" },
      svg("line", { class: "fair-reserve", x1: 1, x2: 19, y1: 9, y2: 9 }));
    const ceiling = svg("svg", { width: 12, height: 14, "aria-hidden": "true" },
      svg("path", { class: "fair-ceiling-head", d: "M1 0H11L6 6Z" }),
      svg("line", { class: "fair-ceiling", x1: 6, x2: 6, y1: 2, y2: 14 }));
    const entries = [[swatch("interactive"), "interactive"], [swatch("batch"), "batch"],
      [swatch("free"), "free"], [swatch("reserve"), "free, in reserve"],
      [reserve, "the reserve, which batch leaves free"], [ceiling, "batch’s ceiling"]];
    return entries.map(([picture, words]) => el("span", {}, picture, ` ${words}`));
  }

  // --- the chart

  function heightOf(width) {
    return width < 600 ? 220 : 300;
  }

  function scale(points, width) {
    const values = points.flatMap((point) => [point[1], point[2]]).filter(isNumber);
    const low = Math.max(Math.min(...values, 0.1), 0.001);
    const high = Math.max(...values, 1);
    const from = Math.log10(TICKS.filter((tick) => tick <= low).pop() || TICKS[0]);
    const to = Math.log10(TICKS.find((tick) => tick >= high) || high);
    const { left, right, top, bottom } = CHART, height = heightOf(width);
    return {
      x: (ago) => left + (1 - ago / 900) * (width - left - right),
      y: (value) => {
        const share = (Math.log10(Math.max(value, 0.001)) - from) / (to - from);
        return height - bottom - share * (height - top - bottom);
      },
      ticks: TICKS.filter((tick) => Math.log10(tick) >= from && Math.log10(tick) <= to),
    };
  }

  function axes(at, width) {
    const right = width - CHART.right, floor = heightOf(width) - CHART.bottom;
    const found = at.ticks.flatMap((tick) => [
      svg("line", { class: "fair-grid", x1: CHART.left, x2: right, y1: at.y(tick), y2: at.y(tick) }),
      svg("text", { x: CHART.left - 8, y: at.y(tick) + 4, "text-anchor": "end" }, duration(tick).replace(".0", "")),
    ]);
    for (const minutes of [15, 10, 5, 0]) {
      const words = minutes ? `−${minutes} min` : "now";
      const anchor = minutes === 15 ? "start" : minutes ? "middle" : "end";
      found.push(svg("text", { x: at.x(minutes * 60), y: floor + 18, "text-anchor": anchor }, words));
    }
    return found;
  }

  function line(points, column, kind, at) {
    let path = "", length = 0, last = null;
    const dots = [];
    const dot = (point) => svg("circle", {
      class: `fair-dot-${kind}`, cx: at.x(point[0]), cy: at.y(point[column]), r: 3,
    });
    for (const point of points) {
      if (!isNumber(point[column])) {
        if (length === 1) dots.push(dot(last)); // alone, it would be no line
        length = 0;
        continue;
      }
      path += `${length ? "L" : "M"}${at.x(point[0]).toFixed(1)} ${at.y(point[column]).toFixed(1)}`;
      length += 1;
      last = point;
    }
    if (length) dots.push(dot(last));
    return [svg("path", { class: `fair-line fair-line-${kind}`, d: path }), ...dots];
  }

  // `cursor` is the number of a point, or null.
  function chart(points, width, cursor) {
    const at = scale(points, width), height = heightOf(width);
    const drawn = svg("svg", { "aria-hidden": "true", width, height });
    drawn.append(...axes(at, width), ...line(points, 2, "batch", at), ...line(points, 1, "interactive", at));
    if (cursor !== null && points[cursor]) {
      const x = at.x(points[cursor][0]);
      drawn.append(svg("line", { class: "fair-cursor", x1: x, x2: x, y1: CHART.top, y2: height - CHART.bottom }));
    }
    return drawn;
  }

  // The point nearest to a place in the chart.
  function nearest(points, x, width) {
    const ago = 900 * (1 - (x - CHART.left) / (width - CHART.left - CHART.right));
    let best = 0;
    points.forEach((point, number) => {
      if (Math.abs(point[0] - ago) < Math.abs(points[best][0] - ago)) best = number;
    });
    return best;
  }

  Object.assign(window.fair, { stripes, strip, legend, chart, nearest });
})();
