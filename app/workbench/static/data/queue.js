// Labels to check, one at a time, the least likely first: keep, change, leave out, or come back later, with keys.
import { announce } from "../shared/bar.js";
import { count, h, middle, renew } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { swatch } from "../dataset/swatch.js";
import { copyButton } from "./copying.js";
import { nearest } from "../dataset/nearest.js";
import { pickClass } from "../dataset/picker.js";
import { canUndo, save, undo } from "../dataset/saving.js";
import { LEFT_OUT, className, labelOf, roleOf, state, toCheck } from "../dataset/state.js";

const FILM = 12;
const skipped = new Set();
let current = -1, pair = "";

/** Return the card of labels to check. */
export function queueCard() {
  const body = h("div", { class: "queue" }), film = h("div", { class: "film", role: "group", "aria-label": "Next labels to check" }), foot = h("p", {});
  const left = h("span", { class: "chip soft" });
  const which = h("select", { class: "field", "aria-label": "Which labels", change: event => { pair = event.target.value; current = -1; show(); } });
  const who = h("input", { class: "field who", "aria-label": "Your name, kept with your corrections", placeholder: "Your name", value: state.who, change: event => { state.who = event.target.value.trim(); localStorage.setItem("frostbench_who", state.who); } });
  const card = h("section", { class: "card checking", id: "labels", "aria-labelledby": "checking", tabindex: "-1", keydown: keys },
    h("header", {}, h("h2", { id: "checking" }, "Labels to check"), left, which, h("span", { class: "grow" }), who,
      h("p", {}, "The label and the images around it disagree. That can be a wrong label, or a hard image: look before you change it.")), body, film, foot);

  function waiting() {
    const all = toCheck();
    const fits = row => !pair || `${state.labels[row]}>${state.suspects.get(row).suggested}` === pair;
    return [...all.filter(row => !skipped.has(row)), ...all.filter(row => skipped.has(row))].filter(fits);
  }

  function show() {
    const { checks } = state;
    if (!checks) { body.replaceChildren(h("p", { class: "empty" }, "Comparing each label with the images around it …")); return; }
    choices(which);
    const rows = waiting();
    left.textContent = `${rows.length.toLocaleString("en")} left`;
    if (!rows.includes(current)) current = rows[0] ?? -1;
    renew(body, ...(current < 0 ? [nothing(checks)] : question()));
    film.replaceChildren(...rows.filter(row => row !== current).slice(0, FILM).map(small));
    foot.replaceChildren(...saved());
  }

  function small(row) {
    const suggested = className(state.suspects.get(row).suggested);
    return h("button", { type: "button", title: `${labelOf(row)}; others say ${suggested}`, "aria-label": `Check ${state.ids[row]}: ${labelOf(row)}, others say ${suggested}`, click: () => { current = row; show(); } }, picture(state.cache, state.ids[row]));
  }

  function question() {
    const row = current, { suggested, confidence } = state.suspects.get(row);
    const act = (key, title, action, kind = "") => h("button", { class: `btn ${kind}`, type: "button", "aria-keyshortcuts": key, click: action }, title, " ", h("kbd", {}, key));
    return [
      h("div", { class: "large" }, picture(state.cache, state.ids[row], { size: 320 }), h("small", { title: state.ids[row] }, middle(state.ids[row], 44), ` · ${roleOf(row)}`)),
      h("div", { class: "ask" },
        h("p", {}, "Labelled ", swatch(state.labels[row]), h("b", {}, labelOf(row)), `, which the other images give ${Math.round(100 * confidence)} %. They say `, swatch(suggested), h("b", {}, className(suggested)), "."),
        h("div", { class: "acts" }, act("K", `Keep ${middle(labelOf(row), 20)}`, keep), act("C", `Change to ${middle(className(suggested), 20)}`, change, "primary"), act("O", "Other class …", other), act("X", "Leave out", leaveOut), act("U", "Later", later), act("Z", "Undo", takeBack)),
      ),
      nearest(row),
    ];
  }

  const keep = () => decide(labelOf(current));
  const change = () => decide(className(state.suspects.get(current).suggested));
  const leaveOut = () => decide("");
  async function other() {
    const row = current, name = await pickClass(`Class of ${state.ids[row]}`, [state.suspects.get(row).suggested, state.labels[row]]);
    card.focus();
    if (name) await decide(name, row);
  }
  async function decide(name, row = current) { if (row >= 0) { await save([row], name); card.focus(); } }
  function later() { skipped.add(current); current = -1; announce("Comes back at the end."); show(); card.focus(); }
  async function takeBack() {
    const rows = await undo();
    if (rows.length) { current = rows[0]; show(); } else announce("There is nothing to take back.");
    card.focus();
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
    const action = { k: keep, c: change, o: other, x: leaveOut, u: later, z: takeBack }[event.key.toLowerCase()];
    if (!action || (current < 0 && !(action === takeBack && canUndo()))) return;
    event.preventDefault();
    action();
  }

  return { element: card, show, start() { card.scrollIntoView({ block: "start" }); card.focus({ preventScroll: true }); } };
}

function choices(which) {
  const lines = state.checks.confusions.map(({ label, suggested }) => ({ value: `${label}>${suggested}`, text: `${middle(className(label), 20)} that look like ${middle(className(suggested), 20)}` }));
  const there = toCheck().map(row => `${state.labels[row]}>${state.suspects.get(row).suggested}`);
  const sizes = new Map();
  for (const key of there) sizes.set(key, (sizes.get(key) ?? 0) + 1);
  const shown = lines.filter(({ value }) => sizes.has(value));
  if (!shown.some(({ value }) => value === pair)) pair = "";
  which.replaceChildren(h("option", { value: "" }, "All, the least likely first"), ...shown.map(({ value, text }) => h("option", { value }, `${text}: ${sizes.get(value)}`)));
  which.value = pair;
}

function nothing(checks) {
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
