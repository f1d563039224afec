// The tab Compare: two settings on the same images.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { average, count, h, middle, renew } from "../shared/dom.js";
import { classCard } from "./classes.js";
import { confusionCard } from "./confusions.js";
import { decideCard } from "./decide.js";
import { galleryCard } from "./gallery.js";
import { state } from "./state.js";
import { trustCard } from "./trust.js";
import { verdictCard } from "./verdict.js";

const main = document.querySelector("#main");
const mean = ({ values }) => average(values.macro_f1_fg) ?? -1;
const alike = (one, other) => one.store === other.store && one.data === other.data && one.seeds.some(seed => other.seeds.includes(seed));
let revealed = false;

function remember(push) {
  const address = `?${new URLSearchParams({ store: state.a.store, a: state.a.id, b: state.b.id, metric: state.metric })}`;
  if (address === location.search) return;
  if (push) history.pushState(null, "", address); else history.replaceState(null, "", address);
}

/** Choose A and B of the address, those that are pinned, or the best setting against a plain one of the same data. */
function choose() {
  const from = new URLSearchParams(location.search), find = name => state.runs.find(({ id, store }) => id === from.get(name) && (!from.get("store") || store === from.get("store")));
  state.b = find("b") ?? null;
  state.a = find("a") ?? null;
  if ((from.get("a") && !state.a) || (from.get("b") && !state.b)) fail(new Error("A setting of this address is no longer there; others are shown."));
  if (!state.a && !state.b) [state.a, state.b] = pinned();
  const order = [...state.runs].sort((x, y) => mean(y) - mean(x));
  state.b ??= order.find(one => one !== state.a && (!state.a || alike(one, state.a)) && order.some(other => other !== one && alike(one, other))) ?? null;
  const others = order.filter(one => state.b && one !== state.b && alike(one, state.b));
  state.a ??= others.find(({ name }) => name === "baseline") ?? others.find(({ preset }) => preset === "baseline" || preset === "plain") ?? others.at(-1) ?? null;
}

/** Return the settings that are pinned as A and B in the tab Runs, or nulls if no data has both. */
function pinned() {
  for (const [store, byData] of Object.entries(state.pins)) for (const pins of Object.values(byData)) {
    const sides = ["a", "b"].map(side => state.runs.find(one => one.store === store && one.id === pins[side]));
    if (sides.every(Boolean) && alike(...sides)) return sides;
  }
  return [null, null];
}

function head() {
  const settings = side => [...state.runs].filter(one => one === state[side] || alike(one, state.b)).sort((x, y) => mean(y) - mean(x));
  const pick = side => {
    const element = h("select", { class: "field", "aria-label": `Setting ${side.toUpperCase()}`, change: event => take(side, event.target.value) },
      settings(side).map(one => h("option", { value: one.id }, `${middle(one.name, 90)} (macro F1 ${(100 * mean(one)).toFixed(1)}, ${count(one.seeds.length, "seed")})`)));
    element.value = state[side].id;
    return h("label", { class: `side ${side}` }, h("b", {}, side.toUpperCase()), element);
  };
  return h("div", { class: "head pick" }, h("h1", {}, "Compare"), pick("a"), pick("b"), h("button", { class: "btn", type: "button", click: () => { [state.a, state.b] = [state.b, state.a]; remember(true); load(); } }, "Swap"));
}

/** Make a setting side A or B; the one it takes the place of goes to the other side if it was there. */
function take(side, id) {
  const other = side === "a" ? "b" : "a", before = state[side];
  state[side] = state.runs.find(one => one.id === id);
  if (state[side] === state[other]) state[other] = before;
  remember(true);
  load();
}

