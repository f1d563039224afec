// The tab Runs: what makes a difference, and every setting of every store.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { average, count, h, renew, s, signed } from "../shared/dom.js";
import { virtualTable } from "../shared/table.js";

const METRICS = {
  macro_f1_fg: { title: "Macro F1", up: true, scale: 100, digits: 1 },
  weighted_f1_fg: { title: "Weighted F1", up: true, scale: 100, digits: 1 },
  accuracy: { title: "Accuracy", up: true, scale: 100, digits: 1 },
  recall_few: { title: "Rare classes", up: true, scale: 100, digits: 1 },
  ece: { title: "Calibration error", up: false, scale: 100, digits: 1 },
  nll: { title: "Log loss", up: false, scale: 1, digits: 3 },
};
const MOST = 12, HEIGHT = 40;
const main = document.querySelector("#main");
const state = { all: [], shown: [], data: "", pinned: "", sort: "macro_f1_fg", down: true, query: "", metric: "macro_f1_fg", chosen: new Set(), differences: null };

const value = (row, key) => key === "name" ? row.name.toLowerCase() : key === "seconds" ? row.seconds : average(row.values[key]);
const short = path => path.split("/").filter(Boolean).slice(-2).join("/");

function read(parameters) {
  state.data = parameters.get("data") ?? "";
  state.query = parameters.get("q") ?? "";
  state.pinned = parameters.get("pinned") ?? "";
  if (METRICS[parameters.get("metric")]) state.metric = parameters.get("metric");
}

function remember() {
  const parameters = new URLSearchParams();
  for (const [key, name] of [["data", "data"], ["q", "query"], ["pinned", "pinned"], ["metric", "metric"]]) if (state[name]) parameters.set(key, state[name]);
  history.replaceState(null, "", `?${parameters}`);
}

