// Where the photos are: a folder on the server's disk, or files, folders and zip files of the browser, which are uploaded.
import { api } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { chosen, dropped, nameOf, send, sorted, unwrapped } from "./sending.js";

const main = document.querySelector("#main"), MOST_ERRORS = 6;
let set = "";

/** Return the card; `onFolder` is called with a folder of photos, relative to that of the page. */
export function whereCard(about, onFolder) {
  return h("section", { class: "card where", "aria-labelledby": "where" }, h("header", {}, h("h2", { id: "where" }, "1. Where the photos are"), h("p", {}, "One sub-folder per class, such as cats/tom.jpg and dogs/rex.jpg, or a manifest.csv with the columns path and label.")), h("div", { class: "sources" }, folderForm(about, onFolder), uploadArea(about, onFolder)));
}

function folderForm({ root, folders }, onFolder) {
  const path = h("input", { class: "field", id: "photo-folder", list: "photo-folders", placeholder: "flowers", required: true, "aria-describedby": "photo-folder-note", autocomplete: "off" });
  return h("form", { class: "path", submit: event => { event.preventDefault(); onFolder(path.value); } }, h("label", { for: "photo-folder" }, "A folder on the server’s disk"), path, h("datalist", { id: "photo-folders" }, folders.map(name => h("option", { value: name }))), h("button", { class: "btn" }, "Look at it"), h("small", { id: "photo-folder-note" }, `below ${root}; its photos stay where they are, and the data set refers to them there`));
}

function uploadArea(about, onFolder) {
  const status = h("div", { role: "status", class: "sent" }), label = h("input", { class: "field", id: "photo-class", autocomplete: "off", "aria-describedby": "photo-class-note" });
  const take = files => upload(files, about, label, status).then(folder => folder && onFolder(folder)).catch(error => { main.dataset.photos = "none"; fail(error); });
  const files = h("input", { type: "file", multiple: true, class: "hidden", id: "photo-files", accept: ["image/*", ".zip", ".csv", ...about.suffixes].join(), change: event => take(chosen(event.target)) });
  const folder = h("input", { type: "file", webkitdirectory: true, class: "hidden", id: "photo-directory", change: event => take(chosen(event.target)) });
  const over = event => { event.preventDefault(); event.currentTarget.classList.toggle("over", event.type === "dragover"); };
  const drop = event => { over(event); dropped(event.dataTransfer).then(take, fail); };
  return h("div", { class: "drop", dragover: over, dragleave: over, drop }, h("div", { class: "ways" }, h("label", { class: "btn primary", for: "photo-directory" }, "Choose a folder"), folder, h("label", { class: "btn", for: "photo-files" }, "Choose photos or a zip"), files), h("small", {}, `or drop them here. They are copied into ${about.home}/ below the folder of the page and stay there, because the data set refers to them.`), h("div", { class: "loose" }, h("label", { for: "photo-class" }, "Class of photos that are in no folder"), label, h("small", { id: "photo-class-note" }, "photos of several classes can be added one class after another")), status);
}

/** Upload files; return the folder of the set, or null if there is nothing to look at. */
async function upload(files, about, label, status) {
  const { send: filed, loose, others } = sorted(files, about), skipped = [...others].map(([ending, number]) => `${number} ${ending}`).join(", ");
  const note = skipped ? [h("p", {}, `Files that are no readable images were skipped: ${skipped}.`)] : [], name = label.value.trim();
  const wrong = loose.length && (!name || /[/\\]/.test(name)) ? `${count(loose.length, "photo is", "photos are")} in no folder: name their class below${name ? ", without a slash" : ""}, or choose a folder with one sub-folder per class.` : "";
  label.toggleAttribute("aria-invalid", Boolean(wrong));
  if (wrong) { label.setAttribute("aria-invalid", "true"); label.focus(); }
  const all = wrong ? [] : [...unwrapped(filed), ...loose.map(({ file, path }) => ({ file, path: `${name}/${path}` }))];
  if (!all.length) { tell(status, wrong || "There is no photo among these files.", note, []); return null; }
  main.dataset.photos = "sending";
  set ||= (await api("photos-begin", { name: nameOf([...filed, ...all]) })).set;
  const say = done => status.replaceChildren(`Uploading ${done.toLocaleString("en")} of ${count(all.length, "file")} …`);
  say(0);
  const sent = await send(set, all, say);
  main.dataset.photos = "none";
  tell(status, `${count(sent.kept, "file is", "files are")} kept in ${set}.`, [...note, ...sent.notes.map(text => h("p", {}, text))], sent.errors);
  return sent.kept ? set : null;
}

function tell(status, text, notes, errors) {
  const rest = errors.length - MOST_ERRORS;
  status.replaceChildren(h("p", {}, text), ...notes, ...errors.slice(0, MOST_ERRORS).map(error => h("p", { class: "wrong" }, error)), rest > 0 ? h("p", { class: "wrong" }, `${rest} more like these.`) : "");
  announce(text);
}
