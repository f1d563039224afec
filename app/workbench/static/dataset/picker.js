// A dialog to choose a class: by search, with the likely ones first, or a new one.
import { h } from "../shared/dom.js";
import { swatch } from "./swatch.js";
import { state } from "./state.js";

const MOST = 200;

/** Ask for a class; resolves to its name, or null if the dialog was closed. `likely` are class numbers to show first. */
export function pickClass(title, likely = []) {
  return new Promise(resolve => {
    let answer = null;
    const list = h("ul", { class: "picks" });
    const input = h("input", { class: "field", type: "search", placeholder: "Find a class, or name a new one", "aria-label": "Find a class, or name a new one", input: show, keydown: event => {
      if (event.key === "Enter") { event.preventDefault(); list.querySelector("button")?.click(); }
      if (event.key === "ArrowDown") { event.preventDefault(); list.querySelector("button")?.focus(); }
    } });
    const dialog = h("dialog", { class: "picker", "aria-label": title, close: () => { dialog.remove(); resolve(answer); }, keydown: event => {
      event.stopPropagation();
      if (event.key === "ArrowDown" || event.key === "ArrowUp") step(event);
    } }, h("header", {}, h("h2", {}, title), h("span", { class: "grow" }), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")), input, list);

    function take(name) { answer = name; dialog.close(); }

    function show() {
      const words = input.value.trim(), lower = words.toLowerCase();
      const order = [...new Set([...likely, ...state.names.keys()])].filter(number => state.names[number].toLowerCase().includes(lower));
      const option = (content, name) => h("li", {}, h("button", { type: "button", click: () => take(name) }, content));
      const known = order.slice(0, MOST).map(number => option([swatch(number), state.names[number]], state.names[number]));
      const isNew = words && !state.names.includes(words);
      list.replaceChildren(...known, ...(isNew ? [option(`New class: ${words}`, words)] : []), ...(order.length > MOST ? [h("li", {}, `${order.length - MOST} more: type to find them`)] : []));
    }

    function step(event) {
      const buttons = [...list.querySelectorAll("button")], at = buttons.indexOf(document.activeElement);
      if (at < 0) return;
      event.preventDefault();
      const next = buttons[at + (event.key === "ArrowDown" ? 1 : -1)];
      (next ?? input).focus();
    }

    document.body.append(dialog);
    show();
    dialog.showModal();
    input.focus();
  });
}
