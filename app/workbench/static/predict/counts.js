// How many images of each class there are.
import { h, middle } from "../shared/dom.js";
import { markOf } from "./heads.js";
import { className, state } from "./state.js";

const Z = 1.96;

/** Return the card: images per class by the heads' answers, and by the sums of their probabilities. */
export function countsCard() {
  const { found } = state;
  if (!found?.heads.length) return null;
  const names = [...new Set(found.facts.flatMap(({ classes }) => classes))], many = found.heads.length > 1;
  const lines = names.map(name => ({ name, cells: found.heads.map((head, at) => cell(head, at, name)) })).filter(({ cells }) => cells.some(one => one && (one.said || one.expected >= 0.5)));
  lines.sort((x, y) => Math.max(...y.cells.map(one => one?.said ?? 0)) - Math.max(...x.cells.map(one => one?.said ?? 0)));
  const heading = (at, text) => h("th", { scope: "col", class: "num" }, many ? h("b", { class: markOf(at) }, `${at + 1} `) : "", text);
  return h("section", { class: "card counts", "aria-labelledby": "counts" }, h("header", {}, h("h2", { id: "counts" }, "Images per class"), h("p", {}, "Answered counts each image once. Expected adds up the probabilities; its 95 % interval assumes that the probabilities are right and the classes are as frequent as in training.")),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Images per class" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Class"), found.heads.flatMap((_, at) => [heading(at, "answered"), heading(at, "expected")]))),
      h("tbody", {}, lines.map(({ name, cells }) => h("tr", {}, h("th", { scope: "row", title: name }, middle(name, 32)), cells.flatMap(one => (one ? [h("td", { class: "num" }, one.said.toLocaleString("en")), h("td", { class: "num" }, `${one.expected.toFixed(1)} [${one.low.toFixed(1)}, ${one.high.toFixed(1)}]`)] : [h("td", { class: "num" }, "–"), h("td", { class: "num" }, "–")]))))))));
}

function cell(head, at, name) {
  const index = state.found.facts[at].classes.indexOf(name);
  if (index < 0) return null;
  const said = head.classes.filter(one => className(at, one) === name).length, expected = head.shares[index], half = Z * Math.sqrt(head.variances[index]);
  return { said, expected, low: Math.max(0, expected - half), high: Math.min(head.classes.length, expected + half) };
}
