// The chosen images: their classes, their pictures, and what can be done with all of them.
import { count, h, middle } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { inspect } from "../dataset/inspector.js";
import { pickClass } from "../dataset/picker.js";
import { save } from "../dataset/saving.js";
import { className, labelOf, state } from "../dataset/state.js";

const MOST = 300;

/** Return the strip; `choose(rows, title)` shows images in it. */
export function selection(onClear) {
  const element = h("section", { class: "card chosen", "aria-label": "Chosen images", hidden: true });
  let title = "";

  function choose(rows, name) { state.chosen = rows; title = name; show(); }

  function show() {
    const rows = state.chosen;
    element.hidden = !rows.length;
    if (!rows.length) return;
    const sizes = new Map();
    for (const row of rows) sizes.set(state.labels[row], (sizes.get(state.labels[row]) ?? 0) + 1);
    const classes = [...sizes].sort((a, b) => b[1] - a[1]);
    const chips = classes.slice(0, 6).map(([label, size]) => h("span", { class: "chip soft" }, `${middle(className(label), 18)} ${size}`));
    const clear = () => { choose([], ""); onClear(); };
    element.replaceChildren(
      h("header", {}, h("h2", {}, `${title}: ${count(rows.length, "image")}`), ...chips, classes.length > 6 ? h("small", {}, `and ${classes.length - 6} more classes`) : null, h("span", { class: "grow" }),
        h("button", { class: "btn", type: "button", click: () => change(classes.map(([label]) => label)) }, "Change label …"), h("button", { class: "btn", type: "button", click: () => save(state.chosen, "") }, "Leave out"),
        h("button", { class: "icon", type: "button", "aria-label": "Close the chosen images", click: clear }, "✕")),
      h("div", { class: "strip-of-images" }, rows.slice(0, MOST).map(row => h("button", { type: "button", title: `${state.ids[row]}\n${labelOf(row)}`, "aria-label": `${state.ids[row]}: ${labelOf(row)}`, click: () => inspect(row) }, picture(state.cache, state.ids[row])))),
      rows.length > MOST ? h("p", {}, `The first ${MOST} of ${rows.length.toLocaleString("en")}; what you do applies to all of them.`) : "",
    );
  }

  async function change(likely) {
    const rows = state.chosen, name = await pickClass(`Class of ${count(rows.length, "image")}`, likely.filter(label => label >= 0));
    if (name) await save(rows, name);
  }

  return { element, choose, show };
}
