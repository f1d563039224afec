// The form: values of both sides, what differs, the address that states them, and taking acts back.
export const SIDES = ["A", "B"], AUTO = "auto", MARK = { A: "●", B: "◆", changes: "≠", search: "⌕" };
export const EXPERIMENTS = ["changes", "search"];
const MOST_UNDO = 50;

export const form = { sides: { A: {}, B: {} }, start: { A: "baseline", B: "full" }, switched: { A: {}, B: {} }, seeds: 3, split: {}, corrected: false };
export let options = null;
export const rows = new Map(), splitRows = new Map();
const undoable = [];

/** Take the options of the server, and the values of a first visit. */
export function load(found) {
  options = found;
  for (const row of found.rows) rows.set(row.key, row);
  for (const row of found.split) splitRows.set(row.key, row);
  form.split = { ...found.split_values };
  for (const side of SIDES) form.sides[side] = { cache: found.caches[0] ?? null, ...presetValues(form.start[side]) };
}

export const isAuto = side => side === "A" && form.start.A === AUTO;
export const active = (row, values) => row.needs.every(([key, kind]) => values[key] === kind);
/** Whether an option is one that a side has now. */
export const has = (row, side) => active(row, form.sides[side]) && (!isAuto(side) || options.data_keys.includes(row.key));
export const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

export function presetValues(name) {
  const preset = options.presets.find(known => known.name === name);
  return { ...Object.fromEntries(options.rows.map(row => [row.key, row.default])), ...preset?.values };
}

/** Rows of a side that differ from the preset it was started from; what concerns the data does not count. */
export function changed(side) {
  const values = form.sides[side], start = presetValues(form.start[side]);
  if (isAuto(side)) return [];
  return options.rows.filter(row => !options.data_keys.includes(row.key) && active(row, values) && !same(values[row.key], active(row, start) ? start[row.key] : row.default));
}

/** Rows in which the sides differ, as the server counts them: [{ row, a, b }], undefined where a side lacks the option. */
export function differences() {
  const { A, B } = form.sides, found = [];
  if (!same(A.cache, B.cache)) found.push({ row: { key: "cache", label: "Data set", control: "line", path: "caches", needs: [] }, a: A.cache, b: B.cache });
  for (const row of options.rows) {
    const a = has(row, "A"), b = has(row, "B");
    if (isAuto("A") && !options.data_keys.includes(row.key)) continue;
    if (a && b && !same(A[row.key], B[row.key])) found.push({ row, a: A[row.key], b: B[row.key] });
    else if (a !== b && !same((a ? A : B)[row.key], row.default)) found.push({ row, a: a ? A[row.key] : undefined, b: b ? B[row.key] : undefined });
  }
  return found;
}

/** The form as the server reads it. */
export function request(more = {}) {
  const { sides, seeds, split, switched } = form;
  return { form: { sides, seeds, split, switched }, auto: isAuto("A"), corrected: form.corrected, ...more };
}

// Acts: each remembers the form before it, so that it can be undone.
export function act(what, change) {
  undoable.push({ what, before: structuredClone(form) });
  if (undoable.length > MOST_UNDO) undoable.shift();
  change();
}
export const lastAct = () => undoable.at(-1)?.what ?? null;
export function undo() {
  const last = undoable.pop();
  if (last) Object.assign(form, last.before);
  return last?.what ?? null;
}

export function usePreset(side, name) {
  const kept = Object.fromEntries(options.data_keys.map(key => [key, form.sides[side][key]]));
  form.start[side] = name;
  if (name !== AUTO) form.sides[side] = { ...presetValues(name), ...kept };
  form.switched[side] = {};
}

export function copyAToB() {
  form.sides.B = structuredClone(form.sides.A);
  form.start.B = form.start.A;
  form.switched.B = structuredClone(form.switched.A);
}

export function swap() {
  for (const part of ["sides", "start", "switched"]) [form[part].A, form[part].B] = [form[part].B, form[part].A];
}

