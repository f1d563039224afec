// The options: sections on the left, a row for each option with a field for A and one for B.
import { h, renew } from "../shared/dom.js";
import { MARK, SIDES, active, differences, form, has, isAuto, options, rows, splitRows } from "./form.js";
import { field } from "./fields.js";

const USUAL = "Usual", SPLIT = "Split", METHODS = "Methods";
const EXPERIMENTAL = "Experimental";
export const view = { section: USUAL, query: "", only: false, keys: false };

/** Return { nav, list, draw(), show(reply), visible() }; `change(kind)` after a value, `turn(side, name, on)` for methods. */
export function optionList({ change, turn, choose }) {
  const nav = h("nav", { class: "sections", "aria-label": "Sections" });
  const list = h("div", { class: "rows" });
  let lines = [], switches = [], shownKeys = [];

  const sections = () => [USUAL, ...options.sections.map(({ title }) => title), SPLIT];

  function keysOf(section) {
    if (section === USUAL) return options.usual;
    return section === SPLIT ? [] : options.sections.find(({ title }) => title === section)?.keys ?? [];
  }

  function wanted() {
    const words = view.query.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = row => words.every(word => `${row.label} ${row.path} ${row.sentence} ${row.choices.join(" ")}`.toLowerCase().includes(word));
    const differ = view.only ? new Set(differences().map(({ row }) => row.key)) : null;
    const keys = words.length || view.only ? options.rows.map(row => row.key) : keysOf(view.section);
    const kept = keys.filter(key => (!words.length || fits(rows.get(key))) && (!differ || differ.has(key)));
    const isSplit = words.length ? options.split.filter(fits) : !view.only && view.section === SPLIT ? options.split : [];
    const isMethod = ({ name, help }) => words.every(word => `${name} ${help}`.toLowerCase().includes(word));
    const methods = view.only ? [] : words.length ? options.switches.filter(isMethod) : view.section === USUAL ? options.switches : [];
    return { keys: kept, split: isSplit, methods };
  }

  function draw() {
    const { keys, split, methods } = wanted();
    lines = []; switches = []; shownKeys = keys;
    const parts = [], of = new Map();
    for (const key of keys) {
      const row = rows.get(key), title = group(row);
      if (!of.has(title)) of.set(title, []);
      of.get(title).push(rowLine(row, SIDES));
    }
    if (methods.length) parts.push(heading(METHODS, "One switch fills the options of a method with recommended values."), ...methods.map(methodLine));
    for (const [title, made] of of) parts.push(heading(title), ...made);
    if (split.length) parts.push(heading("Split, the same for A and B"), ...split.map(row => rowLine(row, [""])));
    list.replaceChildren(...(parts.length ? parts : [h("p", { class: "none" }, nothing())]));
    drawNav();
  }

  function nothing() {
    if (view.query) return `No setting has “${view.query}” in its title, key or sentence.`;
    return "A and B differ in no setting.";
  }

  // In a section of its own, the experimental options come last; elsewhere rows stand under their section.
  function group(row) {
    const section = options.sections.find(({ keys }) => keys.includes(row.key)).title;
    if (view.query || view.only || view.section === USUAL) return section;
    const inPlace = row.needs.some(([key]) => rows.get(key) && !rows.get(key).experimental);
    return row.experimental && !inPlace ? EXPERIMENTAL : view.section;
  }

  function heading(title, sentence = "") {
    return h("h3", {}, title, sentence ? h("small", {}, sentence) : []);
  }

  function rowLine(row, sides) {
    const notes = h("div", { class: "notes" });
    const help = h("p", { id: `help-${lines.length}` }, row.sentence);
    const fields = Object.fromEntries(sides.map(side => [side, field(row, side, (value, typed) => {
      if (side) form.sides[side][row.key] = value; else form.split[row.key] = value;
      change(typed ? "typed" : "chosen");
    })]));
    const path = sides.length === 1 ? `split.${row.path}` : row.path;
    const element = h("div", { class: `option${row.needs.length ? " below" : ""}${sides.length === 1 ? " shared" : ""}`, "data-row": row.key },
      h("div", { class: "about" }, h("b", { title: path }, row.label), h("code", { class: "key" }, path), help), Object.values(fields).map(made => made.element), notes);
    lines.push({ row, sides, fields, element, notes, help: help.id });
    return element;
  }

  function methodLine({ name, help, sets }) {
    const inputs = Object.fromEntries(SIDES.map(side => {
      const word = h("span", {}, "off");
      const input = h("input", { type: "checkbox", role: "switch", "aria-label": `${side}: ${name}`, change: () => turn(side, name, input.checked) });
      return [side, { input, word, cell: h("div", { class: `cell side-${side}` }, h("span", { class: "mark", "aria-hidden": "true" }, MARK[side]), h("label", { class: "flag" }, input, word)) }];
    }));
    const element = h("div", { class: "option", "data-method": name },
      h("div", { class: "about" }, h("b", {}, name), h("code", { class: "key" }, Object.entries(sets).map(([path, value]) => `${path}=${value}`).join(", ")), h("p", {}, help)),
      SIDES.map(side => inputs[side].cell));
    switches.push({ name, inputs, element });
    return element;
  }

  function drawNav() {
    const differ = differences().map(({ row }) => row.key), free = view.query || view.only;
    renew(nav, ...sections().map(section => {
      const number = differ.filter(key => keysOf(section).includes(key)).length, current = !free && section === view.section;
      return h("button", { type: "button", "aria-current": current ? "true" : null, click: () => choose(section) }, section,
        number ? h("span", { class: "differs" }, h("span", { "aria-hidden": "true" }, MARK.B), String(number), h("span", { class: "hidden" }, " differ")) : []);
    }));
  }

  /** Show values, and what the server said of them; without a reply, what is known at once. */
  function show(reply, names) {
    const differ = new Set(differences().map(({ row }) => row.key));
    for (const line of lines) showLine(line, reply, names, differ.has(line.row.key));
    for (const { name, inputs, element } of switches) {
      const on = side => !!reply?.sides[side].switches[name];
      for (const side of SIDES) {
        const known = !!reply && name in reply.sides[side].switches;
        if (known) inputs[side].input.checked = on(side);
        inputs[side].word.textContent = inputs[side].input.checked ? "on" : "off";
        inputs[side].input.disabled = !known;
        inputs[side].cell.classList.toggle("lacking", isAuto(side));
        inputs[side].cell.dataset.why = isAuto(side) ? "chosen by auto" : "";
      }
      element.classList.toggle("differs", !isAuto("A") && inputs.A.input.checked !== inputs.B.input.checked);
    }
    drawNav();
  }

  function showLine({ row, sides, fields, element, notes, help }, reply, names, differs) {
    element.classList.toggle("differs", sides.length === 2 && differs);
    if (sides.length === 1) {
      fields[""].show(form.split[row.key]);
      fields[""].mark({ message: reply?.shared[row.key] ?? "", described: help });
      return;
    }
    element.hidden = !SIDES.some(side => active(row, form.sides[side]) && (!isAuto(side) || has(row, side) || side === "A" && active(row, form.sides.B)));
    for (const side of SIDES) {
      const there = has(row, side), said = reply?.sides[side];
      fields[side].element.classList.toggle("lacking", !there);
      fields[side].element.dataset.why = there ? "" : isAuto(side) ? "chosen by auto" : "not with this choice";
      fields[side].show(form.sides[side][row.key]);
      const reason = said?.disabled[row.key] ?? "";
      fields[side].mark({ message: there ? said?.errors[row.key] ?? "" : "", disabled: !there || !!reason, reason, described: help, names: names[form.sides[side].cache]?.[row.key] ?? null });
    }
    notes.replaceChildren(...notesOf(row, reply));
  }

  function notesOf(row, reply) {
    const said = [];
    for (const side of SIDES) {
      if (!reply || !has(row, side)) continue;
      const reason = reply.sides[side].disabled[row.key];
      if (reason) said.push({ side, text: reason, kind: "reason" });
      for (const note of reply.sides[side].notes) if (note.keys.includes(row.key)) said.push({ side, text: note.text, kind: note.refused ? "refused" : "note" });
    }
    const merged = said.filter(one => !(one.side === "B" && said.some(other => other.side === "A" && other.text === one.text)));
    return merged.map(({ side, text, kind }) => {
      const both = said.filter(other => other.text === text).length > 1;
      const sign = { reason: "Cannot be used in", refused: "✖", note: "▲" }[kind];
      return h("p", { class: kind }, h("b", {}, `${sign} ${both ? "A and B" : side}: `), text);
    });
  }

  return { nav, list, draw, show, visible: () => shownKeys, sections, splitRows };
}
