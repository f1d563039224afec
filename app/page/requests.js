// Adds the server's token, which no other page can read, to the page's requests, and shows their errors, which Gradio
// does not do for events outside of its queue.
(() => {
  const TOKEN = "TOKEN_OF_THIS_SERVER", EVENTS = "/gradio_api/run/", SECONDS = 15, plain = window.fetch;
  const GONE = 'The server does not respond. Is "frostbench app" still running? Start it; this page reconnects by itself.';
  let hiding = 0, gone = false, leaving = false;

  window.fetch = async (input, init = {}) => {
    const url = new URL(input instanceof Request ? input.url : input, location.href);
    if (url.origin !== location.origin) return plain(input, init);
    const headers = new Headers(init.headers || (input instanceof Request ? input.headers : undefined));
    headers.set("x-frostbench-token", TOKEN);
    let response;
    try {
      response = await plain(input, { ...init, headers });
    } catch (error) {
      if (url.pathname.startsWith(EVENTS) && !leaving) { gone = true; show(GONE); }
      throw error;
    }
    if (gone) { gone = false; hide(); }
    if (response.headers.has("x-frostbench-stale")) reload();
    else if (!response.ok && url.pathname.startsWith(EVENTS)) show(await messageOf(response.clone()), SECONDS);
    return response;
  };

  // The server was restarted: reload the page once to get its token. The form is kept.
  function reload() {
    if (sessionStorage.getItem("frostbench_stale") === TOKEN) return;
    sessionStorage.setItem("frostbench_stale", TOKEN);
    location.reload();
  }

  async function messageOf(response) {
    const text = await response.text();
    try { return JSON.parse(text).error || text; } catch { return text; }
  }

  function show(message, seconds = null) {
    const box = document.querySelector("#fp-toast") || document.body.appendChild(document.createElement("div"));
    const close = document.createElement("button");
    Object.assign(box, { id: "fp-toast", className: "fp fp-error", textContent: message });
    box.dataset.testid = "toast-body";
    box.setAttribute("role", "alert");
    Object.assign(close, { type: "button", textContent: "×", onclick: hide });
    close.setAttribute("aria-label", "Close");
    box.append(close);
    clearTimeout(hiding);
    if (seconds !== null) hiding = setTimeout(hide, 1000 * seconds);
  }

  function hide() { document.querySelector("#fp-toast")?.remove(); }
  window.addEventListener("pagehide", () => { leaving = true; });
})();
