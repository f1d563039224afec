// Above the table: search, stars and tags as filters, CSV and trash.
import { h, renew } from "../shared/dom.js";
import { saveCsv } from "./acts.js";
import { remember, state } from "./state.js";
import { button as trash } from "./trash.js";

const tags = h("span", { class: "tags", role: "group", "aria-label": "Only settings with" });
const found = h("small", { class: "found", role: "status" });

/** Return the tools; `changed` is called when the filter has changed. */
export function tools(changed) {
  const search = h("input", { class: "field", type: "search", placeholder: "Find: arcface, smoothing 0.1 …", "aria-label": "Find settings", value: state.query, input: event => { state.query = event.target.value; remember(); changed(); } });
  return h("div", { class: "tools" }, search, tags, found, h("span", { class: "grow" }), trash, h("button", { class: "btn", type: "button", title: "The settings below, in this order", click: saveCsv }, "CSV"));
}

/** Show how many settings fit, and the filters there are. */
export function showTools(changed) {
  found.textContent = `${state.shown.length.toLocaleString("en")} ${state.shown.length === 1 ? "setting" : "settings"} of ${state.own.length.toLocaleString("en")}`;
  const all = [...new Set(state.own.flatMap(row => row.tags))].sort((a, b) => a.localeCompare(b));
  const chip = (text, on, turn) => h("button", { class: "chip filter", type: "button", "aria-pressed": String(on), click: () => { turn(); remember(); changed(); } }, text);
  renew(tags, ...(state.chosen.size ? [chip("only the chosen", state.only, () => { state.only = !state.only; })] : []), ...(state.starred || state.own.some(row => row.star) ? [chip("★ starred", state.starred, () => { state.starred = !state.starred; })] : []),
    ...all.map(tag => chip(tag, state.tags.has(tag), () => { if (!state.tags.delete(tag)) state.tags.add(tag); })));
}
