// The table of settings: its columns and cells.
import { average, count, h, s } from "../shared/dom.js";
import { virtualTable } from "../shared/table.js";
import { METRICS, state } from "./state.js";

const HEIGHT = 40;
let editing = null;

/** Return the table; `act` has what its controls do: choose, star, rename, pin, open. */
export function settingsTable(act) {
  const table = virtualTable({
    label: "Settings", height: HEIGHT, onSort: act.sort,
    attributes: row => ({ "data-id": row.id, "data-chosen": state.chosen.has(row.id) }),
    columns: [
      { key: "choose", title: "", says: "Choose", cell: row => h("input", { type: "checkbox", "aria-label": `Choose ${row.name}`, checked: state.chosen.has(row.id), change: event => act.choose(row, event.target.checked) }) },
      { key: "star", title: "★", sort: true, cell: row => h("button", { class: "icon star", type: "button", "aria-pressed": String(row.star), "aria-label": `Star ${row.name}`, click: () => act.star(row) }, row.star ? "★" : "☆") },
      { key: "pin", title: "", says: "Pin as A or B, and more", cell: row => h("span", { class: "pins" }, pin(row, "a", act), pin(row, "b", act), h("button", { class: "icon", type: "button", "aria-label": `More about ${row.name}`, click: () => act.open(row) }, "⋯")) },
      { key: "name", title: "Setting", sort: true, cell: row => editing?.id === row.id ? editor(row, act) : name(row, act) },
      { key: "macro_f1_fg", title: "Macro F1", numeric: true, sort: true, cell: strip },
      ...Object.entries(METRICS).slice(1).map(([key, { title }]) => ({ key, title, numeric: true, sort: true, cell: row => figure(row, key) })),
      { key: "seconds", title: "Seconds", numeric: true, sort: true, cell: row => row.seconds.toFixed(1) },
    ],
  });
  const focus = (row, what) => table.element.querySelector(`tr[data-id="${row.id}"] ${what}`)?.focus({ preventScroll: true });
  return {
    ...table,
    /** Turn the name of a row into a field. */
    edit(row) { editing = { id: row.id, draft: row.name }; act.show(); focus(row, ".rename"); table.element.querySelector(".rename")?.select(); },
    /** Show the name again. */
    close(row) { editing = null; act.show(); focus(row, ".name"); },
  };
}

function name(row, act) {
  const all = row.changes.map(change => `${change.title}: ${change.old || "–"} → ${change.new || "–"}`).join("\n");
  return h("span", { class: "named" },
    h("button", { class: "link name", type: "button", title: `${row.given ? `${row.described}\n` : ""}${row.preset}\n${all}${row.note ? `\n\n${row.note}` : ""}`, "aria-label": `Rename ${row.name}`, "aria-description": count(row.seeds.length, "seed"), click: () => act.edit(row) }, row.name),
    h("small", {}, count(row.seeds.length, "seed")), row.members ? h("span", { class: "chip soft" }, `ensemble of ${row.members}`) : null,
    row.tags.map(tag => h("span", { class: "chip tag" }, tag)), row.note ? h("span", { class: "noted", title: row.note, role: "img", "aria-label": "has a note" }, "✎") : null);
}

// Enter keeps the name, Escape does not; an empty name is the one made of the options.
function editor(row, act) {
  return h("input", { class: "field rename", "aria-label": `New name of ${row.described}; empty for this description`, value: editing.draft, maxlength: "120",
    input: event => { editing.draft = event.target.value; },
    keydown: event => {
      if (event.key === "Enter") act.rename(row, editing.draft === row.described ? "" : editing.draft);
      else if (event.key === "Escape") act.stop(row);
    } });
}

export function figure(row, key) {
  const { scale, digits } = METRICS[key], found = average(row.values[key]);
  return found === null ? "–" : (found * scale).toFixed(digits);
}

// A dot for each seed and a line for their mean.
function strip(row) {
  const values = (row.values.macro_f1_fg ?? []).filter(v => v !== null), [low, high] = state.range;
  const x = v => 4 + 88 * (v - low) / Math.max(high - low, 1e-9);
  const dots = values.map(v => s("circle", { cx: x(v), cy: 10, r: 2.6, fill: "var(--edge)" }));
  const middle = values.length ? [s("line", { x1: x(average(values)), x2: x(average(values)), y1: 3, y2: 17, stroke: "var(--accent)", "stroke-width": 2.5 })] : [];
  return h("span", { class: "strip" }, s("svg", { viewBox: "0 0 96 20", "aria-hidden": "true" }, s("line", { x1: 0, x2: 96, y1: 10, y2: 10, stroke: "var(--line)" }), dots, middle), figure(row, "macro_f1_fg"));
}

function pin(row, side, act) {
  const is = state.pinned[side] === row.id, letter = side.toUpperCase();
  const says = side === "a" ? `Pin as A: compare all with ${row.name}` : `Pin as B: ${row.name}`;
  return h("button", { class: `pin ${side}`, type: "button", "aria-pressed": String(is), "aria-label": says, title: side === "a" ? "A: what all others are compared with" : "B: what Compare shows beside A", click: () => act.pin(row, side) }, letter);
}
