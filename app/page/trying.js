// An image is sent as it is; the server answers with its number, or in words why it cannot be tried.
const input = element.querySelector("input"), told = element.querySelector("p"), picture = element.querySelector("img");
const area = element.querySelector(".fp-drop");
let newest = 0;

async function send(file) {
  const number = ++newest;
  show("sending", `Sending ${file.name} …`);
  try {
    const answer = await fetch(`frostbench/images?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
    const said = await answer.json();
    if (number !== newest) return;
    if (said.error) show("failed", said.error);
    else show("ready", said.name, said.id);
  } catch (error) {
    if (number === newest) show("failed", `The server did not take the image. Is "frostbench app" still running? (${error})`);
  }
}

function show(state, words, id = null) {
  area.dataset.state = state;
  told.textContent = words;
  told.setAttribute("role", state === "failed" ? "alert" : "status");
  told.classList.toggle("fp-error", state === "failed");
  picture.hidden = id === null;
  if (id === null) picture.removeAttribute("src");
  else { picture.src = `frostbench/images/${id}`; picture.alt = words; }
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
  const file = [...(event.clipboardData?.files ?? [])].find(each => each.type.startsWith("image/"));
  if (file) send(file);
});
