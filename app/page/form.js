// Runs when the form is on the page: `element` holds it, and `server.update_form` sends each change to the server.
const KEY = "frostbench_form";
const form = element.querySelector("#form");
const controls = [...form.querySelectorAll("[data-key]")];
let fingerprints = null, latest = 0, queue = Promise.resolve(), waiting = null, switched = {};

// The form includes what the master switches have changed, so that turning one off can restore it.
function read() {
  const tree = { sides: { A: {}, B: {} }, seeds: null, split: {}, switched };
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

// Comma-separated names; a name with a comma or a quote is quoted, with its quotes doubled.
function split(text) {
  const parts = [...text.matchAll(/"((?:[^"]|"")*)"|[^,"]+/g)];
  return parts.map(([part, quoted]) => quoted?.replaceAll('""', '"') ?? part.trim()).filter(name => name);
}

function joined(names) {
  return names.map(name => /[",]/.test(name) ? `"${name.replaceAll('"', '""')}"` : name).join(", ");
}

// `sent` is the value sent to the server; a control that was edited since then is newer than the reply.
function show(control, value, sent = valueOf(control)) {
  const now = JSON.stringify(valueOf(control));
  if (now === JSON.stringify(value) || now !== JSON.stringify(sent)) return;
  if (control.dataset.control === "flag") control.checked = value;
  else if (control.dataset.control === "names") control.value = joined(value);
  else control.value = value ?? "";
}

// One request at a time, each with the form as the previous reply left it; of waiting inputs, only the last is sent.
function send(act) {
  const number = ++latest;
  form.dataset.state = "asking";
  queue = queue.then(() => act.act === "input" && number < latest ? null : update(act, number));
}

async function update(act, number) {
  const sent = read();
  const kept = act.act === "restore" ? JSON.parse(localStorage.getItem(KEY) || "null") : sent;
  try {
    const reply = await server.update_form({ ...act, form: kept });
    if (reply.error) fail(reply.error);
    else apply(reply, sent);
  } catch (error) {
    fail(`The server does not respond. Is "frostbench app" still running? Start it and reload this page. (${error})`);
  }
  if (number === latest) form.dataset.state = "ready";
}

function fail(error) {
  const box = document.createElement("p");
  box.className = "fp-error";
  box.setAttribute("role", "alert");
  box.textContent = error;
  showDifference(box.outerHTML);
}

// The difference is another component, which may be rendered after this one.
function showDifference(html) {
  const slot = document.querySelector("#difference .fp-slot");
  if (slot) slot.innerHTML = html;
  else requestAnimationFrame(() => showDifference(html));
}

function apply(reply, sent) {
  switched = reply.form.switched;
  const caches = JSON.stringify(reply.caches);
  for (const control of controls) {
    const { side, key } = control.dataset;
    if (key === "cache" && control.dataset.offered !== caches) offer(control, reply.caches, caches);
    show(control, held(reply.form, side, key), held(sent, side, key));
    if (side in reply.disabled) updateControl(control, reply, side, key);
  }
  for (const row of form.querySelectorAll("[data-row]")) {
    const key = row.dataset.row;
    if (row.id.startsWith("split-") || key === "seeds") continue;
    row.classList.toggle("fp-differs", reply.differs.includes(key));
    row.hidden = reply.inactive.A.includes(key) && reply.inactive.B.includes(key);
    row.querySelector(".fp-reasons").innerHTML = reply.reasons[key] || "";
  }
  if (form.classList.contains("fp-loading")) enable();
  for (const choice of form.querySelectorAll("[data-preset]")) choice.value = reply.presets[choice.dataset.preset];
  for (const tick of form.querySelectorAll("[data-switch]")) tick.checked = !!reply.switches[tick.dataset.side][tick.dataset.switch];
  showDifference(reply.difference);
  fingerprints = reply.fingerprints;
  markOutdated();
  localStorage.setItem(KEY, JSON.stringify(reply.form));
}

// Enable the form when it has its values, and notify the page, which enables the training buttons.
function enable() {
  form.classList.remove("fp-loading");
  form.querySelector("#options-fields").disabled = false;
  trigger("apply");
}

// Mark results as out of date if the form would train something else now.
function markOutdated() {
  for (const result of document.querySelectorAll("[data-fingerprint-a], [data-fingerprint-b]")) {
    const { fingerprintA: a, fingerprintB: b } = result.dataset;
    const old = (a !== undefined && a !== fingerprints.A) || (b !== undefined && b !== fingerprints.B);
    result.classList.toggle("fp-is-outdated", old);
    for (const note of result.querySelectorAll(".fp-outdated")) note.hidden = !old;
  }
}

function held(tree, side, key) {
  if (side === "seeds") return tree.seeds;
  return side === "split" ? tree.split[key] : tree.sides[side][key];
}

// Hide an option that a side does not have; disable one that it cannot use.
function updateControl(control, reply, side, key) {
  const inactive = reply.inactive[side].includes(key);
  control.closest(".fp-cell").classList.toggle("fp-lacking", inactive);
  control.disabled = inactive || reply.disabled[side].includes(key);
  if (control.dataset.control === "names") names(control, reply.names[side][key] || []);
  if (key === "cache") about(control, reply.about[side]);
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

// Buttons that add or remove one of the first 12 names on offer; other names must be typed.
function names(input, offered) {
  const box = input.parentElement.querySelector(".fp-names"), chosen = valueOf(input);
  const few = offered.slice(0, 12);
  box.replaceChildren(...few.map(name => {
    const chip = document.createElement("button");
    chip.type = "button";
    chip.textContent = name;
    chip.setAttribute("aria-pressed", chosen.includes(name));
    chip.disabled = input.disabled;
    chip.onclick = () => {
      const now = valueOf(input);
      show(input, now.includes(name) ? now.filter(other => other !== name) : [...now, name]);
      send({ act: "input" });
    };
    return chip;
  }), ...(offered.length > few.length ? [`and ${offered.length - few.length} more`] : []));
}

// Show only differences, and open the groups that contain some.
function differing(only) {
  form.classList.toggle("fp-differing", only);
  if (only) for (const group of form.querySelectorAll("details:has(.fp-differs)")) group.open = true;
}

form.addEventListener("input", event => {
  if (event.target.id === "only-differing") { differing(event.target.checked); return; }
  const { preset, switch: name, side, key } = event.target.dataset;
  clearTimeout(waiting);
  if (preset) send({ act: "preset", side: preset, name: event.target.value });
  else if (name) send({ act: "switch", side, name, on: event.target.checked });
  else if (key) {
    // Send the change when typing pauses.
    form.dataset.state = "asking";
    waiting = setTimeout(() => send({ act: "input" }), event.target.type === "text" || event.target.type === "number" ? 150 : 0);
  }
});
// The button is another component, which may be rendered after this one.
document.addEventListener("click", event => { if (event.target.closest("#copy")) send({ act: "copy" }); });
new MutationObserver(() => { if (fingerprints) markOutdated(); }).observe(document.body, { childList: true, subtree: true });
window.frostbench = { form: read };
send({ act: "restore" });
