// One image, large: the most probable classes of each head, and the training images it resembles.
import { api } from "../shared/api.js";
import { h, middle } from "../shared/dom.js";
import { picture } from "../shared/pictures.js";
import { markOf } from "./heads.js";
import { pictureOf } from "./results.js";
import { adjustment, className, state } from "./state.js";

/** Open the dialog of an image. */
export async function inspect(i) {
  const { found } = state, answers = h("div", { class: "answers", "aria-live": "polite" }, h("p", {}, "Asking the heads…"));
  const dialog = h("dialog", { class: "inspector", "aria-label": found.names[i], close: () => dialog.remove() },
    h("header", {}, h("h2", {}, found.names[i]), h("span", { class: "grow" }), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    h("div", { class: "queue" }, h("div", { class: "large" }, pictureOf(i, 320)), answers));
  document.body.append(dialog);
  dialog.showModal();
  try {
    const heads = await api("predicted-image", { set: state.set, image: i, ...adjustment() });
    answers.replaceChildren(...heads.map((head, at) => answer(head, at, i)));
    dialog.dataset.state = "ready";
  } catch (error) { answers.replaceChildren(h("p", { class: "wrong" }, error.message)); }
}

function answer({ classes, probabilities, nearest }, at, i) {
  const { found, heads } = state, facts = found.facts[at], head = found.heads[at], here = heads[at]?.here;
  const bars = classes.map((index, place) => h("li", {}, h("span", { class: "name", title: facts.classes[index] }, middle(facts.classes[index], 24)), h("span", { class: "bar", "aria-hidden": "true" }, h("i", { class: markOf(at), style: `width:${100 * probabilities[place]}%` })), h("span", { class: "num" }, `${(100 * probabilities[place]).toFixed(1)} %`)));
  const other = head.classes[i] !== classes[0] ? h("p", {}, "With its thresholds the head says ", h("b", {}, className(at, head.classes[i])), ".") : null;
  const far = head.unlike[i] === true ? h("p", { class: "wrong" }, `Unlike training: the nearest training image has a cosine of ${head.cosines[i].toFixed(2)}; 95 % of held-out images have ${facts.unlike.threshold.toFixed(2)} or more.`) : null;
  const near = nearest.length ? [h("h4", {}, "Nearest training images"), h("ul", { class: "nearest" }, nearest.map(one => h("li", { title: `${one.id}\ncosine ${one.cosine}` }, here ? picture(here, one.id) : null, h("small", {}, `${middle(facts.classes[one.label] ?? "", 16)} ${one.cosine.toFixed(2)}`))))] : null;
  return h("section", { class: "answer", "data-head": at + 1 }, h("h3", {}, found.heads.length > 1 ? h("b", { class: markOf(at) }, `${at + 1} `) : "", middle(facts.name, 60)), far, h("ol", { class: "bars" }, bars), other, near);
}
