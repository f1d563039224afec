// Controls of options: one field per row and side, with its error.
import { h, renew } from "../shared/dom.js";
import { MARK, asText, fromText, joined, split } from "./form.js";

const CHIPS = 12;
let number = 0;

/**
 * Return a field: { element, show(value), mark({ error, disabled, reason, names }) }.
 * @param row     the option
 * @param side    "A", "B" or "" where both share the option
 * @param change  called with the value, and whether it is typed text
 */
export function field(row, side, change) {
  const id = `field-${++number}`, label = side ? `${side}: ${row.label}` : row.label;
  const error = h("p", { class: "error", id: `${id}-error`, hidden: true });
  const common = { id, "aria-label": label, "data-key": row.key, "data-side": side || "both" };
  const made = row.control === "choice" ? choice(row, common, change) : row.control === "flag" ? flag(row, common, change) : text(row, common, change);
  const element = h("div", { class: `cell ${side ? `side-${side}` : ""}` }, side ? h("span", { class: "mark", "aria-hidden": "true" }, MARK[side]) : [], made.box, error);
  return { element, show: made.show, input: made.input, mark(state) { mark(made, error, state); } };
}

function mark({ input, suggest }, error, { message = "", disabled = false, reason = "", names = null, described = "" }) {
  input.disabled = disabled;
  input.title = reason;
  if (message) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
  const about = [message && error.id, described].filter(Boolean).join(" ");
  if (about) input.setAttribute("aria-describedby", about); else input.removeAttribute("aria-describedby");
  if (error.textContent !== message) error.textContent = message;
  error.hidden = !message;
  if (names && suggest) suggest(names, disabled);
}

function choice(row, common, change) {
  const option = name => h("option", { value: name }, name);
  const core = row.choices.filter(name => !row.experimental_choices.includes(name));
  const more = row.experimental_choices.length ? h("optgroup", { label: "Experimental" }, row.experimental_choices.map(option)) : [];
  const input = h("select", { ...common, class: "field", change: () => change(input.value, false) }, core.map(option), more);
  return { box: input, input, show(value) { input.value = value; } };
}

function flag(row, common, change) {
  const word = h("span", {}, "off");
  const input = h("input", { ...common, type: "checkbox", role: "switch", change: () => { word.textContent = input.checked ? "on" : "off"; change(input.checked, false); } });
  return { box: h("label", { class: "flag" }, input, word), input, show(value) { input.checked = value; word.textContent = value ? "on" : "off"; } };
}

function text(row, common, change) {
  const hints = { number: row.optional ? `empty: ${row.empty || "none"}` : "", numbers: "768, 384", names: row.empty || (row.key === "columns" ? "the first" : "none"), text: "{}", line: "" };
  const mode = row.control === "number" ? (row.whole ? "numeric" : "decimal") : null;
  const input = h("input", { ...common, class: "field", type: "text", autocomplete: "off", spellcheck: "false", inputmode: mode, placeholder: hints[row.control], input: () => change(fromText(row, input.value), true) });
  const chips = h("div", { class: "names" });
  const box = row.control === "names" ? h("div", {}, input, chips) : input;
  const show = value => {
    // The text of a field that already means the value stays as it was typed.
    if (JSON.stringify(fromText(row, input.value)) !== JSON.stringify(value)) input.value = asText(row, value);
  };
  return { box, input, show, suggest: row.control === "names" ? suggest : null };

  // Buttons that add or remove one of the first names; others are typed.
  function suggest(names, disabled) {
    const chosen = split(input.value), key = JSON.stringify([names, chosen, disabled]);
    if (chips.dataset.of === key) return;
    chips.dataset.of = key;
    const few = names.slice(0, CHIPS);
    renew(chips, ...few.map(name => h("button", {
      type: "button", class: "name", title: name, "aria-pressed": String(chosen.includes(name)), disabled,
      click: () => {
        const now = split(input.value);
        input.value = joined(now.includes(name) ? now.filter(other => other !== name) : [...now, name]);
        change(split(input.value), false);
      },
    }, name)), ...(names.length > few.length ? [h("small", {}, `and ${names.length - few.length} more: type their names`)] : []));
  }
}
