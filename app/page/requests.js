// What the page asks of its server carries the server's token, which no other page can read; and what goes wrong is said,
// which Gradio does not do for events outside of its queue.
(() => {
  const TOKEN = "TOKEN_OF_THIS_SERVER", EVENTS = "/gradio_api/run/", SECONDS = 15, plain = window.fetch;
  const GONE = 'The server does not answer. Is "frostbench app" still running? Start it; this page goes on by itself.';
  let hiding = 0, gone = false, leaving = false;

  window.fetch = async (input, init = {}) => {
    const asked = new URL(input instanceof Request ? input.url : input, location.href);
    if (asked.origin !== location.origin) return plain(input, init);
    const headers = new Headers(init.headers || (input instanceof Request ? input.headers : undefined));
    headers.set("x-frostbench-token", TOKEN);
    let answer;
    try {
      answer = await plain(input, { ...init, headers });
    } catch (error) {
      if (asked.pathname.startsWith(EVENTS) && !leaving) { gone = true; tell(GONE); }
      throw error;
    }
    if (gone) { gone = false; hide(); }
    if (answer.headers.has("x-frostbench-stale")) renew();
    else if (!answer.ok && asked.pathname.startsWith(EVENTS)) tell(await wordsOf(answer.clone()), SECONDS);
    return answer;
  };

  // The server was started anew: the page is loaded anew, once, to learn its token. What was set is kept.
  function renew() {
    if (sessionStorage.getItem("frostbench_stale") === TOKEN) return;
    sessionStorage.setItem("frostbench_stale", TOKEN);
    location.reload();
  }

  async function wordsOf(answer) {
    const text = await answer.text();
    try { return JSON.parse(text).error || text; } catch { return text; }
  }

  function tell(words, seconds = null) {
    const box = document.querySelector("#fp-told") || document.body.appendChild(document.createElement("div"));
    const close = document.createElement("button");
    Object.assign(box, { id: "fp-told", className: "fp fp-error", textContent: words });
    box.dataset.testid = "toast-body";
    box.setAttribute("role", "alert");
    Object.assign(close, { type: "button", textContent: "×", onclick: hide });
    close.setAttribute("aria-label", "Close");
    box.append(close);
    clearTimeout(hiding);
    if (seconds !== null) hiding = setTimeout(hide, 1000 * seconds);
  }

  function hide() { document.querySelector("#fp-told")?.remove(); }
  window.addEventListener("pagehide", () => { leaving = true; });
})();
