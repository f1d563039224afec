// The tables of the card Decide: figures of A and B before and after, and the classes that change most.
import { h, middle, signed } from "../shared/dom.js";

const share = value => value === null ? "–" : (100 * value).toFixed(1);
const number = value => value === null ? "–" : value.toFixed(3);
const ROWS = [
  ["macro_f1_fg", "Macro F1", share, 1, "An image without an answer is a miss of its class."],
  ["accuracy", "Right of all images, %", share, 1, "An image without an answer is not right."],
  ["coverage", "Answered, %", share, 0, "Images whose answer is probable enough."],
  ["risk", "Wrong of the answered, %", share, -1, "Selective risk: only images with an answer count."],
  ["cost", "Mean cost of an answer", number, -1, "By your costs; confusions that are not named cost 1."],
  ["nll", "Log loss", number, -1, "Of the probabilities of all images, with or without an answer."],
  ["ece", "ECE", number, -1, "Gap between probability and share right, of all images, with or without an answer."],
];

/** Return the table of figures; a figure that gets better or worse says so by its sign and colour. */
export function figureTable({ a, b }) {
  const cells = ({ before, after }, [key, , text, better]) => {
    if (!after) return [h("td", { class: "num" }, text(before[key])), h("td", { class: "num" }, "–")];
    const change = before[key] === null || after[key] === null ? 0 : after[key] - before[key], moved = text(before[key]) !== text(after[key]);
    const kind = !moved || !better ? "" : change * better > 0 ? "good" : "bad";
    return [h("td", { class: "num" }, text(before[key])), h("td", { class: "num" }, h("b", {}, text(after[key])), moved ? h("small", { class: kind }, ` ${text === share ? signed(100 * change, 1) : signed(change, 3)}`) : null)];
  };
  const heads = ["a", "b"].map(side => [h("th", { class: `num ${side}`, scope: "col" }, `${side.toUpperCase()} as it is`), h("th", { class: `num ${side}`, scope: "col" }, `${side.toUpperCase()} decided`)]).flat();
  return h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Figures before and after" }, h("table", { class: "figures" }, h("thead", {}, h("tr", {}, h("td"), heads)),
    h("tbody", {}, ROWS.map(row => h("tr", { "data-figure": row[0], title: row[4] }, h("th", { scope: "row" }, row[1]), cells(a, row), cells(b, row))))),
    Object.entries({ a, b }).filter(([, { refused }]) => refused).map(([side, { refused }]) => h("p", { class: "refused" }, h("b", { class: side }, side.toUpperCase()), ` ${refused}`)));
}

/** Return, for each side, the classes whose F1 changes most. */
export function classTables(sides) {
  const tables = ["a", "b"].filter(side => sides[side].classes.length).map(side => h("div", {}, h("h3", {}, "Classes that change most: ", h("b", { class: side }, side.toUpperCase())),
    h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": `Classes of ${side.toUpperCase()} that change most` }, h("table", { class: "changed", "data-side": side },
      h("thead", {}, h("tr", {}, ["Class", "Images", "F1", "decided", "Answered, %", "Wrong of these, %"].map((title, i) => h("th", { scope: "col", class: i ? "num" : "" }, title)))),
      h("tbody", {}, sides[side].classes.map(one => h("tr", {}, h("th", { scope: "row", title: one.name }, middle(one.name, 24)), h("td", { class: "num" }, one.images), h("td", { class: "num" }, share(one.f1_before)), h("td", { class: "num" }, h("b", {}, share(one.f1_after)), h("small", { class: one.f1_after > one.f1_before ? "good" : "bad" }, ` ${signed(100 * (one.f1_after - one.f1_before), 1)}`)), h("td", { class: "num" }, share(one.coverage)), h("td", { class: "num" }, share(one.risk)))))))));
  return h("div", { class: "two" }, tables);
}
