// The tab Predict: new images with one or more heads.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, renew } from "../shared/dom.js";
import { countsCard } from "./counts.js";
import { headsCard, mean } from "./heads.js";
import { imagesCard } from "./images.js";
import { resultsCard } from "./results.js";
import { adjustment, state } from "./state.js";

const main = document.querySelector("#main"), PERIOD = 700;
const results = resultsCard(() => adjust());
let asked = null, source = null;

const hold = name => h("div", { "data-part": name });
const part = name => main.querySelector(`[data-part=${name}]`);

function remember() {
  const address = state.heads.length ? `?${new URLSearchParams({ heads: state.heads.map(({ id }) => id).join(",") })}` : location.pathname;
  history.replaceState(null, "", address);
}

/** Take the heads of the address, or the best one. */
function choose() {
  const wanted = new URLSearchParams(location.search).get("heads")?.split(",") ?? [];
  state.heads = wanted.map(id => state.settings.find(one => one.id === id)).filter(Boolean);
  if (wanted.length > state.heads.length) fail(new Error("A head of this address is no longer kept; the others are shown."));
  if (!state.heads.length) state.heads = [...state.settings].sort((x, y) => mean(y) - mean(x)).slice(0, 1);
}

function drawHeads() {
  renew(part("heads"), headsCard(() => { remember(); drawHeads(); if (source && state.heads.length) predict(source); }));
}

function drawResults() {
  const counts = countsCard();
  results.draw();
  renew(part("counts"), ...(counts ? [counts] : []));
}

async function predict(what) {
  source = what;
  if (!state.heads.length) { fail(new Error("Choose a head first.")); return; }
  main.dataset.state = "predicting";
  const mine = asked = {};
  Object.assign(state, { set: null, found: null, filter: "all", shown: 120 });
  try {
    const heads = state.heads.map(({ store, key, name, here }) => ({ store, key, name, here }));
    const { set, images } = await api("predict", { heads, ...what });
    if (mine !== asked) return;
    state.set = set;
    announce(`${count(images, "image")} are being predicted.`);
    drawResults();
    await follow(mine);
  } catch (error) { if (mine === asked) { main.dataset.state = "failed"; drawResults(); fail(error); } }
}

/** Ask for results until the set is finished. */
async function follow(mine) {
  for (;;) {
    const found = await api("predicted", { set: state.set, ...adjustment() });
    if (mine !== asked) return;
    state.found = found;
    drawResults();
    if (found.state !== "predicting") break;
    await new Promise(resolve => setTimeout(resolve, PERIOD));
  }
  main.dataset.state = state.found.state;
  announce(state.found.error || `${count(state.found.done, "image")} predicted.`);
}

let adjusting = false, again = false;

/** Ask for the probabilities at the sliders' values; only the newest values count. */
async function adjust() {
  if (adjusting) { again = true; return; }
  adjusting = true;
  try {
    do {
      again = false;
      const mine = asked, found = await api("predicted", { set: state.set, ...adjustment() });
      if (mine === asked) { state.found = found; drawResults(); }
    } while (again);
  } catch (error) { fail(error); }
  adjusting = false;
}

function empty(stores) {
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Predict")), h("section", { class: "card empty" }, h("p", {}, `No head is kept in ${stores.join(", ")}. Train one in `, h("a", { href: "/train" }, "Train"), ", or on the command line:"), h("pre", {}, "frostbench train CACHE --preset auto")));
  main.dataset.state = "ready";
}

async function start() {
  try {
    const { settings, problems, stores, root } = await api("heads");
    state.settings = settings;
    if (problems.length) fail(new Error(problems.join(" ")));
    if (!settings.length) { empty(stores); return; }
    choose();
    main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Predict")), h("div", { class: "beside" }, hold("heads"), imagesCard(root, predict)), results.element, hold("counts"));
    drawHeads();
    drawResults();
    main.dataset.state = "ready";
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

start();
