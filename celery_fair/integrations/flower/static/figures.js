// Everything on the page but the chart, from one answer of the server.
(function () {
  "use strict";

  const { el, text, duration, age, count, percent, plural, clock, isNumber, remake, strip, legend } = window.fair;
  const byId = (id) => document.getElementById(id);
  const root = byId("fair");
  const KINDS = ["interactive", "batch"];
  const BADGES = { open: "●", protected: "◆" };
  const FILTER_FROM = 13;
  const workers = new Map();

  function workerLink(name) {
    return el("a", { href: root.dataset.workerUrl + encodeURIComponent(name) }, name);
  }

  function badge(mode) {
    const known = mode in BADGES;
    return el("span", { class: `fair-badge fair-badge-${known ? mode : "other"}` },
      `${known ? `${BADGES[mode]} ` : ""}${mode}`);
  }

  // --- notes

  function notes(data) {
    const found = data.without.map((name) =>
      `${name} works without celery-fair (or sends no events): its tasks run in Celery's own order.`);
    found.push(...data.unreadable.map((name) =>
      `${name} tells figures that this page can't read: another version of celery-fair?`));
    const versions = data.total ? data.total.versions.filter((version) => version !== data.version) : [];
    if (versions.length) {
      found.push(`Versions of celery-fair differ: ${versions.join(", ")} in workers, ${data.version} here.`);
    }
    const blind = data.workers.filter((worker) => worker.gate.blind).length;
    if (blind) found.push(`${plural(blind, "worker")} can't read the length of the queues.`);
    const observing = data.workers.filter((worker) => worker.observing).length;
    if (observing) found.push(`${plural(observing, "worker")} only observe${observing === 1 ? "s" : ""}: tasks run in Celery's own order.`);
    if (!data.workers.length) {
      found.push("No worker with celery-fair has been heard of yet. One tells its figures within 10 seconds of its start, unless it runs without events (--without-heartbeat and --without-gossip together).");
    }
    return found;
  }

  function showNotes(data) {
    const found = notes(data);
    const some = found.slice(0, 12);
    if (found.length > some.length) some.push(`And ${found.length - some.length} more like these.`);
    remake("fair-notes", some, () => some.map((words) => el("li", {}, words)));
  }

  // --- cards

  function lastWait(data, column) {
    const points = data.waits.points;
    return points.length ? points[points.length - 1][column] : null;
  }

  function cards(data) {
    const { total } = data, slots = total.slots;
    const used = slots.interactive + slots.batch;
    const gates = Object.entries(total.gates).map(([mode, number]) => `${number} ${mode}`).join(", ");
    const wait = (column) => {
      const seconds = lastWait(data, column);
      return [isNumber(seconds) ? duration(seconds) : "–", isNumber(seconds) ? "p95 now" : "none started of late"];
    };
    return [
      ["Workers", String(total.workers), `gates: ${gates}`],
      ["Slots in use", `${count(used)} of ${count(slots.total)}`, `${count(slots.interactive)} interactive, ${count(slots.batch)} batch`],
      ["Interactive wait", ...wait(1)],
      ["Batch wait", ...wait(2)],
      ["Interactive backlog", count(total.kinds.interactive.backlog), `batch: ${count(total.kinds.batch.backlog)}`],
      ["Last batch start", total.last_batch_start === null ? "never" : `${age(data.now - total.last_batch_start)} ago`, "on any worker"],
    ];
  }

  function showCards(data) {
    const found = cards(data);
    const list = byId("fair-cards");
    while (list.children.length < found.length) {
      list.append(el("div", { class: "fair-card" }, el("dt"), el("dd", {}, el("span"), el("small"))));
    }
    found.forEach(([name, value, more], number) => {
      const [dt, dd] = list.children[number].children;
      text(dt, name);
      text(dd.children[0], value);
      text(dd.children[1], more);
    });
  }

  // --- share, idle slots, backlog, history

  function share(total) {
    const { guaranteed, received } = total.share;
    const meter = el("div", { class: "fair-meter", "aria-hidden": "true" });
    const at = (ratio) => `${Math.min(Math.max(ratio, 0), 1) * 100}%`;
    if (isNumber(received)) meter.append(el("div", { class: "fair-meter-fill", style: `width:${at(received)}` }));
    if (isNumber(guaranteed)) meter.append(el("div", { class: "fair-meter-mark", style: `left:${at(guaranteed)}` }));
    const words = isNumber(received)
      ? `Batch received ${percent(received)}; guaranteed ${percent(guaranteed)}, at the mark.`
      : `Guaranteed ${percent(guaranteed)}. Not measured yet: both kinds must want slots at once.`;
    return [meter, el("p", {}, words)];
  }

  function idle(found) {
    if (!found.length) return [el("p", { class: "fair-small" }, "None of late.")];
    const most = Math.max(...found.map((one) => one.slots));
    return [el("ul", { class: "fair-bars" }, ...found.map((one) => el("li", {},
      el("b", {}, one.reason), ` ${one.slots.toFixed(2)} slots`,
      el("div", { class: "fair-bar", "aria-hidden": "true", style: `width:${Math.max((100 * one.slots) / most, 1)}%` }),
      one.why ? el("small", {}, one.why) : null)))];
  }

  function queues(part) {
    if (!part.served) return "no worker serves it";
    const found = part.queues.map(([name, number]) => `${name} ${count(number)}`);
    if (part.more_queues) found.push(`${part.more_queues} more`);
    return found.join(", ") || "–";
  }

  function backlog(kinds) {
    return KINDS.map((kind) => {
      const part = kinds[kind];
      const numbers = [part.backlog, part.ready, part.held, part.rate_limited, part.uncleared,
        part.scheduled];
      return el("tr", {}, el("th", { scope: "row" }, kind),
        ...numbers.map((number) => el("td", { class: "fair-number" }, count(number))),
        el("td", {}, queues(part)));
    });
  }

  function changes(found) {
    if (!found.length) return [el("tr", {}, el("td", { colspan: 5 }, "No gate has changed yet."))];
    return found.map((change) => el("tr", {},
      el("td", { class: "fair-nowrap" }, clock(change.at)), el("td", {}, change.worker),
      el("td", {}, badge(change.mode)), el("td", {}, change.cause), el("td", {}, change.reason)));
  }

  // --- workers

  function newWorker(name) {
    const parts = {
      badge: el("span"), reason: el("p", { class: "fair-reason" }), strip: el("div"),
      slots: el("p"), more: el("p", { class: "fair-reason" }), old: el("p", { class: "fair-worker-old" }),
    };
    const head = el("div", { class: "fair-worker-head" }, workerLink(name), parts.badge);
    const item = el("li", { class: "fair-worker" }, head, parts.reason, parts.strip, parts.slots, parts.more, parts.old);
    return { item, parts, drawn: "" };
  }

  function update(card, worker, now) {
    const { parts } = card, { slots, gate } = worker;
    const free = Math.max(slots.total - slots.interactive - slots.batch, 0);
    const drawn = JSON.stringify([slots, gate.mode]);
    if (card.drawn !== drawn) {
      card.drawn = drawn;
      parts.strip.replaceChildren(strip(slots));
      parts.badge.replaceChildren(badge(gate.mode));
    }
    card.item.dataset.stale = String(worker.stale);
    text(parts.reason, `for ${age(now - gate.since)}: ${gate.reason}`);
    text(parts.slots, `${slots.interactive} interactive, ${slots.batch} batch, ${free} free of ${slots.total}; reserve ${slots.reserve}, batch’s ceiling ${slots.batch_ceiling}`);
    const waits = KINDS.map((kind) => duration(worker.waits[kind])).join(" / ");
    const held = KINDS.map((kind) => worker.held[kind]).join(" / ");
    text(parts.more, `wait p95 ${waits} · held ${held} · batch got ${percent(worker.share.received)}, guaranteed ${percent(worker.share.guaranteed)}`);
    text(parts.old, worker.stale ? `Not heard of for ${age(worker.age_seconds)}; these figures are from then.` : "");
  }

  function showWorkers(data) {
    const list = byId("fair-workers");
    const names = new Set(data.workers.map((worker) => worker.name));
    for (const [name, card] of workers) {
      if (!names.has(name)) {
        card.item.remove();
        workers.delete(name);
      }
    }
    data.workers.forEach((worker, number) => {
      if (!workers.has(worker.name)) workers.set(worker.name, newWorker(worker.name));
      const card = workers.get(worker.name);
      // Moved only if it must be: a moved element loses the focus.
      if (list.children[number] !== card.item) list.insertBefore(card.item, list.children[number] || null);
      update(card, worker, data.now);
    });
    byId("fair-filter-box").hidden = data.workers.length < FILTER_FROM;
    filter(data);
  }

  function filter(data) {
    const words = byId("fair-filter").value.trim().toLowerCase();
    let visible = 0;
    for (const [name, card] of workers) {
      card.item.hidden = words !== "" && !name.toLowerCase().includes(words);
      visible += card.item.hidden ? 0 : 1;
    }
    const left_out = data.left_out ? `${plural(data.left_out, "worker")} more are in the sums, and not drawn. ` : "";
    text(byId("fair-workers-note"), left_out + (words ? `${plural(visible, "worker")} found.` : ""));
  }

  let last = null;
  byId("fair-filter").addEventListener("input", () => last && filter(last));

  window.fair.show = (data) => {
    last = data;
    showNotes(data);
    byId("fair-figures").hidden = data.total === null;
    if (data.total === null) return;
    remake("fair-legend", "once", legend);
    showCards(data);
    window.fair.showWaits(data.waits.points);
    remake("fair-share", data.total.share, () => share(data.total));
    remake("fair-idle", data.idle, () => idle(data.idle));
    remake("fair-backlog", data.total.kinds, () => backlog(data.total.kinds));
    window.fair.showShared(data.shared);
    window.fair.showReplay(data.replay);
    showWorkers(data);
    remake("fair-changes", data.changes, () => changes(data.changes));
  };
})();
