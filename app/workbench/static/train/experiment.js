// What an experiment would train, in lines: how much, what exists already, what is left out, its rounds and settings.
import { count, h } from "../shared/dom.js";

/** Whether all runs of a plan exist already. */
export const isFound = plan => plan.runs !== undefined && plan.found === plan.runs;

/** Return the lines of a plan. */
export function planLines(kind, plan) {
  if (plan.problems.length) return [];
  const total = h("li", {}, h("b", {}, `${count(plan.rows.length, "setting")} × ${count(plan.seeds, "seed")}: `), totalText(plan));
  const rounds = plan.rounds.map(({ settings, epochs }, i) => h("li", {}, `Round ${i + 1}: ${count(settings, "setting")} for ${count(epochs, "epoch")}`));
  const skipped = plan.skipped.map(({ name, reason }) => h("li", { class: "skipped" }, h("b", {}, kind === "changes" ? `Not alone: ${name}. ` : `${name}. `), reason));
  return [total, ...rounds, ...skipped];
}

/** Return the settings of a plan by name, with the runs that exist already. */
export function planSettings(plan) {
  return plan.rows.map(({ name, found }) => h("li", {}, name, found ? h("small", {}, ` ${found} of ${count(plan.seeds, "run")} there already`) : []));
}

function totalText({ runs, found, unknown, rounds }) {
  const all = rounds.length ? `${count(runs, "run")} in ${count(rounds.length, "round")}` : count(runs, "run");
  if (found === null) return `${all}; ${unknown}`;
  return found === runs ? `${all}, all there already` : found ? `${all}, ${found} there already` : `${all} to train`;
}
