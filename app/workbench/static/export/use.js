// How to use the files, and how to make them on the command line.
import { h } from "../shared/dom.js";
import { copyButton } from "../data/copying.js";

const SHELL = "unzip measured-*.zip\nfrostbench predict head PHOTOS --out predictions.csv\nfrostbench predict head PHOTOS --prior uniform";
const PYTHON = 'import frostbench\nimport torch\n\nhead, cache = frostbench.load("head"), frostbench.Cache("CACHE")\nvectors = {name: torch.tensor(cache.vectors(name)) for name in head.columns}\np = head.log_probabilities(vectors).exp()  # [N, C], in the order of head.class_names';

/** Return the card. */
export function useCard({ commands, why_not: whyNot }) {
  const block = (id, title, text) => h("div", {}, h("div", { class: "line" }, h("h3", { id }, title), copyButton("Copy", text)), h("pre", { tabindex: "0", role: "group", "aria-labelledby": id }, text));
  return h("section", { class: "card use", "aria-labelledby": "use" }, h("header", {}, h("h2", { id: "use" }, "Use it")), block("shell", "On the command line", SHELL), block("python", "In Python", PYTHON),
    commands ? h("details", {}, h("summary", {}, "Train and export it again on the command line"), block("again", "Commands", commands)) : h("p", {}, `Commands that train it again are not known: ${whyNot}`));
}
