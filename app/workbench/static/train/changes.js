// The panel that says how B differs from A, with a way back for each change.
import { announce } from "../shared/bar.js";
import { count, h, renew } from "../shared/dom.js";
import { AUTO, act, changed, copyAToB, differences, form, isAuto, lastAct, shown, swap, undo } from "./form.js";

const SHOWN = 12;
let all = false;

/** Return the panel; `refresh(kind)` is called after an act. */
export function changesPanel(refresh) {
  const panel = h("section", { class: "card changes", "aria-labelledby": "changes-title" });
  const done = what => { refresh("act"); announce(what); };

  function line({ row, a, b }) {
    const back = () => {
      act(`“${row.label}” of B taken back`, () => { form.sides.B[row.key] = a === undefined ? row.default : structuredClone(a); });
      done(`“${row.label}” of B is as on A.`);
    };
    return h("li", { "data-key": row.key },
      h("span", {}, h("b", { title: row.path }, row.label), h("small", {}, `${shown(row, a)} → ${shown(row, b)}`)),
      h("button", { class: "btn small", type: "button", "aria-label": `Undo ${row.label}`, click: back }, "Undo"));
  }

  function title(found) {
    if (isAuto("A")) return "B is compared with what auto chooses";
    return found.length ? `B changes ${count(found.length, "setting")}` : "A and B are equal";
  }

  function note(found) {
    if (isAuto("A")) return "auto cross-validates about 14 simple configurations on the training images, and A is trained with the best. Validation and test images take no part in that.";
    if (!found.length) return "Change a setting of B: then the comparison says what it is worth.";
    return found.length > 1 ? "With one change at a time you know which one made the difference." : "";
  }

  return {
    element: panel,
    show() {
      const found = differences(), rest = found.length - SHOWN;
      const lines = (all ? found : found.slice(0, SHOWN)).map(line);
      const more = rest > 0 ? h("button", { class: "btn small", type: "button", click: () => { all = !all; this.show(); } }, all ? "Show fewer" : `Show ${rest} more`) : [];
      const last = lastAct();
      panel.dataset.n = found.length;
      renew(panel,
        h("header", {}, h("h2", { id: "changes-title" }, title(found)), note(found) ? h("p", {}, h("small", {}, note(found))) : []),
        lines.length ? h("ul", {}, lines) : [], more,
        h("div", { class: "acts" },
          h("button", { class: "btn small", type: "button", disabled: isAuto("A") || !found.length, click: () => { act("A copied to B", copyAToB); done("B is as A now."); } }, "Copy A to B"),
          h("button", { class: "btn small", type: "button", disabled: isAuto("A") || !found.length, click: () => { act("sides swapped", swap); done("A and B are swapped."); } }, "Swap A and B"),
          last ? h("button", { class: "btn small undo", type: "button", title: last, click: () => done(`Taken back: ${undo()}.`) }, `Undo: ${last}`) : []));
    },
  };
}

/** The preset of a side in words: its name and the number of changes. */
export function startedFrom(side) {
  const { length } = changed(side);
  return form.start[side] === AUTO ? "chosen by cross-validation" : length ? `+ ${count(length, "change")}` : "unchanged";
}
