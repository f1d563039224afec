// Shows all jobs of the store; `element` holds the list, `server.all_jobs` returns them and can cancel one.
const PERIOD = 2000;
const box = element.querySelector(".fp-alljobs"), list = box.querySelector(".fp-list");
let queue = Promise.resolve(), waiting = 0;

// One request at a time: short polls, and no open connection.
function load(cancel = null) {
  waiting++;
  queue = queue.then(async () => {
    try {
      show(await server.all_jobs({ cancel }));
    } catch (error) {
      if (cancel) list.insertAdjacentText("afterbegin", `The job was not cancelled: the server does not respond. (${error})`);
    }
    waiting--;
  });
}

function show(reply) {
  box.dataset.n = reply.unfinished;
  box.querySelector(".fp-count").textContent = reply.unfinished ? `${reply.unfinished} waiting or training` : "";
  if (list.dataset.shown === reply.html) return;
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.cancel : null;
  list.innerHTML = list.dataset.shown = reply.html;
  if (focused) list.querySelector(`[data-cancel="${focused}"]`)?.focus();
}

element.addEventListener("click", event => {
  const button = event.target.closest("[data-cancel]");
  if (!button) return;
  button.disabled = true;
  load(button.dataset.cancel);
});
setInterval(() => { if (!document.hidden && !waiting) load(); }, PERIOD);
document.addEventListener("visibilitychange", () => { if (!document.hidden && !waiting) load(); });
load();
