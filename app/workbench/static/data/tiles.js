// What is worth knowing about the data set before training, each with what to do about it.
import { h, count } from "../shared/dom.js";
import { copyButton } from "./copying.js";
import { NEXT } from "./queue.js";
import { NO_LABEL, state, toCheck, toLabel } from "../dataset/state.js";

const percent = share => share > 0 && share < 0.001 ? "under 0.1 %" : `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** Return the row of tiles; `onCheck` opens the queue, of labels to check or, given `NEXT`, of images to label next. */
export function tiles(onCheck) {
  return h("section", { class: "card tiles", "aria-label": "Overview" }, images(onCheck), classes(), labels(onCheck), copies(), groups());
}

function tile(title, value, text, { alert = false, action = null } = {}) {
  return h("div", { class: "tile", "data-tile": title }, h("h2", {}, title), h("b", { class: alert ? "value alert" : "value" }, value), h("p", {}, text), action);
}

function images(onCheck) {
  const { unreadable, reasons } = state.overview;
  const why = Object.entries(reasons).map(([reason, rows]) => `${reason}: ${rows}`).join("; ");
  const without = state.labels.filter(label => label === NO_LABEL).length;
  return tile("Images", state.ids.length.toLocaleString("en"), `${without ? `${without.toLocaleString("en")} without a label; ` : ""}${unreadable ? `${count(unreadable, "file")} could not be read (${why})` : "all files could be read"}`, { alert: unreadable > 0, action: toLabel().length ? h("button", { class: "btn", type: "button", click: () => onCheck(NEXT) }, "Label them") : null });
}

function classes() {
  const sizes = state.names.map(() => 0);
  for (const label of state.labels) if (label >= 0) sizes[label]++;
  const there = sizes.filter(Boolean), [least, most] = [Math.min(...there), Math.max(...there)];
  const empty = sizes.length - there.length;
  const text = there.length ? `${least.toLocaleString("en")} to ${most.toLocaleString("en")} images each, ${(most / least).toFixed(most / least < 10 ? 1 : 0)} : 1${empty ? `; ${empty} without images` : ""}` : "no images";
  return tile("Classes", sizes.length.toLocaleString("en"), text, { alert: empty > 0 });
}

function labels(onCheck) {
  const { checks } = state;
  if (!checks) return tile("Labels to check", "…", "comparing each label with the images around it");
  if (checks.reason) return tile("Labels to check", "–", checks.reason);
  const left = toCheck().length;
  const text = `${percent(left / Math.max(1, state.labels.filter(label => label !== NO_LABEL).length))} disagree with the images around them${state.checked.size ? `; ${count(state.checked.size, "label")} checked` : ""}`;
  return tile("Labels to check", left.toLocaleString("en"), text, { alert: left > 0, action: left ? h("button", { class: "btn", type: "button", click: () => onCheck() }, "Check them") : null });
}

function copies() {
  const { checks } = state, title = "Near-copies across the split";
  if (!checks) return tile(title, "…", "searching held-out images for copies in training");
  if (!checks.roles.length) return tile(title, "–", "the images cannot be split into training and held-out ones");
  const held = checks.roles.reduce((sum, role) => sum + role.rows, 0), found = state.copies.size;
  if (!found) return tile(title, "0", "no held-out image has a near-copy in training");
  const command = `frostbench train ${state.cache} --set split.duplicates=0.98`;
  return tile(title, found.toLocaleString("en"), `${percent(found / held)} of held-out images have one in training${found / held < 0.01 ? "" : ", so scores are too good"}. This keeps copies on one side:`, { alert: true, action: copyButton("Copy command", command) });
}

function groups() {
  const { groups: found } = state.overview;
  if (found !== null) return tile("Groups", found.toLocaleString("en"), "images of a group are never divided between training and test");
  return tile("Groups", "none", "If several images show the same thing, say so when embedding, or scores are too good:", { alert: true, action: copyButton("Copy option", "--group-regex '^([^_]+)_'") });
}
