// The settings of the card Decide: three sliders, and lists of named classes.
import { h, middle } from "../shared/dom.js";
import { state } from "./state.js";

/** Return the settings; `onChange(decision, isDone)` gets a new decision, and whether the hand has left the slider. */
export function controls(decision, found, onChange) {
  let now = decision;
  // A setting that only one of the heads takes stays open; the table says why the other one has no figures.
  const closed = field => ["a", "b"].every(side => found[side][field]) ? ["a", "b"].map(side => `${side.toUpperCase()}: ${found[side][field]}`).join(" ") : "";
  const noPrior = closed("why_no_prior"), noCutoffs = closed("why_no_cutoffs");
  const set = (changes, isDone = true) => { now = { ...now, ...changes }; onChange(now, isDone); };
  const percent = value => `${Math.round(100 * value)} %`;
  const uniform = slider("Class shares", { min: 0, max: 1, step: .05, value: now.uniform, disabled: Boolean(noPrior) }, value => value === 0 ? "as trained" : value === 1 ? "all classes alike" : `${percent(value)} of the way to alike`, (value, isDone) => set({ uniform: value }, isDone));
  const shareList = named({ title: "Shares that you know", hint: "in per cent; the other classes divide the rest", fields: [{ label: "Class" }], number: { label: "Share", min: 0, max: 100, step: "any", unit: " %" }, disabled: Boolean(noPrior),
    entries: Object.entries(now.shares).map(([name, share]) => [name, 100 * share]), onChange: entries => { uniform.input.disabled = Boolean(noPrior) || entries.length > 0; set({ shares: asMap(entries, value => value / 100), ...(entries.length ? { uniform: 0 } : {}) }); if (entries.length) uniform.set(0); } });
  uniform.input.disabled ||= Object.keys(now.shares).length > 0;
  return h("div", { class: "controls" },
    slider("Temperature", { min: -4, max: 4, step: .05, value: Math.log2(now.temperature) }, value => value === 0 ? "as trained" : `× ${(2 ** value).toFixed(2)}, ${value > 0 ? "less" : "more"} sure`, (value, isDone) => set({ temperature: 2 ** value }, isDone)).element,
    slider("No answer below", { min: 0, max: .99, step: .01, value: now.abstain_below }, value => value === 0 ? "always an answer" : percent(value), (value, isDone) => set({ abstain_below: value }, isDone)).element,
    uniform.element, shareList, noPrior ? h("small", {}, noPrior) : null,
    named({ title: "Costs", hint: "of named confusions; others cost 1, right answers 0", fields: [{ label: "Image of" }, { label: "called" }], number: { label: "costs", min: 0, max: 1e6, step: "any", unit: "" },
      entries: now.costs.map(({ label, predicted, cost }) => [label, predicted, cost]), onChange: entries => set({ costs: entries.map(([label, predicted, cost]) => ({ label, predicted, cost })) }) }),
    named({ title: "Cut-offs", hint: "divide the probability of a class: above 1 it is said less often, below 1 more often", fields: [{ label: "Class" }], number: { label: "Divide by", min: .001, max: 1000, step: "any", unit: "" }, disabled: Boolean(noCutoffs),
      entries: Object.entries(now.cutoffs), onChange: entries => set({ cutoffs: asMap(entries, value => value) }) }), noCutoffs ? h("small", {}, noCutoffs) : null);
}

const asMap = (entries, convert) => Object.fromEntries(entries.map(([name, value]) => [name, convert(value)]));

function slider(title, { value, ...range }, words, onValue) {
  const output = h("output", {}, words(value)), input = h("input", { type: "range", ...range, "aria-label": title });
  input.value = value;
  const show = isDone => { const number = Number(input.value); output.textContent = words(number); input.setAttribute("aria-valuetext", words(number)); onValue(number, isDone); };
  input.addEventListener("input", () => show(false));
  input.addEventListener("change", () => show(true));
  input.setAttribute("aria-valuetext", words(Number(value)));
  return { element: h("label", { class: "slider" }, h("span", {}, h("b", {}, title), " ", output), input), input, set: number => { input.value = number; output.textContent = words(number); } };
}

/** Return a list of entries [class, …, number] that can be added and removed; closed until it is opened or has some. */
function named({ title, hint, fields, number, entries, onChange, disabled = false }) {
  let now = [...entries];
  const list = h("ul", { class: "entries" }), total = h("small", {}), wrong = h("small", { class: "wrong", role: "alert" });
  const picks = fields.map(({ label }) => h("select", { class: "field", "aria-label": `${title}: ${label}`, disabled }, state.found.class_names.map(name => h("option", { value: name }, middle(name, 30)))));
  if (picks.length > 1) picks[1].selectedIndex = Math.min(1, state.found.class_names.length - 1);
  const value = h("input", { class: "field", type: "number", "aria-label": `${title}: ${number.label}`, min: number.min, max: number.max, step: number.step, disabled, keydown: event => { if (event.key === "Enter") add(); } });
  const opened = h("details", { open: now.length > 0 }, h("summary", {}, h("b", {}, title), " ", total), h("small", {}, hint), list,
    h("div", { class: "add" }, picks.map((pick, i) => [h("span", {}, fields[i].label), pick]).flat(), h("span", {}, number.label), value, h("button", { class: "btn", type: "button", disabled, click: add }, "Add")), wrong);

  function add() {
    const names = picks.map(pick => pick.value), amount = value.valueAsNumber;
    const bad = !(amount >= number.min && amount <= number.max) ? `The number must be from ${number.min} to ${number.max}.` : names.length > 1 && names[0] === names[1] ? "A right answer costs 0: choose two different classes." : "";
    wrong.textContent = bad;
    value.setAttribute("aria-invalid", String(Boolean(bad)));
    if (bad) return;
    now = [...now.filter(entry => names.some((name, i) => entry[i] !== name)), [...names, amount]];
    value.value = "";
    draw();
    onChange(now);
  }

  function remove(entry) {
    now = now.filter(one => one !== entry);
    draw();
    (list.querySelector("button") ?? value).focus();
    onChange(now);
  }

  function draw() {
    total.textContent = now.length ? String(now.length) : "none";
    list.replaceChildren(...now.map(entry => {
      const names = entry.slice(0, -1), text = names.map(name => middle(name, 24)).join(" called ");
      return h("li", { title: names.join(" called ") }, h("span", {}, text), h("b", {}, `${Number(entry.at(-1).toPrecision(4))}${number.unit}`), h("button", { class: "icon", type: "button", "aria-label": `Remove ${text} from ${title}`, click: () => remove(entry) }, "✕"));
    }));
  }

  draw();
  return opened;
}

