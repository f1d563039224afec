// The card Decide: temperature, class shares, cut-offs, costs and abstention, and what they change for A and B.
import { api, later } from "../shared/api.js";
import { announce } from "../shared/bar.js";
import { h, renew } from "../shared/dom.js";
import { figureTable, classTables } from "./decided.js";
import { controls } from "./deciding.js";
import { state } from "./state.js";

const SIDES = ["a", "b"];
const NEUTRAL = () => ({ temperature: 1, uniform: 0, shares: {}, cutoffs: {}, costs: [], abstain_below: 0 });
const same = (one, other) => JSON.stringify({ ...NEUTRAL(), ...one }) === JSON.stringify({ ...NEUTRAL(), ...other });
let decision = NEUTRAL();

/** Return the card; its `data-state` is loading, ready, missing, computing, impossible or failed. */
export function decideCard() {
  const part = () => h("div"), [figures, classes, export_, settings] = [part(), part(), part(), part()];
  const problem = h("p", { class: "problem", role: "alert", hidden: true }), body = h("div", { class: "body" });
  const card = h("section", { class: "card decide", "aria-labelledby": "decide", "data-state": "loading" },
    h("header", {}, h("h2", { id: "decide" }, "Decide"), h("small", {}, "what the head says, without training it again"), h("span", { class: "grow" }), h("button", { class: "btn", type: "button", click: () => set(NEUTRAL()) }, "As it is")), body);
  const asked = () => ({ store: state.b.store, a: state.a.keys, b: state.b.keys, reveal: state.found.role === "test" });
  let running = false, again = false, found = null, says = "";

  /** Ask for the figures; while one request runs, only the newest wish is remembered. */
  async function refresh() {
    if (running) { again = true; return; }
    running = true;
    do {
      again = false;
      try { take(await api("decide", { ...asked(), decision })); }
      catch (error) { if (!again) fail(error); }
    } while (again && card.isConnected);
    running = false;
  }

  function take(answer) {
    if (again) return;
    found = answer.sides;
    problem.hidden = true;
    const states = SIDES.map(side => found[side].state), is = ["impossible", "missing"].find(one => states.includes(one)) ?? "ready";
    if (is !== "ready") { body.replaceChildren(is === "missing" ? missing() : impossible()); card.dataset.state = is; return; }
    if (!body.contains(figures)) {
      body.replaceChildren(lead(), h("div", { class: "two" }, settings, h("div", {}, figures, problem)), export_, classes);
      settings.replaceChildren(controls(decision, found, change));
    }
    renew(figures, figureTable(found));
    renew(classes, classTables(found));
    drawExport();
    card.dataset.state = "ready";
    if (says) announce(says === "figures" ? spoken() : says);
    says = "";
  }

  function fail(error) {
    problem.textContent = error.message;
    problem.hidden = false;
    if (!body.contains(problem)) body.replaceChildren(problem);
    card.dataset.state = "failed";
  }

  function change(next, isDone) {
    decision = next;
    if (isDone) says = "figures";
    card.dataset.state = "loading";
    refresh();
  }

  function set(next) {
    change({ ...NEUTRAL(), ...next }, true);
    if (body.contains(settings)) renew(settings, controls(decision, found, change));
  }

  function spoken() {
    return SIDES.map(side => { if (found[side].refused) return `${side.toUpperCase()}: ${found[side].refused}`; const { macro_f1_fg: f1, coverage } = found[side].after; return `${side.toUpperCase()}: macro F1 ${f1 === null ? "–" : (100 * f1).toFixed(1)}, ${(100 * coverage).toFixed(1)} % answered.`; }).join(" ");
  }

  function lead() {
    const [a, b] = SIDES.map(side => found[side]), many = state.found.seeds.length > 1;
    const fitted = SIDES.filter(side => found[side].fitted_here).map(side => side.toUpperCase());
    const which = many ? `Seed ${a.seed} of A and seed ${b.seed} of B, which an export takes: the best of each on validation images. ` : "";
    const test = state.found.role === "test" ? h("p", { class: "warning" }, "These are test images. Settings that are chosen on them make the test result too good: look, but choose on validation images. Nothing can be kept here.") : null;
    const bias = fitted.length ? ` The temperature of ${fitted.join(" and ")} was fitted on these images too, so its log loss and ECE are a little too good here.` : "";
    return h("div", {}, test, h("p", {}, `${which}Figures are those of ${a.images.toLocaleString("en")} ${state.found.role === "test" ? "test" : "validation"} images, from the logits in the store.${bias}`));
  }

  function impossible() {
    return h("div", {}, SIDES.filter(side => found[side].state === "impossible").map(side => h("p", {}, h("b", { class: side }, side.toUpperCase()), ` ${found[side].why}`)));
  }

  function missing() {
    const sides = SIDES.filter(side => found[side].state === "missing").map(side => side.toUpperCase()).join(" and ");
    const here = state.b.here, many = sides.length > 1;
    const note = here ? "" : ` The cache ${state.b.cache} is needed for that, but it is not below the folder of the page.`;
    return h("p", {}, `The logits of ${sides} are not in the store yet. They are computed once from the head${many ? "s" : ""} and the cache, usually within seconds.${note} `,
      h("button", { class: "btn primary", type: "button", disabled: !here, click: compute }, "Compute the logits"));
  }

  async function compute() {
    card.dataset.state = "computing";
    body.replaceChildren(h("p", { role: "status" }, "Computing the logits …"));
    announce("Computing the logits.");
    try {
      await later("decide_logits", { ...asked(), cache: state.b.here });
      says = "The logits are in the store.";
      await refresh();
    } catch (error) { body.replaceChildren(missing()); body.append(problem); fail(error); }
  }

  function drawExport() {
    const isTest = state.found.role === "test";
    renew(export_, h("h3", {}, "Export"), ...SIDES.map(side => {
      const { kept, export: run } = found[side], isKept = kept !== null && same(kept, decision);
      const use = h("button", { class: "btn", type: "button", disabled: isTest || isKept || Boolean(found[side].refused) || same(decision, NEUTRAL()), click: () => keep(side, decision) }, `Use in export of ${side.toUpperCase()}`);
      if (kept === null) return h("p", {}, use);
      return h("p", { "data-kept": side }, use, h("span", {}, isKept ? " These settings are kept: " : " Other settings are kept: "), h("code", {}, `frostbench export ${run} --out head`), " ",
        isKept ? null : h("button", { class: "btn", type: "button", click: () => set(kept) }, `Show those of ${side.toUpperCase()}`), " ",
        h("button", { class: "btn", type: "button", click: () => keep(side, NEUTRAL()) }, `Remove from export of ${side.toUpperCase()}`));
    }));
  }

  async function keep(side, wanted) {
    try {
      const answer = await api("keep_decision", { ...asked(), side, decision: wanted });
      found[side].kept = answer.kept;
      problem.hidden = true;
      drawExport();
      announce(answer.kept ? `Kept for the export of ${side.toUpperCase()}.` : `Removed from the export of ${side.toUpperCase()}.`);
    } catch (error) { fail(error); }
  }

  refresh();
  return card;
}
