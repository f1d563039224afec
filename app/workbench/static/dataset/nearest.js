// The images nearest to one, with their labels.
import { api } from "../shared/api.js";
import { h, middle } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { swatch } from "./swatch.js";
import { labelOf, state } from "./state.js";

const MOST = 6;
const known = new Map();

/** Return a list that fills with the images nearest to an image. */
export function nearest(row) {
  const list = h("ul", { class: "nearest", "aria-label": "Nearest images" });
  fill(list, row);
  return h("div", {}, h("h3", {}, "Nearest images"), list);
}

async function fill(list, row) {
  const id = state.ids[row];
  try {
    if (!known.has(id)) known.set(id, await api("near", { cache: state.cache, id, k: MOST }));
  } catch (error) { list.replaceChildren(h("li", {}, error.message)); return; }
  const { rows, cosine } = known.get(id);
  list.replaceChildren(...rows.map((other, i) => h("li", { title: `${state.ids[other]}\ncosine ${cosine[i]}` }, picture(state.cache, state.ids[other]), h("small", {}, swatch(state.labels[other]), middle(labelOf(other), 16)))));
}
