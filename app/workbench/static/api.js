// Requests to the server of this page.
const TOKEN = document.querySelector('meta[name="frostbench-token"]').content;
const GONE = 'The server does not respond. Is "frostbench app" still running? Start it, then reload this page.';

/** An error whose message can be shown. */
export class ApiError extends Error {}

/** Return the JSON of an address below /frostbench/api/; with a body, the request changes or computes something. */
export async function api(path, body = undefined) {
  const init = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let response;
  try {
    response = await fetch(`/frostbench/api/${path}`, { ...init, headers: { "x-frostbench-token": TOKEN } });
  } catch {
    throw new ApiError(GONE);
  }
  if (response.headers.has("x-frostbench-stale")) location.reload();
  const reply = await response.json().catch(() => ({ error: `The server sent no data (status ${response.status}).` }));
  if (!response.ok) throw new ApiError(reply.error);
  return reply;
}
