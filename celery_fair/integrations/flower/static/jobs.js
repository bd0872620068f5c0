// The table of jobs: asked for apart from the workers' figures, and there without any worker too.
(function () {
  "use strict";

  const { el, age, count, duration, isNumber, remake, text } = window.fair;
  const SIGNS = { running: "▶", paused: "❚❚", cancelled: "✕", finished: "✓", "finished with failures": "!" };
  const panel = document.getElementById("fair-jobs-panel");

  function share(number, whole) {
    return whole ? `${Math.min((100 * number) / whole, 100)}%` : "0%";
  }

  function bar(job) {
    const whole = job.total ?? job.submitted;
    return el("div", { class: "fair-progress", "aria-hidden": "true" },
      el("div", { class: "fair-progress-done", style: `width:${share(job.done, whole)}` }),
      el("div", { class: "fair-progress-failed", style: `width:${share(job.failed, whole)}` }));
  }

  function items(job) {
    if (!isNumber(job.total)) return `${count(job.done)} done of ${count(job.submitted)} so far`;
    const part = job.total ? ` (${Math.floor((100 * job.done) / job.total)} %)` : "";
    return `${count(job.done)} of ${count(job.total)}${part}`;
  }

  function rate(job) {
    if (job.state !== "running" || !isNumber(job.rate)) return "–";
    const [unit, each] = [["s", 1], ["min", 60], ["h", 3600]].find(([, each]) => job.rate * each >= 0.95) ?? ["h", 3600];
    const number = job.rate * each;
    return `${number.toFixed(number < 9.95 ? 1 : 0)}/${unit}`;
  }

  function left(job) {
    if (job.state !== "running" || !job.eta) return "–";
    const [low, high] = job.eta.map(duration);
    return low === high ? high : `${low} – ${high}`;
  }

  function state(job) {
    const said = job.silent ? "its producer is silent: submit the same items again with this id" : job.reason;
    return el("td", {},
      el("span", { class: "fair-nowrap" },
        el("span", { "aria-hidden": "true" }, SIGNS[job.state] ?? "?"), ` ${job.state}`),
      said ? el("small", {}, said) : null);
  }

  function row(job) {
    return el("tr", {},
      el("th", { scope: "row" }, job.task, el("small", {}, job.id)),
      state(job),
      el("td", { class: "fair-job-items" }, bar(job), items(job)),
      ...[count(job.failed), count(job.running), rate(job), left(job), `${age(job.age_seconds)} ago`]
        .map((words) => el("td", { class: "fair-number" }, words)));
  }

  window.fair.showJobs = ({ jobs, away }) => {
    panel.hidden = !jobs.length;
    remake("fair-jobs", jobs, () => jobs.map(row));
    text(document.getElementById("fair-jobs-note"),
      away ? "The Redis that keeps the jobs can't be asked now: these figures are old." : "");
  };
})();
