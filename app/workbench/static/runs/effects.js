// What makes a difference: settings against the one that is pinned as A.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, renew, s, signed } from "../shared/dom.js";
import { METRICS, pinned, remember, state } from "./state.js";

const MOST = 12;
export const element = h("section", { class: "card", "aria-labelledby": "effects" });

/** Return the setting that all others are compared with: the pinned one, or a plain one. */
export function base() {
  const { own } = state;
  return pinned("a") ?? own.find(row => row.name === "baseline") ?? own.find(row => row.preset === "baseline" || row.preset === "plain") ?? own[0];
}

/** Compare the best settings, or those chosen, with the pinned one. */
export async function compare(done = () => {}) {
  const from = base();
  state.differences = null;
  if (!from) { done(); return; }
  state.pinned.a = from.id;
  const seeds = from.seeds.join(), fits = row => row.id !== from.id && !row.members && row.seeds.join() === seeds;
  const candidates = state.own.filter(row => fits(row) && (!state.chosen.size || state.chosen.has(row.id)));
  const rows = candidates.slice(0, MOST);
  draw(from, rows, candidates.length, null);
  const asked = state.asked = {};
  if (!rows.length) { done(); return; }
  try {
    const reply = await api("differences", { store: from.store, base: from.keys, rows: Object.fromEntries(rows.map(row => [row.id, row.keys])) });
    if (asked !== state.asked) return;
    state.differences = reply;
    draw(from, rows, candidates.length, reply);
  } catch (error) {
    if (asked !== state.asked) return;
    draw(from, [], candidates.length, null);
    fail(error);
  }
  done();
}

const word = verdict => verdict === "better" ? ["better", "good"] : verdict === "worse" ? ["worse", "bad"] : [verdict.replace("can't", "can’t"), "soft"];

function draw(from, rows, of, reply) {
  const { title, up, scale, digits } = METRICS[state.metric];
  const pick = h("span", { class: "segments", role: "group", "aria-label": "Metric" }, Object.entries(METRICS).map(([key, metric]) =>
    h("button", { type: "button", "aria-pressed": String(key === state.metric), click: () => { state.metric = key; remember(); draw(from, rows, of, reply); } }, metric.title)));
  const lines = reply ? rows.map(row => ({ row, found: reply.lines[row.id]?.[state.metric] })).filter(({ found }) => found && found.delta !== null) : [];
  lines.sort((a, b) => (up ? -1 : 1) * (a.found.delta - b.found.delta));
  const reach = Math.max(...lines.flatMap(({ found }) => [Math.abs(found.low), Math.abs(found.high)]), 1e-9) * 1.05;
  const text = sentence(from, rows, of, reply, lines, title);
  element.dataset.state = reply ? "ready" : rows.length ? "computing" : "empty";
  renew(element, h("header", {}, h("h2", { id: "effects" }, "What makes a difference"), h("span", { class: "grow" }), pick, h("p", {}, text)));
  if (lines.length) element.append(grid(lines, reach, { up, scale, digits, from }), h("p", {}, note(reply, rows, of)));
  if (reply) announce(text);
}

function sentence(from, rows, of, reply, lines, title) {
  const real = lines.filter(({ found }) => ["better", "worse"].includes(found.verdict));
  if (reply && lines.length) return real.length ? `${real.length} of ${count(lines.length, "setting")} ${real.length === 1 ? "differs" : "differ"} from ${from.name} beyond doubt in ${title}.` : `No setting differs from ${from.name} beyond doubt in ${title}: the bars cross the line, or seeds or images are too few.`;
  if (reply) return `${title} is not defined for these settings.`;
  if (rows.length) return `Comparing ${count(rows.length, "setting")} with ${from.name} …`;
  return of ? "" : "Train a second setting with the same seeds to compare it: here only settings with the seeds of the pinned one are compared.";
}

function note(reply, rows, of) {
  const rest = of > rows.length ? ` The ${MOST} best of ${of.toLocaleString("en")} settings; choose others in the table.` : "";
  return `Bars are 95 % intervals over ${count(reply.images, "validation image")} in ${count(reply.groups, "group")} and the seeds ${reply.seeds.join(", ")}; verdicts are corrected for the number of settings.${rest}`;
}

function grid(lines, reach, { up, scale, digits, from }) {
  const titles = [h("span", { class: "title" }, `against ${from.name}`), h("span", { class: "title", "aria-hidden": "true" }, h("span", {}, up ? "← worse" : "← better"), h("span", {}, up ? "better →" : "worse →")), h("span", { class: "title num" }, "change"), h("span", { class: "title" }, "verdict")];
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
