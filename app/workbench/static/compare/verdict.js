// The verdict in one sentence, and a tile per metric; pressing a tile makes it the metric of the sentence.
import { count, h, s, signed } from "../shared/dom.js";
import { figure, state, verdictOf } from "./state.js";

const FIRST = ["macro_f1_fg", "weighted_f1_fg", "balanced_accuracy", "recall_few", "ece", "nll"];

/** Return the card; `onMetric` is called after another metric was pressed. */
export function verdictCard(onMetric) {
  const { metrics } = state.found, metric = metrics.find(({ key }) => key === state.metric) ?? metrics[0];
  const more = metrics.filter(({ key }) => !FIRST.includes(key));
  const shown = [...FIRST.map(key => metrics.find(one => one.key === key)).filter(Boolean)];
  return h("section", { class: "card verdict", "aria-label": "Verdict" }, sentence(metric),
    h("div", { class: "tiles" }, shown.map(one => tile(one, one === metric, onMetric))),
    h("details", {}, h("summary", {}, `${more.length} more metrics`), h("div", { class: "tiles" }, more.map(one => tile(one, one === metric, onMetric)))));
}

function sentence(metric) {
  const { images, groups, seeds, role } = state.found, { delta, low, high, verdict } = metric;
  const unit = metric.share ? " points" : "", scale = metric.share ? 100 : 1, digits = metric.share ? 1 : 3;
  const won = { better: "B is better", worse: "A is better" }[verdict];
  const grouped = groups < images ? ` in ${count(groups, "group")}` : "";
  const said = delta === null ? `One of the settings has no ${metric.title}.` : `${won ?? "Can’t tell"} in ${metric.title}: B − A = ${signed(delta * scale, digits)}${unit}`;
  const span = low === null ? "" : ` (95 % interval ${signed(low * scale, digits)} to ${signed(high * scale, digits)})`;
  const settle = metric.settle ? ` If the difference is as large as it looks, ${metric.settle} would confirm it.` : "";
  const why = metric.why ? ` The interval excludes 0, but ${metric.why}.` : "";
  return h("div", { class: `said ${won ? (won[0] === "B" ? "good" : "bad") : ""}` }, h("p", { class: "main" }, h("strong", {}, said), span, "."),
    h("p", {}, `On the same ${count(images, `${role === "test" ? "test" : "validation"} image`)}${grouped}, ${seeds.length === 1 ? "seed" : "seeds"} ${seeds.join(", ")}.${why}${settle}`));
}

function tile(metric, pressed, onMetric) {
  const [words, kind] = verdictOf(metric.verdict), scale = metric.share ? 100 : 1, digits = metric.share ? 1 : 3;
  const change = metric.delta === null ? "–" : signed(metric.delta * scale, digits);
  return h("button", { class: "tile", type: "button", "aria-pressed": String(pressed), "data-metric": metric.key, title: metric.hint, click: () => { state.metric = metric.key; onMetric(); } },
    h("span", { class: "name" }, metric.title), h("span", { class: "pair" }, h("span", { class: "a" }, `A ${figure(metric, metric.a)}`), h("span", { class: "b" }, `B ${figure(metric, metric.b)}`)),
    h("span", { class: "change" }, h("b", {}, change), interval(metric)), h("span", { class: `chip ${kind}` }, words));
}

/** Return a bar from the lower to the upper end of the interval, around a line at no difference. */
export function interval({ low, high, delta }, reach = null) {
  if (low === null || high === null) return h("span", {}, "");
  const most = reach ?? Math.max(Math.abs(low), Math.abs(high), 1e-9) * 1.1, x = v => 50 + 48 * Math.max(-1, Math.min(1, v / most));
  const line = (x1, x2, y1, y2, stroke, width) => s("line", { x1, x2, y1, y2, stroke, "stroke-width": width, "vector-effect": "non-scaling-stroke" });
  return s("svg", { class: "interval", viewBox: "0 0 100 16", preserveAspectRatio: "none", "aria-hidden": "true" }, line(50, 50, 0, 16, "var(--edge)", 1), line(x(low), x(high), 8, 8, "var(--ink2)", 2.5), line(x(delta), x(delta), 3, 13, "var(--ink)", 3));
}
