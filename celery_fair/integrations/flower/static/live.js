// Asks the server again and again, while the page can be seen, and says when it can't.
(function () {
  "use strict";

  const { text, age, clock } = window.fair;
  const EVERY_MS = 2000;
  const SLOWEST_MS = 10000;
  const PATIENCE_MS = 8000;
  const SILENT_SECONDS = 15;
  const box = document.getElementById("fair-live");
  const words = document.getElementById("fair-live-text");
  const since = document.getElementById("fair-live-age");
  const url = document.getElementById("fair").dataset.url;
  let timer = null, asking = false, wait_ms = EVERY_MS, got_at = null, lost_at = null;

  class LoggedOut extends Error {}

  function say(state, sentence) {
    box.dataset.state = state;
    text(words, sentence);
  }

  function tellAge() {
    const live = box.dataset.state === "live" && got_at !== null;
    text(since, live ? `· ${age((Date.now() - got_at) / 1000)} ago` : "");
  }

  async function ask() {
    const stop = new AbortController();
    const too_long = setTimeout(() => stop.abort(), PATIENCE_MS);
    try {
      const answer = await fetch(url, { credentials: "same-origin", cache: "no-store", signal: stop.signal });
      if (answer.status === 401 || answer.status === 403 || answer.redirected) throw new LoggedOut();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      return await answer.json();
    } finally {
      clearTimeout(too_long);
    }
  }

  function got(data) {
    got_at = Date.now();
    lost_at = null;
    wait_ms = EVERY_MS;
    window.fair.show(data);
    window.fair.showJobs(data.jobs);
    const silent = data.heard_seconds_ago;
    if (data.workers.length && silent > SILENT_SECONDS) {
      say("stale", `Flower has heard nothing from the workers for more than ${SILENT_SECONDS} s: these figures are old`);
    } else {
      say("live", "Live");
    }
  }

  function failed(error) {
    if (lost_at === null) lost_at = Date.now();
    wait_ms = Math.min(wait_ms * 1.5, SLOWEST_MS);
    if (error instanceof LoggedOut) {
      say("lost", "Flower wants you to log in again: reload this page");
    } else {
      const from = got_at === null ? "" : `; the figures are from ${clock(got_at / 1000)}`;
      say("lost", `Flower can't be reached since ${clock(lost_at / 1000)}${from}`);
    }
  }

  async function turn() {
    timer = null;
    if (asking) return;
    asking = true;
    try {
      got(await ask());
    } catch (error) {
      failed(error);
    }
    asking = false;
    tellAge();
    next(wait_ms);
  }

  function next(ms) {
    clearTimeout(timer);
    timer = document.hidden ? null : setTimeout(turn, ms);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      say("paused", "Paused while this tab is hidden");
      tellAge();
    }
    next(0);
  });
  setInterval(tellAge, 1000);
  document.getElementById("fair").prepend(window.fair.stripes());
  turn();
})();
