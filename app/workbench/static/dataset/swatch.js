// The colour of a class as a small circle.
import { h } from "../shared/dom.js";
import { classColour } from "./state.js";

/** Return a circle in the colour of a class. */
export function swatch(number) { return h("i", { class: "swatch", style: `background:${classColour(number)}`, "aria-hidden": "true" }); }
