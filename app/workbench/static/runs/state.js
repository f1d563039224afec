// The list of settings on the page: what is known, shown, chosen and pinned, and the address that states it.
import { average } from "../shared/dom.js";

export const METRICS = {
  macro_f1_fg: { title: "Macro F1", up: true, scale: 100, digits: 1 },
  weighted_f1_fg: { title: "Weighted F1", up: true, scale: 100, digits: 1 },
  accuracy: { title: "Accuracy", up: true, scale: 100, digits: 1 },
  recall_few: { title: "Rare classes", up: true, scale: 100, digits: 1 },
  ece: { title: "Calibration error", up: false, scale: 100, digits: 1 },
  nll: { title: "Log loss", up: false, scale: 1, digits: 3 },
};
export const state = { all: [], groups: [], own: [], shown: [], data: "", pinned: { a: "", b: "" }, pins: {}, stores: [], sort: "macro_f1_fg", down: true, query: "", tags: new Set(), starred: false, only: false, metric: "macro_f1_fg", chosen: new Set(), differences: null };

const keyOf = row => `${row.data} ${row.store}`;

/** Take the answer of the server. */
export function take({ settings, pins, stores }) {
  const found = new Map();
  for (const row of settings) {
    const key = keyOf(row);
    if (!found.has(key)) found.set(key, { key, data: row.data, cache: row.cache, here: row.here, store: row.store, rows: [] });
    found.get(key).rows.push(row);
  }
  Object.assign(state, { all: settings, pins, stores, groups: [...found.values()].sort((a, b) => b.rows.length - a.rows.length) });
  open(state.data);
}

/** Show the settings of some data in a store, or of those with the most settings. */
export function open(key) {
  const group = state.groups.find(one => one.key === key) ?? state.groups[0];
  state.data = group?.key ?? "";
  state.own = group?.rows ?? [];
  const ids = new Set(state.own.map(row => row.id)), pins = state.pins[group?.store]?.[group?.data] ?? {};
  for (const side of ["a", "b"]) if (!ids.has(state.pinned[side])) state.pinned[side] = ids.has(pins[side]) ? pins[side] : "";
  for (const id of state.chosen) if (!ids.has(id)) state.chosen.delete(id);
  const means = state.own.flatMap(row => row.values.macro_f1_fg ?? []).filter(v => v !== null);
  state.range = means.reduce(([low, high], v) => [Math.min(low, v), Math.max(high, v)], [Infinity, -Infinity]);
}

export const group = () => state.groups.find(one => one.key === state.data);
export const find = id => state.own.find(row => row.id === id);
export const pinned = side => find(state.pinned[side]);
export const chosen = () => state.own.filter(row => state.chosen.has(row.id));
export const value = (row, key) => key === "name" ? row.name.toLowerCase() : key === "seconds" ? row.seconds : key === "star" ? Number(row.star) : average(row.values[key]);
export const short = path => path.split("/").filter(Boolean).slice(-2).join("/");

/** The words by which a row is found, made once. */
function text(row) {
  return row.text ??= `${row.name} ${row.described} ${row.preset} ${row.tags.join(" ")} ${row.note} ${row.changes.map(c => `${c.title} ${c.path} ${c.new}`).join(" ")}`.toLowerCase();
}

/** Filter and sort; rows without a value come last. */
export function arrange() {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean), tags = [...state.tags], sign = state.down ? -1 : 1;
  const fits = row => words.every(word => text(row).includes(word)) && tags.every(tag => row.tags.includes(tag)) && (!state.starred || row.star) && (!state.only || !state.chosen.size || state.chosen.has(row.id));
  const keyed = state.own.filter(fits).map(row => ({ row, v: value(row, state.sort) }));
  keyed.sort(({ v: x }, { v: y }) => x === null || y === null ? (x === null) - (y === null) : sign * (x > y ? 1 : x < y ? -1 : 0));
  state.shown = keyed.map(({ row }) => row);
}

/** Take new marks of settings: name, tags, star and note. */
export function mark(marks) {
  for (const [id, given] of Object.entries(marks)) {
    const row = find(id);
    Object.assign(row, given, { name: given.given || row.described, text: undefined });
  }
  const tags = new Set(state.own.flatMap(row => row.tags));
  for (const tag of state.tags) if (!tags.has(tag)) state.tags.delete(tag);
}

export function read(parameters) {
  state.data = parameters.get("data") ?? "";
  state.query = parameters.get("q") ?? "";
  state.pinned = { a: parameters.get("pinned") ?? "", b: "" };
  state.tags = new Set(parameters.getAll("tag"));
  state.starred = parameters.has("star");
  state.chosen = new Set((parameters.get("chosen") ?? "").split(".").filter(Boolean));
  state.only = parameters.has("only");
  if (METRICS[parameters.get("metric")]) state.metric = parameters.get("metric");
}

export function remember() {
  const parameters = new URLSearchParams();
  const said = { data: state.data, q: state.query, pinned: state.pinned.a, metric: state.metric, star: state.starred ? "1" : "", chosen: [...state.chosen].join("."), only: state.only && state.chosen.size ? "1" : "" };
  for (const [name, text] of Object.entries(said)) if (text) parameters.set(name, text);
  for (const tag of state.tags) parameters.append("tag", tag);
  history.replaceState(null, "", `?${parameters}`);
}
