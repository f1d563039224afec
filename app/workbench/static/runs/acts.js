// What can be done with settings: mark, pin, load into Train, save as CSV.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { tell } from "./notice.js";
import { group, mark, state } from "./state.js";

/** Change names, tags, stars or notes of settings of the store; returns whether it worked. */
export async function change(rows, what, said) {
  try {
    const { marks, problem } = await api("runs-mark", { store: rows[0].store, ids: rows.map(row => row.id), change: what });
    mark(marks);
    if (problem) fail(new Error(problem));
    announce(said);
    return true;
  } catch (error) { fail(error); return false; }
}

/** Pin a setting as A or B for everybody who uses the store, or take the pin away. */
export async function pin(row, side) {
  const { store, data } = group(), other = side === "a" ? "b" : "a", id = state.pinned[side] === row.id ? "" : row.id;
  if (state.pinned[other] === row.id) state.pinned[other] = "";
  state.pinned[side] = id;
  announce(id ? `${row.name} is pinned as ${side.toUpperCase()}.` : `No setting is pinned as ${side.toUpperCase()}.`);
  try {
    const { pins, problem } = await api("runs-pin", { store, data, side, id });
    state.pins[store] = pins;
    if (problem) fail(new Error(problem));
  } catch (error) { fail(error); }
}

/** Open the tab Train with settings as its sides; `set` is what its address states beyond them. */
export async function load(sides, set = {}) {
  try {
    const reply = await api("runs-load", { store: group().store, ...sides }), { notes } = reply;
    const query = new URLSearchParams(reply.address.split("?")[1]);
    for (const [name, text] of Object.entries(set)) query.set(name, text);
    const address = `/train?${query}`;
    if (notes.length) tell(notes.join(" "), h("a", { class: "btn", href: address }, "Open Train anyway"));
    else location.href = address;
  } catch (error) { fail(error); }
}

/** Save the settings that are shown, in their order. */
export async function saveCsv() {
  try {
    const { text } = await api("runs-csv", { store: group().store, ids: state.shown.map(row => row.id) });
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    Object.assign(document.createElement("a"), { href: url, download: "settings.csv" }).click();
    setTimeout(() => URL.revokeObjectURL(url));
    announce(`${count(state.shown.length, "setting")} saved as settings.csv.`);
  } catch (error) { fail(error); }
}
