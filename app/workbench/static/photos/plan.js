// What a folder holds: images, classes, groups, and what is skipped.
import { later } from "../shared/api.js";
import { announce } from "../shared/bar.js";
import { count, h, middle, renew } from "../shared/dom.js";
import { startForm } from "./start.js";

const main = document.querySelector("#main"), MOST_CLASSES = 14;
let newest = 0;

/** Return the card of a folder; `onStart` is called with the state of the embedding once it has started. */
export function planCard(about, folder, onStart) {
  const card = h("section", { class: "card plan", "aria-labelledby": "plan" }), mine = newest += 1;
  const head = text => h("header", {}, h("h2", { id: "plan" }, "2. What is embedded"), h("p", {}, text));
  const asked = { folder, regex: "", ticket: crypto.randomUUID() };

  async function look() {
    const { ticket } = asked, isOld = () => mine !== newest || ticket !== asked.ticket;
    main.dataset.photos = "looking";
    if (!card.childElementCount) card.append(head(`Looking at ${folder} …`));
    try {
      const found = await later("photos-look", asked);
      if (isOld()) return;
      renew(card, head(`${count(found.images, "image")} in ${count(found.classes.length, "class", "classes")}, from ${found.source}`), ...[classesOf(found.classes), notesOf(found)].filter(Boolean), groupForm(found), startForm(asked, found, about, onStart));
      main.dataset.photos = "found";
      announce(`${count(found.images, "image")} in ${count(found.classes.length, "class", "classes")}.`);
    } catch (error) {
      if (isOld()) return;
      main.dataset.photos = "refused";
      renew(card, head(""), h("p", { class: "wrong", role: "alert" }, error.message), ...(asked.regex ? [groupForm({ groups: 0 })] : []));
    }
  }

  function groupForm({ groups }) {
    const field = h("input", { class: "field", id: "photo-groups", value: asked.regex, placeholder: "^([^_]+)_", "aria-describedby": "photo-groups-note", autocomplete: "off", spellcheck: "false" });
    const note = groups ? `${count(groups, "group")}: their images are never divided between training and test` : "part of the path that images of the same specimen, patient or video share; they are then never divided between training and test";
    return h("form", { class: "path", submit: event => { event.preventDefault(); Object.assign(asked, { regex: field.value, ticket: crypto.randomUUID() }); look(); } }, h("label", { for: "photo-groups" }, "Groups, as a regular expression (optional)"), field, h("button", { class: "btn" }, "Apply"), h("small", { id: "photo-groups-note" }, note));
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
