// What celery-fair would have made of what observing workers ran. Hidden where nobody observes.
(function () {
  "use strict";

  const { el, text, duration, clock, count, percent, plural, isNumber, remake } = window.fair;
  const byId = (id) => document.getElementById(id);
  const SMALL_SECONDS = 0.05; // up to here an error is told in seconds, as a ratio says little

  function what(replay) {
    if (replay.why !== null) return `No replay: ${replay.why}`;
    const span = `${duration(replay.seconds)} until ${clock(replay.until)}`;
    const said = `${span}: ${plural(replay.tasks, "task")} on ${plural(replay.slots, "slot")}.`;
    return replay.left_out.length ? `${said} Not replayed: ${replay.left_out.join(", ")}.` : said;
  }

  function later(seconds) {
    if (!isNumber(seconds)) return "–";
    if (Math.abs(seconds) < 0.05) return "at the same time";
    return `${duration(Math.abs(seconds))} ${seconds > 0 ? "later" : "earlier"}`;
  }

  function trust(part) {
    if (!isNumber(part.measured)) return `no figure: ${part.why}`;
    const small = part.measured <= SMALL_SECONDS && isNumber(part.replayed);
    const off = small ? duration(Math.abs(part.measured - part.replayed)) : percent(part.error);
    return isNumber(part.would_be) ? `off by ${off}` : `no figure: ${part.why}`;
  }

  function row([kind, part]) {
    const numbers = [count(part.tasks), duration(part.measured), duration(part.would_be), later(part.later_last)];
    return el("tr", {}, el("th", { scope: "row" }, kind),
      ...numbers.map((words) => el("td", { class: "fair-number" }, words)), el("td", {}, trust(part)));
  }

  window.fair.showReplay = (replay) => {
    byId("fair-replay-panel").hidden = replay === null;
    if (replay === null) return;
    text(byId("fair-replay-what"), what(replay));
    byId("fair-replay-box").hidden = replay.why !== null;
    remake("fair-replay", replay.kinds, () => replay.kinds.map(row));
  };
})();
