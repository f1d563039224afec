// The embedding that runs or has ended: progress, stop and resume, and files that could not be read.
import { fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { copyButton } from "../data/copying.js";
import { duration, pace } from "./words.js";

const WAITING = { starting: "Starting …", listing: "Listing the photos …", loading: "Loading the backbone …" };

let isOpen = false;

/** Return whether an embedding is going on. */
export const isRunning = found => found !== null && ["starting", "listing", "loading", "embedding"].includes(found.state);

/** Return the card; `act` is called with stop, resume or forget. */
export function progressCard(found, act) {
  const { request, notes, command } = found;
  const lines = notes.length ? h("details", { open: isOpen, toggle: event => { isOpen = event.target.open; } }, h("summary", {}, count(notes.length, "note")), h("ul", { class: "notes" }, notes.map(text => h("li", {}, text)))) : null;
  const line = command ? h("p", { class: "command" }, "On the command line, in the folder of the page: ", h("code", {}, command), " ", copyButton("Copy", command)) : null;
  return h("section", { class: "card embedding", "aria-labelledby": "embedding", "data-embedding": found.state }, h("header", {}, h("h2", { id: "embedding" }, titleOf(found)), h("span", { class: "chip soft" }, request.backbone)), ...bodyOf(found, button(act)), lines, badTable(found), line);
}

function button(act) {
  return (name, text, kind = "") => h("button", { class: `btn ${kind}`, type: "button", click: async event => {
    event.currentTarget.disabled = true;
    try { await act(name); } catch (error) { fail(error); event.target.disabled = false; }
  } }, text);
}

function titleOf({ state, request }) {
  const name = request.cache;
  return { done: `${name} is ready`, stopped: `${name}: stopped`, failed: `${name}: not embedded`, lost: `${name}: interrupted` }[state] ?? `${name}: embedding ${request.folder}`;
}

function bodyOf(found, press) {
  const { state, done, kept, total, rate, seconds_left: left, n_bad: bad, error } = found;
  if (state === "done") return [h("p", {}, `${count(total - bad, "image")} embedded${bad ? `, ${count(bad, "file")} could not be read` : ""}.`), h("div", { class: "acts" }, h("a", { class: "btn primary", href: `/data?${new URLSearchParams({ cache: found.name })}` }, "Open the data set"), press("forget", "Hide this"))];
  const share = total ? (100 * done) / total : 0;
  const bar = h("div", { class: "progress" }, h("span", { class: "bar", role: "progressbar", "aria-label": "Images embedded", "aria-valuenow": Math.round(share), "aria-valuemin": 0, "aria-valuemax": 100 }, h("i", { style: `width:${share}%` })), h("span", { class: "said" }, WAITING[state] ?? `${done.toLocaleString("en")} of ${count(total, "image")}${rate && isRunning(found) ? ` · ${pace(rate)} · ${duration(left)} left` : ""}`));
  if (isRunning(found)) return [bar, h("div", { class: "acts" }, found.stopping ? h("button", { class: "btn", type: "button", disabled: true }, "Stopping …") : press("stop", "Stop"), h("small", {}, "It goes on if you close this page or stop the server."))];
  const what = error ? h("p", { class: "wrong" }, error) : null;
  return [what, total ? bar : null, h("p", {}, `The vectors of ${count(kept, "image")} are on the disk in ${found.name}. Resume goes on after them.`), h("div", { class: "acts" }, press("resume", "Resume", "primary"), press("forget", "Hide this"))];
}

/** Return the list of files that could not be read; the status has the first of them. */
function badTable({ bad, n_bad: all, name }) {
  if (!bad.length) return null;
  const rest = all > bad.length ? h("p", {}, `The first ${bad.length} of ${all.toLocaleString("en")}; all of them: frostbench cache bad ${name}`) : null;
  return h("div", { class: "bad" }, h("h3", {}, `${count(all, "file")} could not be read`), h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Files that could not be read" }, h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "File"), h("th", { scope: "col" }, "Why"))), h("tbody", {}, bad.map(([id, reason]) => h("tr", {}, h("td", {}, id), h("td", {}, reason)))))), rest);
}
