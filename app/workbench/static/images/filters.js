// What the images are filtered and sorted by; all of it is in the address.
import { h, middle } from "../shared/dom.js";
import { LEFT_OUT, NO_LABEL, className, state } from "../dataset/state.js";

export const filters = { q: "", class: "", role: "", show: "", said: "", sort: "", run: "" };
const ROLES = { train: "Training", select: "Validation", calibrate: "Calibration", test: "Test" };
const SHOW = { check: "Labels to check", copy: "With a near-copy in training", changed: "Changed labels", checked: "Checked labels", out: "Left out", none: "Without a label" };
const SAID = { right: "Predicted right", wrong: "Predicted wrong" };
const SORT = { "": "In order of the data set", check: "Least likely label first", sure: "Surest prediction first", unsure: "Least sure prediction first" };

/** Read the filters of the address. */
export function readFilters() {
  const query = new URLSearchParams(location.search);
  for (const name of Object.keys(filters)) filters[name] = query.get(name) ?? "";
}

/** Set a filter, and the address. */
export function setFilter(name, value) {
  filters[name] = value;
  const query = new URLSearchParams({ cache: state.cache });
  for (const [key, text] of Object.entries(filters)) if (text) query.set(key, text);
  history.replaceState(null, "", `?${query}`);
}

/** Return the controls; `onChange` is called with the name of the filter. `runs` are the settings trained on this cache. */
export function controls(runs, onChange) {
  const set = name => event => { setFilter(name, event.target.value); onChange(name); };
  const pick = (name, label, all, choices) => {
    const element = h("select", { class: "field", "aria-label": label, change: set(name) }, h("option", { value: "" }, all), Object.entries(choices).filter(([value]) => value).map(([value, text]) => h("option", { value }, text)));
    element.value = filters[name];
    if (element.value !== filters[name]) setFilter(name, element.value = "");
    return element;
  };
  const classes = Object.fromEntries(state.names.map(name => [name, middle(name, 40)]));
  const said = pick("said", "What the setting says", "Right and wrong", SAID);
  said.disabled = !filters.run;
  said.title = filters.run ? "" : "Choose a trained setting first.";
  return h("div", { class: "tools" },
    h("input", { class: "field", type: "search", value: filters.q, placeholder: "Find by name or group", "aria-label": "Find images", input: set("q") }),
    pick("class", "Class", "All classes", classes), pick("role", "Role", "All roles", ROLES), pick("show", "State", "All images", SHOW),
    runs.length ? pick("run", "Trained setting", "No setting", Object.fromEntries(runs.map(({ id, name, seeds }) => [id, `${middle(name, 46)} (${seeds.length} ${seeds.length === 1 ? "seed" : "seeds"})`]))) : null,
    runs.length ? said : null,
    pick("sort", "Order", SORT[""], SORT));
}

/** Return the rows that pass the filters, in order. `said` are the predictions by row: { said, right, confidence }. */
export function filtered(said) {
  const words = filters.q.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = {
    check: row => state.suspects.has(row) && !state.checked.has(row) && state.labels[row] !== LEFT_OUT, copy: row => state.copies.has(row),
    changed: row => row in state.first, checked: row => state.checked.has(row), out: row => state.labels[row] === LEFT_OUT, none: row => state.labels[row] === NO_LABEL,
  }[filters.show] ?? (() => true);
  const text = row => `${state.ids[row]} ${state.groups?.[row] ?? ""}`.toLowerCase();
  const found = [...state.ids.keys()].filter(row =>
    (!filters.class || className(state.labels[row]) === filters.class) && (!filters.role || state.roleNames[state.roles[row]] === filters.role) && fits(row)
    && (!filters.said || (said.has(row) && (said.get(row).right >= 0.5) === (filters.said === "right"))) && words.every(word => text(row).includes(word)));
  return found.sort(order(said));
}

function order(said) {
  const last = 2, confidence = row => said.get(row)?.confidence;
  if (filters.sort === "check") return (a, b) => (state.suspects.get(a)?.confidence ?? last) - (state.suspects.get(b)?.confidence ?? last) || a - b;
  if (filters.sort === "sure") return (a, b) => (confidence(b) ?? -1) - (confidence(a) ?? -1) || a - b;
  if (filters.sort === "unsure") return (a, b) => (confidence(a) ?? last) - (confidence(b) ?? last) || a - b;
  return (a, b) => a - b;
}
