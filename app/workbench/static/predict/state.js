// What the tab Predict shows.
export const state = {
  settings: [],        // settings that keep a head
  heads: [],           // those that predict
  uploads: [],         // images on the server: { id, name }
  set: null,           // name of the set that is predicted
  found: null,         // the server's last answer about it
  filter: "all", cut: 0.5, temperature: 1, prior: 0, shown: 120,
};

export const cuts = 100;
export const adjustment = () => ({ temperature: state.temperature, prior: state.prior });

/** Return whether any head is below the cut for an image. */
export const unsure = i => state.found.heads.some(head => head.classes[i] >= 0 && (head.unsure[i] || head.probabilities[i] < state.cut));
export const unlike = i => state.found.heads.some(head => head.unlike[i] === true);
export const unread = i => state.found.errors[i] !== null;

/** Return whether heads name different classes. */
export function disagree(i) {
  if (unread(i)) return false;
  const names = state.found.heads.map((head, at) => className(at, head.classes[i]));
  return new Set(names).size > 1;
}

export const className = (head, index) => (index < 0 ? "" : state.found.facts[head].classes[index]);

export const FILTERS = {
  all: ["All", () => true], unsure: ["Not sure", i => !unread(i) && unsure(i)], unlike: ["Unlike training", i => !unread(i) && unlike(i)],
  disagree: ["Heads disagree", disagree], unread: ["Not readable", unread],
};

/** Return the numbers of the images that a filter keeps. */
export const chosen = (filter = state.filter) => state.found.errors.map((_, i) => i).filter(FILTERS[filter][1]);
