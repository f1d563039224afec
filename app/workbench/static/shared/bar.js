// The bar at the top: tabs, jobs and theme. Other modules get `announce` for the live region.
import { api } from "./api.js";
import { h } from "./dom.js";

const THEME = "frostbench_theme", PERIOD = 2000;
const pill = document.querySelector("#job-pill"), photos = document.querySelector("#photos-pill"), live = document.querySelector("#live");

/** Tell users of screen readers what has changed. */
export function announce(text) { live.textContent = text; }

/** Show an error at the top of the page until it is closed. */
export function fail(error) {
  const box = document.querySelector("#alert");
  box.replaceChildren(error.message ?? String(error), h("button", { class: "icon", "aria-label": "Close", click: () => { box.hidden = true; } }, "✕"));
  box.hidden = false;
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem(THEME, name);
  document.dispatchEvent(new Event("theme"));
}

document.querySelector("#theme").addEventListener("click", () => {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
});

const bar = share => h("span", { class: "bar", "aria-hidden": "true" }, h("i", { style: `width:${share}%` }));

async function jobs() {
  if (document.hidden) return;
  try {
    const { unfinished, share, text, embedding } = await api("jobs");
    pill.hidden = !unfinished;
    photos.hidden = !embedding;
    pill.replaceChildren(bar(share), h("b", {}, `${unfinished} training`, h("span", { class: "hidden" }, " or waiting")), text ? ` ${text}` : "");
    if (embedding) photos.replaceChildren(bar(embedding.share), h("b", {}, "embedding"), ` ${embedding.text || `${embedding.share} %`}`);
  } catch { pill.hidden = photos.hidden = true; }
}

jobs();
setInterval(jobs, PERIOD);
document.addEventListener("visibilitychange", jobs);
