// Which confusions became more or less frequent from A to B; pressing one shows its images.
import { h, middle, signed } from "../shared/dom.js";
import { className, state } from "./state.js";

const MOST = 14;

/** Return the card; `onCell` is called with { label, said } or null. */
export function confusionCard(onCell) {
  const cells = state.found.cells.filter(([label, said]) => label !== said), shown = cells.slice(0, MOST);
  const largest = Math.max(...shown.map(([, , rows]) => Math.abs(rows)), 1e-9), many = state.found.seeds.length > 1;
  const pressed = ([label, said]) => state.cell?.label === label && state.cell?.said === said;
  const line = cell => {
    const [label, said, rows] = cell;
    return h("button", { type: "button", class: "cell", "aria-pressed": String(pressed(cell)), title: `${className(label)} called ${className(said)}`, click: () => onCell(pressed(cell) ? null : { label, said }) },
      h("span", { class: "names" }, h("b", {}, middle(className(label), 20)), " called ", h("b", {}, middle(className(said), 20))),
      h("span", { class: "track" }, h("i", { class: rows > 0 ? "more" : "less", style: `width:${50 * Math.abs(rows) / largest}%` })),
      h("span", { class: "num" }, signed(rows, many ? 1 : 0)));
  };
  const note = cells.length + state.found.more_cells > MOST ? `The ${MOST} largest of ${cells.length + state.found.more_cells} changes.` : "";
  return h("section", { class: "card confusions", "aria-labelledby": "confusions" }, h("header", {}, h("h2", { id: "confusions" }, "Confusions that changed"), h("small", {}, `images, B minus A${many ? ", mean over seeds" : ""}`)),
    shown.length ? h("div", { class: "cells" }, shown.map(line)) : h("p", {}, "A and B confuse the same classes equally often."), h("p", {}, note));
}
