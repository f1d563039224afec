// Under which name and with which backbone photos are embedded.
import { later } from "../shared/api.js";
import { fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { backboneChoice } from "./backbones.js";

/** Return the form; `asked` names the photos, `onStart` is called with the state of the embedding once it has started. */
export function startForm(asked, found, about, onStart) {
  const start = h("button", { class: "btn primary", disabled: true }, `Embed ${count(found.images, "image")}`);
  const said = h("small", { id: "photo-name-note", role: "status" }), name = h("input", { class: "field", id: "photo-name", value: found.name, required: true, "aria-describedby": "photo-name-note", autocomplete: "off", spellcheck: "false", change: () => check() });
  let isGood = false, backbone = "";
  const allow = () => { start.disabled = !(isGood && backbone); };

  async function check() {
    const { problem, resumes } = await later("photos-name", { ...asked, cache: name.value });
    isGood = !problem;
    said.className = problem ? "wrong" : "";
    name.setAttribute("aria-invalid", String(Boolean(problem)));
    said.textContent = problem || (resumes ? "An unfinished data set of these photos has this name: it is continued." : `the folder ${name.value} below ${about.root}`);
    allow();
  }

  const choice = backboneChoice(asked, found.images, text => { backbone = text; allow(); });
  check().catch(fail);
  return h("form", { class: "start", submit: async event => {
    event.preventDefault();
    start.disabled = true;
    try { onStart((await later("photos-embed", { ...asked, cache: name.value, backbone })).embedding); } catch (error) { fail(error); allow(); }
  } }, h("div", { class: "line" }, h("label", { for: "photo-name" }, "Name of the data set"), name, said), choice, h("div", { class: "line last" }, start, h("small", {}, "Finished parts are kept: it can be stopped and resumed at any time.")));
}
