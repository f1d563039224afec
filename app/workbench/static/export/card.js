// What is known of a head: data, numbers, classes, and its limits.
import { average, count, h, middle } from "../shared/dom.js";

const FEW = 20, TITLES = { macro_f1_fg: "Macro F1", accuracy: "Accuracy", balanced_accuracy: "Balanced accuracy", recall_few: "Recall of rare classes", nll: "NLL (lower is better)", ece: "Calibration error, ECE" };
const ROLES = { train: "training", select: "validation", calibrate: "calibration", test: "test" };

/** Return the card. */
export function cardCard(one, card) {
  return h("section", { class: "card model", "aria-labelledby": "model" }, h("header", {}, h("h2", { id: "model" }, "Model card"), h("p", {}, "What someone needs to know who decides whether to use it. Test images stay closed here; look at them once, in Compare.")),
    h("div", { class: "facts" }, data(one, card), numbers(card), limits(card)), classes(card));
}

function data(one, { cache, rows, columns, classes: names, environment, folds }) {
  const roles = Object.entries(ROLES).filter(([role]) => rows[role]).map(([role, title]) => `${rows[role].toLocaleString("en")} ${title}`).join(", ");
  const lines = [["Settings", one.name], ["Data", `${cache}: ${count(names.length, "class", "classes")}; images: ${roles}${folds ? `, cross-validated in ${folds} folds` : ""}`], ["Backbone", columns.join(", ")], ["Trained by", `frostbench ${environment.frostbench}, torch ${environment.torch}, on ${environment.device}`], ["Runs", one.keys.join(", ")]];
  return h("dl", {}, lines.flatMap(([term, text]) => [h("dt", {}, term), h("dd", {}, text)]));
}

function numbers({ metrics, ece, rows, folds }) {
  const lines = Object.entries(TITLES).map(([name, title]) => {
    const values = metrics.map(one => one[name]).filter(value => value !== null && value !== undefined);
    return values.length ? h("tr", {}, h("th", { scope: "row" }, title), h("td", { class: "num" }, average(values).toFixed(3)), h("td", { class: "num" }, values.length > 1 ? `${Math.min(...values).toFixed(3)} to ${Math.max(...values).toFixed(3)}` : "one seed")) : null;
  });
  const before = average(ece.map(one => one.before ?? null)), after = average(ece.map(one => one.after ?? null));
  const where = folds ? "images of all folds" : count(rows.select ?? 0, "validation image");
  return h("div", {}, h("table", {}, h("caption", {}, `On ${where}, mean and range over seeds`), h("tbody", {}, lines)), before !== null && after !== null ? h("p", {}, `Calibration error ${before.toFixed(3)} without a temperature, ${after.toFixed(3)} with one.`) : null);
}

function limits({ classes: names, train_counts: counts, notes, warnings }) {
  const few = names.filter((_, at) => counts[at] < FEW), none = names.filter((_, at) => counts[at] === 0);
  const lines = [...notes, ...warnings];
  if (none.length) lines.unshift(`${count(none.length, "class has", "classes have")} no training image and are never predicted: ${list(none)}.`);
  if (few.length) lines.unshift(`${count(few.length, "class has", "classes have")} fewer than ${FEW} training images, so their scores mean little: ${list(few)}.`);
  return h("div", {}, h("h3", {}, "Limits"), lines.length ? h("ul", {}, lines.map(line => h("li", {}, line))) : h("p", {}, "Nothing was noted in training."));
}

const list = names => `${names.slice(0, 6).map(name => middle(name, 30)).join(", ")}${names.length > 6 ? " and others" : ""}`;

function classes({ classes: names, train_counts: counts, per_class: perClass }) {
  const known = perClass.filter(one => one.support);
  if (!known.length) return null;
  const lines = names.map((name, at) => ({ name, train: counts[at], images: known[0].support[at], recall: average(known.map(one => one.recall[at])), f1: average(known.map(one => one.f1[at])) })).sort((x, y) => x.f1 - y.f1);
  return h("details", { class: "perclass" }, h("summary", {}, `All ${count(names.length, "class", "classes")}, the worst first`), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Classes" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Class"), ["Training images", "Validation images", "Recall", "F1"].map(title => h("th", { scope: "col", class: "num" }, title)))),
    h("tbody", {}, lines.map(one => h("tr", {}, h("th", { scope: "row", title: one.name }, middle(one.name, 40)), h("td", { class: "num" }, one.train.toLocaleString("en")), h("td", { class: "num" }, one.images.toLocaleString("en")), [one.recall, one.f1].map(value => h("td", { class: "num" }, one.images ? value.toFixed(3) : "–"))))))));
}
