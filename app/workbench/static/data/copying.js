// Buttons that copy a command.
import { announce, fail } from "../shared/bar.js";
import { h } from "../shared/dom.js";

/** Return a button that copies a text, which its title shows. */
export function copyButton(title, text) {
  const button = h("button", { class: "btn", type: "button", title: text, click: async () => {
    if (!navigator.clipboard) { fail(new Error("The browser copies only from https and from this machine. Select the text instead.")); return; }
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    announce(`Copied: ${text}`);
    setTimeout(() => { button.textContent = title; }, 1500);
  } }, title);
  return button;
}
