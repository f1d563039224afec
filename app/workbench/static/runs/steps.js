// What to do next: proposals, each with its figure and a button or link.
import { api } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { h, renew } from "../shared/dom.js";
import { load } from "./acts.js";
import { base } from "./effects.js";
import { state } from "./state.js";

const SHOWN = 4;
export const element = h("section", { class: "card steps", "aria-label": "What to do next" });
let wanted = 0, all = false;

/** Ask what to do next about the pinned settings, or the best one against the one that is compared with. */
export async function propose() {
  const from = base(), mine = ++wanted;
  if (!from) return;
  element.dataset.state = "computing";
  if (!element.childElementCount) draw(null);
  try {
    const { steps } = await api("next-steps", { store: from.store, a: from.id, b: state.pinned.b });
    if (mine !== wanted) return;
    draw(steps);
    element.dataset.state = "ready";
  } catch (error) {
    if (mine !== wanted) return;
    draw([]);
    element.dataset.state = "failed";
    fail(error);
  }
}

function draw(steps) {
  const title = h("header", {}, h("h2", {}, "What to do next"));
  if (!steps) { renew(element, title, h("p", {}, "Looking …")); return; }
  const shown = all ? steps : steps.slice(0, SHOWN);
  const more = steps.length > SHOWN ? [h("p", {}, h("button", { class: "btn", type: "button", "aria-expanded": String(all), click: () => { all = !all; draw(steps); } }, all ? "Show fewer" : `${steps.length - SHOWN} more`))] : [];
  renew(element, title, steps.length ? h("ol", {}, shown.map(line)) : h("p", {}, "Nothing stands out: no rule has anything to say about these settings."), ...more);
}

function line({ id, title, text, label, href, load: sides, set }) {
  const act = href ? h("a", { class: "btn", href, "aria-describedby": `step-${id}` }, label) : h("button", { class: "btn", type: "button", "aria-describedby": `step-${id}`, click: () => load(sides, set) }, label);
  return h("li", { "data-step": id }, h("div", { id: `step-${id}` }, h("b", {}, title), h("small", {}, text)), act);
}
