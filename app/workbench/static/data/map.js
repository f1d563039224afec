// The map of all images on a canvas: colours, zoom, a picture under the pointer, and a lasso.
import { h, middle, renew } from "../shared/dom.js";
import { pictureAddress } from "../shared/pictures.js";
import { WAYS, colouring, legend } from "./colouring.js";
import { inspect } from "../dataset/inspector.js";
import { drawCircles, drawPixels } from "./drawing.js";
import { finder, inside, limits } from "./points.js";
import { labelOf, state } from "../dataset/state.js";

const MARGIN = 16, REACH = 12, MANY = 20_000;

/** Return the card; `choose(rows, title)` is called with the images inside a lasso. */
export function mapCard(choose) {
  const canvas = h("canvas", { role: "img", "aria-label": "Map of all images; images that are alike to the backbone are close together. The table of classes leads to the same images." });
  const tip = h("div", { class: "tip", hidden: true }), keys = h("div", { class: "keys" });
  const box = h("div", { class: "map" }, canvas, tip, h("p", { class: "empty" }, "Computing the map …"));
  const ways = h("span", { class: "segments", role: "group", "aria-label": "Colour by" }, Object.entries(WAYS).map(([key, title]) => h("button", { type: "button", "data-way": key, click: () => { way = key; only = -1; show(); } }, title)));
  const lassoButton = h("button", { class: "btn", type: "button", "aria-pressed": "false", click: () => { lasso = !lasso; show(); } }, "Lasso");
  const reset = h("button", { class: "btn", type: "button", click: () => { zoom = { k: 1, x: 0, y: 0 }; draw(); } }, "Whole map");
  const element = h("section", { class: "card mapped", "aria-labelledby": "map" }, h("header", {}, h("h2", { id: "map" }, "Map"), h("small", {}, "close together = alike to the backbone"), h("span", { class: "grow" }), ways, lassoButton, reset), keys, box);
  let xy = null, find = null, way = "class", only = -1, lasso = false, zoom = { k: 1, x: 0, y: 0 }, line = [], colours = null, dragged = null;

  // From the coordinates of the map to pixels of the box, and back.
  let area = null;
  let width = 1, height = 1;
  const toX = x => (MARGIN + (x - area.x) / area.width * (width - 2 * MARGIN)) * zoom.k + zoom.x;
  const toY = y => (MARGIN + (1 - (y - area.y) / area.height) * (height - 2 * MARGIN)) * zoom.k + zoom.y;
  const fromX = x => area.x + ((x - zoom.x) / zoom.k - MARGIN) / (width - 2 * MARGIN) * area.width;
  const fromY = y => area.y + (1 - ((y - zoom.y) / zoom.k - MARGIN) / (height - 2 * MARGIN)) * area.height;

  function show() {
    for (const button of ways.children) button.setAttribute("aria-pressed", String(button.dataset.way === way));
    lassoButton.setAttribute("aria-pressed", String(lasso));
    box.dataset.lasso = lasso;
    colours = colouring(way);
    const { shown, more } = legend(colours);
    renew(keys, ...shown.map(({ name, colour, number, size }) => h("button", { type: "button", class: "chip", title: `${name}: ${size}`, "aria-pressed": String(only === number), click: () => { only = only === number ? -1 : number; show(); } }, h("i", { class: "swatch", style: `background:${colour}` }), middle(name, 24))), more ? h("small", {}, `and ${more} more`) : "");
    draw();
  }

  function draw() {
    if (!xy) return;
    const scale = devicePixelRatio || 1;
    [width, height] = [box.clientWidth, box.clientHeight];
    canvas.width = width * scale;
    canvas.height = height * scale;
    const pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    const chosen = state.chosen.length ? new Set(state.chosen) : null;
    const points = { xy, toX, toY, kind: colours.kind, kinds: colours.kinds, only, chosen };
    if (xy.length / 2 > MANY) drawPixels(pen, points, scale, getComputedStyle(box).backgroundColor); else drawCircles(pen, points);
    reset.hidden = zoom.k === 1 && !zoom.x && !zoom.y;
    if (line.length > 1) outline(pen);
    box.dataset.state = "ready";
  }

  function outline(pen) {
    pen.globalAlpha = 1;
    pen.strokeStyle = getComputedStyle(box).color;
    pen.lineWidth = 1.5;
    pen.beginPath();
    line.forEach(([x, y], i) => i ? pen.lineTo(x, y) : pen.moveTo(x, y));
    pen.stroke();
  }

  // In units of the map, so that a distance means the same in both directions.
  const under = event => find ? find((fromX(event.offsetX) - area.x) / area.width * width, (fromY(event.offsetY) - area.y) / area.height * height, REACH / zoom.k) : -1;

  function pointers() {
    if (!xy) return;
    find = finder(xy.map((v, i) => i % 2 ? (v - area.y) / area.height * height : (v - area.x) / area.width * width));
  }

  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    if (lasso) line = [[event.offsetX, event.offsetY]]; else dragged = { x: event.offsetX, y: event.offsetY, moved: false };
  });
  canvas.addEventListener("pointermove", event => {
    if (line.length) { line.push([event.offsetX, event.offsetY]); draw(); return; }
    if (dragged) {
      const [dx, dy] = [event.offsetX - dragged.x, event.offsetY - dragged.y];
      if (!dragged.moved && Math.hypot(dx, dy) < 4) return;
      zoom = { ...zoom, x: zoom.x + dx, y: zoom.y + dy };
      dragged = { x: event.offsetX, y: event.offsetY, moved: true };
      draw();
      return;
    }
    hover(event);
  });
  canvas.addEventListener("pointerup", event => {
    if (line.length > 2) {
      choose(inside(xy, line.map(([x, y]) => [fromX(x), fromY(y)])), "Inside the lasso");
    } else if (!lasso && dragged && !dragged.moved) { const row = under(event); if (row >= 0) inspect(row); }
    [line, dragged] = [[], null];
    draw();
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    const factor = Math.exp(-event.deltaY / 400), k = Math.max(1, Math.min(60, zoom.k * factor)), real = k / zoom.k;
    zoom = k === 1 ? { k, x: 0, y: 0 } : { k, x: event.offsetX - (event.offsetX - zoom.x) * real, y: event.offsetY - (event.offsetY - zoom.y) * real };
    draw();
  }, { passive: false });
  canvas.addEventListener("dblclick", () => { zoom = { k: 1, x: 0, y: 0 }; draw(); });
  new ResizeObserver(() => { draw(); pointers(); }).observe(box);
  document.addEventListener("theme", show);

  function hover(event) {
    const row = under(event);
    tip.hidden = row < 0;
    if (row < 0 || tip.dataset.row === String(row)) return;
    tip.dataset.row = row;
    tip.replaceChildren(h("img", { src: pictureAddress(state.cache, state.ids[row]), alt: "", class: "picture" }), h("b", {}, middle(labelOf(row), 24)), h("small", {}, middle(state.ids[row], 26)));
    const right = event.offsetX > width - 150, low = event.offsetY > height - 170;
    tip.style.transform = `translate(${event.offsetX + (right ? -140 : 14)}px, ${event.offsetY + (low ? -160 : 14)}px)`;
  }

  return {
    element, show,
    place(points) { xy = points; area = limits(points); box.querySelector(".empty").hidden = true; show(); pointers(); },
    fail(message) { box.querySelector(".empty").textContent = message; },
  };
}
