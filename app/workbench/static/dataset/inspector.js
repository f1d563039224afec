// One image large: its label, what others say, its near-copy, its nearest images, and a way to correct the label.
import { h, renew } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { swatch } from "./swatch.js";
import { nearest } from "./nearest.js";
import { pickClass } from "./picker.js";
import { save } from "./saving.js";
import { NO_LABEL, className, labelOf, roleOf, state } from "./state.js";

/** Show an image in a dialog. */
export function inspect(row) {
  const facts = h("div", { class: "ask" });
  const dialog = h("dialog", { class: "inspector", "aria-label": state.ids[row], close: () => dialog.remove() },
    h("header", {}, h("h2", {}, state.ids[row]), h("span", { class: "grow" }), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    h("div", { class: "queue" }, h("div", { class: "large" }, picture(state.cache, state.ids[row], { size: 320 })), facts, nearest(row)));

  function show() {
    const found = state.suspects.get(row), copy = state.copies.get(row);
    const first = state.first[row];
    renew(facts,
      state.labels[row] === NO_LABEL ? h("p", {}, "This image has no label.") : h("p", {}, "Labelled ", swatch(state.labels[row]), h("b", {}, labelOf(row)), first === undefined ? "" : ` (in the cache: ${className(first)})`, `, ${roleOf(row)}.`),
      found ? h("p", {}, `The other images give this label ${Math.round(100 * found.confidence)} %. They say `, h("b", {}, className(found.suggested)), ".") : "",
      copy ? h("p", {}, `${state.ids[copy.train]} in training is a near-copy (cosine ${copy.cosine}).`) : "",
      h("div", { class: "acts" },
        h("button", { class: "btn", type: "button", click: other }, "Change label …"),
        h("button", { class: "btn", type: "button", click: async () => { await save([row], ""); show(); } }, "Leave out")),
    );
  }

  async function other() {
    const name = await pickClass(`Class of ${state.ids[row]}`, found(row));
    if (name) { await save([row], name); show(); }
  }

  document.body.append(dialog);
  show();
  dialog.showModal();
}

function found(row) { return [state.suspects.get(row)?.suggested, state.labels[row]].filter(label => label !== undefined && label >= 0); }
