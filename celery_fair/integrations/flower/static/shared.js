// What all workers share: the engine behind the tasks, and resources. Hidden where nothing is set.
(function () {
  "use strict";

  const { el, text, duration, count, percent, isNumber, remake } = window.fair;
  const byId = (id) => document.getElementById(id);
  const KINDS = ["interactive", "batch"];

  function engine(found) {
    if (found === null) return "";
    if (found.failing !== null) return `The load probe gives no answer: ${found.failing}`;
    if (!isNumber(found.pressure)) return "";
    const detail = found.detail ? ` (${found.detail})` : "";
    const what = found.queueing ? ": it queues, and batch gives way" : "";
    return `Engine at ${percent(found.pressure)} of what is fine${detail}${what}.`;
  }

  function byKind(part) {
    const some = KINDS.filter((kind) => part[kind]).map((kind) => `${count(part[kind])} ${kind}`);
    return some.join(", ") || "0";
  }

  function left(number) {
    return isNumber(number) ? count(Math.floor(number)) : "–";
  }

  function slowed(one) {
    const found = one.rate < 1 ? [`slowed to ${percent(one.rate)}`] : [];
    if (one.slowed_seconds > 0) found.push(`none for batch for ${duration(one.slowed_seconds)}`);
    return found.join("; ") || "–";
  }

  function row(one) {
    const numbers = [byKind(one.running), isNumber(one.max_running) ? count(one.max_running) : "–",
      byKind(one.waiting), left(one.requests_left), left(one.tokens_left)];
    return el("tr", {}, el("th", { scope: "row" }, one.name),
      ...numbers.map((words) => el("td", { class: "fair-number" }, words)), el("td", {}, slowed(one)));
  }

  function rows(shared) {
    if (!shared.unknown) return shared.resources.map(row);
    return [el("tr", {}, el("td", { colspan: 7 }, "Unknown: what keeps them can’t be asked."))];
  }

  window.fair.showShared = (shared) => {
    byId("fair-shared-panel").hidden = shared === null;
    if (shared === null) return;
    const words = engine(shared.engine);
    text(byId("fair-engine"), words);
    byId("fair-engine").hidden = words === "";
    byId("fair-resources-box").hidden = !shared.unknown && !shared.resources.length;
    remake("fair-resources", [shared.unknown, shared.resources], () => rows(shared));
  };
})();
