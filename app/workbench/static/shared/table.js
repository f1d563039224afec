// A table that draws only the rows in view, so that ten thousand rows scroll and sort at once.
import { h } from "./dom.js";

const ABOVE = 10, INSIDE = "a, button, input";

/**
 * Return a table; call `show(rows)` with all rows in order.
 * @param columns  [{ key, title, says, numeric, cell(row) → node or text, sort: whether it can be sorted }];
 *                 `says` names a column without a visible title to users of screen readers
 * @param height   height of a row in px, as in the style sheet
 * @param onSort   called with the key of the column whose heading was pressed
 * @param attributes  row → attributes of its <tr>
 */
export function virtualTable({ columns, height, onSort, attributes, label }) {
  const body = h("tbody"), head = h("tr", {}, columns.map(heading));
  const table = h("table", { "aria-label": label, "aria-rowcount": "0" }, h("thead", {}, head), body);
  const box = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, table);
  let rows = [], first = -1;

  function heading({ key, title, says, numeric, sort }) {
    const text = says ? h("span", { class: "hidden" }, says) : sort ? h("button", { type: "button", click: () => onSort(key) }, title) : title;
    return h("th", { class: numeric ? "num" : "", scope: "col", "data-key": key }, text);
  }

  function draw(force) {
    const visible = Math.ceil(box.clientHeight / height) + 2 * ABOVE;
    const start = Math.max(0, Math.min(rows.length - visible, Math.floor(box.scrollTop / height) - ABOVE));
    if (start === first && !force) return;
    first = start;
    const shown = rows.slice(start, start + visible);
    const had = focused();
    body.replaceChildren(space(start), ...shown.map((row, i) => line(row, start + i)), space(rows.length - start - shown.length));
    if (had) giveFocus(had);
  }

  // The focus stays in its row while the row is drawn; else the table has it, so that arrows go on scrolling.
  function focused() {
    const row = document.activeElement?.closest("tr");
    return row && body.contains(row) ? { index: row.getAttribute("aria-rowindex"), at: [...row.querySelectorAll(INSIDE)].indexOf(document.activeElement) } : null;
  }

  function giveFocus({ index, at }) {
    const inside = [...body.querySelectorAll(`tr[aria-rowindex="${index}"] :is(${INSIDE})`)];
    (inside[Math.min(at, inside.length - 1)] ?? box).focus({ preventScroll: true });
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
