// A message above the cards that stays until it is closed, with what can be done about it.
import { announce } from "../shared/bar.js";
import { h } from "../shared/dom.js";

export const notice = h("div", { class: "notice", role: "group", "aria-label": "Message", hidden: true });

/** Show a message, with buttons or links; the first of them gets the focus. */
export function tell(text, ...more) {
  notice.hidden = false;
  notice.replaceChildren(h("span", {}, text), ...more, h("button", { class: "icon", type: "button", "aria-label": "Close this message", click: () => { notice.hidden = true; } }, "✕"));
  if (more.length) more[0].focus();
  announce(text);
}
