// All jobs of the store: state, progress, settings, and a button to cancel each.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, renew } from "../shared/dom.js";
import { EXPERIMENTS, MARK } from "./form.js";

const KINDS = { changes: "Each change", search: "Search" };
const BUSY = 1000, IDLE = 5000, CHANGES = 4;
const SIGN = { queued: "◔", running: "▶", done: "✔", cancelled: "■", failed: "✖", lost: "?", foreign: "⇄" };

/** Seconds in words. */
export function duration(seconds) {
  if (seconds < 60) return `${Math.max(1, Math.round(seconds))} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

/** Return { element, last, follow(jobs), refresh() }: the list, and the card of the pair that was started last; `ended` is called when a job has new runs, `resumed` with the job that goes on. */
export function jobList({ ended, resumed }) {
  const list = h("ul", {}), rest = h("p", { hidden: true });
  const element = h("section", { class: "card jobs", id: "jobs", "aria-labelledby": "jobs-title", "data-state": "loading", tabindex: "-1" },
    h("header", {}, h("h2", { id: "jobs-title" }, "All jobs of this store"), h("p", {}, h("small", {}, "Also those started in other tabs or from Python. They go on when this page is closed."))), list, rest);
  const last = h("section", { class: "card last", "aria-label": "Started last", hidden: true });
  const states = new Map();
  let pair = {}, links = { key: "" }, timer = 0;

  function settings(job) {
    if (!job.cache) return "unreadable settings";
    const seeds = `${count(job.seeds.length, "seed")} · ${job.cache}`;
    if (job.about) return `${job.about} · ${seeds}`;
    const made = job.chosen.name ? { preset: `auto chose ${job.chosen.name}`, changes: [] } : job;
    const all = made.changes.map(({ title, value }) => `${title} ${value || "none"}`), more = all.length - CHANGES;
    const changes = [...all.slice(0, CHANGES), ...(more > 0 ? [`${more} more`] : [])];
    return [made.preset, ...changes].join(", ") + ` · ${seeds}`;
  }

  const when = job => `started ${new Date(1000 * (job.began ?? job.created)).toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`;

  function line(job) {
    const label = job.stopping ? "Stop now" : "Cancel";
    const all = [job.preset, ...job.changes.map(({ title, value }) => `${title}: ${value || "none"}`), job.chosen.reason ?? ""].join("\n").trim();
    return h("li", { "data-job": job.id, "data-state": job.state },
      h("b", { class: `side side-${job.side}` }, h("span", { "aria-hidden": "true" }, MARK[job.side] ?? ""), KINDS[job.side] ? h("span", { class: "hidden" }, KINDS[job.side]) : ` ${job.side || "?"}`),
      h("span", { class: "what" }, h("span", {}, h("b", {}, `${SIGN[job.state]} ${job.label}`), " ", job.text), h("small", { title: all }, settings(job)), h("small", {}, [when(job), job.chosen.reason, ...job.warnings].filter(Boolean).join(" · "))),
      job.state === "running" ? h("span", { class: "bar", role: "progressbar", "aria-label": "progress", "aria-valuenow": job.share, "aria-valuemin": 0, "aria-valuemax": 100 }, h("i", { style: `width:${job.share}%` })) : h("span"),
      ["failed", "lost"].includes(job.state) ? h("button", { class: "btn small", type: "button", click: event => log(job, event.target) }, "Show log") : [],
      job.resumable ? h("button", { class: "btn small", type: "button", "aria-label": `Go on: ${settings(job)}`, click: () => resume(job) }, "Go on") : [],
      job.cancellable ? h("button", { class: "btn small", type: "button", "data-cancel": job.id, "aria-label": `${label}: ${job.side}, ${settings(job)}`, click: () => cancel(job) }, label) : []);
  }

  async function log(job, button) {
    try { button.replaceWith(h("pre", { tabindex: "0" }, (await api("train-log", { job: job.id })).log || "The log is empty.")); } catch (error) { fail(error); }
  }

  async function resume(job) {
    try { const { jobs } = await api("experiment-resume", { job: job.id }); announce("The experiment goes on."); resumed(jobs); } catch (error) { fail(error); }
  }

  async function cancel(job) {
    try { show(await api("train-cancel", { job: job.id })); } catch (error) { fail(error); }
  }

  function show({ jobs, omitted }) {
    const focused = document.activeElement?.dataset.cancel, key = JSON.stringify(jobs);
    if (list.dataset.key !== key) {
      // A log that is open stays open: its line is kept while its job does not change.
      const open = new Map([...list.children].filter(item => item.querySelector("pre")).map(item => [item.dataset.job, item]));
      list.replaceChildren(...jobs.map(job => open.get(job.id) ?? line(job)));
      if (!jobs.length) list.replaceChildren(h("li", { class: "none" }, "No jobs yet."));
      list.dataset.key = key;
      if (focused) list.querySelector(`[data-cancel="${focused}"]`)?.focus();
    }
    rest.hidden = !omitted;
    rest.textContent = `${count(omitted, "older job")} not shown.`;
    element.dataset.state = "ready";
    element.dataset.n = jobs.filter(job => ["queued", "running"].includes(job.state)).length;
    for (const job of jobs) {
      if (states.has(job.id) && states.get(job.id) !== job.state) { announce(`Job ${KINDS[job.side] ?? job.side} is ${job.label}. ${job.text}`); if (job.has_runs) ended(); }
      states.set(job.id, job.state);
    }
    return drawLast(jobs);
  }

  // What was started last, in the words of its own jobs; the form may have changed since.
  async function drawLast(jobs) {
    const mine = Object.entries(pair).map(([side, id]) => [side, jobs.find(job => job.id === id)]).filter(([, job]) => job);
    last.hidden = !mine.length;
    if (!mine.length) return;
    const done = mine.filter(([, job]) => job.has_runs && !["queued", "running"].includes(job.state)), key = done.map(([, job]) => job.id).join();
    if (done.length && links.key !== key) {
      links = { key };
      try { links = { key, ...(await api("train-settings", { jobs: done.map(([, job]) => job.id) })) }; } catch (error) { fail(error); }
    }
    const found = Object.fromEntries(done.map(([side, job]) => [side, links.settings?.[job.id]]));
    const both = found.A && found.B && found.A.id !== found.B.id;
    const query = both ? new URLSearchParams({ store: links.store, a: found.A.id, b: found.B.id }) : null;
    last.dataset.state = done.length === mine.length ? "done" : "working";
    renew(last, h("header", {}, h("h2", {}, "Started last")), h("ul", {}, mine.map(([side, job]) => h("li", {}, h("b", { class: `side side-${side}` }, `${MARK[side]} ${KINDS[side] ?? side} `), h("span", {}, `${job.label}: ${job.text || "…"}`, h("small", {}, settings(job)), EXPERIMENTS.includes(side) && job.chosen.reason ? h("small", {}, job.chosen.reason) : [])))),
      h("div", { class: "acts" }, done.filter(([, job]) => links.runs?.[job.id]).map(([side, job]) => h("a", { class: "btn primary", href: links.runs[job.id] }, side === "search" ? "See the settings" : "What makes a difference")), both ? h("a", { class: "btn primary", href: `/compare?${query}` }, "Compare A with B") : [], done.length ? h("a", { class: "btn", href: "/runs" }, "All runs") : []));
  }

  async function refresh() {
    clearTimeout(timer);
    let busy = false;
    if (!document.hidden) {
      try {
        await show(await api("train-jobs"));
        busy = element.dataset.n !== "0";
      } catch (error) { element.dataset.state = "failed"; list.replaceChildren(h("li", { class: "none" }, error.message)); list.dataset.key = ""; }
    }
    timer = setTimeout(refresh, busy ? BUSY : IDLE);
  }

  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  return { element, last, refresh, follow(jobs) { pair = jobs; return refresh(); } };
}
