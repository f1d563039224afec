// The tab Images: every image, filtered and sorted, opened, and corrected together.
import { api, later } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, middle, renew } from "../shared/dom.js";
import { inspect } from "../dataset/inspector.js";
import { heading, openDataSet, sayEmpty } from "../dataset/opening.js";
import { pickClass } from "../dataset/picker.js";
import { canUndo, save, undo } from "../dataset/saving.js";
import { className, labelOf, roleOf, state, takeChecks, watch } from "../dataset/state.js";
import { swatch } from "../dataset/swatch.js";
import { controls, filtered, filters, readFilters } from "./filters.js";
import { grid } from "./grid.js";

const main = document.querySelector("#main"), chosen = new Set();
let said = new Map(), saidNames = [], runs = [], shown = [];

const pictures = grid({
  chosen, onChoose: drawBulk, onOpen: row => inspect(row), caption,
  address: row => ({ cache: state.cache, id: state.ids[row], alt: `${state.ids[row]}: ${labelOf(row)}` }),
  marks: row => ({ "data-wrong": said.has(row) && said.get(row).right < 0.5, "data-check": state.suspects.has(row) && !state.checked.has(row), title: `${state.ids[row]}\n${labelOf(row)}, ${roleOf(row)}${state.groups ? `\ngroup ${state.groups[row]}` : ""}` }),
});
const bulk = h("div", { class: "bulk", role: "toolbar", "aria-label": "Chosen images", hidden: true });
const tools = h("div"), found = h("small", { class: "found" });

function caption(row) {
  const one = said.get(row), label = h("span", { class: "line" }, swatch(state.labels[row]), middle(labelOf(row), 15));
  if (!one) return label;
  const wrong = one.right < 0.5;
  return [label, h("span", { class: wrong ? "line wrong" : "line" }, wrong ? `✗ ${middle(saidNames[one.said], 11)}` : "✓", ` ${Math.round(100 * one.confidence)} %`)];
}

function show() {
  shown = filtered(said);
  found.textContent = `${count(shown.length, "image")} of ${state.ids.length.toLocaleString("en")}`;
  pictures.show(shown);
  drawBulk();
}

function drawBulk() {
  const size = chosen.size;
  bulk.hidden = !size && !canUndo();
  const act = (title, click) => h("button", { class: "btn", type: "button", click }, title);
  renew(bulk, ...(size ? [h("span", {}, h("b", {}, size.toLocaleString("en")), " chosen"), act("Change label …", change), act("Leave out", () => correct("")), act("Label is right", confirmLabels), act("Clear", () => { chosen.clear(); show(); })] : []), ...(canUndo() ? [act("Undo", undo)] : []));
}

async function change() {
  const sizes = new Map();
  for (const row of chosen) sizes.set(state.labels[row], (sizes.get(state.labels[row]) ?? 0) + 1);
  const likely = [...sizes].sort((a, b) => b[1] - a[1]).map(([label]) => label).filter(label => label >= 0);
  const name = await pickClass(`Class of ${count(chosen.size, "image")}`, likely);
  if (name) await correct(name);
}

async function correct(name) { if (await save([...chosen], name)) { chosen.clear(); show(); } }

async function confirmLabels() {
  const rows = [...chosen].filter(row => state.labels[row] >= 0), classes = new Map();
  for (const row of rows) classes.set(className(state.labels[row]), [...(classes.get(className(state.labels[row])) ?? []), row]);
  for (const [name, same] of classes) if (!await save(same, name)) return;
  chosen.clear();
  show();
}

async function takePredictions() {
  said = new Map();
  const run = runs.find(({ id }) => id === filters.run);
  if (!run) return;
  try {
    const reply = await api("predictions", { store: run.store, keys: run.keys }), place = new Map(state.ids.map((id, row) => [id, row]));
    saidNames = reply.class_names;
    reply.ids.forEach((id, i) => { if (place.has(id)) said.set(place.get(id), { said: reply.said[i], right: reply.right[i], confidence: reply.confidence[i] }); });
    announce(`${count(said.size, "validation image")} with predictions of ${run.name}`);
  } catch (error) { fail(error); }
}

function drawTools() {
  tools.replaceChildren(controls(runs, async name => { if (name === "run") { await takePredictions(); drawTools(); } show(); }));
}

async function start() {
  try {
    const caches = await openDataSet(reply => sayEmpty("Images", reply));
    if (!caches) return;
    readFilters();
    const all = await api("runs");
    runs = all.settings.filter(({ here, members }) => here === state.cache && !members);
    await takePredictions();
    drawTools();
    main.replaceChildren(heading(caches), h("section", { class: "card all", "aria-label": "All images" }, tools, h("p", {}, found, " A click opens an image; its box, Shift and a click, or Space choose it. ", h("span", { class: "dashed" }, "Dashed"), ": a label to check."), pictures.element), bulk);
    watch(show);
    show();
    main.dataset.state = "ready";
    takeChecks(await later("checks", { cache: state.cache }));
    show();
    main.dataset.checks = "ready";
  } catch (error) { if (main.dataset.state !== "ready") main.dataset.state = "failed"; fail(error); }
}

start();
