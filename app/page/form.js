// Runs once the form is on the page: `element` holds it, `server.judge` asks the server what its values stand for.
const KEY = "frostbench_form";
const form = element.querySelector("#form");
const controls = [...form.querySelectorAll("[data-key]")];
let asks = null, asked = 0, line = Promise.resolve(), waiting = null;

function read() {
  const tree = { sides: { A: {}, B: {} }, seeds: null, split: {} };
  for (const control of controls) {
    const { side, key } = control.dataset;
    if (side === "seeds") tree.seeds = valueOf(control);
    else (side === "split" ? tree.split : tree.sides[side])[key] = valueOf(control);
  }
  return tree;
}

function valueOf(control) {
  if (control.dataset.control === "flag") return control.checked;
  if (control.dataset.control === "number") return control.value === "" ? null : Number(control.value);
  if (control.dataset.control === "names") return split(control.value);
  return control.value;
}

// Names with commas between them; one that holds a comma or a quote stands in quotes, its own quotes doubled.
function split(text) {
  const found = [...text.matchAll(/"((?:[^"]|"")*)"|[^,"]+/g)];
  return found.map(([whole, quoted]) => quoted?.replaceAll('""', '"') ?? whole.trim()).filter(name => name);
}

function joined(names) {
  return names.map(name => /[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name).join(", ");
}

// `sent` is what the control held when the server was asked: what was typed since then is newer than the answer.
function show(control, value, sent = valueOf(control)) {
  const now = JSON.stringify(valueOf(control));
  if (now === JSON.stringify(value) || now !== JSON.stringify(sent)) return;
  if (control.dataset.control === "flag") control.checked = value;
  else if (control.dataset.control === "names") control.value = joined(value);
  else control.value = value ?? "";
}

// One question at a time, each with the form as the answer before left it; of changes that wait, the last counts.
function ask(act) {
  const number = ++asked;
  form.dataset.state = "asking";
  line = line.then(() => act.act === "input" && number < asked ? null : answer(act, number));
}

async function answer(act, number) {
  const sent = read();
  const kept = act.act === "restore" ? JSON.parse(localStorage.getItem(KEY) || "null") : sent;
  try {
    const said = await server.judge({ ...act, form: kept });
    if (said.error) fail(said.error);
    else apply(said, sent);
  } catch (error) {
    fail(`The server does not answer. Is "frostbench app" still running? Start it and reload this page. (${error})`);
  }
  if (number === asked) form.dataset.state = "ready";
}

function fail(error) {
  const box = document.createElement("p");
  box.className = "fp-error";
  box.setAttribute("role", "alert");
  box.textContent = error;
  tell(box.outerHTML);
}

// The place for it is another component, which may come after this one.
function tell(html) {
  const place = document.querySelector("#difference .fp-slot");
  if (place) place.innerHTML = html;
  else requestAnimationFrame(() => tell(html));
}

function apply(said, sent) {
  const caches = JSON.stringify(said.caches);
  for (const control of controls) {
    const { side, key } = control.dataset;
    if (key === "cache" && control.dataset.offered !== caches) offer(control, said.caches, caches);
    show(control, held(said.form, side, key), held(sent, side, key));
    if (side in said.disabled) place(control, said, side, key);
  }
  for (const row of form.querySelectorAll("[data-row]")) {
    const key = row.dataset.row;
    if (row.id.startsWith("split-") || key === "seeds") continue;
    row.classList.toggle("fp-differs", said.differs.includes(key));
    row.hidden = said.inactive.A.includes(key) && said.inactive.B.includes(key);
    row.querySelector(".fp-reasons").innerHTML = said.reasons[key] || "";
  }
  if (form.classList.contains("fp-loading")) begin();
  for (const choice of form.querySelectorAll("[data-preset]")) choice.value = said.presets[choice.dataset.preset];
  for (const tick of form.querySelectorAll("[data-switch]")) tick.checked = !!said.switches[tick.dataset.side][tick.dataset.switch];
  tell(said.difference);
  asks = said.asks;
  mark();
  localStorage.setItem(KEY, JSON.stringify(said.form));
}

// The values are true from here on; the buttons that train them hear of it from the page.
function begin() {
  form.classList.remove("fp-loading");
  form.querySelector("#options-fields").disabled = false;
  trigger("apply");
}

// Results say what was trained; where the form would train something else now, they are marked as out of date.
function mark() {
  for (const result of document.querySelectorAll("[data-asked-a], [data-asked-b]")) {
    const { askedA, askedB } = result.dataset;
    const old = (askedA !== undefined && askedA !== asks.A) || (askedB !== undefined && askedB !== asks.B);
    result.classList.toggle("fp-is-outdated", old);
    for (const note of result.querySelectorAll(".fp-outdated")) note.hidden = !old;
  }
}

function held(tree, side, key) {
  if (side === "seeds") return tree.seeds;
  return side === "split" ? tree.split[key] : tree.sides[side][key];
}

// A side that has no such option shows none; one that cannot use it keeps it, disabled.
function place(control, said, side, key) {
  const inactive = said.inactive[side].includes(key);
  control.closest(".fp-cell").classList.toggle("fp-lacking", inactive);
  control.disabled = inactive || said.disabled[side].includes(key);
  if (control.dataset.control === "names") names(control, said.names[side][key] || []);
  if (key === "cache") about(control, said.about[side]);
}

function offer(select, caches, text) {
  const held = select.value;
  select.replaceChildren(...caches.map(name => new Option(name, name)));
  select.value = held;
  select.dataset.offered = text;
}

function about(select, text) {
  let line = select.parentElement.querySelector(".fp-about");
  if (!line) { line = document.createElement("p"); line.className = "fp-about"; select.after(line); }
  line.textContent = text;
}

// Names that can be put in or taken out by a click; a long list is left to typing.
function names(input, offered) {
  const box = input.parentElement.querySelector(".fp-names"), taken = valueOf(input);
  const few = offered.slice(0, 12);
  box.replaceChildren(...few.map(name => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = name;
    chip.setAttribute("aria-pressed", taken.includes(name));
    chip.disabled = input.disabled;
    chip.onclick = () => {
      const now = valueOf(input);
      show(input, now.includes(name) ? now.filter(other => other !== name) : [...now, name]);
      ask({ act: "input" });
    };
    return chip;
  }), ...(offered.length > few.length ? [`and ${offered.length - few.length} more`] : []));
}

// What differs is shown wherever it stands, so groups that hold it are opened.
function differing(only) {
  form.classList.toggle("fp-differing", only);
  if (only) for (const group of form.querySelectorAll("details:has(.fp-differs)")) group.open = true;
}

form.addEventListener("input", event => {
  if (event.target.id === "only-differing") { differing(event.target.checked); return; }
  const { preset, switch: name, side, key } = event.target.dataset;
  clearTimeout(waiting);
  if (preset) ask({ act: "preset", side: preset, name: event.target.value });
  else if (name) ask({ act: "switch", side, name, on: event.target.checked });
  else if (key) {
    // The last change counts, and it is asked about when typing pauses.
    form.dataset.state = "asking";
    waiting = setTimeout(() => ask({ act: "input" }), event.target.type === "text" || event.target.type === "number" ? 150 : 0);
  }
});
// The button is another component, which may come after this one.
document.addEventListener("click", event => { if (event.target.closest("#copy")) ask({ act: "copy" }); });
new MutationObserver(() => { if (asks) mark(); }).observe(document.body, { childList: true, subtree: true });
window.frostbench = { form: read };
ask({ act: "restore" });
