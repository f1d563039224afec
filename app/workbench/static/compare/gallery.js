// The images that B fixes or breaks, or that both get wrong; one of them large, with the images it resembles.
import { api } from "../shared/api.js";
import { arrows, count, h, middle } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { className, flips, inCell, state } from "./state.js";

const KINDS = { fixes: "B fixes", breaks: "B breaks", wrong: "Both wrong" }, MOST = 240, NEAREST = 6;
const known = new Map();

/** Return the card; `onChange` is called after another kind was chosen. */
export function galleryCard(onChange) {
  const { cell, gallery, found } = state, here = state.a.here;
  const images = cell ? inCell(cell) : flips(gallery), sizes = Object.fromEntries(Object.keys(KINDS).map(kind => [kind, flips(kind).length]));
  const pick = h("span", { class: "segments", role: "group", "aria-label": "Which images" }, Object.entries(KINDS).map(([kind, title]) => h("button", { type: "button", "aria-pressed": String(!cell && kind === gallery), click: () => { state.gallery = kind; state.cell = null; onChange(); } }, `${title} ${sizes[kind].toLocaleString("en")}`)));
  const which = cell ? h("span", { class: "chip soft" }, `${className(cell.label)} called ${className(cell.said)}`, h("button", { class: "icon", type: "button", "aria-label": "Show all again", click: () => { state.cell = null; onChange(); } }, "✕")) : null;
  const many = found.seeds.length > 1, seed = many ? `${cell ? ", with at least one seed" : ""}; answers are those of seed ${found.seeds[0]}` : "";
  const body = images.length
    ? h("div", { class: "pictures", role: "list", keydown: arrows }, images.slice(0, MOST).map((i, place) => h("div", { role: "listitem" }, tile(i, place, here))))
    : h("p", {}, { fixes: "B gets no image right that A gets wrong.", breaks: "B gets no image wrong that A gets right.", wrong: "No image is wrong for both." }[gallery]);
  return h("section", { class: "card gallery", "aria-labelledby": "gallery" }, h("header", {}, h("h2", { id: "gallery" }, "Images"), pick, which, h("span", { class: "grow" }), h("small", {}, `${count(images.length, "image")}${images.length > MOST ? `, the first ${MOST} shown` : ""}${seed}`)),
    here ? null : h("p", { class: "note" }, `The pictures are not shown: the cache ${state.a.cache} of these runs is not below the folder of the page.`), body);
}

const answer = (side, i) => {
  const { said, confidence } = state.found.sides[side], right = said[0][i] === state.found.labels[i];
  return h("span", { class: right ? "line" : "line wrong" }, h("b", { class: side }, side.toUpperCase()), ` ${right ? "✓" : "✗"} ${middle(className(said[0][i]), 11)} ${Math.round(100 * (confidence[0][i] ?? 0))} %`);
};

function tile(i, place, here) {
  const { ids, labels } = state.found, label = className(labels[i]);
  const shown = here ? picture(here, ids[i], { alt: `${ids[i]}: ${label}` }) : h("span", { class: "picture missing" }, "no picture");
  return h("button", { type: "button", class: "shot", tabindex: place ? "-1" : "0", title: `${ids[i]}\n${label}`, "data-id": ids[i], click: () => inspect(i) }, shown, h("span", { class: "line" }, middle(label, 16)), answer("a", i), answer("b", i));
}

function inspect(i) {
  const { ids, labels, sides, seeds } = state.found, here = state.a.here;
  const opinion = side => h("tr", {}, h("th", { scope: "row" }, side.toUpperCase()), sides[side].said.map((said, at) => h("td", { class: said[i] === labels[i] ? "" : "wrong" }, `${said[i] === labels[i] ? "✓" : "✗"} ${className(said[i])} ${Math.round(100 * (sides[side].confidence[at][i] ?? 0))} %`)));
  const reasons = h("ul", { class: "nearest", "aria-label": "Nearest images that were not held out" });
  const dialog = h("dialog", { class: "inspector", "aria-label": ids[i], close: () => dialog.remove() },
    h("header", {}, h("h2", {}, ids[i]), h("span", { class: "grow" }), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    h("div", { class: "queue" }, h("div", { class: "large" }, here ? picture(here, ids[i], { size: 320 }) : h("span", { class: "picture missing" }, "no picture")),
      h("div", { class: "ask" }, h("p", {}, "Labelled ", h("b", {}, className(labels[i])), "."), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "What A and B say with each seed" }, h("table", {}, h("thead", {}, h("tr", {}, h("td"), seeds.map(seed => h("th", { scope: "col" }, `seed ${seed}`)))), h("tbody", {}, opinion("a"), opinion("b")))),
        here ? h("p", {}, h("a", { href: `/images?${new URLSearchParams({ cache: here, q: ids[i] })}` }, "Correct its label in Images")) : null),
      here ? h("div", {}, h("h3", {}, "Nearest images that were not held out"), reasons) : null));
  document.body.append(dialog);
  dialog.showModal();
  if (here) fill(reasons, ids[i], here);
}

async function fill(list, id, cache) {
  try {
    if (!known.has(id)) known.set(id, await api("reasons", { store: state.b.store, key: state.found.sides.b.keys[0], cache, id, k: NEAREST }));
  } catch (error) { list.replaceChildren(h("li", {}, error.message)); return; }
  const { ids, labels, cosine } = known.get(id);
  list.replaceChildren(...ids.map((other, i) => h("li", { title: `${other}\ncosine ${cosine[i]}` }, picture(cache, other), h("small", {}, middle(labels[i], 16)))));
}
