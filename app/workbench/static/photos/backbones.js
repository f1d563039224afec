// The choice of a backbone, and the time that it will take, measured on a few images.
import { later } from "../shared/api.js";
import { announce, fail } from "../shared/bar.js";
import { count, h } from "../shared/dom.js";
import { duration, pace } from "./words.js";

const OTHER = "other", main = document.querySelector("#main");

/** Return the lines of a form; `onReady` is called with a backbone that works, or "" while there is none. */
export function backboneChoice(asked, images, onReady) {
  const said = h("p", { class: "estimate", role: "status" }, "Asking which backbones are on this machine …");
  const select = h("select", { class: "field", id: "photo-backbone", disabled: true, change: () => pick() });
  const text = h("input", { class: "field", id: "photo-other", placeholder: "timm:vit_small_patch16_dinov3.lvd1689m", autocomplete: "off", spellcheck: "false", "aria-label": "Another backbone, as PROVIDER:MODEL", input: () => onReady("") });
  const load = h("button", { class: "btn", type: "button", click: () => measure(select.value === OTHER ? text.value.trim() : select.value) }, "Load it and measure the time");
  const more = h("div", { class: "line", hidden: true }, text, load, h("small", {}, "Weights that are not on this machine are downloaded from Hugging Face."));
  let known = [], newest = 0;
  main.dataset.measured = "no";

  async function fill() {
    known = (await later("photos-backbones")).backbones;
    const group = (label, ones) => ones.length ? h("optgroup", { label }, ones.map(one => h("option", { value: one.name }, `${one.name} · ${one.dim.toLocaleString("en")} numbers, ${one.size} px, ${one.licence}`))) : "";
    select.replaceChildren(group("On this machine", known.filter(({ here }) => here)), group("Downloaded when first used", known.filter(({ here }) => !here)), h("option", { value: OTHER }, "Another timm, transformers or open_clip model …"));
    select.disabled = false;
    pick();
  }

  function pick() {
    const one = known.find(({ name }) => name === select.value);
    onReady("");
    newest += 1;
    text.hidden = Boolean(one);
    more.hidden = Boolean(one?.here);
    said.className = "estimate";
    said.textContent = one ? (one.here ? "" : one.how) : "PROVIDER:MODEL, with provider timm, huggingface or open_clip.";
    if (one?.here) measure(one.name);
  }

  async function measure(backbone) {
    const mine = newest += 1;
    onReady("");
    said.className = "estimate";
    said.textContent = `Loading ${backbone} and embedding a few images …`;
    main.dataset.measured = "no";
    load.disabled = true;
    try {
      const found = await later("photos-measure", { ...asked, backbone });
      if (mine !== newest) return;
      if (found.error) throw new Error(found.error);
      const unread = found.unreadable ? ` ${count(found.unreadable, "file")} of these could not be read.` : "";
      said.textContent = `${count(images, "image")} will take ${duration(found.seconds)}: ${pace(found.rate)}, measured on ${found.measured}. ${found.column}.${unread}`;
      onReady(backbone);
    } catch (error) {
      if (mine !== newest) return;
      said.className = "estimate wrong";
      said.textContent = error.message;
    } finally { load.disabled = false; }
    main.dataset.measured = "yes";
    announce(said.textContent);
  }

  fill().catch(fail);
  return h("div", { class: "backbone" }, h("div", { class: "line" }, h("label", { for: "photo-backbone" }, "Backbone"), select), more, said);
}
