// Which heads predict.
import { average, count, h, middle } from "../shared/dom.js";
import { state } from "./state.js";

const MOST = 6, MARKS = ["a", "b"];
export const mean = ({ values }) => average(values.macro_f1_fg) ?? -1;
const describe = one => `${middle(one.name, 80)} · ${one.here || one.cache} (macro F1 ${(100 * mean(one)).toFixed(1)})`;

/** Return the class of a head's colour. */
export const markOf = number => MARKS[number] ?? "";

/** Return the card; `onChange` is called after a head was added or taken away. */
export function headsCard(onChange) {
  const free = state.settings.filter(one => !state.heads.includes(one)).sort((x, y) => mean(y) - mean(x));
  const pick = h("select", { class: "field", id: "add-head", "aria-label": "Add a head", disabled: state.heads.length >= MOST || !free.length, change: event => {
    const one = state.settings.find(({ id }) => id === event.target.value);
    if (one) { state.heads.push(one); onChange(); }
  } }, h("option", { value: "" }, state.heads.length ? "Add another head to compare…" : "Choose a head…"), free.map(one => h("option", { value: one.id }, describe(one))));
  const chosen = state.heads.map((one, number) => h("li", {}, h("b", { class: markOf(number) }, `${number + 1}`), h("span", { class: "name" }, describe(one)),
    h("small", {}, `trained on ${one.here || one.cache}, the best of ${count(one.seeds.length, "seed")}`),
    h("button", { type: "button", class: "icon", "aria-label": `Take ${one.name} away`, click: () => { state.heads.splice(number, 1); onChange(); } }, "✕")));
  return h("section", { class: "card heads", "aria-labelledby": "heads" }, h("header", {}, h("h2", { id: "heads" }, "Heads"), h("p", {}, "Trained settings of all stores. Several heads on one backbone cost little more than one.")), h("ol", {}, chosen), h("div", { class: "add" }, pick));
}
