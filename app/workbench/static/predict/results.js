// What the heads predict: progress, filters, pictures, and the sliders that move the probabilities.
import { api } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { arrows, count, h, middle, renew } from "../shared/dom.js";
import { markOf } from "./heads.js";
import { inspect } from "./inspector.js";
import { FILTERS, adjustment, chosen, className, cuts, state, unlike, unread, unsure } from "./state.js";

const MORE = 240, percent = (share, digits = 0) => `${(100 * share).toFixed(digits)} %`;

/** Return a picture of an image of the set. */
export const pictureOf = (i, size = 96) => h("img", { class: "picture", loading: "lazy", decoding: "async", alt: state.found.names[i], src: `/frostbench/predicted-pictures?${new URLSearchParams({ set: state.set, image: i, size })}` });

/** Return the card and what draws it anew; `onAdjust` is called when the probabilities have to be asked for again. */
export function resultsCard(onAdjust) {
  const hold = name => h("div", { "data-part": name });
  const element = h("section", { class: "card results", "aria-labelledby": "results" }, hold("head"), hold("filters"), sliders(() => draw(), onAdjust), hold("grid"));
  const part = name => element.querySelector(`[data-part=${name}]`);

  function draw() {
    const { found, set } = state, some = Boolean(found?.heads.length);
    element.dataset.images = found?.state ?? (set ? "opening" : "none");
    renew(part("head"), ...head());
    part("filters").hidden = element.querySelector(".sliders").hidden = !some;
    renew(part("filters"), ...(some ? [filters(draw)] : []));
    renew(part("grid"), ...(some ? [grid(chosen(), draw)] : []));
    element.querySelector("#cut-said").textContent = some ? sureText() : "";
  }
  return { element, draw };
}

function head() {
  const { found } = state;
  if (!found) return [h("header", {}, h("h2", { id: "results" }, "Predictions"), h("p", {}, state.set ? "The heads are being opened…" : "Choose images to see what the heads say of them."))];
  return [h("header", {}, h("h2", { id: "results" }, "Predictions"), progress(), h("span", { class: "grow" }), h("button", { class: "btn", type: "button", disabled: !found.heads.length, click: save }, "Download CSV")),
    found.error ? h("p", { class: "wrong", role: "alert" }, found.error) : "",
    found.notes.length ? h("ul", { class: "notes" }, found.notes.map(note => h("li", {}, note))) : ""];
}

function progress() {
  const { state: at, done, total } = state.found;
  if (at === "done") return h("small", {}, count(total, "image"));
  const said = `${done.toLocaleString("en")} of ${count(total, "image")}`;
  if (at !== "predicting") return h("small", {}, `${said}; ${at === "failed" ? "it failed" : "stopped"}`);
  return h("span", { class: "progress" }, h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: `width:${total ? 100 * done / total : 0}%` })), h("small", {}, said), h("button", { class: "btn", type: "button", click: () => api("stop-predicting", { set: state.set }).catch(fail) }, "Stop"));
}

function filters(onChange) {
  const buttons = Object.entries(FILTERS).filter(([key]) => key !== "disagree" || state.found.heads.length > 1).map(([key, [title]]) => h("button", { type: "button", "aria-pressed": String(state.filter === key), "data-filter": key, click: () => { state.filter = key; state.shown = MORE / 2; onChange(); } }, `${title} ${chosen(key).length.toLocaleString("en")}`));
  return h("div", { class: "filters" }, h("span", { class: "segments", role: "group", "aria-label": "Which images" }, buttons));
}

function slider(id, title, note, attributes, value, say, use) {
  const output = h("output", { for: id }, say(value));
  const input = h("input", { type: "range", id, "aria-describedby": `${id}-note`, ...attributes, value, input: event => { output.value = say(Number(event.target.value)); use(Number(event.target.value)); } });
  return h("div", { class: "slider" }, h("label", { for: id }, title), input, output, h("small", { id: `${id}-note` }, note));
}

