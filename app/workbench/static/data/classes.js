// The table of classes: images by role, labels to check, and a search.
import { count, h, middle } from "../shared/dom.js";
import { virtualTable } from "../shared/table.js";
import { state, toCheck } from "../dataset/state.js";
import { swatch } from "../dataset/swatch.js";

const HEIGHT = 36;
let sort = "images", down = true, query = "";

/** Return the card; `choose(rows, title)` is called with the images of a class. */
export function classCard(choose) {
  const table = virtualTable({
    label: "Classes", height: HEIGHT, onSort: key => { down = sort === key ? !down : key !== "name"; sort = key; show(); },
    attributes: ({ number }) => ({ "data-class": number }),
    columns: [
      { key: "name", title: "Class", sort: true, cell: row => h("button", { class: "link", type: "button", title: row.name, click: () => choose(row.rows, row.name) }, swatch(row.number), middle(row.name)) },
      { key: "bar", title: "", says: "Training and held out", cell: bar },
      { key: "images", title: "Images", numeric: true, sort: true, cell: row => row.images.toLocaleString("en") },
      { key: "train", title: "Training", numeric: true, sort: true, cell: row => row.train < 20 ? h("span", { class: "few", title: "Fewer than 20 training images: the score of this class means little." }, row.train) : row.train.toLocaleString("en") },
      { key: "check", title: "To check", numeric: true, sort: true, cell: row => state.checks ? [row.check.toLocaleString("en"), row.check ? h("small", {}, ` ${Math.round(100 * row.check / row.images)} %`) : ""] : "…" },
    ],
  });
  const find = h("input", { class: "field", type: "search", placeholder: "Find class", "aria-label": "Find class", input: event => { query = event.target.value.toLowerCase(); show(); } });
  const note = h("p", {});
  const card = h("section", { class: "card classes", "aria-labelledby": "classes" }, h("header", {}, h("h2", { id: "classes" }, "Classes"), h("span", { class: "grow" }), find), table.element, note);
  let largest = 1;

  function bar({ number, images, train }) {
    const part = (rows, kind) => h("i", { class: kind, style: `width:${(100 * rows / largest).toFixed(1)}%` });
    return h("span", { class: "sizes", role: "img", "aria-label": `${train} for training, ${images - train} held out` }, part(train, "train"), part(images - train, "held"));
  }

  function show() {
    const rows = lines();
    largest = Math.max(1, ...rows.map(row => row.images));
    const sign = down ? -1 : 1, key = row => sort === "name" ? row.name.toLowerCase() : row[sort];
    const shown = rows.filter(row => row.name.toLowerCase().includes(query)).sort((a, b) => sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0));
    table.show(shown, { key: sort, down });
    const few = rows.filter(row => row.train < 20).length;
    note.replaceChildren(h("span", { class: "legend" }, h("i", { class: "train" }), "training ", h("i", { class: "held" }), "held out. "), few ? `${few} of ${count(rows.length, "class", "classes")} ${few === 1 ? "has" : "have"} fewer than 20 training images: a score of so few means little.` : "");
  }

  return { element: card, show };
}

function lines() {
  const train = state.roleNames.indexOf("train");
  const found = state.names.map((name, number) => ({ name, number, images: 0, train: 0, check: 0, rows: [] }));
  state.labels.forEach((label, row) => {
    if (label < 0) return;
    found[label].images++;
    found[label].rows.push(row);
    if (state.roles[row] === train) found[label].train++;
  });
  for (const row of toCheck()) found[state.labels[row]].check++;
  return found;
}
