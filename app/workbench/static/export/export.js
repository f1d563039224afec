// The tab Export: a trained head as files that work elsewhere, and what is known of it.
import { api, later } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { average, count, h, middle } from "../shared/dom.js";
import { cardCard } from "./card.js";
import { useCard } from "./use.js";

const main = document.querySelector("#main");
const state = { settings: [], one: null, card: null };
const mean = ({ values }) => average(values.macro_f1_fg) ?? -1;
const describe = one => `${middle(one.name, 80)} · ${one.here || one.cache} (macro F1 ${(100 * mean(one)).toFixed(1)}, ${count(one.seeds.length, "seed")})`;

function head() {
  const pick = h("select", { class: "field", "aria-label": "Setting", change: event => { state.one = state.settings.find(({ id }) => id === event.target.value); history.pushState(null, "", `?${new URLSearchParams({ setting: state.one.id })}`); load(); } }, state.settings.map(one => h("option", { value: one.id }, describe(one))));
  pick.value = state.one.id;
  return h("div", { class: "head pick" }, h("h1", {}, "Export"), pick, h("a", { class: "btn", href: `/predict?${new URLSearchParams({ heads: state.one.id })}` }, "Try it on images"));
}

/** Return the keys of the runs whose heads are kept, the best first. */
const keys = () => [state.one.key, ...state.one.keys.filter(key => key !== state.one.key)].filter((_, at) => state.card.kept[at]);

function filesCard() {
  const { one, card } = state, held = card.folds ? "of all folds" : "validation";
  const seed = one.seeds[one.keys.indexOf(one.key)], several = keys().length;
  const ways = [
    { kind: "measured", title: "As measured", text: `The head of seed ${seed}, the best on ${held} images, exactly as its numbers were measured${card.decision ? `, with the decision kept in Compare: ${card.decision}` : ""}.` },
    { kind: "refitted", title: "Trained again with the validation images", text: "The same settings and the same point in training, with more images. Usually a little better; its own numbers are not measured." },
    { kind: "ensemble", title: `Mean of ${count(several, "seed")}`, text: "Averages the probabilities of all seeds. Usually a little better and better calibrated, at the cost of as many heads; its own numbers are not measured.", none: several < 2 ? "Only one seed has its head in the store: train more seeds." : "" },
  ];
  return h("section", { class: "card files", "aria-labelledby": "files" }, h("header", {}, h("h2", { id: "files" }, "Files"), h("p", {}, "A zip file with weights, class names, preprocessing, settings, metrics and a test image. It needs neither the cache nor the store.")),
    h("ul", {}, ways.map(way => h("li", {}, h("div", {}, h("b", {}, way.title), h("p", {}, way.none || blocked(way.kind) || way.text)), h("button", { class: way.kind === "measured" ? "btn primary" : "btn", type: "button", "data-kind": way.kind, disabled: Boolean(way.none || blocked(way.kind)), click: event => make(event.currentTarget, "bundle", { store: one.store, keys: keys(), here: one.here, kind: way.kind }) }, "Download")))), reports());
}

const blocked = kind => (kind !== "measured" && !state.one.here ? `The cache ${state.one.cache} of these runs is not below the folder of the page.` : kind === "refitted" && state.card.folds ? "The runs are cross-validated: the head is fitted to all images already." : "");

function reports() {
  const { one } = state, others = state.settings.filter(other => other !== one && other.store === one.store && other.data === one.data && other.seeds.some(seed => one.seeds.includes(seed)));
  if (!others.length) return null;
  const pick = h("select", { class: "field", "aria-label": "Compared with" }, others.map(other => h("option", { value: other.id }, describe(other))));
  pick.value = (others.find(({ preset, changes }) => preset === "plain" && !changes.length) ?? others[0]).id;
  return h("div", { class: "report" }, h("label", {}, "Report of the comparison with ", pick), h("button", { class: "btn", type: "button", "data-kind": "report", click: event => { const other = others.find(({ id }) => id === pick.value); make(event.currentTarget, "report", { store: one.store, a: other.keys, b: one.keys, name_a: other.name, name_b: one.name }); } }, "Download"));
}

/** Have a file made, and download it. */
async function make(button, path, request) {
  const before = button.textContent;
  button.disabled = true;
  try {
    const { file, name } = await later(path, request, () => { button.textContent = "Making it…"; });
    h("a", { href: `${file}?${new URLSearchParams({ name })}`, download: name }).click();
    announce(`${name} is downloaded.`);
    button.dataset.state = "done";
  } catch (error) { fail(error); button.dataset.state = "failed"; }
  button.disabled = false;
  button.textContent = before;
}

async function load() {
  main.dataset.state = "loading";
  const mine = state.asked = {};
  try {
    const { store, keys: all, here } = state.one;
    const best = [state.one.key, ...all.filter(key => key !== state.one.key)];
    const card = await api("card", { store, keys: best, here });
    if (mine !== state.asked) return;
    state.card = card;
    main.replaceChildren(head(), h("div", { class: "beside" }, filesCard(), useCard(card)), cardCard(state.one, card));
    main.dataset.state = "ready";
  } catch (error) {
    if (mine !== state.asked) return;
    main.replaceChildren(head());
    main.dataset.state = "failed";
    fail(error);
  }
}

function choose() {
  const wanted = new URLSearchParams(location.search).get("setting");
  state.one = state.settings.find(({ id }) => id === wanted) ?? null;
  if (wanted && !state.one) fail(new Error("The setting of this address keeps no head; another one is shown."));
  state.one ??= state.settings[0];
}

function empty(stores) {
  main.replaceChildren(h("div", { class: "head" }, h("h1", {}, "Export")), h("section", { class: "card empty" }, h("p", {}, `No head is kept in ${stores.join(", ")}. Train one in `, h("a", { href: "/train" }, "Train"), ", or on the command line:"), h("pre", {}, "frostbench train CACHE --preset auto --out head")));
  main.dataset.state = "ready";
}

async function start() {
  try {
    const { settings, stores, problems } = await api("heads");
    state.settings = settings.sort((x, y) => mean(y) - mean(x));
    if (problems.length) fail(new Error(problems.join(" ")));
    if (!settings.length) { empty(stores); return; }
    choose();
    await load();
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

addEventListener("popstate", () => { if (state.settings.length) { choose(); load(); } });
start();
