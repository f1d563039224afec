// A dialog about one setting: its options, name, tags and note, and what can be done with it.
import { h } from "../shared/dom.js";
import { change, load } from "./acts.js";
import { state } from "./state.js";

/** Open the dialog; `after` is called when something was saved, `remove` to delete the setting. */
export function details(row, { after, remove }) {
  const name = h("input", { class: "field", id: "setting-name", value: row.given, placeholder: row.described, maxlength: "120" });
  const tags = h("input", { class: "field", id: "setting-tags", value: row.tags.join(", "), list: "known-tags", "aria-describedby": "tags-help" });
  const note = h("textarea", { class: "field", id: "setting-note", rows: "4", maxlength: "5000" });
  note.value = row.note;
  const known = h("datalist", { id: "known-tags" }, [...new Set(state.own.flatMap(one => one.tags))].map(tag => h("option", { value: tag })));
  const save = async event => {
    event.preventDefault();
    if (await change([row], changes(row, name.value.trim(), tags.value, note.value.trim()), `${name.value.trim() || row.described} is saved.`)) { dialog.close(); after(); }
  };
  const button = (text, click, kind = "") => h("button", { class: `btn ${kind}`, type: "button", click }, text);
  const dialog = h("dialog", { class: "details", "aria-labelledby": "details-title", close: () => { dialog.remove(); document.querySelector(`tr[data-id="${row.id}"] .pins .icon`)?.focus(); } },
    h("header", {}, h("h2", { id: "details-title" }, row.name), h("button", { class: "icon", type: "button", "aria-label": "Close", click: () => dialog.close() }, "✕")),
    h("form", { submit: save },
      h("label", { for: "setting-name" }, "Name"), name,
      h("label", { for: "setting-tags" }, "Tags"), tags, h("small", { id: "tags-help" }, "separated by commas"), known,
      h("label", { for: "setting-note" }, "Note"), note,
      h("button", { class: "btn primary", type: "submit" }, "Save")),
    h("div", { class: "acts" }, row.members ? [] : [button("Load as A into Train", () => load({ a: row.id })), button("Load as B into Train", () => load({ b: row.id, a: state.pinned.a === row.id ? "" : state.pinned.a }))],
      button("Delete …", () => { dialog.close(); remove([row]); })),
    options(row));
  document.body.append(dialog);
  dialog.showModal();
  name.focus();
}

function changes(row, name, tags, note) {
  const wanted = tags.split(",").map(tag => tag.trim()).filter(Boolean);
  return { name: name === row.described ? "" : name, note, add_tags: wanted, remove_tags: row.tags.filter(tag => !wanted.includes(tag)) };
}

function options(row) {
  const table = h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Option"), h("th", { scope: "col" }, `in ${row.preset}`), h("th", { scope: "col" }, "here"))),
    h("tbody", {}, row.changes.map(one => h("tr", { title: one.path }, h("th", { scope: "row" }, one.title), h("td", {}, one.old || "–"), h("td", {}, one.new || "–")))));
  const text = `Preset ${row.preset}${row.changes.length ? ", changed as below" : ", unchanged"}; seeds ${row.seeds.join(", ")}; ${row.seconds.toFixed(1)} s per run.`;
  return h("div", { class: "scroll" }, h("p", {}, text), row.changes.length ? table : null);
}
