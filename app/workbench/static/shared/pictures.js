// Pictures of the images of a cache, asked for in batches when they come into view.
import { api } from "./api.js";
import { h } from "./dom.js";

const BATCH = 24, KEPT = 4000, NEAR_PX = "400px";
const kept = new Map(), waiting = [];
let asking = false;

/** Return the address of a picture of an image, 96 or 320 px. */
export function pictureAddress(cache, id, size = 96) {
  return `/frostbench/pictures?${new URLSearchParams({ cache, id, size })}`;
}

/** Return an <img> of an image; where its file is gone or has changed, it says so instead. */
export function picture(cache, id, { size = 96, alt = id } = {}) {
  const image = h("img", { alt, class: "picture", decoding: "async", "data-state": "waiting" });
  const key = pictureAddress(cache, id, size), known = kept.get(key);
  if (known) show(image, known); else { image.wanted = { cache, id, size, key }; seen.observe(image); }
  return image;
}

const seen = new IntersectionObserver(entries => {
  for (const { target, isIntersecting } of entries) {
    if (!isIntersecting) continue;
    seen.unobserve(target);
    waiting.push(target);
  }
  ask();
}, { rootMargin: NEAR_PX, scrollMargin: NEAR_PX });

function show(image, url) {
  image.src = url;
  image.dataset.state = "ready";
}

async function ask() {
  if (asking) return;
  asking = true;
  while (waiting.length) {
    const { cache, size } = waiting[0].wanted;
    const batch = waiting.filter(({ wanted }) => wanted.cache === cache && wanted.size === size).slice(0, BATCH);
    for (const image of batch) waiting.splice(waiting.indexOf(image), 1);
    try {
      const buffer = await api("pictures", { cache, size, ids: batch.map(({ wanted }) => wanted.id) });
      take(batch, buffer);
    } catch (error) { for (const image of batch) missing(image, error.message); }
  }
  asking = false;
}

/** The answer is the length of each picture as uint32, 0 if there is none, and then the pictures. */
function take(batch, buffer) {
  const lengths = new Uint32Array(buffer, 0, batch.length);
  let start = 4 * batch.length;
  batch.forEach((image, i) => {
    const { key } = image.wanted;
    if (!lengths[i]) { why(image, key); return; }
    const url = URL.createObjectURL(new Blob([new Uint8Array(buffer, start, lengths[i])], { type: "image/webp" }));
    start += lengths[i];
    keep(key, url);
    show(image, url);
  });
}

function keep(key, url) {
  kept.set(key, url);
  if (kept.size <= KEPT) return;
  const [oldest] = kept.keys();
  URL.revokeObjectURL(kept.get(oldest));
  kept.delete(oldest);
}

async function why(image, address) {
  missing(image, await fetch(address).then(reply => reply.text(), () => "The server does not respond."));
}

function missing(image, reason) {
  image.replaceWith(h("span", { class: "picture missing", role: "img", "aria-label": `${image.alt}: no picture. ${reason}`, title: reason }, "no picture"));
}
