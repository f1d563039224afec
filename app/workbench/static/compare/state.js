// The comparison on the page: two settings, and what they say about the same images.
export const state = { runs: [], pins: {}, a: null, b: null, found: null, metric: "macro_f1_fg", gallery: "fixes", cell: null };

/** Return a metric as text: shares in per cent. */
export function figure(metric, value) {
  if (value === null || value === undefined) return "–";
  return metric.share ? (100 * value).toFixed(1) : value.toFixed(3);
}

/** Return the images of a kind, as positions: those that B fixes, B breaks, or both get wrong, by the first seed. */
export function flips(kind) {
  const { labels, sides: { a, b } } = state.found, [one, other] = [a.said[0], b.said[0]];
  const is = { fixes: i => one[i] !== labels[i] && other[i] === labels[i], breaks: i => one[i] === labels[i] && other[i] !== labels[i], wrong: i => one[i] !== labels[i] && other[i] !== labels[i] }[kind];
  return labels.map((_, i) => i).filter(is);
}

/** Return the images of one label, as positions, for which A or B says a class with at least one seed. */
export function inCell({ label, said }) {
  const { labels, sides: { a, b } } = state.found;
  return labels.map((_, i) => i).filter(i => labels[i] === label && [...a.said, ...b.said].some(one => one[i] === said));
}

export const className = number => state.found.class_names[number];

/** Return a verdict as [words, kind of chip]. */
export function verdictOf(verdict) {
  if (verdict === "better") return ["B is better", "good"];
  if (verdict === "worse") return ["A is better", "bad"];
  return [verdict.replace("can't", "can’t") || "–", "soft"];
}
