// Classes, the largest loss first: F1 of A and B, the difference, and what is said instead.
import { h, middle, signed } from "../shared/dom.js";
import { virtualTable } from "../shared/table.js";
import { className, state } from "./state.js";
import { interval } from "./verdict.js";

const HEIGHT = 36;
let sort = "worst", down = false, query = "";

/** Return the card; `onClass` is called with the number of a class whose name was pressed. */
export function classCard(onClass) {
  const share = value => value === null ? "–" : (100 * value).toFixed(1);
  const reach = Math.max(...state.found.classes.flatMap(({ low, high }) => [Math.abs(low ?? 0), Math.abs(high ?? 0)]), 1e-9);
  const instead = mistakes();
  const rows = state.found.classes.map((one, number) => ({ ...one, number, worst: Math.min(one.a ?? 9, one.b ?? 9) })).filter(({ images }) => images);
  const table = virtualTable({
    label: "Classes", height: HEIGHT, onSort: key => { down = sort === key ? !down : key !== "name" && key !== "worst"; sort = key; show(); },
    attributes: ({ number }) => ({ "data-class": number }),
    columns: [
      { key: "name", title: "Class", sort: true, cell: row => h("button", { class: "link", type: "button", title: `${row.name}: ${row.train} training images`, click: () => onClass(row.number) }, middle(row.name, 24), row.thin ? h("small", { title: "Too few images or groups: these figures mean little." }, " few") : null) },
      { key: "images", title: "Images", numeric: true, sort: true, cell: row => row.images.toLocaleString("en") },
      { key: "a", title: "F1 of A", numeric: true, sort: true, cell: row => share(row.a) },
      { key: "b", title: "F1 of B", numeric: true, sort: true, cell: row => share(row.b) },
      { key: "delta", title: "B − A", numeric: true, sort: true, cell: row => row.delta === null ? "–" : signed(100 * row.delta, 1) },
      { key: "bar", title: "95 % interval", cell: row => interval(row, reach) },
      { key: "instead", title: "B says instead", cell: row => instead[row.number] ?? h("small", {}, "nothing") },
    ],
  });
  const find = h("input", { class: "field", type: "search", value: query, placeholder: "Find class", "aria-label": "Find class", input: event => { query = event.target.value; show(); } });

  function show() {
    const key = row => sort === "name" ? row.name.toLowerCase() : row[sort], sign = down ? -1 : 1, none = row => key(row) === null || key(row) === undefined;
    const shown = rows.filter(({ name }) => name.toLowerCase().includes(query.toLowerCase())).sort((a, b) => none(a) - none(b) || sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0));
    table.show(shown, { key: sort, down });
  }

  const element = h("section", { class: "card classes", "aria-labelledby": "classes" }, h("header", {}, h("h2", { id: "classes" }, "Classes"), h("small", {}, "the worst first; intervals are not corrected for the number of classes"), h("span", { class: "grow" }), find), table.element);
  element.style.setProperty("--rows", Math.min(14, rows.length) + 1);
  return { element, show };
}

/** Return the most frequent wrong class of each label by B, over all seeds, with its share of the label's wrong answers. */
function mistakes() {
  const { labels, sides: { b } } = state.found, counts = new Map();
  for (const said of b.said) labels.forEach((label, i) => {
    if (said[i] === label) return;
    if (!counts.has(label)) counts.set(label, new Map());
    counts.get(label).set(said[i], (counts.get(label).get(said[i]) ?? 0) + 1);
  });
  return Object.fromEntries([...counts].map(([label, wrong]) => {
    const total = [...wrong.values()].reduce((sum, n) => sum + n, 0), [most, times] = [...wrong].sort((x, y) => y[1] - x[1])[0];
    return [label, `${middle(className(most), 18)} (${Math.round(100 * times / total)} % of its errors)`];
  }));
}
