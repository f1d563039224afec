// Labels to check, the least likely first, or images to label next: one at a time, with keys.
import { later as ready } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, middle, renew } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { swatch } from "../dataset/swatch.js";
import { copyButton } from "./copying.js";
import { nearest } from "../dataset/nearest.js";
import { pickClass } from "../dataset/picker.js";
import { canUndo, save, undo } from "../dataset/saving.js";
import { LEFT_OUT, className, labelOf, roleOf, state, takeNext, toCheck, toLabel } from "../dataset/state.js";

export const NEXT = "next";
const FILM = 12, FEW = 5;
const skipped = new Set();
let current = -1, pair = "", asked = -1;

const isNext = () => pair === NEXT;
const says = row => (isNext() ? state.next : state.suspects).get(row);

/** Return the card of labels to check. */
export function queueCard() {
  const body = h("div", { class: "queue" }), film = h("div", { class: "film", role: "group", "aria-label": "Next labels to check" }), foot = h("p", {});
  const left = h("span", { class: "chip soft" });
  const which = h("select", { class: "field", "aria-label": "Which labels", change: event => { pair = event.target.value; current = -1; show(); } });
  const why = h("p", {}), title = h("h2", { id: "checking" }, "Labels to check");
  const who = h("input", { class: "field who", "aria-label": "Your name, kept with your corrections", placeholder: "Your name", value: state.who, change: event => { state.who = event.target.value.trim(); localStorage.setItem("frostbench_who", state.who); } });
  const card = h("section", { class: "card checking", id: "labels", "aria-labelledby": "checking", tabindex: "-1", keydown: keys },
    h("header", {}, title, left, which, h("span", { class: "grow" }), who,
      why), body, film, foot);

  function waiting() {
    const left = new Set(isNext() ? toLabel() : toCheck()), all = [...(isNext() ? state.next : state.suspects).keys()].filter(row => left.has(row));
    const fits = row => !pair || isNext() || `${state.labels[row]}>${says(row).suggested}` === pair;
    return [...all.filter(row => !skipped.has(row)), ...all.filter(row => skipped.has(row))].filter(fits);
  }

  function show() {
    const { checks } = state;
    if (!checks) { body.replaceChildren(h("p", { class: "empty" }, "Comparing each label with the images around it …")); return; }
    choices(which);
    title.textContent = isNext() ? "Label these next" : "Labels to check";
    why.textContent = isNext() ? "Images without a label, those first whose label should help most: unlike one another, and hard to tell." : "The label and the images around it disagree. That can be a wrong label, or a hard image: look before you change it.";
    if (isNext()) askNext();
    const rows = waiting();
    left.textContent = `${(isNext() ? toLabel() : rows).length.toLocaleString("en")} left`;
    if (!rows.includes(current)) current = rows[0] ?? -1;
    renew(body, ...(current < 0 ? [nothing(checks)] : question()));
    film.replaceChildren(...rows.filter(row => row !== current).slice(0, FILM).map(small));
    foot.replaceChildren(...saved());
  }

  /** Rank the images without a label again when few of the ranked ones are left. */
  async function askNext() {
    const count = toLabel().length;
    if (asked === count || waiting().length >= Math.min(FEW, count)) return;
    asked = count;
    card.dataset.next = "ranking";
    try { takeNext(await ready("next", { cache: state.cache })); } catch (error) { fail(error); pair = ""; }
    card.dataset.next = "ready";
    show();
  }

  function small(row) {
    const { suggested: number } = says(row), suggested = number < 0 ? "nothing" : className(number);
    return h("button", { type: "button", title: `${labelOf(row)}; others say ${suggested}`, "aria-label": `Check ${state.ids[row]}: ${labelOf(row)}, others say ${suggested}`, click: () => { current = row; show(); } }, picture(state.cache, state.ids[row]));
  }

  function question() {
    const row = current, { suggested, confidence } = says(row), knows = suggested >= 0;
    const act = (key, title, action, kind = "") => h("button", { class: `btn ${kind}`, type: "button", "aria-keyshortcuts": key, click: action }, title, " ", h("kbd", {}, key));
    return [
      h("div", { class: "large" }, picture(state.cache, state.ids[row], { size: 320 }), h("small", { title: state.ids[row] }, middle(state.ids[row], 44), ` · ${roleOf(row)}`)),
      h("div", { class: "ask" },
        isNext() ? h("p", {}, "No label yet. ", ...(knows ? ["The labelled images say ", swatch(suggested), h("b", {}, className(suggested)), `, ${Math.round(100 * confidence)} % sure.`] : ["Only one class is known so far."])) : h("p", {}, "Labelled ", swatch(state.labels[row]), h("b", {}, labelOf(row)), `, which the other images give ${Math.round(100 * confidence)} %. They say `, swatch(suggested), h("b", {}, className(suggested)), "."),
        h("div", { class: "acts" }, isNext() ? null : act("K", `Keep ${middle(labelOf(row), 20)}`, keep), knows ? act("C", `${isNext() ? "It is" : "Change to"} ${middle(className(suggested), 20)}`, change, "primary") : null, act("O", knows ? "Other class …" : "Class …", other), act("X", "Leave out", leaveOut), act("U", "Later", later), act("Z", "Undo", takeBack)),
      ),
      nearest(row),
    ];
  }

  const keep = () => isNext() ? null : decide(labelOf(current));
  const change = () => says(current).suggested < 0 ? other() : decide(className(says(current).suggested));
  const leaveOut = () => decide("");
  async function other() {
    const row = current, name = await pickClass(`Class of ${state.ids[row]}`, [says(row).suggested, state.labels[row]].filter(number => number >= 0));
    card.focus();
    if (name) await decide(name, row);
  }
  async function decide(name, row = current) { if (row >= 0) { await save([row], name); card.focus(); } }
  function later() { skipped.add(current); current = -1; announce("Comes back at the end."); show(); card.focus(); }
  async function takeBack() {
    const rows = await undo();
    if (rows.length) { pair = says(rows[0]) ? pair : state.next.has(rows[0]) ? NEXT : ""; current = rows[0]; show(); } else announce("There is nothing to take back.");
    card.focus();
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    const action = { k: keep, c: change, o: other, x: leaveOut, u: later, z: takeBack }[event.key.toLowerCase()];
    if (!action || (current < 0 && !(action === takeBack && canUndo()))) return;
    event.preventDefault();
    action();
  }

  return { element: card, show, start(source = "") { pair = source; current = -1; show(); card.scrollIntoView({ block: "start" }); card.focus({ preventScroll: true }); } };
}

