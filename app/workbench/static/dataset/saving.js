// Corrections of labels: saved one by one, taken back in reverse order, followed by a new ranking of what is left to check.
import { api, later } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count } from "../shared/dom.js";
import { changed, className, state, takeChecks, takeLabels } from "./state.js";

const done = [];
let ranking = 0;

/** Save the class of images: a name, or "" to leave them out. Returns whether it worked. */
export async function save(rows, name, { undoing = false } = {}) {
  const before = rows.map(row => [row, state.labels[row]]);
  try {
    takeLabels(await api("correct", { cache: state.cache, who: state.who, changes: Object.fromEntries(rows.map(row => [state.ids[row], name])) }));
  } catch (error) { fail(error); return false; }
  if (!undoing) done.push(before);
  announce(`${count(rows.length, "image")}: ${name === "" ? "left out" : name}`);
  changed();
  rank();
  return true;
}

/** Whether there is something to take back. */
export const canUndo = () => done.length > 0;

/** Give the images of the last correction their earlier labels; returns them. */
export async function undo() {
  const before = done.pop();
  if (!before) return [];
  const classes = new Map();
  for (const [row, label] of before) classes.set(label, [...(classes.get(label) ?? []), row]);
  for (const [label, rows] of classes) await save(rows, label < 0 ? "" : className(label), { undoing: true });
  for (const [row] of before) state.checked.delete(row);
  changed();
  return before.map(([row]) => row);
}

async function rank() {
  const mine = ++ranking;
  try {
    const reply = await later("checks", { cache: state.cache });
    if (mine !== ranking) return;
    takeChecks(reply);
    changed();
  } catch (error) { fail(error); }
}
