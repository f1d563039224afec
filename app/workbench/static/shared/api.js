// Requests to the server of this page.
const TOKEN = document.querySelector('meta[name="frostbench-token"]').content;
const GONE = 'The server does not respond. Is "frostbench app" still running? Start it, then reload this page.';

/** An error whose message can be shown. */
export class ApiError extends Error {}

/** Return the JSON, or the ArrayBuffer, of an address below /frostbench/api/; a body says what is asked for. */
export async function api(path, body = undefined) {
  const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(`/frostbench/api/${path}`, { ...init, headers: { "x-frostbench-token": TOKEN } });
  } catch {
    throw new ApiError(GONE);
  }
  if (response.headers.has("x-frostbench-stale")) location.reload();
  if (response.ok && response.headers.get("content-type") === "application/octet-stream") return response.arrayBuffer();
  const reply = await response.json().catch(() => ({ error: `The server sent no data (status ${response.status}).` }));
  if (!response.ok) throw new ApiError(reply.error);
  return reply;
}

/** Ask until the answer is no longer being computed; `waiting` is called each time it is not there yet. */
export async function later(path, body, waiting = () => {}) {
  for (let pause = 100; ; pause = Math.min(2000, pause * 1.5)) {
    const reply = await api(path, body);
    if (reply.state !== "computing") return reply;
    waiting();
    await new Promise(resolve => setTimeout(resolve, pause));
  }
}
