// The data set on the page: its images by row number, and what has been found out about them.
export const LEFT_OUT = -1, NO_LABEL = -2;

export const state = {
  cache: "", ids: [], groups: null, labels: [], names: [], roles: [], roleNames: [], first: {}, checked: new Set(), file: "",
  overview: null, checks: null, suspects: new Map(), copies: new Map(), next: new Map(), chosen: [], who: localStorage.getItem("frostbench_who") ?? "",
};

const listeners = new Set();

/** Call a function whenever the data set, its checks or its labels change. */
export function watch(listener) { listeners.add(listener); }

export function changed() { for (const listener of listeners) listener(); }

export function takeOverview(reply) {
  state.overview = reply;
  state.ids = reply.ids;
  state.groups = reply.group;
  state.roles = reply.roles;
  state.roleNames = reply.role_names;
  takeLabels(reply);
}

export function takeLabels(reply) {
  state.names = reply.class_names;
  state.labels = reply.labels;
  state.first = reply.first;
  state.file = reply.file;
  state.checked = new Set(reply.checked);
}

export function takeChecks(reply) {
  const { suspects, copies } = reply;
  state.checks = reply;
  state.suspects = new Map(suspects.rows.map((row, i) => [row, { suggested: suspects.suggested[i], confidence: suspects.confidence[i] }]));
  state.copies = new Map(copies.rows.map((row, i) => [row, { train: copies.train[i], cosine: copies.cosine[i] }]));
}

export function takeNext(reply) {
  state.next = new Map(reply.rows.map((row, i) => [row, { suggested: reply.suggested[i], confidence: reply.confidence[i] }]));
}

/** Return the name of a class by its number. */
export const className = number => ({ [LEFT_OUT]: "left out", [NO_LABEL]: "no label" })[number] ?? state.names[number];

/** Return the label of an image as it is now. */
export const labelOf = row => className(state.labels[row]);

/** Return whether an image is used for training or held out, in words. */
export const roleOf = row => ({ train: "training", select: "validation", calibrate: "calibration", test: "test" })[state.roleNames[state.roles[row]]] ?? "no role";

/** Return the images to check that nobody has checked, the least likely label first. */
export const toCheck = () => [...state.suspects.keys()].filter(row => !state.checked.has(row) && state.labels[row] !== LEFT_OUT);

/** Return the images without a label that nobody has looked at. */
export const toLabel = () => [...state.ids.keys()].filter(row => state.labels[row] === NO_LABEL && !state.checked.has(row));

/** Return the last part of a path. */
export const short = path => path.split("/").filter(Boolean).at(-1) ?? path;

/** Return the colour of a class: evenly spread hues, in three lightnesses. */
export function classColour(number) {
  const dark = document.documentElement.dataset.theme === "dark";
  const light = [dark ? 68 : 44, dark ? 56 : 58, dark ? 80 : 32][number % 3];
  return `hsl(${(number * 137.508 + 205) % 360} 62% ${light}%)`;
}