function sliders(onChange, onAdjust) {
  const note = h("small", { id: "cut-said" });
  return h("div", { class: "sliders", hidden: true },
    h("div", {}, slider("cut", "Not sure below", "An answer with a smaller probability counts as not sure.", { min: 0, max: 1, step: 0.01 }, state.cut, value => percent(value), value => { state.cut = value; onChange(); }), note),
    slider("temperature", "Temperature", "Above 1: less confident. Below 1: more confident. The most probable class stays the same.", { min: 0.25, max: 4, step: 0.05 }, state.temperature, value => value.toFixed(2), value => { state.temperature = value; onAdjust(); }),
    slider("prior", "Class frequencies", "0: as in training. 1: all classes equally frequent.", { min: 0, max: 1, step: 0.05 }, state.prior, value => value.toFixed(2), value => { state.prior = value; onAdjust(); }));
}

/** Say what the cut does on validation images, and how often "unlike training" is a false alarm. */
function sureText() {
  const { facts } = state.found, at = Math.round(state.cut * cuts), many = facts.length > 1;
  const moved = state.temperature !== 1 || state.prior !== 0 ? " (measured without the sliders beside)" : "";
  return facts.map(({ sure, decision, unlike: guard, why_not: whyNot }, number) => {
    const who = many ? `Head ${number + 1}: ` : "";
    const cut = sure ? `on validation images ${percent(sure.below[at])} are below it${sure.right[at] === null ? "" : `, and ${percent(sure.right[at], 1)} of the others are right`}${moved}.` : "no validation images to measure it on.";
    const alarm = guard ? ` Unlike training: no training image is closer than cosine ${guard.threshold.toFixed(2)}; ${percent(guard.false_alarms, 1)} of ${count(guard.measured_on, "held-out image")} were flagged wrongly.` : ` Unlike training cannot be told: ${whyNot}.`;
    return `${who}${cut}${alarm}${decision ? ` With the decision kept in Compare: ${decision}.` : ""}`;
  }).map(text => text[0].toUpperCase() + text.slice(1)).join(" ");
}

function grid(images, onChange) {
  if (!images.length) return h("p", {}, "No image is of this kind.");
  const tiles = images.slice(0, state.shown).map((i, place) => h("div", { role: "listitem" }, tile(i, place)));
  const rest = images.length - state.shown;
  return h("div", {}, h("div", { class: "pictures", role: "list", keydown: arrows }, tiles), rest > 0 ? h("button", { class: "btn more", type: "button", click: () => { state.shown += MORE; onChange(); } }, `Show ${count(Math.min(rest, MORE), "more image", "more images")} of ${rest.toLocaleString("en")}`) : null);
}

function tile(i, place) {
  const { found } = state, name = found.names[i];
  if (unread(i)) return h("div", { class: "shot", title: `${name}\n${found.errors[i]}` }, h("span", { class: "picture missing" }, "not readable"), h("span", { class: "line" }, middle(name, 18)), h("span", { class: "line wrong" }, middle(found.errors[i], 36)));
  const said = found.heads.map((head, at) => h("span", { class: "line said" }, found.heads.length > 1 ? h("b", { class: markOf(at) }, `${at + 1}`) : "", h("span", { class: "name" }, className(at, head.classes[i])), percent(head.probabilities[i])));
  const flags = [unlike(i) ? h("span", { class: "chip bad" }, `unlike training${found.heads.length > 1 ? ` ${found.heads.flatMap((head, at) => (head.unlike[i] ? [at + 1] : [])).join(", ")}` : ""}`) : null, unsure(i) ? h("span", { class: "chip" }, "not sure") : null];
  return h("button", { type: "button", class: "shot", tabindex: place ? "-1" : "0", title: name, "data-image": i, click: () => inspect(i) }, pictureOf(i), h("span", { class: "line name" }, middle(name.split("/").at(-1), 18)), said, h("span", { class: "flags" }, flags));
}

async function save() {
  try {
    const content = await api("predictions-csv", { set: state.set, ...adjustment() });
    const link = h("a", { href: URL.createObjectURL(new Blob([content], { type: "text/csv" })), download: "predictions.csv" });
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) { fail(error); }
}
