// The tab Train: the options of A and B, what they would train, and all jobs.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { AUTO, EXPERIMENTS, MARK, SIDES, act, form, fromParameters, isAuto, load, options, request, rows, toParameters, usePreset } from "./form.js";
import { changesPanel, startedFrom } from "./changes.js";
import { jobList } from "./jobs.js";
import { optionList, view } from "./options.js";
import { WHAT, runPanel } from "./run.js";
import * as searching from "./search.js";

const KEPT = "frostbench_train", TYPING = 120;
const main = document.querySelector("#main");
const names = {}, about = {}, corrections = {};
let reply = null, wanted = 0, busy = false, timer = 0, pair = {};

const changes = changesPanel(change), jobs = jobList({ ended: () => run.ask(), resumed(found) { pair = found; remember(true); jobs.follow(found); } });
const run = runPanel({ change, started(found) { pair = found; remember(true); jobs.follow(found); } });
const list = optionList({ change, turn, choose(section) { view.section = section; view.query = find.value = ""; view.only = only.checked = false; redraw(); remember(true); } });
const find = h("input", { class: "field", type: "search", placeholder: "Find a setting: smoothing, learning rate …", "aria-label": "Find a setting", input: () => { view.query = find.value; redraw(); remember(); } });
const only = h("input", { type: "checkbox", change: () => { view.only = only.checked; redraw(); remember(); } });
const keys = h("input", { type: "checkbox", change: () => { view.keys = keys.checked; main.classList.toggle("keys", view.keys); remember(); } });
const data = h("select", { class: "field", "aria-label": "Data set", change: () => { const old = form.sides.A.cache; if (form.sides.B.cache === old) form.sides.B.cache = data.value; form.sides.A.cache = data.value; change("chosen"); } });
const dataB = h("select", { class: "field", "aria-label": "B: data set", change: () => { form.sides.B.cache = dataB.value || form.sides.A.cache; change("chosen"); } });
const line = h("p", { class: "about-data" });
const corrected = h("input", { type: "checkbox", change: () => { form.corrected = corrected.checked; change("chosen"); } }), correctedText = h("span");
const correctedLabel = h("label", { class: "chip", hidden: true }, corrected, correctedText);
const presets = Object.fromEntries(SIDES.map(side => [side, h("select", { class: "field", "aria-label": `${side}: preset`, change: event => preset(side, event.target.value) })]));
const started = Object.fromEntries(SIDES.map(side => [side, h("small")]));
const general = h("div", { class: "general", role: "status" });

function preset(side, name) {
  act(`preset ${name} on ${side}`, () => usePreset(side, name));
  announce(`Side ${side} has the preset ${name}.`);
  change("act");
}

// After a change: what is known at once is shown at once, and the server is asked for the rest.
function change(kind) {
  run.setErrors([]);
  run.wait("");
  if (kind === "act") show();
  else list.show(reply, names);
  head();
  changes.show();
  remember();
  clearTimeout(timer);
  timer = setTimeout(() => check(), kind === "typed" ? TYPING : 0);
}

function turn(side, name, on) {
  act(`${name} on ${side} ${on ? "on" : "off"}`, () => {});
  check({ side, name, on });
}

// One request at a time; of several waiting ones only the last is sent.
async function check(turned = null) {
  const mine = ++wanted;
  if (busy && !turned) return;
  busy = true;
  main.dataset.check = "asking";
  try {
    const [found] = await Promise.all([api("train-check", request({ visible: list.visible(), switch: turned })), ...SIDES.map(side => facts(form.sides[side].cache))]);
    if (found.values) { form.sides = found.values; form.switched = { A: {}, B: {}, ...found.switched }; }
    if (mine === wanted || turned) reply = found;
  } catch (error) { fail(error); }
  busy = false;
  if (mine !== wanted) { check(); return; }
  show();
  remember();
  run.setErrors(problems());
  main.dataset.check = "ready";
  await run.ask();
}

async function facts(cache) {
  if (!cache || cache in about) return;
  const found = await api("train-data", { cache });
  names[cache] = found.names;
  about[cache] = found.about;
  corrections[cache] = found.corrections;
}

function problems() {
  const found = Object.keys(reply?.shared ?? {}).length ? ["Correct the marked fields: " + count(Object.keys(reply.shared).length, "shared setting") + "."] : [];
  for (const side of SIDES) {
    const { errors = {}, notes = [] } = reply?.sides[side] ?? {}, number = Object.keys(errors).length;
    if (number) found.push(`Side ${side} cannot be trained: ${Object.entries(errors).map(([key, text]) => `${rows.get(key)?.label ?? "Settings"}: ${text}`).join(" ")}`);
    found.push(...notes.filter(({ refused }) => refused).map(({ text }) => `Side ${side} cannot be trained: ${text}`));
  }
  return found;
}

function head() {
  data.value = form.sides.A.cache;
  dataB.value = form.sides.B.cache === form.sides.A.cache ? "" : form.sides.B.cache;
  line.textContent = about[form.sides.A.cache] ?? "";
  const checked = Math.max(0, ...SIDES.map(side => corrections[form.sides[side].cache] ?? 0));
  correctedLabel.hidden = !checked && !form.corrected;
  corrected.checked = form.corrected;
  correctedText.textContent = checked ? `with ${count(checked, "checked label")}` : "with corrected labels (there are none)";
  for (const side of SIDES) {
    presets[side].value = form.start[side];
    started[side].textContent = startedFrom(side);
  }
}