// Values as text, for the address and for sentences.
const quoted = name => /[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name;
export const joined = names => names.map(quoted).join(", ");
/** Comma-separated names; a name with a comma or a quote is quoted, with its quotes doubled. */
export function split(text) {
  return [...text.matchAll(/"((?:[^"]|"")*)"|[^,"]+/g)].map(([part, inside]) => inside?.replaceAll('""', '"') ?? part.trim()).filter(name => name);
}
export function asText(row, value) {
  if (value === null || value === undefined) return "";
  if (row.control === "flag") return value ? "on" : "off";
  return row.control === "names" ? joined(value) : String(value);
}
/** The value of a row from text; a text that is no number stays text, which the server refuses in words. */
export function fromText(row, text) {
  if (row.control === "flag") return text === "on";
  if (row.control === "names") return split(text);
  if (row.control !== "number") return text;
  const bare = text.trim();
  return bare === "" ? null : Number.isNaN(Number(bare)) ? bare : Number(bare);
}
/** A value in a sentence: what an empty field means is said. */
export function shown(row, value) {
  if (value === undefined) return "not there";
  return asText(row, value) || row.empty || "none";
}

/** Write what is set into an address. */
export function toParameters(parameters) {
  if (form.sides.A.cache) parameters.set("data", form.sides.A.cache);
  if (form.sides.B.cache !== form.sides.A.cache) parameters.set("b.data", form.sides.B.cache);
  for (const side of SIDES) {
    const letter = side.toLowerCase();
    parameters.set(letter, form.start[side]);
    const own = options.data_keys.slice(1).map(key => rows.get(key)).filter(row => !same(form.sides[side][row.key], row.default));
    for (const row of [...own, ...changed(side)]) parameters.set(`${letter}.${row.path}`, asText(row, form.sides[side][row.key]));
  }
  if (form.corrected) parameters.set("labels", "corrected");
  if (form.seeds !== 3) parameters.set("seeds", form.seeds ?? "");
  for (const row of options.split) if (!same(form.split[row.key], options.split_values[row.key])) parameters.set(`split.${row.path}`, asText(row, form.split[row.key]));
}

/** Take what an address states; return what it names that does not exist. */
export function fromParameters(parameters) {
  const unknown = [];
  const data = parameters.get("data");
  for (const side of SIDES) {
    const letter = side.toLowerCase(), cache = parameters.get(`${letter}.data`) ?? data;
    const name = parameters.get(letter) ?? form.start[side];
    const known = options.presets.some(preset => preset.name === name) && (name !== AUTO || side === "A");
    if (!known) unknown.push(`preset ${name}`);
    form.start[side] = known ? name : "baseline";
    form.sides[side] = { ...presetValues(form.start[side]), cache: options.caches.includes(cache) ? cache : options.caches[0] ?? null };
    if (cache && !options.caches.includes(cache)) unknown.push(`data set ${cache}`);
    unknown.push(...setPaths(side, letter, parameters));
  }
  form.switched = { A: {}, B: {} };
  form.corrected = parameters.get("labels") === "corrected";
  form.seeds = parameters.has("seeds") ? fromText({ control: "number" }, parameters.get("seeds")) : 3;
  form.split = { ...options.split_values };
  for (const row of options.split) if (parameters.has(`split.${row.path}`)) form.split[row.key] = fromText(row, parameters.get(`split.${row.path}`));
  return unknown;
}

// Kinds first: an option below a kind exists once the kind is chosen.
function setPaths(side, letter, parameters) {
  const wanted = new Map([...parameters].filter(([name]) => name.startsWith(`${letter}.`) && name !== `${letter}.data`).map(([name, text]) => [name.slice(2), text]));
  for (const row of [...options.rows].sort((x, y) => x.needs.length - y.needs.length)) {
    if (!wanted.has(row.path) || !active(row, form.sides[side])) continue;
    form.sides[side][row.key] = fromText(row, wanted.get(row.path));
    wanted.delete(row.path);
  }
  return [...wanted.keys()].map(path => `option ${path}`);
}