function choices(which) {
  const lines = state.checks.confusions.map(({ label, suggested }) => ({ value: `${label}>${suggested}`, text: `${middle(className(label), 20)} that look like ${middle(className(suggested), 20)}` }));
  const there = toCheck().map(row => `${state.labels[row]}>${state.suspects.get(row).suggested}`);
  const sizes = new Map();
  for (const key of there) sizes.set(key, (sizes.get(key) ?? 0) + 1);
  const shown = lines.filter(({ value }) => sizes.has(value));
  const without = toLabel().length;
  if (!(isNext() && without) && !shown.some(({ value }) => value === pair)) pair = "";
  which.replaceChildren(h("option", { value: "" }, "All, the least likely first"), ...(without ? [h("option", { value: NEXT }, `Label these next: ${without.toLocaleString("en")} without a label`)] : []), ...shown.map(({ value, text }) => h("option", { value }, `${text}: ${sizes.get(value)}`)));
  which.value = pair;
}

function nothing(checks) {
  if (isNext()) return h("p", { class: "empty" }, "Finding the images whose labels help most …");
  if (checks.reason) return h("p", { class: "empty" }, checks.reason);
  return h("p", { class: "empty" }, state.checked.size ? "Nothing is left to check." : "Every label agrees with the images around it.");
}

function saved() {
  const changes = Object.keys(state.first).length;
  if (!state.checked.size) return ["Your decisions go into a file beside the cache, which itself stays as it is."];
  const out = state.labels.filter(label => label === LEFT_OUT).length;
  const what = `${count(state.checked.size, "label")} checked, ${changes.toLocaleString("en")} changed${out ? ` (${out.toLocaleString("en")} left out)` : ""}, in ${state.file}. `;
  return [what, h("a", { class: "btn", href: `/train?${new URLSearchParams({ data: state.cache, labels: "corrected" })}` }, "Train with them"), " ", copyButton("Copy the command that trains with them", `frostbench train ${state.cache} --labels ${state.file}`)];
}
