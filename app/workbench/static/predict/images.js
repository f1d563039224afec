// Which images are predicted: dropped, pasted or chosen files, zip files, or a folder on the server's disk.
import { announce } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { state } from "./state.js";

const TOKEN = document.querySelector('meta[name="frostbench-token"]').content, AT_ONCE = 3, MOST_ERRORS = 5;
const status = h("p", { role: "status" });
let sending = 0;

/** Return the card; `onReady` is called with what is to be predicted: { uploads } or { folder }. */
export function imagesCard(root, onReady) {
  const files = h("input", { type: "file", multiple: true, class: "hidden", id: "files", accept: "image/*,.zip,.tif,.tiff,.webp,.bmp", change: event => take([...event.target.files], onReady) });
  const folder = h("input", { type: "file", webkitdirectory: true, class: "hidden", id: "folder-files", change: event => take([...event.target.files].filter(file => !file.name.startsWith(".")), onReady) });
  const path = h("input", { class: "field", id: "path", placeholder: "photos/new", "aria-describedby": "path-note", required: true });
  const area = h("div", { class: "drop", dragover: over, dragleave: over, drop: event => { over(event); take([...event.dataTransfer.files], onReady); } },
    h("div", { class: "ways" }, h("label", { class: "btn primary", for: "files" }, "Choose images or a zip"), files, h("label", { class: "btn", for: "folder-files" }, "Choose a folder"), folder), h("small", {}, "or drop or paste them here; they stay on this machine"), status);
  const form = h("form", { class: "path", submit: event => { event.preventDefault(); onReady({ folder: path.value }); } }, h("label", { for: "path" }, "Or a folder on the server’s disk"), path, h("button", { class: "btn" }, "Predict its images"), h("small", { id: "path-note" }, `below ${root}`));
  document.onpaste = event => { const pasted = [...(event.clipboardData?.files ?? [])]; if (pasted.length) take(pasted, onReady); };
  return h("section", { class: "card images", "aria-labelledby": "images" }, h("header", {}, h("h2", { id: "images" }, "Images")), area, form);
}

function over(event) {
  event.preventDefault();
  event.currentTarget.classList.toggle("over", event.type === "dragover");
}

async function take(files, onReady) {
  if (!files.length) return;
  const mine = ++sending, taken = [], errors = [], waiting = [...files];
  let done = 0;
  const say = () => status.replaceChildren(`Uploading ${done} of ${files.length}…`);
  say();
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    while (waiting.length && mine === sending) {
      await send(waiting.shift(), taken, errors);
      done += 1;
      if (mine === sending) say();
    }
  }));
  if (mine !== sending) return;
  state.uploads = taken;
  const text = `${count(taken.length, "image")} uploaded.`;
  status.replaceChildren(text, ...errors.slice(0, MOST_ERRORS).map(error => h("span", { class: "wrong" }, error)), errors.length > MOST_ERRORS ? h("span", { class: "wrong" }, `${errors.length - MOST_ERRORS} more could not be read.`) : "");
  announce(text);
  if (taken.length) onReady({ uploads: taken.map(({ id }) => id) });
}

async function send(file, taken, errors) {
  try {
    const address = `/frostbench/images?${new URLSearchParams({ name: file.webkitRelativePath || file.name })}`;
    const reply = await fetch(address, { method: "POST", body: file, headers: { "x-frostbench-token": TOKEN } });
    const { images, notes, error } = await reply.json();
    if (error) errors.push(error); else { taken.push(...images); errors.push(...notes); }
  } catch { errors.push(`${file.name}: the upload failed. Is "frostbench app" still running?`); }
}
