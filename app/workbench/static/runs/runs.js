// The tab Runs: what makes a difference, and every setting of every store.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, renew } from "../shared/dom.js";
import { change, load, pin } from "./acts.js";
import { details } from "./details.js";
import * as effects from "./effects.js";
import { notice } from "./notice.js";
import { settingsTable } from "./rows.js";
import { METRICS, arrange, chosen, open, pinned, read, remember, short, state, take, value } from "./state.js";
import * as steps from "./steps.js";
import { showTools, tools } from "./tools.js";
import { refresh, remove } from "./trash.js";

const main = document.querySelector("#main");
const head = h("div", { class: "head" }), runs = h("section", { class: "card runs", "aria-label": "All settings" });
const damage = h("details", { class: "problems", hidden: true });
const bulk = h("div", { class: "bulk", role: "toolbar", "aria-label": "Chosen settings", hidden: true });

const table = settingsTable({
  show, sort,
  choose(row, on) { if (on) state.chosen.add(row.id); else state.chosen.delete(row.id); remember(); show(); showBulk(); },
  async star(row) { if (await change([row], { star: !row.star }, `${row.name}: ${row.star ? "no star" : "starred"}.`)) show(); },
  edit: row => table.edit(row),
  stop: row => table.close(row),
  async rename(row, name) { if (await change([row], { name }, `Named ${name || row.described}.`)) { table.close(row); renamed(); } },
  async pin(row, side) { await pin(row, side); remember(); show(); showHead(); if (side === "a") compare(); else steps.propose(); },
  open: row => details(row, { after: renamed, remove }),
});

/** Compare with the pinned setting; what to do next is asked after that, since it needs the same resamples. */
function compare() { effects.compare(steps.propose); }

function renamed() { show(); showBulk(); compare(); }

function sort(key) {
  state.down = state.sort === key ? !state.down : key === "star" || (key !== "name" && (METRICS[key]?.up ?? false));
  state.sort = key;
  show();
}

function show() {
  arrange();
  table.element.style.setProperty("--rows", Math.max(1, state.shown.length));
  table.show(state.shown, { key: state.sort, down: state.down });
  showTools(show);
}

function showBulk() {
  const rows = chosen(), size = rows.length;
  bulk.hidden = !size;
  if (!size) { bulk.replaceChildren(); return; }
  const button = (text, click, label = text) => h("button", { class: "btn", type: "button", "aria-label": label, click }, text);
  const tag = h("input", { class: "field", "aria-label": "Tag for the chosen settings", placeholder: "Tag", maxlength: "40", list: "tags-of-all", keydown: event => { if (event.key === "Enter") addTag(tag.value); } });
  const known = h("datalist", { id: "tags-of-all" }, [...new Set(state.own.flatMap(row => row.tags))].map(one => h("option", { value: one })));
  renew(bulk, h("span", {}, h("b", {}, size), " chosen"), button("Compare these", () => compare()),
    ...(size === 2 ? [sideBySide(rows)] : []), tag, known, button("Add tag", () => addTag(tag.value)),
    ...(size <= 2 ? [button("Load into Train", () => load(sidesOf(rows)))] : []),
    button("Delete …", () => remove(rows), `Move ${count(size, "chosen setting")} to the trash`),
    button("Clear", () => { state.chosen.clear(); state.only = false; remember(); show(); showBulk(); compare(); }));
}

async function addTag(text) {
  const tags = text.split(",").map(one => one.trim()).filter(Boolean);
  if (!tags.length) { announce("Enter a tag first."); bulk.querySelector("input").focus(); return; }
  if (await change(chosen(), { add_tags: tags }, `${count(state.chosen.size, "setting")} tagged ${tags.join(", ")}.`)) { show(); showBulk(); }
}

/** The pinned one of two settings, or the worse one, is A; a single one is B beside the pinned A. */
function ordered(rows) {
  return [...rows].sort((x, y) => (y.id === state.pinned.a) - (x.id === state.pinned.a) || value(x, "macro_f1_fg") - value(y, "macro_f1_fg"));
}
function sidesOf(rows) {
  if (rows.length === 2) return Object.fromEntries(ordered(rows).map((row, i) => ["ab"[i], row.id]));
  const [{ id }] = rows;
  return id === state.pinned.a ? { a: id } : { a: state.pinned.a, b: id };
}

const compareAddress = (a, b) => `/compare?${new URLSearchParams({ store: a.store, a: a.id, b: b.id })}`;
const sideBySide = rows => h("a", { class: "btn", href: compareAddress(...ordered(rows)) }, "Side by side");

function showHead() {
  const choice = h("select", { class: "field", "aria-label": "Data", change: event => { open(event.target.value); compare(); remember(); show(); showBulk(); showHead(); } },
    state.groups.map(({ key, cache, store, rows }) => h("option", { value: key }, `${short(cache)} in ${short(store)}: ${count(rows.length, "setting")}`)));
  choice.value = state.data;
  const [a, b] = ["a", "b"].map(pinned);
  renew(head, h("h1", {}, "Runs"), choice, h("span", { class: "grow" }), ...(a && b ? [h("a", { class: "btn", href: compareAddress(a, b) }, "Compare A and B")] : []), h("a", { class: "btn primary", href: "/train" }, "New run"));
}

/** Name what could not be read; later errors do not take its place. */
function showDamage(problems) {
  damage.hidden = !problems.length;
  damage.open = problems.length <= 3;
  damage.replaceChildren(h("summary", {}, `${count(problems.length, "file")} could not be read`), h("ul", {}, problems.map(problem => h("li", {}, problem))));
}

async function reload() {
  const reply = await api("runs");
  take(reply);
  showDamage(reply.problems);
  layout();
}

function layout() {
  showHead();
  if (!state.groups.length) {
    const empty = h("section", { class: "card empty" }, h("p", {}, `No runs yet in ${state.stores.join(", ")}. Train some here, or on the command line:`), h("pre", {}, "frostbench bench run factorial --cache CACHE"));
    main.replaceChildren(head, damage, notice, empty);
    return;
  }
  if (!runs.isConnected) {
    runs.replaceChildren(tools(show), table.element);
    main.replaceChildren(head, damage, notice, h("div", { class: "upper" }, effects.element, steps.element), runs, bulk);
  }
  compare();
  show();
  showBulk();
}

async function start() {
  read(new URLSearchParams(location.search));
  try {
    await reload();
    main.dataset.state = "ready";
    await refresh(reload);
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

start();
