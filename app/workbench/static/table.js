// A table that draws only the rows in view, so that ten thousand rows scroll and sort at once.
import { h } from "./dom.js";

const ABOVE = 10;

/**
 * Return a table; call `show(rows)` with all rows in order.
 * @param columns  [{ key, title, numeric, cell(row) → node or text, sort: whether it can be sorted }]
 * @param height   height of a row in px, as in the style sheet
 * @param onSort   called with the key of the column whose heading was pressed
 * @param attributes  row → attributes of its <tr>
 */
export function virtualTable({ columns, height, onSort, attributes, label }) {
  const body = h("tbody"), head = h("tr", {}, columns.map(heading));
  const table = h("table", { "aria-label": label, "aria-rowcount": "0" }, h("thead", {}, head), body);
  const box = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, table);
  let rows = [], first = -1;

  function heading({ key, title, numeric, sort }) {
    const text = sort ? h("button", { type: "button", click: () => onSort(key) }, title) : title;
    return h("th", { class: numeric ? "num" : "", scope: "col", "data-key": key }, text);
  }

  function draw(force) {
    const visible = Math.ceil(box.clientHeight / height) + 2 * ABOVE;
    const start = Math.max(0, Math.min(rows.length - visible, Math.floor(box.scrollTop / height) - ABOVE));
    if (start === first && !force) return;
    first = start;
    const shown = rows.slice(start, start + visible);
    body.replaceChildren(space(start), ...shown.map((row, i) => line(row, start + i)), space(rows.length - start - shown.length));
  }

  function space(count) {
    return h("tr", { "aria-hidden": "true", class: "space" }, h("td", { colspan: columns.length, style: `height:${count * height}px` }));
  }

  function line(row, index) {
    const cells = columns.map(({ numeric, cell }) => h("td", { class: numeric ? "num" : "" }, cell(row)));
    return h("tr", { "aria-rowindex": index + 2, ...attributes(row) }, cells);
  }

  box.addEventListener("scroll", () => draw(false), { passive: true });
  addEventListener("resize", () => draw(true));
  return {
    element: box,
    show(all, { key, down } = {}) {
      rows = all;
      table.setAttribute("aria-rowcount", all.length + 1);
      for (const th of head.children) {
        if (th.dataset.key === key) th.setAttribute("aria-sort", down ? "descending" : "ascending");
        else th.removeAttribute("aria-sort");
      }
      draw(true);
    },
  };
}