function differences() {
  const { options, notes, sides: { a, b } } = state.found;
  const cost = side => `${side.seconds.toFixed(1)} s per run${side.parameters === null ? "" : `, ${side.parameters.toLocaleString("en")} parameters`}`;
  return h("section", { class: "card options", "aria-labelledby": "options" }, h("header", {}, h("h2", { id: "options" }, "What differs between A and B"), h("p", {}, options.length > 1 ? `${options.length} options: change one at a time to see which of them matters.` : "")),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Option"), h("th", { scope: "col" }, "A"), h("th", { scope: "col" }, "B"))),
      h("tbody", {}, options.map(one => h("tr", { title: one.path }, h("th", { scope: "row" }, one.title), h("td", {}, one.a ?? "–"), h("td", {}, one.b))), h("tr", {}, h("th", { scope: "row" }, "Cost"), h("td", {}, cost(a)), h("td", {}, cost(b)))))),
    notes.length ? h("ul", { class: "notes" }, notes.map(note => h("li", {}, note))) : null);
}

function testing() {
  const { role, reveals } = state.found;
  if (role === "test") return h("p", { class: "note" }, `These are test images. They were looked at ${count(reveals, "time")}; each look makes a choice by them less honest. `, h("button", { class: "btn", type: "button", click: () => { revealed = false; load(); } }, "Back to validation"));
  return h("details", { class: "note" }, h("summary", {}, "Test images"), h("p", {}, `Closed, so that choices are made on validation images. Looked at ${count(reveals, "time")} so far. `, h("button", { class: "btn", type: "button", click: () => { revealed = true; load(); } }, "Look at the test images")));
}

function draw() {
  const classes = classCard(openClass);
  main.replaceChildren(head(), hold("verdict"), testing(), h("div", { class: "beside" }, classes.element, hold("confusions")), hold("gallery"), trustCard(), decideCard(), differences());
  drawVerdict();
  drawImages();
  classes.show();
  main.dataset.state = "ready";
  announce(main.querySelector(".said .main").textContent);
}

function drawVerdict() { replace("verdict", verdictCard(() => { remember(false); drawVerdict(); })); }

function drawImages() {
  replace("confusions", confusionCard(cell => { state.cell = cell; drawImages(); }));
  replace("gallery", galleryCard(drawImages));
}

/** Show the validation images of a class in the tab Images, with what B says. */
function openClass(number) {
  if (!state.b.here) { fail(new Error(`The cache ${state.b.cache} of these runs is not below the folder of the page.`)); return; }
  location.href = `/images?${new URLSearchParams({ cache: state.b.here, class: state.found.class_names[number], role: "select", run: state.b.id })}`;
}

const hold = name => h("div", { "data-part": name });
const replace = (name, element) => renew(main.querySelector(`[data-part=${name}]`), element);

async function load() {
  main.dataset.state = "loading";
  const asked = state.asked = {};
  try {
    const found = await api("compare", { store: state.b.store, a: state.a.keys, b: state.b.keys, reveal: revealed });
    if (asked !== state.asked) return;
    state.found = found;
    state.cell = null;
    draw();
  } catch (error) {
    if (asked !== state.asked) return;
    main.replaceChildren(head());
    main.dataset.state = "failed";
    fail(error);
  }
}

function empty(stores) {
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Compare")), h("section", { class: "card empty" }, h("p", {}, `Two settings with the same seeds on the same images are needed; ${state.runs.length ? "there are no two of them" : "there are none"} in ${stores.join(", ")}. Train some here, or on the command line:`), h("pre", {}, "frostbench bench run factorial --cache CACHE")));
  main.dataset.state = "ready";
}

async function start() {
  try {
    const { settings, stores, problems, pins } = await api("runs");
    state.runs = settings;
    state.pins = pins;
    state.metric = new URLSearchParams(location.search).get("metric") ?? state.metric;
    if (problems.length) fail(new Error(problems.join(" ")));
    choose();
    if (!state.a || !state.b) { empty(stores); return; }
    remember(false);
    await load();
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

addEventListener("popstate", () => { choose(); if (state.a && state.b) load(); });
start();