function show() {
  head();
  list.show(reply, names);
  changes.show();
  run.show(reply);
  // Notes about options that are not on display stand above the rows.
  const visible = new Set(list.visible()), said = [];
  for (const side of SIDES) for (const note of isAuto(side) ? [] : reply?.sides[side].notes ?? []) {
    if (!note.keys.some(key => visible.has(key))) said.push(h("p", { class: note.refused ? "refused" : "note" }, h("b", {}, `${note.refused ? "✖" : "▲"} ${side}: `), note.text));
  }
  for (const side of SIDES) for (const [key, text] of Object.entries(reply?.sides[side].errors ?? {})) {
    if (!visible.has(key)) said.push(h("p", { class: "refused" }, h("b", {}, `✖ ${side}, ${rows.get(key)?.label ?? "settings"}: `), text));
  }
  general.replaceChildren(...said);
}

function redraw() { list.draw(); list.show(reply, names); check(); }

// The address states all that is set, so that it can be kept, shared and gone back to.
function remember(push = false) {
  const parameters = new URLSearchParams();
  toParameters(parameters);
  if (view.section !== "Usual") parameters.set("show", view.section);
  if (view.query) parameters.set("q", view.query);
  if (view.only) parameters.set("only", "1");
  if (view.keys) parameters.set("keys", "1");
  if (run.what !== "both") parameters.set("train", run.what);
  if (run.what === "search") searching.toParameters(parameters);
  for (const [side, id] of Object.entries(pair)) parameters.set(`job-${side.toLowerCase()}`, id);
  const query = `?${parameters}`;
  if (query !== location.search) history[push ? "pushState" : "replaceState"](null, "", query + location.hash);
  localStorage.setItem(KEPT, query);
}

function read(query) {
  const parameters = new URLSearchParams(query), unknown = [...fromParameters(parameters), ...searching.fromParameters(parameters)];
  const sections = list.sections(), section = parameters.get("show");
  view.section = sections.includes(section) ? section : "Usual";
  view.query = find.value = parameters.get("q") ?? "";
  view.only = only.checked = parameters.has("only");
  view.keys = keys.checked = parameters.has("keys");
  main.classList.toggle("keys", view.keys);
  run.what = WHAT.includes(parameters.get("train")) ? parameters.get("train") : "both";
  pair = {};
  for (const side of [...SIDES, ...EXPERIMENTS]) if (parameters.has(`job-${side.toLowerCase()}`)) pair[side] = parameters.get(`job-${side.toLowerCase()}`);
  if (unknown.length) fail(new Error(`The address names what does not exist here and was left out: ${unknown.join(", ")}.`));
}

function layout() {
  const option = name => h("option", { value: name }, name);
  data.replaceChildren(...options.caches.map(option));
  dataB.replaceChildren(h("option", { value: "" }, "the same for B"), ...options.caches.map(name => h("option", { value: name }, `B: ${name}`)));
  for (const side of SIDES) presets[side].replaceChildren(...options.presets.filter(({ name }) => side === "A" || name !== AUTO).map(({ name }) => h("option", { value: name }, name === AUTO ? "auto: choose for me" : name)));
  const sides = h("div", { class: "sides" }, h("span", { class: "hint" }, "Preset"), SIDES.map(side => h("div", { class: `cell side-${side}` }, h("b", {}, h("span", { "aria-hidden": "true" }, MARK[side]), ` ${side}`), presets[side], started[side])));
  main.replaceChildren(
    h("div", { class: "head" }, h("h1", {}, "Train"), data, options.caches.length > 1 ? dataB : [], correctedLabel, h("span", { class: "grow" }), find, h("label", { class: "chip" }, only, "only what differs"), h("label", { class: "chip" }, keys, "show keys"), line),
    h("div", { class: "columns" }, list.nav, h("section", { class: "card options", "aria-labelledby": "settings-title" }, h("h2", { class: "hidden", id: "settings-title" }, "Settings"), sides, general, list.list), h("aside", {}, changes.element, run.element, jobs.last)),
    jobs.element);
  const bar = document.querySelector(".top");
  new ResizeObserver(() => main.style.setProperty("--bar", `${bar.offsetHeight}px`)).observe(bar);
}

function toJobs() { if (location.hash === "#jobs") jobs.element.scrollIntoView(); }

async function begin() {
  try {
    load(await api("train-options"));
    if (!options.caches.length) {
      main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Train")), h("section", { class: "card empty" }, h("p", {}, "No data set yet: no cache lies below this folder. Make one of your images:"), h("pre", {}, "frostbench embed IMAGES CACHE")), jobs.element);
    } else {
      read(location.search || localStorage.getItem(KEPT) || "");
      layout();
      list.draw();
      await check();
    }
    main.dataset.state = "ready";
    jobs.follow(pair).then(toJobs);
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

addEventListener("popstate", () => { if (main.dataset.state === "ready" && options.caches.length) { read(location.search); redraw(); jobs.follow(pair); } });
addEventListener("hashchange", toJobs);
begin();
