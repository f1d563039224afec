// The search around B: which options are varied, their values, and how many settings are tried.
import { announce } from "../shared/bar.js";
import { h, renew } from "../shared/dom.js";
import { active, asText, form, fromText, options, rows } from "./form.js";

const KEPT = { method: "grid", trials: 20, rounds: 0 };
const SCALES = { list: "one of", log: "between (log)", linear: "between" };
export const search = { ...KEPT, options: [] };
/** Controls whose values contain commas: their values are separated by semicolons. */
const isListed = row => ["names", "numbers", "text"].includes(row.control);

/** The search as the server reads it. */
export function searchRequest() {
  const whole = search.method === "random" ? search.trials : 0;
  return { method: search.method, trials: whole, rounds: search.rounds, options: search.options.map(({ key, scale, text }) => ({ key, scale: scaleOf(rows.get(key), scale), values: parts(rows.get(key), text) })) };
}

const scaleOf = (row, scale) => search.method === "grid" || row.control !== "number" ? "list" : scale;
const parts = (row, text) => text.split(isListed(row) ? ";" : ",").map(part => part.trim()).filter(Boolean).map(part => fromText(row, part));

export function toParameters(parameters) {
  for (const [name, value] of Object.entries(KEPT)) if (search[name] !== value) parameters.set(`search.${name}`, search[name] ?? "");
  for (const { key, scale, text } of search.options) parameters.set(`try.${key}`, `${scale}: ${text}`);
}

/** Take what an address states; return what it names that does not exist. */
export function fromParameters(parameters) {
  const unknown = [], whole = name => fromText({ control: "number" }, parameters.get(name) ?? "");
  Object.assign(search, KEPT, { options: [] });
  if (parameters.get("search.method") === "random") search.method = "random";
  for (const name of ["trials", "rounds"]) if (parameters.has(`search.${name}`)) search[name] = whole(`search.${name}`);
  for (const [name, said] of parameters) {
    if (!name.startsWith("try.")) continue;
    const key = name.slice(4), [scale, ...text] = said.split(": ");
    if (!rows.has(key) || !SCALES[scale]) unknown.push(`search over ${key}`);
    else search.options.push({ key, scale, text: text.join(": ") });
  }
  return unknown;
}

/** Values to begin with, around that of B. */
function suggested(row) {
  const value = form.sides.B[row.key], inside = number => number >= (row.low ?? -Infinity) && number <= (row.high ?? Infinity);
  if (row.control === "choice") return row.choices.filter(name => !row.experimental_choices.includes(name)).join(", ");
  if (row.control === "flag") return "off, on";
  if (row.control !== "number" || typeof value !== "number" || value <= 0) return asText(row, value);
  const near = row.whole ? [Math.round(value / 2), value, 2 * value] : [value / 3, value, 3 * value];
  return [...new Set(near.map(number => Number(number.toPrecision(2))))].filter(inside).join(", ");
}

