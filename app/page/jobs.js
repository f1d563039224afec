// Shows all jobs of the store; `element` holds the list, `server.all_jobs` tells of them and cancels the one it is given.
const PERIOD = 2000;
const box = element.querySelector(".fp-alljobs"), list = box.querySelector(".fp-list");
let line = Promise.resolve(), waiting = 0;

// One question at a time: a short poll, and no connection that is held.
function ask(cancel = null) {
  waiting++;
  line = line.then(async () => {
    try {
      show(await server.all_jobs({ cancel }));
    } catch (error) {
      if (cancel) list.insertAdjacentText("afterbegin", `The job was not cancelled, for the server does not answer. (${error})`);
    }
    waiting--;
  });
}

function show(said) {
  box.dataset.n = said.unfinished;
  box.querySelector(".fp-count").textContent = said.unfinished ? `${said.unfinished} waiting or training` : "";
  if (list.dataset.shown === said.html) return;
  const held = list.contains(document.activeElement) ? document.activeElement.dataset.cancel : null;
  list.innerHTML = list.dataset.shown = said.html;
  if (held) list.querySelector(`[data-cancel="${held}"]`)?.focus();
}

element.addEventListener("click", event => {
  const button = event.target.closest("[data-cancel]");
  if (!button) return;
  button.disabled = true;
  ask(button.dataset.cancel);
});
setInterval(() => { if (!document.hidden && !waiting) ask(); }, PERIOD);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !waiting) ask(); });
ask();
