// What is embedded, under which name, with which backbone, and how long it will take.
import { later } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h, middle, renew } from "../shared/dom.js";
import { backboneChoice } from "./backbones.js";

const main = document.querySelector("#main"), MOST_CLASSES = 14;
let newest = 0;

/** Return the card of a folder; `onStart` is called with the state of the embedding once it has started. */
export function planCard(about, folder, onStart) {
  const card = h("section", { class: "card plan", "aria-labelledby": "plan" }), mine = newest += 1;
  const head = text => h("header", {}, h("h2", { id: "plan" }, "2. What is embedded"), h("p", {}, text));
  const asked = { folder, regex: "", ticket: crypto.randomUUID() };

  async function look() {
    main.dataset.photos = "looking";
    card.replaceChildren(head(`Looking at ${folder} …`));
    try {
      const found = await later("photos-look", asked);
      if (mine !== newest) return;
      card.replaceChildren(head(`${count(found.images, "image")} in ${count(found.classes.length, "class", "classes")}, from ${found.source}`), classesOf(found.classes), notesOf(found), groupForm(found), startForm(found));
      main.dataset.photos = "found";
      announce(`${count(found.images, "image")} in ${count(found.classes.length, "class", "classes")}.`);
    } catch (error) {
      if (mine !== newest) return;
      main.dataset.photos = "refused";
      card.replaceChildren(head(""), h("p", { class: "wrong", role: "alert" }, error.message), ...(asked.regex ? [groupForm({ groups: 0 })] : []));
    }
  }

  function groupForm({ groups }) {
    const field = h("input", { class: "field", id: "photo-groups", value: asked.regex, placeholder: "^([^_]+)_", "aria-describedby": "photo-groups-note", autocomplete: "off", spellcheck: "false" });
    const note = groups ? `${count(groups, "group")}: their images are never divided between training and test` : "part of the path that images of the same specimen, patient or video share; they are then never divided between training and test";
    return h("form", { class: "path", submit: event => { event.preventDefault(); Object.assign(asked, { regex: field.value, ticket: crypto.randomUUID() }); look(); } }, h("label", { for: "photo-groups" }, "Groups, as a regular expression (optional)"), field, h("button", { class: "btn" }, "Apply"), h("small", { id: "photo-groups-note" }, note));
  }

  function startForm(found) {
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

  look();
  return card;
}

function classesOf(classes) {
  const all = [...classes].sort((x, y) => y[1] - x[1]), rest = all.length - MOST_CLASSES;
  return h("div", { class: "keys" }, all.slice(0, MOST_CLASSES).map(([name, images]) => h("span", { class: "chip soft", title: name }, middle(name, 26), h("b", {}, images.toLocaleString("en")))), rest > 0 ? h("small", {}, `and ${rest.toLocaleString("en")} more, the smallest with ${count(all.at(-1)[1], "image")}`) : null);
}

function notesOf({ notes }) {
  return notes.length ? h("ul", { class: "notes", "aria-label": "Notes on the photos" }, notes.map(text => h("li", {}, text))) : null;
}