function groups() {
  const found = new Map();
  for (const row of state.all) {
    const key = `${row.data} ${row.store}`;
    if (!found.has(key)) found.set(key, { key, cache: row.cache, store: row.store, rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.values()].sort((a, b) => b.rows.length - a.rows.length);
}

const own = () => state.all.filter(row => `${row.data} ${row.store}` === state.data);
const pinned = () => own().find(row => row.id === state.pinned);

// What is on the page, from top to bottom.
const head = h("div", { class: "head" }), effects = h("section", { class: "card", "aria-labelledby": "effects" }), runs = h("section", { class: "card runs", "aria-label": "All settings" });
const bulk = h("div", { class: "bulk", role: "toolbar", "aria-label": "Chosen settings", hidden: true });
const filter = h("input", { class: "field", type: "search", placeholder: "Find: arcface, smoothing 0.1 …", "aria-label": "Find settings", input: event => { state.query = event.target.value; remember(); show(); } });

const table = virtualTable({
  label: "Settings", height: HEIGHT, onSort: sortBy,
  attributes: row => ({ "data-id": row.id, "data-chosen": state.chosen.has(row.id) }),
  columns: [
    { key: "choose", title: "", says: "Choose", cell: row => h("input", { type: "checkbox", "aria-label": `Choose ${row.name}`, checked: state.chosen.has(row.id), change: event => choose(row, event.target.checked) }) },
    { key: "name", title: "Setting", sort: true, cell: name },
    { key: "macro_f1_fg", title: "Macro F1", numeric: true, sort: true, cell: strip },
    ...Object.entries(METRICS).slice(1).map(([key, { title }]) => ({ key, title, numeric: true, sort: true, cell: row => figure(row, key) })),
    { key: "seconds", title: "Seconds", numeric: true, sort: true, cell: row => row.seconds.toFixed(1) },
    { key: "pin", title: "", says: "Compare with", cell: row => row.id === state.pinned ? h("span", { class: "chip soft" }, "compared with") : h("button", { class: "btn", type: "button", "aria-label": `Pin: compare all with ${row.name}`, click: () => pin(row) }, "Pin") },
  ],
});

function name(row) {
  const all = row.changes.map(change => `${change.title}: ${change.old || "–"} → ${change.new || "–"}`).join("\n");
  return h("span", { class: "name", title: `${row.preset}\n${all}` }, h("b", {}, row.name), " ", h("small", {}, count(row.seeds.length, "seed")), row.members ? [" ", h("span", { class: "chip soft" }, `ensemble of ${row.members}`)] : []);
}

function figure(row, key) {
  const { scale, digits } = METRICS[key], found = average(row.values[key]);
  return found === null ? "–" : (found * scale).toFixed(digits);
}

// A dot for each seed and a line for their mean.
function strip(row) {
  const values = (row.values.macro_f1_fg ?? []).filter(v => v !== null), [low, high] = state.range ?? [0, 1];
  const x = v => 4 + 88 * (v - low) / Math.max(high - low, 1e-9);
  const dots = values.map(v => s("circle", { cx: x(v), cy: 10, r: 2.6, fill: "var(--edge)" }));
  const middle = values.length ? [s("line", { x1: x(average(values)), x2: x(average(values)), y1: 3, y2: 17, stroke: "var(--accent)", "stroke-width": 2.5 })] : [];
  return h("span", { class: "strip" }, s("svg", { viewBox: "0 0 96 20", "aria-hidden": "true" }, s("line", { x1: 0, x2: 96, y1: 10, y2: 10, stroke: "var(--line)" }), dots, middle), figure(row, "macro_f1_fg"));
}

function sortBy(key) {
  state.down = state.sort === key ? !state.down : key !== "name" && (METRICS[key]?.up ?? false);
  state.sort = key;
  show();
}

function show() {
  const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = row => `${row.name} ${row.preset} ${row.changes.map(c => `${c.title} ${c.path} ${c.new}`).join(" ")}`.toLowerCase();
  const sign = state.down ? -1 : 1;
  const missing = v => v === null || v === undefined;
  state.shown = own().filter(row => words.every(word => text(row).includes(word))).sort((a, b) => {
    const [x, y] = [value(a, state.sort), value(b, state.sort)];
    if (missing(x) || missing(y)) return missing(x) - missing(y);
    return sign * (x > y ? 1 : x < y ? -1 : 0);
  });
  const means = own().map(row => row.values.macro_f1_fg ?? []).flat().filter(v => v !== null);
  state.range = [Math.min(...means), Math.max(...means)];
  table.show(state.shown, { key: state.sort, down: state.down });
  runs.querySelector(".found").textContent = `${count(state.shown.length, "setting")} of ${own().length.toLocaleString("en")}`;
}

function choose(row, on) {
  if (on) state.chosen.add(row.id); else state.chosen.delete(row.id);
  show();
  showBulk();
}

function showBulk() {
  const size = state.chosen.size;
  bulk.hidden = !size;
  renew(bulk, h("span", {}, h("b", {}, size), " chosen"),
    h("button", { class: "btn", type: "button", click: differences }, "Compare these"),
    ...(size === 2 ? [sideBySide(...state.chosen)] : []),
    h("button", { class: "btn", type: "button", click: () => { state.chosen.clear(); show(); showBulk(); differences(); } }, "Clear"));
}

/** Return a link to the tab Compare for two settings; the pinned one, or the worse one, is A. */
function sideBySide(one, other) {
  const rows = [one, other].map(id => own().find(row => row.id === id)).sort((x, y) => (y.id === state.pinned) - (x.id === state.pinned) || value(x, "macro_f1_fg") - value(y, "macro_f1_fg"));
  return h("a", { class: "btn", href: `/compare?${new URLSearchParams({ store: rows[0].store, a: rows[0].id, b: rows[1].id })}` }, "Side by side");
}

function pin(row) { state.pinned = row.id; remember(); show(); differences(); }

// The best settings, or those chosen, against the pinned one.
async function differences() {
  const base = pinned() ?? own().find(row => row.name === "baseline") ?? own().find(row => row.preset === "baseline" || row.preset === "plain") ?? own()[0];
  if (!base) return;
  state.pinned = base.id;
  const fits = row => row.id !== base.id && !row.members && row.seeds.join() === base.seeds.join();
  const candidates = own().filter(row => fits(row) && (!state.chosen.size || state.chosen.has(row.id)));
  const rows = candidates.slice(0, MOST);
  drawEffects(base, rows, candidates.length, null);
  if (!rows.length) return;
  const asked = state.asked = {};
  try {
    const reply = await api("differences", { store: base.store, base: base.keys, rows: Object.fromEntries(rows.map(row => [row.id, row.keys])) });
    if (asked === state.asked) { state.differences = reply; drawEffects(base, rows, candidates.length, reply); }
  } catch (error) { if (asked === state.asked) { drawEffects(base, [], candidates.length, null); fail(error); } }
}

const word = verdict => verdict === "better" ? ["better", "good"] : verdict === "worse" ? ["worse", "bad"] : [verdict.replace("can't", "can’t"), "soft"];

function drawEffects(base, rows, of, reply) {
  const { title, up, scale, digits } = METRICS[state.metric];
  const pick = h("span", { class: "segments", role: "group", "aria-label": "Metric" }, Object.entries(METRICS).map(([key, metric]) =>
    h("button", { type: "button", "aria-pressed": String(key === state.metric), click: () => { state.metric = key; remember(); drawEffects(base, rows, of, reply); } }, metric.title)));
  const lines = reply ? rows.map(row => ({ row, found: reply.lines[row.id]?.[state.metric] })).filter(({ found }) => found && found.delta !== null) : [];
  lines.sort((a, b) => (up ? -1 : 1) * (a.found.delta - b.found.delta));
  const reach = Math.max(...lines.flatMap(({ found }) => [Math.abs(found.low), Math.abs(found.high)]), 1e-9) * 1.05;
  const real = lines.filter(({ found }) => ["better", "worse"].includes(found.verdict));
  let sentence = "";
  if (reply && lines.length) sentence = real.length ? `${real.length} of ${count(lines.length, "setting")} ${real.length === 1 ? "differs" : "differ"} from ${base.name} beyond doubt in ${title}.` : `No setting differs from ${base.name} beyond doubt in ${title}: the bars cross the line, or seeds or images are too few.`;
  else if (reply) sentence = `${title} is not defined for these settings.`;
  else if (rows.length) sentence = `Comparing ${count(rows.length, "setting")} with ${base.name} …`;
  else sentence = of ? "" : "Train a second setting with the same seeds to compare it: here only settings with the seeds of the pinned one are compared.";
  effects.dataset.state = reply ? "ready" : rows.length ? "computing" : "empty";
  renew(effects, h("header", {}, h("h2", { id: "effects" }, "What makes a difference"), h("span", { class: "grow" }), pick, h("p", {}, sentence)));
  if (lines.length) effects.append(grid(lines, reach, { up, scale, digits, base }), h("p", {}, note(reply, rows, of)));
  if (reply) announce(sentence);
}

function note(reply, rows, of) {
  const rest = of > rows.length ? ` The ${MOST} best of ${of} settings; choose others in the table.` : "";
  return `Bars are 95 % intervals over ${count(reply.images, "validation image")} in ${count(reply.groups, "group")} and the seeds ${reply.seeds.join(", ")}; verdicts are corrected for the number of settings.${rest}`;
}

function grid(lines, reach, { up, scale, digits, base }) {
  const titles = [h("span", { class: "title" }, `against ${base.name}`), h("span", { class: "title", "aria-hidden": "true" }, h("span", {}, up ? "← worse" : "← better"), h("span", {}, up ? "better →" : "worse →")), h("span", { class: "title num" }, "change"), h("span", { class: "title" }, "verdict")];
  const x = v => 50 + 48 * v / reach;
  return h("div", { class: "effects" }, titles, lines.flatMap(({ row, found }) => {
    const [text, kind] = word(found.verdict), colour = kind === "soft" ? "var(--edge)" : `var(--${kind})`;
    const bar = s("svg", { viewBox: "0 0 100 32", preserveAspectRatio: "none", role: "img", "aria-label": `from ${signed(found.low * scale, digits)} to ${signed(found.high * scale, digits)}` },
      s("line", { x1: 50, x2: 50, y1: 0, y2: 32, stroke: "var(--edge)", "stroke-width": 1, "vector-effect": "non-scaling-stroke" }),
      s("line", { x1: x(found.low), x2: x(found.high), y1: 16, y2: 16, stroke: colour, "stroke-width": 3, "vector-effect": "non-scaling-stroke" }),
      s("line", { x1: x(found.delta), x2: x(found.delta), y1: 9, y2: 23, stroke: colour, "stroke-width": 4, "vector-effect": "non-scaling-stroke" }));
    return [h("span", { title: row.name }, h("span", { class: "text" }, row.name)), h("span", {}, bar), h("span", {}, h("b", {}, signed(found.delta * scale, digits))), h("span", {}, h("span", { class: `chip ${kind}` }, text))];
  }));
}

function drawHead(found, problems) {
  const choice = h("select", { class: "field", "aria-label": "Data", change: event => { state.data = event.target.value; state.pinned = ""; state.chosen.clear(); remember(); show(); showBulk(); differences(); } },
    found.map(({ key, cache, store, rows }) => h("option", { value: key }, `${short(cache)} in ${short(store)}: ${count(rows.length, "setting")}`)));
  choice.value = state.data;
  head.replaceChildren(h("h1", {}, "Runs"), choice, h("span", { class: "grow" }), h("a", { class: "btn primary", href: "/train" }, "New run"));
  if (problems.length) fail(new Error(problems.join(" ")));
}

async function start() {
  read(new URLSearchParams(location.search));
  try {
    const { settings, problems, stores } = await api("runs");
    state.all = settings;
    const found = groups();
    if (!found.some(group => group.key === state.data)) state.data = found[0]?.key ?? "";
    drawHead(found, problems);
    if (!found.length) {
      const empty = h("section", { class: "card empty" }, h("p", {}, `No runs yet in ${stores.join(", ")}. Train some here, or on the command line:`), h("pre", {}, "frostbench bench run factorial --cache CACHE"));
      main.replaceChildren(head, empty);
    } else {
      filter.value = state.query;
      runs.replaceChildren(h("div", { class: "tools" }, filter, h("small", { class: "found" })), table.element);
      main.replaceChildren(head, effects, runs, bulk);
      show();
      differences();
    }
    main.dataset.state = "ready";
  } catch (error) { main.dataset.state = "failed"; fail(error); }
}

start();
