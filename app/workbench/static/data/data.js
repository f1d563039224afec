// The tab Data: what the data set is, what to mend before training, and corrections of its labels.
import { later } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { h } from "../shared/dom.js";
import { heading, openDataSet } from "../dataset/opening.js";
import { addPhotos } from "../photos/photos.js";
import { state, takeChecks, watch } from "../dataset/state.js";
import { classCard } from "./classes.js";
import { mapCard } from "./map.js";
import { queueCard } from "./queue.js";
import { selection } from "./selection.js";
import { tiles } from "./tiles.js";

const main = document.querySelector("#main");

function drawPage(caches) {
  const chosen = selection(() => map.show()), choose = (rows, title) => { chosen.choose(rows, title); map.show(); };
  const map = mapCard(choose), classes = classCard(choose), queue = queueCard(), overview = h("div");
  const redraw = () => { overview.replaceChildren(tiles(queue.start)); classes.show(); queue.show(); map.show(); chosen.show(); };
  const problem = state.overview.split_problem;
  main.replaceChildren(heading(caches, h("a", { class: "btn", href: "/data?add=1" }, "Add photos"), h("a", { class: "btn primary", href: `/train?${new URLSearchParams({ data: state.cache })}` }, "Train")), ...(problem ? [h("p", { class: "alert" }, problem)] : []), overview, h("div", { class: "beside" }, map.element, classes.element), chosen.element, queue.element);
  watch(redraw);
  redraw();
  return { map, redraw };
}

async function fillMap({ map }) {
  try { map.place(new Float32Array(await later("map", { cache: state.cache }))); } catch (error) { map.fail(error.message); }
}

async function fillChecks({ redraw }) {
  try { takeChecks(await later("checks", { cache: state.cache })); redraw(); main.dataset.checks = "ready"; } catch (error) { fail(error); }
}

async function start() {
  try {
    if (new URLSearchParams(location.search).has("add")) { await addPhotos(); return; }
    const caches = await openDataSet(({ problems }) => addPhotos(problems));
    if (!caches) return;
    const page = drawPage(caches);
    main.dataset.state = "ready";
    await Promise.all([fillMap(page), fillChecks(page)]);
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

start();
