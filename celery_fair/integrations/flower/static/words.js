// Figures as a person reads them, and elements made without any HTML: names are anybody's.
(function () {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";

  function isNumber(value) {
    return typeof value === "number" && Number.isFinite(value);
  }

  function duration(seconds) {
    if (!isNumber(seconds)) return "–";
    if (seconds < 0.9995) return `${Math.round(Math.max(seconds, 0) * 1000)} ms`;
    for (const [limit, unit, name] of [[99.95, 1, "s"], [5970, 60, "min"], [172800, 3600, "h"]]) {
      if (seconds < limit) {
        const value = seconds / unit;
        return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${name}`;
      }
    }
    return `${(seconds / 86400).toFixed(1)} d`;
  }

  // Since when: whole seconds, which don't flicker.
  function age(seconds) {
    return duration(seconds < 99.95 ? Math.max(Math.round(seconds), 1) : seconds).replace(".0 s", " s");
  }

  function count(number) {
    return isNumber(number) ? number.toLocaleString("en").replace(/,/g, "\u00a0") : "unknown";
  }

  function percent(ratio) {
    return isNumber(ratio) ? `${Math.round(ratio * 100)} %` : "–";
  }

  function plural(number, noun) {
    return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
  }

  function clock(epochSeconds) {
    return new Date(epochSeconds * 1000).toLocaleTimeString([], { hour12: false });
  }

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function el(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
  }

  function svg(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
  }

  // What is on the screen already stays as it is: no flicker, and nothing for a reader to say again.
  function text(element, value) {
    if (element.textContent !== value) element.textContent = value;
  }

  const shown = new Map(); // what each part was made of: it is made anew only when that changes

  function remake(id, made_of, make) {
    const key = JSON.stringify(made_of);
    if (shown.get(id) === key) return;
    shown.set(id, key);
    document.getElementById(id).replaceChildren(...make());
  }

  window.fair = { isNumber, duration, age, count, percent, plural, clock, el, svg, text, remake };
})();
