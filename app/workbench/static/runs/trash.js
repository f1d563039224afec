// Deleting in two steps: into the trash of the store, with undo; and from there for good.
import { api } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { tell } from "./notice.js";
import { short } from "./state.js";

export const button = h("button", { class: "btn", type: "button", hidden: true, click: show });
let stores = [], changed = () => {};

const size = bytes => bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
const total = () => stores.flatMap(one => one.batches).reduce((sum, batch) => sum + batch.keys.length, 0);

/** Ask what is in the trash; `after` is called whenever runs come back. */
export async function refresh(after = changed) {
  changed = after;
  try {
    ({ stores } = await api("runs-trash"));
    button.hidden = !total();
    button.textContent = `Trash: ${count(total(), "run")}`;
  } catch (error) { fail(error); }
}

/** Move all runs of settings of one store to the trash. */
export async function remove(rows) {
  const [{ store }] = rows;
  try {
    const { batch, runs } = await api("runs-delete", { store, ids: rows.map(row => row.id) });
    await changed();
    tell(`${rows.length === 1 ? rows[0].name : count(rows.length, "setting")} moved to the trash: ${count(runs, "run")}.`, h("button", { class: "btn", type: "button", click: () => restore(store, batch) }, "Undo"));
    await refresh();
  } catch (error) { fail(error); }
}

async function restore(store, batch) {
  try {
    const { runs, taken } = await api("runs-restore", { store, batch });
    await changed();
    tell(`${count(runs, "run")} put back.${taken.length ? ` ${count(taken.length, "run")} stayed in the trash, because the store has ${taken.length === 1 ? "it" : "them"} again.` : ""}`);
    await refresh();
  } catch (error) { fail(error); }
}

async function empty(dialog) {
  try {
    let runs = 0;
    const left = [];
    for (const { store, batches } of stores) {
      const reply = await api("runs-empty", { store, batches: batches.map(({ id }) => id) });
      runs += reply.runs;
      left.push(...reply.left);
    }
    dialog.close();
    tell(`${count(runs, "run")} deleted.`);
    if (left.length) fail(new Error(left.join(" ")));
    await refresh();
  } catch (error) { fail(error); }
}

function show() {
  const bytes = stores.flatMap(one => one.batches).reduce((sum, batch) => sum + batch.bytes, 0);
  const lines = stores.flatMap(({ store, batches }) => batches.map(batch => h("tr", {},
    h("td", {}, new Date(batch.deleted).toLocaleString()), h("td", {}, short(store)), h("td", { class: "num" }, count(batch.keys.length, "run")), h("td", { class: "num" }, size(batch.bytes)),
    h("td", {}, h("button", { class: "btn", type: "button", click: () => { dialog.close(); restore(store, batch.id); } }, "Put back")))));
  const dialog = h("dialog", { class: "details", "aria-labelledby": "trash-title", close: () => dialog.remove() },
    h("header", {}, h("h2", { id: "trash-title" }, "Trash"), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, ["Deleted", "Store", "Runs", "Size", ""].map(title => h("th", { scope: "col" }, title)))), h("tbody", {}, lines))),
    h("p", {}, "Runs in the trash are not listed and not found again when the same settings are trained."),
    h("div", { class: "acts" }, h("button", { class: "btn danger", type: "button", click: () => empty(dialog) }, `Delete ${count(total(), "run")} for good (${size(bytes)})`)));
  document.body.append(dialog);
  dialog.showModal();
}
