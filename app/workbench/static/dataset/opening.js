// Opening a data set: which caches there are, the one in the address, and its images.
import { api } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { short, state, takeOverview } from "./state.js";

const main = document.querySelector("#main");

/** Read the data set of the address, or the first one; returns the caches, or null where there is none: then `whenEmpty` is called with the reply. */
export async function openDataSet(whenEmpty) {
  const reply = await api("caches"), query = new URLSearchParams(location.search), asked = query.get("cache");
  if (!reply.caches.length) { await whenEmpty(reply); return null; }
  if (reply.problems.length) fail(new Error(reply.problems.join(" ")));
  if (asked && !reply.caches.some(({ cache }) => cache === asked)) fail(new Error(`There is no finished cache ${asked} here; the first one is shown.`));
  state.cache = reply.caches.find(({ cache }) => cache === asked)?.cache ?? reply.caches[0].cache;
  query.set("cache", state.cache);
  history.replaceState(null, "", `?${query}`);
  takeOverview(await api("data", { cache: state.cache }));
  return reply.caches;
}

/** Return the heading: the data set, its backbones, a choice of others, and the next step. */
export function heading(caches, ...more) {
  const choice = h("select", { class: "field", "aria-label": "Data set", change: event => { location.search = new URLSearchParams({ cache: event.target.value }); } },
    caches.map(({ cache, images, classes }) => h("option", { value: cache }, `${cache}: ${count(images, "image")}, ${count(classes, "class", "classes")}`)));
  choice.value = state.cache;
  const columns = Object.values(state.overview.columns).map(text => h("span", { class: "chip soft" }, text));
  return h("div", { class: "head" }, h("h1", {}, short(state.cache)), ...columns, h("span", { class: "grow" }), caches.length > 1 ? choice : null, ...more);
}

/** Say that there is no data set, and how to make one. */
export function sayEmpty(title, { root, problems }) {
  const why = problems.length ? h("p", {}, problems.join(" ")) : null;
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, title)), h("section", { class: "card empty" }, h("p", {}, `There is no finished data set below ${root}.`), h("p", {}, h("a", { class: "btn primary", href: "/data?add=1" }, "Add photos")), why));
  main.dataset.state = "ready";
}