/** Return { element, show(), mark(fields) }; `change(kind)` is called when the search has changed. */
export function searchPanel(change) {
  const method = h("select", { class: "field", "aria-label": "How settings are chosen", change: () => { search.method = method.value; draw(); change("chosen"); } },
    h("option", { value: "grid" }, "Grid"), h("option", { value: "random" }, "Random"));
  const trials = h("input", { class: "field seeds", type: "text", inputmode: "numeric", "aria-label": "Trials", "aria-describedby": "trials-error", autocomplete: "off", input: () => { search.trials = fromText({ control: "number" }, trials.value); change("typed"); } });
  const trialsError = h("p", { class: "error", id: "trials-error", hidden: true });
  const trialsLine = h("div", { class: "seed-line" }, h("span", {}, h("b", {}, "Trials "), h("small", {}, "settings to draw; always the same ones, and more add to them")), trials);
  const rounds = h("select", { class: "field", "aria-label": "Successive halving", change: () => { search.rounds = Number(rounds.value); change("chosen"); } },
    h("option", { value: "0" }, "No halving"), [2, 3, 4, 5].map(number => h("option", { value: number }, `${number} rounds`)));
  const roundsError = h("p", { class: "error", hidden: true });
  const list = h("ul", { class: "tried" }), add = h("select", { class: "field", "aria-label": "Add an option to the search", change: () => { if (add.value) added(add.value); } });
  const element = h("div", { class: "search", hidden: true },
    h("small", {}, "Tries values of some options of B. The best is the one with the highest macro F1 on the validation images; test images take no part."),
    list, add, h("div", { class: "drawn" }, method, rounds), trialsLine, trialsError, h("small", {}, "Halving trains all briefly, then the best third three times as long, and so on."), roundsError);
  const drawn = new Map();
  let drawnFor = "";

  function added(key) {
    search.options.push({ key, scale: "list", text: suggested(rows.get(key)) });
    draw();
    drawn.get(key).input.focus();
    announce(`${rows.get(key).label} is in the search.`);
    change("chosen");
  }

  function removed(option) {
    search.options = search.options.filter(one => one !== option);
    draw();
    add.focus();
    announce(`${rows.get(option.key).label} is out of the search.`);
    change("chosen");
  }

  function item(option) {
    const row = rows.get(option.key), id = `tried-${search.options.indexOf(option)}-error`, error = h("p", { class: "error", id, hidden: true });
    const input = h("input", { class: "field", type: "text", autocomplete: "off", spellcheck: "false", "aria-label": `Values of ${row.label}`, "aria-describedby": id, value: option.text, input: () => { option.text = input.value; change("typed"); } });
    const scale = h("select", { class: "field", "aria-label": `How values of ${row.label} are drawn`, change: () => { option.scale = scale.value; change("chosen"); } }, Object.entries(SCALES).map(([name, title]) => h("option", { value: name }, title)));
    scale.value = option.scale;
    drawn.set(option.key, { input, error });
    return h("li", { "data-key": option.key }, h("span", {}, h("b", { title: row.path }, row.label), h("button", { class: "btn small", type: "button", "aria-label": `Remove ${row.label} from the search`, click: () => removed(option) }, "Remove")),
      search.method === "random" && row.control === "number" ? h("div", { class: "drawn" }, scale, input) : input, isListed(row) ? h("small", {}, "Separate the values with semicolons.") : [], error);
  }

  function draw() {
    drawn.clear();
    drawnFor = search.method;
    renew(list, ...search.options.map(item));
    trialsLine.hidden = search.method !== "random";
    trialsError.hidden = true;
    drawAdd();
  }

  function drawAdd() {
    const taken = new Set(search.options.map(({ key }) => key)), free = key => !taken.has(key) && active(rows.get(key), form.sides.B);
    const group = (title, keys) => keys.length ? h("optgroup", { label: title }, keys.map(key => h("option", { value: key }, rows.get(key).label))) : [];
    const made = [...options.usual, ...options.sections.flatMap(({ keys }) => keys)].filter(free), text = made.join();
    if (add.dataset.of === text) { add.value = ""; return; }
    add.dataset.of = text;
    add.replaceChildren(h("option", { value: "" }, "Add an option …"), ...[group("Usual", options.usual.filter(free)), ...options.sections.map(({ title, keys }) => group(title, keys.filter(free)))].flat());
    add.value = "";
  }

  function tell(input, place, message = "") {
    place.textContent = message;
    place.hidden = !message;
    if (message) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
  }

  return {
    element,
    /** Show the search that the form states. */
    show() {
      method.value = search.method;
      rounds.value = String(search.rounds);
      if (JSON.stringify(fromText({ control: "number" }, trials.value)) !== JSON.stringify(search.trials)) trials.value = search.trials ?? "";
      if (drawnFor !== search.method || search.options.length !== drawn.size || search.options.some(({ key, text }) => drawn.get(key)?.input.value !== text)) draw(); else drawAdd();
      trialsLine.hidden = search.method !== "random";
    },
    /** Mark the fields with an error, by key. */
    mark(fields) {
      for (const [key, { input, error }] of drawn) tell(input, error, fields[key]);
      tell(trials, trialsError, fields.trials);
      tell(rounds, roundsError, fields.rounds);
    },
  };
}
