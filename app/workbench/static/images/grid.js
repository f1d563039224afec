// A grid of pictures that draws only the rows in view; arrows move, space chooses, Enter opens.
import { h } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";

const CELL = 124, LINE = 150, ABOVE = 2;

/**
 * Return a grid; call `show(rows)` with the images in order.
 * @param caption  row → node below the picture
 * @param marks    row → attributes of its cell
 * @param address  row → { cache, id, alt }
 * @param chosen   Set of chosen rows, changed by the grid
 * @param onChoose called after the set was changed
 * @param onOpen   called with a row that was clicked
 */
export function grid({ caption, marks, address, chosen, onChoose, onOpen }) {
  const space = h("div", { class: "space" }), cells = h("div", { class: "cells" });
  const box = h("div", { class: "grid", role: "listbox", "aria-label": "Images", "aria-multiselectable": "true", tabindex: "-1", keydown: keys }, space, cells);
  let rows = [], focus = 0, last = 0, drawn = new Map();

  const perLine = () => Math.max(1, Math.floor((box.clientWidth - 8) / CELL));

  function draw() {
    const columns = perLine(), lines = Math.ceil(rows.length / columns);
    space.style.height = `${lines * LINE}px`;
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - ABOVE), after = Math.ceil((box.scrollTop + box.clientHeight) / LINE) + ABOVE;
    cells.style.transform = `translateY(${first * LINE}px)`;
    cells.style.gridTemplateColumns = `repeat(${columns}, ${CELL}px)`;
    const start = first * columns, shown = rows.slice(start, after * columns), kept = new Map();
    const list = shown.map((row, i) => {
      const cell = drawn.get(row) ?? make(row);
      kept.set(row, cell);
      dress(cell, row, start + i);
      return cell;
    });
    drawn = kept;
    // Cells that stay keep their picture and the focus.
    if (list.length !== cells.children.length || list.some((cell, i) => cells.children[i] !== cell)) cells.replaceChildren(...list);
  }

  function make(row) {
    const { cache, id, alt } = address(row);
    return h("div", { class: "cell", role: "option", "data-row": row, click: event => press(row, event) }, h("span", { class: "tick", "aria-hidden": "true", click: event => { event.stopPropagation(); toggle(rows.indexOf(row), event.shiftKey); } }), picture(cache, id, { alt }), h("div", { class: "caption" }));
  }

  function dress(cell, row, index) {
    cell.tabIndex = index === focus ? 0 : -1;
    cell.setAttribute("aria-selected", String(chosen.has(row)));
    cell.setAttribute("aria-posinset", index + 1);
    cell.setAttribute("aria-setsize", rows.length);
    for (const [name, value] of Object.entries(marks(row))) { if (value) cell.setAttribute(name, value); else cell.removeAttribute(name); }
    cell.lastChild.replaceChildren(...[caption(row)].flat());
  }

  function press(row, event) {
    const index = rows.indexOf(row);
    focus = index;
    if (event.shiftKey || event.ctrlKey || event.metaKey) toggle(index, event.shiftKey); else onOpen(row);
  }

  function toggle(index, range) {
    const on = !chosen.has(rows[index]);
    const [from, to] = range ? [Math.min(last, index), Math.max(last, index)] : [index, index];
    for (let i = from; i <= to; i++) if (on) chosen.add(rows[i]); else chosen.delete(rows[i]);
    [last, focus] = [index, index];
    draw();
    onChoose();
  }

  function keys(event) {
    const columns = perLine(), step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, Home: -focus, End: rows.length - 1 - focus }[event.key];
    if (step !== undefined) {
      event.preventDefault();
      go(Math.max(0, Math.min(rows.length - 1, focus + step)));
    } else if (event.key === " ") { event.preventDefault(); toggle(focus, event.shiftKey); } else if (event.key === "Enter" && rows.length) { event.preventDefault(); onOpen(rows[focus]); }
    else if (event.key === "a" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); for (const row of rows) chosen.add(row); draw(); onChoose(); }
  }

  function go(index) {
    focus = index;
    const top = Math.floor(index / perLine()) * LINE;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + LINE > box.scrollTop + box.clientHeight) box.scrollTop = top + LINE - box.clientHeight;
    draw();
    drawn.get(rows[index])?.focus({ preventScroll: true });
  }

  box.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(draw).observe(box);
  return {
    element: box,
    show(all) { rows = all; focus = Math.min(focus, Math.max(0, all.length - 1)); draw(); },
  };
}
