// Uploads an image unchanged; the server responds with its ID, or with an error.
const input = element.querySelector("input"), status = element.querySelector("p"), picture = element.querySelector("img");
const area = element.querySelector(".fp-drop");
let newest = 0;

async function send(file) {
  const number = ++newest;
  show("sending", `Uploading ${file.name} …`);
  try {
    const response = await fetch(`frostbench/images?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const reply = await response.json();
    if (number !== newest) return;
    if (reply.error) show("failed", reply.error);
    else show("ready", reply.name, reply.id);
  } catch (error) {
    if (number === newest) show("failed", `The upload failed. Is "frostbench app" still running? (${error})`);
  }
}

function show(state, text, id = null) {
  area.dataset.state = state;
  status.textContent = text;
  status.setAttribute("role", state === "failed" ? "alert" : "status");
  status.classList.toggle("fp-error", state === "failed");
  picture.hidden = id === null;
  if (id === null) picture.removeAttribute("src");
  else { picture.src = `frostbench/images/${id}`; picture.alt = text; }
  window.frostbench_image = id;
  if (state !== "sending") trigger("upload");
}

input.addEventListener("change", () => { if (input.files.length) send(input.files[0]); input.value = ""; });
for (const name of ["dragover", "dragleave", "drop"]) area.addEventListener(name, event => {
  event.preventDefault();
  area.classList.toggle("fp-over", name === "dragover");
  if (name === "drop" && event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
});
document.addEventListener("paste", event => {
  const file = [...(event.clipboardData?.files ?? [])].find(pasted => pasted.type.startsWith("image/"));
  if (file) send(file);
});
