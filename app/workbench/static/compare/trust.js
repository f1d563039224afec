// What the probabilities are worth: reliability of A and B, and how many answers remain above a threshold.
import { h, s } from "../shared/dom.js";
import { state } from "./state.js";

/** Return the card. */
export function trustCard() {
  return h("section", { class: "card trust", "aria-labelledby": "trust" }, h("header", {}, h("h2", { id: "trust" }, "What the probabilities are worth")), h("div", { class: "two" }, reliability(), abstention()));
}

function reliability() {
  const x = v => 10 + 180 * v, y = v => 190 - 180 * v;
  const curve = side => {
    const { rows, confidence, accuracy } = state.found.sides[side].bins, colour = `var(--${side})`, most = Math.max(...rows);
    const points = confidence.map((c, i) => `${x(c)},${y(accuracy[i])}`).join(" ");
    return [s("polyline", { points, fill: "none", stroke: colour, "stroke-width": 2, "stroke-dasharray": side === "a" ? "none" : "6 3" }), ...confidence.map((c, i) => s("circle", { cx: x(c), cy: y(accuracy[i]), r: 2 + 4 * Math.sqrt(rows[i] / most), fill: colour }))];
  };
  return h("div", {}, s("svg", { class: "curve", viewBox: "0 0 200 200", role: "img", "aria-label": `Reliability. ${worth("a")} ${worth("b")}` }, s("rect", { x: 10, y: 10, width: 180, height: 180, fill: "none", stroke: "var(--line)" }), s("line", { x1: 10, y1: 190, x2: 190, y2: 10, stroke: "var(--edge)", "stroke-dasharray": "3 3" }), curve("a"), curve("b")),
    h("p", {}, worth("a")), h("p", {}, worth("b")), h("small", {}, "Across: probability; up: share that is right, all seeds together. On the line, 80 % means 80 %. A is drawn through, B dashed."));
}

/** Return the largest miscalibration in words: the bin whose gap times its images is largest. */
function worth(side) {
  const { rows, confidence, accuracy } = state.found.sides[side].bins;
  if (!rows.length) return `${side.toUpperCase()} has no probabilities.`;
  const gap = rows.map((n, i) => n * Math.abs(confidence[i] - accuracy[i])), at = gap.indexOf(Math.max(...gap));
  return `When ${side.toUpperCase()} says about ${Math.round(100 * confidence[at])} %, it is right ${Math.round(100 * accuracy[at])} % of the time.`;
}

function abstention() {
  const output = h("tbody"), value = h("output", {}, "50 %");
  const slider = h("input", { type: "range", min: 0, max: 99, value: 50, "aria-label": "Answer only from this probability", input: show });
  const sorted = Object.fromEntries(["a", "b"].map(side => [side, state.found.sides[side]]));

  function show() {
    const threshold = Number(slider.value) / 100;
    value.textContent = `${slider.value} %`;
    output.replaceChildren(...["a", "b"].map(side => {
      const { answered, right, all } = answers(sorted[side], threshold);
      return h("tr", {}, h("th", { scope: "row", class: side }, side.toUpperCase()), h("td", { class: "num" }, `${(100 * answered / all).toFixed(1)} %`), h("td", { class: "num" }, answered ? `${(100 * right / answered).toFixed(1)} %` : "–"), h("td", { class: "num" }, ((answered - right) / state.found.seeds.length).toFixed(1)));
    }));
  }

  show();
  return h("div", {}, h("label", { class: "slider" }, "Answer only from a probability of ", value, slider),
    h("table", { "aria-live": "polite" }, h("thead", {}, h("tr", {}, h("td"), h("th", { class: "num", scope: "col" }, "answered"), h("th", { class: "num", scope: "col" }, "right of these"), h("th", { class: "num", scope: "col" }, "wrong answers"))), output),
    h("small", {}, "What a threshold in use would do: the rest is left to a person. Mean over seeds."));
}

/** Return how many images are answered from a threshold on, and how many of these are right, summed over seeds. */
export function answers({ said, confidence }, threshold, labels = state.found.labels) {
  let [answered, right, all] = [0, 0, 0];
  said.forEach((one, seed) => one.forEach((answer, i) => {
    all++;
    if ((confidence[seed][i] ?? -1) < threshold) return;
    answered++;
    if (answer === labels[i]) right++;
  }));
  return { answered, right, all };
}
