// The panel that starts training: how many runs, which exist already, how long the others take, and the commands.
import { ApiError, api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { isFound, planLines, planSettings } from "./experiment.js";
import { differences, form, fromText, isAuto, request } from "./form.js";
import { duration } from "./jobs.js";
import { searchPanel, searchRequest } from "./search.js";

const IDLE = 1200;
const CHOICES = { both: { title: "A and B", sides: ["A", "B"] }, A: { title: "A alone", sides: ["A"] }, B: { title: "B alone", sides: ["B"] }, changes: { title: "Each change alone and all together", button: "Train each change" }, search: { title: "Search around B", button: "Start the search" } };
export const WHAT = Object.keys(CHOICES);
const isExperiment = what => !CHOICES[what].sides;

/** Return { element, ask(), show(reply), what }; `started` is called with the job IDs by side or kind of experiment. */
export function runPanel({ change, started }) {
  let what = "both", asked = 0, timer = 0, plan = null, time = null, errors = [];
  const seeds = h("input", { class: "field seeds", type: "text", inputmode: "numeric", "aria-label": "Seeds", "aria-describedby": "seeds-help seeds-error", autocomplete: "off", input: () => { form.seeds = fromText({ control: "number" }, seeds.value); change("typed"); } });
  const seedsError = h("p", { class: "error", id: "seeds-error", hidden: true });
  const lines = h("ul", { class: "plan" }), reason = h("p", { class: "error", id: "reason", role: "status" });
  const button = h("button", { class: "btn primary", type: "button", disabled: true, "aria-describedby": "reason", click: start }, "Train A and B");
  const settings = h("ul", { class: "settings", tabindex: "0", "aria-label": "The settings" }), settingsBox = h("details", { hidden: true }, h("summary", {}, "The settings"), settings);
  const commands = h("pre", { tabindex: "0" });
  const copy = h("button", { class: "btn small", type: "button", click: () => navigator.clipboard.writeText(commands.textContent).then(() => announce("The commands are copied."), fail) }, "Copy");
  const radios = Object.entries(CHOICES).map(([key, { title }]) => h("label", {}, h("input", { type: "radio", name: "what", value: key, checked: key === what, change: () => { what = key; panel.element.hidden = what !== "search"; change("chosen"); } }), title));
  const panel = searchPanel(change);
  const element = h("section", { class: "card run", "aria-labelledby": "run-title", "data-state": "asking" },
    h("header", {}, h("h2", { id: "run-title" }, "Train")),
    h("div", { class: "inside" }, h("div", { class: "what", role: "group", "aria-label": "What to train" }, radios), panel.element,
      h("div", { class: "seed-line" }, h("span", {}, h("b", {}, "Seeds "), h("small", { id: "seeds-help" }, "runs per setting: a verdict needs two, better five")), seeds), seedsError,
      lines, reason, button, h("small", {}, "Jobs go on when this page is closed."),
      settingsBox, h("details", {}, h("summary", {}, "The same on the command line"), commands, copy)));

  function wait(text) {
    element.dataset.state = "asking";
    button.disabled = true;
    button.textContent = CHOICES[what].button ?? `Train ${CHOICES[what].title}`;
    reason.textContent = text;
  }

  /** Ask what the form would train now. */
  async function ask() {
    const mine = ++asked;
    clearTimeout(timer);
    plan = time = null;
    wait(errors.length ? errors[0] : "");
    if (errors.length) { element.dataset.state = "error"; lines.replaceChildren(); commands.textContent = ""; return; }
    const sent = asking();
    try {
      const reply = await api(`${isExperiment(what) ? "experiment" : "train"}-plan`, sent);
      if (mine !== asked) return;
      plan = reply;
      draw();
      if (!plan.problems.length && !isComplete()) timer = setTimeout(() => estimate(sent, mine), IDLE);
    } catch (error) { if (mine === asked) { element.dataset.state = "failed"; reason.textContent = error.message; } }
  }

  const asking = () => isExperiment(what) ? request({ kind: what, ...(what === "search" ? { search: searchRequest() } : {}) }) : request({ sides: CHOICES[what].sides });
  const isComplete = () => isExperiment(what) ? isFound(plan) : Object.values(plan.sides).every(({ runs, found }) => runs === found);

  async function estimate(sent, mine) {
    try {
      const reply = await api(`${sent.kind ? "experiment" : "train"}-estimate`, sent);
      if (mine === asked) { time = sent.kind ? { [sent.kind]: reply } : reply; draw(); }
    } catch (error) { if (mine === asked && error instanceof ApiError) { time = { problem: error.message }; draw(); } }
  }

  function draw() {
    element.dataset.state = plan.problems.length ? "error" : "ready";
    reason.textContent = plan.problems.join(" ");
    button.disabled = plan.problems.length > 0;
    commands.textContent = plan.commands;
    panel.mark(plan.fields ?? {});
    settingsBox.hidden = !plan.rows?.length;
    settings.replaceChildren(...planSettings({ rows: [], ...plan }));
    if (isExperiment(what)) {
      lines.replaceChildren(...planLines(what, plan), ...plan.problems.length ? [] : [h("li", { class: "time" }, timeText())]);
      return;
    }
    const equal = what === "both" && !isAuto("A") && !differences().length;
    lines.replaceChildren(...Object.entries(plan.sides).map(([side, found]) => h("li", {}, h("b", {}, `${side}: `), sideText(side, found))),
      h("li", { class: "time" }, timeText()), equal ? h("li", {}, "A and B are equal, so there will be nothing to compare.") : []);
  }

  function sideText(side, { runs, found, unknown }) {
    if (found === null) return `${count(runs, "run")}; ${unknown}`;
    return found === runs ? `${count(runs, "run")}, all there already` : found ? `${count(runs, "run")}, ${found} there already` : `${count(runs, "run")} to train`;
  }

  function timeText() {
    if (isComplete()) return "No training needed.";
    if (!time) return "Estimating the time …";
    if (time.problem) return `The time cannot be estimated: ${time.problem}`;
    const known = Object.values(time).filter(({ seconds }) => seconds !== null).reduce((sum, { seconds }) => sum + seconds, 0);
    const open = Object.entries(time).filter(([, { reason: why }]) => why).map(([side, { reason: why }]) => isExperiment(what) ? `The time is ${why}.` : `${side}: ${why}`);
    return [known ? `At most about ${duration(known)} of training.` : "", ...open].filter(Boolean).join(" ");
  }

  async function start() {
    button.disabled = true;
    try {
      const { jobs } = await api(`${isExperiment(what) ? "experiment" : "train"}-start`, asking());
      announce(`${count(Object.keys(jobs).length, "job")} started.`);
      started(jobs);
    } catch (error) { fail(error); }
    ask();
  }

  /** Show what is chosen, the seeds and the errors of a reply. */
  function show(reply) {
    element.querySelector(`[name=what][value=${what}]`).checked = true;
    panel.element.hidden = what !== "search";
    panel.show();
    if (JSON.stringify(fromText({ control: "number" }, seeds.value)) !== JSON.stringify(form.seeds)) seeds.value = form.seeds ?? "";
    const message = reply?.shared.seeds ?? "";
    seedsError.textContent = message;
    seedsError.hidden = !message;
    if (message) seeds.setAttribute("aria-invalid", "true"); else seeds.removeAttribute("aria-invalid");
  }

  return { element, ask, show, wait, setErrors(found) { errors = found; }, get what() { return what; }, set what(key) { what = key; } };
}
