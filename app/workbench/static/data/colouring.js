// How the points of the map are coloured: by class, suspicion, near-copy or role.
import { NO_LABEL, classColour, state } from "../dataset/state.js";

const theme = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const MOST_SHOWN = 12;

export const WAYS = { class: "Class", check: "To check", copy: "Near-copy", role: "Role" };

/** Return { kind of each point [N], kinds: [{ name, colour, big }] } for a way of colouring; kind -1 is not drawn. */
export function colouring(way) {
  const count = state.ids.length, kind = new Int32Array(count);
  if (way === "class") {
    const none = state.names.length;
    for (let i = 0; i < count; i++) kind[i] = state.labels[i] === NO_LABEL ? none : state.labels[i];
    return { kind, kinds: [...state.names.map((name, number) => ({ name, colour: classColour(number) })), { name: "no label", colour: theme("--edge") }] };
  }
  if (way === "role") {
    const place = { train: 0, select: 1, calibrate: 1, test: 2 };
    for (let i = 0; i < count; i++) kind[i] = place[state.roleNames[state.roles[i]]] ?? -1;
    return { kind, kinds: [{ name: "training", colour: theme("--a") }, { name: "validation and calibration", colour: theme("--star") }, { name: "test", colour: theme("--bad") }] };
  }
  const marked = way === "check" ? state.suspects : state.copies, words = way === "check" ? ["agrees with the images around it", "to check"] : ["no near-copy in training", "held out, with a near-copy in training"];
  for (let i = 0; i < count; i++) kind[i] = marked.has(i) && !(way === "check" && state.checked.has(i)) ? 1 : 0;
  return { kind, kinds: [{ name: words[0], colour: theme("--edge") }, { name: words[1], colour: theme("--b"), big: true }] };
}

/** Return the kinds for the legend: all if there are few, else the most frequent, and how many are not named. */
export function legend({ kind, kinds }) {
  const sizes = kinds.map(() => 0);
  for (const one of kind) if (one >= 0) sizes[one]++;
  const order = kinds.map((_, i) => i).filter(i => sizes[i]).sort((a, b) => kinds.length > MOST_SHOWN ? sizes[b] - sizes[a] : a - b);
  return { shown: order.slice(0, MOST_SHOWN).map(i => ({ ...kinds[i], number: i, size: sizes[i] })), more: Math.max(0, order.length - MOST_SHOWN) };
}
